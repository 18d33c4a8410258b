//! `candor doctor` as people use it: whatever this machine is like, its exit code, its text and its
//! JSON tell the same.

use std::process::{Command, Output};

use serde_json::Value;

fn doctor(arguments: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_candor"))
        .arg("doctor")
        .args(arguments)
        .env("CANDOR_CACHE", cache.path())
        .env_remove("NOTIFY_SOCKET")
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn text_and_json_tell_the_same() {
    let output = doctor(&["--json"]);
    let objects: Vec<Value> =
        text(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (verdict, checks) = objects.split_last().unwrap();
    assert_eq!(verdict["type"], "verdict");
    for state in ["ok", "limited", "missing"] {
        let count = checks.iter().filter(|check| check["data"]["state"] == state).count();
        assert_eq!(verdict["data"][state], count, "{state}");
    }
    let stops =
        |check: &&Value| check["data"]["is_needed"] == true && check["data"]["state"] == "missing";
    let can_run = checks.iter().find(stops).is_none();
    assert_eq!(verdict["data"]["can_run"], can_run);
    assert_eq!(output.status.code(), Some(if can_run { 0 } else { 1 }));

    let shown = doctor(&[]);
    assert_eq!(shown.status, output.status);
    let shown = text(&shown);
    let can = if can_run { "can" } else { "cannot" };
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with(&format!("A gateway on CAN interfaces {can} run here: ")), "{last}");
    for check in checks {
        assert_eq!(check["type"], "check");
        if let Some(fix) = check["data"]["fix"].as_str() {
            assert!(shown.contains(&format!("         $ {fix}\n")), "{fix}");
        }
    }
    // The cache is empty.
    assert!(shown.contains("missing  kernels: no kernel is in the cache\n"), "{shown}");
}

#[test]
fn what_is_fine_can_be_left_out() {
    let shown = text(&doctor(&["--brief"]));
    assert!(!shown.lines().any(|line| line.starts_with("ok ")), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("missing  kernels")), "{shown}");
}

/// Every check is explained, under the name that it is shown with.
#[test]
fn every_check_is_documented() {
    let manual = include_str!("../../../docs/doctor.md");
    for line in text(&doctor(&["--json"])).lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        if let Some(name) = object["data"]["name"].as_str() {
            assert!(manual.contains(&format!("| `{name}` |")), "docs/doctor.md lacks `{name}`");
        }
    }
}

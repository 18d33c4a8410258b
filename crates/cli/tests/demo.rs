//! `candor demo` as its user sees it.

mod progress;

use std::fs;
use std::process::Command;

use progress::without_progress;

#[test]
fn it_shows_a_profile_writes_a_report_and_says_what_to_try_next() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    let output = command.args(["demo", "--out"]).arg(&out).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{stderr}");

    assert!(stdout.contains("frames with at least this latency"), "{stdout}");
    let widest = stdout.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 80, "{widest}");
    let head = stdout.lines().find(|line| line.contains("one-at-a-time  "));
    let names: Vec<_> = head.unwrap().split_whitespace().collect();
    assert_eq!(names, ["one-at-a-time", "car", "flood"]);
    let stderr = without_progress(&stderr);
    let reported: Vec<_> = stderr.lines().collect();
    let [report, _, next, _, signals] = reported.as_slice() else { panic!("{stderr}") };
    assert_eq!(*report, format!("report: {}", out.join("index.html").display()));
    assert!(next.starts_with("  candor lab run "), "{next}");
    assert!(signals.starts_with("  candor signals serve "), "{signals}");
    for name in ["drive.log", "small-car.dbc"] {
        let path = out.join("experiment").join(name);
        assert!(path.is_file() && signals.contains(&path.display().to_string()), "{signals}");
    }

    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("<html"));
    for name in ["one-at-a-time", "car", "flood"] {
        assert!(out.join(format!("results/{name}.json")).is_file(), "{name}");
    }
    // What it ran can be run again.
    let experiment = out.join("experiment/small-car.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    let listed = command.args(["lab", "list"]).arg(experiment).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["one-at-a-time", "car", "flood"]);
}

#[test]
fn a_file_in_the_way_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    fs::write(&out, "a file").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    let output = command.args(["demo", "--out"]).arg(&out).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("cannot be written") && stderr.contains("--out"), "{stderr}");
    assert_eq!(fs::read(&out).unwrap(), b"a file");
}

//! `lab run`: results, reports, progress, interrupts.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::scene::{CAMPAIGN, Scene, keys, names, reported};

#[test]
fn runs_are_verified() {
    let scene = Scene::new(CAMPAIGN);
    let (stdout, stderr) = scene.run(&["run", "two.toml", "--out", "out", "--verify"], 0);
    assert!(stdout.contains("flood"), "{stdout}");
    assert_eq!(stderr, "report: out/index.html\n");
}

#[test]
fn run_writes_results_and_a_report() {
    let scene = Scene::new(CAMPAIGN);
    let (stdout, stderr) = scene.run(&["run", "two.toml", "--out", "out"], 0);
    let head = "experiment  sent  received  not routed  refused  lost ";
    assert!(stdout.starts_with(head), "{stdout}");
    assert_eq!(stderr, "report: out/index.html\n");
    let expected = ["calm.csv", "calm.json", "flood.csv", "flood.json"];
    assert_eq!(names(&scene.out().join("results")), expected);
    let (_, stderr) = scene.run(&["report", "out"], 0);
    assert_eq!(stderr, "report: out/index.html\n");
}

#[test]
fn show_draws_the_latency_that_results_have() {
    let without_gateway = "bus.one.bitrate = \"1M\"\ntraffic.kind = \"flood\"\ncount = 50\n";
    for (campaign, label) in [(CAMPAIGN, "Gateway latency"), (without_gateway, "Response time")] {
        let scene = Scene::new(campaign);
        scene.run(&["run", "two.toml", "--out", "out"], 0);
        let (stdout, _) = scene.run(&["show", "out"], 0);
        assert!(stdout.contains(label), "{stdout}");
    }
}

/// The report opens on the experiments of the last run, whatever else is in the folder.
#[test]
fn what_ran_last_is_what_the_report_shows() {
    let scene = Scene::new(CAMPAIGN);
    let latest = || fs::read_to_string(scene.out().join("report/latest.json")).unwrap();
    scene.run(&["run", "two.toml", "--out", "out"], 0);
    assert_eq!(latest(), "[\"calm\",\"flood\"]");
    scene.run(&["run", "two.toml", "--out", "out", "--only", "flood"], 0);
    assert_eq!(latest(), "[\"flood\"]");
    scene.run(&["report", "out"], 0);
    assert_eq!(latest(), "[\"flood\"]", "nothing ran");
    let data = fs::read_to_string(scene.out().join("report/data.js")).unwrap();
    assert!(data.contains("\"latest\":[\"flood\"]"), "{data}");
}

#[test]
fn large_campaigns_say_that_there_is_no_line_per_frame() {
    let scene = Scene::new(CAMPAIGN);
    let many = ["run", "two.toml", "--out", "out", "--set", "count=50_001"];
    let (stdout, _) = scene.run(&many, 0);
    assert!(stdout.contains("the experiments send 100,002 frames; above 100,000"), "{stdout}");
    assert_eq!(names(&scene.out().join("results")), ["calm.json", "flood.json"]);
    let (stdout, _) = scene.run(&["run", "two.toml", "--out", "out", "--set", "count=50"], 0);
    assert!(!stdout.contains("no line per frame"), "{stdout}");
}

#[test]
fn json_lines_have_the_documented_fields() {
    let scene = Scene::new(CAMPAIGN);
    let results = scene.json(&["run", "two.toml", "--out", "out", "--json"], "result", 0);
    let names: Vec<_> = results.iter().map(|result| result["experiment"].as_str()).collect();
    assert_eq!(names, [Some("calm"), Some("flood")]);
    for result in &results {
        let expected = [
            "experiment",
            "group",
            "seed",
            "testbed",
            "cached",
            "sent",
            "received",
            "not_routed",
            "refused",
            "lost",
            "duplicated",
            "reordered",
            "late",
            "metrics",
            "sections",
            "file",
        ];
        assert_eq!(keys(result), expected.into());
        let expected = [
            "count",
            "min_ns",
            "p50_ns",
            "p90_ns",
            "p99_ns",
            "p999_ns",
            "max_ns",
            "mean_ns",
            "stddev_ns",
        ];
        assert_eq!(keys(&result["metrics"]["gateway_latency"]), expected.into());
        assert_eq!(result["sent"], 200);
        let number = |key: &str| result[key].as_u64().unwrap();
        let endings = ["received", "not_routed", "refused", "lost"].map(number);
        assert_eq!(endings.iter().sum::<u64>(), 200, "{result}");
        assert!(scene.0.path().join(result["file"].as_str().unwrap()).is_file());
    }
    assert_eq!(results[0]["metrics"]["gateway_latency"]["min_ns"], 35_000);
    assert_eq!(results[0]["lost"], 0);

    let arguments = ["claims", "two.toml", "--out", "out", "--json"];
    let (stdout, _) = scene.run(&arguments, 0);
    let of_type = |kind: &str| -> Vec<Value> {
        let lines = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["type"] == kind).map(|mut line| line["data"].take()).collect()
    };
    let claims = of_type("claim");
    assert_eq!(claims.len(), 2);
    let expected = [
        "id",
        "says",
        "published",
        "bounds",
        "each",
        "alternative",
        "basis",
        "unit",
        "value",
        "seeds",
        "least",
        "most",
        "agrees",
        "agreement",
        "note",
    ];
    assert_eq!(keys(&claims[0]), expected.into());
    let groups = of_type("claim_group");
    assert_eq!(groups.len(), 2);
    let expected = ["id", "claims", "yes", "no", "depends", "too_few_seeds", "missing"];
    assert_eq!(keys(&groups[0]), expected.into());
    assert_eq!((&groups[0]["id"], &groups[0]["yes"]), (&"A".into(), &1.into()));
    assert_eq!((&claims[0]["value"], &claims[0]["agrees"]), (&0.0.into(), &true.into()));
    assert_eq!(claims[0]["unit"], "frames");
    let verdict = serde_json::json!({
        "claims": 2, "yes": 2, "depends": 0, "no": 0, "too_few_seeds": 0, "missing": 0,
        "agrees": true, "exit_code": 0,
    });
    assert_eq!(of_type("verdict"), [verdict]);
    assert!(stdout.lines().last().unwrap().starts_with("{\"type\":\"verdict\""), "it comes last");
}

#[test]
fn one_is_no_plural() {
    let scene = Scene::new(CAMPAIGN);
    let (_, stderr) = scene.run(&["list", "two.toml", "--only", "calm"], 0);
    assert_eq!(stderr, "1 experiment: 1 in sim\n");
    let (_, stderr) = scene.run(&["list", "two.toml"], 0);
    assert_eq!(stderr, "2 experiments: 2 in sim\n");
}

#[test]
fn a_result_can_be_had_again_with_its_command() {
    let scene = Scene::new(CAMPAIGN);
    let set = ["--set", "title=a b", "--set", "count=50", "--seed", "7"];
    let first = [&["run", "two.toml", "--out", "first", "--only", "flood"], &set[..]].concat();
    scene.run(&first, 0);
    let path = scene.0.path().join("first/results/flood.json");
    let text = fs::read_to_string(&path).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let command = result["command"].as_str().unwrap();
    assert_eq!(
        command,
        "candor lab run two.toml --only flood --set 'title=a b' --set count=50 --seed 7"
    );
    let shell = command.replacen("candor", env!("CARGO_BIN_EXE_candor"), 1) + " --out again";
    let mut again = Command::new("sh");
    let output = again.current_dir(scene.0.path()).args(["-c", &shell]).output().unwrap();
    reported(&output, 0);
    for file in ["flood.json", "flood.csv"] {
        let read = |out: &str| fs::read(scene.0.path().join(out).join("results").join(file));
        assert!(read("first").unwrap() == read("again").unwrap(), "{file}");
    }
}

#[test]
fn there_is_no_progress_bar_in_a_pipe() {
    let scene = Scene::new(CAMPAIGN);
    let (_, stderr) = scene.run(&["run", "two.toml", "--out", "out", "--set", "count=50000"], 0);
    assert_eq!(stderr, "report: out/index.html\n");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scene = Scene::new(CAMPAIGN);
    for arguments in [
        &["list", "two.toml"][..],
        &["list", "two.toml", "--json"],
        &["run", "two.toml", "--out", "out"],
        &["run", "two.toml", "--out", "out", "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = scene.command(arguments).stdout(writer).output().unwrap();
        reported(&output, 0);
    }
    // The report is written all the same.
    assert!(scene.out().join("index.html").is_file());
}

#[test]
fn messages_without_a_cycle_time_are_reported() {
    let dbc = "VERSION \"\"\n\nNS_ :\n\nBS_:\n\nBU_: Engine\n\n\
               BO_ 256 Fast: 8 Engine\n SG_ A : 0|8@1+ (1,0) [0|255] \"\" Engine\n\n\
               BO_ 512 Once: 8 Engine\n SG_ B : 0|8@1+ (1,0) [0|255] \"\" Engine\n\n\
               BO_ 513 Never: 8 Engine\n SG_ C : 0|8@1+ (1,0) [0|255] \"\" Engine\n\n\
               BA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 10000;\n\
               BA_DEF_DEF_ \"GenMsgCycleTime\" 0;\n\
               BA_ \"GenMsgCycleTime\" BO_ 256 10;\n";
    let scene = Scene::new(CAMPAIGN);
    fs::write(scene.0.path().join("car.dbc"), dbc).unwrap();
    let arguments = [
        "run",
        "two.toml",
        "--out",
        "out",
        "--only",
        "calm",
        "--json",
        "--set",
        "traffic.kind=periodic",
        "--set",
        "traffic.dbc=car.dbc",
        "--set",
        "traffic.nodes.in=[\"Engine\"]",
    ];
    let (stdout, stderr) = scene.run(&arguments, 0);
    let reported = "warning: car.dbc: 2 of 3 messages have no cycle time and are not sent";
    assert_eq!(stderr.matches(reported).count(), 1, "{stderr}");
    assert!(stderr.contains("GenMsgCycleTime"), "{stderr}");
    assert!(stdout.contains("\"sent\":200"), "{stdout}");
}

/// Waits until the condition holds, for half a minute at most.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "other programs tell nobody of their files and end")]
fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    (0..3_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        condition()
    })
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_finished() {
    let text = CAMPAIGN
        .split("[[claim]]")
        .next()
        .unwrap()
        // Far longer than the test would wait.
        .replace("name = \"flood\"", "name = \"flood\"\ncount = 1_000_000_000_000\n");
    let text = format!("per_frame = true\n{text}");
    let scene = Scene::new(&text);
    let mut child = scene
        .command(&["run", "two.toml", "--out", "out", "--jobs", "1", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let results = scene.out().join("results");
    // Until the first experiment is finished and the second has begun.
    let started = comes_true(|| {
        let names = fs::read_dir(&results).into_iter().flatten().flatten();
        let begins_flood = |name: OsString| name.to_string_lossy().starts_with(".flood.csv.");
        results.join("calm.json").is_file()
            && names.map(|entry| entry.file_name()).any(begins_flood)
    });
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = started && kill.success() && comes_true(|| child.try_wait().unwrap().is_some());
    if !ended {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(started && ended, "{output:?}");
    let (stdout, stderr) = reported(&output, 2);
    assert!(
        stderr.contains("interrupted: 1 of 2 experiments is finished and kept in out/results"),
        "{stderr}"
    );
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    assert!(stdout.contains("\"experiment\":\"calm\""), "{stdout}");
    assert_eq!(names(&results), ["calm.csv", "calm.json"]);
    assert!(scene.out().join("index.html").is_file());
}

#[test]
fn runs_with_several_seeds_share_a_row_with_ranges() {
    let scene = Scene::new(CAMPAIGN);
    let set = ["--set", "seeds=3", "--set", "bus.in.bit_error_rate=0.0001"];
    let arguments = [&["run", "two.toml", "--out", "out", "--only", "flood"], &set[..]].concat();
    let (stdout, _) = scene.run(&arguments, 0);
    let lines: Vec<_> = stdout.lines().collect();
    assert!(lines[0].starts_with("experiment  runs  sent"), "{stdout}");
    assert!(lines[2].starts_with("flood          3   600"), "{stdout}");
    assert!(lines[2].contains(".."), "seeds differ: {stdout}");
    assert!(stdout.contains("the smallest and the largest value over the seeds"), "{stdout}");
    let results = names(&scene.out().join("results"));
    assert!(results.contains(&"flood-seed-3.json".to_owned()), "{results:?}");
}

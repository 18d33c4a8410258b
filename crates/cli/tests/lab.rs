//! `candor lab` as its user sees it.

mod progress;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use progress::without_progress;
use serde_json::Value;
use tempfile::TempDir;

const CAMPAIGN: &str = "\
title = \"Two buses\"
count = 200

[bus.in]
bitrate = \"1M\"

[bus.out]
bitrate = \"500k\"

[gateway]
delay = \"35us\"

[traffic]
kind = \"one-at-a-time\"

[[experiment]]
name = \"calm\"

[[experiment]]
name = \"flood\"
traffic.kind = \"flood\"

[[claim]]
id = \"A\"
says = \"nothing is lost\"
value = \"calm lost\"
at_most = 0

[[claim]]
id = \"B\"
says = \"a flood loses frames\"
value = \"flood lost\"
at_least = 1
";

/// The same buses in a virtual machine.
const KERNEL: &str = "\
testbed = \"vm\"
count = 100
bus.in.bitrate = \"1M\"
bus.out.bitrate = \"500k\"
gateway.kind = \"kernel\"
traffic.kind = \"one-at-a-time\"
";

/// A folder with a file of experiments.
struct Scene(TempDir);

impl Scene {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("two.toml"), text).unwrap();
        Self(folder)
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        command.current_dir(self.0.path()).arg("lab").args(arguments);
        command
    }

    /// Runs it; standard output and standard error.
    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> (String, String) {
        reported(&self.command(arguments).output().unwrap(), code)
    }

    /// Runs it; the objects of that type.
    #[track_caller]
    fn json(&self, arguments: &[&str], kind: &str, code: i32) -> Vec<Value> {
        let (stdout, _) = self.run(arguments, code);
        let data = |line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["type"], kind);
            line["data"].take()
        };
        stdout.lines().map(data).collect()
    }
}

#[track_caller]
fn reported(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    (stdout, without_progress(&stderr))
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The names in a folder, hidden ones too.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn list_names_the_experiments() {
    let scene = Scene::new(CAMPAIGN);
    let (stdout, stderr) = scene.run(&["list", "two.toml"], 0);
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("calm   sim\nflood  sim\n", "2 experiments: 2 in sim\n")
    );
    let (stdout, _) = scene.run(&["list", "two.toml", "--only", "fl*"], 0);
    assert_eq!(stdout, "flood  sim\n");
    let (stdout, _) = scene.run(&["list", "two.toml", "--shard", "2/2"], 0);
    assert_eq!(stdout, "flood  sim\n");
    let experiments = scene.json(&["list", "two.toml", "--json"], "experiment", 0);
    assert_eq!(experiments.len(), 2);
    assert_eq!(
        experiments[1],
        serde_json::json!({
            "name": "flood",
            "title": "Two buses",
            "testbed": "sim",
            "conditions": "simulation, virtual time; a gateway of constant delay 35us; no load",
            "axes": {},
        })
    );
    assert_eq!(names(scene.0.path()), ["two.toml"]);
}

#[test]
fn experiments_of_machines_say_so() {
    let text = KERNEL.replace("testbed = \"vm\"\n", "")
        + "gateway.delay = \"1us\"\n[[experiment]]\nname = \"a\"\n";
    let scene = Scene::new(&text);
    let (stdout, _) = scene.run(&["list", "two.toml"], 0);
    assert_eq!(stdout, "a  sim\n");
    let scene = Scene::new(&format!("{KERNEL}[matrix]\nseed = [1, 2]\n"));
    let (stdout, stderr) =
        scene.run(&["list", "two.toml", "--kernel", "6.1-rt", "--mips", "250"], 0);
    assert_eq!(stdout, "1  vm  Linux 6.1-rt, 250 MIPS\n2  vm  Linux 6.1-rt, 250 MIPS\n");
    assert_eq!(stderr, "2 experiments: 2 in vm on one machine\n");
}

#[test]
fn list_shows_what_of_the_papers_is_covered() {
    let file = format!(
        "{KERNEL}[matrix]\n\"vm.kernel\" = ['6.1', '6.12-rt']\n\"load.kind\" = ['none', 'cpu', 'both']\n"
    );
    let scene = Scene::new(&file);
    let (stdout, _) = scene.run(&["list", "two.toml", "--coverage"], 0);
    let line = |start: &str| stdout.lines().find(|line| line.starts_with(start)).unwrap_or(&stdout);
    assert_eq!(line("gateway "), "gateway                   6.1  6.12-rt");
    assert_eq!(line("simple, 8 "), "simple, 8 bytes        2 of 9   2 of 9");
    assert_eq!(line("user space"), "user space             0 of 9   0 of 9");
    assert!(stdout.contains("\n4 of 270 combinations on 2 kernels: "), "{stdout}");
    assert!(stdout.contains("\nmissing by traffic: one-at-a-time 86, half 90, flood 90\n"));
    assert!(stdout.contains("\nmissing by load: none 88, cpu 88, ethernet 90\n"), "{stdout}");
    assert!(line("the papers: ").contains("653 experiments on 5 kernels"), "{stdout}");

    let arguments = ["list", "two.toml", "--coverage", "--json"];
    let (stdout, _) = scene.run(&arguments, 0);
    let parsed = |line| serde_json::from_str::<Value>(line).unwrap();
    let objects: Vec<_> = stdout.lines().map(parsed).collect();
    assert_eq!(objects.len(), 2 * 15 + 1);
    assert!(objects[..30].iter().all(|object| object["type"] == "coverage"), "{stdout}");
    assert_eq!(objects[30]["type"], "coverage_total");
    let gateways: Vec<_> = objects.iter().map(|object| &object["data"]).collect();
    let simple = gateways[2];
    assert_eq!((&simple["kernel"], &simple["gateway"]), (&"6.1".into(), &"simple, 8 bytes".into()));
    assert_eq!((&simple["covered"], &simple["of"]), (&2.into(), &9.into()));
    assert_eq!(simple["missing"][0], serde_json::json!(["one-at-a-time", "ethernet"]));
    let total = gateways[30];
    assert_eq!((&total["covered"], &total["of"]), (&4.into(), &270.into()));
    assert_eq!(total["missing_by_load"]["ethernet"], 90);
}

#[test]
fn identifiers_are_set_as_they_are_written() {
    let scene = Scene::new(CAMPAIGN);
    for (set, frame) in [
        ("traffic.id=0x124", "124#"),
        ("traffic.id=[0x124, 0x125]", "125#"),
        ("traffic.id=0x18FEF100x", "18FEF100#"),
    ] {
        let only = ["--only", "calm", "--set", "count=4", "--set", set];
        scene.run(&[&["run", "two.toml", "--out", "out"], &only[..]].concat(), 0);
        let frames = fs::read_to_string(scene.out().join("results/calm.csv")).unwrap();
        assert!(frames.contains(frame), "{set}: {frames}");
    }
}

#[test]
fn what_machines_need_is_reported_in_one_sentence() {
    let scene = Scene::new(KERNEL);
    let empty = scene.0.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let run = |name: &str, value: &Path| {
        let mut command = scene.command(&["run", "two.toml", "--out", "out"]);
        reported(&command.env("CANDOR_CACHE", &empty).env(name, value).output().unwrap(), 2).1
    };
    let no_qemu = run("PATH", &empty);
    assert!(no_qemu.starts_with("candor: qemu-system-x86_64 was not found"), "{no_qemu}");
    assert_eq!(no_qemu.lines().count(), 1, "{no_qemu}");
    // Where there is no QEMU, that is what is reported.
    let no_kernel = run("CANDOR_CACHE", &empty);
    let is_reported = no_kernel.contains("candor vm fetch 6.12") || no_kernel == no_qemu;
    assert!(is_reported, "{no_kernel}");
}

#[test]
fn runs_are_verified() {
    let scene = Scene::new(CAMPAIGN);
    let (stdout, stderr) = scene.run(&["run", "two.toml", "--out", "out", "--verify"], 0);
    assert!(stdout.contains("flood"), "{stdout}");
    assert_eq!(stderr, "report: out/index.html\n");
}

#[test]
fn claims_are_judged_on_the_results_of_shards() {
    let scene = Scene::new(CAMPAIGN);
    for shard in ["1/2", "2/2"] {
        let arguments = ["run", "two.toml", "--out", shard.split('/').next().unwrap()];
        scene.run(&[&arguments[..], &["--shard", shard]].concat(), 0);
    }
    let merged = scene.0.path().join("merged/results");
    fs::create_dir_all(&merged).unwrap();
    for shard in ["1", "2"] {
        let results = scene.0.path().join(shard).join("results");
        assert_eq!(names(&results).len(), 2);
        for name in names(&results) {
            fs::copy(results.join(&name), merged.join(&name)).unwrap();
        }
    }
    let (_, stderr) = scene.run(&["claims", "two.toml", "--out", "merged", "--no-run"], 0);
    assert_eq!(stderr, "2 of 2 claims agree\nreport: merged/index.html\n");
    let (_, whole) = scene.run(&["claims", "two.toml", "--out", "out"], 0);
    assert!(whole.starts_with("2 of 2 claims agree"), "{whole}");
    for file in names(&merged) {
        let read =
            |out: &str| fs::read_to_string(scene.0.path().join(out).join("results").join(&file));
        assert_eq!(read("merged").unwrap(), read("out").unwrap(), "{file}");
    }
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
            "total_latency",
            "gateway_latency",
            "end_to_end",
            "file",
        ];
        assert_eq!(keys(result), expected.into());
        let expected = ["count", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
        assert_eq!(keys(&result["gateway_latency"]), expected.into());
        assert_eq!(result["sent"], 200);
        let number = |key: &str| result[key].as_u64().unwrap();
        let endings = ["received", "not_routed", "refused", "lost"].map(number);
        assert_eq!(endings.iter().sum::<u64>(), 200, "{result}");
        assert!(scene.0.path().join(result["file"].as_str().unwrap()).is_file());
    }
    assert_eq!(results[0]["gateway_latency"]["min_ns"], 35_000);
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
fn the_verdict_of_claims_knows_the_exit_code() {
    let wrong = CAMPAIGN.replace("at_most = 0", "at_most = -1");
    let scene = Scene::new(&wrong);
    let verdict = |stdout: &str| -> Value {
        let last: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
        assert_eq!(last["type"], "verdict");
        last["data"].clone()
    };
    let arguments = ["claims", "two.toml", "--out", "out", "--json"];
    let (stdout, _) = scene.run(&arguments, 1);
    let found = verdict(&stdout);
    assert_eq!((&found["no"], &found["agrees"]), (&1.into(), &false.into()));
    assert_eq!(found["exit_code"], 1);
    // A report that cannot be written.
    fs::remove_file(scene.0.path().join("out/index.html")).unwrap();
    fs::create_dir(scene.0.path().join("out/index.html")).unwrap();
    let (stdout, _) = scene.run(&[&arguments[..], &["--no-run", "--force"]].concat(), 2);
    assert_eq!(verdict(&stdout)["exit_code"], 2);
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
fn a_claim_that_does_not_hold_is_a_no() {
    let scene = Scene::new(CAMPAIGN);
    let (stdout, stderr) = scene.run(&["claims", "two.toml", "--out", "out"], 0);
    let last = |text: &str| -> Vec<String> {
        let claims = text.lines().skip(2).take_while(|line| !line.is_empty());
        claims.map(|line| line.split("  ").last().unwrap().trim().into()).collect()
    };
    assert_eq!(last(&stdout), ["yes", "yes"], "{stdout}");
    assert_eq!(stderr, "2 of 2 claims agree\nreport: out/index.html\n");

    let strict = ["claims", "two.toml", "--out", "out", "--set", "bus.out.bitrate=1M"];
    let (stdout, stderr) = scene.run(&strict, 1);
    assert_eq!(last(&stdout), ["yes", "no"], "{stdout}");
    assert!(stderr.starts_with("1 of 2 claims agrees\n"), "{stderr}");

    // An experiment that did not run gives no value.
    let only = ["claims", "two.toml", "--out", "out", "--only", "calm", "--json"];
    let (stdout, _) = scene.run(&only, 1);
    let claim: Value = serde_json::from_str(stdout.lines().nth(1).unwrap()).unwrap();
    let data = &claim["data"];
    assert_eq!((&data["value"], &data["agrees"]), (&Value::Null, &false.into()));
    assert_eq!(data["agreement"], "missing");

    let (stdout, _) = scene.run(&["claims", "two.toml", "--out", "out", "--markdown"], 0);
    assert!(stdout.starts_with("| id | claim | published | model |"), "{stdout}");
    assert_eq!(stdout.lines().nth(1), Some("| --- | --- | --- | --- | --- | --- | --- |"));
}

#[test]
fn claims_of_each_share_a_row() {
    let text = CAMPAIGN.split("[[claim]]").next().unwrap().to_owned()
        + "[[claim]]\nid = \"A\"\nsays = \"lost\"\neach = [\"calm\", \"flood\"]\n\
           value = \"{each} lost\"\nat_most = 0\n\
           [[claim]]\nid = \"B\"\nsays = \"sent\"\neach = [\"calm\", \"flood\"]\n\
           value = \"{each} sent\"\nat_least = 1\n";
    let scene = Scene::new(&text);
    let (stdout, stderr) = scene.run(&["claims", "two.toml", "--out", "out", "--markdown"], 1);
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[0], "| id | claim | published | agreement is | calm | flood | note |");
    assert!(lines[2].starts_with("| A | lost |  | at most 0 | 0.00 | "), "{stdout}");
    assert!(lines[2].ends_with(" no |  |"), "{stdout}");
    assert_eq!(lines[3], "| B | sent |  | at least 1 | 200.0 | 200.0 |  |");
    let groups = ["| A | 2 | 1 | 1 |", "| B | 2 | 2 | 0 |", "| all | 4 | 3 | 1 |"];
    assert_eq!(
        lines[5..],
        [&["| id | claims | yes | no |", "| --- | --- | --- | --- |"], &groups[..]].concat()
    );
    assert!(stderr.starts_with("3 of 4 claims agree\n"), "{stderr}");
}

#[test]
fn only_experiments_that_claims_are_about_are_run_for_them() {
    let text = CAMPAIGN.split("[[claim]]\nid = \"B\"").next().unwrap();
    let scene = Scene::new(text);
    let (_, stderr) = scene.run(&["claims", "two.toml", "--out", "out"], 0);
    assert!(stderr.starts_with("1 of 1 claim agrees\n"), "{stderr}");
    assert_eq!(names(&scene.out().join("results")), ["calm.csv", "calm.json"]);
}

#[test]
fn what_is_wrong_is_reported_with_place_and_remedy_before_anything_is_written() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "[trafic]\nkind = 'flood'\n",
            &[],
            &["two.toml:1:2: error: unknown key `trafic`", "did you mean `traffic`?"],
        ),
        (CAMPAIGN, &["--set", "count=-5"], &["`count` is -5, but must be 1 to "]),
        (CAMPAIGN, &["--set", "count=0"], &["`count` is 0, but must be 1 to "]),
        (CAMPAIGN, &["--set", "testbed=vn"], &["`testbed` is \"vn\", but must be `sim` or `vm`"]),
        (CAMPAIGN, &["--set", "traffic.knd=flood"], &["unknown key `knd`", "did you mean `kind`?"]),
        (CAMPAIGN, &["--set", "count"], &["--set"]),
        (CAMPAIGN, &["--set", "=1"], &["--set"]),
        (CAMPAIGN, &["--set", "traffic.length=9"], &["`length` is 9"]),
        (CAMPAIGN, &["--set", "gateway.profile=mpc"], &["either a `profile` or a `delay`"]),
        (
            CAMPAIGN,
            &["--only", "x*"],
            &["two.toml: no experiment matches `x*`; there are calm, flood"],
        ),
        (CAMPAIGN, &["--seed=-1"], &["--seed"]),
        (CAMPAIGN, &["--testbed", "vn"], &["--testbed", "expected one of sim, vm"]),
        (CAMPAIGN, &["--testbed", "vm"], &["a gateway of constant delay", "gateway.kind"]),
        (CAMPAIGN, &["--shard", "0/3"], &["such as 3/8"]),
        (CAMPAIGN, &["--shard", "4/3"], &["such as 3/8"]),
        (CAMPAIGN, &["--shard", "3"], &["such as 3/8"]),
        (
            CAMPAIGN,
            &["--set", "bus.oit.bitrate=500k"],
            &["--set bus.oit.bitrate=500k: unknown bus `oit`; did you mean `out`?"],
        ),
        (CAMPAIGN, &["--set", "bus.lin.bitrate=20k"], &["unknown bus `lin`; did you mean `in`?"]),
        (CAMPAIGN, &["--kernel", "9.9"], &["--kernel 9.9 has no effect", "--testbed vm"]),
        (CAMPAIGN, &["--mips", "250"], &["--mips 250 has no effect"]),
        (CAMPAIGN, &["--set", "vm.mips=250"], &["--set vm.mips=250 has no effect"]),
        (CAMPAIGN, &["--set", "traffic.log=a.log"], &["has no effect", "traffic.kind=replay"]),
        (
            CAMPAIGN,
            &["--only", "flood", "--set", "traffic.turnaround_longest=1ms"],
            &["has no effect", "traffic.kind=one-at-a-time"],
        ),
        (KERNEL, &["--set", "gateway.profile=mpc5200-2.6.33"], &["has no effect"]),
        (CAMPAIGN, &["--set", "title=7"], &["write --set 'title=\"7\"'"]),
        (CAMPAIGN, &["--set", "traffic.id=0x800"], &["--set traffic.id=0x800x"]),
        (CAMPAIGN, &["--kernel", "./bzImage"], &["--kernel ./bzImage is a file", "--modules DIR"]),
        (CAMPAIGN, &["--modules", "lib"], &["--kernel"]),
        (KERNEL, &["--mips", "400"], &["--mips", "400 MIPS is not possible"]),
        (KERNEL, &["--kernel", "linux"], &["--kernel", "linux"]),
        (KERNEL, &["--set", "vm.kernel=6.12"], &["`kernel` is a number", "--kernel 6.12"]),
        ("count = \n", &[], &["two.toml:1:"]),
        ("", &[], &["`bus` is missing", "`traffic` is missing"]),
    ];
    for (text, arguments, parts) in cases {
        let scene = Scene::new(text);
        let (stdout, stderr) =
            scene.run(&[&["run", "two.toml", "--out", "out"], *arguments].concat(), 2);
        assert_eq!(stdout, "", "{arguments:?}");
        for part in *parts {
            assert!(stderr.contains(part), "{arguments:?}: {part} is missing in\n{stderr}");
        }
        assert_eq!(names(scene.0.path()), ["two.toml"], "{arguments:?}");
    }
}

#[test]
fn files_and_folders_that_are_not_right_are_one_sentence() {
    let scene = Scene::new(CAMPAIGN);
    fs::write(scene.0.path().join("file"), "").unwrap();
    fs::create_dir(scene.0.path().join("empty")).unwrap();
    let no_claims = CAMPAIGN.split("[[claim]]").next().unwrap();
    fs::write(scene.0.path().join("plain.toml"), no_claims).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["run", "absent.toml"], "candor: absent.toml cannot be read: "),
        (&["list", "absent.toml"], "candor: absent.toml cannot be read: "),
        (&["run", "two.toml", "--out", "file"], "candor: file/results cannot be written: "),
        (&["claims", "two.toml", "--out", "file"], "candor: file/results cannot be written: "),
        (&["claims", "plain.toml", "--out", "out"], "candor: plain.toml has no claims; "),
        (&["report", "absent"], "candor: absent/results: the folder does not exist; "),
        (&["report", "empty"], "candor: empty/results: the folder does not exist; "),
    ];
    for (arguments, start) in cases {
        let (stdout, stderr) = scene.run(arguments, 2);
        assert_eq!((stdout.as_str(), stderr.lines().count()), ("", 1), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(start), "{arguments:?}: {stderr}");
    }
    assert_eq!(names(scene.0.path()), ["empty", "file", "plain.toml", "two.toml"]);
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
fn claims_are_chosen_by_id_and_shown_with_enough_digits() {
    // 200 frames of which the flood loses some: the limit is just above.
    let text = CAMPAIGN.split("[[claim]]").next().unwrap().to_owned()
        + "[[claim]]\nid = \"near\"\nsays = \"of {sent}\"\nvalue = \"calm gateway_latency min\"\n\
           at_least = 35.0004\n[[claim]]\nid = \"other\"\nsays = \"so\"\nvalue = \"flood lost\"\n\
           at_most = 0\n";
    let scene = Scene::new(&text);
    let arguments = ["claims", "two.toml", "--out", "out", "--markdown", "--claim", "n*"];
    let (stdout, stderr) = scene.run(&arguments, 1);
    assert!(stdout.contains("| near | of 200 |  | 35.0 | at least 35.0004 | no |"), "{stdout}");
    assert!(stderr.starts_with("0 of 1 claim agrees\n"), "{stderr}");
    assert_eq!(names(&scene.out().join("results")), ["calm.csv", "calm.json"]);

    let text = text.replace("35.0004", "34.9996");
    let scene = Scene::new(&text);
    let (stdout, _) = scene.run(&arguments, 0);
    assert!(stdout.contains("| 35.0 | at least 34.9996 | yes |"), "{stdout}");
    // 35.0 would look as if it were above the limit.
    let text = text
        .replace("at_least = 34.9996", "at_most = 34.9996\nover = \"calm sent\"")
        .replace("at_most = 34.9996", "at_most = 0.174");
    let scene = Scene::new(&text);
    let (stdout, _) = scene.run(&arguments, 1);
    assert!(stdout.contains("| 0.175 | at most 0.174 | no |"), "{stdout}");

    let (_, stderr) = scene.run(&["claims", "two.toml", "--claim", "x*"], 2);
    assert!(stderr.contains("no claim has an id that matches `x*`"), "{stderr}");
}

/// Two folders of results: `before`, and `after` with another delay of the gateway.
fn compared(delay: &str) -> Scene {
    let scene = Scene::new(CAMPAIGN);
    scene.run(&["run", "two.toml", "--out", "before", "--only", "calm"], 0);
    let set = format!("gateway.delay={delay}");
    scene.run(&["run", "two.toml", "--out", "after", "--only", "calm", "--set", &set], 0);
    scene
}

#[test]
fn what_became_slower_is_a_no() {
    let scene = compared("35.1us");
    let (stdout, _) = scene.run(&["compare", "before", "after"], 1);
    let shown = "\
changed        before  after
-------------  ------  --------
gateway.delay  \"35us\"  \"35.1us\"

experiment  figure    before     after  difference  instructions           verdict
----------  ------  --------  --------  ----------  ------------  -------  -------
calm        min     35000 ns  35100 ns     +100 ns                +0.29 %  slower
calm        p50     35000 ns  35100 ns     +100 ns                +0.29 %  slower

1 experiment compared: 2 exact figures slower, 0 faster, 0 the same
";
    assert_eq!(stdout, shown);
    for (allow, code) in [("1%", 0), ("0.1%", 1), ("100ns", 0), ("99ns", 1), ("1us", 0)] {
        scene.run(&["compare", "before", "after", "--allow", allow], code);
    }
    scene.run(&["compare", "after", "before"], 0);
    let (stdout, _) = scene.run(&["compare", "before", "before"], 0);
    assert!(stdout.contains("nothing changed"), "{stdout}");
    assert!(stdout.ends_with("0 exact figures slower, 0 faster, 2 the same\n"), "{stdout}");
}

#[test]
fn a_comparison_in_json_has_the_documented_fields() {
    let scene = compared("35.1us");
    let (stdout, _) = scene.run(&["compare", "before", "after", "--json"], 1);
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().find(|line| line["type"] == kind).map(|l| &l["data"]);
    assert_eq!(keys(of("changed").unwrap()), ["setting", "before", "after"].into());
    let figure = of("figure").unwrap();
    let expected = [
        "experiment",
        "metric",
        "figure",
        "unit",
        "seed",
        "before",
        "after",
        "difference",
        "difference_percent",
        "difference_instructions",
        "resolution",
        "verdict",
        "is_allowed",
    ];
    assert_eq!(keys(figure), expected.into());
    assert_eq!((&figure["difference"], &figure["verdict"]), (&100.0.into(), &"slower".into()));
    let verdict = of("verdict").unwrap();
    let expected = ["pairs", "slower", "faster", "same", "not_allowed", "allow", "agrees"];
    assert_eq!(keys(verdict), expected.into());
    assert_eq!(verdict["agrees"], false);
}

#[test]
fn two_values_of_a_setting_in_one_folder_are_compared() {
    let text = CAMPAIGN.split("[[experiment]]").next().unwrap().to_owned()
        + "[matrix]\n\"gateway.delay\" = [\"35us\", \"36us\"]\n";
    let scene = Scene::new(&text);
    scene.run(&["run", "two.toml", "--out", "both"], 0);
    let by = |values: &str, code| {
        scene.run(&["compare", "both", "--by", &format!("gateway.delay={values}")], code)
    };
    assert!(by("35us,36us", 1).0.contains("+1000 ns"));
    by("36us,35us", 0);
    let (_, stderr) = by("35us,37us", 2);
    assert!(stderr.contains("no experiment has gateway.delay = 37us"), "{stderr}");
}

#[test]
fn what_cannot_be_compared_is_reported_with_the_remedy() {
    let scene = compared("36us");
    for (arguments, part) in [
        (&["compare", "before", "absent"][..], "run `candor lab run FILE --out DIR` first"),
        (&["compare", "before"], "<AFTER>"),
        (&["compare", "before", "after", "--allow", "1"], "write 1%, 50ns or 0.2us"),
        (&["compare", "before", "--by", "a=b"], "two values"),
    ] {
        let (_, stderr) = scene.run(arguments, 2);
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
    // Neither side has a setting in common that would explain the other one.
    let matrix =
        CAMPAIGN.split("[[claim]]").next().unwrap().to_owned() + "[matrix]\ncount = [20, 30]\n";
    fs::write(scene.0.path().join("two.toml"), matrix).unwrap();
    for (out, gone) in [("other", ["calm-20", "flood-30"]), ("another", ["calm-30", "flood-20"])] {
        scene.run(&["run", "two.toml", "--out", out], 0);
        for name in gone {
            let file = scene.0.path().join(format!("{out}/results/{name}.json"));
            fs::remove_file(file).unwrap();
        }
    }
    let (_, stderr) = scene.run(&["compare", "other", "another", "--json"], 2);
    assert!(stderr.contains("run the same file with the same options"), "{stderr}");
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

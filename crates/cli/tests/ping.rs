//! `candor ping` and `candor pong` as processes, on simulated buses.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

fn candor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command.args(args).stdin(Stdio::null());
    command
}

/// A bus of this test alone.
fn bus(name: &str) -> String {
    format!("sim:ping-{name}-{}?bitrate=1M", std::process::id())
}

/// The exit code and what was printed.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = candor(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The objects of this type.
fn objects(text: &str, kind: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == kind).map(|line| line["data"].clone()).collect()
}

/// A partner that is ready.
struct Pong(Child);

impl Pong {
    fn start(args: &[&str]) -> Self {
        let mut child = candor(args).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("answering on "), "{line}");
        Self(child)
    }

    /// What it printed, once it has ended by itself.
    fn finish(self) -> String {
        String::from_utf8(self.0.wait_with_output().unwrap().stdout).unwrap()
    }
}

#[test]
fn a_partner_answers_several_pings_and_each_is_counted() {
    let port = bus("several");
    let pong = Pong::start(&["pong", &port, "--pings", "3", "--count", "120", "--json"]);
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("trips.csv");
    let csv_text = csv.display().to_string();
    // A port on a simulated bus has room for some 280 frames, which is more than are sent, and no answer is late, however
    // slow the machine is.
    let args = ["ping", &port, "--pings", "3", "--count", "40", "--period", "10ms", "--paced"];
    let args = [&args[..], &["--timeout", "30s", "--json"]].concat();
    let (code, out, error) = run(&[&args[..], &["--csv", &csv_text]].concat());
    assert_eq!(code, Some(0), "{error}");
    let pings = objects(&out, "result");
    let request = |ping: &Value| ping["sections"]["ping"]["request"].as_str().map(str::to_owned);
    let requests: Vec<_> = pings.iter().map(request).collect();
    assert_eq!(
        requests,
        ["077", "079", "07B"]
            .map(|it| Some(it.to_owned()))
            .into_iter()
            .chain([None])
            .collect::<Vec<_>>()
    );
    for (ping, sent) in pings.iter().zip([40, 40, 40, 120]) {
        assert_eq!(
            (ping["sent"].as_u64(), ping["received"].as_u64()),
            (Some(sent), Some(sent)),
            "{ping}"
        );
        // A bus with real bit times is never faster than its bits.
        let wire = &ping["sections"]["ping"];
        assert!(wire["above_wire"]["p50_ns"].as_i64() > Some(0), "{ping}");
        assert!(wire["wire_ns_min"].as_u64() >= Some(222_000), "{ping}");
        assert_eq!(ping["metrics"]["round_trip"]["count"].as_u64(), Some(sent));
    }
    let answered = objects(&pong.finish(), "answered");
    assert_eq!(
        (answered[0]["answered"].as_u64(), answered[0]["dropped"].as_u64()),
        (Some(120), Some(0))
    );
    // Each round trip is in the file, and none is shorter than the bus allows.
    let text = std::fs::read_to_string(csv).unwrap();
    let rows: Vec<Vec<_>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 120);
    for row in &rows {
        assert_eq!(row[3], "answered");
        assert!(row[4].parse::<u64>().unwrap() >= row[5].parse::<u64>().unwrap(), "{row:?}");
    }
}

#[test]
fn without_a_partner_requests_are_lost_and_a_slow_one_is_late() {
    let port = bus("alone");
    let args = ["ping", &port, "--count", "3", "--timeout", "20ms", "--period", "1ms", "--json"];
    let (code, out, error) = run(&args);
    assert_eq!(code, Some(1), "{error}");
    let all = objects(&out, "result").pop().unwrap();
    assert_eq!((all["sent"].as_u64(), all["lost"].as_u64()), (Some(3), Some(3)));
    assert!(all["metrics"].as_object().unwrap().is_empty(), "{all}");
    assert!(error.contains("start `candor pong`"), "{error}");
    // Shorter than the bus allows: every answer is late, and its time is told all the same.
    let port = bus("late");
    let partner = [
        "ping",
        &port,
        "--pong",
        &port,
        "--count",
        "20",
        "--timeout",
        "100us",
        "--period",
        "3ms",
        "--paced",
    ];
    let (code, out, error) = run(&[&partner[..], &["--json"]].concat());
    assert_eq!(code, Some(1), "{error}");
    let all = objects(&out, "result").pop().unwrap();
    assert_eq!(all["late"].as_u64().unwrap() + all["lost"].as_u64().unwrap(), 20, "{all}");
    assert!(
        all["late"].as_u64() >= Some(19)
            && all["metrics"]["round_trip"]["min_ns"].as_u64() > Some(222_000),
        "{all}"
    );
}

#[test]
fn people_see_a_table_and_a_profile() {
    let port = bus("people");
    let args = ["ping", &port, "--pong", &port, "--count", "30", "--period", "1ms"];
    let (code, out, error) = run(&args);
    assert_eq!(code, Some(0), "{error}");
    assert!(error.contains(": 77 -> 78, 8 bytes, one at a time"), "{error}");
    for part in [
        "Round trip     30",
        "at 1Mbit/s, 8 bytes",
        "the bus allows  2",
        "with at least this latency",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (_, out, _) = run(&[&args[..], &["--draw", "none"]].concat());
    assert!(!out.contains("with at least this latency"), "{out}");
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let port = bus("refused");
    for (args, reason) in [
        (&["--length", "9"][..], "9 bytes of data, but a request has 1 to 8"),
        (&["--paced", "--period", "0"], "without a period requests can only be sent one at a time"),
        (&["--id", "0x77:0x77"], "need different identifiers"),
        (&["--id", "0x77:0x78", "--id", "0x78:0x79"], "identifier 0x78 is there twice"),
        (&["--pings", "2", "--id", "0x7FE:0x7FF"], "there are not so many identifiers"),
        (&["--csv", "/no/such/folder/a.csv"], "/no/such/folder/a.csv: "),
        (&["--out", "/dev/null/a"], "/dev/null/a/results: cannot be written"),
        (&["--out", "a", "--name", ""], "--name"),
        (&["--name", "x"], "--out <DIR>"),
        (&["--pong", "file:no-such.log"], "no-such.log"),
    ] {
        let (code, out, error) = run(&[&["ping", &port][..], args].concat());
        assert_eq!(code, Some(2), "{args:?}: {out}");
        assert!(error.contains(reason), "{args:?}: {error}");
    }
}

#[test]
fn can_fd_is_compared_with_the_bit_rates_that_the_bus_has() {
    let port = bus("fd");
    let args = ["ping", &port, "--pong", &port, "--fd", "--length", "64", "--count", "5", "--json"];
    let (code, out, error) = run(&args);
    assert_eq!(code, Some(0), "{error}");
    // 64 bytes at 2 Mbit/s, the data bit rate of a simulated bus unless it says another.
    let all = objects(&out, "result").pop().unwrap();
    let wire = &all["sections"]["ping"];
    assert!(wire["above_wire"]["p50_ns"].as_i64() > Some(0), "{all}");
    assert!((600_000..660_000).contains(&wire["wire_ns_min"].as_u64().unwrap()), "{all}");
    let (code, _, error) =
        run(&["ping", &port, "--pong", &port, "--fd", "--count", "1", "--against", "1M"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(error.contains("the data bit rate is taken for the nominal one"), "{error}");
}

#[test]
fn a_port_that_does_not_work_says_why() {
    let (code, _, error) = run(&["ping", "cannelloni:tcp://127.0.0.1:1", "--count", "1"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("127.0.0.1:1"), "{error}");
}

#[test]
fn what_comes_after_its_timeout_is_late_also_at_the_end() {
    let port = format!("{}&queue=1", bus("late").replace("1M", "10k"));
    // Two frames of 8 bytes take more than 20 ms at 10 kbit/s.
    let args = ["ping", &port, "--pong", &port, "--count", "1", "--timeout", "5ms", "--json"];
    let (code, out, error) = run(&args);
    assert_eq!(code, Some(1), "{error}");
    let all = objects(&out, "result").pop().unwrap();
    assert_eq!((all["late"].as_u64(), all["lost"].as_u64()), (Some(1), Some(0)), "{all}");
}

/// What `--out` keeps is read by the commands for results, and claims find the values in it.
#[cfg(feature = "lab")]
#[test]
fn results_are_kept_for_report_comparison_and_claims() {
    let port = bus("kept");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (before, after, claims) = (path("before"), path("after"), path("claims.toml"));
    for out in [&before, &after] {
        let args = ["ping", &port, "--pong", &port, "--count", "20", "--period", "0"];
        let args = [&args[..], &["--draw", "none", "--name", "desk", "--out", out]].concat();
        let (code, _, error) = run(&args);
        assert_eq!(code, Some(0), "{error}");
        let (code, printed, error) = run(&args);
        assert_eq!((code, printed.as_str()), (Some(2), ""), "nothing is measured in vain");
        assert!(error.contains("desk.json already exists"), "{error}");
    }
    let text = "[[experiment]]\nname = 'desk'\nkind = 'ping'\ntestbed = 'vm'\nseeds = 1\nbus.desk.bitrate = '1M'\n\
                [[claim]]\nid = 'A'\nsays = 'nothing is faster than the bus'\n\
                value = 'desk round_trip min'\nat_least = 222\n\
                [[claim]]\nid = 'B'\nsays = 'that is the bus'\nvalue = 'desk wire_ns_min'\nat_least = 222\n";
    std::fs::write(&claims, text).unwrap();
    for (args, expected) in [
        (&["lab", "show", &before][..], "Round trip"),
        (&["lab", "compare", &before, &after], "desk"),
        (&["lab", "claims", &claims, "--out", &before, "--no-run"], "2 of 2 claims agree"),
        (&["lab", "report", &after], ""),
    ] {
        let (code, out, error) = run(args);
        let said = out + &error;
        assert!(code == Some(0) && said.contains(expected), "{args:?}: {said}");
    }
    assert!(folder.path().join("after/index.html").is_file());
}

#[test]
fn names_of_results_are_fit_for_files_that_everybody_sees() {
    let port = bus("names");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let long = "x".repeat(300);
    for name in [&long, "../up", ".hidden"] {
        let args = ["ping", &port, "--pong", &port, "--count", "2", "--period", "1ms"];
        let (code, _, error) = run(&[&args[..], &["--out", &out, "--name", name]].concat());
        assert_eq!(code, Some(0), "{name}: {error}");
    }
    let files = std::fs::read_dir(folder.path().join("results")).unwrap();
    let mut files: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, ["hidden.json", "up.json", &format!("{}.json", "x".repeat(120))]);
    // Several pings with such a name would all be one file: that is said before anything is sent.
    let args = ["ping", &port, "--pings", "2", "--out", &out, "--name", &long];
    let (code, _, error) = run(&args);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("`077` and `079` would both be this file"), "{error}");
    assert!(error.contains("give a shorter --name") && !error.contains("ping sim"), "{error}");
}

#[test]
fn an_interrupted_result_says_how_far_it_came() {
    let port = bus("interrupted");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let args = ["ping", &port, "--pong", &port, "--count", "10000", "--period", "2ms"];
    let args = [&args[..], &["--interval", "50ms", "--out", &out]].concat();
    for signal in ["-INT", "-TERM"] {
        let mut child = candor(&[&args[..], &["--name", &signal[1..]]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The head, and the first interval.
        lines.nth(1).unwrap().unwrap();
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let rest = lines.map_while(Result::ok).count();
        child.wait().unwrap();
        assert!(rest > 0, "{signal}: nothing was said at the end");
        let file = folder.path().join(format!("results/{}.json", &signal[1..]));
        let result: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let sent = &result["counts"]["sent"];
        let note = format!("{sent} of 10000 requests could be measured: it was interrupted");
        assert_eq!(result["notes"], serde_json::json!([note]), "{signal}");
    }
}

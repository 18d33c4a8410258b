//! `candor tte check`, as a user sees it.

use std::fs;
use std::process::Command;

const ONE_SWITCH: &str = include_str!("../../../examples/one-switch.tte.toml");

/// What the command prints on standard output and standard error, and its exit code.
fn check(text: &str, options: &[&str]) -> (String, String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("n.toml"), text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_candor"))
        .args(["tte", "check", "n.toml"])
        .args(options)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn a_schedule_that_works_is_shown() {
    let (stdout, stderr, code) = check(ONE_SWITCH, &[]);
    let expected = "\
link   from    to        tt frames      tt      rc      be  longest gap
-----  ------  --------  ---------  ------  ------  ------  -----------
in     server  switch            1  0.22 %  0.00 %  0.00 %    2.98328ms
out    switch  analyzer          1  0.22 %  0.00 %  0.00 %    2.99328ms
other  load    switch            0  0.00 %  0.00 %  0.00 %          3ms

flow      period  link  from    to           instant
--------  ------  ----  ------  --------  ----------
measured     3ms  in    server  switch         800us
measured     3ms  out   switch  analyzer  1.150002ms
";
    let said = "n.toml: 1 time-triggered flow in a cycle of 3ms; 0 errors, 0 warnings\n";
    assert_eq!((stdout.as_str(), stderr.as_str(), code), (expected, said, Some(0)));
}

#[test]
fn mistakes_have_their_places() {
    for (old, new, expected, is_drawn) in [
        (
            "\"350us\"",
            "\"15us\"",
            "n.toml:39:15: error: `measured` can leave switch `switch` 22.76us",
            true,
        ),
        (
            "\"800us\"",
            "\"3ms\"",
            "n.toml:38:8: error: `send` is 3ms, but must be below the period of 3ms",
            false,
        ),
        (
            "size = 64",
            "size = 63",
            "n.toml:36:8: error: `size` is 63, but must be 64 to 1518",
            false,
        ),
        (
            "cycle = \"3ms\"",
            "cycle = \"3ms\"\nframes = { marker = 0x01020304, mask = 0xffff0000 }",
            "error: the marker 0x01020304 has bits outside the mask 0xffff0000; within it, it would be 0x01020000",
            false,
        ),
        (
            "cycle = \"3ms\"",
            "cycle = \"3ms\"\nframes.type = 0x8100",
            "error: `type` is neither \"length\" nor an EtherType",
            false,
        ),
        (
            "to = \"analyzer\"",
            "to = \"analyser\"",
            "n.toml:35:6: error: unknown node `analyser`",
            false,
        ),
        (
            "\"350us\"",
            "\"2h\"",
            "n.toml:39:15: error: `relay_delay` is 7200s, but must be at most 3600s",
            false,
        ),
    ] {
        let (stdout, stderr, code) = check(&ONE_SWITCH.replacen(old, new, 1), &["--gantt"]);
        assert!(stderr.contains(expected) && stderr.contains("1 error"), "{expected}: {stderr}");
        assert_eq!((stdout.contains("a  measured"), code), (is_drawn, Some(1)), "{stdout}");
    }
}

#[test]
fn warnings_are_no_errors() {
    let (stdout, stderr, code) = check(&ONE_SWITCH.replace("\"350us\"", "\"25us\""), &[]);
    assert!(stderr.contains("differ by more than 2.24us"), "{stderr}");
    assert!(stderr.ends_with("0 errors, 1 warning\n"), "{stderr}");
    assert_eq!((stdout.is_empty(), code), (false, Some(0)));
    let (_, stderr, code) = check("[[rule]]\nfrom = \"a\"\n", &[]);
    assert!(stderr.contains("this is a rule file"), "{stderr}");
    assert_eq!(code, Some(2));
}

/// What is wrong with the arguments is said before an interface is opened, so nobody needs permission to see it.
#[test]
fn nodes_links_and_flows_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("n.toml"), ONE_SWITCH).unwrap();
    for (words, expected) in [
        (
            "generate n.toml --node switch --interface eth1",
            "n.toml: `switch` is a switch, but has to be an end system; choose one of its end systems: `server`, `analyzer`, `load`",
        ),
        (
            "generate n.toml --node sever --interface eth1",
            "n.toml: there is no node `sever`; choose one of its end systems: `server`, `analyzer`, `load`",
        ),
        (
            "generate n.toml --node analyzer --interface eth1",
            "n.toml: no flow begins at `analyzer`; choose an end system from which a flow goes",
        ),
        (
            "switch n.toml --node server --port in=eth1",
            "n.toml: `server` is an end system, but has to be a switch; choose one of its switches: `switch`",
        ),
        (
            "switch n.toml --node switch --port inn=eth1",
            "--port inn=eth1: `switch` in n.toml has no link `inn`; its links are `in`, `out`, `other`",
        ),
        (
            "switch n.toml --node switch --port in=eth1 --port out=eth1",
            "--port in=eth1: the link or the interface has two ports; give each link an interface of its own",
        ),
        (
            "analyze n.toml --interface eth1 --flow measurd",
            "n.toml: there is no flow `measurd`; its flows are `measured`, `background`",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        let command = command.arg("tte").args(words.split(' ')).current_dir(folder.path());
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {stderr}");
        assert_eq!(stderr, format!("candor: {expected}\n"), "{words}");
        assert!(output.stdout.is_empty());
    }
    for (words, expected) in [
        ("switch n.toml --node switch --port eth1", "write a link and its interface, as left=eth1"),
        ("generate n.toml --node server --interface eth1 --pcf-id 65536", "0 to 65535"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        let output = command.arg("tte").args(words.split(' ')).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {stderr}");
        assert!(stderr.contains(expected), "{words}: {stderr}");
    }
}

/// A schedule with errors is refused before an interface is opened. With `--unchecked` the next mistake is told.
#[test]
fn what_check_finds_is_said_and_errors_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let finding =
        |relay_delay: &str| ONE_SWITCH.replace("\"350us\"", &format!("\"{relay_delay}\""));
    fs::write(folder.path().join("error.toml"), finding("15us")).unwrap();
    fs::write(folder.path().join("warning.toml"), finding("25us")).unwrap();
    let [switch, generate] =
        ["--node switch --port inn=none0", "--node analyzer --interface none0"];
    let error = "error.toml:39:15: error: `measured` can leave switch `switch` 22.76us";
    let warning = "warning.toml:39:15: warning:";
    let refusal = "candor: error.toml: the schedule has 1 error; correct what is said above, or use the schedule as it is with --unchecked\n";
    let [link, flow] = ["has no link `inn`", "no flow begins at `analyzer`"];
    for (words, options, said, ends) in [
        ("switch error.toml", switch, error, refusal),
        ("generate error.toml", generate, error, refusal),
        ("switch --unchecked error.toml", switch, error, link),
        ("generate --unchecked error.toml", generate, error, flow),
        ("switch warning.toml", switch, warning, link),
        ("generate warning.toml", generate, warning, flow),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        let words = format!("tte {words} {options}");
        let output = command.args(words.split(' ')).current_dir(folder.path()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {stderr}");
        assert!(stderr.contains(said) && stderr.contains(ends), "{words}: {stderr}");
        assert_eq!(stderr.contains(refusal), ends == refusal, "{words}: {stderr}");
    }
}

/// The simulation is a part of the laboratory.
#[cfg(feature = "lab")]
mod capture {
    use std::collections::BTreeSet;

    use super::*;

    /// Two end systems and two switches; the second one is the compression master.
    const CONTROL: &str = r#"
cycle = "1ms"
end_system = { a = {}, b = {} }
switch = { s0 = {}, s1 = {} }
link.a = { between = ["a", "s0"] }
link.t = { between = ["s0", "s1"] }
link.b = { between = ["s1", "b"] }
synchronisation = { period = "1ms", masters = ["a"], compression_master = "s1" }
flow.tt = { class = "tt", id = 1, from = "a", to = "b", send = "500us", relay_delay = "50us" }
"#;

    /// The sources of the protocol control frames in a capture of a network, each once: 0 is its first node.
    fn sources_of_control_frames(text: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("n.toml"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        let words = ["tte", "capture", "n.toml", "n.pcapng", "--cycles", "2"];
        let output = command.args(words).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bytes = fs::read(folder.path().join("n.pcapng")).unwrap();
        // Destination 03 04 05 06 FF FF, source 02 00 00 00 00 and a number from 1, EtherType 0x891D.
        let source = |bytes: &[u8]| match bytes {
            [3, 4, 5, 6, 0xFF, 0xFF, 2, 0, 0, 0, 0, node, 0x89, 0x1D] => Some(node - 1),
            _ => None,
        };
        let sources: BTreeSet<u8> = bytes.windows(14).filter_map(source).collect();
        sources.into_iter().collect()
    }

    /// The master and the compression master; the switch between them sends none of its own.
    #[test]
    fn control_frames_keep_their_source_over_hops() {
        assert_eq!(sources_of_control_frames(CONTROL), [0, 3]);
        let without_flows = CONTROL.split("flow.tt").next().unwrap();
        assert_eq!(sources_of_control_frames(without_flows), [0, 3]);
    }

    /// Runs `tte` in a folder: its exit code, standard output and standard error.
    fn tte(folder: &std::path::Path, words: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        let output =
            command.arg("tte").args(words.split(' ')).current_dir(folder).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// One switch; the sender is up to 5 us from its instants, and the receive window 4 us wide.
    const WINDOW: &str = r#"
cycle = "1ms"
end_system = { a = { jitter = "10us" }, b = {} }
switch.s = { relaying = "store-and-forward" }
link = { in = { between = ["a", "s"] }, out = { between = ["s", "b"] } }
flow.tt = { class = "tt", id = 1, from = "a", to = "b", send = "500us" }
"#;

    #[test]
    fn a_capture_is_analyzed_against_its_schedule() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("n.toml"), WINDOW.replace("jitter = \"10us\"", "")).unwrap();
        let narrow = WINDOW.replace("send =", "window = \"4us\", send =");
        fs::write(path.join("narrow.toml"), &narrow).unwrap();
        for (file, capture) in [("n.toml", "n.pcapng"), ("narrow.toml", "narrow.pcapng.zst")] {
            let (code, _, stderr) = tte(path, &format!("capture {file} {capture} --cycles 50"));
            assert_eq!(code, Some(0), "{stderr}");
        }
        let result = |stdout: &str| serde_json::from_str::<serde_json::Value>(stdout).unwrap();
        // The first bit leaves `a` at its instant, in each period.
        let (code, stdout, stderr) = tte(path, "analyze n.toml n.pcapng --interface in/a --json");
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        let it = result(&stdout);
        assert_eq!((&it["type"], &it["data"]["received"]), (&"result".into(), &50.into()));
        let seen = &it["data"]["sections"]["analysis"];
        assert_eq!((&seen["position"]["min_ns"], &seen["outside"]), (&500_000.into(), &0.into()));
        assert_eq!(it["data"]["metrics"]["residual"]["max_ns"], 0);
        // From there to the switch, whose first bit out is a transmission and a preamble behind the first bit in.
        let (code, stdout, _) =
            tte(path, "analyze n.toml n.pcapng --interface out/s --from in/a --json --count 40");
        let it = result(&stdout);
        assert_eq!((code, &it["data"]["received"]), (Some(0), &40.into()));
        let latency = &it["data"]["metrics"]["network_latency"];
        assert_eq!((&latency["min_ns"], &latency["max_ns"]), (&5_760.into(), &5_760.into()));
        // Jitter leads out of a narrow window.
        let (code, stdout, _) =
            tte(path, "analyze narrow.toml narrow.pcapng.zst --interface in/a --json");
        assert_eq!(code, Some(1), "{stdout}");
        let outside = result(&stdout)["data"]["sections"]["analysis"]["outside"].as_u64().unwrap();
        assert!((10..50).contains(&outside), "{outside}");
        // A copy of every frame, and every frame of one interface: neither is what the schedule says.
        fs::write(path.join("none.log"), "").unwrap();
        for arguments in [
            "merge n.pcapng n.pcapng twice.pcapng",
            "merge n.pcapng none.log late.pcapng --offset n.pcapng=1.2341s",
            "cut n.pcapng behind.pcapng --bus out/s",
        ] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
            let output = command.current_dir(path).arg("log").args(arguments.split(' ')).output();
            assert!(output.unwrap().status.success(), "{arguments}");
        }
        // By another clock they are late, and still come in a period.
        let (code, stdout, _) = tte(path, "analyze n.toml late.pcapng --interface in/a --json");
        let position =
            result(&stdout)["data"]["sections"]["analysis"]["position"]["max_ns"].clone();
        assert_eq!(code, Some(1), "{stdout}");
        assert!(position.as_u64().unwrap() < 100_000_000, "{position}");
        let (code, stdout, _) = tte(path, "analyze n.toml twice.pcapng --interface in/a");
        assert_eq!(code, Some(1), "{stdout}");
        let (code, _, stderr) = tte(path, "analyze n.toml n.pcapng --interface out/s --from out/s");
        assert_eq!(code, Some(2), "{stderr}");
        assert!(
            stderr.contains("--from names the interface behind the network, out/s"),
            "{stderr}"
        );
        let (code, ..) = tte(path, "analyze n.toml behind.pcapng --interface out/s");
        assert_eq!(code, Some(0));
    }

    #[test]
    fn what_is_no_capture_of_the_network_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("n.toml"), WINDOW).unwrap();
        fs::write(path.join("other.toml"), WINDOW.replace("id = 1", "id = 2")).unwrap();
        fs::write(path.join("can.log"), "(1.0) can0 123#00\n").unwrap();
        tte(path, "capture n.toml n.pcapng --cycles 5");
        for (words, reason) in [
            (
                "n.toml n.pcapng",
                "n.pcapng: it has frames of several interfaces; name the one behind the network with --interface, and with \
                 --from the one before it, if there is one: its interfaces are `in/a` and `out/s`",
            ),
            (
                "n.toml n.pcapng --interface out/t",
                "n.pcapng: there is no interface `out/t`; did you mean `out/s`?",
            ),
            (
                "other.toml n.pcapng --interface out/s",
                "n.pcapng: no frame of other.toml at out/s (5 of others); look whether the file describes this network, its \
                 marker and its numbers of virtual links",
            ),
            (
                "n.toml can.log",
                "can.log: a candump log without Ethernet frames; give a capture of them, such as `candor tte capture` and \
                 `tcpdump -w` write",
            ),
            (
                "n.toml --interface n.pcapng",
                "a file has this name: `candor tte analyze NETWORK n.pcapng` reads the frames of a capture",
            ),
            ("n.toml absent.pcap", "absent.pcap: cannot be read: "),
            ("n.toml n.toml", "n.toml: this is a network file of time-triggered Ethernet"),
        ] {
            let (code, stdout, stderr) = tte(path, &format!("analyze {words}"));
            assert_eq!((code, stdout.as_str()), (Some(2), ""), "{words}: {stderr}");
            assert!(stderr.contains(reason), "{words}: {stderr}");
        }
    }
}

//! `candor route` as its user sees it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

const RULES: &str = "\
[bus]
powertrain = \"can0\"
body = \"can1\"

[[rule]]
name = \"speed\"
from = \"powertrain\"
to = \"body\"
match = [\"0x201\"]
set = { id = \"0x321\", length = 3 }
xor_checksum = { from = 0, to = -2, into = -1 }

[[rule]]
name = \"the rest\"
from = \"powertrain\"
to = [\"body\"]
match = [\"!0x201\"]
";

fn candor(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_candor"))
        .arg("route")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        // It may refuse its input before reading all of it, and write before that.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    })
}

/// Runs it; what it says on standard output and on standard error.
#[track_caller]
fn run(arguments: &[&str], input: &str, code: i32) -> (String, String) {
    let output = candor(arguments, input.as_bytes());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    (stdout, stderr)
}

#[test]
fn a_good_file_has_nothing_to_tell() {
    let (stdout, stderr) = run(&["check", "-"], RULES, 0);
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("", "-: 2 rules on 2 buses; 0 errors, 0 warnings\n")
    );
}

#[test]
fn findings_are_data_and_decide() {
    let wrong = RULES.replace("from = \"powertrain\"\nto = [", "from = \"powertrian\"\nto = [");
    let (stdout, stderr) = run(&["check", "-"], &wrong, 1);
    let expected = "-:15:8: error: unknown bus `powertrian`\n  from = \"powertrian\"\n         \
                    ^^^^^^^^^^^^\n  hint: did you mean `powertrain`?\n";
    assert_eq!(stdout, expected);
    assert_eq!(stderr, "-: 1 error, 0 warnings\n");

    let (stdout, _) = run(&["check", "-", "--json"], &wrong, 1);
    let expected = "{\"type\":\"finding\",\"data\":{\"severity\":\"error\",\"file\":\"-\",\
                    \"line\":15,\"column\":8,\"message\":\"unknown bus `powertrian`\",\
                    \"hint\":\"did you mean `powertrain`?\"}}\n\
                    {\"type\":\"summary\",\"data\":{\"file\":\"-\",\"rules\":null,\"errors\":1,\
                    \"warnings\":0}}\n";
    assert_eq!(stdout, expected);
}

#[test]
fn warnings_alone_are_no_failure() {
    let twice = "[[rule]]\nfrom = \"powertrain\"\nto = \"body\"\nmatch = [\"0x202\"]\n";
    let (stdout, stderr) = run(&["check", "-"], &format!("{RULES}\n{twice}"), 0);
    assert!(stdout.starts_with("-:22:9: warning: frame 0x202 goes to `body` twice"), "{stdout}");
    assert!(stderr.ends_with("0 errors, 1 warning\n"), "{stderr}");
}

#[test]
fn a_plan_says_how_much_work_the_driver_has() {
    let rule = |name: &str, id: &str| {
        format!("[[rule]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nmatch = [\"{id}\"]\n\n")
    };
    let buses = "[bus]\na = \"candor:candor0\"\nb = \"candor:candor1\"\n\n";
    let one = rule("one", "0x123");
    for (rules, steps) in [
        // A look-up, a rule and a copy: docs/drivers.md.
        (one.clone(), "17 steps"),
        // No frame meets both.
        (one.clone() + &rule("other", "0x124"), "17 steps"),
        (one.clone() + &rule("same", "0x123"), "33 steps"),
    ] {
        let (stdout, _) = run(&["check", "-", "--plan"], &format!("{buses}{rules}"), 0);
        let told = format!(
            "the rules in candor_can take at most {steps} for one frame, without open files\n"
        );
        assert!(stdout.ends_with(&told), "{stdout}");
    }
    let (stdout, _) = run(&["check", "-", "--plan"], RULES, 0);
    assert!(!stdout.contains("steps"), "{stdout}");
}

#[test]
fn a_frame_is_explained() {
    let (stdout, _) = run(&["explain", "-", "powertrain", "201#01020304"], RULES, 0);
    let expected = "\
201#01020304 from powertrain (can0): forwarded to body (can1) as 321#010203

\"speed\" (-:5:1) takes it: \"0x201\" matches
  set  id      0x201 -> 0x321
  set  length  4 -> 3
  xor_checksum byte 2  03 -> 03
  to body (can1) as 321#010203

1 other rule does not take it; --all says why
";
    assert_eq!(stdout, expected);
    let (stdout, _) = run(&["explain", "-", "powertrain", "201#01020304", "--all"], RULES, 0);
    let not_taken = "\
not taken by
  \"the rest\" (-:13:1): everything except \"0x201\" does not match: the pattern excludes this identifier
";
    assert_eq!(
        stdout,
        expected.replace("1 other rule does not take it; --all says why\n", not_taken)
    );

    let (stdout, _) = run(&["explain", "-", "can0", "202#", "--json"], RULES, 0);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        lines[0],
        "{\"type\":\"verdict\",\"data\":{\"bus\":\"powertrain\",\"frame\":\"202#\",\
         \"verdict\":\"forwarded\",\"text\":\"forwarded to body (can1)\",\"message\":null,\
         \"signals\":[]}}"
    );
    assert_eq!(
        lines[2],
        "{\"type\":\"rule\",\"data\":{\"pass\":1,\"bus\":\"powertrain\",\"frame\":\"202#\",\
         \"rule\":\"the rest\",\"line\":13,\"column\":1,\"taken\":true,\
         \"reason\":\"everything except \\\"0x201\\\" matches\",\"list\":\"inverted\",\"steps\":[],\
         \"result\":\"202#\",\"copies\":[{\"bus\":\"body\",\"interface\":\"can1\",\
         \"refused\":null,\"hops_left\":0,\"next_pass\":null,\"message\":null,\"signals\":[]}]}}"
    );
    assert_eq!(lines.len(), 3);
}

#[test]
fn an_explanation_begins_with_the_verdict() {
    const ONE: &str = "[bus]\na = \"can0\"\nb = \"can1\"\n\n[[rule]]\nname = \"r\"\nfrom = \"a\"\n\
                       to = \"b\"\nmatch = [0x123]\n";
    let refuse = format!("default = \"refuse\"\n{ONE}");
    let shorter = format!("{ONE}edit = [{{ copy = {{ from = 7, to = 0 }} }}]\n");
    for (rules, frame, verdict) in [
        (ONE, "124#", "124# from a (can0): not forwarded: no rule takes it"),
        (&refuse, "124#", "124# from a (can0): refused: no rule takes it"),
        (ONE, "123#", "123# from a (can0): forwarded to b (can1)"),
        (
            &shorter,
            "123#00",
            "123#00 from a (can0): refused by rule \"r\": it has fewer bytes than the edit needs",
        ),
    ] {
        let (stdout, _) = run(&["explain", "-", "a", frame], rules, 0);
        assert_eq!(stdout.lines().next(), Some(verdict));
    }
}

#[test]
fn a_chain_over_virtual_buses_is_explained_to_its_end() {
    const CHAIN: &str = "\
max_hops = 2

[bus]
a = \"can0\"
v = \"vcan0\"
b = \"can1\"

[[rule]]
name = \"second\"
from = \"v\"
to = \"b\"
set = { id = \"0x102\" }

[[rule]]
name = \"first\"
from = \"a\"
to = \"v\"
set = { id = \"0x101\" }
echo = true
";
    let (stdout, _) = run(&["explain", "-", "a", "100#11"], CHAIN, 0);
    let expected = "\
100#11 from a (can0): forwarded to b (can1) as 102#11

\"first\" (-:14:1) takes it: every frame except error reports matches
  set  id      0x100 -> 0x101
  to v (vcan0) as 101#11

pass 2: 101#11 comes back from v (vcan0)

\"second\" (-:8:1) takes it: every frame except error reports matches
  set  id      0x101 -> 0x102
  to b (can1) as 102#11
";
    assert_eq!(stdout, expected);
    let one_hop = CHAIN.replace("max_hops = 2", "max_hops = 1");
    let (stdout, _) = run(&["explain", "-", "a", "100#11"], &one_hop, 0);
    let refused =
        "  not to b (can1): it has reached max_hops, the limit of passes through the gateway\n";
    assert!(stdout.ends_with(refused), "{stdout}");
}

#[test]
fn signals_are_explained_with_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let dbc = "BU_: A\n\nBO_ 513 Motor: 2 A\n SG_ Speed : 0|16@1+ (0.5,0) [0|0] \"rpm\" A\n";
    fs::write(folder.path().join("car.dbc"), dbc).unwrap();
    let rules = "[bus]\na = { port = \"can0\", dbc = \"car.dbc\" }\n\
                 b = { port = \"can1\", dbc = \"car.dbc\" }\n\n\
                 [[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [\"message Motor\"]\n\
                 edit = [{ signal = \"Speed\", scale = 2 }]\n";
    let path = folder.path().join("rules.toml");
    fs::write(&path, rules).unwrap();
    let path = path.to_str().unwrap();
    let (stdout, _) = run(&["explain", path, "a", "201#0A00"], "", 0);
    let [first, came_in, .., last] = &stdout.lines().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(*first, "201#0A00 from a (can0): forwarded to b (can1) as 201#1400");
    assert_eq!((*came_in, *last), ("  Motor: Speed 5 rpm", "     Motor: Speed 10 rpm"));
    let (stdout, _) = run(&["explain", path, "a", "201#0A00", "--json"], "", 0);
    let signal = "\"message\":\"Motor\",\"signals\":[{\"name\":\"Speed\",\"value\":5.0,\
                  \"unit\":\"rpm\",\"text\":null}]";
    assert!(stdout.lines().next().unwrap().contains(signal), "{stdout}");
    assert!(stdout.contains(&signal.replace("5.0", "10.0")), "{stdout}");
}

#[test]
fn what_run_refuses_on_any_machine_check_refuses_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.toml");
    for (a, b, extra, reported) in [
        (
            "file:a.log",
            "sim:check-b",
            "[[rule]]\nfrom = \"b\"\nto = \"a\"\n",
            "read or written, not both",
        ),
        ("file:a.log", "file:b.xyz", "", "unknown file extension"),
        ("sim:check-a?queue=0", "sim:check-b", "", "`queue=0` is not a queue length"),
        ("sim:check-a?speed=1", "sim:check-b", "", "has no option `speed`"),
        ("sim:check-a", "can2udp:host:port", "", "`host:port` is not a valid address"),
        ("sim:check-a", "tunnel:host:1", "", "unknown driver `tunnel`"),
        ("sim:check-a", "cannelloni:host:1", "", "is not a transport"),
        ("sim:check-a", "can0?buffer=big", "", "`buffer=big` is not a valid value"),
    ] {
        let rules = format!(
            "[bus]\na = \"{a}\"\nb = {{ port = \"{b}\" }}\n\n[[rule]]\nfrom = \"a\"\nto = \"b\"\n{extra}"
        );
        fs::write(&path, &rules).unwrap();
        let path = path.to_str().unwrap();
        let (stdout, stderr) = run(&["check", path], "", 1);
        assert!(stdout.contains(reported) && stdout.contains("hint: "), "{rules}\n{stdout}");
        assert!(
            stdout.starts_with(&format!("{path}:2:")) || stdout.starts_with(&format!("{path}:3:"))
        );
        assert!(stderr.ends_with("1 error, 0 warnings\n"), "{stderr}");
        // The same finding, with the same place.
        let (_, stderr) = run(&["run", path], "", 1);
        assert_eq!(stderr, stdout);
    }
}

#[test]
fn a_port_that_no_rule_uses_is_not_asked_for_more_than_it_is() {
    let rules = "[bus]\na = \"file:a.log\"\nb = \"file:b.log\"\nc = \"file:c.log\"\n\n\
                 [[rule]]\nfrom = \"a\"\nto = \"b\"\n";
    let (stdout, _) = run(&["check", "-"], rules, 0);
    assert!(stdout.contains("warning: no rule uses bus `c`"), "{stdout}");
}

#[test]
fn other_files_are_called_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let experiment = file("x.toml", "bus.a.bitrate = \"1M\"\ntraffic.kind = \"flood\"\n");
    let dbc = file("x.dbc", "BU_: A\n\nBO_ 513 Motor: 2 A\n");
    let log = file("x.log", "(1.000000) can0 123#11\n");
    for (path, reported) in [
        (&experiment, "this is an experiment file; `candor lab run"),
        (&dbc, "this is a DBC file"),
        (&log, "this is a recording; `candor log info"),
    ] {
        for arguments in [&["check", path][..], &["run", path], &["explain", path, "a", "1#"]] {
            let arguments: Vec<_> =
                arguments.iter().map(|word| if *word == "1#" { "001#" } else { word }).collect();
            let (_, stderr) = run(&arguments, "", 2);
            assert!(stderr.starts_with(&format!("candor: {path}: {reported}")), "{stderr}");
        }
    }
}

#[test]
fn rules_are_converted_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("rules.toml"), RULES).unwrap();
    let (stdout, _) = run(&["convert", &path("rules.toml"), &path("rules.sh")], "", 0);
    assert_eq!(stdout, "");
    let script = fs::read_to_string(path("rules.sh")).unwrap();
    assert!(script.contains("\ncangw -A -s can0 -d can1 -f 201~C00007FF\n"), "{script}");

    let (back, _) = run(&["convert", &path("rules.sh")], "", 0);
    assert!(back.contains("match = [\"!0x201\"]"), "{back}");
    let (again, _) = run(&["convert", "-", "--to", "cangw"], &back, 0);
    let commands = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("cangw")).map(str::to_owned).collect()
    };
    assert_eq!(commands(&again), commands(&script));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "no temporary file is left");
}

#[test]
fn rules_are_compiled_and_the_image_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("rules.image");
    let path = image.to_str().unwrap();
    let (stdout, stderr) = run(&["compile", "-", "-o", path], RULES, 0);
    assert_eq!(stdout, "");
    assert!(stderr.starts_with(&format!("{path}: 2 rules on 2 buses, ")), "{stderr}");

    let (stdout, stderr) = run(&["image", path], "", 0);
    for line in [
        "\nbuses          1     560            24        2\n",
        "\npowertrain  can0  no\n",
        "\n   0  speed     powertrain  body  yes\n",
        "\n   1  the rest  powertrain  body  no\n",
    ] {
        assert!(stdout.contains(line), "{stdout}");
    }
    assert!(stderr.contains(": program image, version 2, CRC-32 "), "{stderr}");

    let mut bytes = fs::read(&image).unwrap();
    bytes[600] ^= 1;
    fs::write(&image, &bytes).unwrap();
    for arguments in [&["image", path][..], &["image", path, "--json"]] {
        let (stdout, stderr) = run(arguments, "", 1);
        assert_eq!(stdout, "");
        let damage = format!("{path}: error: header: the CRC-32 is ");
        assert!(stderr.starts_with(&damage) && stderr.ends_with("is damaged\n"), "{stderr}");
    }
}

#[test]
fn rules_without_an_image_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("rules.image");
    let path = image.to_str().unwrap();
    let (_, stderr) =
        run(&["compile", "-", "-o", path], &RULES.replace("\"body\"\n", "\"bdy\"\n"), 1);
    assert!(stderr.contains("unknown bus `bdy`"), "{stderr}");
    let long = RULES.replace("\"can1\"", &format!("\"file:{}.log\"", "x".repeat(5_000)));
    let (_, stderr) = run(&["compile", "-", "-o", path], &long, 2);
    let reason =
        "-: there is no image of these rules: section buses, record 1: a name has 5009 bytes";
    assert!(stderr.contains(reason), "{stderr}");
    assert!(!image.exists());
}

#[test]
fn what_cannot_be_converted_is_named_and_leaves_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("rules.sh");
    fs::write(&script, "before").unwrap();
    let rules = RULES.replace("match = [\"0x201\"]", "match = [1, 3]\nuid = 7");
    let (_, stderr) = run(&["convert", "-", script.to_str().unwrap()], &rules, 1);
    assert!(
        stderr.contains("-:5:1: error: cangw cannot express \"speed\": it needs 2 can-gw jobs"),
        "{stderr}"
    );
    assert_eq!(fs::read_to_string(&script).unwrap(), "before");
}

/// What needs a shell is no TOML, and the way out that is named gives the rules.
#[test]
fn scripts_that_need_a_shell_name_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    let program = Path::new(env!("CARGO_BIN_EXE_candor")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    for (script, place, rules) in [
        ("for i in 1 2 3; do cangw -A -s can0 -d can$i -e; done\n", "1:1: error: `for`", 3),
        ("#!/bin/sh\nfor i in 1 2; do cangw -A -s can0 -d can$i; done\n", "2:1: error: `for`", 2),
        ("A=can0; cangw -A -s $A -d can1\n", "1:1: error: `A=can0`", 1),
        ("add() { cangw -A -s can0 -d \"$1\"; }\nadd can1\n", "1:1: error: `add()`", 1),
        ("X=1\n[ -n \"$X\" ] && cangw -A -s can0 -d can1\n", "1:1: error: `X=1`", 1),
        ("cangw -F; cangw -A -s can0 -d can1 > /dev/null\n", "1:9: error: only a shell", 1),
        ("echo hello; cangw -A -s can0 -d can1\nexit\n", "1:1: error: `echo`", 1),
        ("eval \"cangw -A -s can0 -d can1\"\n", "1:1: error: `eval`", 1),
    ] {
        fs::write(&file, script).unwrap();
        for (input, name) in [("-", "-"), (file.to_str().unwrap(), file.to_str().unwrap())] {
            let (_, stderr) = run(&["convert", input], script, 1);
            assert!(stderr.starts_with(&format!("{name}:{place}")), "{script}: {stderr}");
            let (_, command) = stderr.split_once("the script: ").expect("a way out");
            let command = command.lines().next().unwrap().replace("FILE", file.to_str().unwrap());
            let output = Command::new("sh")
                .args(["-c", &command])
                .env("PATH", format!("{}:{path}", program.display()))
                .output()
                .unwrap();
            let written = String::from_utf8(output.stdout).unwrap();
            assert_eq!(written.matches("[[rule]]").count(), rules, "{script}: {written}{command}");
        }
    }
    let rules = format!("# for i in 1; do cangw -F; done\n{RULES}").replace("speed", "cangw -A");
    let (script, _) = run(&["convert", "-"], &rules, 0);
    assert!(script.contains("# cangw -A\n"), "{script}");
}

#[test]
fn errors_are_one_sentence_with_a_remedy() {
    let absent = Path::new("absent-folder/rules.sh").to_str().unwrap();
    for (arguments, input, expected) in [
        (&["check", "absent.toml"][..], RULES, "absent.toml: cannot be read: "),
        (&["explain", "-", "bdy", "123#"], RULES, "-: unknown bus `bdy`; did you mean `body`?"),
        (
            &["explain", "-", "lin", "123#"],
            RULES,
            "-: unknown bus `lin`; there are powertrain, body",
        ),
        (&["explain", "-", "body", "1#"], RULES, "an identifier has 3 hex digits"),
        (&["convert", "-", absent], RULES, "absent-folder/rules.sh: cannot be written: "),
    ] {
        let (stdout, stderr) = run(arguments, input, 2);
        assert_eq!(stdout, "");
        assert!(stderr.contains(expected), "{stderr}");
    }
    let output = candor(&["check", "-"], b"[bus]\na = \"\xff\"\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("byte 11 is not UTF-8"));
}

/// Rules and a recording in a folder; runs `route apply` there.
#[track_caller]
fn apply(log: &str, arguments: &[&str], code: i32) -> (String, String, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("drive.rules.toml"), RULES).unwrap();
    fs::write(path("in.log"), log).unwrap();
    let files = [path("drive.rules.toml"), path("in.log"), path("out.log")];
    let mut all = vec!["apply"];
    all.extend(files.iter().map(String::as_str));
    all.extend(arguments);
    let (stdout, stderr) = run(&all, "", code);
    assert_eq!(
        fs::read_dir(folder.path())
            .unwrap()
            .filter(|it| { it.as_ref().unwrap().file_name().to_string_lossy().ends_with(".part") })
            .count(),
        0
    );
    (stdout, stderr, fs::read_to_string(path("out.log")).ok())
}

#[test]
fn rules_are_applied_to_a_recording() {
    let log = "(2.000000) can0 201#0102030405\n(1.500000) can0 202#11\n(3.000000) can1 201#01\n\
               (4.000000) can7 123#\n(5.000000) can0 20000080#00\n";
    let (stdout, stderr, out) = apply(log, &[], 0);
    let copies = "(0000000002.000000) can1 321#010203\n(0000000001.500000) can1 202#11\n";
    let out = out.unwrap();
    // The checksum of the first copy is at its end.
    let (first, second) = out.split_once('\n').unwrap();
    assert!(first.starts_with("(0000000002.000000) can1 321#0102"), "{out}");
    assert_eq!(second, copies.split_once('\n').unwrap().1);
    let row = |name: &str| stdout.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let cells = |name: &str| row(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cells("powertrain")[1..6], ["3", "2", "1", "0", "0"]);
    assert_eq!(cells("body")[1..6], ["1", "0", "1", "0", "2"]);
    for note in [
        "note: 1 frame on can7, which is no bus of the rules; say which with --map can7=BUS (one of powertrain, body)\n",
        "note: 1 frame stamped earlier than one before; rules saw them at the time of that one; put them in order with --sort\n",
        "5 frames of 3 interfaces -> 2 frames\n",
    ] {
        assert!(stderr.contains(note), "{stderr}");
    }

    // The names of the recording are those of the output.
    let (.., out) = apply(
        "(1.000000) drive 202#11\n",
        &["--map", "drive=powertrain", "--map", "lights=body"],
        0,
    );
    assert_eq!(out.unwrap(), "(0000000001.000000) lights 202#11\n");
    // A bus that is no interface of the recording is the answer no.
    let (_, stderr, out) = apply("(1.000000) drive 202#11\n", &[], 1);
    assert!(stderr.contains("--map drive=BUS") && out.unwrap().is_empty(), "{stderr}");
}

#[test]
fn what_cannot_be_applied_leaves_nothing() {
    for (log, arguments, message) in [
        ("(1.000000) can0 123#1\n", &[][..], ":1:22: a data byte needs two hex digits"),
        ("(1.000000) can0 123#\n", &["--map", "can0"], "expected INTERFACE=BUS"),
        (
            "(1.000000) can0 123#\n",
            &["--map", "can0=body", "--map", "can0=powertrain"],
            "--map gives can0 two buses",
        ),
        (
            "(1.000000) can0 123#\n",
            &["--map", "can0=bdy"],
            "unknown bus `bdy` in --map; did you mean `body`?",
        ),
        (
            "(2.000000) can0 123#\n(1.000000) can0 123#\n",
            &["--to", "asc"],
            "a frame at 1.000000000 s is before the first one",
        ),
    ] {
        let (_, stderr, out) = apply(log, arguments, 2);
        assert!(stderr.contains(message) && out.is_none(), "{stderr}");
    }
    let (stdout, _, out) = apply("(1.000000) can0 123#\n", &["--json"], 0);
    assert!(out.is_some() && stdout.lines().all(|line| line.starts_with('{')));
}

#[test]
fn rules_see_a_recording_in_order_if_it_is_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (rules, sent) = (path("a.rules.toml"), path("sent.log"));
    fs::write(&rules, RULES).unwrap();
    let log = "(2.000000) can0 300#\n(1.000000) can0 301#\n";
    for (option, first, note) in [
        ("--color=never", "(0000000002.000000) can1 300#", "; put them in order with --sort"),
        (
            "--sort",
            "(0000000001.000000) can1 301#",
            "note: 1 record stamped earlier than one before moved to its",
        ),
    ] {
        let (_, stderr) = run(&["apply", &rules, "-", &sent, "--force", option], log, 0);
        assert!(stderr.contains(note), "{option}: {stderr}");
        assert!(fs::read_to_string(&sent).unwrap().starts_with(first), "{option}");
    }
}

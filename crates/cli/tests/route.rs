//! `candor route` as its user sees it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
    // It may refuse its input before reading all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
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
fn a_frame_is_explained() {
    let (stdout, _) = run(&["explain", "-", "powertrain", "201#01020304"], RULES, 0);
    let expected = "\
201#01020304 from powertrain (can0)

\"the rest\" does not take it (-:13:1)
  because everything but \"0x201\" does not match: this is what it leaves out

\"speed\" takes it (-:5:1)
  because \"0x201\" matches, among the kernel's single standard identifiers
  set  id      0x201 -> 0x321
  set  length  4 -> 3
  xor_checksum byte 2  03 -> 03
  becomes 321#010203
  to body (can1)
";
    assert_eq!(stdout, expected);

    let (stdout, _) = run(&["explain", "-", "can0", "202#", "--json"], RULES, 0);
    let lines: Vec<&str> = stdout.lines().collect();
    let expected = "{\"type\":\"rule\",\"data\":{\"rule\":\"the rest\",\"line\":13,\"column\":1,\
                    \"taken\":true,\"reason\":\"everything but \\\"0x201\\\" matches, among the \
                    kernel's inverted filters\",\"list\":\"inverted\",\"steps\":[],\
                    \"result\":\"202#\",\"copies\":[{\"bus\":\"body\",\"interface\":\"can1\",\
                    \"refused\":null,\"hops_left\":0}]}}";
    assert_eq!(lines.first().copied(), Some(expected));
    assert_eq!(lines.len(), 2);
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
fn what_cannot_be_converted_is_named_and_leaves_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("rules.sh");
    fs::write(&script, "before").unwrap();
    let rules = RULES.replace("match = [\"0x201\"]", "match = [1, 3]\nuid = 7");
    let (_, stderr) = run(&["convert", "-", script.to_str().unwrap()], &rules, 1);
    assert!(
        stderr.contains("-:5:1: error: cangw cannot do \"speed\": it takes 2 jobs of can-gw"),
        "{stderr}"
    );
    assert_eq!(fs::read_to_string(&script).unwrap(), "before");
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
        (&["explain", "-", "body", "1#"], RULES, "the identifier is 3 hex digits"),
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

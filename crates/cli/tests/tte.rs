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

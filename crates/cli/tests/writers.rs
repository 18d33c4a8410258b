//! What commands that write files leave when a signal ends them.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

const RULES: &str = "\
[bus]
powertrain = \"can0\"
body = \"can1\"

[[rule]]
name = \"all\"
from = \"powertrain\"
to = \"body\"
";

/// More than is read to find the format.
fn log() -> String {
    "(1000000000.000000) can0 123#1122334455667788\n".repeat(20_000)
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
    let mut names: Vec<_> = names.map(|it| it.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Starts a command in the folder that reads a recording from a pipe, which stays open, and waits for the file that grows.
fn start(folder: &Path, program: &[&str], output: &str) -> (Child, ChildStdin) {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(log().as_bytes()).unwrap();
    let grows = |name: &String| name.starts_with(&format!(".{output}.")) && name.ends_with(".part");
    while !files(folder).iter().any(grows) {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    (child, stdin)
}

fn send(signal: &str, child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
}

#[test]
fn a_signal_leaves_no_file_and_ends_the_command() {
    const CANDOR: &str = env!("CARGO_BIN_EXE_candor");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("other.log"), log()).unwrap();
    fs::write(folder.path().join("rules.toml"), RULES).unwrap();
    let commands: [&[&str]; 6] = [
        &[CANDOR, "log", "convert", "-", "out.pcapng"],
        &[CANDOR, "log", "convert", "-", "out.log.zst"],
        &[CANDOR, "log", "convert", "-", "out.blf", "--force"],
        &[CANDOR, "log", "cut", "-", "out.log", "--id", "0x123"],
        &[CANDOR, "log", "merge", "-", "other.log", "out.log.gz"],
        &[CANDOR, "route", "apply", "rules.toml", "-", "out.asc"],
    ];
    let signals = [("-INT", 2), ("-TERM", 15), ("-HUP", 1), ("-QUIT", 3), ("-XCPU", 24)];
    for (signal, number) in signals {
        for command in commands {
            let output = command.iter().find(|word| word.starts_with("out.")).unwrap();
            // Whoever runs this test may ignore signals, and so would the command.
            let command = [&["env", "--default-signal=HUP,INT,TERM,QUIT,XCPU"], command].concat();
            let (mut child, stdin) = start(folder.path(), &command, output);
            send(signal, &child);
            // A command that lives on ends here, and not as it should.
            drop(stdin);
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(number), "{command:?}: {status}");
            assert_eq!(files(folder.path()), ["other.log", "rules.toml"], "{signal} {command:?}");
        }
    }
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    // As `nohup` does.
    let script = "trap '' HUP; exec \"$0\" log convert - out.log";
    let command = ["sh", "-c", script, env!("CARGO_BIN_EXE_candor")];
    let (mut child, stdin) = start(folder.path(), &command, "out.log");
    send("-HUP", &child);
    drop(stdin);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
    assert_eq!(files(folder.path()), ["out.log"]);
}

//! Help, version, completions, manual pages and colours.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn candor(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command.args(words).env_remove("NO_COLOR").stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn stdout(words: &[&str]) -> String {
    let output = candor(words);
    assert_eq!(output.status.code(), Some(0), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_version_names_the_commit_of_a_checkout() {
    let version = stdout(&["-V"]);
    let package = env!("CARGO_PKG_VERSION");
    let git = |arguments: &[&str]| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        output.status.success().then_some(text)
    };
    // The commit that this test was built from; there may be a later one by now.
    let expected = match option_env!("CANDOR_COMMIT").filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("candor {package} ({commit})\n"),
        None => match version.split_once('(') {
            Some((_, commit)) => {
                let commit = commit.trim_end_matches(")\n");
                assert!(git(&["cat-file", "-e", commit]).is_some(), "{commit} is no commit");
                format!("candor {package} ({commit})\n")
            }
            None => {
                assert_eq!(git(&["rev-parse", "HEAD"]), None, "this is a checkout");
                format!("candor {package}\n")
            }
        },
    };
    assert_eq!(version, expected);
}

#[test]
fn the_long_version_names_features_and_target() {
    let long = stdout(&["--version"]);
    let lines: Vec<_> = long.lines().collect();
    let [first, features, target] = lines[..] else { panic!("{long}") };
    assert_eq!(format!("{first}\n"), stdout(&["-V"]));
    let with = |name, is_in| if is_in { Some(name) } else { None };
    let expected: Vec<_> = [
        with("arrow", cfg!(feature = "arrow")),
        with("dbus", cfg!(feature = "dbus")),
        with("lab", cfg!(feature = "lab")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let expected = if expected.is_empty() { "none".to_owned() } else { expected.join(", ") };
    assert_eq!(features, format!("features: {expected}"));
    let target = target.strip_prefix("target: ").unwrap();
    assert!(target.starts_with(std::env::consts::ARCH), "{target}");
}

#[test]
fn help_says_that_route_runs_a_gateway() {
    let help = stdout(&["help"]);
    let route = help.lines().find(|line| line.trim_start().starts_with("route ")).unwrap();
    assert!(route.contains("Run and watch a gateway"), "{route}");
}

#[test]
fn help_knows_commands_and_their_abbreviations() {
    let whole = stdout(&["lab", "run", "--help"]);
    for words in [
        &["help", "lab", "run"][..],
        &["help", "la", "ru"],
        &["he", "lab", "run"],
        &["lab", "help", "run"],
        &["la", "he", "ru"],
    ] {
        assert_eq!(stdout(words), whole, "{words:?}");
    }
    assert_eq!(stdout(&["help"]), stdout(&["--help"]));
    assert_eq!(stdout(&["lab", "help"]), stdout(&["lab", "--help"]));
    assert!(stdout(&["help", "help"]).contains("json"));
    assert!(stdout(&["help", "json", "--help"]).contains("--schema"));
    let output = candor(&["help", "lab", "rum"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("a similar subcommand exists: 'run'"), "{message}");
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&["completions", shell]);
        for word in ["candor", "route", "explain", "bitrate"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(candor(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn bash_understands_its_completions() {
    let script = stdout(&["completions", "bash"]);
    for (words, count, found) in [("route ex", 2, "explain\n"), ("help lab cl", 3, "claims\n")] {
        let (before, last) = words.rsplit_once(' ').unwrap();
        let before = before.rsplit(' ').next().unwrap();
        let check = format!(
            "{script}\nCOMP_WORDS=(candor {words}) COMP_CWORD={count}\n\
             _candor candor {last} {before}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        );
        // An argument may not be as long as that.
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), check).unwrap();
        let output = Command::new("bash").arg(file.path()).output().unwrap();
        let completed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(completed, found, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    let out = out.to_str().unwrap();
    // Twice: pages that are the same are no obstacle.
    for _ in 0..2 {
        assert_eq!(candor(&["man", "--out", out]).status.code(), Some(0));
    }
    let page = |name: &str| fs::read_to_string(Path::new(out).join(name)).unwrap();
    for (name, words) in [
        ("candor.1", &["candor\\-route", "gateway"][..]),
        ("candor-route.1", &["candor\\-route\\-explain"]),
        ("candor-route-explain.1", &["\\-\\-all", "123#DEADBEEF"]),
        ("candor-lab-run.1", &["\\-\\-force", "\\-\\-set"]),
        ("candor-help-json.1", &["\\-\\-schema", "candor help json result"]),
    ] {
        let page = page(name);
        assert!(page.contains(".TH candor"), "{name}");
        for word in words {
            assert!(page.contains(word), "{name}: {word} is missing in\n{page}");
        }
    }
    assert_eq!(stdout(&["man"]), page("candor.1"));
    fs::write(Path::new(out).join("candor.1"), "mine").unwrap();
    assert_eq!(candor(&["man", "--out", out]).status.code(), Some(2));
    assert_eq!(page("candor.1"), "mine");
}

#[test]
fn colours_are_only_for_those_who_want_them() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.toml");
    fs::write(&rules, "[bus]\na = \"can0\"\n[[rule]]\nfrom = \"b\"\nto = \"a\"\n").unwrap();
    let check = |options: &[&str]| {
        let output = candor(&[&["route", "check", rules.to_str().unwrap()], options].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = check(&[]);
    assert!(!plain.contains('\x1b'), "{plain}");
    assert_eq!(check(&["--color=never"]), plain);
    let painted = check(&["--color", "always"]);
    assert!(painted.contains("\x1b[1;31merror\x1b[0m"), "{painted}");
    let help = candor(&["--color", "always", "--help"]).stdout;
    assert!(help.contains(&0x1b));
    assert!(!candor(&["--color", "never", "--help"]).stdout.contains(&0x1b));

    let log = folder.path().join("drive.log");
    fs::write(&log, "(1.000000) can0 20000004#0020000000009000\n").unwrap();
    let port = format!("can0=file:{}?speed=max", log.display());
    let dump = ["bus", "dump", "--errors", &port, "--color", "always"];
    assert!(stdout(&dump).contains("\x1b[1;31m"));
}

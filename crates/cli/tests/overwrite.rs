//! Commands replace no file that is already there, unless `--force` says so.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const LOG: &str = "(1.000000) can0 123#11\n";
const RULES: &str = "[bus]\na = \"can0\"\nb = \"can1\"\n\n[[rule]]\nfrom = \"a\"\nto = \"b\"\n";
const EXPERIMENT: &str = "\
count = 20
bus.in.bitrate = \"1M\"
bus.out.bitrate = \"1M\"
gateway.delay = \"35us\"
traffic.kind = \"half\"
";

/// Every command that writes a file: its words, and the file.
const WRITERS: &[(&str, &str)] = &[
    ("bus record can0=file:drive.log?speed=max --output there.log", "there.log"),
    ("bus record can0=file:drive.log?speed=max -o there.log --split 1M", "there-0001.log"),
    ("bus dump can0=file:drive.log?speed=max --log there.log", "there.log"),
    ("log convert drive.log there.pcapng", "there.pcapng"),
    ("log cut drive.log there.pcapng", "there.pcapng"),
    ("log merge drive.log drive.log there.pcapng", "there.pcapng"),
    ("route convert rules.toml there.sh", "there.sh"),
    ("route compile rules.toml -o there.image", "there.image"),
    ("lab run experiment.toml --out there", "there/index.html"),
    ("lab claims claims.toml --out there", "there/index.html"),
    ("lab report finished", "finished/index.html"),
    ("demo --out there", "there/index.html"),
    ("demo --out there", "there/experiment/small-car.toml"),
];

fn scene() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("drive.log", LOG);
    write("rules.toml", RULES);
    write("experiment.toml", EXPERIMENT);
    let claim =
        "[[claim]]\nid = \"A\"\nsays = \"none is lost\"\nvalue = \"half lost\"\nat_most = 0\n";
    write("claims.toml", &format!("{EXPERIMENT}name = \"half\"\n{claim}"));
    folder
}

fn candor(folder: &Path, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_candor"))
        .args(words.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn run(folder: &Path, words: &str, code: i32) -> String {
    let output = candor(folder, words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words}: {stderr}");
    stderr
}

#[test]
fn a_file_that_is_there_is_only_replaced_by_force() {
    const MINE: &str = "mine, of an hour's work";
    for (words, file) in WRITERS {
        let scene = scene();
        let path = scene.path().join(file);
        if words.contains("lab report") {
            run(scene.path(), "lab run experiment.toml --out finished", 0);
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, MINE).unwrap();
        let stderr = run(scene.path(), words, 2);
        assert!(stderr.contains(file) && stderr.contains("--force"), "{words}: {stderr}");
        assert_eq!(fs::read_to_string(&path).unwrap(), MINE, "{words}");
        run(scene.path(), &format!("{words} --force"), 0);
        assert_ne!(fs::read(&path).unwrap(), MINE.as_bytes(), "{words}");
    }
}

#[test]
fn a_new_file_takes_no_force() {
    for (words, _) in WRITERS.iter().filter(|(words, _)| !words.starts_with("lab report")) {
        run(scene().path(), words, 0);
    }
}

#[test]
fn a_recording_is_not_converted_into_itself() {
    let scene = scene();
    run(scene.path(), "log convert drive.log drive.log", 2);
    assert_eq!(fs::read_to_string(scene.path().join("drive.log")).unwrap(), LOG);
    run(scene.path(), "log convert drive.log drive.log --force", 0);
    let log = fs::read_to_string(scene.path().join("drive.log")).unwrap();
    assert_eq!(log, "(0000000001.000000) can0 123#11\n");
}

#[test]
fn experiments_may_run_again_into_their_own_folder() {
    let scene = scene();
    for _ in 0..2 {
        run(scene.path(), "lab run experiment.toml --out own", 0);
        run(scene.path(), "lab report own", 0);
        run(scene.path(), "demo --out car", 0);
    }
}

/// Also by another name, and also with `--force`: the rules would be lost.
#[test]
fn an_image_does_not_replace_its_rules() {
    let scene = scene();
    let folder = scene.path();
    std::os::unix::fs::symlink("rules.toml", folder.join("link")).unwrap();
    for output in ["rules.toml", "./rules.toml", "link"] {
        let stderr = run(folder, &format!("route compile rules.toml -o {output} --force"), 2);
        assert!(stderr.contains("the image would replace its own rules"), "{stderr}");
        assert_eq!(fs::read_to_string(folder.join("rules.toml")).unwrap(), RULES);
    }
}

/// A device is written, never read: it could go on for ever.
#[test]
fn what_a_device_holds_is_not_compared() {
    let scene = scene();
    for device in ["/dev/null", "/dev/zero"] {
        run(scene.path(), &format!("route compile rules.toml -o {device}"), 0);
    }
    let stderr = run(scene.path(), "route compile rules.toml -o /dev/full", 2);
    assert!(stderr.contains("/dev/full: cannot be written"), "{stderr}");
}

/// Opening a pipe waits for somebody who writes into it; nobody does.
#[test]
fn a_pipe_that_a_file_names_is_refused() {
    let scene = scene();
    let folder = scene.path();
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("dbc.toml", &RULES.replace("a = \"can0\"", "a = { port = \"can0\", dbc = \"pipe\" }"));
    write("net.toml", "dbc = \"pipe\"\nbus.a.bitrate = \"1M\"\nnodes.a = [\"n\"]\n");
    write(
        "gateway.toml",
        &EXPERIMENT.replace("gateway.delay", "gateway.rules = \"pipe\"\ngateway.delay"),
    );
    write("over.toml", "network = \"pipe\"\n");
    for (words, code) in [
        ("route check dbc.toml", 1),
        ("network show net.toml", 1),
        ("network show pipe", 2),
        ("lab run gateway.toml", 2),
        ("lab run over.toml", 2),
    ] {
        let output = candor(folder, words);
        let both = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(output.status.code(), Some(code), "{words}: {both:?}");
        assert!(both.concat().contains("it is not a regular file"), "{words}: {both:?}");
    }
}

#[test]
fn a_dash_is_standard_output() {
    let scene = scene();
    let folder = scene.path();
    run(folder, "route compile rules.toml -o file.image", 0);
    let image = fs::read(folder.join("file.image")).unwrap();
    let output = candor(folder, "route compile rules.toml -o -");
    assert_eq!((output.status.code(), output.stdout), (Some(0), image));
    let output = candor(folder, "route convert rules.toml -");
    assert!(String::from_utf8(output.stdout).unwrap().contains("cangw -A -s can0 -d can1"));
    assert!(!folder.join("-").exists());
}

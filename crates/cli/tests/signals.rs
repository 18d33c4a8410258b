//! `candor signals` with a file: what is served, and how that changes while it runs.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
const DBC: &str = "BU_: A\n\nBO_ 291 Motor: 1 A\n SG_ Gear : 0|8@1+ (1,0) [0|9] \"\" B\n";
const LOG: &str = "(1.000000) can0 123#07\n(1.002000) can0 123#08\n";

fn candor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_candor")).args(arguments).output().unwrap()
}

/// A service with a file, in a folder of its own.
struct Scene {
    folder: tempfile::TempDir,
    service: Child,
    said: Receiver<String>,
}

impl Scene {
    fn new(buses: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("car.dbc"), DBC).unwrap();
        fs::write(folder.path().join("drive.log"), LOG).unwrap();
        write(&folder, buses);
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        command.args(["signals", "serve"]).arg(folder.path().join("s.toml"));
        let mut service = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(service.stderr.take().unwrap());
        let (sender, said) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Self { folder, service, said }
    }

    /// The next line that it says and that begins so.
    fn says(&self, start: &str) -> String {
        let mut others = Vec::new();
        loop {
            match self.said.recv_timeout(TIMEOUT) {
                Ok(line) if line.starts_with(start) => return line,
                Ok(line) => others.push(line),
                Err(error) => panic!("nothing begins with `{start}`: {error}; {others:#?}"),
            }
        }
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.folder.path().join("sock").display())
    }

    /// So many values of the signals of a pattern.
    fn watch(&self, pattern: &str) -> String {
        let output = candor(&["signals", "watch", &self.socket(), pattern, "--count", "4"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn signal(&self, name: &str) {
        let process = self.service.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

fn file(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("s.toml")
}

fn write(folder: &tempfile::TempDir, buses: &str) {
    let place = folder.path().join("sock");
    let log = folder.path().join("drive.log");
    let buses = buses.replace("LOG", &log.display().to_string());
    let text = format!("listen = \"unix:{}\"\n{buses}", place.display());
    // As editors do: whole or not at all.
    let new = folder.path().join("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file(folder)).unwrap();
}

const BODY: &str = "[bus.body]\nport = \"file:LOG?loop=true\"\ndbc = \"car.dbc\"\n";
const DRIVE: &str = "[bus.drive]\nport = \"file:LOG?loop=true&speed=2\"\ndbc = \"car.dbc\"\n";

#[test]
fn buses_come_and_go_while_it_runs_and_mistakes_change_nothing() {
    let mut scene = Scene::new(BODY);
    let serving = scene.says("serving ");
    assert!(serving.contains("1 signal of body"), "{serving}");
    assert!(scene.watch("*").lines().all(|line| line.contains("body/Motor.Gear")));
    // One more.
    write(&scene.folder, &format!("{BODY}{DRIVE}"));
    let changed = scene.says("changed: ");
    assert!(changed.starts_with("changed: 2 signals, body = file:"), "{changed}");
    assert!(scene.watch("drive/*").lines().all(|line| line.contains("drive/Motor.Gear")));
    // A mistake, with its place.
    write(&scene.folder, &format!("{BODY}{}", DRIVE.replace("port", "prot")));
    let refused = scene.says("the old buses stay in use: ");
    assert!(refused.contains("s.toml:"), "{refused}");
    scene.watch("drive/*");
    // What needs a restart.
    write(&scene.folder, &format!("coalesce = \"5ms\"\n{BODY}"));
    let refused = scene.says("the old buses stay in use: ");
    assert!(refused.contains("`coalesce` cannot be changed while the service runs"), "{refused}");
    // One less; by a signal, too.
    write(&scene.folder, DRIVE);
    scene.says("changed: 1 signal, drive = ");
    scene.signal("-HUP");
    scene.says("changed: 1 signal, drive = ");
    scene.watch("*");
    let output = candor(&["signals", "watch", &scene.socket(), "body/*", "--count", "1"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("no signal is called `body/*`"), "{stderr}");
    scene.signal("-TERM");
    assert_eq!(scene.service.wait().unwrap().code(), Some(0));
}

/// What `GET` of a path is answered, over the Unix socket.
fn get(scene: &Scene, path: &str) -> String {
    let mut stream = UnixStream::connect(scene.folder.path().join("sock")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_check_says_what_is_wrong() {
    let scene = Scene::new(BODY);
    scene.says("serving ");
    let stats = |arguments: &[&str]| {
        let output = candor(&[&["signals", "stats", &scene.socket()], arguments].concat());
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), told)
    };
    let check = |arguments: &[&str]| stats(&[&["--check"], arguments].concat());
    assert_eq!(check(&["--max-silence", "60s"]), (Some(0), "ok\n".to_owned()));
    let (code, told) = check(&["--max-silence", "bdoy=2s"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("there is no bus `bdoy`; there are `body`"), "{told}");
    let (code, told) = stats(&[]);
    assert!(code == Some(0) && told.contains("\nbody (file:"), "{told}");
    assert!(get(&scene, "/healthz?max_silence=60s").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(get(&scene, "/healthz?max_silence=bdoy=2s").starts_with("HTTP/1.1 400 "));
    let page = get(&scene, "/metrics");
    assert!(page.contains("\ncandor_signals_up 1\n"), "{page}");
    assert!(page.contains("\ncandor_signals_rejected 0\n"), "{page}");
    // A mistake, and a recording that is over: nobody sends any more.
    let over = "[bus.over]\nport = \"file:LOG\"\ndbc = \"car.dbc\"\n";
    write(&scene.folder, &format!("{BODY}{over}"));
    scene.says("changed: 2 signals");
    write(&scene.folder, "[bus.body]\nprot = \"can0\"\n");
    scene.says("the old buses stay in use: ");
    let told = loop {
        match check(&["--max-silence", "over=1s"]) {
            (Some(1), told) if told.lines().count() == 3 => break told,
            (Some(1), _) => {}
            other => panic!("{other:?}"),
        }
    };
    for (line, expected) in told.lines().zip([
        "the file on disk is not in use: ",
        "bus `over`: no more frames come",
        "bus `over`: no frame for ",
    ]) {
        assert!(line.starts_with(expected), "{told}");
    }
    // How late it is asked is up to the machine.
    let (_, silent) = told.split_once("no frame for ").unwrap();
    let (silent_s, _) = silent.split_once("s, and at most 1s is allowed").expect(&told);
    assert!(silent_s.parse::<f64>().unwrap() >= 1.0, "{told}");
    let answer = get(&scene, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("no more frames"), "{answer}");
    let (code, told) = check(&["--json"]);
    assert!(code == Some(1) && told.contains(r#""data":{"ok":false,"problems":2}"#), "{told}");
    write(&scene.folder, BODY);
    scene.says("changed: 1 signal");
    assert_eq!(check(&[]), (Some(0), "ok\n".to_owned()));
    // Nobody is there, and what is asked for is nowhere.
    drop(scene);
    let output = candor(&["signals", "stats", "unix:/absent.sock", "--check"]);
    assert_eq!(output.status.code(), Some(2));
    let output = candor(&["signals", "stats", "dbus:session"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_dbc_file_of_another_bus_is_told_and_a_service_that_is_stopped_has_not_failed() {
    let mut scene = Scene::new(BODY);
    scene.says("serving ");
    // Another file describes nothing of what was received so far, or comes.
    fs::write(scene.folder.path().join("car.dbc"), DBC.replace("291", "292")).unwrap();
    scene.says("changed: 1 signal, body = ");
    let dbc = scene.folder.path().join("car.dbc").display().to_string();
    let words = scene.says(&format!("{dbc} describes none of the "));
    assert!(
        words.ends_with(" of body (identifier 0x123); give the DBC file of this bus"),
        "{words}"
    );
    // A bus that fits makes it a service of signals.
    fs::write(scene.folder.path().join("other.dbc"), DBC).unwrap();
    write(&scene.folder, &format!("{BODY}{}", DRIVE.replace("car.dbc", "other.dbc")));
    scene.says("changed: 2 signals, body = ");
    scene.watch("drive/*");
    write(&scene.folder, BODY);
    scene.says("changed: 1 signal, body = ");
    scene.signal("-TERM");
    assert_eq!(scene.service.wait().unwrap().code(), Some(0));
    // At a desk, without a file, it is the answer.
    let [port, dbc] = ["drive.log", "car.dbc"].map(|name| scene.folder.path().join(name));
    let port = format!("drive=file:{}?speed=max&loop=true", port.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command.args(["signals", "serve", "--port", &port, "--listen", "127.0.0.1:0", "--dbc"]);
    let mut service = command.arg(dbc).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(service.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(" describes none of the ")));
    let process = service.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    assert_eq!(service.wait().unwrap().code(), Some(1));
}

#[test]
fn a_file_is_checked_without_a_port_being_opened() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("car.dbc"), DBC).unwrap();
    let path = file(&folder).display().to_string();
    for (buses, code, parts) in [
        ("[bus.body]\nport = \"can7\"\ndbc = \"car.dbc\"\n", 0, &[][..]),
        (
            "[bus.body]\nport = \"cann2udp:x\"\ndbc = \"no.dbc\"\n[bus.b]\nprot = 1\n",
            1,
            &["s.toml:3:", "s.toml:4:", "s.toml:6:", "no.dbc", "did you mean `port`"],
        ),
    ] {
        write(&folder, buses);
        let output = candor(&["signals", "check", &path]);
        let found = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{found}");
        for part in parts {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
    let output = candor(&["signals", "check", "no-such.toml"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Starts a service with options, and its last line of readiness is read.
fn with_options(folder: &tempfile::TempDir) -> (Child, BufReader<std::process::ChildStderr>) {
    fs::write(folder.path().join("drive.log"), LOG).unwrap();
    let port = format!("car=file:{}?loop=true", folder.path().join("drive.log").display());
    let socket = format!("unix:{}", folder.path().join("sock").display());
    let mut service = Command::new(env!("CARGO_BIN_EXE_candor"))
        .args(["signals", "serve", "--port", &port, "--listen", &socket])
        .args(["--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(service.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("serving raw frames, without a DBC file of car: "), "{line}");
    (service, stderr)
}

#[test]
fn several_signals_end_a_service_in_order() {
    for signals in [&["-TERM", "-TERM", "-INT"][..], &["-HUP"], &["-QUIT"], &["-XCPU", "-XCPU"]] {
        let folder = tempfile::tempdir().unwrap();
        let (mut service, mut stderr) = with_options(&folder);
        assert!(folder.path().join("sock").exists());
        let process = service.id().to_string();
        for signal in signals {
            // It may have ended before the last one.
            let _ = Command::new("kill").args([signal, process.as_str()]).output().unwrap();
        }
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut rest).unwrap();
        assert_eq!(service.wait().unwrap().code(), Some(0), "{signals:?}: {rest}");
        assert!(!folder.path().join("sock").exists(), "{signals:?}");
    }
}

#[test]
fn frames_are_watched_where_there_are_no_signals() {
    let folder = tempfile::tempdir().unwrap();
    let (mut service, _stderr) = with_options(&folder);
    let socket = format!("unix:{}", folder.path().join("sock").display());
    for format in ["json", "cbor", "msgpack"] {
        for (json, line) in
            [(&[][..], "car/0x123  07"), (&["--json"], r#""data":{"name":"car/291","data":"07"}"#)]
        {
            let arguments = ["signals", "watch", &socket, "--count", "2", "--format", format];
            let output = candor(&[&arguments[..], json].concat());
            let stdout = String::from_utf8(output.stdout).unwrap();
            assert_eq!(
                output.status.code(),
                Some(0),
                "{format}: {output:?}",
                output = output.stderr
            );
            assert_eq!(stdout.lines().count(), 2, "{format}: {stdout}");
            assert!(stdout.contains(line), "{format}: {stdout}");
        }
    }
    service.kill().unwrap();
    service.wait().unwrap();
}

#[test]
fn mistakes_in_options_are_named() {
    for (arguments, part) in [
        (
            &["serve", "--port", "car=file:a.log", "--port", "car=can2udp:127.0.0.1:5"][..],
            "two ports are called `car`; write NAME=PORT with other names",
        ),
        (
            &["serve", "--port", "can0", "--coalesce", "1h"],
            "frames would wait for too long; use at most 1s",
        ),
        (
            &["serve", "--port", "can0", "--coalesce", "-5ms"],
            "'-5ms' for '--coalesce <TIME>': a duration is a number and a unit",
        ),
        (
            &["serve", "--port", "can0", "--websocket-silence", "-5s"],
            "'-5s' for '--websocket-silence <TIME>': use 1s to 1h",
        ),
        (
            &["serve", "--port", "can0", "--sse-unread", "2h"],
            "'2h' for '--sse-unread <TIME>': use 1s to 1h",
        ),
    ] {
        let output = candor(&[&["signals"], arguments].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    }
}

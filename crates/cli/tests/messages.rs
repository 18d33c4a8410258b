//! What becomes of messages that nobody takes: standard error that is full, closed, or not read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// No test waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/recordings/drive.log");

fn candor(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// A disk that is full, and a pipe whose reader has gone.
fn bad_outputs() -> [(&'static str, Stdio); 2] {
    let (_, closed) = io::pipe().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    [("full", full.into()), ("closed", closed.into())]
}

#[test]
fn a_command_does_its_work_whatever_becomes_of_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let port = format!("file:{RECORDING}?speed=max");
    let rules = "[bus]\ncar = \"file:absent.log\"\n\n[[rule]]\nfrom = \"car\"\nto = \"cra\"\n";
    fs::write(folder.path().join("wrong.toml"), rules).unwrap();
    let experiment = format!(
        "[network.bus.a]\nbitrate = 500000\n\n[world]\ntestbed = \"sim\"\nlog = \"{RECORDING}\"\n"
    );
    fs::write(folder.path().join("wrong-experiment.toml"), experiment).unwrap();
    for arguments in [
        &["bus", "dump", &port, "--count", "3"][..],
        &["bus", "record", &port, "-o", "copy.log", "--force"],
        &["bus", "load", &port],
        &["log", "info", RECORDING],
        &["log", "convert", RECORDING, "copy.pcap", "--force"],
        &["route", "check", "wrong.toml"],
        &["route", "run", "wrong.toml"],
        &["route", "stats", "absent.toml"],
        &["lab", "run", "wrong-experiment.toml"],
        &["demo", "--out", "report"],
        &["vm", "kernels"],
        &["no-such-command"],
    ] {
        let Output { status, stdout, stderr } = candor(folder.path(), arguments).output().unwrap();
        let expected = status.code().unwrap();
        assert!(expected <= 2, "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
        for (what, stream) in bad_outputs() {
            let output = candor(folder.path(), arguments).stderr(stream).output().unwrap();
            assert_eq!(output.status.code(), Some(expected), "{arguments:?}, {what}");
            assert!(output.stdout == stdout, "{arguments:?}, {what}");
        }
        // Nobody who reads data is success; what was to be said is said.
        let (_, closed) = io::pipe().unwrap();
        let output = candor(folder.path(), arguments).stdout(closed).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code <= 2), "{arguments:?}: {said}");
        assert!(
            !said.contains("panicked") && !said.contains("roken pipe"),
            "{arguments:?}: {said}"
        );
    }
}

/// Ended with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Killed {
    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }
}

#[test]
fn a_gateway_answers_everybody_while_nobody_reads_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "[bus]\na = \"sim:a\"\nb = \"sim:b\"\n\n\
                 [[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [\"0x123\"]\n";
    fs::write(folder.path().join("drive.rules.toml"), rules).unwrap();
    let manager = UnixDatagram::bind(folder.path().join("manager")).unwrap();
    manager.set_read_timeout(Some(TIMEOUT)).unwrap();
    let hears = |wanted: &str| {
        let mut datagram = [0; 4096];
        loop {
            let count =
                manager.recv(&mut datagram).unwrap_or_else(|error| panic!("{wanted}: {error}"));
            let text = String::from_utf8_lossy(&datagram[..count]);
            if text.lines().any(|line| line.starts_with(wanted)) {
                return;
            }
        }
    };
    // As much as the pipe takes, and more.
    let (reader, mut writer) = io::pipe().unwrap();
    let stderr = writer.try_clone().unwrap();
    let filler = std::thread::spawn(move || writer.write_all(&vec![b'x'; 8 << 20]));
    let gateway =
        candor(folder.path(), &["route", "run", "drive.rules.toml", "--control", "./drive.sock"])
            .env("NOTIFY_SOCKET", folder.path().join("manager"))
            .env("WATCHDOG_USEC", "300000")
            .stdout(stderr.try_clone().unwrap())
            .stderr(stderr)
            .spawn();
    let mut gateway = Killed(gateway.unwrap());
    hears("READY=1");
    for round in 1..=20 {
        gateway.signal("HUP");
        hears("RELOADING=1");
        hears(&format!("STATUS=1 rule, changed {round} time"));
        hears("WATCHDOG=1");
    }
    let stats = candor(folder.path(), &["route", "stats", "--control", "./drive.sock", "--json"]);
    let stats = { stats }.output().unwrap();
    let stdout = String::from_utf8(stats.stdout).unwrap();
    assert!(stdout.contains("\"generation\":20"), "{stdout}");
    gateway.signal("TERM");
    hears("STOPPING=1");
    assert_eq!(gateway.0.wait().unwrap().code(), Some(0));
    drop(reader);
    // The reader went away while it wrote, so the pipe was full to the end.
    assert!(filler.join().unwrap().is_err());
}

#[test]
fn a_gateway_is_alive_and_answers_while_it_reads_many_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.rules.toml");
    let rules = |count: u32| {
        let rule = |number: u32| {
            format!(
                "[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [\"0x{:08X}x/0x1FFFF00F\"]\n",
                number << 12 | 0x1000_0000 | number & 0xF
            )
        };
        let rules: String = (0..count).map(rule).collect();
        fs::write(&path, format!("[bus]\na = \"sim:a\"\nb = \"sim:b\"\n\n{rules}")).unwrap();
    };
    rules(1);
    let manager = UnixDatagram::bind(folder.path().join("manager")).unwrap();
    manager.set_read_timeout(Some(TIMEOUT)).unwrap();
    let hear = || {
        let mut datagram = [0; 4096];
        let count = manager.recv(&mut datagram).unwrap();
        String::from_utf8_lossy(&datagram[..count]).into_owned()
    };
    let gateway =
        candor(folder.path(), &["route", "run", "drive.rules.toml", "--control", "./drive.sock"])
            .env("NOTIFY_SOCKET", folder.path().join("manager"))
            .env("WATCHDOG_USEC", "60000")
            .stderr(Stdio::null())
            .spawn();
    let _gateway = Killed(gateway.unwrap());
    while !hear().contains("READY=1") {}
    rules(10_000);
    while !hear().contains("RELOADING=1") {}
    // It is alive, and says what it did by the old rules, before the new ones are in use.
    for _ in 0..3 {
        assert!(hear().contains("WATCHDOG=1"));
    }
    let mut stats =
        candor(folder.path(), &["route", "stats", "--control", "./drive.sock", "--json"]);
    let stdout = String::from_utf8(stats.output().unwrap().stdout).unwrap();
    assert!(stdout.contains("\"generation\":0"), "{stdout}");
    while !hear().contains("STATUS=10000 rules, changed 1 time") {}
}

#[test]
fn the_signal_service_tells_its_manager_how_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(folder.path().join("manager")).unwrap();
    manager.set_read_timeout(Some(TIMEOUT)).unwrap();
    let hears = |wanted: &str| {
        let mut datagram = [0; 4096];
        loop {
            let count = manager.recv(&mut datagram).unwrap();
            let text = String::from_utf8_lossy(&datagram[..count]);
            if text.lines().any(|line| line.starts_with(wanted)) {
                return;
            }
        }
    };
    let arguments = ["signals", "serve", "--port", "car=can2udp:127.0.0.1:0", "--listen"];
    let service = candor(folder.path(), &arguments)
        .arg("127.0.0.1:0")
        .env("NOTIFY_SOCKET", folder.path().join("manager"))
        .env("WATCHDOG_USEC", "300000")
        .stderr(Stdio::null())
        .spawn();
    let mut service = Killed(service.unwrap());
    for wanted in ["READY=1", "WATCHDOG=1", "WATCHDOG=1"] {
        hears(wanted);
    }
    service.signal("TERM");
    hears("STOPPING=1");
    assert_eq!(service.0.wait().unwrap().code(), Some(0));
}

#[test]
fn every_command_has_the_same_remedy_for_an_interface_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "[bus]\na = \"nope0\"\nb = \"sim:other\"\n\n[[rule]]\nfrom = \"a\"\nto = \"b\"\n";
    fs::write(folder.path().join("a.rules.toml"), rules).unwrap();
    fs::write(folder.path().join("a.log"), "(1.0) can0 123#00\n").unwrap();
    let example = |name: &str| format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let (one, two) = (example("one-switch.tte.toml"), example("two-ports.tte.toml"));
    let generate = format!("tte generate {one} --node server --interface nope0");
    let switch =
        format!("tte switch {two} --unchecked --node switch --port middle=nope0 --port out=nope1");
    let analyze = format!("tte analyze {two} --interface nope0");
    for commands in [
        // Of CAN.
        &[
            "bus dump nope0",
            "bus dump packet:nope0",
            "bus load nope0@500k",
            "bus record nope0 --output b.log",
            "bus send nope0 123#00",
            "bus generate nope0 --count 1",
            "bus replay a.log nope0",
            "ping nope0",
            "pong nope0",
            "signals serve --port nope0 --listen unix:socket",
            "route run a.rules.toml --plane user",
        ][..],
        // Of any kind of packets.
        &["bus dump multicast:239.74.163.2?interface=nope0", &generate, &switch, &analyze],
    ] {
        let mut first = None;
        for command in commands {
            let arguments: Vec<_> = command.split(' ').collect();
            let output = candor(folder.path(), &arguments).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{command}: {said}");
            let (reason, remedy) = said.lines().last().unwrap().split_once("; ").unwrap();
            assert!(reason.contains("nope0: E"), "{command}: {said}");
            let first = first.get_or_insert_with(|| remedy.to_owned());
            assert_eq!(remedy, first, "{command}");
        }
        let remedy = first.unwrap();
        assert!(["ip link", "can-raw"].iter().any(|part| remedy.contains(part)), "{remedy}");
    }
}

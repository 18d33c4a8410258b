//! Power-on before anything is there: a gateway and a signal service are ready, say what is missing, and use it when it comes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as SocketName, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use candor_linux::{clock, peer};
use candor_time::{Instant, Monotonic, Nanos};

/// No step waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often a frame is sent that nobody may take yet.
const AGAIN: Duration = Duration::from_millis(50);

/// Ends a program with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn candor(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    command.env("NOTIFY_SOCKET", folder.join("manager"));
    command
}

/// A service manager that hears of a program.
struct Manager(UnixDatagram);

impl Manager {
    fn new(folder: &Path) -> Self {
        let socket = UnixDatagram::bind(folder.join("manager")).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self(socket)
    }

    /// The next message for which this holds.
    fn hears(&self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let mut datagram = [0; 8192];
        loop {
            let count =
                self.0.recv(&mut datagram).unwrap_or_else(|error| panic!("{what}: {error}"));
            let text = String::from_utf8_lossy(&datagram[..count]);
            if is_it(&text) {
                return text.into_owned();
            }
        }
    }
}

/// An address that somebody has, until it is dropped.
fn taken() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// The hub of a `sim:` bus that does not answer, as one that is stopped, until it is dropped; and the line of the bus in a file.
fn silent_hub(test: &str) -> (UnixListener, String) {
    let bus = format!("test-{test}-{}", std::process::id());
    let socket = format!("candor.sim.{}.{bus}", peer::own_user());
    let listener = UnixListener::bind_addr(&SocketName::from_abstract_name(socket).unwrap());
    (listener.unwrap(), format!("hub = \"sim:{bus}\"\n"))
}

/// A frame of 2 bytes: Cogent can2udp, version 1.
fn datagram() -> [u8; 20] {
    let mut datagram = [0; 20];
    (datagram[0], datagram[8]) = (1, 2);
    datagram[4..8].copy_from_slice(&0x123_u32.to_le_bytes());
    datagram
}

/// Buses that are not there: an address that no machine has (RFC 5737), an interface, and a name (RFC 6761).
const ABSENT: &str = "address = \"cannelloni:udp://127.0.0.1:20000?listen=192.0.2.77:20000\"\n\
                      group = \"multicast:239.74.163.2?interface=nosuch0\"\n\
                      name = \"cannelloni:tcp://no-such-host.invalid:20000\"\n";

/// Each of them is named with what is missing.
fn names_what_is_missing(text: &str) -> bool {
    let missing =
        ["bus `address`: cannot", "bus `group`: cannot", "bus `name`: `no-such-host.invalid"];
    missing.iter().all(|missing| text.contains(missing))
}

#[test]
fn a_gateway_is_ready_before_its_ports_and_takes_them_when_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let (busy, address) = taken();
    let (receiver, target) = taken();
    receiver.set_read_timeout(Some(AGAIN)).unwrap();
    let rules = format!(
        "[bus]\nin = \"can2udp:{address}?version=1\"\nout = \"can2udp:127.0.0.1:0?version=1&peer={target}\"\n{ABSENT}\n\
         [[rule]]\nfrom = \"in\"\nto = [\"out\", \"address\", \"group\", \"name\"]\n"
    );
    fs::write(folder.path().join("car.rules.toml"), rules).unwrap();
    let manager = Manager::new(folder.path());
    let run = ["route", "run", "car.rules.toml", "--control", "./car.sock"];
    let metrics = ["--metrics", "192.0.2.77:9464", "--metrics-public"];
    let gateway = candor(folder.path(), &[&run[..], &metrics].concat())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut gateway = Killed(gateway.unwrap());
    let ready = manager.hears("READY", |text| text.contains("READY=1"));
    assert!(names_what_is_missing(&ready) && ready.contains("bus `in`: cannot bind"), "{ready}");
    assert!(ready.contains("metrics at 192.0.2.77:9464: no interface of this machine"), "{ready}");
    let stats = candor(folder.path(), &["route", "stats", "--control", "./car.sock"]).output();
    let stats = String::from_utf8(stats.unwrap().stdout).unwrap();
    assert!(stats.contains("cannot bind") && stats.contains("no-such-host.invalid"), "{stats}");
    drop(busy);
    let status =
        manager.hears("bus in", |text| text.starts_with("STATUS=") && !text.contains("bus `in`"));
    assert!(names_what_is_missing(&status), "{status}");
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let until = clock::now::<Monotonic>() + Nanos::from_secs(TIMEOUT.as_secs());
    loop {
        sender.send_to(&datagram(), address).unwrap();
        if receiver.recv(&mut [0; 64]).is_ok_and(|count| count == datagram().len()) {
            break;
        }
        assert!(clock::now() < until, "no frame was routed");
    }
    assert!(gateway.0.try_wait().unwrap().is_none(), "it runs");
}

#[test]
fn a_signal_service_is_ready_before_its_ports_and_takes_them_when_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let (busy, address) = taken();
    let (_silent, hub) = silent_hub("service");
    let file = format!(
        "listen = \"127.0.0.1:0\"\n[bus]\nin = \"can2udp:{address}?version=1\"\n{ABSENT}{hub}"
    );
    fs::write(folder.path().join("car.signals.toml"), file).unwrap();
    let manager = Manager::new(folder.path());
    let serve = ["signals", "serve", "car.signals.toml"];
    let service = candor(folder.path(), &serve).stderr(Stdio::piped()).spawn();
    let mut service = Killed(service.unwrap());
    let mut lines = BufReader::new(service.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let serving = lines.next().unwrap();
    let (_, url) = serving.split_once("ws://").unwrap();
    let ready = manager.hears("READY", |text| text.contains("READY=1"));
    assert!(names_what_is_missing(&ready) && ready.contains("bus `in`: cannot bind"), "{ready}");
    assert!(ready.contains("bus `hub`: the hub of the bus (process "), "{ready}");
    drop(busy);
    let works = format!("can2udp:{address}?version=1 works again");
    assert!(lines.any(|line| line == works), "it says so");
    let watch = ["signals", "watch", &format!("ws://{url}"), "--count", "1"];
    let watch = candor(folder.path(), &watch).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut watch = Killed(watch.unwrap());
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let until: Instant<Monotonic> = clock::now::<Monotonic>() + Nanos::from_secs(TIMEOUT.as_secs());
    let code = loop {
        sender.send_to(&datagram(), address).unwrap();
        if let Some(status) = watch.0.try_wait().unwrap() {
            break status.code();
        }
        assert!(clock::now() < until, "no event came");
        clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(50)).unwrap();
    };
    assert_eq!(code, Some(0));
    assert!(service.0.try_wait().unwrap().is_none(), "it runs");
}

#[test]
fn a_file_that_can_never_become_right_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let _manager = Manager::new(folder.path());
    for (name, text, arguments) in [
        (
            "car.rules.toml",
            "[bus]\na = \"can2udp:x:y\"\nb = \"sim:b\"\n\n[[rule]]\nfrom = \"a\"\nto = \"b\"\n",
            ["route", "run"],
        ),
        (
            "car.signals.toml",
            "[bus]\na = \"can2udp:127.0.0.1:1?version=9\"\n",
            ["signals", "serve"],
        ),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
        let output = candor(folder.path(), &arguments).arg(name).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

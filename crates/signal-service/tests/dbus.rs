//! The service on D-Bus as its clients see it: a UDP port in, a daemon of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use candor_diagnostics::Findings;
use candor_linux::clock;
use candor_signal_service::client::Error;
use candor_signal_service::dbus::client::{Client, Content, Options};
use candor_signal_service::{
    BusAddress, ClientTimeouts, Config, Pace, Place, Service, Source, client,
};
use candor_signals::Database;
use candor_time::{Instant, Monotonic, Nanos};
use serde_json::Value;
use tempfile::TempDir;

/// No test waits longer than this for what must come.
const TIMEOUT: Nanos = Nanos::from_secs(60);
const DBC: &str = "BU_: A\n\nBO_ 291 Motor: 2 A\n SG_ Speed : 0|16@1+ (0.5,0) [0|100] \"rpm\" B\n";

/// Looks until there is something.
fn await_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end: Instant<Monotonic> = clock::now::<Monotonic>() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock::now::<Monotonic>() < end, "{what} does not come");
        let _ = clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(5));
    }
}

/// A bus daemon that keeps at most so many bytes for each of its clients.
struct Daemon {
    child: Child,
}

impl Daemon {
    fn start(folder: &TempDir, policy: &str) -> Self {
        let path = folder.path();
        let config = path.join("bus.conf");
        let text = format!(
            "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" \
             \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n\
             <busconfig><type>session</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>\n\
             <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/>\
             <allow eavesdrop=\"true\"/><allow own=\"*\"/>{policy}</policy>\n\
             <limit name=\"max_outgoing_bytes\">300000</limit></busconfig>\n",
            path.join("bus").display()
        );
        std::fs::write(&config, text).unwrap();
        let _ = std::fs::remove_file(path.join("bus"));
        let mut child = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--print-address"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon; install it with: sudo apt-get install dbus-daemon");
        // It prints its address when it listens.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("unix:path="), "{line}");
        Self { child }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A daemon, a service, and a way to send frames to it.
struct Bench {
    // Dropped first.
    service: Service,
    daemon: Option<Daemon>,
    folder: TempDir,
    sender: UdpSocket,
    target: SocketAddr,
}

impl Bench {
    fn new() -> Self {
        Self::with("")
    }

    /// With rules of the daemon beside those that allow everything.
    fn with(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(&folder, policy);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Free a moment ago; the kernel gives out others first.
        let target = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = format!("can2udp:127.0.0.1:{}?version=1&buffer=8000000", target.port());
        let database = Database::parse("car.dbc", DBC.as_bytes(), &Findings::new());
        let service = Service::start(Config {
            sources: vec![Source {
                name: "car".into(),
                address: address.parse().unwrap(),
                database: database.map(Arc::new),
                pace: Pace::Received,
            }],
            listen: vec![Place::Unix(folder.path().join("s"))],
            dbus: vec![address_of(&folder)],
            coalesce: Nanos::from_micros(1_500),
            allow_origin: Vec::new(),
            client_timeouts: ClientTimeouts::default(),
        });
        Self { service: service.unwrap(), daemon: Some(daemon), folder, sender, target }
    }

    fn address(&self) -> BusAddress {
        address_of(&self.folder)
    }

    fn client(&self) -> Client {
        Client::connect(&self.address()).unwrap()
    }

    /// Sends a frame of 2 bytes: Cogent can2udp, version 1.
    fn send(&self, id: u32, number: u16) {
        let mut datagram = [0; 20];
        datagram[0] = 1;
        datagram[4..8].copy_from_slice(&id.to_le_bytes());
        datagram[8] = 2;
        datagram[12..14].copy_from_slice(&number.to_le_bytes());
        self.sender.send_to(&datagram, self.target).unwrap();
    }

    /// Sends so many frames, not faster than they are taken, nor than `got` counts, but for some thousand.
    fn flood(&self, id: u32, count: u64, got: &AtomicU64) {
        let before = self.service.frames();
        for number in 0..count {
            self.send(id, number as u16);
            if number % 256 == 255 {
                await_some("what was sent", || {
                    let is_taken = self.service.frames() >= before + number - 255;
                    (is_taken && got.load(Ordering::Relaxed) + 10_000 > number).then_some(())
                });
            }
        }
    }

    /// The subscribers on D-Bus, as the service counts them.
    fn subscribers(&self) -> Vec<Value> {
        let url = format!("unix:{}", self.folder.path().join("s").display());
        let stats = client::Client::connect(&url).unwrap().call("stats", &Value::Null).unwrap();
        let all = stats["subscribers"].as_array().unwrap();
        all.iter().filter(|one| one["format"] == "dbus").cloned().collect()
    }

    fn gdbus(&self, arguments: &[&str]) -> (String, String) {
        let output = Command::new("gdbus")
            .args(["call", "--address", &self.address().to_string()])
            .args(["--dest", "org.candor.Signals1", "--object-path", "/org/candor/Signals1"])
            .arg("--method")
            .args(arguments)
            .output()
            .expect("gdbus; install it with: sudo apt-get install libglib2.0-bin");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }
}

fn address_of(folder: &TempDir) -> BusAddress {
    format!("unix:path={}", folder.path().join("bus").display()).parse().unwrap()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ids(ids: &[&str]) -> Options {
    Options { ids: names(ids), ..Options::default() }
}

#[test]
fn events_come_in_order_with_their_numbers_times_and_names() {
    let bench = Bench::new();
    let mut client = bench.client();
    let speed = client.subscribe(&names(&["Motor.*"]), &Options::default()).unwrap();
    let raw = client.subscribe(&[], &ids(&["*"])).unwrap();
    assert_ne!(speed, raw);
    for number in 0..100 {
        bench.send(291, number);
        bench.send(7, number);
    }
    let (mut values, mut frames) = (Vec::new(), Vec::new());
    while values.len() < 100 || frames.len() < 200 {
        let batch = client.next_batch().unwrap();
        match batch.content {
            Content::Values(some) => {
                assert_eq!(batch.handle, speed);
                values.extend(some);
            }
            Content::Frames(some) => {
                assert_eq!(batch.handle, raw);
                frames.extend(some);
            }
            other => panic!("{other:?}"),
        }
    }
    for (number, (time_us, topic, ordinal, value)) in (0..).zip(values) {
        assert_eq!(client.name(topic), Some("Motor.Speed"));
        assert_eq!((ordinal, value), (number, f64::from(number) * 0.5));
        assert!(time_us > 1_700_000_000_000_000, "{time_us}");
    }
    for name in ["car/291", "car/7"] {
        let of_id = frames.iter().filter(|frame| client.name(frame.1) == Some(name));
        let of_id: Vec<_> = of_id.map(|frame| (frame.2, frame.3.clone())).collect();
        let expected: Vec<_> =
            (0..100_u32).map(|number| (number, (number as u16).to_le_bytes().to_vec())).collect();
        assert_eq!(of_id, expected, "{name}");
    }
    let newest = client.values(&names(&["*.Speed"])).unwrap();
    assert_eq!((newest[0].0.as_str(), newest[0].1), ("Motor.Speed", 49.5));
    client.unsubscribe(raw).unwrap();
    await_some("the end of the subscription", || (bench.subscribers().len() == 1).then_some(()));
}

#[test]
fn a_filter_holds_and_the_newest_value_is_enough() {
    let bench = Bench::new();
    let mut client = bench.client();
    let options = Options { min: Some(40.0), every: Some(2), ..Options::default() };
    client.subscribe(&names(&["Motor.Speed"]), &options).unwrap();
    (0..100).for_each(|number| bench.send(291, number));
    let mut values = Vec::new();
    while values.len() < 10 {
        match client.next_batch().unwrap().content {
            Content::Values(some) => values.extend(some.into_iter().map(|event| event.3)),
            other => panic!("{other:?}"),
        }
    }
    let expected: Vec<_> = (80..100).step_by(2).map(|number| f64::from(number) * 0.5).collect();
    assert_eq!(values, expected);
}

/// Reads until so many events have come or were missed.
fn read_all(client: &mut Client, count: u64, got: &AtomicU64) -> (u64, u64) {
    let (mut delivered, mut missed, mut next) = (0, 0, 0_u64);
    while delivered + missed < count {
        match client.next_batch().unwrap().content {
            Content::Frames(frames) => {
                for (_, _, ordinal, _) in frames {
                    assert_eq!(u64::from(ordinal), next);
                    (delivered, next) = (delivered + 1, next + 1);
                }
            }
            Content::Missed { missed: some, total } => {
                (missed, next) = (missed + some, next + some);
                assert_eq!(missed, total);
            }
            other => panic!("{other:?}"),
        }
        got.store(delivered + missed, Ordering::Relaxed);
    }
    (delivered, missed)
}

#[test]
fn who_does_not_read_is_told_exactly_what_it_missed_and_slows_nobody() {
    const COUNT: u64 = 150_000;
    let bench = Bench::new();
    let mut slow = bench.client();
    slow.subscribe(&[], &ids(&["7"])).unwrap();
    let got = AtomicU64::new(0);
    thread::scope(|scope| {
        let good = scope.spawn(|| {
            let mut good = bench.client();
            good.subscribe(&[], &ids(&["7"])).unwrap();
            got.store(1, Ordering::Relaxed);
            read_all(&mut good, COUNT, &got)
        });
        await_some("the subscription", || (got.load(Ordering::Relaxed) == 1).then_some(()));
        bench.flood(7, COUNT, &got);
        assert_eq!(good.join().unwrap(), (COUNT, 0));
    });
    // What is on its way to it fits into what the daemon keeps, or some would be lost without a word.
    let (delivered, missed) = read_all(&mut slow, COUNT, &AtomicU64::new(0));
    assert_eq!(delivered + missed, COUNT);
    assert!(missed > COUNT / 2, "{missed}");
    let counted = bench.subscribers();
    let counted: Vec<_> = counted.iter().map(|one| one["missed"].as_u64().unwrap()).collect();
    assert!(counted.contains(&missed), "{counted:?} {missed}");
}

#[test]
fn a_daemon_that_dies_and_returns_is_served_again() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    client.subscribe(&names(&["*"]), &Options::default()).unwrap();
    bench.daemon = None;
    let end = client.next_batch().unwrap_err();
    assert!(matches!(end, Error::Ended(_)), "{end}");
    let address = bench.address();
    let news = await_some("news", || bench.service.news().pop());
    assert_eq!(news, format!("D-Bus {address}: its daemon has gone; trying again every second"));
    await_some("the end of the subscription", || bench.subscribers().is_empty().then_some(()));
    // The service goes on.
    bench.send(291, 9);
    await_some("a frame", || (bench.service.frames() == 1).then_some(()));
    bench.daemon = Some(Daemon::start(&bench.folder, ""));
    let news = await_some("news", || bench.service.news().pop());
    assert_eq!(news, format!("D-Bus {address} works again"));
    let mut client = bench.client();
    client.subscribe(&names(&["*"]), &Options::default()).unwrap();
    bench.send(291, 10);
    let Content::Values(values) = client.next_batch().unwrap().content else { panic!() };
    assert_eq!((values[0].2, values[0].3), (0, 5.0));
    drop(bench.service);
    assert_eq!(client.next_batch(), Err(Error::Ended("the service has stopped".to_owned())));
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let bench = Bench::new();
    let mut client = bench.client();
    let refused = |outcome: Result<u32, Error>, reason: &str| match outcome {
        Err(Error::Refused(said)) => assert!(said.contains(reason), "{said}"),
        other => panic!("{other:?}"),
    };
    let all = Options::default();
    refused(client.subscribe(&names(&["Moter.*"]), &all), "no signal is called `Moter.*`");
    refused(client.subscribe(&[], &ids(&["0x12345678901"])), "is no `id`");
    let options = Options { min: Some(f64::NAN), ..Options::default() };
    refused(client.subscribe(&[], &options), "must be a number");
    let outcome = client.unsubscribe(77).map(|()| 0);
    refused(outcome, "you have no subscription 77; use a handle that Subscribe returned");
    let handles: Vec<_> = (0..64).map(|_| client.subscribe(&[], &all).unwrap()).collect();
    refused(client.subscribe(&[], &all), "a client may have 64 subscriptions");
    client.unsubscribe(handles[0]).unwrap();
    assert!(await_some("a place", || client.subscribe(&[], &all).ok()) > 0);
    // A second service, another bus.
    let start = |address| {
        Service::start(Config {
            sources: Vec::new(),
            listen: Vec::new(),
            dbus: vec![address],
            coalesce: Nanos::ZERO,
            allow_origin: Vec::new(),
            client_timeouts: ClientTimeouts::default(),
        })
    };
    let error = start(bench.address()).unwrap_err().to_string();
    assert!(
        error.contains("another program is called org.candor.Signals1 there; end it"),
        "{error}"
    );
    let absent = BusAddress::At("unix:path=/absent/bus".to_owned());
    let error = start(absent.clone()).unwrap_err().to_string();
    assert!(error.starts_with("--dbus unix:path=/absent/bus: "), "{error}");
    assert!(error.ends_with("; start its daemon, or use another bus"), "{error}");
    assert!(matches!(Client::connect(&absent), Err(Error::Connect(..))));
}

#[test]
fn where_the_service_may_not_ask_a_subscription_ends_with_the_reason() {
    let bench = Bench::with("<deny send_interface=\"org.freedesktop.DBus.Peer\"/>");
    let mut client = bench.client();
    client.subscribe(&names(&["*"]), &Options::default()).unwrap();
    bench.send(291, 4);
    assert!(matches!(client.next_batch().unwrap().content, Content::Values(_)));
    let Content::Ended(reason) = client.next_batch().unwrap().content else { panic!() };
    assert!(reason.contains("does not let the service call Ping"), "{reason}");
    await_some("the end of the subscription", || bench.subscribers().is_empty().then_some(()));
}

/// GLib and libdbus are other implementations of D-Bus.
#[test]
fn other_programs_subscribe_and_see_events() {
    let mut bench = Bench::new();
    let (said, error) =
        bench.gdbus(&["org.candor.Signals1.Subscribe", "['Motor.*']", "{'latest': <true>}"]);
    assert_eq!(said, "(uint32 1, [(uint32 0, 'Motor.Speed')])\n", "{error}");
    // It has gone, and its subscription with it.
    await_some("the end of the subscription", || bench.subscribers().is_empty().then_some(()));
    let (_, error) =
        bench.gdbus(&["org.candor.Signals1.Subscribe", "['Motor.*']", "{'lastest': <true>}"]);
    assert!(error.contains("the option `lastest` is unknown; there are ids, latest"), "{error}");
    let (said, _) = bench.gdbus(&["org.candor.Signals1.List"]);
    assert_eq!(said, "([('Motor.Speed', 'car', uint32 291, 'rpm', @a{ss} {})], @a(ssub) [])\n");
    let (said, _) = bench.gdbus(&["org.freedesktop.DBus.Introspectable.Introspect"]);
    for part in [
        "method name=\"Subscribe\"",
        "signal name=\"Values\"",
        "type=\"a(tuud)\"",
        "type=\"a(tuuay)\"",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let mut monitor = Command::new("dbus-monitor")
        .args(["--address", &bench.address().to_string(), "interface='org.candor.Signals1'"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("dbus-monitor; install it with: sudo apt-get install dbus-bin");
    let mut output = monitor.stdout.take().unwrap();
    let (lines, said) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            let _ = lines.send(String::from_utf8_lossy(&buffer[..count]).into_owned());
        }
    });
    let mut text = String::new();
    let mut client = bench.client();
    // Each call is seen as soon as the monitor is one.
    await_some("a call", || {
        let handle = client.subscribe(&names(&["Motor.*"]), &Options::default()).unwrap();
        client.unsubscribe(handle).unwrap();
        text.extend(said.try_iter());
        text.contains("member=Subscribe").then_some(())
    });
    client.subscribe(&names(&["Motor.*"]), &Options::default()).unwrap();
    bench.send(291, 3);
    await_some("a value", || {
        text.extend(said.try_iter());
        text.contains("double 1.5").then_some(())
    });
    assert!(
        text.contains("path=/org/candor/Signals1; interface=org.candor.Signals1; member=Values"),
        "{text}"
    );
    let _ = monitor.kill();
    let _ = monitor.wait();
    // Who takes away the bus takes away its signals.
    bench.service.change(Vec::new()).unwrap();
    let (said, _) = bench.gdbus(&["org.candor.Signals1.List"]);
    assert_eq!(said, "(@a(ssusa{ss}) [], @a(ssub) [])\n");
}

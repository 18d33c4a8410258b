//! A gateway between tunnels on this machine's loopback interface: what goes in comes out, whatever
//! happens meanwhile.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use candor_engine::Table;
use candor_gateway::{Compiled, Config, Error, Gateway, Rules, Snapshot, read_rules};
use candor_linux::wake::Wake;
use candor_port::{Progress, Receiver, Sent, Transmitter, Until, Wanted};
use candor_time::Nanos;
use candor_wire::can::Frame;

/// Ports that nobody uses. They are held until all are known, so that they differ.
fn free_ports<const N: usize>() -> [u16; N] {
    let sockets: [UdpSocket; N] =
        std::array::from_fn(|_| UdpSocket::bind(("127.0.0.1", 0)).unwrap());
    std::array::from_fn(|index| sockets[index].local_addr().unwrap().port())
}

/// Two ends outside of a gateway, and the buses between them.
struct Fixture {
    buses: String,
    input: Box<dyn Transmitter>,
    output: Option<Box<dyn Receiver>>,
    /// Where the gateway listens on bus `a`.
    listens: u16,
}

impl Fixture {
    fn new() -> Self {
        let [near, a, b, far] = free_ports();
        let name = |peer: u16, own: u16| {
            format!("cannelloni:udp://127.0.0.1:{peer}?listen={own}&any_peer=true")
        };
        let buses = format!("[bus]\na = \"{}\"\nb = \"{}\"\n", name(near, a), name(far, b));
        let open =
            |name: String, wanted| candor_drivers::open(&name.parse().unwrap(), wanted).unwrap();
        let input = open(name(a, near), Wanted::TRANSMITTER).transmitter.unwrap();
        let output = open(name(b, far), Wanted::RECEIVER).receiver;
        Self { buses, input, output, listens: a }
    }

    fn table(&self, rules: &str) -> Table {
        let text = format!("{}{rules}", self.buses);
        let (table, findings) = candor_rules::file::parse("rules.toml", &text);
        table.unwrap_or_else(|| panic!("{findings}"))
    }

    fn start(&self, rules: &str) -> Gateway {
        let rules = Rules { table: self.table(rules), ..Rules::default() };
        let config = Config { measures: true, ..Config::default() };
        Gateway::start(config, rules).unwrap_or_else(|error| panic!("{error}"))
    }

    fn send(&mut self, frame: &Frame) {
        loop {
            match self.input.transmit(frame, false) {
                Sent::Taken => return,
                Sent::Full => self.input.wait(Nanos::from_millis(1)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn flush(&mut self) {
        assert_eq!(self.input.flush(), Sent::Taken);
    }

    /// Sends numbered frames for as long as the test needs, however slow the machine is, with at most so many under way; returns how many.
    fn send_until(&mut self, is_over: &AtomicBool, capture: &Capture, window: u64) -> u64 {
        let mut sent = 0;
        while !is_over.load(Ordering::Relaxed) {
            if sent > capture.count() + window {
                thread::yield_now();
                continue;
            }
            self.send(&numbered(sent));
            sent += 1;
            if sent % 50 == 0 {
                self.flush();
            }
        }
        self.flush();
        sent
    }
}

/// Sets a flag at the end of its life, also if that is a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Receives in a thread until it is dropped.
struct Capture {
    received: Arc<Mutex<Vec<Frame>>>,
    count: Arc<AtomicU64>,
    is_ending: Arc<AtomicBool>,
    sleeper: candor_linux::wake::Sleeper,
    thread: Option<thread::JoinHandle<()>>,
}

impl Capture {
    fn new(mut receiver: Box<dyn Receiver>) -> Self {
        let (received, count) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        let is_ending = Arc::new(AtomicBool::new(false));
        let (tell, reported) = std::sync::mpsc::channel();
        let thread = {
            let (received, count) = (Arc::clone(&received), Arc::clone(&count));
            let is_ending = Arc::clone(&is_ending);
            thread::spawn(move || {
                tell.send(Wake::new().unwrap().thread()).unwrap();
                while !is_ending.load(Ordering::Relaxed) {
                    let mut batch = Vec::new();
                    let progress =
                        receiver.receive(Until::Woken, &mut |it| batch.push(it.frame)).unwrap();
                    assert_ne!(progress, Progress::Ended);
                    let frames = batch.len() as u64;
                    received.lock().unwrap().extend(batch);
                    // Whoever waits for a count finds its frames.
                    count.fetch_add(frames, Ordering::Release);
                }
            })
        };
        let sleeper = reported.recv().unwrap();
        Self { received, count, is_ending, sleeper, thread: Some(thread) }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// What was received, once there are so many frames.
    fn wait_for(&self, count: u64) -> Vec<Frame> {
        while self.count() < count {
            thread::yield_now();
        }
        self.received.lock().unwrap().clone()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = self.sleeper.interrupt_until(|| thread.is_finished());
            let _ = thread.join();
        }
    }
}

/// Every frame that came is not routed or refused, or a rule took it; and every copy that rules asked
/// for is handled, pending, refused or lost. No frame here is taken by two rules.
fn assert_balanced(snapshot: &Snapshot, received: u64) {
    let port = snapshot.ports.iter().find(|port| port.bus == "a").unwrap();
    assert_eq!(port.received, received, "{port:?}");
    let copies: u64 =
        snapshot.rules.iter().filter(|rule| rule.from == "a").map(|rule| rule.copies()).sum();
    for rule in &snapshot.rules {
        let known = rule.handled + rule.pending + rule.refused() + rule.lost();
        assert_eq!(rule.copies(), known, "{rule:?}");
    }
    assert_eq!(copies + port.not_routed() + port.refused(), received, "{:?}", snapshot.rules);
    assert_eq!(copies, port.routed(), "{:?}", snapshot.rules);
}

fn numbered(number: u64) -> Frame {
    let id = candor_wire::can::StandardId::new(0x100).unwrap();
    Frame::new(id, &number.to_be_bytes()).unwrap()
}

fn number_of(frame: &Frame) -> u64 {
    u64::from_be_bytes(frame.data().try_into().unwrap())
}

#[test]
fn frames_go_through_and_are_counted() {
    let mut fixture = Fixture::new();
    let capture = Capture::new(fixture.output.take().unwrap());
    let mut gateway = fixture.start(
        "[[rule]]\nname = \"new id\"\nfrom = \"a\"\nto = \"b\"\nmatch = [0x100]\n\
         set = { id = \"0x321\" }\n\
         [[rule]]\nname = \"slowly\"\nfrom = \"a\"\nto = \"b\"\nmatch = [0x200]\nevery = 3\n",
    );
    for frame in ["100#0011", "200#01", "200#02", "200#03", "200#04", "300#", "100##0AA"] {
        fixture.send(&frame.parse().unwrap());
    }
    fixture.flush();
    let received = capture.wait_for(3);
    let received: Vec<_> = received.iter().map(Frame::to_string).collect();
    assert_eq!(received, ["321#0011", "200#01", "200#04"]);
    while gateway.snapshot().ports[0].received < 7 {
        thread::yield_now();
    }
    gateway.stop();
    let snapshot = gateway.snapshot();
    assert_balanced(&snapshot, 7);
    let port = &snapshot.ports[0];
    assert_eq!(
        (port.unmatched, port.malformed_datagrams, port.overflow_datagrams),
        (2, 0, 0),
        "{port:?}"
    );
    assert_eq!(snapshot.ports[1].transmitted, 3);
    assert_eq!(snapshot.rules[1].stopped["sampled"], 2);
    let latency = &snapshot.latencies[0];
    assert_eq!((latency.from.as_str(), latency.to.as_str(), latency.count), ("a", "b", 3));
}

#[test]
fn a_frame_is_passed_on_as_often_as_max_hops_says_and_then_refused() {
    for max_hops in [1, 2, 5] {
        let mut fixture = Fixture::new();
        let capture = Capture::new(fixture.output.take().unwrap());
        // What is sent with echo the rules of that bus see too.
        fixture.buses = format!("max_hops = {max_hops}\n{}", fixture.buses);
        let mut gateway = fixture.start(
            "[[rule]]\nname = \"in\"\nfrom = \"a\"\nto = \"b\"\necho = true\n\
             [[rule]]\nname = \"again\"\nfrom = \"b\"\nto = \"b\"\necho = true\n\
             allow_return = true\n",
        );
        fixture.send(&numbered(7));
        fixture.flush();
        assert_eq!(capture.wait_for(max_hops), vec![numbered(7); max_hops as usize]);
        // It may come before it is counted.
        gateway.stop();
        let snapshot = gateway.snapshot();
        let [once, again] = &*snapshot.rules else { panic!("{:?}", snapshot.rules) };
        assert_eq!((once.handled, once.refused()), (1, 0), "{max_hops}: {once:?}");
        assert_eq!((again.handled, again.refused()), (max_hops - 1, 1), "{max_hops}: {again:?}");
        assert_eq!(again.stopped["hop_limit"], 1, "{max_hops}: {again:?}");
        assert_eq!(capture.count(), max_hops, "no copy beyond the limit");
    }
}

#[test]
fn a_change_of_rules_loses_and_reorders_nothing() {
    const CHANGES: u64 = 50;
    /// So many frames may be under way: fewer than fit into the buffers of the sockets.
    const WINDOW: u64 = 2_000;
    let rules = |id: u32| {
        format!(
            "[[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\nmatch = [0x100]\n\
             edit = [{{ set = {{ id = {id} }} }}]\n"
        )
    };
    let mut fixture = Fixture::new();
    let capture = Capture::new(fixture.output.take().unwrap());
    let mut gateway = fixture.start(&rules(0x201));
    let tables = [fixture.table(&rules(0x202)), fixture.table(&rules(0x201))];
    let is_over = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| fixture.send_until(&is_over, &capture, WINDOW));
        let sender_stops = SetOnDrop(&is_over);
        capture.wait_for(1);
        for table in tables.iter().cycle().take(CHANGES as usize) {
            gateway.load(Rules { table: table.clone(), ..Rules::default() }).unwrap();
            // Until frames have come that were sent after the change.
            let now = capture.count();
            while capture.count() < now + WINDOW + 500 {
                thread::yield_now();
            }
        }
        drop(sender_stops);
        sender.join().unwrap()
    });
    let received = capture.wait_for(sent);
    assert_eq!(received.len() as u64, sent);
    for (expected, frame) in (0..).zip(&received) {
        assert_eq!(number_of(frame), expected, "after {expected} frames");
    }
    let switches = received.windows(2).filter(|pair| pair[0].can_id() != pair[1].can_id()).count();
    assert_eq!(switches as u64, CHANGES);
    gateway.tick();
    let snapshot = gateway.snapshot();
    assert_eq!(snapshot.generation, CHANGES);
    assert_balanced(&snapshot, sent);
}

#[test]
fn wrong_rules_leave_the_old_ones_at_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("car.rules.toml");
    let mut fixture = Fixture::new();
    let capture = Capture::new(fixture.output.take().unwrap());
    let rule = "[[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n";
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write(&format!("{}{rule}", fixture.buses));
    let config = Config { file: path.clone(), ..Config::default() };
    let mut gateway = Gateway::start(config.clone(), read_rules(&path).unwrap()).unwrap();

    write(&format!("{}{rule}colour = \"red\"\n", fixture.buses));
    let error = gateway
        .load_compiled(read_rules(&path).and_then(|rules| Compiled::new(&config, rules)))
        .unwrap_err();
    assert!(matches!(error, Error::Rules(_)) && error.to_string().contains("colour"), "{error}");
    assert!(gateway.snapshot().rejected.unwrap().contains("colour"));
    // Rules that are right, but whose port is not.
    let text =
        format!("{}c = \"no-such-if\"\n{rule}[[rule]]\nfrom = \"c\"\nto = \"a\"\n", fixture.buses);
    write(&text);
    let error = gateway.load(read_rules(&path).unwrap()).unwrap_err();
    assert!(error.to_string().contains("bus `c`"), "{error}");
    assert!(gateway.snapshot().rejected.unwrap().contains("bus `c`"));

    fixture.send(&numbered(7));
    fixture.flush();
    assert_eq!(number_of(&capture.wait_for(1)[0]), 7);
    assert!(read_rules(Path::new("/nowhere/x.toml")).is_err());
    assert!(read_rules(folder.path()).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn rubbish_is_counted_and_survived() {
    let mut fixture = Fixture::new();
    let capture = Capture::new(fixture.output.take().unwrap());
    let gateway = fixture.start("[[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n");
    let stranger = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let mut seed = 1_u32;
    println!("seed {seed}");
    for length in 0..300_usize {
        let mut bytes = vec![0; length];
        for byte in &mut bytes {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (seed >> 24) as u8;
        }
        stranger.send_to(&bytes, ("127.0.0.1", fixture.listens)).unwrap();
    }
    // CVE-2026-37539: a length beyond what a frame has.
    let attack = [2, 0, 0, 0, 1, 0, 0, 1, 0x23, 0x7F, 1, 2, 3];
    stranger.send_to(&attack, ("127.0.0.1", fixture.listens)).unwrap();
    while gateway.snapshot().ports[0].malformed_datagrams < 301 {
        thread::yield_now();
    }
    fixture.send(&numbered(1));
    fixture.flush();
    assert_eq!(capture.wait_for(1), [numbered(1)]);
    assert_balanced(&gateway.snapshot(), 1);
}

#[test]
fn buses_come_and_go_with_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    let capture = Capture::new(fixture.output.take().unwrap());
    let log = folder.path().join("out.log");
    let to_b = "[[rule]]\nname = \"to b\"\nfrom = \"a\"\nto = \"b\"\n";
    let mut gateway = fixture.start(to_b);
    fixture.send(&numbered(0));
    fixture.flush();
    capture.wait_for(1);

    let to_log = "[[rule]]\nname = \"to log\"\nfrom = \"a\"\nto = \"log\"\n";
    let text = format!("{}log = \"file:{}\"\n{to_b}{to_log}", fixture.buses, log.display());
    let (table, findings) = candor_rules::file::parse("rules.toml", &text);
    let table = table.unwrap_or_else(|| panic!("{findings}"));
    gateway.load(Rules { table, ..Rules::default() }).unwrap();
    fixture.send(&numbered(1));
    fixture.flush();
    capture.wait_for(2);
    while gateway.snapshot().rules.iter().map(|rule| rule.handled).sum::<u64>() < 3 {
        thread::yield_now();
    }

    gateway.load(Rules { table: fixture.table(to_b), ..Rules::default() }).unwrap();
    fixture.send(&numbered(2));
    fixture.flush();
    capture.wait_for(3);
    let written = std::fs::read_to_string(&log).unwrap();
    assert!(written.contains("100#0000000000000001") && written.lines().count() == 1, "{written}");
    gateway.tick();
    let snapshot = gateway.snapshot();
    let of = |name: &str| snapshot.rules.iter().find(|rule| rule.rule == name).unwrap();
    assert_eq!((of("to b").handled, of("to b").in_use), (3, true));
    assert_eq!((of("to log").handled, of("to log").in_use), (1, false));
}

/// Changes that leave a port what it is leave it alone, and those that change its options take its
/// address over: while frames flow, nothing is lost and nothing comes twice.
#[test]
fn a_port_is_changed_without_being_closed() {
    const CHANGES: u64 = 21;
    const WINDOW: u64 = 1_000;
    let mut fixture = Fixture::new();
    let capture = Capture::new(fixture.output.take().unwrap());
    let rule = |from: &str, to: &str, more: &str| {
        format!(
            "[[rule]]\nname = \"all\"\nfrom = \"{from}\"\nto = \"{to}\"\nmatch = [0x100]\n{more}"
        )
    };
    let buses = fixture.buses.clone();
    let (here, there) = (buses.replace("\na = ", "\nin = "), buses.replace("\nb = ", "\nout = "));
    let error_rule = "[[rule]]\nname = \"errors\"\nfrom = \"a\"\nto = \"b\"\nmatch = [\"error\"]\n";
    let texts = [
        format!("{buses}{}", rule("a", "b", "")),
        // Other names.
        format!("{here}{}", rule("in", "b", "")),
        format!("{there}{}", rule("a", "out", "")),
        // A rule for error reports.
        format!("{buses}{}{error_rule}", rule("a", "b", "")),
        // Other options on the way in and on the way out.
        format!(
            "{}{}",
            buses.replace("any_peer=true", "any_peer=true&queue=300"),
            rule("a", "b", "")
        ),
        format!(
            "{}{}",
            buses.replace("any_peer=true", "any_peer=true&mtu=1400"),
            rule("a", "b", "")
        ),
        // Frames go the other way too.
        format!("{buses}{}{}", rule("a", "b", ""), rule("b", "a", "").replace("all", "back")),
    ];
    let parse = |text: &String| {
        let (table, findings) = candor_rules::file::parse("rules.toml", text);
        table.unwrap_or_else(|| panic!("{findings}\n{text}"))
    };
    let tables: Vec<Table> = texts.iter().map(parse).collect();
    let rules = |table: &Table| Rules { table: table.clone(), ..Rules::default() };
    let mut gateway = Gateway::start(Config::default(), rules(&tables[0])).unwrap();
    let is_over = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| fixture.send_until(&is_over, &capture, WINDOW));
        let sender_stops = SetOnDrop(&is_over);
        for table in tables.iter().cycle().skip(1).take(CHANGES as usize) {
            let before = capture.count();
            gateway.load(rules(table)).unwrap_or_else(|error| panic!("{error}"));
            while capture.count() < before + 1_000 {
                thread::yield_now();
            }
        }
        drop(sender_stops);
        sender.join().unwrap()
    });
    let received = capture.wait_for(sent);
    assert_eq!(received.len() as u64, sent);
    for (expected, frame) in (0..).zip(&received) {
        assert_eq!(number_of(frame), expected, "after {expected} frames");
    }
    assert_eq!(gateway.changes(), CHANGES);
    gateway.load(rules(&tables[0])).unwrap();
    gateway.stop();
    let snapshot = gateway.snapshot();
    // Counters of ports go on, whatever their buses were called.
    let [a, b] = ["a", "b"].map(|bus| snapshot.ports.iter().find(|it| it.bus == bus).unwrap());
    assert_eq!((a.received, a.unmatched, b.transmitted), (sent, 0, sent), "{snapshot:#?}");
    let handled: u64 = snapshot.rules.iter().map(|rule| rule.handled).sum();
    assert_eq!(handled, sent);
}

/// The threads of this process whose names end with one of these buses: `receive/a` is one of bus `a`.
fn threads_of(buses: &[&str]) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread of another test may end meanwhile.
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let is_of_one = |name: &String| {
        name.trim_end().split_once('/').is_some_and(|(_, bus)| buses.contains(&bus))
    };
    names.filter(is_of_one).collect()
}

#[test]
fn a_change_that_fails_leaves_nothing_behind() {
    let mut fixture = Fixture::new();
    let capture = Capture::new(fixture.output.take().unwrap());
    let rule = "[[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n";
    let mut gateway = fixture.start(rule);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("old.pcap");
    std::fs::write(&log, "what was recorded").unwrap();
    let [free, last] = free_ports();
    // The second and third bus can be opened, the last one cannot. No other test of this program has
    // buses of these names.
    let buses = fixture.buses.clone();
    let text = |last: &str| {
        format!(
            "{buses}third = \"cannelloni:udp://127.0.0.1:1?listen={free}\"\nlog = \"file:{}?replace=true\"\n\
             fourth = \"{last}\"\n{rule}\
             [[rule]]\nfrom = \"a\"\nto = [\"third\", \"log\", \"fourth\"]\n",
            log.display(),
        )
    };
    let table = |last: &str| {
        let (table, findings) = candor_rules::file::parse("rules.toml", &text(last));
        table.unwrap_or_else(|| panic!("{findings}"))
    };
    for _ in 0..3 {
        let rules = Rules { table: table("no-such-if"), ..Rules::default() };
        let error = gateway.load(rules).unwrap_err();
        assert!(error.to_string().contains("bus `fourth`"), "{error}");
        // The address is free again as soon as it has failed.
        drop(UdpSocket::bind(("0.0.0.0", free)).unwrap());
        assert_eq!(threads_of(&["third", "log", "fourth"]), Vec::<String>::new());
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "what was recorded");
    fixture.send(&numbered(7));
    fixture.flush();
    assert_eq!(number_of(&capture.wait_for(1)[0]), 7);
    // With a last bus that can be opened there are such threads.
    let rules = table(&format!("cannelloni:udp://127.0.0.1:2?listen={last}"));
    gateway.load(Rules { table: rules, ..Rules::default() }).unwrap();
    // A thread has its name a moment after it was started.
    while threads_of(&["third"]).is_empty() {
        thread::yield_now();
    }
}

/// The kernel takes frames for a controller that is bus-off, and drops them: the socket has no trouble, the port has.
#[test]
fn a_bus_off_controller_is_a_port_that_does_not_work() {
    let fixture = Fixture::new();
    let rule = "[[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n";
    let mut gateway = fixture.start(rule);
    let problems = |gateway: &Gateway| {
        let found = candor_gateway::health::problems(&gateway.snapshot(), &[]).unwrap();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(problems(&gateway), [""; 0]);
    // What stands for an interface here: the port without its options.
    let interface = fixture.table(rule).buses[1].interface().to_owned();
    gateway.set_bus_offs([interface.clone(), "can7".to_owned()].into());
    let why = format!("bus `b`: {interface} is bus-off until its controller is restarted");
    assert_eq!(problems(&gateway), [why.as_str()]);
    assert_eq!(gateway.troubles(), [why]);
    gateway.set_bus_offs(["can7".to_owned()].into());
    assert_eq!(problems(&gateway), [""; 0]);
    assert_eq!(gateway.troubles(), [""; 0]);
}

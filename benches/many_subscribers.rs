//! Many subscribers of the signal service, each of a few signals: 12,586 frames/s of 340 identifiers, open loop over UDP.
//!
//!     cargo bench -p candor-signal-service --bench many_subscribers -- [SECONDS] [subscribers=N] [signals=N] [tick=TIME] [seed=N] [stalled=N]
//!
//! The service and its subscribers, WebSocket connections with JSON, are a process each. Without `stalled` it runs
//! twice: without anybody who never reads, and with one who is subscribed to everything and never reads. It prints the
//! CPU time and the memory of the service, what was delivered and missed, and how old events were when they were read.
//! Before that it does the same without processes and sockets, in virtual time: what the hub and the subscribers take
//! by themselves, also with one subscriber of everything.
//! It fails when the service, the subscribers and the sender do not agree about every subscriber.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use candor_diagnostics::Findings;
use candor_events::afb::Api;
use candor_events::{Bus, Filter, Format, Hub, Pattern, Subscriber};
use candor_signal_service::{ClientTimeouts, Config, Pace, Place, Service, Source};
use candor_signals::Database;
use candor_time::Nanos;
use candor_wire::can::{Frame, StandardId};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tungstenite::{Message, WebSocket};

const RATE: u64 = 12_586;
const IDS: u64 = 340;
/// Of each message.
const SIGNALS: u64 = 3;
const MAX_SECONDS: u64 = 600;
/// Of so many subscribers, one notes how old its events are.
const SAMPLED: usize = 50;
/// How long the last events may take.
const REST: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is measured.
#[derive(Clone, Debug)]
struct Plan {
    seconds: u64,
    subscribers: usize,
    signals: u64,
    tick: String,
    seed: u64,
    stalled: Option<usize>,
}

impl Plan {
    fn read(arguments: impl Iterator<Item = String>) -> Self {
        let mut plan = Self {
            seconds: 20,
            subscribers: 1_000,
            signals: 10,
            tick: "10ms".into(),
            seed: 1,
            stalled: None,
        };
        for argument in arguments.filter(|argument| !argument.starts_with("--")) {
            let (key, value) = argument.split_once('=').unwrap_or(("seconds", &argument));
            let number = || value.parse::<u64>().expect("a number");
            match key {
                "seconds" => plan.seconds = number().min(MAX_SECONDS),
                "subscribers" => plan.subscribers = number() as usize,
                "signals" => plan.signals = number().clamp(1, IDS * SIGNALS),
                "tick" => plan.tick = value.to_owned(),
                "seed" => plan.seed = number(),
                "stalled" => plan.stalled = Some(number() as usize),
                _ => panic!("`{key}` is unknown"),
            }
        }
        plan
    }

    /// The signals of each subscriber, all different, by the seed alone.
    fn choices(&self) -> Vec<Vec<u64>> {
        let mut state = self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let all = IDS * SIGNALS;
        let choose = |_| {
            let mut chosen: Vec<u64> = (0..all).collect();
            for place in 0..self.signals {
                let other = place + next() % (all - place);
                chosen.swap(place as usize, other as usize);
            }
            chosen.truncate(self.signals as usize);
            chosen
        };
        (0..self.subscribers).map(choose).collect()
    }
}

fn name(signal: u64) -> String {
    format!("Message{}.Signal{}", signal / SIGNALS, signal % SIGNALS)
}

fn database() -> String {
    let mut text = "BU_: A\n".to_owned();
    for message in 0..IDS {
        let _ = write!(text, "\nBO_ {} Message{message}: 8 A\n", 0x100 + message);
        for signal in 0..SIGNALS {
            let _ =
                writeln!(text, " SG_ Signal{signal} : {}|16@1+ (0.5,0) [0|0] \"\" A", signal * 16);
        }
    }
    text
}

/// Figures of a process.
#[derive(Clone, Copy, Default)]
struct Usage {
    cpu_ns: u64,
    memory_kb: u64,
    most_memory_kb: u64,
}

fn usage(process: u32) -> Usage {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kb = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("0");
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    };
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let times = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Usage { cpu_ns: times.sum(), memory_kb: kb("VmRSS:"), most_memory_kb: kb("VmHWM:") }
}

/// This program in another role: a line that it prints is an answer, and a line that it reads ends it.
struct Part {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Part {
    fn start(arguments: &[String]) -> Self {
        let program = std::env::current_exe().expect("a path");
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, input, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it prints text");
        assert!(!line.is_empty(), "a part of the benchmark has ended");
        line.trim().to_owned()
    }

    fn end(&mut self) {
        self.input.write_all(b"end\n").expect("it reads");
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for a line.
fn wait_for_end() {
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// The role of the service.
fn serve(port: &str, tick: &str) {
    let address = format!("can2udp:127.0.0.1:{port}?version=1&buffer=8000000");
    let text = database();
    let database = Database::parse("many.dbc", text.as_bytes(), &Findings::new());
    let address = address.parse().expect("a port");
    let service = Service::start(Config {
        sources: vec![Source {
            name: "car".into(),
            address,
            database: database.map(Arc::new),
            pace: Pace::Received,
        }],
        listen: vec!["127.0.0.1:0".parse().expect("a place")],
        dbus: Vec::new(),
        coalesce: tick.parse().unwrap_or(Nanos::from_millis(10)),
        allow_origin: Vec::new(),
        // The subscribers here read bytes, and answer no pings.
        client_timeouts: ClientTimeouts {
            websocket_silence: Nanos::from_secs(3_600),
            ..ClientTimeouts::default()
        },
    });
    let service = service.unwrap_or_else(|error| panic!("{error}"));
    if let Some(Place::Tcp(address)) = service.places().first() {
        println!("{address}");
    }
    wait_for_end();
}

fn connect(address: SocketAddr) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(address).expect("the service listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let url = format!("ws://{address}/api");
    tungstenite::client(url, stream).expect("the service lets in whoever comes").0
}

/// Calls a verb. What it answers.
fn call(socket: &mut WebSocket<TcpStream>, verb: &str, arguments: &Value) -> Value {
    let message = json!([2, "1", format!("low-can/{verb}"), arguments]).to_string();
    socket.send(Message::text(message)).expect("it is open");
    let Ok(Message::Text(reply)) = socket.read() else { panic!("a reply is text") };
    let mut reply: Value = serde_json::from_str(&reply).expect("it is JSON");
    assert_eq!(reply[0], 3, "{reply}");
    reply[2]["response"].take()
}

fn subscribed(address: SocketAddr, names: &[String]) -> TcpStream {
    let mut socket = connect(address);
    call(&mut socket, "subscribe", &json!({ "event": names }));
    socket.into_inner()
}

/// What a subscriber got.
#[derive(Default)]
struct Tally {
    delivered: u64,
    missed: u64,
}

impl Tally {
    /// Counts the messages in these bytes, and returns how many bytes these were.
    fn count(&mut self, bytes: &[u8], latency_us: &mut Option<&mut Vec<u32>>) -> usize {
        let mut done = 0;
        while let Some((message, len)) = message(&bytes[done..]) {
            done += len;
            if message.starts_with(b"[5,\"candor/missed\"") {
                self.missed += number(message, b"\"missed\":").expect("it says how many");
                continue;
            }
            self.delivered += 1;
            if let Some(latency_us) = latency_us {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let now_us = now.expect("after 1970").as_micros() as u64;
                let then_us = number(message, b"\"timestamp\":").expect("each event has one");
                latency_us.push(now_us.saturating_sub(then_us) as u32);
            }
        }
        done
    }
}

/// The first message of a server, and its length with the header, if all of it is there.
fn message(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (header, len) = match (*bytes.get(1)?, bytes.get(2..4)) {
        (126, None) => return None,
        (126, Some(len)) => (4, usize::from(u16::from_be_bytes([len[0], len[1]]))),
        (127, _) => panic!("no event is that long"),
        (len, _) => (2, usize::from(len)),
    };
    Some((bytes.get(header..header + len)?, header + len))
}

/// The number behind a key.
fn number(message: &[u8], key: &[u8]) -> Option<u64> {
    let start = message.windows(key.len()).rposition(|window| window == key)? + key.len();
    let digits = message[start..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// What all tasks of the subscribers share.
struct Hall {
    buffer: RefCell<Vec<u8>>,
    tallies: RefCell<Vec<Tally>>,
    latency_us: RefCell<Vec<u32>>,
}

async fn read(stream: TcpStream, place: usize, hall: Rc<Hall>) {
    stream.set_nonblocking(true).expect("a socket");
    let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
    let mut rest: Vec<u8> = Vec::new();
    while stream.readable().await.is_ok() {
        let mut buffer = hall.buffer.borrow_mut();
        buffer[..rest.len()].copy_from_slice(&rest);
        match stream.try_read(&mut buffer[rest.len()..]) {
            Ok(0) => return,
            Ok(count) => {
                let bytes = &buffer[..rest.len() + count];
                let mut latency_us = hall.latency_us.borrow_mut();
                let mut latency_us = place.is_multiple_of(SAMPLED).then_some(&mut *latency_us);
                let done = hall.tallies.borrow_mut()[place].count(bytes, &mut latency_us);
                rest.clear();
                rest.extend_from_slice(&bytes[done..]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// The role of the subscribers.
fn subscribe(address: &str, plan: &Plan) {
    let address: SocketAddr = address.parse().expect("an address");
    let choices = plan.choices();
    let names = |chosen: &Vec<u64>| chosen.iter().map(|&signal| name(signal)).collect::<Vec<_>>();
    let streams: Vec<_> =
        choices.iter().map(|chosen| subscribed(address, &names(chosen))).collect();
    let stalled = (0..plan.stalled.unwrap_or(0)).map(|_| subscribed(address, &["*".to_owned()]));
    let _stalled: Vec<_> = stalled.collect();
    let hall = Rc::new(Hall {
        buffer: RefCell::new(vec![0; 256 << 10]),
        tallies: RefCell::new(streams.iter().map(|_| Tally::default()).collect()),
        latency_us: RefCell::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let (sender, ended) = oneshot::channel();
    println!("ready");
    thread::spawn(move || {
        wait_for_end();
        let _ = sender.send(());
    });
    LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        for (place, stream) in streams.into_iter().enumerate() {
            tokio::task::spawn_local(read(stream, place, Rc::clone(&hall)));
        }
        let _ = ended.await;
    });
    let mut latency_us = hall.latency_us.take();
    latency_us.sort_unstable();
    let at = |per_mille: usize| latency_us.get(latency_us.len() * per_mille / 1_000);
    let tallies = hall.tallies.borrow();
    let counts: Vec<_> = tallies.iter().map(|tally| [tally.delivered, tally.missed]).collect();
    println!(
        "{}",
        json!({ "counts": counts, "p50": at(500), "p99": at(990), "max": latency_us.last() })
    );
}

/// Sends frames, each at its time. How many there were.
fn send(target: SocketAddr, seconds: u64) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    // Cogent can2udp, version 1: 8 bytes.
    let mut datagram = [0; 20];
    (datagram[0], datagram[8]) = (1, 8);
    let (start, all) = (Instant::now(), seconds * RATE);
    let mut number = 0;
    while number < all {
        let due = start.elapsed().as_nanos() as u64 * RATE / 1_000_000_000;
        while number < due.min(all) {
            datagram[4..8].copy_from_slice(&(0x100 + (number % IDS) as u32).to_le_bytes());
            datagram[12..20].copy_from_slice(&number.to_le_bytes());
            socket.send_to(&datagram, target).expect("there is room");
            number += 1;
        }
        thread::sleep(Duration::from_micros(500));
    }
    number
}

/// Two numbers for each subscriber: delivered and missed.
fn sorted(mut counts: Vec<[u64; 2]>) -> Vec<[u64; 2]> {
    counts.sort_unstable();
    counts
}

/// What the hub and these subscribers take by themselves: CPU time per frame in ns, and events delivered.
fn alone(plan: &Plan, wanted: &[Vec<String>], seconds: u64) -> (f64, u64) {
    let database = Database::parse("many.dbc", database().as_bytes(), &Findings::new());
    let mut hub = Hub::new(vec![Bus { name: "car".into(), database: database.map(Arc::new) }]);
    let format = Format::Afb(Api::LowCan);
    hub.open(format, |_, _| {});
    let mut subscribers: Vec<_> = wanted.iter().map(|_| Subscriber::new(&hub, format)).collect();
    for (subscriber, names) in subscribers.iter_mut().zip(wanted) {
        for name in names {
            subscriber.subscribe(&mut hub, Pattern::Name(name.clone()), Filter::default(), false);
        }
    }
    let tick_ns = plan.tick.parse().unwrap_or(Nanos::from_millis(10)).as_nanos();
    let frames = seconds * RATE;
    let (mut number, mut out) = (0, Vec::new());
    let before = usage(std::process::id()).cpu_ns;
    for tick in 1.. {
        while number < (tick * tick_ns * RATE / 1_000_000_000).min(frames) {
            let id = StandardId::new((0x100 + number % IDS) as u16).expect("11 bits");
            let frame = Frame::new(id, &number.to_le_bytes()).expect("8 bytes");
            hub.publish(0, number * 1_000_000_000 / RATE, &frame);
            number += 1;
        }
        for subscriber in &mut subscribers {
            out.clear();
            subscriber.deliver(&hub, usize::MAX, &mut out);
        }
        if number == frames {
            break;
        }
    }
    let cpu_ns = usage(std::process::id()).cpu_ns - before;
    let delivered = subscribers.iter().map(|subscriber| subscriber.counts().delivered).sum();
    (cpu_ns as f64 / frames as f64, delivered)
}

fn measure(plan: &Plan, stalled: usize) {
    // Free a moment ago; the kernel gives out others first.
    let target = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let target = target.expect("loopback");
    let port = target.port().to_string();
    let mut service = Part::start(&["role=service".into(), port, plan.tick.clone()]);
    let address = service.line();
    let empty = usage(service.process.id());
    let mut subscribers = Part::start(&[
        "role=subscribers".into(),
        address.clone(),
        format!("subscribers={}", plan.subscribers),
        format!("signals={}", plan.signals),
        format!("seed={}", plan.seed),
        format!("stalled={stalled}"),
    ]);
    assert_eq!(subscribers.line(), "ready");
    let [before, before_there] = [&service, &subscribers].map(|part| usage(part.process.id()));
    let start = Instant::now();
    let sent = send(target, plan.seconds);
    thread::sleep(REST);
    let [after, after_there] = [&service, &subscribers].map(|part| usage(part.process.id()));
    let wall_ns = (start.elapsed() - REST).as_nanos() as f64;
    let mut asking = connect(address.parse().expect("an address"));
    let stats = call(&mut asking, "stats", &Value::Null);
    subscribers.end();
    let seen: Value = serde_json::from_str(&subscribers.line()).expect("JSON");
    let pair =
        |pair: &Value, keys: [&str; 2]| keys.map(|key| pair[key].as_u64().expect("a number"));
    let of_service = stats["subscribers"].as_array().expect("a list").iter();
    let mut of_service: Vec<_> = of_service.map(|it| pair(it, ["delivered", "missed"])).collect();
    // The ones that never read were the last to come.
    let of_stalled = of_service.split_off(plan.subscribers);
    let of_clients: Vec<[u64; 2]> = seen["counts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|counts| [0, 1].map(|place| counts[place].as_u64().expect("a number")))
        .collect();
    let cpu_ns = (after.cpu_ns - before.cpu_ns) as f64;
    let sum = |place: usize| of_clients.iter().map(|counts| counts[place]).sum::<u64>();
    let worst = of_clients.iter().map(|counts| counts[1]).max().unwrap_or(0);
    let [frames, lost] = pair(&stats["buses"][0], ["frames", "lost"]);
    let ms = |key: &str| seen[key].as_u64().unwrap_or(0) as f64 / 1e3;
    let mb = |kb: u64| kb as f64 / 1_024.0;
    println!(
        "| {stalled} | {:.1} us | {:.1} % | {:.1} % | {:.1}, {:.1}, {:.1} MB | {} | {} | {worst} | {:.1}, {:.1}, {:.1} ms |",
        cpu_ns / 1e3 / frames as f64,
        cpu_ns * 100.0 / wall_ns,
        (after_there.cpu_ns - before_there.cpu_ns) as f64 * 100.0 / wall_ns,
        mb(empty.memory_kb),
        mb(before.memory_kb),
        mb(after.most_memory_kb),
        sum(0),
        sum(1),
        ms("p50"),
        ms("p99"),
        ms("max"),
    );
    if let [[delivered, missed]] = of_stalled[..] {
        println!(
            "\nWho never reads: {delivered} events put into its socket or on their way there, {missed} missed so far."
        );
    }
    assert_eq!((frames, lost), (sent, 0), "frames were lost on their way to the service");
    assert_eq!(
        sorted(of_service),
        sorted(of_clients.clone()),
        "the service and its subscribers count differently"
    );
    for (chosen, counts) in plan.choices().iter().zip(&of_clients) {
        let of_signal = |signal: &u64| (sent + IDS - 1 - signal / SIGNALS) / IDS;
        let due: u64 = chosen.iter().map(of_signal).sum();
        assert_eq!(counts[0] + counts[1], due, "an event is unaccounted for");
    }
    service.end();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["role=service", port, tick] => return serve(port, tick),
        ["role=subscribers", address, ..] => {
            return subscribe(address, &Plan::read(arguments.iter().skip(2).cloned()));
        }
        _ => {}
    }
    let plan = Plan::read(arguments.into_iter());
    println!(
        "{} subscribers of {} of {} signals (seed {}), {RATE} frames/s of {IDS} identifiers for {} s, a tick of {}\n",
        plan.subscribers,
        plan.signals,
        IDS * SIGNALS,
        plan.seed,
        plan.seconds,
        plan.tick
    );
    let names = |chosen: &Vec<u64>| chosen.iter().map(|&signal| name(signal)).collect();
    let many: Vec<Vec<String>> = plan.choices().iter().map(names).collect();
    let all = [vec!["*".to_owned()]];
    // One takes little time, so it has more frames.
    let one_seconds = plan.seconds * 20;
    for (who, wanted, seconds) in
        [("these", &many[..], plan.seconds), ("one of all signals", &all[..], one_seconds)]
    {
        let (ns, delivered) = alone(&plan, wanted, seconds);
        println!("Without sockets, {who}: {:.2} us per frame, {delivered} events", ns / 1e3);
    }
    println!(
        "\n| who never reads | CPU per frame | service, of a core | subscribers, of a core | memory: at first, connected, most | delivered | missed | of the worst | age: p50, p99, most |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for stalled in plan.stalled.map_or(vec![0, 1], |count| vec![count]) {
        measure(&plan, stalled);
    }
}

//! What calls of others about everything cost a subscriber of the signal service: 100,000 signals and 60,000 identifiers.
//!
//!     cargo bench -p candor-signal-service --bench long_calls -- [SECONDS] [clients=N] [only=TEXT]
//!
//! A subscriber of one signal is sent a value about every millisecond, at random times. Each value is the time when it was
//! sent, so its age when it is read counts every delay. In the meantime clients make the same call again and again, each
//! on a connection of its own, which ends after the answer. A line for each call has the ages of the subscriber's events,
//! what it missed, how many calls there were and how long the longest took.
//! It fails if the subscriber does not get or miss each value. Before that it says what a new identifier costs the hub beside
//! patterns that do not take it.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use candor_diagnostics::Findings;
use candor_events::{Bus, Filter, Format, Hub, Pattern, Subscriber};
use candor_signal_service::{ClientTimeouts, Config, Pace, Place, Service, Source};
use candor_signals::Database;
use candor_time::Nanos;
use candor_wire::can::Frame;
use serde_json::{Value, json};
use tungstenite::Message;

const MESSAGES: u32 = 12_500;
/// Of each message.
const SIGNALS: u32 = 8;
const IDENTIFIERS: u32 = 60_000;
/// The message of the subscriber.
const WATCHED: u32 = 0x7FF;
/// How many patterns a call has that has many.
const PATTERNS: usize = 1_000;
const TIMEOUT: Duration = Duration::from_secs(60);

fn database() -> String {
    let mut text =
        format!("BU_: A\n\nBO_ {WATCHED} Watched: 8 A\n SG_ Sent : 0|64@1+ (1,0) [0|0] \"us\" A\n");
    for message in 0..MESSAGES {
        let _ = write!(text, "\nBO_ {} M{message}: 8 A\n", 1_u32 << 31 | message);
        for signal in 0..SIGNALS {
            let _ = writeln!(text, " SG_ S{signal} : {}|8@1+ (1,0) [0|0] \"\" A", signal * 8);
        }
    }
    text
}

/// A datagram of Cogent can2udp, version 1, with a frame of 8 bytes.
fn datagram(id: u32, data: u64) -> [u8; 20] {
    let mut datagram = [0; 20];
    (datagram[0], datagram[8]) = (1, 8);
    datagram[4..8].copy_from_slice(&id.to_le_bytes());
    datagram[12..20].copy_from_slice(&data.to_le_bytes());
    datagram
}

/// What clients do.
#[derive(Clone)]
enum LongCall {
    Nothing,
    Verb(&'static str, Value),
    Request(String),
}

fn calls() -> Vec<(&'static str, LongCall)> {
    let differing: Vec<_> = (0..PATTERNS).map(|number| format!("*{number}.S?")).collect();
    let names: Vec<_> = (0..PATTERNS).map(|number| format!("M{number}.S0")).collect();
    let verb = |verb, arguments: Value| LongCall::Verb(verb, arguments);
    let query = differing.iter().map(|name| format!("name={name}")).collect::<Vec<_>>().join("&");
    vec![
        ("nothing", LongCall::Nothing),
        ("subscribe *", verb("subscribe", json!({ "event": "*" }))),
        ("subscribe, 1,000 times *", verb("subscribe", json!({ "event": vec!["*"; PATTERNS] }))),
        ("subscribe, 1,000 times id *", verb("subscribe", json!({ "id": vec!["*"; PATTERNS] }))),
        ("subscribe, 1,000 names", verb("subscribe", json!({ "event": names }))),
        ("subscribe, 1,000 globs", verb("subscribe", json!({ "event": differing.clone() }))),
        ("get *", verb("get", json!({ "event": "*" }))),
        ("get id *", verb("get", json!({ "id": "*" }))),
        ("get, 1,000 globs", verb("get", json!({ "event": differing.clone() }))),
        ("list", verb("list", Value::Null)),
        ("list, 1,000 globs", verb("list", json!({ "event": differing }))),
        ("stats", verb("stats", Value::Null)),
        ("/events?name=*", LongCall::Request("/events?name=*&name=*".to_owned())),
        ("/events, 1,000 globs", LongCall::Request(format!("/events?{query}"))),
        ("/values?name=*", LongCall::Request("/values?name=*".to_owned())),
    ]
}

impl LongCall {
    /// Makes it, and waits until its answer is there.
    fn make(&self, address: SocketAddr) {
        match self {
            Self::Nothing => thread::sleep(Duration::from_millis(10)),
            Self::Verb(verb, arguments) => {
                let mut stream = connected(address);
                call(&mut stream, verb, arguments);
                skip_message(&mut stream);
            }
            Self::Request(path) => {
                let mut stream = TcpStream::connect(address).expect("the service listens");
                stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
                let request =
                    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
                stream.write_all(request.as_bytes()).expect("it is open");
                let mut buffer = vec![0; 64 << 10];
                let count = stream.read(&mut buffer).expect("an answer");
                assert!(
                    buffer[..count].starts_with(b"HTTP/1.1 200"),
                    "{}",
                    String::from_utf8_lossy(&buffer[..count.min(200)])
                );
                if path.starts_with("/values") {
                    while stream.read(&mut buffer).expect("an answer") > 0 {}
                }
            }
        }
    }
}

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the service listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let url = format!("ws://{address}/api");
    tungstenite::client(url, stream).expect("the service lets in whoever comes").0.into_inner()
}

fn call(stream: &mut TcpStream, verb: &str, arguments: &Value) {
    let message = json!([2, "1", format!("low-can/{verb}"), arguments]).to_string();
    let mut socket = tungstenite::WebSocket::from_raw_socket(
        stream.try_clone().expect("a descriptor"),
        tungstenite::protocol::Role::Client,
        None,
    );
    socket.send(Message::text(message)).expect("it is open");
}

/// Reads a message, and looks at nothing but its length: the machine is the service's.
fn skip_message(stream: &mut TcpStream) {
    let mut header = [0; 2];
    stream.read_exact(&mut header).expect("a reply");
    let mut long = [0; 8];
    let length = match header[1] {
        126 => {
            stream.read_exact(&mut long[6..]).expect("a length");
            u64::from_be_bytes(long)
        }
        127 => {
            stream.read_exact(&mut long).expect("a length");
            u64::from_be_bytes(long)
        }
        short => u64::from(short),
    };
    let skipped = std::io::copy(&mut stream.take(length), &mut std::io::sink());
    assert_eq!(skipped.expect("a reply"), length);
}

/// The number behind a key.
fn number(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(key)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// What the subscriber got in a while: ages in us, and events missed.
#[derive(Default)]
struct Watched {
    ages_us: Vec<u64>,
    missed: u64,
}

/// Reads events until `is_over`, and then until there is silence.
fn watch(
    address: SocketAddr,
    start: Instant,
    is_over: &AtomicBool,
    ready: &mpsc::Sender<()>,
) -> Watched {
    let mut stream = connected(address);
    call(&mut stream, "subscribe", &json!({ "event": "Watched.Sent" }));
    skip_message(&mut stream);
    ready.send(()).expect("somebody waits");
    stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let mut socket =
        tungstenite::WebSocket::from_raw_socket(stream, tungstenite::protocol::Role::Client, None);
    let mut watched = Watched::default();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) if text.contains("candor/missed") => {
                watched.missed += number(&text, "\"missed\":").expect("it says how many");
            }
            Ok(Message::Text(text)) => {
                let sent_us = number(&text, "\"value\":").expect("each event has one");
                watched.ages_us.push((start.elapsed().as_micros() as u64).saturating_sub(sent_us));
            }
            Ok(_) => {}
            Err(tungstenite::Error::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                if is_over.load(Ordering::Relaxed) {
                    return watched;
                }
            }
            Err(error) => panic!("the subscriber was ended: {error}"),
        }
    }
}

/// Sends values at random times, one per millisecond in the mean. How many.
fn send(target: SocketAddr, start: Instant, is_over: &AtomicBool) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let (mut sent, mut due) = (0, start.elapsed());
    while !is_over.load(Ordering::Relaxed) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        due += Duration::from_nanos(500_000 + state % 1_000_000);
        thread::sleep(due.saturating_sub(start.elapsed()));
        // From when on it is due: what the sender itself is late counts, too.
        let _ = socket.send_to(&datagram(WATCHED, due.as_micros() as u64), target);
        sent += 1;
    }
    sent
}

/// What a new identifier costs the hub in us, beside so many patterns that do not take it.
fn new_identifier(patterns: u32) -> f64 {
    const NEW: u32 = 1_000;
    let mut hub = Hub::new(vec![Bus { name: "car".into(), database: None }]);
    hub.open(Format::Sse, |_, _| {});
    let mut subscribers = Vec::new();
    for first in (0..patterns).step_by(PATTERNS) {
        let mut subscriber = Subscriber::new(&hub, Format::Sse);
        for number in first..(first + PATTERNS as u32).min(patterns) {
            let frame = Frame::from_parts(1 << 31 | (NEW + number), &[], None).expect("a frame");
            subscriber.subscribe(&mut hub, Pattern::Id(frame.id()), Filter::default(), false);
        }
        subscribers.push(subscriber);
    }
    let start = Instant::now();
    for number in 0..NEW {
        let frame = Frame::from_parts(1 << 31 | number, &[], None).expect("a frame");
        hub.publish(0, 0, &frame);
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(NEW)
}

/// A service whose port is at this address, and where it is served. It has seen all identifiers.
fn started(port: SocketAddr) -> (Service, SocketAddr) {
    let database = Database::parse("large.dbc", database().as_bytes(), &Findings::new());
    let source = Source {
        name: "car".into(),
        address: format!("can2udp:{port}?version=1&buffer=8000000").parse().expect("an address"),
        database: database.map(Arc::new),
        pace: Pace::Received,
    };
    let service = Service::start(Config {
        sources: vec![source],
        listen: vec!["127.0.0.1:0".parse().expect("a place")],
        dbus: Vec::new(),
        coalesce: Nanos::from_millis(1),
        allow_origin: Vec::new(),
        client_timeouts: ClientTimeouts {
            websocket_silence: Nanos::from_secs(3_600),
            ..ClientTimeouts::default()
        },
    });
    let service = service.unwrap_or_else(|error| panic!("{error}"));
    let Some(&Place::Tcp(address)) = service.places().first() else { panic!("it has no place") };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    for number in 0..IDENTIFIERS {
        let _ = socket.send_to(&datagram(1 << 31 | (MESSAGES + number), 0), port);
        if number % 100 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    (service, address)
}

/// What the subscriber got while so many clients made a call for a while, how many values were sent, and how long the calls took.
fn beside(
    what: &LongCall,
    clients: usize,
    time: Duration,
    port: SocketAddr,
    address: SocketAddr,
) -> (Watched, u64, Vec<Duration>) {
    let (is_over, is_silent) = (AtomicBool::new(false), AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let start = Instant::now();
    let call_on = || {
        let mut times = Vec::new();
        while start.elapsed() < time {
            let begun = Instant::now();
            what.make(address);
            times.push(begun.elapsed());
        }
        times
    };
    thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(address, start, &is_silent, &ready));
        is_ready.recv().expect("a subscriber");
        let sender = scope.spawn(|| send(port, start, &is_over));
        let callers: Vec<_> = (0..clients).map(|_| scope.spawn(call_on)).collect();
        let times = callers.into_iter().flat_map(|caller| caller.join().expect("calls")).collect();
        is_over.store(true, Ordering::Relaxed);
        let sent = sender.join().expect("it sends");
        is_silent.store(true, Ordering::Relaxed);
        (watcher.join().expect("it reads"), sent, times)
    })
}

fn main() {
    let (mut seconds, mut clients, mut only) = (3, 8, String::new());
    for argument in std::env::args().skip(1).filter(|argument| !argument.starts_with("--")) {
        match argument.split_once('=') {
            Some(("only", text)) => text.clone_into(&mut only),
            Some(("clients", number)) => clients = number.parse().expect("a number"),
            None => seconds = argument.parse().expect("a number of seconds"),
            Some((key, _)) => panic!("`{key}` is unknown"),
        }
    }
    for patterns in [0, 1_000, 30_000, 300_000] {
        println!("a new identifier beside {patterns} patterns: {:.2} us", new_identifier(patterns));
    }
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = port.expect("loopback");
    let (service, address) = started(port);
    println!(
        "{} signals, {IDENTIFIERS} identifiers, {clients} clients, {seconds} s each",
        service.signals()
    );
    println!(
        "{:32}{:>8}{:>8}{:>8}{:>8}{:>8}{:>10}",
        "age of events in ms", "p50", "p99", "max", "missed", "calls", "longest s"
    );
    for (name, what) in calls().into_iter().filter(|(name, _)| name.contains(&only)) {
        let time = Duration::from_secs(seconds);
        let (watched, sent, mut times) = beside(&what, clients, time, port, address);
        let Watched { mut ages_us, missed } = watched;
        ages_us.sort_unstable();
        times.sort_unstable();
        let at = |per_mille: usize| ages_us.get(ages_us.len() * per_mille / 1_000);
        let ms = |us: Option<&u64>| us.map_or(f64::NAN, |us| *us as f64 / 1e3);
        let longest = times.last().map_or(0.0, Duration::as_secs_f64);
        println!(
            "{name:32}{:>8.2}{:>8.2}{:>8.2}{missed:>8}{:>8}{longest:>10.3}",
            ms(at(500)),
            ms(at(990)),
            ms(ages_us.last()),
            times.len(),
        );
        assert_eq!(ages_us.len() as u64 + missed, sent, "each value is read or missed");
    }
}

//! `/metrics` over real connections, of a gateway that is made up.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Duration;

use candor_daemon::Reactor;
use candor_gateway::Snapshot;
use candor_gateway::metrics::{Exposure, GIVES_WAY, Listening, MAX_CLIENTS, exchange};
use candor_linux::clock;
use candor_time::{Monotonic, Nanos};

/// No test waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);
const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Metrics being served, until it is dropped.
struct Exporter {
    address: SocketAddr,
    _reactor: Reactor,
}

impl Exporter {
    const fn address(&self) -> SocketAddr {
        self.address
    }
}

fn exporter() -> Exporter {
    let listening = Listening::bind(([127, 0, 0, 1], 0).into(), Exposure::Loopback).unwrap();
    let mut count = 0;
    let snapshot = move || {
        count += 1;
        Snapshot { generation: count, ..Snapshot::default() }
    };
    let address = listening.address();
    let reactor = Reactor::start("metrics", listening.serve(snapshot)).unwrap();
    Exporter { address, _reactor: reactor }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn receive(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    receive(&mut stream)
}

/// A connection with a scrape.
struct Scrape {
    stream: TcpStream,
    /// It may have given way to another: this thread had no processor for so long.
    is_late: bool,
}

impl Scrape {
    fn new(address: SocketAddr) -> Self {
        let begin = clock::now::<Monotonic>();
        let mut stream = connect(address);
        // Whoever was refused before is told so by what it receives.
        let _ = stream.write_all(SCRAPE.as_bytes());
        let is_late = clock::now::<Monotonic>() - begin >= GIVES_WAY;
        Self { stream, is_late }
    }

    /// `None` if it was late and has no page.
    fn answer(mut self) -> Option<String> {
        let mut answer = String::new();
        let received = self.stream.read_to_string(&mut answer);
        let is_page = answer.contains("\ncandor_up 1\n");
        assert!(received.is_ok() && is_page || self.is_late, "{received:?}: {answer}");
        is_page.then_some(answer)
    }
}

#[test]
fn the_page_is_served_again_and_again() {
    let exporter = exporter();
    for number in 1..=100 {
        let answer = ask(exporter.address(), SCRAPE);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(&format!("\ncandor_rules_generation {number}\n")), "{answer}");
    }
    let head = ask(exporter.address(), "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("GET /healthz HTTP/1.1\r\n\r\n", "200"),
        ("HEAD /healthz HTTP/1.1\r\n\r\n", "200"),
        ("GET /healthz?max_silence=2s HTTP/1.1\r\n\r\n", "200"),
        ("GET /healthz?max_silence=body=2s HTTP/1.1\r\n\r\n", "400"),
        ("GET /healthz?silence=2s HTTP/1.1\r\n\r\n", "400"),
        ("POST /healthz HTTP/1.1\r\n\r\n", "405"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
        ("garbage\r\n\r\n", "400"),
    ] {
        let answer = ask(exporter.address(), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
}

#[test]
fn requests_come_in_pieces_or_not_at_all() {
    let exporter = exporter();
    let mut slow = connect(exporter.address());
    slow.set_nodelay(true).unwrap();
    for byte in "GET /metrics HTTP/1.1\r\n\r".bytes() {
        slow.write_all(&[byte]).unwrap();
    }
    // Another one goes away in the middle.
    connect(exporter.address()).write_all(b"GET /metr").unwrap();
    slow.write_all(b"\n").unwrap();
    assert!(receive(&mut slow).starts_with("HTTP/1.1 200 OK\r\n"));
    let mut ended = connect(exporter.address());
    ended.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    ended.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receive(&mut ended), "");
}

#[test]
fn a_request_that_is_too_long_is_refused_with_the_reason() {
    let exporter = exporter();
    let request = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let answer = ask(exporter.address(), &request);
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[test]
fn connections_without_a_request_give_way() {
    let exporter = exporter();
    let mut silent: Vec<_> = (0..MAX_CLIENTS).map(|_| connect(exporter.address())).collect();
    // Connections are taken in order, so that these have all been taken before.
    assert!(ask(exporter.address(), SCRAPE).starts_with("HTTP/1.1 200 OK\r\n"));
    let first = silent.first_mut().unwrap();
    assert!(receive(first).starts_with("HTTP/1.1 408 "));
    let address = exporter.address();
    drop(exporter);
    let last = silent.last_mut().unwrap();
    assert_eq!(receive(last), "", "connections end with the exporter");
    assert!(TcpStream::connect(address).is_err());
}

/// Held by what loads the machine: two of these at once would measure each other.
static LOAD: Mutex<()> = Mutex::new(());

/// Sets a flag when it is dropped.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// 96 clients connect, send half a request or garbage, go away or wait for the end, and connect again.
#[test]
fn clients_that_reconnect_keep_no_scrape_out() {
    let _load = LOAD.lock().unwrap_or_else(PoisonError::into_inner);
    const STRANGERS: usize = 96;
    const SCRAPES: u64 = 40;
    let exporter = exporter();
    let address = exporter.address();
    let is_over = AtomicBool::new(false);
    let connections = AtomicUsize::new(0);
    let mut longest = Nanos::ZERO;
    std::thread::scope(|scope| {
        for stranger in 0..STRANGERS {
            let (is_over, connections) = (&is_over, &connections);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(address) else { continue };
                    connections.fetch_add(1, Ordering::Relaxed);
                    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
                    let _ = stream.write_all(match stranger % 3 {
                        0 => b"GET /metr",
                        1 => b"\x16\x03\x01 garbage\r\n\r\n",
                        _ => b"",
                    });
                    if stranger % 2 == 0 {
                        let _ = stream.read(&mut [0; 512]);
                    }
                }
            });
        }
        // Also if an assertion fails: the strangers would go on for ever.
        let _end = AtEnd(&is_over);
        let begin = clock::now::<Monotonic>();
        for number in 1..=SCRAPES {
            clock::sleep_until(begin + Nanos::from_millis(5_000 * number / SCRAPES)).unwrap();
            let asked = clock::now::<Monotonic>();
            let answer = std::iter::repeat_with(|| Scrape::new(address).answer()).flatten().next();
            let answer = answer.unwrap();
            let generation = format!("\ncandor_rules_generation {number}\n");
            assert!(answer.contains(&generation), "{number}: {answer}");
            longest = longest.max(clock::now::<Monotonic>() - asked);
        }
    });
    let connections = connections.into_inner();
    println!("{SCRAPES} answered beside {connections} connections, after {longest} at most");
    assert!(connections > 2 * STRANGERS, "{connections}");
    // A burst that the kernel's queue has no room for connects again after 1, 3 and 7 seconds.
    assert!(longest < Nanos::from_secs(30), "{longest}");
}

/// 500 connections with a request each, before the first answer is read.
#[test]
fn five_hundred_scrapes_at_once_are_answered() {
    const THREADS: usize = 10;
    const EACH: usize = 50;
    let _load = LOAD.lock().unwrap_or_else(PoisonError::into_inner);
    let exporter = exporter();
    let barrier = Barrier::new(THREADS);
    let begin = clock::now::<Monotonic>();
    let answered: usize = std::thread::scope(|scope| {
        let scrape = || {
            barrier.wait();
            let asked: Vec<_> = (0..EACH).map(|_| Scrape::new(exporter.address())).collect();
            barrier.wait();
            asked.into_iter().filter_map(Scrape::answer).count()
        };
        let all: Vec<_> = (0..THREADS).map(|_| scope.spawn(scrape)).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    let took = clock::now::<Monotonic>() - begin;
    println!("{answered} answered in {took}");
    // Whoever was late is no witness, and few are.
    assert!(answered > THREADS * EACH * 9 / 10, "{answered}");
    assert!(took < Nanos::from_secs(20), "{took}");
}

#[test]
fn pieces_make_no_difference() {
    for (request, status) in [
        ("GET /metrics?name[]=candor_up HTTP/1.1\r\nHost: [::1]:9464\r\n\r\n", "1.1 200 OK"),
        ("GET /metrics HTTP/1.1\r\nHost: 127.evil.com\r\n\r\n", "1.1 403 Forbidden"),
        (
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n",
            "1.1 403 Forbidden",
        ),
        ("GET /metrics HTTP/1.0\r\n\r\n", "1.0 200 OK"),
        ("GET /../metrics HTTP/1.1\r\n\r\n", "1.1 404 Not Found"),
        ("get /metrics HTTP/1.1\r\n\r\n", "1.1 405 Method Not Allowed"),
        ("GET /metrics HTTP/2.0\r\n\r\n", "1.1 505 HTTP Version Not Supported"),
        ("\u{16}\u{3}\u{1}", "1.1 400 Bad Request"),
    ] {
        let whole = exchange(&[request.as_bytes()]).unwrap();
        let shown = String::from_utf8_lossy(&whole);
        assert!(shown.starts_with(&format!("HTTP/{status}\r\n")), "{request:?}: {shown}");
        let pieces: Vec<_> = request.as_bytes().chunks(1).collect();
        assert_eq!(exchange(&pieces).unwrap(), whole, "{request:?}");
    }
    assert_eq!(exchange(&[b"GET /met"]).unwrap(), b"");
}

#[test]
fn others_are_not_served_unless_asked_for() {
    for address in ["0.0.0.0:0", "192.0.2.1:9464", "[::]:0", "[::ffff:192.0.2.1]:80"] {
        let error = Listening::bind(address.parse().unwrap(), Exposure::Loopback).unwrap_err();
        assert!(error.to_string().contains("--metrics-public"), "{error}");
    }
    let listening = Listening::bind(([0, 0, 0, 0], 0).into(), Exposure::Public).unwrap();
    let error = Listening::bind(listening.address(), Exposure::Public).unwrap_err();
    assert!(error.to_string().ends_with("choose another address with --metrics"), "{error}");
}

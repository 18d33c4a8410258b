//! The HTTP server over real connections.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use candor_daemon::Reactor;
use candor_daemon::clients::{Client, Room};
use candor_daemon::http::{self, Limits, MIN_HEAD};
use candor_daemon::listen::{self, Exposure, Listener};
use candor_linux::clock;
use candor_time::{Instant, Monotonic, Nanos};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming};
use hyper::{Request, Response};

/// No test waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);
const REQUEST: &[u8] = b"GET /some HTTP/1.1\r\n\r\n";

fn limits(clients: usize, timeout: Nanos) -> Limits {
    let gives_way = Nanos::from_millis(50);
    let room = Room { clients, gives_way, asks_within: gives_way };
    Limits { room, head: MIN_HEAD, timeout, unread: Nanos::from_secs(60), keeps_alive: false }
}

/// Answers with the path; keeps a connection if it is asked for `/keep`.
async fn path(request: Request<Incoming>, client: Client) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    if path == "/keep" {
        client.keep();
    }
    Response::new(Full::new(path.into()))
}

fn serve(listener: impl Into<Listener>, limits: Limits) -> Reactor {
    Reactor::start("http", http::serve(listener.into(), limits, path)).unwrap()
}

fn start(limits: Limits) -> (Reactor, SocketAddr) {
    let listener = listen::tcp((Ipv4Addr::LOCALHOST, 0).into(), Exposure::Loopback).unwrap();
    let address = listener.local_addr().unwrap();
    (serve(listener, limits), address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn receive(stream: &mut impl Read) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    receive(&mut stream)
}

fn now() -> Instant<Monotonic> {
    clock::now()
}

/// Tries again while this thread had no processor for so long that the outcome says nothing.
fn unless_late<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let outcome = (0..20).find_map(|_| attempt());
    outcome.expect("the machine is too busy for this test")
}

/// Reads an answer that ends so.
fn read_until(stream: &mut impl Read, end: &[u8]) -> io::Result<()> {
    let mut answer = Vec::new();
    while !answer.ends_with(end) {
        let mut bytes = [0; 512];
        match stream.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => answer.extend_from_slice(&bytes[..len]),
        }
    }
    Ok(())
}

#[test]
fn a_slow_request_ends_after_its_time() {
    let timeout = Nanos::from_millis(500);
    let (_reactor, address) = start(limits(8, timeout));
    let begin = now();
    // A byte now and then makes no difference.
    let mut dribbling = connect(address);
    let mut end = dribbling.try_clone().unwrap();
    let mut silent = connect(address);
    let feeder = std::thread::spawn(move || {
        // For as long as the server reads it.
        for byte in b"GET /some HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'y')) {
            if dribbling.write_all(&[*byte]).is_err() {
                return;
            }
            clock::sleep_until(now() + Nanos::from_millis(20)).unwrap();
        }
    });
    for stream in [&mut end, &mut silent] {
        let mut answer = Vec::new();
        // What it sent afterwards may have broken the connection.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
        let took = now() - begin;
        assert!(took >= timeout, "{took}");
    }
    feeder.join().unwrap();
}

#[test]
fn an_answer_that_is_not_taken_ends_too() {
    let huge = |_: Request<Incoming>, _: Client| {
        std::future::ready(Response::new(Full::new(Bytes::from(vec![b'x'; 64 << 20]))))
    };
    let listener = listen::tcp((Ipv4Addr::LOCALHOST, 0).into(), Exposure::Loopback).unwrap();
    let address = listener.local_addr().unwrap();
    // A second client is let in when the first has left.
    let gives_way = Nanos::from_secs(3_600);
    let room = Room { clients: 1, gives_way, asks_within: gives_way };
    let limits = Limits { room, ..limits(1, Nanos::from_millis(300)) };
    let _reactor = Reactor::start("http", http::serve(listener, limits, huge)).unwrap();
    let mut first = connect(address);
    first.write_all(REQUEST).unwrap();
    let mut second = connect(address);
    second.write_all(REQUEST).unwrap();
    second.read_exact(&mut [0]).unwrap();
    let mut taken = Vec::new();
    let _ = first.read_to_end(&mut taken);
    assert!(taken.len() < 64 << 20, "{}", taken.len());
}

#[test]
fn who_asks_nothing_gives_way() {
    let (_reactor, address) = start(limits(4, Nanos::from_secs(60)));
    let mut silent: Vec<_> = (0..4).map(|_| connect(address)).collect();
    for _ in 0..4 {
        assert!(ask(address, REQUEST).ends_with("/some"));
    }
    assert!(receive(&mut silent[0]).starts_with("HTTP/1.1 408 "));
    // Two are kept, and stay.
    let mut kept: Vec<_> = (0..4).map(|_| connect(address)).collect();
    for stream in &mut kept {
        stream.write_all(b"GET /keep HTTP/1.1\r\n\r\n").unwrap();
    }
    for stream in &mut kept {
        assert!(receive(stream).ends_with("/keep"));
    }
}

#[test]
fn bad_requests_are_refused_with_the_reason() {
    let (_reactor, address) = start(limits(8, Nanos::from_secs(60)));
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(65));
    for (request, status, reason) in [
        ("\u{16}\u{3}\u{1}\r\n\r\n", "400 Bad Request", "this is not an HTTP request"),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400 Bad Request", "this is not an HTTP request"),
        (&long, "431 Request Header Fields Too Large", "the request is too long"),
        (&many, "431 Request Header Fields Too Large", "the request is too long"),
        ("GET / HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported", "use HTTP/1.1"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 HTTP Version Not Supported", "use HTTP/1.1"),
    ] {
        let answer = ask(address, request.as_bytes());
        let shown = &request[..request.len().min(40)];
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{shown:?}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{reason}\n")), "{shown:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1 + reason.matches("HTTP/1.1").count());
    }
}

#[test]
fn a_connection_may_have_several_requests() {
    let timeout = Nanos::from_secs(2);
    let (_reactor, address) = start(Limits { keeps_alive: true, ..limits(8, timeout) });
    let begin = now();
    let mut stream = unless_late(|| {
        let mut stream = connect(address);
        for _ in 0..3 {
            let asked = now();
            let answered =
                stream.write_all(REQUEST).and_then(|()| read_until(&mut stream, b"/some"));
            clock::sleep_until(now() + Nanos::from_millis(900)).unwrap();
            if now() - asked >= timeout {
                return None;
            }
            answered.unwrap();
        }
        Some(stream)
    });
    // The time begins again after each answer, and ends without words.
    assert_eq!(receive(&mut stream), "");
    assert!(now() - begin > Nanos::from_secs(2));
}

#[test]
fn unix_sockets_are_served_until_the_end() {
    let path = std::env::temp_dir().join(format!("candor-daemon-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let reactor = serve(listener, limits(8, Nanos::from_secs(60)));
    let connect = || UnixStream::connect(&path).unwrap();
    let mut open = connect();
    let mut stream = connect();
    stream.write_all(REQUEST).unwrap();
    assert!(receive(&mut stream).ends_with("/some"));
    drop(reactor);
    assert_eq!(receive(&mut open), "");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn only_loopback_is_listened_at_unless_asked_for() {
    for address in ["0.0.0.0:0", "192.0.2.1:80", "[::]:0", "[::ffff:192.0.2.1]:80"] {
        let refused = listen::tcp(address.parse().unwrap(), Exposure::Loopback);
        assert!(matches!(refused, Err(listen::Error::NotLoopback)), "{address}");
    }
}

/// A body without an end.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 4_096])))))
    }
}

#[test]
fn who_reads_nothing_of_an_endless_answer_gives_its_place_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let unix = || UnixStream::connect(&path).unwrap();
    for is_unix in [false, true] {
        let tcp = listen::tcp((Ipv4Addr::LOCALHOST, 0).into(), Exposure::Loopback).unwrap();
        let address = tcp.local_addr().unwrap();
        let listener: Listener = match is_unix {
            true => UnixListener::bind(&path).unwrap().into(),
            false => tcp.into(),
        };
        let gives_way = Nanos::from_secs(60);
        let room = Room { clients: 1, gives_way, asks_within: gives_way };
        let unread = Nanos::from_secs(1);
        let limits = Limits { room, unread, ..limits(1, Nanos::from_secs(60)) };
        let endless = |_: Request<Incoming>, _: Client| std::future::ready(Response::new(Endless));
        let _reactor = Reactor::start("http", http::serve(listener, limits, endless)).unwrap();
        let connect = || -> Box<dyn ReadWrite> {
            match is_unix {
                true => Box::new(unix()),
                false => Box::new(connect(address)),
            }
        };
        let status = |stream: &mut Box<dyn ReadWrite>| {
            // It may be turned away before it has asked.
            let _ = stream.write_all(REQUEST);
            let mut status = [0; 12];
            stream.read_exact(&mut status).map(|()| String::from_utf8_lossy(&status).into_owned())
        };
        let place = || {
            let begin = now();
            loop {
                let mut stream = connect();
                match status(&mut stream).as_deref() {
                    Ok("HTTP/1.1 200") => return stream,
                    _ => assert!(now() < begin + Nanos::from_secs(60), "its place is never free"),
                }
            }
        };
        // Who reads a little keeps its place for much longer than it may read nothing.
        let _slow = unless_late(|| {
            let mut slow = place();
            let (end, mut last) = (now() + Nanos::from_secs(3), now());
            while now() < end {
                let read = slow.read_exact(&mut [0; 32 << 10]);
                if now() - last >= Nanos::from_millis(500) {
                    return None;
                }
                read.unwrap();
                last = now();
                clock::sleep_until(last + Nanos::from_millis(50)).unwrap();
            }
            Some(slow)
        });
        // Once it stops, somebody else has it.
        drop(place());
    }
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

//! Peers that connect, vanish, stall and send what makes no sense.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use candor_linux::wake::{Sleeper, Wake};
use candor_wire::can::tunnel::cannelloni::encode_frame;

use super::*;
use crate::datagrams::testing::{loopback, open, refusal};

const KINDS: [&str; 5] =
    ["123#DEADBEEF", "12345678#", "123#R4", "123##3AABB", "7FF#1122334455667788"];
/// Longer than anything here takes.
const FOR_EVER: Duration = Duration::from_secs(60);

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

fn bytes(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        let mut out = [0; 70];
        let len = encode_frame(&frame(text), &mut out).unwrap();
        bytes.extend(&out[..len]);
    }
    bytes
}

/// The names of a server and its client.
fn names(number: u8) -> [String; 2] {
    let ip = loopback(number);
    [format!("cannelloni:tcp://{ip}:20000?role=server"), format!("cannelloni:tcp://{ip}")]
}

/// A server that is no port, and the name of its client.
fn listener(number: u8) -> (TcpListener, String) {
    let ip = loopback(number);
    let listener = TcpListener::bind((ip, 20_000)).unwrap();
    (listener, format!("cannelloni:tcp://{ip}:20000"))
}

/// Greets, and takes the greeting.
fn greet(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(FOR_EVER)).unwrap();
    stream.write_all(&HELLO).unwrap();
    let mut hello = [0; 12];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(hello, HELLO);
}

/// A receiver in a thread of its own.
struct Pump {
    frames: mpsc::Receiver<String>,
    counters: Arc<ReceiverCounters>,
    sleeper: Sleeper,
    is_to_end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn pump(mut receiver: Box<dyn Receiver>) -> Pump {
    let (to, frames) = mpsc::channel();
    let (tell, reported) = mpsc::channel();
    let counters = receiver.counters();
    let is_to_end = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_to_end);
    let thread = std::thread::spawn(move || {
        tell.send(Wake::new().unwrap().thread()).unwrap();
        while !ends.load(Ordering::Relaxed) {
            let outcome = receiver.receive(Until::Woken, &mut |received| {
                let _ = to.send(received.frame.to_string());
            });
            assert_ne!(outcome, Ok(Progress::Ended));
            outcome.unwrap();
        }
    });
    Pump { frames, counters, sleeper: reported.recv().unwrap(), is_to_end, thread: Some(thread) }
}

impl Pump {
    fn next(&self) -> String {
        self.frames.recv_timeout(FOR_EVER).unwrap()
    }
}

impl Drop for Pump {
    /// Shows that a signal ends waiting: whether for frames, a connection or the other end.
    fn drop(&mut self) {
        self.is_to_end.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        self.sleeper.interrupt_until(|| thread.is_finished()).unwrap();
        thread.join().unwrap();
    }
}

/// Transmits as soon as there is a connection.
fn transmit(transmitter: &mut dyn Transmitter, text: &str) {
    loop {
        match transmitter.transmit(&frame(text), false) {
            Sent::Taken => break assert_eq!(transmitter.flush(), Sent::Taken),
            Sent::Down => transmitter.wait(Nanos::from_millis(1)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn frames_go_both_ways() {
    let mut halves: Vec<_> = names(60)
        .map(|name| open(&name, Wanted::BOTH))
        .into_iter()
        .map(|port| (pump(port.receiver.unwrap()), port.transmitter.unwrap()))
        .collect();
    for (from, to) in [(0, 1), (1, 0)] {
        for text in KINDS {
            transmit(&mut *halves[from].1, text);
        }
        let report = frame("20000004#");
        assert_eq!(halves[from].1.transmit(&report, false), Sent::Unsupported);
        let received: Vec<_> = KINDS.iter().map(|_| halves[to].0.next()).collect();
        assert_eq!(received, KINDS);
        let counters = halves[from].1.counters();
        assert_eq!((counters.frames.get(), counters.lost.get()), (5, 0));
        // All of it is acknowledged soon.
        while !halves[from].1.is_drained() {
            halves[from].1.wait(Nanos::from_millis(1));
        }
    }
}

#[test]
fn a_slow_peer_makes_it_full_and_loses_nothing() {
    let (listener, name) = listener(62);
    let mut port = open(&name, Wanted::TRANSMITTER).transmitter.unwrap();
    let accepted = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        greet(&mut stream);
        stream
    });
    transmit(&mut *port, "000#");
    let mut stream = accepted.join().unwrap();
    let text = "123#1122334455667788";
    let mut taken = 0;
    // The kernels of both sides may find room for a while.
    let mut is_full = false;
    while !is_full {
        while port.transmit(&frame(text), false) == Sent::Taken {
            taken += 1;
        }
        port.wait(Nanos::from_millis(500));
        is_full = port.flush() == Sent::Full;
    }
    assert_eq!(port.transmit(&frame(text), false), Sent::Full);
    assert_eq!((port.flush(), port.flush_due()), (Sent::Full, Some(Instant::ZERO)));
    assert!(!port.is_drained() && taken > 1_000);
    let counters = port.counters();
    assert!(counters.full.get() > 0);
    assert_eq!((counters.frames.get(), counters.lost.get()), (taken + 1, 0));
    // When it reads again, everything comes.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map(|_| bytes)
    });
    while port.flush() == Sent::Full {
        port.wait(Nanos::from_secs(1));
    }
    drop(port);
    let expected = [bytes(&["000#"]), bytes(&[text]).repeat(taken as usize)].concat();
    assert!(reader.join().unwrap().unwrap() == expected);
}

#[test]
fn a_peer_that_dies_is_connected_to_again() {
    let (listener, name) = listener(63);
    let port = open(&format!("{name}?flush=1min"), Wanted::BOTH);
    let (pump, mut port) = (pump(port.receiver.unwrap()), port.transmitter.unwrap());
    assert_eq!(port.transmit(&frame("666#"), false), Sent::Down);
    let counters = port.counters();
    for round in 1..=3 {
        let (mut stream, _) = listener.accept().unwrap();
        greet(&mut stream);
        stream.write_all(&bytes(&["124#AA"])).unwrap();
        assert_eq!(pump.next(), "124#AA");
        transmit(&mut *port, "123#");
        let mut received = [0; 5];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received[..], bytes(&["123#"]));
        // One that is kept back is lost with the connection.
        assert_eq!(port.transmit(&frame("125#"), false), Sent::Taken);
        drop(stream);
        while !port.is_drained() {
            port.wait(Nanos::from_millis(1));
        }
        assert_eq!(counters.lost.get(), round);
        assert_eq!(counters.frames.get(), 2 * round);
    }
    assert_eq!(pump.counters.frames.get(), 3);
}

#[test]
fn what_is_no_stream_is_counted_and_ended() {
    let (listener, name) = listener(64);
    let pump = pump(open(&name, Wanted::RECEIVER).receiver.unwrap());
    let cases: [&[u8]; 3] =
        [b"HTTP/1.1 400 Bad Request", b"CANNELLONIv1\0\0\0\x01\xFF", b"CANNELLONIv1"];
    for (index, bad) in cases.into_iter().enumerate() {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(FOR_EVER)).unwrap();
        stream.write_all(bad).unwrap();
        if index < 2 {
            // It greets, and hangs up.
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            assert!(HELLO.starts_with(&rest));
            assert_eq!(pump.counters.malformed.get(), index as u64 + 1);
            continue;
        }
        // Good frames before a bad one are handed over.
        stream.write_all(&bytes(&["123#", "124##1AA"])).unwrap();
        stream.write_all(b"\0\0\0\x01\x09").unwrap();
        assert_eq!([pump.next(), pump.next()], ["123#", "124##1AA"]);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!((pump.counters.malformed.get(), pump.counters.frames.get()), (3, 2));
}

#[test]
fn only_the_peer_may_connect_to_a_server() {
    let (ip, friend) = (loopback(66), loopback(67));
    let name = format!("cannelloni:tcp://{ip}:20000?role=server&peer={friend}");
    let pump = pump(open(&name, Wanted::RECEIVER).receiver.unwrap());
    let mut stranger = TcpStream::connect((ip, 20_000)).unwrap();
    stranger.set_read_timeout(Some(FOR_EVER)).unwrap();
    assert_eq!(stranger.read(&mut [0; 12]).unwrap(), 0);
    drop(pump);
    let name = format!("cannelloni:tcp://{ip}:20001?role=server&peer=127.0.0.1");
    let pump = self::pump(open(&name, Wanted::RECEIVER).receiver.unwrap());
    let mut stream = TcpStream::connect((ip, 20_001)).unwrap();
    greet(&mut stream);
    stream.write_all(&bytes(&["123#"])).unwrap();
    assert_eq!(pump.next(), "123#");
}

/// A server whose clients may be silent for so long, where it is, and the half that transmits.
fn server(number: u8, silence: Nanos) -> (Pump, SocketAddr, Box<dyn Transmitter>) {
    let end = SocketAddr::from((loopback(number), 20_000));
    let door = Door::new(listen("server", end).unwrap(), None).with_silence(silence);
    let port = port(Role::Server(door), Nanos::ZERO, Wait::default(), Wanted::BOTH);
    (pump(port.receiver.unwrap()), end, port.transmitter.unwrap())
}

#[test]
fn a_client_that_greets_and_says_nothing_keeps_nobody_out() {
    let (pump, end, mut port) = server(72, Nanos::from_millis(200));
    let mut silent = TcpStream::connect(end).unwrap();
    greet(&mut silent);
    // Its own frames still reach it.
    transmit(&mut *port, "700#");
    // Others who do not greet, say something else or have gone by now do not take its place.
    let _mute = TcpStream::connect(end).unwrap();
    TcpStream::connect(end).unwrap().write_all(b"GET / HTTP/1.1").unwrap();
    TcpStream::connect(end).unwrap().write_all(&HELLO).unwrap();
    let mut honest = TcpStream::connect(end).unwrap();
    greet(&mut honest);
    honest.write_all(&bytes(&["123#"])).unwrap();
    assert_eq!(pump.next(), "123#");
    assert_eq!(pump.counters.displaced.get(), 1);
    assert!(pump.counters.foreign.get() >= 3 && pump.counters.trouble.get().is_none());
    // The silent one has what was for it, and is hung up on.
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, bytes(&["700#"]));
    transmit(&mut *port, "701#");
    let mut received = [0; 5];
    honest.read_exact(&mut received).unwrap();
    assert_eq!(received[..], bytes(&["701#"]));
}

#[test]
fn a_client_that_only_receives_stays_while_nobody_else_greets() {
    let (pump, end, mut port) = server(73, Nanos::from_millis(20));
    let mut silent = TcpStream::connect(end).unwrap();
    greet(&mut silent);
    // Those who were let in after the time of silence are greeted, so it is over then.
    for count in 1..=3 {
        let mut mute = TcpStream::connect(end).unwrap();
        let mut hello = [0; 12];
        mute.set_read_timeout(Some(FOR_EVER)).unwrap();
        mute.read_exact(&mut hello).unwrap();
        assert_eq!(hello, HELLO);
        transmit(&mut *port, "123#");
        let mut received = [0; 5];
        silent.read_exact(&mut received).unwrap();
        assert_eq!((&received[..], pump.counters.displaced.get()), (&bytes(&["123#"])[..], 0));
        // What it says ends the visit of others.
        silent.write_all(&bytes(&["124#"])).unwrap();
        assert_eq!(pump.next(), "124#");
        assert_eq!(mute.read(&mut hello).unwrap(), 0, "visit {count}");
    }
}

#[test]
fn a_port_that_only_transmits_reads_what_comes() {
    let (listener, name) = listener(68);
    let mut port = open(&name, Wanted::TRANSMITTER).transmitter.unwrap();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        greet(&mut stream);
        // Much more than fits in on the way.
        let frames = bytes(&["123#1122334455667788"]).repeat(1 << 20);
        stream.write_all(&frames).unwrap();
        let mut received = [0; 5];
        stream.read_exact(&mut received).unwrap();
    });
    transmit(&mut *port, "000#");
    while !peer.is_finished() {
        assert_ne!(port.flush(), Sent::Full);
    }
    peer.join().unwrap();
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let [server, _] = names(70);
    for (name, part) in [
        ("cannelloni:tcp://127.0.0.1?mtu=1500", "`mtu` has no effect with tcp"),
        ("cannelloni:tcp://127.0.0.1?role=master", "use role=client or role=server"),
        ("cannelloni:tcp://127.0.0.1?peer=127.0.0.1", "no effect without role=server"),
        ("cannelloni:tcp://198.51.100.1:1?role=server", "an address of this machine"),
        ("cannelloni:tcp://[::1", "[2001:db8::1]:port"),
    ] {
        let error = refusal(name, Wanted::BOTH);
        assert!(error.starts_with(name) && error.contains(part), "{error}");
    }
    let _first = open(&server, Wanted::BOTH);
    assert!(refusal(&server, Wanted::BOTH).contains("choose another port"));
}

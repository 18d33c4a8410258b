//! By TCP.
//!
//! One half makes connections: the one that receives, as it waits anyway, or the one that transmits
//! if it is alone, a step at a time. Both halves share the [`Link`] that comes of it. Whoever notices
//! first that a connection is of no use closes it, which wakes the other half.
//!
//! Little waits behind the port, since what waits there cannot be overtaken and its deadlines mean
//! nothing: about a packet here and two in the kernel. Then the port is [`Sent::Full`].

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use candor_linux::clock;
use candor_linux::poll::{self, Interest};
use candor_linux::{quick, tcp};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::tunnel::Refused;
use candor_wire::tunnel::cannelloni::{HELLO, MAX_FRAME_LEN, Stream};
use candor_wire::{Frame, Kind};

use super::backlog::Backlog;
use super::dialer::{Dialer, Door, Link, Role, Shared, TO_GREET};
use crate::datagrams::{self, Patience};
use candor_port::{
    Address, Capabilities, Endpoint, Error, Estate, Message, Origin, Port, Progress, Received,
    Receiver, ReceiverCounters, Sent, Stamp, Transmitter, TransmitterCounters, Wanted,
};

/// So many bytes leave without waiting for others, and no more wait: about those of a packet.
const ENOUGH: usize = 1_400;
/// What is read at once, in bytes: a few hundred frames that fill it. Short ones are more.
const PIECE: usize = 8_192;
/// How often a half that only transmits reads before it goes on.
const PIECES: usize = 16;

/// Who connects to whom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoleName {
    Client,
    Server,
}

fn role(address: &Address) -> Result<RoleName, Error> {
    match address.option("role") {
        None | Some("client") if address.option("peer").is_some() => {
            Err(Error::new(address.to_string(), "`peer` has no effect without role=server")
                .with_remedy("remove it"))
        }
        None | Some("client") => Ok(RoleName::Client),
        Some("server") => Ok(RoleName::Server),
        Some(other) => Err(Error::new(address.to_string(), format!("unknown role `{other}`"))
            .with_remedy("use role=client or role=server")),
    }
}

/// Refuses what no machine can open.
pub(super) fn check(address: &Address, place: &str) -> Result<(), Error> {
    let name = address.to_string();
    role(address)?;
    for place in [Some(place), address.option("peer")].into_iter().flatten() {
        datagrams::literal(&name, place, super::PORT)?;
    }
    Ok(())
}

pub(super) fn open(
    address: &Address,
    place: &str,
    flush: Nanos,
    wanted: Wanted,
    estate: &Estate,
) -> Result<Port, Error> {
    let name = address.to_string();
    let end = datagrams::resolve(&name, place, super::PORT)?;
    let mut endpoint = None;
    let role = match role(address)? {
        RoleName::Client => Role::Client(end),
        RoleName::Server => {
            let peer = match address.option("peer") {
                Some(host) => Some(datagrams::resolve(&name, host, super::PORT)?.ip()),
                None => None,
            };
            let listener = match estate
                .take(|listener: &TcpListener| listener.local_addr().is_ok_and(|own| own == end))
            {
                Some(listener) => listener,
                None => listen(&name, end)?,
            };
            endpoint = Some(Endpoint::new(Arc::clone(&listener)));
            Role::Server(Door::new(listener, peer))
        }
    };
    Ok(Port { endpoint, ..port(role, flush, wanted) })
}

fn listen(name: &str, end: SocketAddr) -> Result<Arc<TcpListener>, Error> {
    TcpListener::bind(end)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| Arc::new(listener)))
        .map_err(|error| {
            Error::new(name, format!("cannot wait for connections at {end}: {error}"))
                .with_remedy("choose another port, or an address of this machine")
        })
}

fn port(role: Role, flush: Nanos, wanted: Wanted) -> Port {
    let shared = Shared::default();
    let mut dialer = Some(Dialer::new(role, shared.clone()));
    let receiver = wanted.receiver.then_some(()).and_then(|()| dialer.take());
    let receiver = receiver.map(|dialer| Inlet::new(dialer, &shared, wanted));
    let feed = wanted.transmitter.then(|| Feed::new(shared, dialer, flush));
    Port {
        capabilities: Capabilities {
            fd: true,
            remote: true,
            error_reports: false,
            own_frames: false,
            stamps: false,
            hardware_stamps: false,
            ordered: true,
            reliable: true,
            message: Message::Frame,
        },
        receiver: receiver.map(|receiver| Box::new(receiver) as _),
        transmitter: feed.map(|feed| Box::new(feed) as _),
        endpoint: None,
    }
}

// ---- Receiving ----------------------------------------------------------------------------------

/// What came on a connection.
enum Piece {
    /// So many bytes.
    Bytes(usize),
    /// None yet.
    Nothing,
    /// None any more.
    Closed,
}

fn read(link: &Link, buffer: &mut [u8], can_wait: bool) -> Piece {
    match quick::receive_once(&link.stream, buffer, can_wait) {
        Ok(Some(0)) | Err(_) => Piece::Closed,
        Ok(Some(count)) => Piece::Bytes(count),
        Ok(None) => Piece::Nothing,
    }
}

/// The stream of a new connection, of which the greeting may have been read.
fn stream_of(link: &Link) -> Stream {
    let mut stream = Stream::new();
    if link.is_greeted() {
        // The greeting is no frame and cannot be wrong.
        let _ = stream.decode(&HELLO, drop);
    }
    stream
}

/// The half that receives.
struct Inlet {
    dialer: Dialer,
    link: Option<Arc<Link>>,
    stream: Stream,
    buffer: Box<[u8]>,
    wants_error_reports: bool,
    counters: Arc<ReceiverCounters>,
}

impl Inlet {
    fn new(dialer: Dialer, shared: &Shared, wanted: Wanted) -> Self {
        let trouble = shared.trouble.clone();
        Self {
            dialer,
            link: None,
            stream: Stream::new(),
            buffer: vec![0; PIECE].into_boxed_slice(),
            wants_error_reports: wanted.error_reports,
            counters: Arc::new(ReceiverCounters { trouble, ..ReceiverCounters::default() }),
        }
    }
}

impl Receiver for Inlet {
    fn receive(&mut self, take: &mut dyn FnMut(&Received)) -> Result<Progress, Error> {
        let link = self.dialer.step(Nanos::MAX);
        self.counters.foreign.add(self.dialer.take_hung_up());
        let Some(link) = link else { return Ok(Progress::Interrupted) };
        if !self.link.as_ref().is_some_and(|known| Arc::ptr_eq(known, &link)) {
            (self.stream, self.link) = (stream_of(&link), Some(Arc::clone(&link)));
        }
        if !link.is_greeted() {
            // The other end may never greet.
            match poll::wait_or_signal(&link.stream, Interest::Read, Some(TO_GREET)) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Ok(Progress::Interrupted),
            }
        }
        let count = match read(&link, &mut self.buffer, true) {
            Piece::Bytes(count) => count,
            Piece::Nothing => return Ok(Progress::Interrupted),
            Piece::Closed => {
                link.lose();
                return Ok(Progress::Interrupted);
            }
        };
        let bytes = self.buffer.get(..count).unwrap_or_default();
        let (mut count, mut error_reports) = (0, 0);
        let outcome = self.stream.decode(bytes, |frame| {
            let is_report = frame.kind() == Kind::Error;
            if is_report && !self.wants_error_reports {
                return;
            }
            error_reports += u64::from(is_report);
            count += 1;
            take(&Received { frame, stamp: Stamp::default(), origin: Origin::Bus });
        });
        self.counters.frames.add(count as u64);
        self.counters.error_reports.add(error_reports);
        if self.stream.is_greeted() {
            link.greet();
        }
        if outcome.is_err() {
            // Where the next frame begins is not known any more.
            self.counters.malformed.add(1);
            link.lose();
        }
        Ok(if count == 0 { Progress::Interrupted } else { Progress::Frames(count) })
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

// ---- Transmitting -------------------------------------------------------------------------------

/// The half that transmits.
struct Feed {
    shared: Shared,
    /// If there is no half that receives.
    dialer: Option<Dialer>,
    link: Option<Arc<Link>>,
    backlog: Backlog,
    patience: Patience,
    /// What comes, if nobody else reads it: only the greeting counts.
    stream: Stream,
    counters: Arc<TransmitterCounters>,
}

impl Feed {
    fn new(shared: Shared, dialer: Option<Dialer>, flush: Nanos) -> Self {
        let trouble = shared.trouble.clone();
        Self {
            shared,
            dialer,
            link: None,
            backlog: Backlog::new(ENOUGH + MAX_FRAME_LEN),
            patience: Patience::new(flush),
            stream: Stream::new(),
            counters: Arc::new(TransmitterCounters { trouble, ..TransmitterCounters::default() }),
        }
    }

    /// Whether there is a connection to send on.
    fn is_up(&mut self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_of_use() && link.is_greeted()) || self.look()
    }

    /// Looks for a connection; what was sent on one that is lost and not acknowledged is lost too.
    fn look(&mut self) -> bool {
        let link = match &mut self.dialer {
            Some(dialer) => dialer.step(Nanos::ZERO),
            None => self.shared.current(),
        };
        let link = link.filter(|link| link.is_of_use());
        let is_same = match (&link, &self.link) {
            (Some(link), Some(known)) => Arc::ptr_eq(link, known),
            (link, known) => link.is_none() && known.is_none(),
        };
        if !is_same {
            self.leave();
            self.stream = link.as_deref().map(stream_of).unwrap_or_default();
            self.link = link;
        }
        self.listen();
        self.link.as_ref().is_some_and(|link| link.is_of_use() && link.is_greeted())
    }

    /// Counts what is lost with the connection. What the other end has acknowledged and not read
    /// before it went away nobody here knows of.
    fn leave(&mut self) {
        let Some(link) = self.link.take() else { return };
        let unacknowledged = tcp::unsent(&link.stream).unwrap_or(0);
        // The end of the stream, which is sent when a connection is lost, counts as a byte.
        let unacknowledged = unacknowledged.saturating_sub(1) as usize;
        self.counters.lost.add(self.backlog.frames() + self.backlog.frames_among(unacknowledged));
        self.backlog.clear();
        self.patience.end();
    }

    /// Reads what comes if nobody else does, so that the other end does not wait for that.
    fn listen(&mut self) {
        let (Some(link), true) = (&self.link, self.dialer.is_some()) else { return };
        let mut buffer = [0; 2_048];
        for _ in 0..PIECES {
            match read(link, &mut buffer, false) {
                Piece::Nothing => return,
                Piece::Closed => return link.lose(),
                Piece::Bytes(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    if self.stream.decode(bytes, drop).is_err() {
                        return link.lose();
                    }
                    if self.stream.is_greeted() {
                        link.greet();
                    }
                }
            }
        }
    }

    /// Sends what there is room for.
    fn send(&mut self) -> Sent {
        self.listen();
        let Some(link) = &self.link else { return Sent::Down };
        while !self.backlog.bytes().is_empty() {
            match tcp::send(&link.stream, self.backlog.bytes()) {
                Ok(Some(count)) => {
                    self.backlog.sent(count);
                    self.counters.datagrams.add(1);
                }
                Ok(None) => {
                    self.counters.full.add(1);
                    return Sent::Full;
                }
                Err(_) => {
                    link.lose();
                    self.look();
                    return Sent::Down;
                }
            }
        }
        self.patience.end();
        Sent::Taken
    }
}

impl Transmitter for Feed {
    fn transmit(&mut self, frame: &Frame, _echo: bool) -> Sent {
        if frame.kind() == Kind::Error {
            return Sent::Unsupported;
        }
        if !self.is_up() {
            return Sent::Down;
        }
        if self.backlog.bytes().len() >= ENOUGH {
            let sent = self.send();
            if sent != Sent::Taken {
                return sent;
            }
        }
        match self.backlog.push(frame) {
            Ok(()) => {}
            Err(Refused::Full) => return Sent::Full,
            Err(Refused::Unsupported) => return Sent::Unsupported,
        }
        self.counters.frames.add(1);
        self.patience.begin();
        if self.backlog.bytes().len() >= ENOUGH {
            // Where it cannot leave now, it is tried again before the next frame.
            self.send();
        }
        Sent::Taken
    }

    fn flush_due(&self) -> Option<Instant<Monotonic>> {
        self.patience.due()
    }

    fn flush(&mut self) -> Sent {
        if !self.is_up() {
            return Sent::Down;
        }
        self.send()
    }

    fn wait(&mut self, most: Nanos) {
        match (&self.link, &mut self.dialer) {
            // What goes wrong here is told by the next frame.
            (Some(link), _) if link.is_of_use() && link.is_greeted() => {
                let _ = poll::wait_or_signal(&link.stream, Interest::Write, Some(most));
            }
            // A connection that is there waits for the other end to greet.
            (Some(link), Some(_)) if link.is_of_use() => {
                let _ = poll::wait_or_signal(&link.stream, Interest::Read, Some(most));
            }
            (_, Some(dialer)) => drop(dialer.step(most)),
            (_, None) => {
                let _ = clock::sleep_until_or_signal(clock::now::<Monotonic>() + most);
            }
        }
    }

    fn is_drained(&mut self) -> bool {
        !self.is_up()
            || self.backlog.bytes().is_empty()
                && self
                    .link
                    .as_ref()
                    .is_none_or(|link| tcp::unsent(&link.stream).is_ok_and(|bytes| bytes == 0))
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.is_up() {
            self.send();
        }
        // What is under way arrives after the end, as a rule.
        self.counters.lost.add(self.backlog.frames());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread::JoinHandle;
    use std::time::Duration;

    use candor_linux::wake::{Sleeper, Wake};
    use candor_wire::tunnel::cannelloni::encode_frame;

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
                let outcome = receiver.receive(&mut |received| {
                    let _ = to.send(received.frame.to_string());
                });
                assert_ne!(outcome, Ok(Progress::Ended));
                outcome.unwrap();
            }
        });
        Pump {
            frames,
            counters,
            sleeper: reported.recv().unwrap(),
            is_to_end,
            thread: Some(thread),
        }
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
        while port.transmit(&frame(text), false) == Sent::Taken {
            taken += 1;
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
}

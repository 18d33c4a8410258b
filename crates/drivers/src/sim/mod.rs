//! `sim:bench`: a bus that takes its time, without a controller.
//!
//! All ports of this name on this machine (of one user, in one network namespace) are nodes of
//! one bus. A frame takes as long as its exact bits take at the bit rate of the bus, of the frames
//! that wait the one that wins arbitration is next, and all other nodes receive it when it is
//! complete. It is a bus of [`candor_can`]: equal frames of several nodes that begin at once are one frame, and different
//! ones with one identifier destroy each other until their nodes are error-passive. There are no other errors, and no
//! frame needs an acknowledgement. A node that goes bus-off comes back by itself.
//!
//! ```text
//!  node a --\                       /-- node a
//!  node b ----> hub: the schedule ----- node b       Unix sockets with an abstract name
//!  node c --/   in a thread         \-- node c
//! ```
//!
//! - The first node to open starts the hub in a thread of its process. When that process ends,
//!   the next one to notice takes over, with the same bit rates; frames that were taken and did not
//!   come to their end are counted as lost. Who receives and notices later learns how many frames
//!   it missed until then.
//! - The hub's bit rates hold (`bitrate=500k`, `data_bitrate=2M` by default). A node
//!   that asks for others is refused.
//! - A node has room for `queue` frames, in the order in which it transmits them. It is
//!   [`Sent::Full`] until one of them has been transmitted: with `queue=1`, who transmits decides
//!   after each frame which one is next, as with a controller of one buffer.
//! - Frames that have been on the way for 2 s, while others wait for room, are a trouble of who transmits.
//! - Looking for the hub anew may take seconds, if its process was stopped: who transmits does that
//!   in [`Transmitter::wait`] alone.
//! - Who receives too slowly loses frames, and learns how many with the next one, or when it has read most of what came before.
//! - Stamps are the instants of the schedule, exact to the bit within a busy period.

mod hub;
mod message;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use candor_linux::clock;
use candor_linux::poll::{self, Interest};
use candor_linux::{peer, quick};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::{Bitrate, Frame, Kind, Timing};

use crate::kernel;
use crate::wait::{Turn, Wait};

use self::message::{Message, Purpose, Rates, ReadOutcome, Reader};
use candor_port::{
    Address, Capabilities, Control, Error, ErrorKind, Handover, Origin, Port, Progress, Received,
    Receiver, ReceiverCounters, Sent, Stamp, State, Status, Transmitter, TransmitterCounters,
    Until, Waker, Wanted,
};
use candor_port::{Driver, Medium};

pub(crate) static DRIVER: Driver = Driver {
    name: "sim",
    summary: "a simulated bus on this machine, with real bit times",
    medium: Medium::Network,
    example: "sim:bench?bitrate=500k&data_bitrate=2M",
    options: &[
        ("bitrate", "the nominal bit rate; default 500k"),
        ("data_bitrate", "the bit rate of the data phase of CAN FD; default 2M"),
        ("queue", "the transmit queue in frames, 1 to 128; default 16"),
    ],
    check: |address, _| parse_node(address).map(drop),
    names: |_| Vec::new(),
    open,
};

/// The bit rates of a bus unless others are asked for.
const DEFAULT_TIMING: Timing =
    Timing { nominal: Bitrate::new(500_000).unwrap(), data: Bitrate::new(2_000_000).unwrap() };
/// Frames that a node may have on the way. So many messages of either direction fit into the
/// buffers of a socket, as the kernel accounts them.
const MAX_QUEUED: usize = 128;
const DEFAULT_QUEUED: usize = 16;
/// The longest name of a bus, so that it fits into the name of a socket.
const MAX_NAME_LEN: usize = 64;
/// How often a hub is looked for while others come and go, and the pause in between.
const MAX_ATTEMPTS: u32 = 500;
const RETRY_PAUSE: Nanos = Nanos::from_millis(1);
/// How long frames are refused after no hub was found.
const RETRY_INTERVAL: Nanos = Nanos::from_secs(1);
/// How long a hub may take to answer.
const ANSWER_TIMEOUT: Nanos = Nanos::from_secs(2);

/// Why nothing leaves when no frame has been reported as transmitted for that long.
const STUCK: &str = "no frame has been transmitted for 2 s: the hub of the bus does not answer, or more urgent frames fill the bus";

/// What the name says of the node, and the length of its queue.
fn parse_node(address: &Address) -> Result<(Node, usize), Error> {
    let asked = |key: &str, such_as: &str| -> Result<u32, Error> {
        Ok(address.parsed::<Bitrate>(key, such_as)?.map_or(0, Bitrate::bits_per_second))
    };
    let asked = Rates { nominal: asked("bitrate", "500k")?, data: asked("data_bitrate", "2M")? };
    let queue = address.parsed("queue", "16")?.unwrap_or(DEFAULT_QUEUED);
    if !(1..=MAX_QUEUED).contains(&queue) {
        let reason = format!("a queue cannot have {queue} frames");
        return Err(
            Error::new(address.to_string(), reason).with_remedy(format!("use 1 to {MAX_QUEUED}"))
        );
    }
    if address.place().len() > MAX_NAME_LEN {
        return Err(Error::new(address.to_string(), "the name of the bus is too long")
            .with_remedy(format!("use at most {MAX_NAME_LEN} bytes")));
    }
    let node = Node {
        name: address.to_string().into(),
        bus: address.place().into(),
        number: RandomState::new().build_hasher().finish(),
        asked,
        found: asked,
    };
    Ok((node, queue))
}

fn open(address: &Address, wanted: Wanted, _: &Handover) -> Result<Port, Error> {
    let (mut node, queue) = parse_node(address)?;
    let mut port = Port::new(Capabilities {
        fd: true,
        remote: true,
        own_frames: true,
        stamps: true,
        ordered: true,
        reliable: true,
        message: candor_port::Message::Frame,
        ..Capabilities::default()
    });
    let mut joined = Joined(node.found);
    if wanted.receiver {
        let purpose = if wanted.own_frames { Purpose::ReceiveOwn } else { Purpose::Receive };
        let (stream, _) = node.join(purpose)?;
        joined = Joined(node.found);
        port.receiver = Some(Box::new(SimReceiver {
            stream,
            node: node.clone(),
            purpose,
            reader: Box::new(Reader::new()),
            wants_stamps: wanted.stamps,
            lost: 0,
            wait: Wait::new(&node.name, wanted)?,
            counters: Arc::default(),
        }));
    }
    if wanted.transmitter {
        let (stream, _) = node.join(Purpose::Transmit)?;
        joined = Joined(node.found);
        stream.set_nonblocking(true).map_err(|error| node.failure(&error))?;
        port.transmitter = Some(Box::new(SimTransmitter {
            stream: Some(stream),
            retry_at: Instant::ZERO,
            node,
            reader: Box::new(Reader::new()),
            queue: queue as u64,
            taken: 0,
            transmitted: 0,
            waiting_since: Instant::ZERO,
            is_stuck: false,
            counters: Arc::default(),
        }));
    }
    port.control = Some(Arc::new(joined));
    Ok(port)
}

/// The bit rates of the bus that a port joined.
struct Joined(Rates);

impl Control for Joined {
    fn status(&self) -> Result<Status, Error> {
        let rate = |rate: u32| (rate > 0).then_some(rate);
        let (bitrate, data_bitrate) = (rate(self.0.nominal), rate(self.0.data));
        // There is no controller that could be in any other state.
        Ok(Status { state: State::Active, bitrate, data_bitrate, ..Status::default() })
    }
}

/// A node, and the bus that it connects to.
#[derive(Clone)]
struct Node {
    name: Box<str>,
    bus: Box<str>,
    /// By it the hub knows which connections are of one node.
    number: u64,
    /// The bit rates that were asked for.
    asked: Rates,
    /// Those of the bus, once it is known.
    found: Rates,
}

impl Node {
    fn failure(&self, error: &std::io::Error) -> Error {
        let failure = Error::new(&*self.name, format!("the socket of the bus failed: {error}"));
        kernel::with_number(failure, error)
    }

    /// Connects to the hub; becomes the hub if there is none. Also gives how many frames that it would have received have passed
    /// on this hub's bus.
    fn join(&mut self, purpose: Purpose) -> Result<(UnixStream, u64), Error> {
        let user = peer::own_user();
        let socket_name = format!("candor.sim.{user}.{}", self.bus);
        let address =
            SocketAddr::from_abstract_name(&socket_name).map_err(|error| self.failure(&error))?;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(stream) = self.connect(&socket_name)? {
                // A name can be taken by anybody.
                let hub = peer::peer_of(&stream)
                    .map_err(|error| Error::new(&*self.name, error.to_string()))?;
                if hub.user != user && hub.user != 0 {
                    let reason =
                        format!("process {} of another user already has this name", hub.process);
                    return Err(Error::new(&*self.name, reason)
                        .with_remedy("choose another name for the bus")
                        .of_kind(ErrorKind::NotPermitted));
                }
                if let Some(passed) = self.request_join(&stream, purpose, hub.process)? {
                    return Ok((stream, passed));
                }
            } else if let Some(listener) =
                hub::listen(&address).map_err(|error| self.failure(&error))?
            {
                let timing = self.timing();
                self.found = Rates::from_timing(timing);
                std::thread::Builder::new()
                    .name("candor-sim".into())
                    .spawn(move || hub::run(listener, timing))
                    .map_err(|error| self.failure(&error))?;
                continue;
            }
            // Somebody is about to become the hub, or about to end.
            let _ = clock::sleep_until(clock::now::<Monotonic>() + RETRY_PAUSE);
        }
        Err(Error::new(&*self.name, "no hub was found, and none could be started").passing())
    }

    /// Connects to the hub, if there is one. One that is stopped lets nobody in, and has room for some who wait.
    fn connect(&self, socket_name: &str) -> Result<Option<UnixStream>, Error> {
        let begin = clock::now::<Monotonic>();
        loop {
            match peer::connect_abstract(socket_name) {
                Ok(stream) => return Ok(Some(stream)),
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(_) if clock::now::<Monotonic>().since(begin) >= ANSWER_TIMEOUT => {
                    return Err(self.no_answer("the hub of the bus"));
                }
                Err(_) => {
                    let _ = clock::sleep_until(clock::now::<Monotonic>() + RETRY_PAUSE);
                }
            }
        }
    }

    /// Its process may go on, or end and make room for another one.
    fn no_answer(&self, hub: &str) -> Error {
        Error::new(&*self.name, format!("{hub} does not answer"))
            .with_remedy(
                "continue this process, stop it, or raise its limit of open files (`ulimit -n`)",
            )
            .of_kind(ErrorKind::Busy)
            .passing()
    }

    /// The timing of a bus of this node: that of the last one, or what was asked for.
    fn timing(&self) -> Timing {
        let or = |rate: u32, usual: u32| if rate == 0 { usual } else { rate };
        let nominal = or(self.found.nominal, DEFAULT_TIMING.nominal.bits_per_second());
        let data = or(self.found.data, DEFAULT_TIMING.data.bits_per_second().max(nominal));
        Rates { nominal, data }.timing().unwrap_or(DEFAULT_TIMING)
    }

    /// How many frames have passed; `None` if the hub was about to end.
    fn request_join(
        &mut self,
        stream: &UnixStream,
        purpose: Purpose,
        process: u32,
    ) -> Result<Option<u64>, Error> {
        let most = Duration::from_nanos(ANSWER_TIMEOUT.as_nanos());
        stream.set_read_timeout(Some(most)).map_err(|error| self.failure(&error))?;
        let join = Message::Join { node: self.number, purpose, asked: self.asked };
        // A hub that is full has closed the connection, but what it said can be read.
        let _ = quick::send(stream, &join.encode());
        let begin = clock::now::<Monotonic>();
        let mut reader = Reader::new();
        let answer = loop {
            match reader.fill(stream, true) {
                ReadOutcome::Closed => return Ok(None),
                ReadOutcome::Bytes => {}
                ReadOutcome::Nothing if clock::now::<Monotonic>().since(begin) < ANSWER_TIMEOUT => {
                }
                ReadOutcome::Nothing => {
                    return Err(self.no_answer(&format!("the hub of the bus (process {process})")));
                }
            }
            if let Some(message) = reader.next() {
                break message;
            }
        };
        let shown = |rates: Rates| match rates.timing() {
            Some(Timing { nominal, data }) => format!("bitrate={nominal}&data_bitrate={data}"),
            None => "unknown bit rates".to_owned(),
        };
        match answer {
            Ok(Message::Accepted { passed, rates }) => {
                self.found = rates;
                stream.set_read_timeout(None).map_err(|error| self.failure(&error))?;
                Ok(Some(passed))
            }
            Ok(Message::Refused(rates)) => {
                let reason =
                    format!("the bus already runs with {} (process {process})", shown(rates));
                Err(Error::new(&*self.name, reason)
                    .with_remedy("use the same bit rates, remove them, or choose another name")
                    .of_kind(ErrorKind::Busy))
            }
            Ok(Message::Full) => {
                let reason = format!(
                    "the bus is full: process {process} has {} connections, two of a node that \
                     receives and sends",
                    hub::MAX_CONNECTIONS
                );
                Err(Error::new(&*self.name, reason)
                    .with_remedy("close others, or choose another name")
                    .of_kind(ErrorKind::Busy)
                    .passing())
            }
            _ => {
                let reason = format!("process {process} is the hub, and it is another version");
                Err(Error::new(&*self.name, reason)
                    .with_remedy("use the same version of candor for all"))
            }
        }
    }
}

/// The half that receives.
struct SimReceiver {
    stream: UnixStream,
    node: Node,
    purpose: Purpose,
    reader: Box<Reader>,
    wants_stamps: bool,
    /// Frames lost, as the hub reported.
    lost: u64,
    wait: Wait,
    counters: Arc<ReceiverCounters>,
}

impl SimReceiver {
    /// So many frames of this connection were lost so far.
    fn learn_lost(&mut self, lost: u64) {
        self.counters.overflow.add(lost.saturating_sub(self.lost));
        self.lost = lost;
    }
}

impl Receiver for SimReceiver {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        let can_wait = match self.wait.turn(&self.stream, until) {
            Ok(Turn::Read { can_wait }) => can_wait,
            Ok(Turn::Over) => return Ok(Progress::Nothing),
            Err(error) => return Err(kernel::failure(&*self.node.name, &error)),
        };
        match self.reader.fill(&self.stream, can_wait) {
            ReadOutcome::Bytes => {}
            ReadOutcome::Nothing => return Ok(Progress::Nothing),
            ReadOutcome::Closed => {
                // The hub has ended. Others may have found the next one earlier, and have sent.
                let (stream, passed) = self.node.join(self.purpose)?;
                self.stream = stream;
                self.counters.overflow.add(passed);
                *self.reader = Reader::new();
                self.lost = 0;
                return Ok(Progress::Nothing);
            }
        }
        let mut count = 0;
        while let Some(message) = self.reader.next() {
            let (frame, is_own, time_ns) = match message {
                Ok(Message::Received { frame, is_own, time_ns, lost }) => {
                    self.learn_lost(lost);
                    (frame, is_own, time_ns)
                }
                Ok(Message::Lost(lost)) => {
                    self.learn_lost(lost);
                    continue;
                }
                _ => {
                    self.counters.malformed.add(1);
                    continue;
                }
            };
            self.counters.frames.add(1);
            count += 1;
            let system = self.wants_stamps.then_some(Instant::from_nanos(time_ns));
            let origin = if is_own { Origin::Own } else { Origin::Bus };
            take(&Received { frame, stamp: Stamp { system, hardware: None }, origin });
        }
        Ok(if count == 0 { Progress::Nothing } else { Progress::Frames(count) })
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

/// The half that transmits.
struct SimTransmitter {
    /// `None` after the hub has ended, until another one is found.
    stream: Option<UnixStream>,
    /// The earliest time of the next attempt, after no hub was found.
    retry_at: Instant<Monotonic>,
    node: Node,
    reader: Box<Reader>,
    queue: u64,
    /// Frames that this hub was given, and that it has reported as transmitted.
    taken: u64,
    transmitted: u64,
    /// Since when, at the latest, one of those on the way waits to be the next one reported.
    waiting_since: Instant<Monotonic>,
    /// Whether that is told as a trouble.
    is_stuck: bool,
    counters: Arc<TransmitterCounters>,
}

impl SimTransmitter {
    /// Reads which frames have been transmitted.
    fn read_confirmations(&mut self) {
        let before = self.transmitted;
        self.read_to_end();
        if self.transmitted != before {
            self.waiting_since = clock::now();
            self.works();
        }
    }

    fn read_to_end(&mut self) {
        while let Some(stream) = &self.stream {
            match self.reader.fill(stream, false) {
                ReadOutcome::Bytes => {
                    while let Some(message) = self.reader.next() {
                        if let Ok(Message::Transmitted(count)) = message {
                            self.transmitted = count;
                        }
                    }
                }
                ReadOutcome::Nothing => return,
                ReadOutcome::Closed => self.disconnect(),
            }
        }
    }

    /// There is no room: a trouble, if that has been so for long.
    fn note_full(&mut self) {
        self.counters.full.add(1);
        if !self.is_stuck && clock::now::<Monotonic>().since(self.waiting_since) >= ANSWER_TIMEOUT {
            self.is_stuck = true;
            self.counters.trouble.set(STUCK);
        }
    }

    fn works(&mut self) {
        if std::mem::take(&mut self.is_stuck) {
            self.counters.trouble.clear();
        }
    }

    /// The hub has ended: frames that were not yet transmitted are lost.
    fn disconnect(&mut self) {
        self.counters.lost.add(self.on_the_way());
        self.works();
        self.stream = None;
        *self.reader = Reader::new();
        (self.taken, self.transmitted) = (0, 0);
    }

    const fn on_the_way(&self) -> u64 {
        self.taken.saturating_sub(self.transmitted)
    }

    /// Looks for another hub.
    fn join(&mut self) {
        let joined = self.node.join(Purpose::Transmit).ok();
        let stream = joined.map(|(stream, _)| stream);
        self.stream = stream.filter(|stream| stream.set_nonblocking(true).is_ok());
        if self.stream.is_none() {
            self.retry_at = clock::now::<Monotonic>() + RETRY_INTERVAL;
        }
    }

    /// What becomes of a frame while there is no hub: it waits for the next one, if that is looked for.
    fn without_hub(&self) -> Sent {
        match clock::now::<Monotonic>() < self.retry_at {
            true => Sent::Down,
            false => {
                self.counters.full.add(1);
                Sent::Full
            }
        }
    }

    /// Hands a frame to the hub; `None` if that has ended.
    fn hand_over(&mut self, bytes: &[u8; message::LEN], at: Instant<Monotonic>) -> Option<Sent> {
        let stream = self.stream.as_ref()?;
        match quick::try_send(stream, bytes) {
            Ok(candor_linux::Sent::Taken) => {
                if self.on_the_way() == 0 {
                    self.waiting_since = at;
                }
                self.taken += 1;
                self.counters.frames.add(1);
                Some(Sent::Taken)
            }
            Ok(_) => {
                self.counters.full.add(1);
                Some(Sent::Full)
            }
            Err(_) => {
                // What it reported before it ended.
                self.read_confirmations();
                self.disconnect();
                None
            }
        }
    }
}

impl Transmitter for SimTransmitter {
    fn transmit(&mut self, frame: &Frame, _echo: bool) -> Sent {
        if frame.kind() == Kind::Error {
            return Sent::Unsupported;
        }
        if self.on_the_way() >= self.queue {
            self.read_confirmations();
            if self.on_the_way() >= self.queue {
                self.note_full();
                return Sent::Full;
            }
        }
        let at = clock::now::<Monotonic>();
        let bytes = Message::Transmit(*frame, at.as_nanos()).encode();
        self.hand_over(&bytes, at).unwrap_or_else(|| self.without_hub())
    }

    fn wait(&mut self, most: Nanos) {
        match &self.stream {
            // An error here is reported with the next frame.
            Some(stream) => drop(poll::wait_or_signal(stream, Interest::Read, Some(most))),
            None if clock::now::<Monotonic>() >= self.retry_at => self.join(),
            None => {}
        }
    }

    fn is_drained(&mut self) -> bool {
        self.read_confirmations();
        self.on_the_way() == 0
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.counters)
    }
}

#[cfg(test)]
mod tests;

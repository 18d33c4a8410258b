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
use candor_wire::can::tunnel::Refused;
use candor_wire::can::tunnel::cannelloni::{HELLO, MAX_FRAME_LEN, Stream};
use candor_wire::can::{Frame, Kind};

use super::backlog::Backlog;
use super::dialer::{Dialer, Door, Link, Role, Shared, TO_GREET};
use crate::datagrams::{self, FlushPolicy};
use crate::kernel;
use crate::wait::{self, Turn, Wait};
use candor_port::{
    Address, Capabilities, Endpoint, Error, Handover, Message, Origin, Port, Progress, Received,
    Receiver, ReceiverCounters, Sent, Stamp, Transmitter, TransmitterCounters, Until, Waker,
    Wanted,
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
    handover: &Handover,
) -> Result<Port, Error> {
    let name = address.to_string();
    let mut endpoint = None;
    let role = match role(address)? {
        RoleName::Client => Role::Client(datagrams::peer(&name, place, super::PORT)?),
        RoleName::Server => {
            let end = datagrams::resolve(&name, place, super::PORT)?;
            let peer = match address.option("peer") {
                Some(host) => Some(datagrams::peer(&name, host, super::PORT)?),
                None => None,
            };
            let listener = match handover
                .take(|listener: &TcpListener| listener.local_addr().is_ok_and(|own| own == end))
            {
                Some(listener) => listener,
                None => listen(&name, end)?,
            };
            endpoint = Some(Endpoint::new(Arc::clone(&listener)));
            Role::Server(Door::new(listener, peer))
        }
    };
    Ok(Port { endpoint, ..port(role, flush, Wait::new(&name, wanted)?, wanted) })
}

fn listen(name: &str, end: SocketAddr) -> Result<Arc<TcpListener>, Error> {
    TcpListener::bind(end)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| Arc::new(listener)))
        .map_err(|error| {
            let failure =
                Error::new(name, format!("cannot wait for connections at {end}: {error}"))
                    .with_remedy("choose another port, or an address of this machine");
            kernel::with_number(failure, &error)
        })
}

fn port(role: Role, flush: Nanos, wait: Wait, wanted: Wanted) -> Port {
    let shared = Shared::default();
    let mut dialer = Some(Dialer::new(role, shared.clone()));
    let mut port = Port::new(Capabilities {
        fd: true,
        remote: true,
        ordered: true,
        reliable: true,
        message: Message::Frame,
        ..Capabilities::default()
    });
    if let Some(dialer) = dialer.take_if(|_| wanted.receiver) {
        port.receiver = Some(Box::new(Inlet::new(dialer, &shared, wait, wanted)));
    }
    if wanted.transmitter {
        port.transmitter = Some(Box::new(StreamTransmitter::new(shared, dialer, flush)));
    }
    port
}

// ---- Receiving ----------------------------------------------------------------------------------

/// What came on a connection.
enum Incoming {
    Bytes(usize),
    /// None yet.
    Nothing,
    /// None any more.
    Closed,
}

fn read(link: &Link, buffer: &mut [u8], can_wait: bool) -> Incoming {
    match quick::receive_once(&link.stream, buffer, can_wait) {
        Ok(Some(0)) | Err(_) => Incoming::Closed,
        Ok(Some(count)) => Incoming::Bytes(count),
        Ok(None) => Incoming::Nothing,
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
    wait: Wait,
    counters: Arc<ReceiverCounters>,
}

impl Inlet {
    fn new(dialer: Dialer, shared: &Shared, wait: Wait, wanted: Wanted) -> Self {
        let trouble = shared.trouble.clone();
        Self {
            dialer,
            link: None,
            stream: Stream::new(),
            buffer: vec![0; PIECE].into_boxed_slice(),
            wants_error_reports: wanted.error_reports,
            wait,
            counters: Arc::new(ReceiverCounters { trouble, ..ReceiverCounters::default() }),
        }
    }
}

impl Receiver for Inlet {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        let link = self.dialer.step(&self.wait, until);
        self.counters.foreign.add(self.dialer.take_hung_up());
        self.counters.displaced.add(self.dialer.take_displaced());
        let Some(link) = link else { return Ok(Progress::Nothing) };
        if !self.link.as_ref().is_some_and(|known| Arc::ptr_eq(known, &link)) {
            (self.stream, self.link) = (stream_of(&link), Some(Arc::clone(&link)));
        }
        if !link.is_greeted() {
            // The other end may never greet.
            let until = wait::earlier(until, clock::now::<Monotonic>() + TO_GREET);
            match self.wait.for_file(&link.stream, Interest::Read, until) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Ok(Progress::Nothing),
            }
        }
        let until = match self.dialer.look() {
            // The call that reads ends by itself.
            Some(look) if !self.wait.is_in_call(until) => {
                wait::earlier(until, clock::now::<Monotonic>() + look)
            }
            _ => until,
        };
        let can_wait = match self.wait.turn(&link.stream, until) {
            Ok(Turn::Read { can_wait }) => can_wait,
            Ok(Turn::Over) => {
                self.dialer.silent();
                return Ok(Progress::Nothing);
            }
            Err(_) => return Ok(Progress::Nothing),
        };
        let count = match read(&link, &mut self.buffer, can_wait) {
            Incoming::Bytes(count) => count,
            Incoming::Nothing => {
                self.dialer.silent();
                return Ok(Progress::Nothing);
            }
            Incoming::Closed => {
                link.lose();
                return Ok(Progress::Nothing);
            }
        };
        self.dialer.heard();
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
        Ok(if count == 0 { Progress::Nothing } else { Progress::Frames(count) })
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

// ---- Transmitting -------------------------------------------------------------------------------

/// The half that transmits.
struct StreamTransmitter {
    shared: Shared,
    /// If there is no half that receives.
    dialer: Option<Dialer>,
    link: Option<Arc<Link>>,
    backlog: Backlog,
    patience: FlushPolicy,
    /// What comes, if nobody else reads it: only the greeting counts.
    stream: Stream,
    counters: Arc<TransmitterCounters>,
}

impl StreamTransmitter {
    fn new(shared: Shared, dialer: Option<Dialer>, flush: Nanos) -> Self {
        let trouble = shared.trouble.clone();
        Self {
            shared,
            dialer,
            link: None,
            backlog: Backlog::new(ENOUGH + MAX_FRAME_LEN),
            patience: FlushPolicy::new(flush),
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
            Some(dialer) => dialer.step(&Wait::default(), Until::Now),
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
        let (Some(link), Some(dialer)) = (&self.link, &mut self.dialer) else { return };
        let mut buffer = [0; 2_048];
        for _ in 0..PIECES {
            match read(link, &mut buffer, false) {
                Incoming::Nothing => return dialer.silent(),
                Incoming::Closed => return link.lose(),
                Incoming::Bytes(count) => {
                    dialer.heard();
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

impl Transmitter for StreamTransmitter {
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
            // An error here is reported with the next frame.
            (Some(link), _) if link.is_of_use() && link.is_greeted() => {
                let _ = poll::wait_or_signal(&link.stream, Interest::Write, Some(most));
            }
            // A connection that is there waits for the other end to greet.
            (Some(link), Some(_)) if link.is_of_use() => {
                let _ = poll::wait_or_signal(&link.stream, Interest::Read, Some(most));
            }
            (_, Some(dialer)) => {
                let until = Until::Instant(clock::now::<Monotonic>() + most);
                dialer.step(&Wait::default(), until);
            }
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

impl Drop for StreamTransmitter {
    fn drop(&mut self) {
        if self.is_up() {
            self.send();
        }
        // What is under way arrives after the end, as a rule.
        self.counters.lost.add(self.backlog.frames());
    }
}

#[cfg(test)]
mod tests;

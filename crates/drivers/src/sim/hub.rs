//! The bus: a thread that takes frames from nodes, arbitrates between them, and sends each frame to all
//! other nodes when it is complete.
//!
//! ```text
//!  start of frame                            complete: all nodes have it    free
//!  |--- arbitration, data, CRC, end of frame ---|--- 3 bits of intermission ---|--- next frame
//! ```
//!
//! The schedule is absolute: a frame that waits starts when the bus is free, however late the
//! thread wakes up. Of the frames that wait, one per node, the one that wins arbitration is
//! next. A frame that is not acknowledged, because nobody else is there, is transmitted all the
//! same.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};

use candor_linux::clock;
use candor_linux::poll::{Interest, Poll};
use candor_linux::{Sent, peer, quick, realtime};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::bits::{self, INTERMISSION_BITS};
use candor_wire::can::{Frame, Timing};

use super::MAX_QUEUED;
use super::message::{Message, Purpose, Rates, ReadOutcome, Reader};

/// Connections at a time, two per node.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// The hub ends if nobody has connected within this time; who connected and has not joined within it is
/// disconnected.
const JOIN_TIMEOUT: Nanos = Nanos::from_secs(5);
/// How long nobody is let in after the process had no descriptor or memory for one more.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);
/// Frames that are completed before messages of nodes are read again.
const MAX_PER_TURN: usize = 64;
const LISTENER: u64 = u64::MAX;

/// Runs a bus until its last node has left.
pub(super) fn run(listener: UnixListener, timing: Timing) {
    // Without it, frames come some microseconds late.
    let _ = realtime::set_timer_slack(1);
    if let Ok(mut hub) = Hub::new(listener, timing) {
        // Epoll does not fail in any way that could be done something about.
        let _ = hub.work();
    }
}

/// A connection of a node.
struct Connection {
    stream: UnixStream,
    reader: Box<Reader>,
    node: u64,
    /// When it connected.
    since: Instant<Monotonic>,
    /// `None` until it has joined.
    purpose: Option<Purpose>,
    /// Frames to transmit.
    queue: VecDeque<(Frame, Instant<Monotonic>)>,
    /// Frames that were transmitted.
    transmitted: u64,
    /// Frames that it was too slow to receive.
    lost: u64,
}

/// A frame on the bus.
struct Current {
    /// The connection it came from, and the node.
    from: usize,
    node: u64,
    frame: Frame,
    complete: Instant<Monotonic>,
    free: Instant<Monotonic>,
}

struct Hub {
    listener: UnixListener,
    timing: Timing,
    poll: Poll,
    /// Their places are their tokens.
    connections: Vec<Option<Connection>>,
    /// When to look for connections that have not joined; `None` if all have.
    overdue: Option<Instant<Monotonic>>,
    /// Until when the listener is not looked at.
    accepts_again: Option<Instant<Monotonic>>,
    ready: Vec<u64>,
    current: Option<Current>,
    /// When the bus was free again behind the last frame.
    free: Instant<Monotonic>,
    /// What to add to an instant of the schedule for a stamp; taken when the bus becomes busy, so
    /// that the stamps of frames that follow each other are exact.
    since_1970: u64,
}

impl Hub {
    fn new(listener: UnixListener, timing: Timing) -> Result<Self, candor_linux::Error> {
        let mut poll = Poll::new()?;
        poll.add(&listener, Interest::Read, LISTENER)?;
        Ok(Self {
            listener,
            timing,
            poll,
            connections: Vec::new(),
            overdue: None,
            accepts_again: None,
            ready: Vec::with_capacity(MAX_CONNECTIONS + 1),
            current: None,
            free: Instant::ZERO,
            since_1970: 0,
        })
    }

    fn work(&mut self) -> Result<(), candor_linux::Error> {
        let mut was_joined = false;
        loop {
            let complete = self.current.as_ref().map(|current| current.complete);
            let next = [complete, self.overdue, self.accepts_again].into_iter().flatten().min();
            let timeout = match next {
                Some(next) => Some(next.since(clock::now())),
                None if was_joined => None,
                None => Some(JOIN_TIMEOUT),
            };
            self.ready.clear();
            let Self { ready, poll, .. } = self;
            ready.extend(poll.wait(timeout)?);
            if self.ready.is_empty() && next.is_none() && !was_joined {
                return Ok(());
            }
            // Those who leave first: who comes when all have left finds a new bus.
            let mut is_connecting = false;
            for index in 0..self.ready.len() {
                match self.ready.get(index) {
                    Some(&LISTENER) => is_connecting = true,
                    Some(&token) => self.read(token as usize),
                    None => {}
                }
            }
            self.leave_out_mute();
            if was_joined && self.connections.iter().all(Option::is_none) {
                return Ok(());
            }
            if is_connecting {
                was_joined |= self.accept()?;
            }
            self.look_at_listener()?;
            self.pass_time();
        }
    }

    /// Disconnects who connected long ago and has not joined.
    fn leave_out_mute(&mut self) {
        let now = clock::now::<Monotonic>();
        if self.overdue.is_none_or(|overdue| overdue > now) {
            return;
        }
        let joins_until = |place: &Option<Connection>| {
            let connection = place.as_ref().filter(|connection| connection.purpose.is_none())?;
            Some(connection.since + JOIN_TIMEOUT)
        };
        for place in &mut self.connections {
            if joins_until(place).is_some_and(|until| until <= now) {
                *place = None;
            }
        }
        self.overdue = self.connections.iter().filter_map(joins_until).min();
    }

    /// Lets nodes in again some time after that was not possible.
    fn look_at_listener(&mut self) -> Result<(), candor_linux::Error> {
        if self.accepts_again.is_some_and(|time| time <= clock::now()) {
            self.accepts_again = None;
            self.poll.add(&self.listener, Interest::Read, LISTENER)?;
        }
        Ok(())
    }

    /// Takes who connects: one at a time, since the listener stays ready if there are more. Whether there was one.
    fn accept(&mut self) -> Result<bool, candor_linux::Error> {
        use ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        match self.listener.accept() {
            Ok((stream, _)) => {
                self.admit(stream);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock) => {
                Ok(false)
            }
            // It stays ready while there is no descriptor for who connects.
            Err(_) => {
                self.accepts_again = Some(clock::now::<Monotonic>() + ACCEPT_PAUSE);
                self.poll.remove(&self.listener)?;
                Ok(false)
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        // Only programs of the same user and root share a bus: who else listens can read it.
        let is_known = peer::peer_of(&stream)
            .is_ok_and(|peer| peer.user == peer::own_user() || peer.user == 0);
        let vacant = self.connections.iter().position(Option::is_none);
        let token = vacant.unwrap_or(self.connections.len());
        if !is_known || stream.set_nonblocking(true).is_err() {
            return;
        }
        if token >= MAX_CONNECTIONS {
            let _ = quick::try_send(&stream, &Message::Full.encode());
            return;
        }
        if self.poll.add(&stream, Interest::Read, token as u64).is_err() {
            return;
        }
        let since = clock::now();
        self.overdue = self.overdue.or(Some(since + JOIN_TIMEOUT));
        let connection = Some(Connection {
            stream,
            reader: Box::new(Reader::new()),
            node: 0,
            since,
            purpose: None,
            queue: VecDeque::with_capacity(MAX_QUEUED),
            transmitted: 0,
            lost: 0,
        });
        match self.connections.get_mut(token) {
            Some(place) => *place = connection,
            None => self.connections.push(connection),
        }
    }

    /// Reads the messages of a node. Closes the connection if the node has, or if a message is invalid.
    fn read(&mut self, token: usize) {
        let rates = Rates::from_timing(self.timing);
        let Some(place) = self.connections.get_mut(token) else { return };
        let Some(connection) = place else { return };
        let is_valid = match connection.reader.fill(&connection.stream, false) {
            ReadOutcome::Closed => false,
            ReadOutcome::Nothing => true,
            ReadOutcome::Bytes => connection.handle_messages(rates),
        };
        if !is_valid {
            // What it had to transmit leaves with it; what is on the bus is completed.
            *place = None;
        }
    }

    /// Completes the frame on the bus, and starts the next one, as often as it is time.
    fn pass_time(&mut self) {
        for _ in 0..MAX_PER_TURN {
            let now = clock::now::<Monotonic>();
            match self.current.take() {
                Some(current) if current.complete > now => {
                    self.current = Some(current);
                    return;
                }
                Some(current) => {
                    self.complete(&current);
                    // Those that were there when it ended start as soon as the bus is free.
                    self.free = current.free;
                    self.start(current.free);
                }
                None => {
                    if self.free <= now {
                        let since_1970 = clock::now::<Realtime>().as_nanos();
                        self.since_1970 = since_1970.saturating_sub(now.as_nanos());
                    }
                    self.start(self.free.max(now));
                }
            }
            if self.current.is_none() {
                return;
            }
        }
    }

    /// Lets the frame that wins arbitration begin: when the bus is free, or when the first one was handed over.
    fn start(&mut self, free: Instant<Monotonic>) {
        let connections = self.connections.iter().enumerate();
        let heads = connections.filter_map(|(token, connection)| {
            let (frame, at) = connection.as_ref()?.queue.front()?;
            Some((frame.arbitration_key(), *at, token))
        });
        let Some((begin, from)) = winner(heads, free) else { return };
        let Some(Some(connection)) = self.connections.get_mut(from) else { return };
        let Some((frame, _)) = connection.queue.pop_front() else { return };
        // An error report has no length, and is refused by who transmits.
        let Ok(length) = bits::length(&frame) else { return };
        let complete = self.timing.duration_ns(length.without_intermission());
        let complete = begin + Nanos::from_nanos(complete);
        let node = connection.node;
        let pause = self.timing.nominal.duration_ns(INTERMISSION_BITS);
        let free = complete + Nanos::from_nanos(pause);
        self.current = Some(Current { from, node, frame, complete, free });
    }

    /// Sends a frame to all nodes that receive, and then confirms it to the node that transmitted it.
    fn complete(&mut self, current: &Current) {
        let time_ns = self.since_1970.saturating_add(current.complete.as_nanos());
        for place in &mut self.connections {
            let Some(connection) = place else { continue };
            let is_own = connection.node == current.node;
            let is_to_receive = match connection.purpose {
                Some(Purpose::Receive) => !is_own,
                Some(Purpose::ReceiveOwn) => true,
                Some(Purpose::Transmit) | None => false,
            };
            if !is_to_receive {
                continue;
            }
            let lost = connection.lost;
            let message = Message::Received { frame: current.frame, is_own, time_ns, lost };
            match quick::try_send(&connection.stream, &message.encode()) {
                Ok(Sent::Taken) => {}
                Ok(Sent::QueueFull | Sent::WouldBlock) => connection.lost += 1,
                // It has left, which reading will tell.
                Err(_) => {}
            }
        }
        // Last: the process of who transmitted may be this one, and end then.
        if let Some(Some(connection)) = self.connections.get_mut(current.from)
            // It may have left meanwhile, and another may have its place.
            && connection.node == current.node
            && connection.purpose == Some(Purpose::Transmit)
        {
            connection.transmitted += 1;
            let message = Message::Transmitted(connection.transmitted);
            // There is room: who transmits has no more than so many frames on the way.
            let _ = quick::try_send(&connection.stream, &message.encode());
        }
    }
}

impl Connection {
    /// Handles the messages of a node; false if one of them is invalid.
    fn handle_messages(&mut self, rates: Rates) -> bool {
        while let Some(message) = self.reader.next() {
            match (message, self.purpose) {
                (Ok(Message::Join { node, purpose, asked }), None) => {
                    let is_accepted = rates.satisfies(asked);
                    let answer = match is_accepted {
                        true => Message::Accepted(rates),
                        false => Message::Refused(rates),
                    };
                    let sent = quick::try_send(&self.stream, &answer.encode());
                    if !is_accepted || sent != Ok(Sent::Taken) {
                        return false;
                    }
                    (self.node, self.purpose) = (node, Some(purpose));
                }
                (Ok(Message::Transmit(frame, at_ns)), Some(Purpose::Transmit))
                    if self.queue.len() < MAX_QUEUED && bits::length(&frame).is_ok() =>
                {
                    // Not later than now, whatever it says.
                    let at = Instant::from_nanos(at_ns).min(clock::now());
                    self.queue.push_back((frame, at));
                }
                _ => return false,
            }
        }
        true
    }
}

/// When the next frame begins on a bus that is free from then on, and whose it is, of keys of arbitration, instants at which frames
/// were handed over, and tokens. A hub that had no processor when the bus became free lets no frame begin before it was there.
fn winner<K: Ord>(
    heads: impl Iterator<Item = (K, Instant<Monotonic>, usize)> + Clone,
    free: Instant<Monotonic>,
) -> Option<(Instant<Monotonic>, usize)> {
    let first = heads.clone().map(|(_, at, _)| at).min()?;
    let begin = free.max(first);
    let there = heads.filter(|(_, at, _)| *at <= begin);
    there.map(|(key, _, token)| (key, token)).min().map(|(_, token)| (begin, token))
}

/// Listens on a socket of this name; `None` if another process does.
pub(super) fn listen(
    address: &std::os::unix::net::SocketAddr,
) -> std::io::Result<Option<UnixListener>> {
    match UnixListener::bind_addr(address) {
        Ok(listener) => {
            listener.set_nonblocking(true)?;
            Ok(Some(listener))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_when_the_bus_is_free_and_it_is_there() {
        for (heads, expected) in [
            (&[][..], None),
            // Those that were there when the bus became free: the most urgent one.
            (&[(7, 90), (3, 100), (1, 101)], Some((100, 1))),
            // Nobody was: the first that came, at its time, though a more urgent one came later.
            (&[(7, 130), (1, 140)], Some((130, 0))),
            (&[(7, 130), (1, 130)], Some((130, 1))),
            (&[(7, 0)], Some((100, 0))),
        ] {
            let heads = heads.iter().enumerate();
            let heads = heads.map(|(token, &(key, at))| (key, Instant::from_nanos(at), token));
            let found = winner(heads, Instant::from_nanos(100));
            assert_eq!(found.map(|(begin, token)| (begin.as_nanos(), token)), expected);
        }
    }
}

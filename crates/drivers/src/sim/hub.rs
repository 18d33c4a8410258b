//! The hub: a thread that has a bus of [`candor_can`] in real time. It takes frames from nodes, and sends each frame to all
//! other nodes when it is complete.
//!
//! ```text
//!  start of frame                            complete: all nodes have it    idle
//!  |--- arbitration, data, CRC, end of frame ---|--- 3 bits of intermission ---|--- next frame
//! ```
//!
//! The schedule is absolute: the bus is told since when a frame waits and has its own next instant, so a frame that
//! waits starts when the bus is idle, however late the thread wakes up. A hub that had no processor when the bus became
//! idle lets no frame begin before it was there. A frame that is not acknowledged, because nobody else is there, is
//! transmitted all the same.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};

use candor_can::{Bus, Node, NodeId, Notice, Options, Request, WireStage};
use candor_linux::clock;
use candor_linux::poll::{Interest, Poll};
use candor_linux::{Sent, peer, quick, realtime};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::bits;
use candor_wire::can::{ErrorCounters, Frame, Timing};

use super::MAX_QUEUED;
use super::message::{Message, Purpose, Rates, ReadOutcome, Reader};

/// Connections at a time, two per node.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// The hub ends if nobody has connected within this time; who connected and has not joined within it is
/// disconnected.
const JOIN_TIMEOUT: Nanos = Nanos::from_secs(5);
/// How long nobody is let in after the process had no descriptor or memory for one more.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);
/// Steps of the bus, two for each frame, before messages of nodes are read again.
const MAX_PER_TURN: usize = 128;
const LISTENER: u64 = u64::MAX;
/// Where in a bit nodes sample, in thousandths. All see the same levels, so it decides nothing.
const SAMPLE_POINT_PERMILLE: u16 = 800;
/// Nodes see frames when they are complete, and all get through.
const OPTIONS: Options =
    Options { is_acknowledged: true, receives_at_end: true, is_arbitration_silent: true };

/// Runs a bus until its last node has left.
pub(super) fn run(listener: UnixListener, timing: Timing) {
    // Without it, frames come some microseconds late.
    let _ = realtime::set_timer_slack(1);
    if let Ok(mut hub) = BusHub::new(listener, timing) {
        // Epoll does not fail in any way that could be done something about.
        let _ = hub.work();
    }
}

struct NodeConnection {
    stream: UnixStream,
    reader: Box<Reader>,
    node: u64,
    since: Instant<Monotonic>,
    /// `None` until it has joined.
    purpose: Option<Purpose>,
    /// Frames to transmit; the first one is what its node of the bus wants to send.
    queue: VecDeque<Request>,
    /// Whether the first of them is on the bus.
    is_sending: bool,
    /// Frames that were transmitted.
    transmitted: u64,
    /// Frames that it was too slow to receive, and how many of them it knows of.
    lost: u64,
    told_lost: u64,
    /// Whether room in its socket is waited for, to tell it.
    is_behind: bool,
}

struct BusHub {
    listener: UnixListener,
    poll: Poll,
    /// Their places are their tokens, and those of their nodes on the bus.
    connections: Vec<Option<NodeConnection>>,
    /// When to look for connections that have not joined; `None` if all have.
    overdue: Option<Instant<Monotonic>>,
    /// Until when the listener is not looked at.
    accepts_again: Option<Instant<Monotonic>>,
    ready: Vec<u64>,
    /// Its times are those of the monotonic clock.
    bus: Bus<Vec<Node>, ()>,
    /// Frames that were completed.
    completed: u64,
    /// The connections whose frame is on the bus, and the numbers of their nodes.
    senders: Vec<(usize, u64)>,
    /// What to add to an instant of the schedule for a stamp; taken when the bus becomes busy, so
    /// that the stamps of frames that follow each other are exact.
    since_1970: u64,
}

impl BusHub {
    fn new(listener: UnixListener, timing: Timing) -> Result<Self, candor_linux::Error> {
        let mut poll = Poll::new()?;
        poll.add(&listener, Interest::Read, LISTENER)?;
        Ok(Self {
            listener,
            poll,
            connections: Vec::new(),
            overdue: None,
            accepts_again: None,
            ready: Vec::with_capacity(MAX_CONNECTIONS + 1),
            bus: Bus::new(timing, Vec::new(), (), OPTIONS),
            completed: 0,
            senders: Vec::new(),
            since_1970: 0,
        })
    }

    fn work(&mut self) -> Result<(), candor_linux::Error> {
        let mut was_joined = false;
        loop {
            let on_bus = self.bus.deadline().map(Instant::from_nanos);
            let next = [on_bus, self.overdue, self.accepts_again].into_iter().flatten().min();
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
                    Some(&token) => {
                        self.read(token as usize);
                        self.tell_lost(token as usize);
                    }
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
        let joins_until = |place: &Option<NodeConnection>| {
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
        let connection = Some(NodeConnection {
            stream,
            reader: Box::new(Reader::new()),
            node: 0,
            since,
            purpose: None,
            queue: VecDeque::with_capacity(MAX_QUEUED),
            is_sending: false,
            transmitted: 0,
            lost: 0,
            told_lost: 0,
            is_behind: false,
        });
        match self.connections.get_mut(token) {
            Some(place) => {
                *place = connection;
                // Errors of who was there before are not its own.
                self.bus.set_error_counters(NodeId(token as u32), ErrorCounters::default());
            }
            None => {
                self.connections.push(connection);
                self.bus.nodes_mut().push(Node::TAKES_PART);
            }
        }
    }

    /// Reads the messages of a node. Closes the connection if the node has, or if a message is invalid.
    fn read(&mut self, token: usize) {
        let rates = Rates::from_timing(self.bus.timing());
        let Some((before, [place, after @ ..])) = self.connections.split_at_mut_checked(token)
        else {
            return;
        };
        let Some(connection) = place else { return };
        let passed = |node: u64, purpose: Purpose| match purpose {
            Purpose::Receive => {
                let of_node = before.iter().chain(&*after).flatten().filter(|it| it.node == node);
                self.completed.saturating_sub(of_node.map(|it| it.transmitted).sum())
            }
            Purpose::ReceiveOwn | Purpose::Transmit => self.completed,
        };
        let had_frames = !connection.queue.is_empty();
        let is_valid = match connection.reader.fill(&connection.stream, false) {
            ReadOutcome::Closed => false,
            ReadOutcome::Nothing => true,
            ReadOutcome::Bytes => connection.handle_messages(rates, passed),
        };
        let node = NodeId(token as u32);
        if !is_valid {
            // What it had to transmit leaves with it; what is on the bus is completed.
            *place = None;
            self.bus.withdraw(node);
        } else if !had_frames && let Some(&first) = connection.queue.front() {
            self.bus.request(node, first);
        }
    }

    /// Tells a node that was too slow what it has lost, as soon as its socket has room: the next frame would tell it too, but
    /// there may be none.
    fn tell_lost(&mut self, token: usize) {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        if !connection.is_behind {
            return;
        }
        if connection.told_lost < connection.lost {
            let message = Message::Lost(connection.lost);
            match quick::try_send(&connection.stream, &message.encode()) {
                Ok(Sent::Taken) => connection.told_lost = connection.lost,
                Ok(Sent::QueueFull | Sent::WouldBlock) => return,
                // It has left, which reading will tell.
                Err(_) => {}
            }
        }
        let changed = self.poll.change(&connection.stream, Interest::Read, token as u64);
        connection.is_behind = changed.is_err();
    }

    /// Brings the bus to this instant: frames begin and are completed as often as it is time.
    fn pass_time(&mut self) {
        for _ in 0..MAX_PER_TURN {
            let now = clock::now::<Monotonic>();
            let next = self.bus.next().filter(|&(at_ns, _)| at_ns <= now.as_nanos());
            let Some((at_ns, stage)) = next else { return };
            if stage == WireStage::Begins && self.bus.idle_at_ns() < at_ns {
                let since_1970 = clock::now::<Realtime>().as_nanos();
                self.since_1970 = since_1970.saturating_sub(now.as_nanos());
            }
            let (mut sent, mut changed) = (None, None);
            let Self { bus, connections, senders, .. } = self;
            bus.step((at_ns, stage), &mut |node: NodeId, _: u64, notice: Notice| {
                let token = node.0 as usize;
                let connection = connections.get_mut(token).and_then(Option::as_mut);
                match (notice, connection) {
                    (Notice::Started, Some(connection)) => {
                        connection.is_sending = true;
                        senders.push((token, connection.node));
                    }
                    (
                        Notice::Failed { is_sender: true, .. } | Notice::LostArbitration { .. },
                        connection,
                    ) => {
                        senders.retain(|&(sender, _)| sender != token);
                        connection.into_iter().for_each(|it| it.is_sending = false);
                    }
                    (Notice::Sent(passage), _) => sent = Some(passage.frame),
                    (Notice::BusOff | Notice::TakesPart, _) => changed = Some((node, notice)),
                    _ => {}
                }
            });
            match changed {
                // Its frames wait until it takes part again, which it wants at once.
                Some((node, Notice::BusOff)) => {
                    self.bus.join(node, false, SAMPLE_POINT_PERMILLE, at_ns);
                }
                Some((node, _)) => self.request_first(node),
                None => {}
            }
            if let Some(frame) = sent {
                self.complete(frame, at_ns);
            }
        }
    }

    /// Sends a frame to all nodes that receive, and then confirms it to those that transmitted it.
    fn complete(&mut self, frame: Frame, at_ns: u64) {
        self.completed += 1;
        let time_ns = self.since_1970.saturating_add(at_ns);
        for (token, place) in self.connections.iter_mut().enumerate() {
            let Some(connection) = place else { continue };
            let is_own = self.senders.iter().any(|&(_, node)| node == connection.node);
            let is_to_receive = match connection.purpose {
                Some(Purpose::Receive) => !is_own,
                Some(Purpose::ReceiveOwn) => true,
                Some(Purpose::Transmit) | None => false,
            };
            if !is_to_receive {
                continue;
            }
            let lost = connection.lost;
            let message = Message::Received { frame, is_own, time_ns, lost };
            match quick::try_send(&connection.stream, &message.encode()) {
                Ok(Sent::Taken) => connection.told_lost = lost,
                Ok(Sent::QueueFull | Sent::WouldBlock) => {
                    connection.lost += 1;
                    if !connection.is_behind {
                        let stream = &connection.stream;
                        let changed = self.poll.change(stream, Interest::Either, token as u64);
                        connection.is_behind = changed.is_ok();
                    }
                }
                // It has left, which reading will tell.
                Err(_) => {}
            }
        }
        // Last: the process of who transmitted may be this one, and end then.
        for (token, _) in self.senders.drain(..) {
            // It may have left meanwhile, and another may have its place.
            let Some(Some(connection)) = self.connections.get_mut(token) else { continue };
            if std::mem::take(&mut connection.is_sending) {
                connection.queue.pop_front();
                connection.transmitted += 1;
                let message = Message::Transmitted(connection.transmitted);
                // There is room: who transmits has no more than so many frames on the way.
                let _ = quick::try_send(&connection.stream, &message.encode());
            }
            if let Some(&first) = connection.queue.front() {
                self.bus.request(NodeId(token as u32), first);
            }
        }
    }

    /// A node of the bus wants to send what is first in the queue of its connection.
    fn request_first(&mut self, node: NodeId) {
        let connection = self.connections.get(node.0 as usize).and_then(Option::as_ref);
        if let Some(&first) = connection.and_then(|it| it.queue.front()) {
            self.bus.request(node, first);
        }
    }
}

impl NodeConnection {
    /// Handles the messages of a node; false if one of them is invalid. Who joins is told the bit rates of the bus, and how many
    /// frames have passed that it would have received.
    fn handle_messages(&mut self, rates: Rates, passed: impl Fn(u64, Purpose) -> u64) -> bool {
        while let Some(message) = self.reader.next() {
            match (message, self.purpose) {
                (Ok(Message::Join { node, purpose, asked }), None) => {
                    let is_accepted = rates.satisfies(asked);
                    let answer = match is_accepted {
                        true => Message::Accepted { passed: passed(node, purpose), rates },
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
                    let at_ns = at_ns.min(clock::now::<Monotonic>().as_nanos());
                    self.queue.extend(Request::new(frame, at_ns));
                }
                _ => return false,
            }
        }
        true
    }
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

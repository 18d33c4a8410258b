//! [`Dialer`]: makes the connection of a tunnel, and another one when it is lost.
//!
//! ```text
//!  apart -- client: connect ---------------> connecting --> up -- lost --> apart
//!    ^   -- server: accept --> guests, one of which greets --^      |
//!    +--- client: a pause, 50 ms to 2 s ----------------------------+
//! ```
//!
//! A server does not wait for one guest alone: whoever greets first is the peer. A guest that does
//! not greet in time, or says something else, is hung up on. When there are too many, the oldest of
//! the address with the most guests has to go, so that one host cannot keep others out.
//!
//! The peer may listen only, and say nothing for ever. But it may also be one that greeted to keep
//! others out. So after [`SILENCE`] the door is opened again, and whoever greets then takes its place.
//! A peer that says something closes the door.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use candor_linux::clock;
use candor_linux::poll::Interest;
use candor_linux::{quick, tcp};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::tunnel::cannelloni::HELLO;

use crate::names::Peer;
use crate::wait::{self, Wait};
use candor_port::{Trouble, Until};

/// How long a connection may take until both ends have greeted.
pub(super) const TO_GREET: Nanos = Nanos::from_secs(5);
/// How long the other end may be silent where it has to answer, or not read what it is sent.
const ANSWER_TIMEOUT: Nanos = Nanos::from_secs(10);
/// How long a client that is connected may say nothing before another one that greets takes its place.
pub(super) const SILENCE: Nanos = Nanos::from_secs(10);
/// Meanwhile a server looks at its door so often in that time.
const LOOKS: u64 = 10;
/// The pause after a connection that was lost, and after those that did not come about.
const FIRST_PAUSE: Nanos = Nanos::from_millis(50);
const LAST_PAUSE: Nanos = Nanos::from_secs(2);
/// Bytes that the kernel takes before it has sent what it took earlier: what waits there cannot be
/// overtaken, and its deadlines mean nothing.
const MOST_UNSENT: u32 = 2_048;
/// Bytes that may be under way. It bounds what is lost with a connection, and the rate: 640 kB/s for
/// a peer that answers after 100 ms.
const MOST_UNDER_WAY: u32 = 65_536;
/// Guests that may be about to greet.
const MOST_GUESTS: usize = 64;
/// Guests that are let in before those that are in are listened to.
const MOST_AT_ONCE: usize = 16;

// ---- Links --------------------------------------------------------------------------------------

/// A connection.
pub(super) struct Link {
    pub(super) stream: TcpStream,
    /// The other end has greeted.
    is_greeted: AtomicBool,
    is_lost: AtomicBool,
    trouble: Trouble,
}

impl Link {
    pub(super) fn is_of_use(&self) -> bool {
        !self.is_lost.load(Ordering::Relaxed)
    }

    pub(super) fn is_greeted(&self) -> bool {
        self.is_greeted.load(Ordering::Relaxed)
    }

    /// The other end has greeted.
    pub(super) fn greet(&self) {
        if !self.is_greeted.swap(true, Ordering::Relaxed) {
            self.trouble.clear();
        }
    }

    /// Ends it; whoever waits on it wakes up.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The connection that there is now, and why there is none.
#[derive(Clone, Default)]
pub(super) struct Shared {
    link: Arc<Mutex<Option<Arc<Link>>>>,
    pub(super) trouble: Trouble,
}

impl Shared {
    pub(super) fn current(&self) -> Option<Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, link: Option<Arc<Link>>) {
        let earlier = {
            let mut current = self.link.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, link)
        };
        drop(earlier);
    }
}

/// Makes a stream what a tunnel needs, and greets.
fn prepare(stream: &TcpStream) -> bool {
    stream.set_nonblocking(false).is_ok()
        && stream.set_nodelay(true).is_ok()
        && tcp::set_user_timeout(stream, ANSWER_TIMEOUT).is_ok()
        && tcp::set_unsent_bound(stream, MOST_UNSENT).is_ok()
        && tcp::set_send_buffer(stream, MOST_UNDER_WAY).is_ok()
        && tcp::send(stream, &HELLO) == Ok(Some(HELLO.len()))
}

// ---- Servers ------------------------------------------------------------------------------------

/// Someone who connected and has not greeted yet.
struct Guest {
    stream: TcpStream,
    source: IpAddr,
    until: Instant<Monotonic>,
    /// How much of the greeting came.
    received: usize,
}

enum GuestMessage {
    /// Not enough yet.
    Nothing,
    /// The greeting.
    Hello,
    /// Something else, or goodbye.
    Wrong,
}

impl Guest {
    /// Reads the greeting and no byte behind it.
    fn listen(&mut self) -> GuestMessage {
        let mut buffer = [0; HELLO.len()];
        let expected = HELLO.get(self.received..).unwrap_or_default();
        let room = buffer.get_mut(..expected.len()).unwrap_or_default();
        match quick::receive_once(&self.stream, room, false) {
            Ok(None) => GuestMessage::Nothing,
            Ok(Some(count)) if count > 0 && room.get(..count) == expected.get(..count) => {
                self.received += count;
                if self.received == HELLO.len() {
                    GuestMessage::Hello
                } else {
                    GuestMessage::Nothing
                }
            }
            Ok(Some(_)) | Err(_) => GuestMessage::Wrong,
        }
    }
}

/// Where others connect.
pub(super) struct Door {
    listener: Arc<TcpListener>,
    /// The only host that may come in.
    peer: Option<Peer>,
    guests: Vec<Guest>,
    /// How many were hung up on since this was asked.
    hung_up: u64,
    /// How many of them had been the peer.
    displaced: u64,
    /// How long a peer may be silent when another one greets.
    silence: Nanos,
}

impl Door {
    pub(super) fn new(listener: Arc<TcpListener>, peer: Option<Peer>) -> Self {
        let guests = Vec::with_capacity(MOST_GUESTS);
        Self { listener, peer, guests, hung_up: 0, displaced: 0, silence: SILENCE }
    }

    /// The same for tests that cannot wait.
    #[cfg(test)]
    pub(super) fn with_silence(self, silence: Nanos) -> Self {
        Self { silence, ..self }
    }

    /// How often to look whether somebody else greets.
    fn look(&self) -> Nanos {
        Nanos::from_nanos(self.silence.as_nanos() / LOOKS)
    }

    /// The newest of those who have greeted, in place of a peer that is silent; does not wait.
    fn successor(&mut self) -> std::io::Result<Option<TcpStream>> {
        self.let_in()?;
        let mut newest = None;
        while let Some(stream) = self.listen() {
            // Some did not want to wait so long.
            match is_there(&stream) {
                true => self.hung_up += u64::from(newest.replace(stream).is_some()),
                false => self.hung_up += 1,
            }
        }
        Ok(newest)
    }

    /// Nobody is needed any more.
    fn dismiss(&mut self) {
        self.hung_up += self.guests.len() as u64;
        self.guests.clear();
    }

    /// Someone who has greeted. Waits for that, but not longer than until something is to be done.
    fn welcome(&mut self, wait: &Wait, until: Until) -> std::io::Result<Option<TcpStream>> {
        self.let_in()?;
        if let Some(stream) = self.listen() {
            return Ok(Some(stream));
        }
        if until != Until::Now {
            let first = self.guests.iter().map(|guest| guest.until).min();
            let until = first.map_or(until, |first| wait::earlier(until, first));
            let guests = self.guests.iter().map(|guest| guest.stream.as_fd());
            let files: Vec<_> = std::iter::once(self.listener.as_fd()).chain(guests).collect();
            // An error here is reported when a connection is accepted.
            let _ = wait.for_any(files, until);
        }
        Ok(None)
    }

    fn let_in(&mut self) -> std::io::Result<()> {
        for _ in 0..MOST_AT_ONCE {
            let (stream, source) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // It was gone before it was let in.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            let is_welcome =
                self.peer.as_mut().is_none_or(|peer| peer.address().ip() == source.ip());
            if !is_welcome || !prepare(&stream) {
                self.hung_up += 1;
                continue;
            }
            self.make_room();
            let until = clock::now::<Monotonic>() + TO_GREET;
            self.guests.push(Guest { stream, source: source.ip(), until, received: 0 });
        }
        Ok(())
    }

    fn make_room(&mut self) {
        if self.guests.len() < MOST_GUESTS {
            return;
        }
        let of = |source| self.guests.iter().filter(|guest| guest.source == source).count();
        // They are in the order in which they came.
        let worst = (0..self.guests.len())
            .max_by_key(|&place| (self.guests.get(place).map(|it| of(it.source)), Reverse(place)));
        if let Some(worst) = worst {
            self.guests.remove(worst);
            self.hung_up += 1;
        }
    }

    /// The first one who has greeted. Who takes too long, or says something else, has to go.
    fn listen(&mut self) -> Option<TcpStream> {
        let now = clock::now::<Monotonic>();
        let mut place = 0;
        while let Some(guest) = self.guests.get_mut(place) {
            match guest.listen() {
                GuestMessage::Hello => return Some(self.guests.remove(place).stream),
                GuestMessage::Nothing if now < guest.until => place += 1,
                GuestMessage::Nothing | GuestMessage::Wrong => {
                    self.guests.remove(place);
                    self.hung_up += 1;
                }
            }
        }
        None
    }
}

/// Whether the other end has not hung up.
fn is_there(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let is_there = match peeked {
        Ok(count) => count > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    };
    is_there && stream.set_nonblocking(false).is_ok()
}

// ---- Dialing ------------------------------------------------------------------------------------

/// Who connects.
pub(super) enum Role {
    /// This end, to there.
    Client(Peer),
    Server(Door),
}

enum HandshakeStage {
    /// Nothing is tried before.
    Apart { until: Instant<Monotonic> },
    /// Until it is connected, or it is too late.
    Connecting { stream: TcpStream, until: Instant<Monotonic> },
    /// Until both have greeted, or it is too late.
    Up { link: Arc<Link>, until: Instant<Monotonic> },
}

/// Makes connections.
pub(super) struct Dialer {
    role: Role,
    stage: HandshakeStage,
    /// The next pause.
    pause: Nanos,
    /// If the peer of a server says nothing: when to look at the door.
    silent: Option<Instant<Monotonic>>,
    shared: Shared,
}

impl Dialer {
    pub(super) fn new(mut role: Role, shared: Shared) -> Self {
        shared.trouble.set(match &mut role {
            Role::Client(peer) => format!("not connected to {} yet", peer.address()),
            Role::Server(_) => "no client has connected yet".to_owned(),
        });
        let stage = HandshakeStage::Apart { until: Instant::ZERO };
        Self { role, stage, pause: FIRST_PAUSE, silent: None, shared }
    }

    /// How many connected clients made way for another one since this was asked last.
    pub(super) fn take_displaced(&mut self) -> u64 {
        match &mut self.role {
            Role::Server(door) => std::mem::take(&mut door.displaced),
            Role::Client(_) => 0,
        }
    }

    /// How long to wait for the peer at most, before [`Self::silent`] is to be called.
    pub(super) fn look(&self) -> Option<Nanos> {
        match &self.role {
            Role::Server(door) => Some(door.look()),
            Role::Client(_) => None,
        }
    }

    /// Something came from the peer.
    pub(super) fn heard(&mut self) {
        if let (Some(_), Role::Server(door)) = (self.silent.take(), &mut self.role) {
            door.dismiss();
        }
    }

    /// Nothing came from the peer. If that lasts, somebody else who greets takes its place.
    pub(super) fn silent(&mut self) {
        let (Role::Server(door), HandshakeStage::Up { link, .. }) = (&mut self.role, &self.stage)
        else {
            return;
        };
        let now = clock::now::<Monotonic>();
        let next = self.silent.get_or_insert(now + door.silence);
        if now < *next {
            return;
        }
        *next = now + door.look();
        // That nobody can be let in is told when there is no connection.
        let Ok(Some(stream)) = door.successor() else { return };
        link.lose();
        door.hung_up += 1;
        door.displaced += 1;
        self.up(stream, Instant::ZERO).greet();
    }

    /// How many were hung up on since this was asked last.
    pub(super) fn take_hung_up(&mut self) -> u64 {
        match &mut self.role {
            Role::Server(door) => std::mem::take(&mut door.hung_up),
            Role::Client(_) => 0,
        }
    }

    /// The connection, once there is one; else goes on by one step, for which it waits.
    pub(super) fn step(&mut self, wait: &Wait, until: Until) -> Option<Arc<Link>> {
        match &self.stage {
            HandshakeStage::Up { link, until } => {
                let is_greeted = link.is_greeted();
                let is_late = !is_greeted && clock::now::<Monotonic>() > *until;
                if link.is_of_use() && !is_late {
                    if is_greeted {
                        self.pause = FIRST_PAUSE;
                    }
                    return Some(Arc::clone(link));
                }
                link.lose();
                let reason = match is_late {
                    true => "the other end connected but sent no greeting",
                    false => "the connection was lost",
                };
                self.part(reason);
            }
            HandshakeStage::Apart { until: end } => {
                if clock::now::<Monotonic>() < *end {
                    let _ = wait.for_nothing(wait::earlier(until, *end));
                    return None;
                }
                return self.begin(wait, until);
            }
            HandshakeStage::Connecting { stream, until: end } => {
                let is_late = clock::now::<Monotonic>() >= *end;
                let until = wait::earlier(until, *end);
                let is_done = wait.for_file(stream, Interest::Write, until);
                let failure = stream.take_error();
                match (is_done, failure) {
                    (Ok(true), Ok(None)) => return self.connected(),
                    (Ok(false), Ok(None)) if !is_late => {}
                    (_, Ok(Some(error)) | Err(error)) => self.part(&error.to_string()),
                    _ => self.part("the other end does not answer"),
                }
            }
        }
        None
    }

    fn begin(&mut self, wait: &Wait, until: Until) -> Option<Arc<Link>> {
        match &mut self.role {
            Role::Client(peer) => match tcp::connect(peer.address()) {
                Ok(stream) => {
                    let until = clock::now::<Monotonic>() + TO_GREET;
                    self.stage = HandshakeStage::Connecting { stream, until };
                }
                Err(error) => self.part(&error.to_string()),
            },
            Role::Server(door) => match door.welcome(wait, until) {
                Ok(Some(stream)) => {
                    let link = self.up(stream, Instant::ZERO);
                    link.greet();
                    return Some(link);
                }
                Ok(None) => {}
                Err(error) => self.part(&format!("cannot accept a connection: {error}")),
            },
        }
        None
    }

    fn connected(&mut self) -> Option<Arc<Link>> {
        let stage =
            std::mem::replace(&mut self.stage, HandshakeStage::Apart { until: Instant::ZERO });
        let HandshakeStage::Connecting { stream, until } = stage else { return None };
        if !prepare(&stream) {
            self.part("the connection was lost");
            return None;
        }
        Some(self.up(stream, until))
    }

    fn up(&mut self, stream: TcpStream, until: Instant<Monotonic>) -> Arc<Link> {
        if let Some(look) = self.look() {
            // So that a peer that says nothing is noticed. It is not 0, the only thing that is refused.
            let _ = stream.set_read_timeout(Some(Duration::from_nanos(look.as_nanos())));
        }
        self.silent = None;
        let (is_greeted, is_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        let trouble = self.shared.trouble.clone();
        let link = Arc::new(Link { stream, is_greeted, is_lost, trouble });
        self.stage = HandshakeStage::Up { link: Arc::clone(&link), until };
        self.shared.set(Some(Arc::clone(&link)));
        link
    }

    /// There is no connection. A client tries again later; a server has others to look after, unless
    /// it cannot let anybody in.
    fn part(&mut self, reason: &str) {
        let was_up = matches!(self.stage, HandshakeStage::Up { .. });
        self.shared.set(None);
        self.shared.trouble.set(match &mut self.role {
            Role::Client(peer) => {
                // It may be elsewhere by now.
                peer.doubt();
                format!("not connected to {}: {reason}", peer.address())
            }
            Role::Server(_) => format!("no client is connected: {reason}"),
        });
        let is_to_wait = matches!(self.role, Role::Client(_)) || !was_up;
        let pause = if is_to_wait { self.pause } else { Nanos::ZERO };
        self.stage = HandshakeStage::Apart { until: clock::now::<Monotonic>() + pause };
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        if let HandshakeStage::Up { link, .. } = &self.stage {
            link.lose();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_host_with_many_guests_makes_room_for_others() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut door = Door::new(Arc::new(listener), None);
        let guest = |last: u8, nanos: u64| Guest {
            stream: stream.try_clone().unwrap(),
            source: ip(last),
            until: Instant::from_nanos(nanos),
            received: 0,
        };
        // One guest of the first host, many of the second, two of the third.
        door.guests.push(guest(1, 0));
        door.guests.push(guest(3, 1));
        for number in 2..MOST_GUESTS as u64 - 1 {
            door.guests.push(guest(2, number));
        }
        door.guests.push(guest(3, 1_000));
        assert_eq!(door.guests.len(), MOST_GUESTS);
        for gone in 2..12 {
            door.make_room();
            assert_eq!((door.guests.len(), door.hung_up), (MOST_GUESTS - 1, gone - 1));
            let first_of_many = door.guests.iter().find(|guest| guest.source == ip(2));
            let until = first_of_many.unwrap().until.as_nanos();
            assert_eq!(until, gone + 1, "the oldest of them goes");
            door.guests.push(guest(2, 2_000 + gone));
        }
        assert_eq!(door.guests.iter().filter(|guest| guest.source != ip(2)).count(), 3);
    }

    fn ip(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }
}

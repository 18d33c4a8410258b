//! What the ports over UDP have in common.
//!
//! ```text
//!  socket -- recvmmsg --> Inbox -- a datagram at a time --> Format::read --> frames
//!  frames --> Format::write, or what puts several together --> Outlet -- sendto --> socket
//! ```
//!
//! - A batch of datagrams takes one system call; frames are decoded straight from where the kernel
//!   put them.
//! - What is no datagram of the format is counted and passed over, and so is what comes from others
//!   than the peer. That nobody listens at the other end is no error: somebody may, later. The sockets are
//!   not connected, so that the kernel does not report it either.
//! - What was transmitted comes back if it was sent to all or to a group. It is recognised by where it
//!   comes from: frames leave by a socket with a port that no other socket of this machine has.
//! - Each second, the half that receives looks whether both can work in the network as it is, see
//!   [`Reach`].

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use candor_linux::clock;
use candor_linux::poll::{self, Interest};
use candor_linux::udp::{self, Datagram, Destination, Inbox};
use candor_linux::{Errno, scoped, state};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::{Frame, Kind};

use super::drops::Drops;
use super::reach::{self, Reach};
use crate::kernel;
use crate::names::{self, Peer};
use crate::wait::{self, Turn, Wait};
use candor_port::{
    Address, Capabilities, Error, Message, Origin, Progress, Received, Receiver, ReceiverCounters,
    Sent, Stamp, Transmitter, TransmitterCounters, Until, Waker, Wanted,
};

/// A socket that receives. It may go from one port to another.
pub(super) struct Bound {
    pub(super) socket: Arc<UdpSocket>,
    drops: Drops,
}

impl Bound {
    pub(super) fn new(socket: UdpSocket) -> Arc<Self> {
        Arc::new(Self { socket: Arc::new(socket), drops: Drops::default() })
    }
}

/// Whether a socket has this address. One at any port (0) is always a new one.
pub(super) fn is_at(address: SocketAddr) -> impl Fn(&Bound) -> bool {
    move |bound| bound.socket.local_addr().is_ok_and(|own| own == address)
}

/// The option that all of them have.
pub(super) const BUFFER: (&str, &str) =
    ("buffer", "the receive buffer in bytes; default: 4194304 if the limit permits it");
/// The option of those whose datagrams say when a frame was received.
pub(super) const STAMPS: (&str, &str) = (
    "stamps",
    "kernel: stamp frames when they arrive here (default); sender: use the sender's time stamps, \
     by its clock",
);

const DEFAULT_BUFFER: u32 = 4_194_304;
/// No further datagram is begun in a call once so many frames were handed over.
const ENOUGH: usize = 256;

// ---- Names --------------------------------------------------------------------------------------

/// `place` cannot be used as `host:port`.
fn no_place(name: &str, reason: String) -> Error {
    Error::new(name, reason)
        .with_remedy("write host:port, 192.0.2.1:port, [2001:db8::1]:port or [fe80::1%eth0]:port")
}

/// Whether no port stands behind the host.
fn is_bare(place: &str) -> bool {
    place.ends_with(']') || !place.contains(':')
}

/// The address of `host:port` if the host is an address and not a name; the port may be left out.
/// Refuses what no machine understands.
pub(super) fn literal(
    name: &str,
    place: &str,
    default_port: u16,
) -> Result<Option<SocketAddr>, Error> {
    if !is_bare(place) && place.rsplit_once(':').is_none_or(|(host, _)| is_unbracketed(host)) {
        let reason = format!("the port of `{place}` cannot be separated from the address");
        return Err(no_place(name, reason));
    }
    let whole = whole(place, default_port);
    if let Ok(address) = whole.parse() {
        return Ok(Some(address));
    }
    // Which interface that is may change.
    if scoped(&whole).is_some() {
        return Ok(None);
    }
    let is_host = |host: &str| {
        !host.is_empty() && !host.starts_with('[') && !host.contains(char::is_whitespace)
    };
    let is_possible = whole
        .rsplit_once(':')
        .is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok());
    match is_possible {
        true => Ok(None),
        false => Err(no_place(name, format!("`{place}` is not a valid address"))),
    }
}

/// The address of `host:port`; the port may be left out.
pub(super) fn resolve(name: &str, place: &str, default_port: u16) -> Result<SocketAddr, Error> {
    if let Some(address) = literal(name, place, default_port)? {
        return Ok(address);
    }
    names::resolve(&whole(place, default_port)).map_err(|error| {
        // A name server may answer later.
        Error::new(name, format!("`{place}` cannot be resolved: {error}"))
            .with_remedy(
                "check the name and the name server, or write an address such as 192.0.2.1",
            )
            .passing()
    })
}

/// `host:port`; the port may be left out.
fn whole(place: &str, default_port: u16) -> String {
    if is_bare(place) { format!("{place}:{default_port}") } else { place.to_owned() }
}

/// Those of the hosts of a port that have to be looked up, as `host:port`.
pub(super) fn names<'a>(
    places: impl IntoIterator<Item = Option<&'a str>>,
    default_port: u16,
) -> Vec<String> {
    let is_name = |place: &&str| matches!(literal("", place, default_port), Ok(None));
    let names = places.into_iter().flatten().filter(is_name);
    names.map(|place| whole(place, default_port)).collect()
}

/// The other end of a tunnel, whose name is looked up again while it works.
pub(super) fn peer(name: &str, place: &str, default_port: u16) -> Result<Peer, Error> {
    let address = resolve(name, place, default_port)?;
    let named = names([Some(place)], default_port).pop();
    Ok(Peer::new(address, named))
}

/// Whether this is an address of IPv6 without the brackets that it needs in front of a port.
fn is_unbracketed(host: &str) -> bool {
    host.contains(':') && !host.ends_with(']')
}

/// Whether frames shall have the sender's stamps.
pub(super) fn has_sender_stamps(address: &Address) -> Result<bool, Error> {
    match address.option("stamps") {
        None | Some("kernel") => Ok(false),
        Some("sender") => Ok(true),
        Some(other) => Err(Error::new(address.to_string(), format!("unknown stamps `{other}`"))
            .with_remedy("use stamps=kernel or stamps=sender")),
    }
}

/// Permits a socket to send to all of a network.
pub(super) fn allow_broadcast(name: &str, socket: &UdpSocket) -> Result<(), Error> {
    let allowed = socket.set_broadcast(true);
    allowed.map_err(|error| Error::new(name, format!("cannot broadcast: {error}")))
}

/// The bytes that may wait to be received.
pub(super) fn receive_buffer(address: &Address) -> Result<u32, Error> {
    Ok(address.parsed("buffer", "1048576")?.unwrap_or(DEFAULT_BUFFER))
}

/// What ports over UDP can do, if they carry CAN FD and nothing that they transmit comes back.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    fd: true,
    remote: true,
    error_reports: false,
    own_frames: false,
    stamps: true,
    hardware_stamps: false,
    ordered: false,
    reliable: false,
    message: Message::Datagram,
};

// ---- Whose frames -------------------------------------------------------------------------------

/// Tells what this port transmitted itself.
pub(super) struct Own {
    /// The port that frames leave by; `None` if they do not come back.
    port: Option<u16>,
    /// An address that something came from at this port, and whether it is one of this machine.
    known: Option<(IpAddr, bool)>,
}

impl Own {
    /// What leaves by this socket comes back.
    pub(super) fn new(socket: Option<&UdpSocket>) -> Self {
        let port = socket.and_then(|socket| socket.local_addr().ok()).map(|own| own.port());
        Self { port, known: None }
    }

    fn origin(&mut self, source: SocketAddr) -> Origin {
        self.origin_by(source, |source| udp::is_local(source).ok())
    }

    /// `is_local` answers `None` if the kernel does not say. Then it is taken for one of this port, whose
    /// number it has: the next one asks again, and what came from here never goes around in a circle.
    fn origin_by(
        &mut self,
        source: SocketAddr,
        is_local: impl FnOnce(SocketAddr) -> Option<bool>,
    ) -> Origin {
        if self.port != Some(source.port()) {
            return Origin::Bus;
        }
        // Another machine may use the same port.
        let is_ours = match self.known {
            Some((ip, is_ours)) if ip == source.ip() => Some(is_ours),
            _ => is_local(source),
        };
        if let Some(is_ours) = is_ours {
            self.known = Some((source.ip(), is_ours));
        }
        if is_ours == Some(false) { Origin::Bus } else { Origin::Own }
    }
}

// ---- Receiving ----------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatagramContents {
    /// All of its frames were handed over.
    Good,
    /// It is none of the format; so many frames before the fault can be read, and are refused with it.
    Malformed(u32),
    /// It is from somebody else than the peer.
    Foreign,
    /// It is for another port, or says nothing.
    Nothing,
}

/// How frames are in a datagram.
pub(super) trait Reads: Send {
    /// Hands over the frames of a datagram, each with the sender's stamp if it has one, or none at
    /// all. `overflow` is how many datagrams the kernel dropped before this one.
    fn read(
        &mut self,
        datagram: &Datagram<'_>,
        overflow: u32,
        counters: &ReceiverCounters,
        take: &mut dyn FnMut(&Frame, Option<Instant<Realtime>>),
    ) -> DatagramContents;
}

/// The half that receives.
pub(super) struct Inlet<R> {
    name: Box<str>,
    bound: Arc<Bound>,
    reads: R,
    own: Own,
    wanted: Wanted,
    inbox: Inbox,
    /// Which datagram of the inbox is next, and how many there are.
    next: usize,
    filled: usize,
    /// Datagrams that the kernel dropped since the last one that was read.
    dropped_before_next: u32,
    wait: Wait,
    /// Of this half, and of the one that transmits.
    reaches: Vec<Arc<Reach>>,
    next_look: Instant<Monotonic>,
    counters: Arc<ReceiverCounters>,
}

impl<R: Reads> Inlet<R> {
    /// Of the port of this name, whose socket it sets up.
    pub(super) fn open(
        address: &Address,
        bound: Arc<Bound>,
        reads: R,
        own: Own,
        wanted: Wanted,
    ) -> Result<Self, Error> {
        let name = address.to_string();
        let fail = |error| kernel::failure(&*name, &error);
        let socket = &bound.socket;
        udp::set_receive_buffer(socket, receive_buffer(address)?).map_err(fail)?;
        udp::count_overflow(socket).map_err(fail)?;
        state::set_stamps(&**socket, wanted.stamps).map_err(fail)?;
        state::set_receive_timeout(&**socket, Some(reach::EVERY)).map_err(fail)?;
        let counters = Arc::<ReceiverCounters>::default();
        let at = socket.local_addr();
        let mend = move || at.as_ref().map_or(Ok(()), |at| reach::is_here(*at));
        Ok(Self {
            reaches: vec![Reach::new(counters.trouble.clone(), mend)],
            next_look: clock::now::<Monotonic>() + reach::EVERY,
            dropped_before_next: 0,
            bound,
            reads,
            own,
            wanted,
            inbox: Inbox::new().map_err(fail)?,
            next: 0,
            filled: 0,
            wait: Wait::new(&name, wanted)?,
            counters,
            name: name.into(),
        })
    }

    /// The same with something else to be done for the network.
    pub(super) fn with_mend(
        mut self,
        mend: impl FnMut() -> Result<(), String> + Send + 'static,
    ) -> Self {
        self.reaches = vec![Reach::new(self.counters.trouble.clone(), mend)];
        self
    }

    /// Looks after the half that transmits as well.
    pub(super) fn beside(mut self, outlet: Option<&DatagramSender>) -> Self {
        self.reaches.extend(outlet.map(|outlet| Arc::clone(&outlet.reach)));
        self
    }

    fn look(&mut self) {
        let now = clock::now::<Monotonic>();
        if now >= self.next_look {
            self.next_look = now + reach::EVERY;
            for reach in &self.reaches {
                reach.look();
            }
        }
    }

    /// The kernel has dropped so many datagrams.
    fn count_dropped(&mut self, dropped: u32) {
        let more = self.bound.drops.more(dropped);
        self.counters.overflow.add(more);
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.dropped_before_next = self.dropped_before_next.saturating_add(more);
    }

    /// What was dropped last no datagram tells yet.
    fn ask_for_overflow(&mut self) {
        if let Ok(memory) = state::memory(&*self.bound.socket) {
            self.count_dropped(memory.dropped);
        }
    }
}

impl<R> Drop for Inlet<R> {
    fn drop(&mut self) {
        // Nobody may ask after this one.
        if let Ok(memory) = state::memory(&*self.bound.socket) {
            self.counters.overflow.add(self.bound.drops.more(memory.dropped));
        }
    }
}

impl<R: Reads> Receiver for Inlet<R> {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        if self.next >= self.filled {
            self.next = 0;
            self.filled = 0;
            let until = match self.wait.is_in_call(until) {
                // That call ends by itself.
                true => until,
                false => wait::earlier(until, self.next_look),
            };
            let read = match self.wait.turn(&*self.bound.socket, until) {
                Ok(Turn::Read { can_wait }) => self.inbox.receive(&self.bound.socket, can_wait),
                Ok(Turn::Over) => Ok(0),
                Err(error) => Err(error),
            };
            self.filled = read.map_err(|error| kernel::failure(&*self.name, &error))?;
            self.look();
            if self.filled == 0 {
                self.ask_for_overflow();
                return Ok(Progress::Nothing);
            }
        }
        let mut count = 0;
        while self.next < self.filled && count < ENOUGH {
            let index = self.next;
            self.next += 1;
            let Some(datagram) = self.inbox.datagram(index) else { break };
            if let Some(dropped) = datagram.dropped {
                let more = self.bound.drops.more(dropped);
                self.counters.overflow.add(more);
                let more = u32::try_from(more).unwrap_or(u32::MAX);
                self.dropped_before_next = self.dropped_before_next.saturating_add(more);
            }
            let origin = match datagram.source {
                Some(source) => self.own.origin(source),
                None => Origin::Bus,
            };
            if origin == Origin::Own && !self.wanted.own_frames {
                continue;
            }
            let (wanted, counters) = (self.wanted, &*self.counters);
            let mut error_reports = 0;
            let before = count;
            let overflow = std::mem::take(&mut self.dropped_before_next);
            let contents = match datagram.is_cut {
                true => DatagramContents::Malformed(0),
                false => self.reads.read(&datagram, overflow, counters, &mut |frame, sender| {
                    let is_report = frame.kind() == Kind::Error;
                    if is_report && !wanted.error_reports {
                        return;
                    }
                    error_reports += u64::from(is_report);
                    count += 1;
                    let system = wanted.stamps.then(|| sender.or(datagram.stamp)).flatten();
                    let stamp = Stamp { system, hardware: None };
                    take(&Received { frame: *frame, stamp, origin });
                }),
            };
            counters.frames.add((count - before) as u64);
            counters.error_reports.add(error_reports);
            match contents {
                DatagramContents::Good => counters.datagrams.add(1),
                DatagramContents::Malformed(frames) => {
                    counters.malformed.add(1);
                    counters.malformed_frames.add(u64::from(frames));
                }
                DatagramContents::Foreign => counters.foreign.add(1),
                DatagramContents::Nothing => {}
            }
        }
        Ok(if count == 0 { Progress::Nothing } else { Progress::Frames(count) })
    }

    fn has_more(&self) -> bool {
        self.next < self.filled
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bound.socket.as_fd())
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

// ---- Transmitting -------------------------------------------------------------------------------

/// What datagrams leave by.
pub(super) struct DatagramSender {
    socket: Arc<UdpSocket>,
    to: Destination,
    peer: Peer,
    /// Where that was last.
    address: SocketAddr,
    reach: Arc<Reach>,
    counters: Arc<TransmitterCounters>,
}

impl DatagramSender {
    pub(super) fn new(socket: Arc<UdpSocket>, peer: Peer) -> Self {
        let mut to = peer.clone();
        let at = socket.local_addr().unwrap_or_else(|_| udp::any(to.address().ip()));
        Self::with_mend(socket, peer, move || reach::is_way(at, to.address()))
    }

    /// The same with something else to be done for the network.
    pub(super) fn with_mend(
        socket: Arc<UdpSocket>,
        mut peer: Peer,
        mend: impl FnMut() -> Result<(), String> + Send + 'static,
    ) -> Self {
        let counters = Arc::<TransmitterCounters>::default();
        let reach = Reach::new(counters.trouble.clone(), mend);
        let address = peer.address();
        Self { socket, to: Destination::new(address), peer, address, reach, counters }
    }

    /// Sends a datagram, or says why not.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Sent {
        self.follow();
        self.attempt(1, || udp::send(&self.socket, bytes, &self.to))
    }

    /// Sends to where the peer is now.
    #[inline]
    fn follow(&mut self) {
        let address = self.peer.address();
        if address != self.address {
            (self.address, self.to) = (address, Destination::new(address));
        }
    }

    /// Sends several datagrams of this length, all or none; `None` if that cannot be done here.
    fn send_segments(&mut self, bytes: &[u8], len: u16) -> Option<Sent> {
        self.follow();
        let mut is_impossible = false;
        let count = bytes.len() as u64 / u64::from(len.max(1));
        let sent = self.attempt(count, || {
            let outcome = udp::send_segments(&self.socket, bytes, len, &self.to);
            let errno = outcome.as_ref().err().and_then(candor_linux::Error::errno);
            let name = errno.and_then(Errno::name);
            is_impossible |= name.is_some_and(|name| IMPOSSIBLE.contains(&name));
            outcome
        });
        (!is_impossible).then_some(sent)
    }

    fn attempt(
        &self,
        datagrams: u64,
        mut send: impl FnMut() -> Result<candor_linux::Sent, candor_linux::Error>,
    ) -> Sent {
        let mut outcome = send();
        if outcome.as_ref().is_err_and(|error| !is_too_large(error)) && self.reach.retry() {
            outcome = send();
        }
        match outcome {
            Ok(candor_linux::Sent::Taken) => {
                self.reach.sent();
                self.counters.datagrams.add(datagrams);
                Sent::Taken
            }
            Ok(_) => {
                self.counters.full.add(1);
                Sent::Full
            }
            Err(error) if is_too_large(&error) => Sent::Unsupported,
            Err(error) => {
                self.reach.refused(self.address, &error);
                Sent::Down
            }
        }
    }

    /// Waits until there may be room.
    pub(super) fn wait(&self, most: Nanos) {
        // What goes wrong here is reported by the next datagram.
        let _ = poll::wait_or_signal(&*self.socket, Interest::Write, Some(most));
    }

    /// Whether everything has left.
    pub(super) fn is_drained(&self) -> bool {
        state::memory(&*self.socket).is_ok_and(|memory| memory.unsent == 0)
    }

    pub(super) fn counters(&self) -> &Arc<TransmitterCounters> {
        &self.counters
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }
}

fn is_too_large(error: &candor_linux::Error) -> bool {
    error.errno().and_then(Errno::name) == Some("EMSGSIZE")
}

/// The longest datagram with one frame.
pub(super) const MOST_BYTES: usize = 256;

/// How one frame is in a datagram.
pub(super) trait Writes: Send {
    /// Writes a datagram and returns its size; `None` if there is none for this frame.
    fn write(&mut self, frame: &Frame, out: &mut [u8; MOST_BYTES]) -> Option<usize>;
}

/// The half that transmits a datagram per frame.
///
/// Datagrams of one length that follow each other are kept until there is nothing more to transmit for now, and leave with one
/// call. While the network does not take them, each frame is tried by itself, so that who transmits knows what becomes of it.
pub(super) struct Single<W> {
    outlet: DatagramSender,
    writes: W,
    /// Datagrams that are kept, one behind the other.
    kept: Vec<u8>,
    len: usize,
    patience: FlushPolicy,
    /// What was kept last could not leave.
    is_down: bool,
    /// The kernel sends several with one call.
    has_segments: bool,
}

impl<W: Writes> Single<W> {
    pub(super) fn new(outlet: DatagramSender, writes: W) -> Self {
        Self {
            outlet,
            writes,
            kept: Vec::with_capacity(udp::MAX_SEGMENTS * MOST_BYTES),
            len: 0,
            patience: FlushPolicy::default(),
            is_down: false,
            has_segments: true,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Sent {
        let sent = self.outlet.send(bytes);
        self.is_down = sent == Sent::Down;
        if sent == Sent::Taken {
            self.outlet.counters.frames.add(1);
        }
        sent
    }

    /// Sends what is kept. What there is no way for is lost; what there is no room for stays.
    fn send_kept(&mut self) -> Sent {
        let count = self.kept.len() / self.len.max(1);
        let together = match (count, u16::try_from(self.len)) {
            (0, _) => return Sent::Taken,
            (2.., Ok(len)) if self.has_segments => self.outlet.send_segments(&self.kept, len),
            _ => None,
        };
        let sent = match together {
            Some(sent) => sent,
            None if count == 1 => self.outlet.send(&self.kept),
            None => {
                self.has_segments = false;
                return self.send_one_by_one();
            }
        };
        if sent == Sent::Full {
            return Sent::Full;
        }
        self.settle(count as u64, sent);
        self.kept.clear();
        self.patience.end();
        sent
    }

    /// The same where the kernel cannot send several with one call.
    fn send_one_by_one(&mut self) -> Sent {
        let mut sent = Sent::Taken;
        let mut done = 0;
        for bytes in self.kept.chunks(self.len.max(1)) {
            sent = self.outlet.send(bytes);
            if sent == Sent::Full {
                break;
            }
            done += bytes.len();
            self.outlet.counters.frames.add(1);
            if sent != Sent::Taken {
                self.outlet.counters.lost.add(1);
            }
        }
        self.is_down = sent == Sent::Down;
        self.kept.drain(..done);
        if self.kept.is_empty() {
            self.patience.end();
        }
        sent
    }

    /// Counts what became of frames that were kept. Taken frames count, whether they are lost afterwards or not.
    fn settle(&mut self, count: u64, sent: Sent) {
        self.is_down = sent == Sent::Down;
        self.outlet.counters.frames.add(count);
        if sent != Sent::Taken {
            self.outlet.counters.lost.add(count);
        }
    }
}

/// What the kernel answers where it cannot send several datagrams with one call: not known (before 4.18), a segment that
/// does not fit into a packet, a way that does not permit it.
const IMPOSSIBLE: [&str; 3] = ["EINVAL", "EIO", "ENOPROTOOPT"];

impl<W: Writes> Transmitter for Single<W> {
    fn transmit(&mut self, frame: &Frame, _echo: bool) -> Sent {
        // An error report tells of a bus, and others may take it for a frame.
        if frame.kind() == Kind::Error {
            return Sent::Unsupported;
        }
        let mut out = [0; MOST_BYTES];
        let len = self.writes.write(frame, &mut out);
        let Some(bytes) = len.and_then(|len| out.get(..len)) else { return Sent::Unsupported };
        let is_full = self.kept.len() >= self.len * udp::MAX_SEGMENTS;
        if !self.kept.is_empty() && (is_full || bytes.len() != self.len) {
            match self.send_kept() {
                Sent::Full => return Sent::Full,
                Sent::Down => return Sent::Down,
                Sent::Taken | Sent::Unsupported => {}
            }
        }
        if self.is_down {
            return self.send(bytes);
        }
        self.len = bytes.len();
        self.kept.extend_from_slice(bytes);
        self.patience.begin();
        Sent::Taken
    }

    fn flush_due(&self) -> Option<Instant<Monotonic>> {
        self.patience.due()
    }

    fn flush(&mut self) -> Sent {
        self.send_kept()
    }

    fn wait(&mut self, most: Nanos) {
        self.outlet.wait(most);
    }

    fn is_drained(&mut self) -> bool {
        self.kept.is_empty() && self.outlet.is_drained()
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(self.outlet.counters())
    }
}

impl<W> Drop for Single<W> {
    fn drop(&mut self) {
        if self.len > 0 {
            for bytes in self.kept.chunks(self.len) {
                let _ = self.outlet.send(bytes);
            }
        }
    }
}

/// Until when frames that are kept back must be sent.
///
/// A port that sends frames together and was not told for how long it may keep them back says that
/// they are due since ever: who transmits calls `flush` when there is nothing more to transmit for
/// now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlushPolicy {
    keep: Nanos,
    due: Option<Instant<Monotonic>>,
}

impl FlushPolicy {
    pub(super) const fn new(keep: Nanos) -> Self {
        Self { keep, due: None }
    }

    /// A frame is kept back.
    pub(super) fn begin(&mut self) {
        if self.due.is_none() {
            self.due = Some(match self.keep {
                Nanos::ZERO => Instant::ZERO,
                keep => next_beat(clock::now::<Monotonic>(), keep),
            });
        }
    }

    /// None is.
    pub(super) const fn end(&mut self) {
        self.due = None;
    }

    pub(super) const fn due(&self) -> Option<Instant<Monotonic>> {
        self.due
    }
}

/// The next multiple of `period`. Frames leave by a beat, not so long after the first of them: none
/// waits longer than the period, and half as long on average.
const fn next_beat(now: Instant<Monotonic>, period: Nanos) -> Instant<Monotonic> {
    let beat = now.as_nanos() / period.as_nanos() + 1;
    Instant::from_nanos(beat.saturating_mul(period.as_nanos()))
}

/// What the tests of the ports over UDP and TCP have in common.
#[cfg(test)]
pub(super) mod testing {
    use std::net::Ipv4Addr;

    use candor_port::{Port, Progress, Received, Receiver, Transmitter, Until, Wanted};

    /// One of the addresses of this machine that only this process uses.
    pub(crate) fn loopback(number: u8) -> Ipv4Addr {
        let [.., high, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, high, low, number)
    }

    pub(crate) fn open(name: &str, wanted: Wanted) -> Port {
        crate::open(&name.parse().unwrap(), wanted).unwrap()
    }

    pub(crate) fn refusal(name: &str, wanted: Wanted) -> String {
        crate::open(&name.parse().unwrap(), wanted).err().unwrap().to_string()
    }

    pub(crate) fn receiver(name: &str) -> Box<dyn Receiver> {
        open(name, Wanted::RECEIVER).receiver.unwrap()
    }

    pub(crate) fn transmitter(name: &str) -> Box<dyn Transmitter> {
        open(name, Wanted::TRANSMITTER).transmitter.unwrap()
    }

    /// What comes, until there are `count`; that nothing came does not matter.
    pub(crate) fn receive(receiver: &mut dyn Receiver, count: usize) -> Vec<Received> {
        let mut frames = Vec::new();
        while frames.len() < count {
            let before = frames.len();
            let progress =
                receiver.receive(Until::Woken, &mut |received| frames.push(*received)).unwrap();
            let expected = match frames.len() - before {
                0 => Progress::Nothing,
                count => Progress::Frames(count),
            };
            assert_eq!(progress, expected);
        }
        frames
    }

    pub(crate) fn texts(frames: &[Received]) -> Vec<String> {
        frames.iter().map(|received| received.frame.to_string()).collect()
    }
}

#[cfg(test)]
mod tests;

//! [`Port`]: what every driver gives.

use std::fmt;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candor_time::{Hardware, Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::Frame;

use crate::{Control, Endpoint, Error, Filter};

/// What a caller needs of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// To receive frames.
    pub receiver: bool,
    /// To transmit frames.
    pub transmitter: bool,
    /// To receive error reports of the controller as well.
    pub error_reports: bool,
    /// To receive what the port itself transmitted, once it has been transmitted.
    pub own_frames: bool,
    /// To know when each frame arrived, by the kernel and, where it can, by the controller.
    pub stamps: bool,
    /// With `stamps`: those of one frame in 16 suffice, where each of them takes time.
    pub sparse_stamps: bool,
    /// To end the waiting of the receiver from another thread ([`Receiver::waker`]). Each wait then takes
    /// one more system call.
    pub waker: bool,
    /// To receive of a recording only what it tells of so long a time after its first frame, by its stamps; `None`: all.
    pub recorded: Option<Nanos>,
}

impl Wanted {
    /// Both halves, and nothing besides.
    pub const BOTH: Self = Self {
        receiver: true,
        transmitter: true,
        error_reports: false,
        own_frames: false,
        stamps: false,
        sparse_stamps: false,
        waker: false,
        recorded: None,
    };
    /// The receiver with time stamps.
    pub const RECEIVER: Self = Self { transmitter: false, stamps: true, ..Self::BOTH };
    /// The transmitter.
    pub const TRANSMITTER: Self = Self { receiver: false, ..Self::BOTH };
}

/// What a port can do, whatever was wanted of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It carries CAN FD frames.
    pub fd: bool,
    /// It carries remote frames.
    pub remote: bool,
    /// It carries error reports.
    pub error_reports: bool,
    /// It can tell frames that it transmitted itself.
    pub own_frames: bool,
    /// Its stamps are those of the kernel or of the sender; else frames have none.
    pub stamps: bool,
    /// Its frames may have stamps of the controller.
    pub hardware_stamps: bool,
    /// Frames arrive in the order in which they were transmitted, or not at all.
    pub ordered: bool,
    /// Nothing is lost between two ports that keep up.
    pub reliable: bool,
    /// What a port receives at a time.
    pub message: Message,
}

/// What a port receives at a time, and so what is dropped or malformed as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Message {
    /// A frame.
    #[default]
    Frame,
    /// A datagram, with frames in it.
    Datagram,
}

/// An open port.
pub struct Port {
    /// What it can do.
    pub capabilities: Capabilities,
    /// The half that receives, if it was wanted and there is one.
    pub receiver: Option<Box<dyn Receiver>>,
    /// The half that transmits, likewise.
    pub transmitter: Option<Box<dyn Transmitter>>,
    /// What a port that replaces this one could not have beside it.
    pub endpoint: Option<Endpoint>,
    /// What tells of its controller, if anything does.
    pub control: Option<Arc<dyn Control>>,
}

impl Port {
    /// One that can do this, still without halves.
    #[must_use]
    pub fn new(capabilities: Capabilities) -> Self {
        Self { capabilities, receiver: None, transmitter: None, endpoint: None, control: None }
    }
}

/// Where a received frame comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The bus.
    Bus,
    /// Another program of this machine, which transmits it on the same interface.
    Machine,
    /// This port.
    Own,
}

impl Origin {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bus, Self::Machine, Self::Own];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bus => "bus",
            Self::Machine => "machine",
            Self::Own => "own",
        }
    }
}

/// When a frame arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// When the kernel had it; what a recording or a sender says, for ports that pass that on.
    pub system: Option<Instant<Realtime>>,
    /// When the controller had it.
    pub hardware: Option<Instant<Hardware>>,
}

/// A frame that a port received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Received {
    /// The frame.
    pub frame: Frame,
    /// When it arrived, if that was wanted and is known.
    pub stamp: Stamp,
    /// Where it comes from.
    pub origin: Origin,
}

/// How long a receiver waits if there is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It does not wait.
    Now,
    /// Until this instant, by the clock of the port.
    Instant(Instant<Monotonic>),
    /// Until a frame comes or its [`Waker`] is used.
    Woken,
}

/// What became of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many frames, one at least, were handed over.
    Frames(usize),
    /// None: the time is over, a waker was used, a signal came, or what came was no frame. The caller
    /// looks whether it shall end.
    Nothing,
    /// None, and none will come: a recording is at its end. A connection is made again.
    Ended,
}

/// Ends the waiting of a receiver, from any thread. All clones are of the same receiver.
///
/// It is not lost if the receiver does not wait just now: then its next wait ends at once. Waking twice
/// before a wait ends one wait.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that does this.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Ends the waiting.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// The half of a port that receives.
pub trait Receiver: Send {
    /// Waits for a frame and hands over what has arrived, at most a few hundred at once. Of a waiting
    /// thread, a signal whose handler is called without `SA_RESTART` may end the waiting too.
    ///
    /// What is no legal frame is counted and passed over: a port does not end for what others send.
    ///
    /// # Errors
    /// The port cannot go on: the interface went down or away. It may work again later.
    fn receive(&mut self, until: Until, take: &mut dyn FnMut(&Received))
    -> Result<Progress, Error>;

    /// Hands over only frames that one of these filters takes; `None`: all frames, which is how it
    /// begins. An empty list takes none. False if the port cannot do that, or not with so many: then it
    /// hands over all frames, and the caller asks [`Filter::takes`]. Frames that have arrived already may
    /// come in any case.
    ///
    /// # Errors
    /// The port cannot go on.
    fn set_filters(&mut self, filters: Option<&[Filter]>) -> Result<bool, Error> {
        Ok(filters.is_none())
    }

    /// Whether it has frames that the kernel does not have any more: the next call hands them over
    /// without waiting.
    fn has_more(&self) -> bool {
        false
    }

    /// What ends its waiting from another thread; `None` unless [`Wanted::waker`] was set.
    fn waker(&self) -> Option<Waker>;

    /// What an event loop of the caller waits on, together with others: when it can be read,
    /// [`Receiver::receive`] with [`Until::Now`] may have frames. First [`Receiver::has_more`] is to be
    /// asked. `None` if there is no descriptor that tells: then a thread waits in `receive`.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// What it counts; stays valid when the receiver is in another thread.
    fn counters(&self) -> Arc<ReceiverCounters>;
}

/// What became of a frame that a transmitter was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way. Not: it was transmitted.
    Taken,
    /// There is no room now: to be tried again after [`Transmitter::wait`].
    Full,
    /// This port carries no such frame, now or ever.
    Unsupported,
    /// The interface is down or away.
    Down,
}

/// The half of a port that transmits.
pub trait Transmitter: Send {
    /// Takes a frame, or says why not. Never waits. With `echo`, other programs of this machine see
    /// it too, where that makes a difference.
    fn transmit(&mut self, frame: &Frame, echo: bool) -> Sent;

    /// Until when [`Transmitter::flush`] must be called, if frames are kept back to travel
    /// together.
    fn flush_due(&self) -> Option<Instant<Monotonic>> {
        None
    }

    /// Sends what was kept back.
    fn flush(&mut self) -> Sent {
        Sent::Taken
    }

    /// Waits until there may be room, at most so long; a signal ends it.
    fn wait(&mut self, most: Nanos);

    /// Whether everything that was taken has left, as far as the port can tell.
    fn is_drained(&mut self) -> bool {
        true
    }

    /// Whether nothing leaves any more until somebody helps, as with a full disk, whose reason is in
    /// [`TransmitterCounters::trouble`]. An interface that is down is expected to come back.
    fn has_failed(&self) -> bool {
        false
    }

    /// What it counts; stays valid when the transmitter is in another thread.
    fn counters(&self) -> Arc<TransmitterCounters>;
}

/// A number that one thread counts and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it. Only the thread that owns the half of the port may do so.
    pub fn add(&self, more: u64) {
        // One writer: no need for an atomic addition.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Makes it this number.
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a port does not work at present. All clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    /// It does not work, for this reason.
    pub fn set(&self, reason: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
    }

    /// It works.
    pub fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether it does not work.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The reason, if it does not work.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a receiver counts. What a port does not know stays zero.
///
/// [`Capabilities::message`] says what `malformed` and `overflow` count: where frames travel together,
/// how many were in a datagram that never came is not known.
#[derive(Debug, Default)]
pub struct ReceiverCounters {
    /// Frames handed over, error reports included.
    pub frames: Count,
    /// Error reports of the controller among them.
    pub error_reports: Count,
    /// Datagrams whose frames were handed over.
    pub datagrams: Count,
    /// Messages that are not what they should be: cut, of another version, with impossible lengths.
    pub malformed: Count,
    /// Frames that were refused with malformed datagrams, as far as they could be read: those before
    /// the fault.
    pub malformed_frames: Count,
    /// Datagrams from others than the peer; connections of others than the peer.
    pub foreign: Count,
    /// Connected clients that said nothing and made way for another one. They are in `foreign`, too.
    pub displaced: Count,
    /// Messages that the kernel dropped because the receiver was too slow (`SO_RXQ_OVFL`).
    pub overflow: Count,
    /// Datagrams that never came by their sequence numbers, without those in `overflow`.
    pub missing: Count,
    /// Datagrams that came again or late by their sequence numbers.
    pub out_of_order: Count,
    /// Why nothing comes, if so.
    pub trouble: Trouble,
}

/// What a transmitter counts.
#[derive(Debug, Default)]
pub struct TransmitterCounters {
    /// Frames taken.
    pub frames: Count,
    /// How often there was no room (`ENOBUFS`, `EAGAIN`): each time a frame had to wait or was
    /// refused.
    pub full: Count,
    /// Frames that were taken and then lost: what was kept back, or sent and not acknowledged, when
    /// the peer went away.
    pub lost: Count,
    /// Datagrams or batches sent.
    pub datagrams: Count,
    /// Why nothing leaves, if so.
    pub trouble: Trouble,
}

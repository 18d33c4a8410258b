//! The half that transmits, and the sockets that it has to choose from.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use candor_linux as linux;
use candor_linux::can::{RawFrame, Socket};
use candor_linux::clock;
use candor_linux::packet::Sender;
use candor_linux::poll::{self, Interest};
use candor_linux::{Errno, quick, state};
use candor_time::{Monotonic, Nanos};
use candor_wire::can::socketcan::{self, IdOrder};
use candor_wire::can::{Frame, Kind};

use candor_port::{Sent, Transmitter, TransmitterCounters};

/// How long to wait when the queue of an interface is full, of which no event tells that there is
/// room again: about as long as a frame takes.
const FULL_QUEUE_WAIT: Nanos = Nanos::from_micros(100);

/// The sockets that frames leave by.
pub(crate) enum Outlets {
    /// One that other programs do not see frames of, and one that they do.
    Pair { quiet: Socket, echoed: Arc<Socket> },
    /// That of the receiver, which is to see them itself.
    Shared(Arc<Socket>),
    /// Past the queue of the interface, where that is possible: other programs do not see those.
    Direct { direct: Sender, echoed: Arc<Socket> },
}

impl Outlets {
    /// A pair on an interface; `echoed` is that of the receiver, if there is one.
    pub(crate) fn pair(
        interface: &str,
        send_buffer: Option<u32>,
        echoed: Option<Arc<Socket>>,
    ) -> Result<Self, linux::Error> {
        let quiet = Self::open(interface, send_buffer, false)?;
        let echoed = match echoed {
            Some(echoed) => echoed,
            None => Arc::new(Self::open(interface, send_buffer, true)?),
        };
        Ok(Self::Pair { quiet, echoed })
    }

    /// A way past the queue of an interface, and one through it.
    pub(crate) fn direct(interface: &str, send_buffer: Option<u32>) -> Result<Self, linux::Error> {
        let direct = Sender::open(interface, true)?;
        direct.set_blocking(false)?;
        let echoed = Arc::new(Self::open(interface, send_buffer, true)?);
        Ok(Self::Direct { direct, echoed })
    }

    fn open(interface: &str, send_buffer: Option<u32>, echo: bool) -> Result<Socket, linux::Error> {
        let socket = Socket::open_for_sending(interface)?;
        socket.accept_fd()?;
        socket.set_loopback(echo)?;
        if let Some(bytes) = send_buffer {
            socket.set_send_buffer(bytes)?;
        }
        Ok(socket)
    }

    /// Marks what others see.
    pub(crate) fn set_mark(&self, mark: u32) -> Result<(), linux::Error> {
        match self {
            Self::Pair { echoed, .. } | Self::Direct { echoed, .. } => echoed.set_mark(mark),
            Self::Shared(socket) => socket.set_mark(mark),
        }
    }

    #[inline]
    fn send(&self, frame: &Frame, echo: bool) -> Result<linux::Sent, linux::Error> {
        match socketcan::encode_classical(frame, IdOrder::NATIVE) {
            Some(bytes) => self.send_bytes(&bytes, echo),
            None => self.send_bytes(RawFrame::from(frame).as_bytes(), echo),
        }
    }

    #[inline]
    fn send_bytes(&self, bytes: &[u8], echo: bool) -> Result<linux::Sent, linux::Error> {
        match self {
            Self::Pair { quiet, .. } if !echo => quick::try_send(quiet, bytes),
            Self::Direct { direct, .. } if !echo => direct.send(bytes),
            Self::Pair { echoed, .. } | Self::Direct { echoed, .. } => {
                quick::try_send(&**echoed, bytes)
            }
            Self::Shared(socket) => quick::try_send(&**socket, bytes),
        }
    }

    /// The socket that such a frame leaves by.
    fn socket(&self, echo: bool) -> BorrowedFd<'_> {
        match self {
            Self::Pair { quiet, .. } if !echo => quiet.as_fd(),
            Self::Direct { direct, .. } if !echo => direct.as_fd(),
            Self::Pair { echoed, .. } | Self::Direct { echoed, .. } => echoed.as_fd(),
            Self::Shared(socket) => socket.as_fd(),
        }
    }
}

/// Why there was no room.
#[derive(Clone, Copy)]
enum Obstacle {
    /// The queue of the interface was full.
    Queue,
    /// The send buffer of a socket was, that with or without echo.
    Buffer { echo: bool },
}

/// The half that transmits.
pub(crate) struct Sockets {
    outlets: Outlets,
    obstacle: Obstacle,
    counters: Arc<TransmitterCounters>,
}

impl Sockets {
    pub(crate) fn new(outlets: Outlets) -> Self {
        Self { outlets, obstacle: Obstacle::Queue, counters: Arc::default() }
    }

    /// Tells why the kernel did not take a frame.
    #[cold]
    fn refused(
        &mut self,
        mut outcome: Result<linux::Sent, linux::Error>,
        frame: &Frame,
        echo: bool,
    ) -> Sent {
        let name = |error: &linux::Error| error.errno().and_then(Errno::name);
        if outcome.as_ref().is_err_and(|error| name(error) == Some("ENETDOWN")) {
            // A socket tells once that its interface went down, also when it is up again.
            outcome = self.outlets.send(frame, echo);
        }
        self.obstacle = match outcome {
            Ok(linux::Sent::Taken) => {
                self.counters.frames.add(1);
                return Sent::Taken;
            }
            Ok(linux::Sent::QueueFull) => Obstacle::Queue,
            Ok(linux::Sent::WouldBlock) => Obstacle::Buffer { echo },
            // A CAN FD frame on an interface that has none.
            Err(error) => match name(&error) {
                Some("EMSGSIZE" | "EINVAL") => return Sent::Unsupported,
                _ => return Sent::Down,
            },
        };
        self.counters.full.add(1);
        Sent::Full
    }
}

impl Transmitter for Sockets {
    fn transmit(&mut self, frame: &Frame, echo: bool) -> Sent {
        // An error report tells of a bus. Drivers would send it as a frame.
        if frame.kind() == Kind::Error {
            return Sent::Unsupported;
        }
        match self.outlets.send(frame, echo) {
            Ok(linux::Sent::Taken) => {
                self.counters.frames.add(1);
                Sent::Taken
            }
            outcome => self.refused(outcome, frame, echo),
        }
    }

    /// A full send buffer tells when half of it is free; for a full queue of the interface there is
    /// no event, so that is slept for as long as a frame takes.
    fn wait(&mut self, most: Nanos) {
        // Who waits again without having tried sleeps, so that it does not keep the processor from
        // those who make room. An error here is reported with the next frame.
        match std::mem::replace(&mut self.obstacle, Obstacle::Queue) {
            Obstacle::Buffer { echo } => {
                let _ =
                    poll::wait_or_signal(&self.outlets.socket(echo), Interest::Write, Some(most));
            }
            Obstacle::Queue => {
                let until = clock::now::<Monotonic>() + most.min(FULL_QUEUE_WAIT);
                let _ = clock::sleep_until_or_signal(until);
            }
        }
    }

    fn is_drained(&mut self) -> bool {
        [false, true].into_iter().all(|echo| {
            state::memory(&self.outlets.socket(echo)).is_ok_and(|memory| memory.unsent == 0)
        })
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.counters)
    }
}

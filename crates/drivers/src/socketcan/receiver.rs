//! The halves that receive: one for speed, one for knowledge.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use candor_linux as linux;
use candor_linux::can::{Inbox, Socket};
use candor_linux::{quick, state};
use candor_wire::can::Kind;
use candor_wire::can::socketcan::CANFD_MTU;

use super::{decode, failure, set_filters};
use crate::drops::Drops;
use crate::kernel;
use crate::wait::{Turn, Wait};
use candor_port::{
    Error, Filter, Origin, Progress, Received, Receiver, ReceiverCounters, Stamp, Until, Waker,
};

/// Frames that are received at once, where that is of use.
const BATCH: usize = 64;
/// What a frame costs of a receive buffer at most; the driver decides how much it is.
const MOST_BYTES_PER_FRAME: u32 = 2_048;

/// A receiver that learns of frames and of nothing else.
pub(super) struct OneByOne {
    name: Box<str>,
    interface: Box<str>,
    socket: Arc<Socket>,
    room: [u8; CANFD_MTU],
    counters: Arc<ReceiverCounters>,
    drops: Arc<Drops>,
    /// Frames until the kernel is asked how many it dropped.
    until_check: u32,
    check_every: u32,
    /// Frames until one has a stamp; 0 if none ever has.
    until_stamp: u32,
    wait: Wait,
}

/// Of so many frames one has a stamp, where that is enough.
const STAMP_EVERY: u32 = 16;

impl OneByOne {
    /// With `stamps` one frame in [`STAMP_EVERY`] has one.
    pub(super) fn new(
        name: &str,
        interface: &str,
        socket: Arc<Socket>,
        drops: Arc<Drops>,
        buffer: u32,
        stamps: bool,
        wait: Wait,
    ) -> Result<Self, linux::Error> {
        if stamps {
            // The kernel begins to stamp when it is asked for the first time.
            state::last_stamp(&*socket)?;
        }
        // When the kernel drops a frame, the buffer is full. It is asked more than once while a full
        // buffer is emptied, so that no drop stays unknown until the next flood.
        let check_every = (buffer / MOST_BYTES_PER_FRAME).clamp(1, 64);
        Ok(Self {
            name: name.into(),
            interface: interface.into(),
            drops,
            socket,
            room: [0; CANFD_MTU],
            counters: Arc::default(),
            until_check: check_every,
            check_every,
            until_stamp: if stamps { STAMP_EVERY } else { 0 },
            wait,
        })
    }

    /// The stamp of the frame that was received last.
    #[inline(never)]
    fn stamp(&mut self) -> Stamp {
        self.until_stamp = STAMP_EVERY;
        Stamp { system: state::last_stamp(&*self.socket).ok().flatten(), hardware: None }
    }

    #[inline(never)]
    fn count_overflow(&mut self) {
        self.until_check = self.check_every;
        count_dropped(&self.socket, &self.drops, &self.counters);
    }
}

impl Receiver for OneByOne {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        let read = match self.wait.turn(&*self.socket, until) {
            Ok(Turn::Read { can_wait }) => {
                quick::receive_once(&*self.socket, &mut self.room, can_wait)
            }
            Ok(Turn::Over) => Ok(None),
            Err(error) => Err(error),
        };
        let len = match read {
            Ok(Some(len)) => len,
            Ok(None) => {
                self.count_overflow();
                return Ok(Progress::Nothing);
            }
            Err(error) => return Err(gone(&self.name, &self.interface, &error)),
        };
        self.until_check -= 1;
        if self.until_check == 0 {
            self.count_overflow();
        }
        let Some(frame) = decode(self.room.get(..len).unwrap_or_default()) else {
            self.counters.malformed.add(1);
            return Ok(Progress::Nothing);
        };
        self.counters.frames.add(1);
        if frame.kind() == Kind::Error {
            self.counters.error_reports.add(1);
        }
        let stamp = match self.until_stamp {
            0 => Stamp::default(),
            1 => self.stamp(),
            _ => {
                self.until_stamp -= 1;
                Stamp::default()
            }
        };
        take(&Received { frame, stamp, origin: Origin::Bus });
        Ok(Progress::Frames(1))
    }

    fn set_filters(&mut self, filters: Option<&[Filter]>) -> Result<bool, Error> {
        set_filters(&self.socket, filters)
            .map_err(|error| gone(&self.name, &self.interface, &error))
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

/// The interface of an open port fails.
#[cold]
fn gone(name: &str, interface: &str, error: &linux::Error) -> Error {
    kernel::while_open(failure(name, interface, error))
}

/// Counts what a socket has dropped by now.
fn count_dropped(socket: &Socket, drops: &Drops, counters: &ReceiverCounters) {
    if let Ok(memory) = state::memory(socket) {
        counters.overflow.add(drops.more(memory.dropped));
    }
}

impl Drop for OneByOne {
    fn drop(&mut self) {
        // Nobody may ask after this one.
        count_dropped(&self.socket, &self.drops, &self.counters);
    }
}

impl Drop for BatchReceiver {
    fn drop(&mut self) {
        count_dropped(&self.socket, &self.drops, &self.counters);
    }
}

/// A receiver that learns everything that the kernel knows of a frame.
pub(super) struct BatchReceiver {
    name: Box<str>,
    interface: Box<str>,
    socket: Arc<Socket>,
    inbox: Inbox,
    counters: Arc<ReceiverCounters>,
    drops: Arc<Drops>,
    wait: Wait,
}

impl BatchReceiver {
    pub(super) fn open(
        name: &str,
        interface: &str,
        socket: Arc<Socket>,
        drops: Arc<Drops>,
        wait: Wait,
    ) -> Result<Self, linux::Error> {
        socket.count_overflow()?;
        Ok(Self {
            name: name.into(),
            interface: interface.into(),
            drops,
            socket,
            inbox: Inbox::new(BATCH),
            counters: Arc::default(),
            wait,
        })
    }
}

impl Receiver for BatchReceiver {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        let read = match self.wait.turn(&*self.socket, until) {
            Ok(Turn::Read { can_wait }) => self.socket.receive_batch(&mut self.inbox, can_wait),
            Ok(Turn::Over) => Ok(0),
            Err(error) => Err(error),
        };
        let count = match read {
            Ok(count) => count,
            Err(error) => return Err(gone(&self.name, &self.interface, &error)),
        };
        if count == 0 {
            // What was dropped last comes with no frame.
            count_dropped(&self.socket, &self.drops, &self.counters);
        }
        let mut legal = 0;
        for received in (0..count).filter_map(|index| self.inbox.received(index)) {
            self.counters.overflow.add(self.drops.more(received.overflow));
            let Some(frame) = decode(received.frame.as_bytes()) else {
                self.counters.malformed.add(1);
                continue;
            };
            legal += 1;
            self.counters.frames.add(1);
            if frame.kind() == Kind::Error {
                self.counters.error_reports.add(1);
            }
            let origin = match (received.is_own, received.is_local) {
                (true, _) => Origin::Own,
                (false, true) => Origin::Machine,
                (false, false) => Origin::Bus,
            };
            let stamp = Stamp { system: received.stamp, hardware: received.hardware };
            take(&Received { frame, stamp, origin });
        }
        Ok(if legal == 0 { Progress::Nothing } else { Progress::Frames(legal) })
    }

    fn set_filters(&mut self, filters: Option<&[Filter]>) -> Result<bool, Error> {
        set_filters(&self.socket, filters)
            .map_err(|error| gone(&self.name, &self.interface, &error))
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

//! [`Bus`]: a port behind a handle, for threads of C that may do anything.

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use candor_linux::clock;
use candor_port::{
    Address, Capabilities, Control, Filter, Progress, Receiver, ReceiverCounters, Sent, Status,
    Transmitter, TransmitterCounters, Until, Waker, Wanted,
};
use candor_time::{Instant, Monotonic, Nanos};

use crate::errors::Failure;
use crate::frame::{RawFilter, RawFrame, RawStatus, state_number};

// Flags of `vca_open()`; the first two are those of `vca_wait()` as well.
const RECEIVE: c_uint = 0x01;
const SEND: c_uint = 0x02;
const ERRORS: c_uint = 0x04;
const OWN: c_uint = 0x08;
const STAMPS: c_uint = 0x10;
const WAKE: c_uint = 0x20;
const ALL: c_uint = 0x3F;

// `abilities` of `struct vca_status`.
const CAN_FD: u32 = 0x01;
const CAN_REMOTE: u32 = 0x02;
const CAN_ERRORS: u32 = 0x04;
const CAN_STAMP: u32 = 0x08;

/// Frames that a handle keeps if the caller has less room than arrived.
const USUAL_BATCH: usize = 64;
/// Batches without a frame that is wanted, until the time counts.
const REFUSED_MOST: u32 = 1_000;
/// How long closing waits for what was sent, and how often it looks.
const DRAIN_MOST: Nanos = Nanos::from_secs(1);
const DRAIN_STEP: Nanos = Nanos::from_micros(200);

/// An open bus.
pub(crate) struct Bus {
    inlet: Option<Mutex<Inlet>>,
    outlet: Option<Mutex<Box<dyn Transmitter>>>,
    received: Option<Arc<ReceiverCounters>>,
    sent: Option<Arc<TransmitterCounters>>,
    control: Option<Arc<dyn Control>>,
    capabilities: Capabilities,
    waker: Option<Waker>,
    /// Whether somebody wants the waiting to end, or the handle is closed.
    is_woken: AtomicBool,
    is_closed: AtomicBool,
}

/// The half that receives.
struct Inlet {
    receiver: Box<dyn Receiver>,
    /// What had no room.
    kept: VecDeque<RawFrame>,
    /// Those that the port does not carry out.
    filters: Option<Vec<Filter>>,
    /// Whether nothing will come any more.
    has_ended: bool,
}

/// Only one thread at a time.
fn only<T>(half: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
    match half.try_lock() {
        Ok(half) => Ok(half),
        Err(TryLockError::Poisoned(half)) => Ok(half.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Failure::in_use()),
    }
}

/// When a waiting that begins now is over.
fn until(timeout_ns: i64) -> Until {
    match u64::try_from(timeout_ns) {
        Ok(0) => Until::Now,
        Ok(nanos) => Until::Instant(clock::now::<Monotonic>() + Nanos::from_nanos(nanos)),
        Err(_) => Until::Woken,
    }
}

fn is_over(until: Until) -> bool {
    match until {
        Until::Now => true,
        Until::Instant(instant) => instant <= clock::now::<Monotonic>(),
        Until::Woken => false,
    }
}

impl Inlet {
    /// Receives until there is a frame that is wanted: hands over `room` at most and keeps the others. How
    /// many; 0 if the time is over.
    fn fill(
        &mut self,
        bus: &Bus,
        room: usize,
        until: Until,
        take: &mut dyn FnMut(usize, RawFrame),
    ) -> Result<usize, Failure> {
        let (mut count, mut refused) = (0, 0);
        while let Some(frame) = self.kept.pop_front_if(|_| count < room) {
            take(count, frame);
            count += 1;
        }
        while count == 0 {
            if bus.is_closed.load(Ordering::Acquire) {
                return Err(Failure::closed());
            }
            if bus.is_woken.swap(false, Ordering::AcqRel) {
                let remedy = "call it again, or end";
                return Err(Failure::new(libc::ECANCELED, "vca_wake() was called", remedy));
            }
            if self.has_ended {
                let remedy = "close the handle";
                return Err(Failure::new(libc::ENODATA, "no more frames will come", remedy));
            }
            let Self { receiver, kept, filters, .. } = self;
            let progress = receiver.receive(until, &mut |received| {
                let is_wanted = |filters: &Vec<Filter>| {
                    filters.iter().any(|filter| filter.takes(&received.frame))
                        || matches!(received.frame.kind(), candor_wire::can::Kind::Error)
                };
                if filters.as_ref().is_some_and(|filters| !is_wanted(filters)) {
                    return;
                }
                let frame = RawFrame::received(received);
                if count < room {
                    take(count, frame);
                    count += 1;
                } else {
                    kept.push_back(frame);
                }
            })?;
            match progress {
                Progress::Ended => self.has_ended = true,
                Progress::Nothing if is_over(until) => break,
                // Behind a frame that is not wanted may be one that is, but no flood of them holds the caller.
                Progress::Frames(_) if count == 0 => {
                    refused += 1;
                    if refused > REFUSED_MOST && is_over(until) {
                        break;
                    }
                }
                Progress::Frames(_) | Progress::Nothing => {}
            }
        }
        Ok(count)
    }
}

impl Bus {
    /// Opens a bus by its name.
    pub(crate) fn open(name: &str, flags: c_uint) -> Result<Self, Failure> {
        if flags & !ALL != 0 {
            let reason = format!("flags {flags:#x} have bits without a meaning");
            return Err(Failure::invalid(
                reason,
                "use VCA_RECEIVE, VCA_SEND and the others of vca.h",
            ));
        }
        let is_both = flags & (RECEIVE | SEND) == 0;
        let wanted = Wanted {
            receiver: is_both || flags & RECEIVE != 0,
            transmitter: is_both || flags & SEND != 0,
            error_reports: flags & ERRORS != 0,
            own_frames: flags & OWN != 0,
            stamps: flags & STAMPS != 0,
            sparse_stamps: false,
            waker: flags & WAKE != 0,
            recorded: None,
        };
        let address: Address = name.parse().map_err(candor_port::Error::from)?;
        let port = candor_drivers::open(&address, wanted)?;
        if wanted.own_frames && !port.capabilities.own_frames {
            let reason =
                format!("{address}: this kind of bus does not tell what a port sent itself");
            let remedy = "open it without VCA_OPEN_OWN";
            return Err(Failure::new(libc::EOPNOTSUPP, reason, remedy));
        }
        let inlet = port.receiver.map(|receiver| Inlet {
            receiver,
            kept: VecDeque::with_capacity(USUAL_BATCH),
            filters: None,
            has_ended: false,
        });
        Ok(Self {
            received: inlet.as_ref().map(|inlet| inlet.receiver.counters()),
            sent: port.transmitter.as_ref().map(|transmitter| transmitter.counters()),
            waker: inlet.as_ref().and_then(|inlet| inlet.receiver.waker()),
            inlet: inlet.map(Mutex::new),
            outlet: port.transmitter.map(Mutex::new),
            control: port.control,
            capabilities: port.capabilities,
            is_woken: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    fn inlet(&self) -> Result<MutexGuard<'_, Inlet>, Failure> {
        let inlet = self.inlet.as_ref().ok_or_else(|| {
            let remedy = "open it with VCA_RECEIVE";
            Failure::new(libc::EBADF, "the handle was not opened to receive", remedy)
        })?;
        only(inlet)
    }

    fn outlet(&self) -> Result<MutexGuard<'_, Box<dyn Transmitter>>, Failure> {
        let outlet = self.outlet.as_ref().ok_or_else(|| {
            let remedy = "open it with VCA_SEND";
            Failure::new(libc::EBADF, "the handle was not opened to send", remedy)
        })?;
        only(outlet)
    }

    /// Sends frames in their order. How many were taken, or why the first was not.
    pub(crate) fn send(&self, frames: &[RawFrame]) -> Result<c_int, Failure> {
        let mut outlet = self.outlet()?;
        let mut taken = 0;
        let mut obstacle = None;
        for frame in frames {
            match frame.to_send().and_then(|frame| refusal(outlet.transmit(&frame, true))) {
                Ok(()) => taken += 1,
                Err(failure) => {
                    obstacle = Some(failure);
                    break;
                }
            }
        }
        if taken > 0 {
            // What a port kept back to fill a datagram leaves now.
            outlet.flush();
        }
        match obstacle {
            Some(failure) if taken == 0 => Err(failure),
            _ => Ok(taken),
        }
    }

    /// Receives frames, and tells each with its place. How many; 0 if the time is over.
    pub(crate) fn receive(
        &self,
        room: usize,
        timeout_ns: i64,
        take: &mut dyn FnMut(usize, RawFrame),
    ) -> Result<c_int, Failure> {
        let mut inlet = self.inlet()?;
        let count = inlet.fill(self, room, until(timeout_ns), take)?;
        Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
    }

    /// Waits until there is a frame, or may be room for one. What there is; 0 if the time is over.
    pub(crate) fn wait(&self, what: c_uint, timeout_ns: i64) -> Result<c_int, Failure> {
        let until = until(timeout_ns);
        match what {
            RECEIVE => {
                let mut inlet = self.inlet()?;
                let mut first = None;
                inlet.fill(self, 1, until, &mut |_, frame| first = Some(frame))?;
                Ok(first.map_or(0, |frame| {
                    inlet.kept.push_front(frame);
                    RECEIVE as c_int
                }))
            }
            SEND => {
                let mut outlet = self.outlet()?;
                let most = match until {
                    Until::Now => Nanos::ZERO,
                    Until::Instant(instant) => instant - clock::now::<Monotonic>(),
                    Until::Woken => Nanos::from_secs(1),
                };
                outlet.wait(most);
                Ok(if until != Until::Woken && is_over(until) { 0 } else { SEND as c_int })
            }
            _ => Err(Failure::invalid(
                format!("{what:#x} is nothing to wait for"),
                "use VCA_RECEIVE or VCA_SEND",
            )),
        }
    }

    /// Ends the waiting of another thread, or the next one.
    pub(crate) fn wake(&self) -> Result<c_int, Failure> {
        let Some(waker) = &self.waker else {
            let remedy = "open it with VCA_OPEN_WAKE";
            return Err(Failure::new(libc::EOPNOTSUPP, "the handle cannot be woken", remedy));
        };
        self.is_woken.store(true, Ordering::Release);
        waker.wake();
        Ok(0)
    }

    /// Receives only what one of these takes. 1 if the port carries them out, 0 if this library does.
    pub(crate) fn set_filters(&self, filters: Option<&[RawFilter]>) -> Result<c_int, Failure> {
        let filters: Option<Vec<Filter>> = filters
            .map(|filters| filters.iter().map(|filter| filter.to_port()).collect())
            .transpose()?;
        let mut inlet = self.inlet()?;
        let is_done = inlet.receiver.set_filters(filters.as_deref())?;
        inlet.filters = filters.filter(|_| !is_done);
        Ok(is_done.into())
    }

    /// How the controller gets on, and what was counted.
    pub(crate) fn status(&self) -> Result<RawStatus, Failure> {
        let status = match &self.control {
            Some(control) => control.status()?,
            None => Status::default(),
        };
        let errors = |count: Option<u32>| count.map_or(-1, |count| count as i32);
        let able = |is: bool, bit: u32| if is { bit } else { 0 };
        let Capabilities { fd, remote, error_reports, stamps, .. } = self.capabilities;
        let received = self.received.as_deref();
        Ok(RawStatus {
            state: state_number(status.state),
            receive_errors: errors(status.receive_errors),
            transmit_errors: errors(status.transmit_errors),
            bitrate: status.bitrate.unwrap_or(0),
            data_bitrate: status.data_bitrate.unwrap_or(0),
            abilities: able(fd, CAN_FD)
                | able(remote, CAN_REMOTE)
                | able(error_reports, CAN_ERRORS)
                | able(stamps, CAN_STAMP),
            received: received.map_or(0, |counters| counters.frames.get()),
            sent: self.sent.as_deref().map_or(0, |counters| counters.frames.get()),
            lost: received.map_or(0, |counters| counters.overflow.get() + counters.missing.get()),
            malformed: received.map_or(0, |counters| counters.malformed.get()),
            reserved: [0; 4],
        })
    }

    /// Waits a little until what was taken has left. A thread that still waits here is woken, if it can be.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        if let Some(waker) = &self.waker {
            waker.wake();
        }
        let Ok(Ok(mut outlet)) = self.outlet.as_ref().map_or(Err(()), |outlet| Ok(only(outlet)))
        else {
            return;
        };
        outlet.flush();
        let end: Instant<Monotonic> = clock::now::<Monotonic>() + DRAIN_MOST;
        while !outlet.is_drained() && clock::now::<Monotonic>() < end {
            let _ = clock::sleep_until(clock::now::<Monotonic>() + DRAIN_STEP);
        }
    }
}

/// Why a frame was not taken.
fn refusal(sent: Sent) -> Result<(), Failure> {
    let (errno, reason, remedy) = match sent {
        Sent::Taken => return Ok(()),
        Sent::Full => (libc::EAGAIN, "no room for the frame now", "wait with vca_wait()"),
        Sent::Unsupported => (
            libc::EOPNOTSUPP,
            "the bus carries no such frame",
            "see the abilities that vca_status() tells",
        ),
        Sent::Down => (
            libc::ENETDOWN,
            "the interface is down or away, or the controller is stopped or bus-off",
            "switch it on, and send again",
        ),
    };
    Err(Failure::new(errno, reason, remedy))
}

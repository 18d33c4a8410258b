//! The character devices of the driver `candor_can`: its interface for programs, as `kernel/candor_can/candor_can.h` has it.

use std::fs::{File, OpenOptions};
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use candor_time::{Instant, Monotonic};
use libc::c_ulong;

use crate::error::check;
use crate::{Errno, Error, Sent};

/// The identifier has 29 bits.
pub const EXTENDED: u16 = 0x01;
/// A remote frame.
pub const REMOTE: u16 = 0x02;
/// A report of errors; `id` is a mask of [`error`].
pub const ERROR: u16 = 0x04;
/// Frames before this one were lost.
pub const OVERFLOW: u16 = 0x08;
/// Sent by this device.
pub const LOCAL: u16 = 0x10;
/// Sent by this handle.
pub const OWN: u16 = 0x20;

/// What reports of errors tell, as bits of their identifier. Their data: state, receive error counter, transmit error counter,
/// error code of the SJA1000, bit in which arbitration was lost.
pub mod error {
    /// The state is another one.
    pub const STATE: u32 = 0x01;
    /// The controller is off the bus.
    pub const BUS_OFF: u32 = 0x02;
    /// The controller lost frames.
    pub const OVERRUN: u32 = 0x04;
    /// An error frame was on the bus.
    pub const BUS: u32 = 0x08;
    /// Arbitration was lost.
    pub const ARBITRATION: u32 = 0x10;
    pub const ALL: u32 = 0x1F;
}

/// States of a controller.
pub mod state {
    /// It takes no part.
    pub const STOPPED: u32 = 0;
    /// All is well.
    pub const ACTIVE: u32 = 1;
    /// An error counter has reached 96.
    pub const WARNING: u32 = 2;
    /// An error counter has reached 128.
    pub const PASSIVE: u32 = 3;
    /// Off the bus.
    pub const BUS_OFF: u32 = 4;
}

/// A frame, or a report of errors.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// When the interrupt handler saw it: CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The identifier, without flags.
    pub id: u32,
    /// [`EXTENDED`], ...
    pub flags: u16,
    /// Bytes of data, 0 to 8.
    pub len: u8,
    reserved: u8,
    /// Zeros behind `len`.
    pub data: [u8; 8],
}

impl Frame {
    /// A frame to be sent.
    #[must_use]
    pub const fn new(id: u32, flags: u16, len: u8, data: [u8; 8]) -> Self {
        Self { time_ns: 0, id, flags, len, reserved: 0, data }
    }
}

/// Takes a frame if all bits of both masks are as in `id` and `flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub id: u32,
    /// Its bits that count.
    pub mask: u32,
    /// [`EXTENDED`], [`REMOTE`], [`LOCAL`].
    pub flags: u16,
    /// Those that count.
    pub flags_mask: u16,
}

/// Filters that a handle can have.
pub const MOST_FILTERS: usize = 32;

#[repr(C)]
struct Filters {
    count: u32,
    errors: u32,
    filters: [Filter; MOST_FILTERS],
}

#[repr(C)]
struct Queue {
    slots: u32,
    policy: u32,
}

/// The only structure with a pointer: `frames` has room for `count` of them.
#[repr(C)]
struct Read {
    until_ns: u64,
    frames: u64,
    count: u32,
    reserved: u32,
}

/// The bit rate of a controller.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitRate {
    /// In bit/s; 0: none was set.
    pub bitrate: u32,
    /// The two registers of bit timing.
    pub btr: [u8; 2],
    reserved: u16,
}

/// What a device counts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames from the bus.
    pub received: u64,
    /// Frames sent, of all handles.
    pub sent: u64,
    /// Frames that were taken and never sent.
    pub dropped: u64,
    /// Times the controller said that it lost frames.
    pub overruns: u64,
    /// Error frames on the bus.
    pub bus_errors: u64,
    /// Arbitrations lost.
    pub arbitrations: u64,
    /// Times the controller left the bus.
    pub bus_offs: u64,
    /// Interrupts of this controller.
    pub interrupts: u64,
    /// Interrupts that its handler gave up on.
    pub storms: u64,
    /// The longest time in the handler.
    pub longest_ns: u64,
    /// Most frames read in one interrupt.
    pub most_frames: u32,
    /// One of [`state`].
    pub state: u32,
    /// Receive error counter.
    pub receive_errors: u32,
    /// Transmit error counter.
    pub transmit_errors: u32,
    /// Frames that wait to be sent.
    pub waiting: u32,
    /// Handles that are open.
    pub handles: u32,
    /// Frames put into the queue of this handle.
    pub handle_received: u64,
    /// Frames lost because it was full.
    pub handle_lost: u64,
    /// Frames in it.
    pub handle_waiting: u32,
    /// Most frames there ever were in it.
    pub handle_most: u32,
    /// Its length.
    pub handle_slots: u32,
    /// What is lost: 0 the newest, 1 the oldest.
    pub handle_policy: u32,
}

/// `_IOC`: direction, size, type, number (`asm-generic/ioctl.h`).
const fn number(direction: c_ulong, size: usize, which: c_ulong) -> c_ulong {
    (direction << 30) | ((size as c_ulong) << 16) | (0xC5 << 8) | which
}
const NONE: c_ulong = 0;
const WRITE: c_ulong = 1;
const READ: c_ulong = 2;

/// What a request reads or writes.
///
/// # Safety
/// Any bits are a valid value and none are a pointer; and no structure with a pointer is as long, since the length is part
/// of the number by which the driver tells requests.
unsafe trait Argument {}

// SAFETY: nothing.
unsafe impl Argument for () {}
// SAFETY: a number.
unsafe impl Argument for u32 {}
// SAFETY: numbers.
unsafe impl Argument for Statistics {}
// SAFETY: numbers.
unsafe impl Argument for BitRate {}
// SAFETY: numbers.
unsafe impl Argument for Filters {}
// SAFETY: numbers.
unsafe impl Argument for Queue {}

/// A request with its argument.
struct Request<T> {
    number: c_ulong,
    argument: PhantomData<T>,
}

impl<T: Argument> Request<T> {
    const fn new(direction: c_ulong, which: c_ulong) -> Self {
        assert!(size_of::<T>() != size_of::<Read>());
        Self { number: number(direction, size_of::<T>(), which), argument: PhantomData }
    }
}

const GET_STATISTICS: Request<Statistics> = Request::new(READ, 1);
const GET_BITRATE: Request<BitRate> = Request::new(READ, 2);
const SET_BITRATE: Request<BitRate> = Request::new(WRITE, 3);
const START: Request<()> = Request::new(NONE, 5);
const STOP: Request<()> = Request::new(NONE, 6);
const SET_FILTERS: Request<Filters> = Request::new(WRITE, 7);
const SET_QUEUE: Request<Queue> = Request::new(WRITE, 8);
const SET_PRIORITY: Request<u32> = Request::new(WRITE, 9);
const SET_OPTIONS: Request<u32> = Request::new(WRITE, 10);
const READ_UNTIL: c_ulong = number(WRITE, size_of::<Read>(), 12);

/// What this handle sends comes back to it.
pub const RECEIVE_OWN: u32 = 1;
/// What other handles of the device send does not come to it.
pub const NO_LOCAL: u32 = 2;

/// Until when to wait for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Not at all.
    Now,
    Until(Instant<Monotonic>),
    /// For ever.
    Never,
}

/// An open device ("handle"), with a receive queue of its own.
#[derive(Debug)]
pub struct Device {
    file: File,
    name: Box<str>,
}

impl Device {
    /// Opens `/dev/NAME`.
    ///
    /// # Errors
    /// There is no such device, or no permission.
    pub fn open(name: &str) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(format!("/dev/{name}")).map_err(|error| {
            Error::new("open the CAN device", name, Errno(error.raw_os_error().unwrap_or(0)))
                .remedy_if(
                    libc::ENOENT,
                    "load candor_can and give it a controller, see kernel/README.md",
                )
                .remedy_if(libc::EACCES, "this needs root, or the right to read and write it")
                .remedy_if(libc::EBUSY, "close it elsewhere; a device has at most 64 open files")
        })?;
        Ok(Self { file, name: name.into() })
    }

    /// One call.
    fn control<T: Argument>(
        &self,
        attempt: &'static str,
        request: Request<T>,
        argument: &mut T,
    ) -> Result<(), Error> {
        let argument: *mut T = argument;
        // SAFETY: the driver reads or writes as many bytes as the number says, which are those of `T`, and any are
        // valid; it follows and keeps no pointer.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), request.number as _, argument) })
            .map(drop)
            .map_err(|errno| self.error(attempt, errno))
    }

    fn error(&self, attempt: &'static str, errno: Errno) -> Error {
        Error::new(attempt, &*self.name, errno)
    }

    /// Reads frames, at least one, until the limit; none if it is over, or a signal came.
    ///
    /// # Errors
    /// The device is gone.
    pub fn read(&self, room: &mut [Frame], limit: Limit) -> Result<usize, Error> {
        let until_ns = match limit {
            Limit::Now => 0,
            // 0 would not wait at all, which comes to the same.
            Limit::Until(instant) => instant.as_nanos(),
            Limit::Never => u64::MAX,
        };
        let frames = room.as_mut_ptr().expose_provenance() as u64;
        let count = u32::try_from(room.len()).unwrap_or(u32::MAX);
        let mut read = Read { until_ns, frames, count, reserved: 0 };
        let place = &raw mut read;
        // SAFETY: a `Read`; the driver writes `count` frames to `frames` at most, which `room` has.
        match check(unsafe { libc::ioctl(self.file.as_raw_fd(), READ_UNTIL as _, place) }) {
            Ok(count) => Ok(count.unsigned_abs() as usize),
            Err(Errno(libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR)) => Ok(0),
            Err(errno) => Err(self.error("read from", errno)),
        }
    }

    /// Sends a frame, or says that there is no room. Never waits.
    ///
    /// # Errors
    /// The device is gone, stopped, bus-off or listens only.
    pub fn write(&self, frame: &Frame) -> Result<Sent, Error> {
        let place: *const Frame = frame;
        // SAFETY: `place` has as many bytes to be read, all of them initialized: the structure has no padding.
        let written =
            unsafe { libc::write(self.file.as_raw_fd(), place.cast(), size_of::<Frame>()) };
        match check(i32::try_from(written).unwrap_or(i32::MAX)) {
            Ok(_) => Ok(Sent::Taken),
            Err(Errno(libc::EAGAIN)) => Ok(Sent::WouldBlock),
            Err(errno) => Err(Error::new("write to", &*self.name, errno)),
        }
    }

    /// What the device counts.
    ///
    /// # Errors
    /// The device is gone.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        let mut statistics = Statistics::default();
        self.control("read the statistics of", GET_STATISTICS, &mut statistics)?;
        Ok(statistics)
    }

    /// Its bit rate.
    ///
    /// # Errors
    /// The device is gone.
    pub fn bit_rate(&self) -> Result<BitRate, Error> {
        let mut rate = BitRate::default();
        self.control("read the bit rate of", GET_BITRATE, &mut rate)?;
        Ok(rate)
    }

    /// Stops the controller, sets its bit rate in bit/s, and starts it.
    ///
    /// # Errors
    /// The device is gone, or knows no such bit rate.
    pub fn restart(&self, bitrate: u32) -> Result<(), Error> {
        self.control("stop", STOP, &mut ())?;
        let mut rate = BitRate { bitrate, ..BitRate::default() };
        self.control("set the bit rate of", SET_BITRATE, &mut rate)?;
        self.control("start", START, &mut ())
    }

    /// Which frames are received: those that one of at most [`MOST_FILTERS`] filters takes, and which
    /// [errors](error).
    ///
    /// # Errors
    /// The device is gone, or there are too many filters.
    pub fn set_filters(&self, filters: &[Filter], errors: u32) -> Result<(), Error> {
        let mut all = [Filter::default(); MOST_FILTERS];
        let Some(room) = all.get_mut(..filters.len()) else {
            let subject = &*self.name;
            return Err(Error::new("set the filters of", subject, Errno(libc::ENOSPC)));
        };
        room.copy_from_slice(filters);
        let mut filters = Filters { count: filters.len() as u32, errors, filters: all };
        self.control("set the filters of", SET_FILTERS, &mut filters)
    }

    /// A new receive queue with so many slots; with `overwrites`, a frame that comes to a full one replaces the oldest.
    ///
    /// # Errors
    /// The device is gone, or there are 0 or more than 4,096 slots.
    pub fn set_queue(&self, slots: u32, overwrites: bool) -> Result<(), Error> {
        let mut queue = Queue { slots, policy: overwrites.into() };
        self.control("set the queue of", SET_QUEUE, &mut queue)
            .map_err(|error| error.remedy_if(libc::EINVAL, "a queue has 1 to 4,096 slots"))
    }

    /// The transmit queue that is used: 0, which goes first, to 2.
    ///
    /// # Errors
    /// The device is gone, or there is no such queue.
    pub fn set_priority(&self, mut priority: u32) -> Result<(), Error> {
        self.control("set the priority of", SET_PRIORITY, &mut priority)
    }

    /// A mask of [`RECEIVE_OWN`] and [`NO_LOCAL`].
    ///
    /// # Errors
    /// The device is gone.
    pub fn set_options(&self, mut options: u32) -> Result<(), Error> {
        self.control("set the options of", SET_OPTIONS, &mut options)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

const _: () = assert!(size_of::<Frame>() == 24 && mem::offset_of!(Frame, data) == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_reported_with_the_driver() {
        let error = Device::open("candor77").unwrap_err();
        assert!(error.is(libc::ENOENT), "{error}");
        assert!(error.to_string().contains("kernel/README.md"), "{error}");
    }

    #[test]
    fn requests_have_the_numbers_of_the_header() {
        // As a C compiler prints them.
        assert_eq!(GET_STATISTICS.number, 0x8088_C501);
        assert_eq!((GET_BITRATE.number, SET_BITRATE.number), (0x8008_C502, 0x4008_C503));
        assert_eq!((START.number, STOP.number), (0xC505, 0xC506));
        assert_eq!((SET_FILTERS.number, SET_QUEUE.number), (0x4188_C507, 0x4008_C508));
        assert_eq!(
            (SET_PRIORITY.number, SET_OPTIONS.number, READ_UNTIL),
            (0x4004_C509, 0x4004_C50A, 0x4018_C50C)
        );
    }
}

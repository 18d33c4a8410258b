//! The gateway of the driver `candor_can`: rules that pass frames on in the interrupt handler. Its interface for programs, as
//! `kernel/candor_can/candor_can.h` has it.

use std::ffi::c_char;
use std::fs::{File, OpenOptions};
use std::ops::AddAssign;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use libc::c_ulong;

use crate::error::check;
use crate::{Errno, Error};

const PATH: &str = "/dev/candor_gateway";
/// Bytes of a reason, with the 0 at its end.
const REASON_LEN: usize = 80;

#[repr(C)]
struct Image {
    image: u64,
    length: u64,
    devices: u64,
    buses: u32,
    steps: u32,
    section: u32,
    record: u32,
    reason: [u8; REASON_LEN],
}

#[repr(C)]
struct Wanted {
    jobs: u64,
    buses: u64,
    job_count: u32,
    bus_count: u32,
    job_size: u32,
    bus_size: u32,
    earlier: u32,
    gone: u32,
}

/// What became of the copies of a rule for one of its destinations.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Taken by the transmit queue.
    pub handled: u64,
    /// The frame had been passed on as often as it may be.
    pub hop_limit: u64,
    /// The device is gone, stopped, bus-off or listens only.
    pub down: u64,
    /// It would have gone back to where it came from.
    pub returning: u64,
    /// Too long after the operations.
    pub too_long: u64,
    /// The transmit queue had no room; or, with echo, 16 copies of the frame had come back.
    pub queue_full: u64,
    /// An operation made it an error report.
    pub unsupported: u64,
}

impl JobCounts {
    /// What was counted since it was `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            handled: self.handled.wrapping_sub(before.handled),
            hop_limit: self.hop_limit.wrapping_sub(before.hop_limit),
            down: self.down.wrapping_sub(before.down),
            returning: self.returning.wrapping_sub(before.returning),
            too_long: self.too_long.wrapping_sub(before.too_long),
            queue_full: self.queue_full.wrapping_sub(before.queue_full),
            unsupported: self.unsupported.wrapping_sub(before.unsupported),
        }
    }
}

impl AddAssign for JobCounts {
    fn add_assign(&mut self, more: Self) {
        self.handled += more.handled;
        self.hop_limit += more.hop_limit;
        self.down += more.down;
        self.returning += more.returning;
        self.too_long += more.too_long;
        self.queue_full += more.queue_full;
        self.unsupported += more.unsupported;
    }
}

/// What a bus has seen.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounts {
    /// Frames, also those that programs sent to the device.
    pub received: u64,
    /// Those that no rule took.
    pub unmatched: u64,
    /// The most steps that one of them took, in the rules and for the open files of the device. `kernel/candor_can/image.h` says
    /// what a step is.
    pub most_steps: u64,
    /// The most that one could have taken, with the files that were open.
    pub step_limit: u64,
    /// The longest time from the interrupt until one was with all of them, in ns.
    pub longest_ns: u64,
    /// Copies that its transmit queue had taken, and that were not sent.
    pub lost: u64,
    /// The state of its device, of [`crate::candor_can::state`]; 0 also without one.
    pub state: u64,
}

impl BusCounts {
    /// What was counted since it was `before`; what is largest is so of all, and the state is the one now.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            received: self.received.wrapping_sub(before.received),
            unmatched: self.unmatched.wrapping_sub(before.unmatched),
            lost: self.lost.wrapping_sub(before.lost),
            ..self
        }
    }
}

impl AddAssign for BusCounts {
    fn add_assign(&mut self, more: Self) {
        self.received += more.received;
        self.unmatched += more.unmatched;
        self.most_steps = self.most_steps.max(more.most_steps);
        self.step_limit = self.step_limit.max(more.step_limit);
        self.longest_ns = self.longest_ns.max(more.longest_ns);
        self.lost += more.lost;
        self.state = more.state;
    }
}

/// What the gateway has counted since its rules are in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By job of the image.
    pub jobs: Vec<JobCounts>,
    /// By bus of the image.
    pub buses: Vec<BusCounts>,
    /// Whether a device that the rules use is gone.
    pub is_gone: bool,
}

/// Why the driver does not take rules.
#[derive(Debug)]
pub enum Refusal {
    /// It cannot carry them out: the section of the image (0: the header), the record, and the reason.
    Image { section: u32, record: u32, reason: String },
    /// The device of this bus is not there.
    Device { bus: u32 },
    /// Something else.
    Other(Error),
}

const fn number(direction: c_ulong, size: usize, which: c_ulong) -> c_ulong {
    (direction << 30) | ((size as c_ulong) << 16) | (0xC5 << 8) | which
}
const PREPARE: c_ulong = number(3, size_of::<Image>(), 32);
const COMMIT: c_ulong = number(0, 0, 33);
const ABANDON: c_ulong = number(0, 0, 34);
const COUNTS: c_ulong = number(3, size_of::<Wanted>(), 35);

/// The gateway, which is this process's for as long as it is open.
#[derive(Debug)]
pub struct KernelGateway(File);

impl KernelGateway {
    /// Takes it, without rules.
    ///
    /// # Errors
    /// The driver is not loaded, another process has it, or no permission.
    pub fn open() -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_CLOEXEC);
        options.open(PATH).map(Self).map_err(|error| {
            Error::new("open", PATH, Errno(error.raw_os_error().unwrap_or(0)))
                .remedy_if(libc::ENOENT, "load candor_can, see kernel/README.md")
                .remedy_if(libc::EACCES, "this needs root, or the right to read and write it")
                .remedy_if(libc::EBUSY, "stop the other gateway that uses it")
        })
    }

    /// Has the driver check a program image whose buses are these devices: N of `/dev/candorN`, or `None` for a bus that no rule
    /// uses. The most steps that its rules take for one frame.
    ///
    /// # Errors
    /// The driver does not take them; what it carries out stays.
    pub fn prepare(&self, image: &[u8], devices: &[Option<u8>]) -> Result<u32, Refusal> {
        let devices: Vec<i32> = devices.iter().map(|it| it.map_or(-1, i32::from)).collect();
        let mut argument = Image {
            image: image.as_ptr().expose_provenance() as u64,
            length: image.len() as u64,
            devices: devices.as_ptr().expose_provenance() as u64,
            buses: u32::try_from(devices.len()).unwrap_or(u32::MAX),
            steps: 0,
            section: 0,
            record: 0,
            reason: [0; REASON_LEN],
        };
        let place = &raw mut argument;
        // SAFETY: an `Image`; the driver reads `length` bytes at `image` and `buses` numbers at `devices`, and writes only to
        // the structure, of which any bytes are valid.
        match check(unsafe { libc::ioctl(self.0.as_raw_fd(), PREPARE as _, place) }) {
            Ok(_) => Ok(argument.steps),
            Err(Errno(libc::EINVAL)) => {
                let reason = argument.reason.split(|&byte| byte == 0).next().unwrap_or_default();
                let reason = String::from_utf8_lossy(reason).into_owned();
                let Image { section, record, .. } = argument;
                Err(Refusal::Image { section, record, reason })
            }
            Err(Errno(libc::ENODEV)) => Err(Refusal::Device { bus: argument.record }),
            Err(errno) => {
                let error = Error::new("give rules to", PATH, errno);
                let remedy = "an image has 16 MiB at most: use fewer rules, or --plane user";
                Err(Refusal::Other(error.remedy_if(libc::E2BIG, remedy)))
            }
        }
    }

    fn control(&self, attempt: &'static str, request: c_ulong) -> Result<(), Error> {
        let nothing = std::ptr::null_mut::<c_char>();
        // SAFETY: the request has no argument.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, nothing) })
            .map(drop)
            .map_err(|errno| Error::new(attempt, PATH, errno))
    }

    /// Lets what was prepared take the place of the rules in use, between two frames. After it no frame meets those any more.
    ///
    /// # Errors
    /// Nothing is prepared.
    pub fn commit(&self) -> Result<(), Error> {
        self.control("commit the rules of", COMMIT)
    }

    /// Forgets what was prepared.
    ///
    /// # Errors
    /// None that is known.
    pub fn abandon(&self) -> Result<(), Error> {
        self.control("abandon the rules of", ABANDON)
    }

    /// What was counted since the rules are in use, or, if `earlier`, while those before them were. `None` if there are none.
    ///
    /// # Errors
    /// None that is known.
    pub fn counts(
        &self,
        jobs: usize,
        buses: usize,
        earlier: bool,
    ) -> Result<Option<Counts>, Error> {
        let mut counts = Counts {
            jobs: vec![JobCounts::default(); jobs],
            buses: vec![BusCounts::default(); buses],
            is_gone: false,
        };
        let mut argument = Wanted {
            jobs: counts.jobs.as_mut_ptr().expose_provenance() as u64,
            buses: counts.buses.as_mut_ptr().expose_provenance() as u64,
            job_count: u32::try_from(jobs).unwrap_or(u32::MAX),
            bus_count: u32::try_from(buses).unwrap_or(u32::MAX),
            job_size: size_of::<JobCounts>() as u32,
            bus_size: size_of::<BusCounts>() as u32,
            earlier: earlier.into(),
            gone: 0,
        };
        let place = &raw mut argument;
        // SAFETY: a `Wanted`; the driver writes `job_count` records at `jobs` and `bus_count` at `buses` at most, of which there
        // are so many, and any bytes are valid.
        match check(unsafe { libc::ioctl(self.0.as_raw_fd(), COUNTS as _, place) }) {
            Ok(_) => {
                counts.jobs.truncate(argument.job_count as usize);
                counts.buses.truncate(argument.bus_count as usize);
                counts.is_gone = argument.gone != 0;
                Ok(Some(counts))
            }
            Err(Errno(libc::ENODATA)) => Ok(None),
            Err(errno) => Err(Error::new("read what was counted by", PATH, errno)),
        }
    }
}

const _: () = assert!(size_of::<Image>() == 120 && size_of::<Wanted>() == 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_loaded_is_reported() {
        let error = KernelGateway::open().unwrap_err();
        assert!(error.to_string().contains("load candor_can"), "{error}");
    }
}

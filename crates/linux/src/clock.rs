//! The kernel's clocks, each a type, so that their instants do not mix.
//!
//! ```
//! use candor_linux::clock;
//! use candor_time::{Monotonic, Nanos};
//! let start = clock::now::<Monotonic>();
//! clock::sleep_until(start + Nanos::from_micros(200))?;
//! assert!(clock::now::<Monotonic>() - start >= Nanos::from_micros(200));
//! # Ok::<(), candor_linux::Error>(())
//! ```

use std::mem::MaybeUninit;

use candor_time::{Clock, Instant, Monotonic, Nanos, Realtime};
use libc::clockid_t;
use rustix::io::Errno as RawErrno;
use rustix::thread::{ClockId, Timespec};

use crate::error::check;
use crate::{Errno, Error};

pub trait KernelClock: Clock {
    const ID: clockid_t;
}

/// A clock that can wake a sleeper.
pub trait Wakes: KernelClock {}

/// CPU time of the calling thread.
pub enum ThreadCpu {}
/// CPU time of the whole process.
pub enum ProcessCpu {}

impl Clock for ThreadCpu {
    const NAME: &'static str = "thread CPU";
}
impl Clock for ProcessCpu {
    const NAME: &'static str = "process CPU";
}
impl KernelClock for Monotonic {
    const ID: clockid_t = libc::CLOCK_MONOTONIC;
}
impl KernelClock for Realtime {
    const ID: clockid_t = libc::CLOCK_REALTIME;
}
impl KernelClock for ThreadCpu {
    const ID: clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;
}
impl KernelClock for ProcessCpu {
    const ID: clockid_t = libc::CLOCK_PROCESS_CPUTIME_ID;
}
impl Wakes for Monotonic {}
impl Wakes for Realtime {}

#[must_use]
pub fn now<C: KernelClock>() -> Instant<C> {
    // The clocks above are there on every Linux.
    Instant::from_nanos(read(C::ID).unwrap_or(0))
}

/// The time stamp counter of an x86 processor; 0 on others. In a guest whose clock counts instructions it is the virtual
/// clock of the machine in nanoseconds, as devices and plugins of QEMU see it.
#[inline]
#[must_use]
pub fn time_stamp_counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every processor of x86-64 has the instruction, and Linux lets programs use it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        0
    }
}

/// CPU time that a process has used, all its threads together.
///
/// # Errors
/// There is no such process.
pub fn cpu_time_of(process: u32) -> Result<Nanos, Error> {
    // CPUCLOCK_SCHED of a process, see `clock_getcpuclockid(3)`.
    let clock = !(process as clockid_t) << 3 | 2;
    read(clock)
        .map(Nanos::from_nanos)
        .map_err(|errno| Error::new("read the CPU time of process", process.to_string(), errno))
}

/// CPU time that a thread of this process has used, by its number ([`this_thread`](crate::realtime::this_thread)).
///
/// # Errors
/// There is no such thread.
pub fn cpu_time_of_thread(thread: u32) -> Result<Nanos, Error> {
    // CPUCLOCK_SCHED of a thread, see `clock_getcpuclockid(3)`.
    let clock = !(thread as clockid_t) << 3 | 6;
    read(clock)
        .map(Nanos::from_nanos)
        .map_err(|errno| Error::new("read the CPU time of thread", thread.to_string(), errno))
}

/// By the C library, which knows where the kernel's code for this is (vDSO) from the start: rustix looks
/// it up in `/proc`, on kernels before 6.4, and goes without where that is not mounted.
fn read(clock: clockid_t) -> Result<u64, Errno> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` can be written.
    check(unsafe { libc::clock_gettime(clock, &mut time) })?;
    Ok(nanos(time))
}

/// A time as the kernel takes it.
pub(crate) const fn timespec(time: Nanos) -> Timespec {
    let nanos = time.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as _, tv_nsec: (nanos % 1_000_000_000) as _ }
}

/// The nanoseconds of a `timespec`; one before the clock's zero counts as zero.
fn nanos(time: libc::timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Sleeps until the clock says `instant`; returns at once if it lies in the past.
///
/// # Errors
/// The kernel refuses, which it does not for these clocks.
pub fn sleep_until<C: Wakes>(instant: Instant<C>) -> Result<(), Error> {
    while !sleep_until_or_signal(instant)? {}
    Ok(())
}

/// As [`sleep_until`], but a signal whose handler is called ends it too. True if the clock says
/// `instant`.
///
/// # Errors
/// As [`sleep_until`].
pub fn sleep_until_or_signal<C: Wakes>(instant: Instant<C>) -> Result<bool, Error> {
    let until = timespec(Nanos::from_nanos(instant.as_nanos()));
    let sleep = |clock| rustix::thread::clock_nanosleep_absolute(clock, &until);
    match ClockId::try_from(C::ID).and_then(sleep) {
        Ok(()) => Ok(true),
        Err(RawErrno::INTR) => Ok(false),
        Err(errno) => Err(Error::new("sleep by the clock", C::NAME, errno.into())),
    }
}

/// How often a thread or process stopped running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Because it waited for something.
    pub voluntary: u64,
    /// Because something else was more important, or its share was used up.
    pub involuntary: u64,
}

impl Switches {
    /// Without those that were before.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }
}

/// CPU time and context switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, user and system, as the kernel accounts it.
    pub cpu: Nanos,
    /// Context switches.
    pub switches: Switches,
}

impl Usage {
    /// Of the calling thread.
    #[must_use]
    pub fn of_thread() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` can be written. The call cannot fail with this argument; zeroes are a
        // valid value if it does.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        Self::from_kernel(&usage)
    }

    pub(crate) fn from_kernel(usage: &libc::rusage) -> Self {
        let nanos = |time: libc::timeval| {
            let micros = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
            Nanos::from_micros(u64::try_from(micros).unwrap_or(0))
        };
        Self {
            cpu: nanos(usage.ru_utime) + nanos(usage.ru_stime),
            switches: Switches {
                voluntary: u64::try_from(usage.ru_nvcsw).unwrap_or(0),
                involuntary: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_until_an_instant_does_not_return_early() {
        let start = now::<Monotonic>();
        let until = start + Nanos::from_millis(2);
        let before = Usage::of_thread().switches.voluntary;
        sleep_until(until).unwrap();
        assert!(now::<Monotonic>() >= until);
        assert!(Usage::of_thread().switches.voluntary > before, "sleeping gives up the CPU");
        // In the past: returns.
        sleep_until(start).unwrap();
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let (process, thread) = (now::<ProcessCpu>(), now::<ThreadCpu>());
        let mut sum = 0_u64;
        while now::<ThreadCpu>() - thread < Nanos::from_micros(100) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(now::<ProcessCpu>() - process >= Nanos::from_micros(100));
        assert!(cpu_time_of(std::process::id()).unwrap() >= Nanos::from_micros(100));
        assert!(now::<Realtime>() > Instant::from_nanos(1_700_000_000_000_000_000));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_time_stamp_counter_goes_on() {
        let before = time_stamp_counter();
        sleep_until(now::<Monotonic>() + Nanos::from_micros(10)).unwrap();
        assert!(time_stamp_counter() > before);
    }

    #[test]
    fn a_time_is_so_many_nanoseconds() {
        assert_eq!(nanos(libc::timespec { tv_sec: 1, tv_nsec: 2 }), 1_000_000_002);
        assert_eq!(nanos(libc::timespec { tv_sec: -1, tv_nsec: 5 }), 5);
    }
}

//! [`Timer`]: a clock that rings again and again, and that one waits for like for a file.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use candor_time::{Instant, Monotonic, Nanos};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clock::timespec;
use crate::{Errno, Error};

/// Rings at times of the monotonic clock (`timerfd_create(2)`). It can be waited for together with sockets, by `poll` and
/// `epoll`: it can be read once it has rung.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// One that does not ring yet.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new() -> Result<Self, Error> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        timerfd_create(TimerfdClockId::Monotonic, flags)
            .map(Self)
            .map_err(|errno| Error::new("make", "a timer", Errno(errno.raw_os_error())))
    }

    /// Rings at `first`, and then once in each `period`.
    ///
    /// # Errors
    /// The kernel refuses, which it does for no period that is longer than 0.
    pub fn ring(&self, first: Instant<Monotonic>, period: Nanos) -> Result<(), Error> {
        // A time of zero would stop it.
        self.set(Nanos::from_nanos(first.as_nanos().max(1)), period)
    }

    /// Rings no more.
    ///
    /// # Errors
    /// The kernel refuses, which it does not.
    pub fn stop(&self) -> Result<(), Error> {
        self.set(Nanos::ZERO, Nanos::ZERO)
    }

    fn set(&self, first: Nanos, period: Nanos) -> Result<(), Error> {
        let times = Itimerspec { it_interval: timespec(period), it_value: timespec(first) };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &times)
            .map(drop)
            .map_err(|errno| Error::new("set", "a timer", Errno(errno.raw_os_error())))
    }

    /// How often it has rung since this was asked.
    pub fn take(&self) -> u64 {
        let mut count = [0; size_of::<u64>()];
        match rustix::io::read(&self.0, &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::poll::{self, Interest};

    #[test]
    fn it_rings_again_and_again_until_it_is_stopped() {
        let timer = Timer::new().unwrap();
        assert_eq!(timer.take(), 0);
        timer.ring(clock::now(), Nanos::from_millis(1)).unwrap();
        let mut rung = 0;
        while rung < 3 {
            assert_eq!(poll::wait(&timer, Interest::Read, None), Ok(true));
            rung += timer.take();
        }
        timer.stop().unwrap();
        timer.take();
        assert_eq!(poll::wait(&timer, Interest::Read, Some(Nanos::from_millis(5))), Ok(false));
    }
}

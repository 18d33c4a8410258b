//! [`Event`]: something that happened in one thread and that another one waits for like for a file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;

use crate::{Errno, Error};

/// Whether something happened since it was asked last (`eventfd`). It can be waited for together with
/// sockets, by `poll` and `epoll`: it can be read once it has happened.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// One that has not happened.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new() -> Result<Self, Error> {
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Self)
            .map_err(|errno| Error::new("make", "an event", Errno(errno.raw_os_error())))
    }

    /// It happens; whoever waits for it wakes up. That it happens twice before it is asked counts once.
    pub fn set(&self) {
        // It fails only when it has happened 2^64 - 2 times.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Whether it has happened since this was asked.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; size_of::<u64>()]).is_ok()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use candor_time::Nanos;

    use super::*;
    use crate::poll::{self, Interest};

    #[test]
    fn what_happens_twice_is_asked_once() {
        let event = Event::new().unwrap();
        assert!(!event.take());
        assert_eq!(poll::wait(&event, Interest::Read, Some(Nanos::ZERO)), Ok(false));
        event.set();
        event.set();
        assert_eq!(poll::wait(&event, Interest::Read, None), Ok(true));
        assert!(event.take());
        assert!(!event.take());
        assert_eq!(poll::wait(&event, Interest::Read, Some(Nanos::ZERO)), Ok(false));
    }

    #[test]
    fn a_thread_that_waits_wakes_up() {
        let event = Event::new().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| poll::wait(&event, Interest::Read, None));
            event.set();
            assert_eq!(waiting.join().unwrap(), Ok(true));
        });
        assert!(event.take());
    }
}

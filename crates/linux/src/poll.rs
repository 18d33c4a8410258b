//! Waiting until something can be read or written.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use candor_time::Nanos;
use libc::{c_int, c_short};

use crate::clock::timespec;
use crate::error::check;
use crate::{Errno, Error};

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something can be read, or an error is to be fetched.
    Read,
    /// Something can be written.
    Write,
}

/// Waits until `file` is ready, at most `timeout` (`None`: for ever). False if it is not.
///
/// # Errors
/// The kernel refuses.
pub fn wait(file: &impl AsFd, interest: Interest, timeout: Option<Nanos>) -> Result<bool, Error> {
    loop {
        if let Some(is_ready) = wait_once(file, interest, timeout)? {
            return Ok(is_ready);
        }
    }
}

/// The same, but a signal whose handler is called ends it too. False if the file is not ready.
///
/// # Errors
/// The kernel refuses.
pub fn wait_or_signal(
    file: &impl AsFd,
    interest: Interest,
    timeout: Option<Nanos>,
) -> Result<bool, Error> {
    Ok(wait_once(file, interest, timeout)?.unwrap_or(false))
}

/// Waits until one of several files can be read, or has an error to be fetched, at most `timeout`
/// (`None`: for ever); a signal whose handler is called ends it too. False if none is ready.
///
/// # Errors
/// The kernel refuses.
pub fn wait_any_or_signal(files: &[BorrowedFd<'_>], timeout: Option<Nanos>) -> Result<bool, Error> {
    let entry = |file: &BorrowedFd<'_>| libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<_> = files.iter().map(entry).collect();
    Ok(poll(&mut entries, timeout)?.unwrap_or(false))
}

/// `None` if a signal ended it.
fn wait_once(
    file: &impl AsFd,
    interest: Interest,
    timeout: Option<Nanos>,
) -> Result<Option<bool>, Error> {
    let events: c_short = match interest {
        Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
    };
    poll(&mut [libc::pollfd { fd: file.as_fd().as_raw_fd(), events, revents: 0 }], timeout)
}

/// Whether one of the entries is ready; `None` if a signal ended it.
fn poll(entries: &mut [libc::pollfd], timeout: Option<Nanos>) -> Result<Option<bool>, Error> {
    let timeout = timeout.map(|timeout| timespec(timeout.as_nanos()));
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let (place, count) = (entries.as_mut_ptr(), entries.len() as libc::nfds_t);
    // SAFETY: `count` entries that can be written, a time that can be read or null, no signal mask.
    match check(unsafe { libc::ppoll(place, count, timeout, std::ptr::null()) }) {
        Ok(count) => Ok(Some(count > 0)),
        Err(Errno(libc::EINTR)) => Ok(None),
        Err(errno) => Err(Error::new("wait for", "a socket", errno)),
    }
}

/// Several files to wait for, each with a token of the caller's (`epoll`). Waiting costs as much as
/// there are files that are ready, and does not allocate.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    events: Box<[libc::epoll_event]>,
    ready: usize,
}

impl Poll {
    /// For at most `capacity` files that are ready at once; the others are reported next time.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new(capacity: usize) -> Result<Self, Error> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
            .map_err(|errno| Error::new("make", "an epoll instance", errno))?;
        // SAFETY: the kernel just opened it and nobody else knows it.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)];
        Ok(Self { epoll, events: events.into(), ready: 0 })
    }

    /// Adds a file. Closing it takes it out.
    ///
    /// # Errors
    /// It is in already, or is no file that one waits for.
    pub fn add(&mut self, file: &impl AsFd, interest: Interest, token: u64) -> Result<(), Error> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        let (epoll, fd) = (self.epoll.as_raw_fd(), file.as_fd().as_raw_fd());
        // SAFETY: `event` can be read.
        check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) })
            .map(drop)
            .map_err(|errno| Error::new("wait for", "a file", errno))
    }

    /// Waits until a file is ready, at most `timeout` (`None`: for ever, zero: not at all), and
    /// gives the tokens of those that are; nothing if time is up.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(
        &mut self,
        timeout: Option<Nanos>,
    ) -> Result<impl Iterator<Item = u64> + '_, Error> {
        let timeout = timeout.map(|timeout| timespec(timeout.as_nanos()));
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let capacity = self.events.len() as c_int;
        self.ready = loop {
            // SAFETY: `events` has room for `capacity` events, a time that can be read or null, no
            // signal mask, and its size.
            let result = check(unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.epoll.as_raw_fd(),
                    self.events.as_mut_ptr(),
                    capacity,
                    timeout,
                    std::ptr::null::<libc::sigset_t>(),
                    size_of::<u64>(),
                )
            });
            match result {
                Ok(count) => break usize::try_from(count).unwrap_or(0),
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => {
                    return Err(Error::new("wait for", "files", errno)
                        .remedy_if(libc::ENOSYS, "Linux 5.11 or newer is needed"));
                }
            }
        };
        Ok(self.events.iter().take(self.ready).map(|event| event.u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn readiness_is_reported_with_the_token() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (_other, silent) = UnixStream::pair().unwrap();
        let mut poll = Poll::new(4).unwrap();
        poll.add(&theirs, Interest::Read, 7).unwrap();
        poll.add(&silent, Interest::Read, 8).unwrap();
        assert_eq!(poll.wait(Some(Nanos::from_micros(50))).unwrap().count(), 0);
        assert_eq!(wait(&theirs, Interest::Read, Some(Nanos::ZERO)), Ok(false));
        assert_eq!(wait(&theirs, Interest::Write, None), Ok(true));
        ours.write_all(b"x").unwrap();
        assert_eq!(poll.wait(None).unwrap().collect::<Vec<_>>(), [7]);
        assert_eq!(wait(&theirs, Interest::Read, None), Ok(true));
        assert!(poll.add(&theirs, Interest::Read, 9).unwrap_err().is(libc::EEXIST));
    }

    #[test]
    fn one_of_several_files_is_enough() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (_other, silent) = UnixStream::pair().unwrap();
        let files = [silent.as_fd(), theirs.as_fd()];
        let wait = || wait_any_or_signal(&files, Some(Nanos::from_micros(50)));
        assert_eq!(wait(), Ok(false));
        ours.write_all(b"x").unwrap();
        assert_eq!(wait(), Ok(true));
        assert_eq!(wait_any_or_signal(&files[..1], Some(Nanos::ZERO)), Ok(false));
        assert_eq!(wait_any_or_signal(&[], Some(Nanos::ZERO)), Ok(false));
    }
}

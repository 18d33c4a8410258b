//! Waiting until something can be read or written.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use candor_time::Nanos;
use rustix::event::{PollFd, PollFlags, epoll};
use rustix::io::Errno as RawErrno;

use crate::clock::timespec;
use crate::{Errno, Error};

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something can be read, or an error is to be fetched.
    Read,
    /// Something can be written.
    Write,
    /// One of both.
    Either,
}

impl Interest {
    const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Either)
    }

    const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Either)
    }
}

/// Waits until `file` is ready, at most `timeout` (`None`: for ever). False if it is not.
///
/// # Errors
/// The kernel refuses.
pub fn wait(file: &impl AsFd, interest: Interest, timeout: Option<Nanos>) -> Result<bool, Error> {
    let mut entries = [entry(file.as_fd(), interest)];
    loop {
        if let Some(is_ready) = poll(&mut entries, timeout)? {
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
    let [is_ready] = wait_each_or_signal([(file.as_fd(), interest)], timeout)?;
    Ok(is_ready)
}

/// Waits until one of a few files is ready, at most `timeout` (`None`: for ever); a signal whose handler
/// is called ends it too. Tells of each whether it is ready. Does not allocate.
///
/// # Errors
/// The kernel refuses.
pub fn wait_each_or_signal<const COUNT: usize>(
    files: [(BorrowedFd<'_>, Interest); COUNT],
    timeout: Option<Nanos>,
) -> Result<[bool; COUNT], Error> {
    let mut entries = files.map(|(file, interest)| entry(file, interest));
    let is_any = poll(&mut entries, timeout)?.unwrap_or(false);
    Ok(entries.map(|entry| is_any && !entry.revents().is_empty()))
}

/// Waits until one of several files can be read, or has an error to be fetched, at most `timeout`
/// (`None`: for ever); a signal whose handler is called ends it too. False if none is ready.
///
/// # Errors
/// The kernel refuses.
pub fn wait_any_or_signal(files: &[BorrowedFd<'_>], timeout: Option<Nanos>) -> Result<bool, Error> {
    let mut entries: Vec<_> = files.iter().map(|&file| entry(file, Interest::Read)).collect();
    Ok(poll(&mut entries, timeout)?.unwrap_or(false))
}

fn entry(file: BorrowedFd<'_>, interest: Interest) -> PollFd<'_> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, interest.reads());
    flags.set(PollFlags::OUT, interest.writes());
    PollFd::from_borrowed_fd(file, flags)
}

/// Whether one of the entries is ready; `None` if a signal ended it.
fn poll(entries: &mut [PollFd<'_>], timeout: Option<Nanos>) -> Result<Option<bool>, Error> {
    match rustix::event::poll(entries, timeout.map(timespec).as_ref()) {
        Ok(count) => Ok(Some(count > 0)),
        Err(RawErrno::INTR) => Ok(None),
        Err(errno) => Err(failed("a socket", errno)),
    }
}

fn event_flags(interest: Interest) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, interest.reads());
    flags.set(epoll::EventFlags::OUT, interest.writes());
    flags
}

fn failed(what: &str, errno: RawErrno) -> Error {
    Error::new("wait for", what, Errno(errno.raw_os_error()))
}

/// Files that are reported at once.
const MAX_READY: usize = 64;

/// Several files to wait for, each with a token of the caller's (`epoll`). Waiting costs as much as
/// there are files that are ready, and does not allocate.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    /// Of those that are ready.
    tokens: Vec<u64>,
}

impl Poll {
    /// Waits for nothing yet.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new() -> Result<Self, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| {
            Error::new("make", "an epoll instance", Errno(errno.raw_os_error()))
        })?;
        Ok(Self { epoll, tokens: Vec::with_capacity(MAX_READY) })
    }

    /// Adds a file. Closing it takes it out.
    ///
    /// # Errors
    /// It is in already, or is no file that one waits for.
    pub fn add(&mut self, file: &impl AsFd, interest: Interest, token: u64) -> Result<(), Error> {
        epoll::add(&self.epoll, file, epoll::EventData::new_u64(token), event_flags(interest))
            .map_err(|errno| failed("a file", errno))
    }

    /// Waits for something else of a file that is in.
    ///
    /// # Errors
    /// It is not in.
    pub fn change(
        &mut self,
        file: &impl AsFd,
        interest: Interest,
        token: u64,
    ) -> Result<(), Error> {
        epoll::modify(&self.epoll, file, epoll::EventData::new_u64(token), event_flags(interest))
            .map_err(|errno| failed("a file", errno))
    }

    /// Takes a file out.
    ///
    /// # Errors
    /// It is not in.
    pub fn remove(&mut self, file: &impl AsFd) -> Result<(), Error> {
        epoll::delete(&self.epoll, file).map_err(|errno| failed("a file", errno))
    }

    /// Waits until a file is ready, at most `timeout` (`None`: for ever, zero: not at all), and
    /// gives the tokens of those that are, 64 at most: the others come next time. None if time is up.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(
        &mut self,
        timeout: Option<Nanos>,
    ) -> Result<impl Iterator<Item = u64> + '_, Error> {
        let timeout = timeout.map(timespec);
        let mut room = [MaybeUninit::uninit(); MAX_READY];
        let events = loop {
            match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
                Ok((events, _)) => break events,
                Err(RawErrno::INTR) => {}
                Err(errno) => {
                    return Err(failed("files", errno)
                        .remedy_if(libc::ENOSYS, "Linux 5.11 or newer is needed"));
                }
            }
        };
        self.tokens.clear();
        self.tokens.extend(events.iter().map(|event| event.data.u64()));
        Ok(self.tokens.iter().copied())
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
        let mut poll = Poll::new().unwrap();
        poll.add(&theirs, Interest::Read, 7).unwrap();
        poll.add(&silent, Interest::Read, 8).unwrap();
        assert_eq!(poll.wait(Some(Nanos::from_micros(50))).unwrap().count(), 0);
        assert_eq!(wait(&theirs, Interest::Read, Some(Nanos::ZERO)), Ok(false));
        assert_eq!(wait(&theirs, Interest::Write, None), Ok(true));
        assert_eq!(wait(&theirs, Interest::Either, None), Ok(true));
        poll.change(&silent, Interest::Either, 9).unwrap();
        assert_eq!(poll.wait(None).unwrap().collect::<Vec<_>>(), [9]);
        poll.change(&silent, Interest::Read, 8).unwrap();
        assert!(poll.change(&ours, Interest::Read, 9).unwrap_err().is(libc::ENOENT));
        ours.write_all(b"x").unwrap();
        assert_eq!(poll.wait(None).unwrap().collect::<Vec<_>>(), [7]);
        assert_eq!(wait(&theirs, Interest::Read, None), Ok(true));
        assert!(poll.add(&theirs, Interest::Read, 9).unwrap_err().is(libc::EEXIST));
    }

    #[test]
    fn a_wait_is_not_rounded_to_milliseconds() {
        use crate::clock;
        use candor_time::Monotonic;

        let mut poll = Poll::new().unwrap();
        let mut wait = || {
            let start = clock::now::<Monotonic>();
            assert_eq!(poll.wait(Some(Nanos::from_micros(100))).unwrap().count(), 0);
            clock::now::<Monotonic>().since(start)
        };
        // The machine may be late, but not each time.
        let shortest = (0..50).map(|_| wait()).min().unwrap();
        assert!(
            (Nanos::from_micros(100)..Nanos::from_micros(900)).contains(&shortest),
            "{shortest}"
        );
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

//! Signals that are read like a file, so that one loop waits for them and for everything else.
//!
//! The order matters. A signal goes to any thread that does not block it, and there it does what it
//! does by default, which is to end the process. Threads inherit what their maker blocks. So:
//!
//! 1. `main` opens [`Signals`],
//! 2. and then starts threads: they never see these signals;
//! 3. whichever thread waits on the file takes them.
//!
//! Programs that are started with [`std::process::Command`] begin with nothing blocked.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::c_int;

use crate::error::check;
use crate::socket::retry;
use crate::{Errno, Error};

/// A signal that a service lives with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGHUP`: read the configuration anew.
    Hangup,
    /// `SIGINT`: Ctrl+C, end.
    Interrupt,
    /// `SIGTERM`: end.
    Terminate,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hangup, Self::Interrupt, Self::Terminate];

    const fn number(self) -> c_int {
        match self {
            Self::Hangup => libc::SIGHUP,
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
        }
    }
}

/// Signals to be read. They stay blocked when it is dropped, so that none is lost that is on its
/// way.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks these signals in the calling thread and in all that it starts from now on, and lets
    /// them be read. To be called before any other thread is started.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn open(signals: &[Signal]) -> Result<Self, Error> {
        let fail = |errno| Error::new("wait for", "signals", errno);
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `set` can be written.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        for signal in signals {
            // SAFETY: `set` can be written, and the number is that of a signal.
            unsafe { libc::sigaddset(set.as_mut_ptr(), signal.number()) };
        }
        // SAFETY: `set` can be read, and the old one is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) }
        {
            0 => {}
            number => return Err(fail(Errno(number))),
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: `set` can be read, and -1 asks for a new file.
        let fd = check(unsafe { libc::signalfd(-1, set.as_ptr(), flags) }).map_err(fail)?;
        // SAFETY: the kernel just opened it and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal; `None` if there is none now. A signal that came again before it was taken
    /// counts once.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take(&self) -> Result<Option<Signal>, Error> {
        const LEN: usize = size_of::<libc::signalfd_siginfo>();
        // SAFETY: zeroes are a valid `signalfd_siginfo`.
        let mut reported: libc::signalfd_siginfo = unsafe { MaybeUninit::zeroed().assume_init() };
        let place: *mut libc::signalfd_siginfo = &mut reported;
        // SAFETY: `LEN` bytes can be written to `place`.
        let count = retry(|| unsafe { libc::read(self.0.as_raw_fd(), place.cast(), LEN) })
            .map_err(|errno| Error::new("take", "a signal", errno))?;
        Ok(count.and_then(|_| {
            Signal::ALL
                .into_iter()
                .find(|signal| signal.number().unsigned_abs() == reported.ssi_signo)
        }))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use candor_time::Nanos;

    use super::*;
    use crate::poll::{self, Interest};

    fn raise(signal: Signal) {
        // SAFETY: no pointers; it goes to the calling thread, which blocks it.
        assert_eq!(unsafe { libc::raise(signal.number()) }, 0);
    }

    /// In a thread of its own, since the others of this process block nothing.
    #[test]
    fn signals_are_read() {
        std::thread::spawn(|| {
            let signals = Signals::open(&Signal::ALL).unwrap();
            assert_eq!(signals.take(), Ok(None));
            assert_eq!(poll::wait(&signals, Interest::Read, Some(Nanos::ZERO)), Ok(false));
            for signal in Signal::ALL {
                raise(signal);
                raise(signal);
                assert_eq!(poll::wait(&signals, Interest::Read, None), Ok(true));
                assert_eq!(signals.take(), Ok(Some(signal)));
                assert_eq!(signals.take(), Ok(None), "twice counts once");
            }
            // A thread that is started later blocks them too.
            std::thread::spawn(|| raise(Signal::Terminate)).join().unwrap();
        })
        .join()
        .unwrap();
    }
}

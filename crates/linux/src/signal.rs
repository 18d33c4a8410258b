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

use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno as RawErrno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal as RawSignal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::Error;

/// A signal that a service lives with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGHUP`: read the configuration anew.
    Hangup,
    /// `SIGINT`: Ctrl+C, end.
    Interrupt,
    /// `SIGTERM`: end.
    Terminate,
    /// `SIGQUIT`: Ctrl+\\, end. By default it would leave an image of the memory, and no word.
    Quit,
    /// `SIGXCPU`: the processor time that the process may have is over (`ulimit -t`), end.
    TimeIsOver,
}

impl Signal {
    pub const ALL: [Self; 5] =
        [Self::Hangup, Self::Interrupt, Self::Terminate, Self::Quit, Self::TimeIsOver];

    pub(crate) const fn raw(self) -> RawSignal {
        match self {
            Self::Hangup => RawSignal::SIGHUP,
            Self::Interrupt => RawSignal::SIGINT,
            Self::Terminate => RawSignal::SIGTERM,
            Self::Quit => RawSignal::SIGQUIT,
            Self::TimeIsOver => RawSignal::SIGXCPU,
        }
    }
}

/// Signals that mean nothing to a service, and would end it: somebody takes it for another program, or a timer of a parent
/// goes on. They stay blocked and are never taken.
const STRAY: [RawSignal; 8] = [
    RawSignal::SIGUSR1,
    RawSignal::SIGUSR2,
    RawSignal::SIGALRM,
    RawSignal::SIGVTALRM,
    RawSignal::SIGPROF,
    RawSignal::SIGIO,
    RawSignal::SIGPWR,
    RawSignal::SIGSTKFLT,
];

/// Signals to be read. They stay blocked when it is dropped, so that none is lost that is on its
/// way.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks these signals, and those that mean nothing to a service such as `SIGUSR1`, in the calling thread and in all
    /// that it starts from now on, and lets them be read. To be called before any other thread is started.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn open(signals: &[Signal]) -> Result<Self, Error> {
        let fail = |errno: RawErrno| Error::new("wait for", "signals", errno.into());
        let set: SigSet = signals.iter().map(|signal| signal.raw()).collect();
        let stray: SigSet = STRAY.into_iter().collect();
        set.thread_block().and_then(|()| stray.thread_block()).map_err(fail)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        SignalFd::with_flags(&set, flags).map(Self).map_err(fail)
    }

    /// The next signal; `None` if there is none now. A signal that came again before it was taken
    /// counts once.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take(&self) -> Result<Option<Signal>, Error> {
        let reported = loop {
            match self.0.read_signal() {
                Err(RawErrno::EINTR) => {}
                reported => break reported,
            }
        };
        let reported = reported.map_err(|errno| Error::new("take", "a signal", errno.into()))?;
        Ok(reported.and_then(|reported| {
            let is_it = |signal: &Signal| signal.raw() as u32 == reported.ssi_signo;
            Signal::ALL.into_iter().find(is_it)
        }))
    }
}

/// From now on, [`Signal::Quit`] and [`Signal::TimeIsOver`] do what SIGTERM does: for a program that handles that one. Any
/// thread may be running.
///
/// # Errors
/// The kernel refuses.
pub fn others_as_terminate() -> Result<(), Error> {
    extern "C" fn terminate(_: libc::c_int) {
        // SAFETY: both functions may be called in a handler (`signal-safety(7)`).
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    }
    [Signal::Quit, Signal::TimeIsOver]
        .into_iter()
        // SAFETY: the handler does only what a handler may do.
        .try_for_each(|signal| unsafe { handle(signal, terminate) })
}

/// Lets a handler take a signal from now on. One that is ignored stays so, as under `nohup` or in the background of a script.
///
/// # Errors
/// The kernel refuses.
///
/// # Safety
/// The handler does only what a handler may do (`signal-safety(7)`).
pub(crate) unsafe fn handle(
    signal: Signal,
    handler: extern "C" fn(libc::c_int),
) -> Result<(), Error> {
    let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the caller promises it.
    let set = |action: &SigAction| unsafe { sigaction(signal.raw(), action) };
    set(&action)
        .and_then(|before| match before.handler() {
            SigHandler::SigIgn => set(&before).map(drop),
            _ => Ok(()),
        })
        .map_err(|errno| Error::new("handle", "signals", errno.into()))
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
        // It goes to the calling thread, which blocks it.
        nix::sys::signal::raise(signal.raw()).unwrap();
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
            // What means nothing ends nothing.
            for stray in STRAY {
                nix::sys::signal::raise(stray).unwrap();
            }
            assert_eq!(signals.take(), Ok(None));
            // A thread that is started later blocks them too.
            std::thread::spawn(|| raise(Signal::Terminate)).join().unwrap();
        })
        .join()
        .unwrap();
    }
}

//! Interrupting a thread that waits in the kernel: with a signal that does nothing else.
//!
//! ```text
//!  thread A: receive_once(...) ........ EINTR: looks whether it shall end
//!  thread B:             Sleeper::interrupt()
//! ```
//!
//! A signal that comes just before the thread begins to wait has come too early. Who wants to be
//! sure interrupts again until there is an answer: [`Sleeper::interrupt_until`].

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use candor_time::{Monotonic, Nanos};
use libc::c_int;

use crate::clock;
use crate::error::check;
use crate::{Errno, Error};

/// The right to interrupt threads of this process.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    signal: c_int,
}

/// A thread that can be interrupted.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    signal: c_int,
    process: libc::pid_t,
    thread: libc::pid_t,
}

/// The signal of this process, or why there is none.
static SIGNAL: OnceLock<Result<c_int, Error>> = OnceLock::new();

extern "C" fn nothing(_: c_int) {}

/// Gives the first real-time signal that nobody uses a handler that does nothing.
fn install() -> Result<c_int, Error> {
    for signal in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        let fail = |errno| Error::new("handle", format!("signal {signal}"), errno);
        // SAFETY: zeroes are a valid `sigaction`.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: `old` can be written.
        check(unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) }).map_err(fail)?;
        if old.sa_sigaction != libc::SIG_DFL {
            continue;
        }
        // SAFETY: as above. No flags: system calls do not go on by themselves.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, which is safe at any time.
        check(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }).map_err(fail)?;
        return Ok(signal);
    }
    Err(Error::other("handle", "a real-time signal", "all of them are in use"))
}

/// Blocks or unblocks one signal in the calling thread.
fn change_mask(how: c_int, signal: c_int) {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` can be written, and `signal` is the number of a signal.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
    }
    // SAFETY: `set` can be read, and the old one is not asked for. It fails only for a `how` that
    // does not exist.
    unsafe { libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut()) };
}

impl Wake {
    /// Sets the signal up, once per process.
    ///
    /// # Errors
    /// All real-time signals are in use.
    pub fn new() -> Result<Self, Error> {
        let signal = SIGNAL.get_or_init(install).clone()?;
        Ok(Self { signal })
    }

    /// The calling thread, to be interrupted by others. Unblocks the signal in this thread: who started
    /// the process may have blocked it, and a blocked signal interrupts nothing.
    #[must_use]
    pub fn thread(&self) -> Sleeper {
        change_mask(libc::SIG_UNBLOCK, self.signal);
        // SAFETY: no memory is involved.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        Sleeper { signal: self.signal, process, thread }
    }
}

impl Sleeper {
    /// Interrupts the thread. False if it is not there any more.
    ///
    /// # Errors
    /// Too many signals wait to be delivered.
    pub fn interrupt(&self) -> Result<bool, Error> {
        let (process, thread) = (self.process, self.thread);
        // SAFETY: no memory is involved; the handler of the signal does nothing.
        match check(unsafe { libc::syscall(libc::SYS_tgkill, process, thread, self.signal) }) {
            Ok(_) => Ok(true),
            Err(Errno(libc::ESRCH)) => Ok(false),
            Err(errno) => Err(Error::new("interrupt", format!("thread {thread}"), errno)),
        }
    }

    /// Interrupts the thread every millisecond until `is_done` or until it is not there any more.
    ///
    /// # Errors
    /// As [`Sleeper::interrupt`].
    pub fn interrupt_until(&self, mut is_done: impl FnMut() -> bool) -> Result<(), Error> {
        while !is_done() && self.interrupt()? {
            clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::poll::{self, Interest};
    use crate::quick;

    #[test]
    fn waiting_is_interrupted_however_it_waits() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        type Wait = fn(&UdpSocket) -> bool;
        let ways: [Wait; 3] = [
            |socket| quick::receive_once(socket, &mut [0; 8], true) == Ok(None),
            |socket| poll::wait_or_signal(socket, Interest::Read, None) == Ok(false),
            |_| {
                let far = clock::now::<Monotonic>() + Nanos::from_secs(1_000);
                clock::sleep_until_or_signal(far) == Ok(false)
            },
        ];
        for way in ways {
            let is_done = AtomicBool::new(false);
            let (tell, reported) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    tell.send(Wake::new().unwrap().thread()).unwrap();
                    assert!(way(&socket));
                    is_done.store(true, Ordering::Relaxed);
                });
                let sleeper = reported.recv().unwrap();
                sleeper.interrupt_until(|| is_done.load(Ordering::Relaxed)).unwrap();
            });
            assert!(is_done.into_inner());
        }
    }

    /// As when the program that starts ours blocks all signals.
    #[test]
    fn a_signal_that_was_blocked_interrupts_all_the_same() {
        const LONG: Nanos = Nanos::from_secs(20);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let is_done = AtomicBool::new(false);
        let (tell, reported) = mpsc::channel();
        let took = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let wake = Wake::new().unwrap();
                change_mask(libc::SIG_BLOCK, wake.signal);
                tell.send(wake.thread()).unwrap();
                let start = clock::now::<Monotonic>();
                poll::wait_or_signal(&socket, Interest::Read, Some(LONG)).unwrap();
                is_done.store(true, Ordering::Relaxed);
                clock::now::<Monotonic>() - start
            });
            let sleeper = reported.recv().unwrap();
            sleeper.interrupt_until(|| is_done.load(Ordering::Relaxed)).unwrap();
            thread.join().unwrap()
        });
        assert!(took < LONG, "it waited to the end: {took}");
    }

    #[test]
    fn a_thread_that_has_ended_is_reported() {
        let sleeper = std::thread::spawn(|| Wake::new().unwrap().thread()).join().unwrap();
        // The kernel may take a moment to forget it.
        sleeper.interrupt_until(|| false).unwrap();
        assert_eq!(sleeper.interrupt(), Ok(false));
    }
}

//! [`Wait`]: how the receivers of drivers wait.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use candor_linux::clock;
use candor_linux::event::Event;
use candor_linux::poll::{self, Interest};
use candor_port::{Error, Until, Waker, Wanted};
use candor_time::{Monotonic, Nanos};

use crate::kernel;

/// How a receiver waits: until something can be read, time is over, or its [`Waker`] is used.
///
/// A receiver that nobody wants to wake blocks in the call that reads, which saves the system call that
/// waits for two files at once. Then only a signal ends a wait without a limit, see
/// [`candor_linux::wake`].
#[derive(Clone, Debug, Default)]
pub struct Wait {
    event: Option<Arc<Event>>,
}

/// Whether to read, after waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be something; the call that reads does the waiting, if any.
    Read {
        /// Whether that call may wait.
        can_wait: bool,
    },
    /// There is nothing, and the waiting is over.
    Over,
}

impl Wait {
    /// For the receiver of the port of this name.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new(port: &str, wanted: Wanted) -> Result<Self, Error> {
        let event = wanted.waker.then(Event::new).transpose();
        let event = event.map_err(|error| kernel::failure(port, &error))?;
        Ok(Self { event: event.map(Arc::new) })
    }

    /// What ends the waiting from another thread, if that was wanted.
    #[must_use]
    pub fn waker(&self) -> Option<Waker> {
        let event = Arc::clone(self.event.as_ref()?);
        Some(Waker::new(move || event.set()))
    }

    /// Whether the call that reads does the waiting: [`Turn::Read`] with `can_wait`.
    pub(crate) fn is_in_call(&self, until: Until) -> bool {
        until == Until::Woken && self.event.is_none()
    }

    /// To be called before each reading from a socket.
    ///
    /// # Errors
    /// The kernel refuses.
    #[inline]
    pub fn turn(&self, socket: &impl AsFd, until: Until) -> Result<Turn, candor_linux::Error> {
        match until {
            Until::Now => Ok(Turn::Read { can_wait: false }),
            Until::Woken if self.event.is_none() => Ok(Turn::Read { can_wait: true }),
            _ => match self.for_file(socket, Interest::Read, until)? {
                true => Ok(Turn::Read { can_wait: false }),
                false => Ok(Turn::Over),
            },
        }
    }

    /// Waits until a file is ready. False if it is not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn for_file(
        &self,
        file: &impl AsFd,
        interest: Interest,
        until: Until,
    ) -> Result<bool, candor_linux::Error> {
        let Some(event) = &self.event else {
            return poll::wait_or_signal(file, interest, timeout(until));
        };
        let files = [(file.as_fd(), interest), (event.as_fd(), Interest::Read)];
        let [is_ready, was_woken] = poll::wait_each_or_signal(files, timeout(until))?;
        if was_woken {
            event.take();
        }
        Ok(is_ready)
    }

    /// Waits until one of several files can be read, or none any more.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn for_any<'fd>(
        &'fd self,
        mut files: Vec<BorrowedFd<'fd>>,
        until: Until,
    ) -> Result<(), candor_linux::Error> {
        files.extend(self.event.as_deref().map(AsFd::as_fd));
        if poll::wait_any_or_signal(&files, timeout(until))?
            && let Some(event) = &self.event
        {
            event.take();
        }
        Ok(())
    }

    /// Waits until the time is over. False if it is not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn for_nothing(&self, until: Until) -> Result<bool, candor_linux::Error> {
        match (&self.event, until) {
            (None, Until::Instant(instant)) => clock::sleep_until_or_signal(instant),
            (Some(event), _) => {
                let woken = poll::wait_or_signal(event, Interest::Read, timeout(until))?;
                if woken {
                    event.take();
                }
                Ok(!woken && is_over(until))
            }
            (None, _) => poll::wait_each_or_signal([], timeout(until)).map(|[]| is_over(until)),
        }
    }
}

/// Whether this lies in the past.
fn is_over(until: Until) -> bool {
    match until {
        Until::Now => true,
        Until::Instant(instant) => instant <= clock::now::<Monotonic>(),
        Until::Woken => false,
    }
}

/// How long that is from now; `None` for ever.
fn timeout(until: Until) -> Option<Nanos> {
    match until {
        Until::Now => Some(Nanos::ZERO),
        Until::Instant(instant) => Some(instant - clock::now::<Monotonic>()),
        Until::Woken => None,
    }
}

/// The earlier one of two, of which one is an instant.
pub(crate) fn earlier(until: Until, instant: candor_time::Instant<Monotonic>) -> Until {
    match until {
        Until::Now => Until::Now,
        Until::Instant(other) => Until::Instant(instant.min(other)),
        Until::Woken => Until::Instant(instant),
    }
}

//! What C sees of errors: a negative number, and a text per thread.

use std::cell::RefCell;
use std::ffi::{CStr, c_int};

use candor_port::{Error, ErrorKind};

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The number of the system, positive.
    pub(crate) errno: c_int,
    text: String,
}

impl Failure {
    /// With a text of the form `reason; remedy`.
    pub(crate) fn new(errno: c_int, reason: impl Into<String>, remedy: &str) -> Self {
        Self { errno, text: format!("{}; {remedy}", reason.into()) }
    }

    /// An argument is wrong.
    pub(crate) fn invalid(reason: impl Into<String>, remedy: &str) -> Self {
        Self::new(libc::EINVAL, reason, remedy)
    }

    /// The handle is closed, or never was one.
    pub(crate) fn closed() -> Self {
        Self::new(libc::EBADF, "the handle is not open", "open a bus with vca_open()")
    }

    /// Another thread is in a call that must not run twice.
    pub(crate) fn in_use() -> Self {
        let remedy = "let one thread receive and one send, and do everything else in one of them";
        Self::new(libc::EBUSY, "another thread uses this half of the bus", remedy)
    }

    /// A fault of this library.
    pub(crate) fn fault() -> Self {
        let remedy = "close the handle, and report it with what was written to the error output";
        Self::new(libc::ENOTRECOVERABLE, "the library failed", remedy)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        // By what happened, not by driver: so a program works with every bus.
        let errno = match error.kind() {
            ErrorKind::Driver => libc::EPROTONOSUPPORT,
            ErrorKind::Name => libc::EINVAL,
            ErrorKind::Missing | ErrorKind::Gone => libc::ENODEV,
            ErrorKind::Busy => libc::EBUSY,
            ErrorKind::NotPermitted => libc::EACCES,
            ErrorKind::NotSupported => libc::EOPNOTSUPP,
            ErrorKind::Down => libc::ENETDOWN,
            ErrorKind::Io => error.errno().filter(|&errno| errno > 0).unwrap_or(libc::EIO),
        };
        Self { errno, text: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the text of a failed call. Its number for C.
pub(crate) fn keep(failure: Failure) -> c_int {
    let Failure { errno, text } = failure;
    // A thread that ends has no such place any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    -errno
}

/// The last call was fine.
pub(crate) fn forget() {
    let _ = LAST.try_with(|last| last.borrow_mut().clear());
}

/// The text of the last call of this thread; empty if it was fine.
pub(crate) fn last() -> String {
    LAST.try_with(|last| last.borrow().clone()).unwrap_or_default()
}

/// What the numbers of this library mean.
const TEXTS: [(c_int, &CStr); 16] = [
    (0, c"success"),
    (libc::EINVAL, c"a name, an option or an argument is wrong"),
    (libc::EBADF, c"the handle is closed, or was not opened for this"),
    (libc::EBUSY, c"somebody else uses it, or the file exists already"),
    (libc::EAGAIN, c"no room for the frame now"),
    (libc::ECANCELED, c"the waiting was ended by vca_wake()"),
    (libc::ENODATA, c"the end: no frame will come"),
    (libc::ENODEV, c"no such device, or it is gone"),
    (libc::ENETDOWN, c"the interface is down, or the controller is stopped or bus-off"),
    (libc::EACCES, c"not permitted"),
    (libc::EOPNOTSUPP, c"the bus does not do that"),
    (libc::EMSGSIZE, c"no frame has this length"),
    (libc::EPROTONOSUPPORT, c"no such driver"),
    (libc::EIO, c"input or output failed"),
    (libc::ENOTRECOVERABLE, c"a fault of the library"),
    (libc::ENOMEM, c"no memory"),
];

/// The text of a number, negative or not.
pub(crate) fn text(error: c_int) -> &'static CStr {
    let error = error.checked_abs().unwrap_or(c_int::MAX);
    let found = TEXTS.iter().find(|(number, _)| *number == error);
    found.map_or(c"an error number of the system", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_what_happened_whatever_the_bus_is() {
        for (kind, errno, expected) in [
            (ErrorKind::Driver, None, libc::EPROTONOSUPPORT),
            (ErrorKind::Name, None, libc::EINVAL),
            (ErrorKind::Missing, Some(libc::ENOENT), libc::ENODEV),
            (ErrorKind::Gone, Some(libc::ENXIO), libc::ENODEV),
            (ErrorKind::Busy, Some(libc::EADDRINUSE), libc::EBUSY),
            (ErrorKind::NotPermitted, Some(libc::EPERM), libc::EACCES),
            (ErrorKind::NotSupported, None, libc::EOPNOTSUPP),
            (ErrorKind::Down, Some(libc::ENETDOWN), libc::ENETDOWN),
            (ErrorKind::Io, None, libc::EIO),
            (ErrorKind::Io, Some(libc::EMFILE), libc::EMFILE),
            (ErrorKind::Io, Some(-1), libc::EIO),
        ] {
            let error = Error::new("can0", "reason").of_kind(kind).with_errno(errno);
            let failure = Failure::from(error.with_remedy("remedy"));
            assert_eq!(failure.errno, expected, "{kind:?}");
            assert_eq!(keep(failure), -expected);
            assert_eq!(last(), "can0: reason; remedy");
            forget();
            assert_eq!(last(), "");
        }
    }

    #[test]
    fn every_number_has_one_text() {
        for (index, (number, _)) in TEXTS.iter().enumerate() {
            assert!(TEXTS[..index].iter().all(|(other, _)| other != number), "{number}");
        }
        assert_eq!(text(-libc::EBADF), text(libc::EBADF));
        assert_eq!(text(c_int::MIN), c"an error number of the system");
    }
}

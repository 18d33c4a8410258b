//! What the kernel says about a port.

use std::io;

use candor_linux::Errno;
use candor_port::{Error, ErrorKind};

/// The error of the kernel as one of the port of this name. Its text has the remedy.
pub(crate) fn failure(port: impl Into<String>, error: &candor_linux::Error) -> Error {
    let failure = with_errno(Error::new(port, error.to_string()), error.errno());
    // Down, away, or not there yet: an interface may return.
    match error.errno().and_then(Errno::name) {
        Some("ENETDOWN" | "ENODEV" | "ENXIO" | "ENETUNREACH") => failure.passing(),
        _ => failure,
    }
}

/// The same error, which knows the number that the standard library has.
pub(crate) fn with_number(failure: Error, error: &io::Error) -> Error {
    with_errno(failure, error.raw_os_error().map(Errno))
}

/// What was there when the port was opened is gone if it is missing now.
pub(crate) fn while_open(error: Error) -> Error {
    if error.kind() == ErrorKind::Missing { error.of_kind(ErrorKind::Gone) } else { error }
}

fn with_errno(failure: Error, errno: Option<Errno>) -> Error {
    let failure = failure.with_errno(errno.map(|Errno(number)| number));
    let kind = match errno.and_then(Errno::name) {
        Some("EACCES" | "EPERM") => ErrorKind::NotPermitted,
        Some("EADDRINUSE" | "EBUSY") => ErrorKind::Busy,
        Some("EADDRNOTAVAIL" | "ENODEV" | "ENOENT" | "ENXIO") => ErrorKind::Missing,
        Some(
            "EAFNOSUPPORT" | "ENOPROTOOPT" | "ENOSYS" | "EOPNOTSUPP" | "EPROTONOSUPPORT"
            | "ESOCKTNOSUPPORT",
        ) => ErrorKind::NotSupported,
        Some("ENETDOWN" | "ENETUNREACH") => ErrorKind::Down,
        _ => return failure,
    };
    failure.or_kind(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_kernel_have_a_kind() {
        for (number, kind) in [
            (1, ErrorKind::NotPermitted),
            (2, ErrorKind::Missing),
            (5, ErrorKind::Io),
            (16, ErrorKind::Busy),
            (19, ErrorKind::Missing),
            (95, ErrorKind::NotSupported),
            (98, ErrorKind::Busy),
            (100, ErrorKind::Down),
        ] {
            let error = io::Error::from_raw_os_error(number);
            let failure = with_number(Error::new("can0", error.to_string()), &error);
            assert_eq!((failure.kind(), failure.errno()), (kind, Some(number)));
        }
        let own = io::Error::other("no number");
        let failure = with_number(Error::new("can0", own.to_string()), &own);
        assert_eq!((failure.kind(), failure.errno()), (ErrorKind::Io, None));
        assert_eq!(while_open(failure.of_kind(ErrorKind::Missing)).kind(), ErrorKind::Gone);
    }
}

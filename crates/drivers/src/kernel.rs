//! What the kernel says about a port.

use candor_linux::Errno;
use candor_port::Error;

/// The error of the kernel as one of the port of this name. Its text has the remedy.
pub(crate) fn failure(port: impl Into<String>, error: &candor_linux::Error) -> Error {
    let failure = Error::new(port, error.to_string());
    // Down, away, or not there yet: an interface may return.
    match error.errno().and_then(Errno::name) {
        Some("ENETDOWN" | "ENODEV" | "ENXIO" | "ENETUNREACH") => failure.passing(),
        _ => failure,
    }
}

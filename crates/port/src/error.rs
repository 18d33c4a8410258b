//! [`Error`]: which port, why, and what to do.

use std::fmt;

/// What kind of thing an [`Error`] is, for programs that choose by it what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// There is no such driver.
    Driver,
    /// The name, an option or its value cannot be right on any machine.
    Name,
    /// What the name stands for does not exist here: no interface, no device, no file.
    Missing,
    /// Somebody else has it.
    Busy,
    /// This process may not.
    NotPermitted,
    /// The port, or this kernel, does not do that.
    NotSupported,
    /// The interface is down, or the controller stopped.
    Down,
    /// It was there, and is not any more.
    Gone,
    /// Anything else.
    Io,
}

/// A port cannot be opened or cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    port: String,
    reason: String,
    remedy: Option<String>,
    is_passing: bool,
    kind: Option<ErrorKind>,
    errno: Option<i32>,
}

impl Error {
    /// `reason` is why `port` cannot be used.
    #[must_use]
    pub fn new(port: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            port: port.into(),
            reason: reason.into(),
            remedy: None,
            is_passing: false,
            kind: None,
            errno: None,
        }
    }

    /// Says what kind of error it is.
    #[must_use]
    pub const fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The same, unless that has been said already.
    #[must_use]
    pub const fn or_kind(mut self, kind: ErrorKind) -> Self {
        if self.kind.is_none() {
            self.kind = Some(kind);
        }
        self
    }

    /// Adds the number that the operating system gave, if it gave one.
    #[must_use]
    pub const fn with_errno(mut self, errno: Option<i32>) -> Self {
        self.errno = errno;
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Says that it may pass: the interface may come back, the peer may return.
    #[must_use]
    pub const fn passing(mut self) -> Self {
        self.is_passing = true;
        self
    }

    /// The name of the port.
    #[must_use]
    pub fn port(&self) -> &str {
        &self.port
    }

    /// What kind of error it is; [`ErrorKind::Io`] if nobody said.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self.kind {
            Some(kind) => kind,
            None => ErrorKind::Io,
        }
    }

    /// The number of the operating system, where it gave one.
    #[must_use]
    pub const fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// Why the port cannot be used.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Why the port cannot be used and what to do, where something else says which one.
    #[must_use]
    pub fn without_port(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.reason),
            None => self.reason.clone(),
        }
    }

    /// What to do, where that is known.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// Whether it is worth to try again later.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        self.is_passing
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.port, self.without_port())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kind_of_error_it_is_does_not_change_its_text() {
        let plain = Error::new("can0", "it is down").with_remedy("switch it on");
        let exact = plain.clone().of_kind(ErrorKind::Down).with_errno(Some(100));
        assert_eq!(plain.to_string(), exact.to_string());
        assert_eq!((plain.kind(), plain.errno()), (ErrorKind::Io, None));
        assert_eq!((exact.kind(), exact.errno()), (ErrorKind::Down, Some(100)));
        assert_eq!(exact.or_kind(ErrorKind::Name).kind(), ErrorKind::Down);
        assert_eq!(plain.or_kind(ErrorKind::Name).kind(), ErrorKind::Name);
    }
}

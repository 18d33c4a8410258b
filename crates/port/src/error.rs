//! [`Error`]: which port, why, and what to do.

use std::fmt;

/// A port cannot be opened or cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    port: String,
    reason: String,
    remedy: Option<String>,
    is_passing: bool,
}

impl Error {
    /// `reason` is why `port` cannot be used.
    #[must_use]
    pub fn new(port: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { port: port.into(), reason: reason.into(), remedy: None, is_passing: false }
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

    /// Why the port cannot be used.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
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
        write!(f, "{}: {}", self.port, self.reason)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

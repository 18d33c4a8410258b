//! [`Failure`]: why an order could not be performed.

use std::fmt;

/// The remedy for what cannot happen.
pub(crate) const FAULT: &str = "this is a fault of the guest program, please report it";

/// One sentence that names the place, the reason and the remedy.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(place: &str, reason: impl fmt::Display, remedy: &str) -> Self {
        Self(format!("{place}: {reason}; {remedy}"))
    }

    /// One that another thread told, whole.
    pub(crate) const fn reported(sentence: String) -> Self {
        Self(sentence)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds the place and the remedy to any error.
pub(crate) trait Context<T> {
    /// The value, or a [`Failure`] at `place`.
    fn at(self, place: &str, remedy: &str) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn at(self, place: &str, remedy: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(place, error, remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_sentence() {
        let result: Result<(), _> = Err("no such device");
        let failure = result.at("can2", "check the machine").unwrap_err();
        assert_eq!(failure.to_string(), "can2: no such device; check the machine");
    }
}

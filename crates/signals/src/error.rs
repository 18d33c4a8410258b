//! Names that do not exist, and values that do not fit.

use std::fmt;

use candor_diagnostics::did_you_mean;

/// A name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// What was looked for: `message`, `signal` or `value`.
    pub kind: &'static str,
    pub name: String,
    /// Where it was looked for: a file, a message, a signal.
    pub place: String,
    /// The name that was probably meant.
    pub suggestion: Option<String>,
}

impl NotFound {
    /// With the candidate that is nearest to the name, if one is near.
    #[must_use]
    pub fn new<'a>(
        kind: &'static str,
        name: &str,
        place: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let suggestion = did_you_mean(name, candidates).map(str::to_owned);
        Self { kind, name: name.to_owned(), place: place.to_owned(), suggestion }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, place, suggestion } = self;
        write!(f, "no {kind} of {place} is called `{name}`")?;
        suggestion.as_ref().map_or(Ok(()), |meant| write!(f, "; did you mean `{meant}`?"))
    }
}
impl std::error::Error for NotFound {}

/// A value that cannot be put into a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum EncodeError {
    /// There is no such signal.
    Unknown(NotFound),
    /// The value is no number, or infinite, and the signal holds whole numbers.
    NotFinite {
        /// The signal's name.
        signal: String,
    },
    /// The signal has the scale 0: every value it has is its offset.
    NoScale {
        /// The signal's name.
        signal: String,
    },
    /// The bits of the signal cannot hold the value.
    OutOfRange {
        /// The signal's name.
        signal: String,
        /// The value, as all three in decimal notation.
        value: String,
        /// The smallest value that the signal's bits hold.
        min: String,
        max: String,
    },
    /// The data ends before the signal does.
    TooShort {
        /// The signal's name.
        signal: String,
        /// How many bytes it needs.
        need: usize,
        length: usize,
    },
    /// The signal is not in the frame with this value of its selector.
    NotSelected {
        /// The signal's name.
        signal: String,
        /// The name of the selector.
        selector: String,
    },
    /// No frame has this length.
    Length {
        /// The message's name.
        message: String,
        /// How many bytes the file says it has.
        length: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(not_found) => not_found.fmt(f),
            Self::NotFinite { signal } => {
                write!(f, "`{signal}` holds finite numbers only; give one")
            }
            Self::NoScale { signal } => {
                write!(f, "`{signal}` has the scale 0; correct it in the DBC file")
            }
            Self::OutOfRange { signal, value, min, max } => {
                write!(f, "`{signal}` is {value}, but must be {min} to {max}")
            }
            Self::TooShort { signal, need, length } => {
                write!(f, "`{signal}` needs {need} bytes of data, but the frame has {length}")
            }
            Self::NotSelected { signal, selector } => write!(
                f,
                "`{signal}` is not in a frame with this `{selector}`; give `{selector}` a value \
                 that selects it"
            ),
            Self::Length { message, length } => {
                write!(f, "`{message}` has {length} bytes, but a frame can have at most 64")
            }
        }
    }
}
impl std::error::Error for EncodeError {}

impl From<NotFound> for EncodeError {
    fn from(not_found: NotFound) -> Self {
        Self::Unknown(not_found)
    }
}

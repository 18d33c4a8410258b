//! [`RecordingError`]: why a recording could not be read or written.

use std::fmt;
use std::io::{self, ErrorKind};

use crate::decode::{DecodeError, Position};
use crate::encode::EncodeError;
use crate::format::{FORMATS, Format};

/// Why a recording could not be read or written: the file, the place in it, the reason and the
/// remedy.
#[derive(Debug)]
pub struct RecordingError(Box<(String, Problem)>);

/// What a [`RecordingError`] is about.
#[derive(Debug)]
pub(crate) enum Problem {
    Io(&'static str, io::Error),
    UnknownContent,
    UnknownEnding,
    Malformed(DecodeError),
    Unfit(EncodeError),
}

impl RecordingError {
    pub(crate) fn new(name: &str, problem: Problem) -> Self {
        Self(Box::new((name.to_owned(), problem)))
    }

    pub(crate) fn io(name: &str, what: &'static str, error: io::Error) -> Self {
        Self::new(name, Problem::Io(what, error))
    }

    /// The recording of that name cannot be written.
    #[must_use]
    pub fn unwritable(name: &str, error: io::Error) -> Self {
        Self::io(name, "cannot be written", error)
    }

    /// What the operating system said, if it was the one that refused.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0.1 {
            Problem::Io(_, error) => Some(error),
            _ => None,
        }
    }

    /// Whether nobody reads the output any more, which is no failure.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(&self.0.1, Problem::Io(_, error) if error.kind() == ErrorKind::BrokenPipe)
    }

    /// Whether the recording was not written since its file is already there.
    #[must_use]
    pub fn is_existing(&self) -> bool {
        matches!(&self.0.1, Problem::Io(_, error) if error.kind() == ErrorKind::AlreadyExists)
    }

    /// Whether the format cannot hold a record, while others may still be written.
    #[must_use]
    pub fn is_unfit(&self) -> bool {
        matches!(&self.0.1, Problem::Unfit(_))
    }

    /// Whether the recording is malformed in a place that [`Recording::skip_malformed`](crate::Recording::skip_malformed) passes
    /// over.
    #[must_use]
    pub fn can_be_skipped(&self) -> bool {
        matches!(&self.0.1, Problem::Malformed(error) if error.resume.is_some())
    }
}

/// What helps when any file cannot be read or written; `otherwise` if the error does not tell.
#[must_use]
pub fn remedy(error: &io::Error, otherwise: &'static str) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space on its disk",
        ErrorKind::FileTooLarge => {
            "raise the limit of file sizes (`ulimit -f`, or LimitFSIZE= of systemd), or write smaller files"
        }
        _ => otherwise,
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, problem) = &*self.0;
        match problem {
            Problem::Io(what, error) => {
                let remedy = remedy(error, "check the path, its permissions and the disk");
                write!(f, "{name}: {what}: {error}; {remedy}")
            }
            Problem::UnknownContent => {
                write!(
                    f,
                    "{name}: not a recording in one of the formats {}; convert other formats with \
                     python-can: `python3 -m can.logconvert IN OUT.log`",
                    list(|f| f.name)
                )
            }
            Problem::UnknownEnding => write!(
                f,
                "{name}: unknown file extension; use one of {}, or name the format",
                list(|format| format.endings[0])
            ),
            Problem::Malformed(DecodeError {
                position: Position::Text { line, column },
                reason,
                ..
            }) => {
                write!(f, "{name}:{line}:{column}: {reason}")
            }
            Problem::Malformed(error) => write!(f, "{name}: {error}"),
            Problem::Unfit(error) => write!(f, "{name}: {error}"),
        }
    }
}

fn list(what: impl Fn(&Format) -> &'static str) -> String {
    FORMATS.iter().map(|format| what(format)).collect::<Vec<_>>().join(", ")
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.1 {
            Problem::Io(_, error) => Some(error),
            Problem::Malformed(error) => Some(error),
            Problem::Unfit(error) => Some(error),
            Problem::UnknownContent | Problem::UnknownEnding => None,
        }
    }
}

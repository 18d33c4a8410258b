//! [`RecordingError`]: why a recording could not be read or written.

use std::fmt;
use std::io::{self, ErrorKind};

use crate::compression::{Compression, is_wrong_checksum};
use crate::decode::{DecodeError, Position};
use crate::encode::EncodeError;
use crate::format::{FORMATS, Format};
use crate::record::{InterfaceError, MAX_INTERFACES};

/// Why a recording could not be read or written: the file, the place in it, the reason and the
/// remedy.
#[derive(Debug)]
pub struct RecordingError(Box<(String, Problem)>);

/// What a [`RecordingError`] is about.
#[derive(Debug)]
pub(crate) enum Problem {
    Io(&'static str, io::Error),
    UnknownContent,
    /// A text that has the name of a recording in this format, and no frame.
    OnlyByName(&'static Format, DecodeError),
    UnknownEnding,
    /// What is compressed in pieces.
    NotGrowing(String),
    /// What it is compressed with cannot be read further, from this byte of the file; no checksum confirms so many records before.
    Compressed {
        what: Compression,
        offset: u64,
        unverified: u64,
        error: io::Error,
    },
    /// Compressed again inside.
    Twice(Compression),
    Malformed(DecodeError),
    Unfit(EncodeError),
    /// The time of a record, counted from 1, that shifted by so much is none.
    Shifted {
        record: u64,
        time_ns: u64,
        shift_ns: i128,
    },
    /// An interface of a recording that is merged with others.
    Interface(InterfaceError),
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

    /// Whether the source was only not ready ([`ErrorKind::WouldBlock`]): then reading goes on where it was.
    #[must_use]
    pub fn is_pause(&self) -> bool {
        matches!(&self.0.1, Problem::Io(_, error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Whether the recording was not written since its file is already there.
    #[must_use]
    pub fn is_existing(&self) -> bool {
        matches!(&self.0.1, Problem::Io(_, error) if error.kind() == ErrorKind::AlreadyExists)
    }

    /// Whether the file is no recording at all, or one of a format that is not known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(&self.0.1, Problem::UnknownContent | Problem::OnlyByName(..))
    }

    /// Whether what the recording is compressed with ends too early, or with a wrong checksum: all before was read.
    pub(crate) fn is_end_of_compressed(&self) -> bool {
        matches!(&self.0.1, Problem::Compressed { error, .. }
            if error.kind() == ErrorKind::UnexpectedEof || is_wrong_checksum(error))
    }

    /// Whether a record is malformed.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(&self.0.1, Problem::Malformed(_))
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
    /// Too many open files, on every architecture of Linux (`asm-generic/errno-base.h`).
    const EMFILE: i32 = 24;
    match error.kind() {
        _ if error.raw_os_error() == Some(EMFILE) => {
            "raise the limit of open files (`ulimit -n`, or LimitNOFILE= of systemd)"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space on its disk",
        ErrorKind::WouldBlock => "open it again",
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
                    "{name}: not a recording in one of the formats {}",
                    list(FORMATS.iter().map(|format| format.name))
                )
            }
            Problem::OnlyByName(format, DecodeError { position, reason, .. }) => {
                let names = list(Format::all_by_file_name(name).map(|it| it.name));
                write!(
                    f,
                    "{name}: not a recording: its name is one of {names}, but no line at its beginning is a frame; as {}, \
                     {position}: {reason}",
                    format.name
                )
            }
            Problem::UnknownEnding => {
                let what = match Format::by_file_name(name) {
                    Some(format) => format!("the format {} is read, but not written", format.name),
                    None => "unknown file extension".to_owned(),
                };
                let endings = list(Format::written().map(|format| format.endings[0]));
                write!(
                    f,
                    "{name}: {what}; use one of {endings} (with .gz or .zst behind it, to compress it), or name the format"
                )
            }
            Problem::NotGrowing(what) => write!(
                f,
                "{name}: {what} is compressed piece by piece, so the last piece would be lost if recording ended early; record \
                 into .log or .pcapng, and convert that with `candor log convert`"
            ),
            Problem::Compressed { what, offset, unverified, error } => {
                write!(f, "{name}: {}", compressed(*what, *offset, error))?;
                match unverified {
                    0 => Ok(()),
                    count => write!(
                        f,
                        "; records before it that are unverified, since no checksum confirms them: {count}"
                    ),
                }
            }
            Problem::Twice(what) => {
                write!(f, "{name}: it is compressed twice; decompress it once with `{what} -d`")
            }
            Problem::Malformed(DecodeError {
                position: Position::Text { line, column },
                reason,
                ..
            }) => {
                write!(f, "{name}:{line}:{column}: {reason}")
            }
            Problem::Malformed(error) => write!(f, "{name}: {error}"),
            Problem::Unfit(error) => write!(f, "{name}: {error}"),
            Problem::Shifted { record, time_ns, shift_ns } => write!(
                f,
                "{name}: record {record}, stamped {} s, would be {} if shifted by {} s; shift it by less",
                seconds(i128::from(*time_ns)),
                if *shift_ns < 0 { "before 0" } else { "later than a stamp can be (2554)" },
                seconds(*shift_ns)
            ),
            Problem::Interface(InterfaceError::TooMany) => write!(
                f,
                "{name}: more than {MAX_INTERFACES} different interfaces in all; merge fewer recordings"
            ),
            Problem::Interface(error) => write!(f, "{name}: {error}"),
        }
    }
}

/// Why what is compressed cannot be read further, and what to do about it.
fn compressed(what: Compression, offset: u64, error: &io::Error) -> String {
    if error.kind() == ErrorKind::UnexpectedEof {
        return format!(
            "byte {offset}: the file ends inside what is compressed with {what}: it was not written to its end"
        );
    }
    let rest = match error.to_string() {
        _ if is_wrong_checksum(error) => {
            "has a wrong checksum; nothing behind it was read, copy the file again".to_owned()
        }
        // The library has no other mark for it.
        text if text.contains("window_size is too big") => {
            "needs a window of more than 128 MiB; decompress it first, with `zstd -d --long=31`"
                .to_owned()
        }
        text => format!("is damaged: {text}; the rest cannot be read, copy the file again"),
    };
    format!("near byte {offset}: what is compressed with {what} {rest}")
}

/// Nanoseconds as seconds with all decimals.
fn seconds(ns: i128) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn list(words: impl Iterator<Item = &'static str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.1 {
            Problem::Io(_, error) => Some(error),
            Problem::Malformed(error) | Problem::OnlyByName(_, error) => Some(error),
            Problem::Unfit(error) => Some(error),
            Problem::Interface(error) => Some(error),
            Problem::Compressed { error, .. } => Some(error),
            Problem::UnknownContent
            | Problem::UnknownEnding
            | Problem::NotGrowing(_)
            | Problem::Shifted { .. }
            | Problem::Twice(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_name_what_raises_them() {
        for (error, expected) in [
            (io::Error::from_raw_os_error(24), "ulimit -n"),
            (io::Error::from(ErrorKind::FileTooLarge), "ulimit -f"),
            (io::Error::from(ErrorKind::StorageFull), "free space"),
            (io::Error::from(ErrorKind::NotFound), "otherwise"),
        ] {
            assert!(remedy(&error, "otherwise").contains(expected), "{error}");
        }
    }
}

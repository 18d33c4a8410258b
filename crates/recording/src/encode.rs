//! [`Encoder`]: records in, bytes out; what formats have in common when they write.

use std::fmt;

use crate::record::{InterfaceError, Packet, Record};

pub(crate) const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Writes one recording.
pub trait Encoder: Send {
    /// Appends `record`, seen on the interface of that name, to `out`, or keeps it until several are compressed at once or
    /// [`Encoder::finish`] is called. The record's own
    /// [`Record::interface`] does not count: it belongs to the recording it was read from.
    ///
    /// # Errors
    /// The format cannot hold the record; `out` is as before.
    fn encode(
        &mut self,
        record: &Record,
        interface: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError>;

    /// As [`Encoder::encode`], for a frame of Ethernet.
    ///
    /// # Errors
    /// Most formats hold only CAN.
    fn encode_ethernet(
        &mut self,
        _record: &Record<Packet<'_>>,
        _interface: &str,
        _out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        Err(EncodeError::Ethernet)
    }

    /// When the measurement began, in nanoseconds since 1970; to be said before the first record. Formats without a start, and
    /// recordings whose first record is earlier, do not keep it.
    fn start(&mut self, _start_ns: u64) {}

    /// Appends what is left. If the beginning of the recording is to change, it returns what takes its place, of the same
    /// length; whoever cannot go back leaves it.
    fn finish(&mut self, _out: &mut Vec<u8>) -> Option<Vec<u8>> {
        None
    }
}

/// Of formats that are only read.
pub(crate) struct ReadOnly;

impl Encoder for ReadOnly {
    fn encode(&mut self, _: &Record, _: &str, _: &mut Vec<u8>) -> Result<(), EncodeError> {
        Err(EncodeError::ReadOnly)
    }
}

/// Why a format cannot hold a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A second interface in a format that knows only one.
    SecondInterface,
    /// An interface that cannot be named.
    Interface(InterfaceError),
    /// A time after the format's last, in nanoseconds.
    TimeTooLate(u64),
    /// A frame of Ethernet in a format for CAN.
    Ethernet,
    /// The format is only read.
    ReadOnly,
    /// A time before the start of the measurement, in nanoseconds, in a format that counts from there.
    BeforeStart(u64),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecondInterface => f.write_str(
                "the format holds only one interface, but the recording has several; use pcapng \
                 or candump",
            ),
            Self::Interface(error) => error.fmt(f),
            Self::TimeTooLate(time_ns) => write!(
                f,
                "a time of {} s is after the year 2106, the limit of the format; use pcapng or \
                 candump",
                time_ns / NANOS_PER_SECOND
            ),
            Self::ReadOnly => f.write_str("the format is only read; use pcapng or candump"),
            Self::Ethernet => f.write_str("the format holds only CAN frames; use pcapng"),
            Self::BeforeStart(time_ns) => write!(
                f,
                "a frame at {}.{:09} s is before the first one of the recording, from which the format \
                 counts times; put the records in order of time (--sort), or use pcapng or candump",
                time_ns / NANOS_PER_SECOND,
                time_ns % NANOS_PER_SECOND
            ),
        }
    }
}
impl std::error::Error for EncodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_format_cannot_hold_is_said_with_the_remedy() {
        for (error, words) in [
            (
                EncodeError::SecondInterface,
                "only one interface, but the recording has several; use",
            ),
            (EncodeError::Interface(InterfaceError::Length(0)), "the interface has 0 bytes"),
            (
                EncodeError::TimeTooLate(5_000_000_000_999_999_999),
                "a time of 5000000000 s is after",
            ),
            (EncodeError::Ethernet, "only CAN frames; use pcapng"),
        ] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

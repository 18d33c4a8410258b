//! [`Decoder`]: reads the records of an [`Input`]; what formats have in common when they read.

use std::fmt;
use std::io;

use candor_wire::can::FrameError;
use candor_wire::can::notation;
use candor_wire::can::tunnel;
use candor_wire::eth::udp;

use crate::input::Input;
use crate::record::{InterfaceError, Interfaces, PacketSpan, Record};

/// The longest record that is kept as a whole.
pub const MAX_RECORD_LEN: usize = 65_536;
/// The longest line of a text format.
pub const MAX_LINE_LEN: usize = 4_096;

/// What a [`Decoder`] read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A CAN frame.
    Record(Record),
    /// An Ethernet frame, and where it is in [`Input::taken`].
    Ethernet(Record<PacketSpan>),
    /// No frame: a header, a comment, a packet of another protocol.
    Skip,
    /// The recording is over.
    End,
}

/// What a recording has that is no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Ethernet frames, where only CAN frames were asked for.
    pub ethernet_frames: u64,
    /// What is none of CAN or Ethernet: packets of other protocols, other objects of a BLF recording, other events of an
    /// ASC log; and Ethernet packets longer than [`MAX_RECORD_LEN`].
    pub other_packets: u64,
    /// Frames the recorder says it lost.
    pub lost_frames: u64,
}

/// Reads one recording.
pub trait Decoder: Send {
    /// Reads on in `input`, always the same one, and consumes what it read.
    ///
    /// # Errors
    /// The input cannot be read, or is not ready: nothing is lost, and the next call goes on. Or it is malformed: if
    /// [`DecodeError::resume`] is given, the caller may consume that many bytes and go on; else the rest cannot be understood.
    fn next(&mut self, input: &mut Input) -> Result<Step, ReadError>;

    /// The interfaces seen so far.
    fn interfaces(&self) -> &Interfaces;

    /// What was passed over so far.
    fn passed_over(&self) -> PassedOver {
        PassedOver::default()
    }

    /// When the measurement began, in nanoseconds since 1970, if the recording has said so.
    fn start_ns(&self) -> Option<u64> {
        None
    }
}

/// Why a [`Decoder`] could not read on.
#[derive(Debug)]
pub enum ReadError {
    /// The input cannot be read, or is not ready.
    Io(io::Error),
    /// It is malformed.
    Malformed(DecodeError),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<DecodeError> for ReadError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for ReadError {}

/// Why and where a recording is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Where.
    pub position: Position,
    /// Why, and what to do about it.
    pub reason: Reason,
    /// How many bytes to consume in order to go on behind the malformed record, if that is possible;
    /// 0 if it was consumed already.
    pub resume: Option<usize>,
}

/// A place in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// In a text.
    Text {
        /// Counts from 1.
        line: u64,
        /// In bytes, counts from 1.
        column: usize,
    },
    /// In a binary file.
    Binary {
        /// Offset of the header or record from the start of the file.
        offset: u64,
        /// Which record, counting from 1; 0 for a header.
        record: u64,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line, column } => write!(f, "{line}:{column}"),
            Self::Binary { offset, record: 0 } => write!(f, "byte {offset}"),
            Self::Binary { offset, record } => write!(f, "byte {offset} (record {record})"),
        }
    }
}

/// Why a recording is malformed. Shown as one sentence that ends with the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A frame in text is not readable; the position says where.
    Notation(notation::Reason),
    /// A frame is not legal.
    Frame(FrameError),
    /// An interface cannot be named.
    Interface(InterfaceError),
    /// The datagram to this UDP port, which is can2udp's, is not in its frame.
    Udp(u16, udp::Incomplete),
    /// The datagram to this UDP port, which is can2udp's, is none of can2udp.
    Can2udp(u16, tunnel::Malformed),
    /// The file cannot be read there.
    Io(io::ErrorKind),
    /// Anything else.
    Text(&'static str),
    /// Anything else, with a number between two texts.
    Number(&'static str, u64, &'static str),
}

/// What to do if datagrams are taken for those of can2udp.
const OTHER_PORT: &str =
    "set --can-udp (can_udp= of a file port) to the UDP port of the CAN frames, or to none";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notation(reason) => reason.fmt(f),
            Self::Frame(error) => error.fmt(f),
            Self::Interface(error) => error.fmt(f),
            Self::Udp(port, error) => write!(f, "UDP port {port}: {error}; {OTHER_PORT}"),
            Self::Can2udp(port, error) => write!(
                f,
                "the datagram to UDP port {port} is not of can2udp: {error}; {OTHER_PORT}"
            ),
            Self::Io(kind) => write!(f, "cannot be read: {kind}; check the file and the disk"),
            Self::Text(text) => f.write_str(text),
            Self::Number(before, number, after) => write!(f, "{before}{number}{after}"),
        }
    }
}

/// The last record of a recorder that was stopped in the middle of it.
pub(crate) const CUT: Reason = Reason::Text(
    "the file ends inside this record: the recorder was stopped, or its disk was full",
);

/// A format that is read in places all over the file.
pub(crate) const SCATTERED: Reason = Reason::Text(
    "an MF4 recording is read in places all over the file, which a pipe or a compressed file does not allow; \
     write it into a file first, and decompress it",
);

impl DecodeError {
    /// Whether the recording only ends too early: inside a record, behind which there is nothing. What
    /// comes before it is whole.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.reason == CUT
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.reason)
    }
}
impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_where_and_why() {
        let text = |line, column| Position::Text { line, column };
        let binary = |offset, record| Position::Binary { offset, record };
        for (position, reason, expected) in [
            (text(3, 14), Reason::Text("no."), "3:14: no."),
            (binary(24, 0), Reason::Number("only ", 7, " bytes"), "byte 24: only 7 bytes"),
            (
                binary(24, 2),
                Reason::Notation(notation::Reason::Data),
                "byte 24 (record 2): a data byte needs two hex digits",
            ),
            (text(1, 1), Reason::Frame(FrameError::RemoteFd), "1:1: CAN FD has no remote frames"),
            (
                text(1, 1),
                Reason::Interface(InterfaceError::Length(256)),
                "1:1: the name of the interface has 256 bytes; it must have 1 to 255",
            ),
            (
                text(1, 1),
                Reason::Interface(InterfaceError::TooMany),
                "1:1: more than 256 different interfaces; split the recording by interface",
            ),
            (
                text(1, 1),
                Reason::Interface(InterfaceError::NotUtf8),
                "1:1: the name of the interface is not UTF-8; rename it",
            ),
        ] {
            let error = DecodeError { position, reason, resume: None };
            assert_eq!(error.to_string(), expected);
            assert!(!error.is_cut());
        }
        let cut = DecodeError { position: text(9, 1), reason: CUT, resume: None };
        assert!(cut.is_cut());
    }
}

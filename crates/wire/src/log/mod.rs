//! Recordings: one file per format and one registry.
//!
//! A [`Decoder`] is pushed bytes and gives records; an [`Encoder`] is given records and appends
//! bytes. Neither does I/O, and neither keeps more than a few names and counters: the caller owns
//! the one buffer, so a recording of 10 GB needs no more memory than a small one. The price is a
//! small loop on the caller's side (below), written once for files in `candor-lab`.
//!
//! | format | file | interfaces | directions | time |
//! |---|---|---|---|---|
//! | candump log | `candump.rs` | by name | ` R`, ` T` at the end of the line | 1 to 9 decimals |
//! | pcap, link type 227 | `pcap.rs` | one, unnamed | - | micro- or nanoseconds, until 2106 |
//! | pcapng, link type 227 | `pcapng.rs` | by name | in the packet flags | any resolution |
//!
//! To add a format: write one file with a `pub(super) static FORMAT`, and name it in [`FORMATS`].
//!
//! ```
//! use candor_wire::log::{Format, Step};
//!
//! let mut rest: &[u8] = b"(0000000012.500000) can0 123#DEADBEEF\n";
//! let format = Format::by_content(rest).expect("it begins like a candump log");
//! let mut decoder = format.decoder();
//! let mut times = Vec::new();
//! loop {
//!     match decoder.decode(rest, true)? {
//!         Step::Record { consumed, record } => {
//!             times.push((record.time_ns, decoder.interfaces().name(record.interface).to_owned()));
//!             rest = &rest[consumed..];
//!         }
//!         Step::Skip { consumed } => rest = &rest[consumed..],
//!         Step::NeedMore => unreachable!("the input is at its end"),
//!         Step::End => break,
//!     }
//! }
//! assert_eq!(times, [(12_500_000_000, "can0".to_owned())]);
//! # Ok::<(), candor_wire::log::LogError>(())
//! ```

mod candump;
mod pcap;
mod pcapng;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::Frame;
use crate::frame::FrameError;
use crate::notation;

/// Every format there is, in the order in which messages list them.
pub static FORMATS: &[&Format] = &[&candump::FORMAT, &pcap::FORMAT, &pcapng::FORMAT];

/// A [`Decoder`] asks for more bytes until it has this many, never beyond: the least room a
/// caller's buffer needs.
pub const MAX_RECORD_LEN: usize = 65_536;
/// The longest line of a text format.
pub const MAX_LINE_LEN: usize = 4_096;
/// How many different interfaces one recording may name.
pub const MAX_INTERFACES: usize = 256;
/// The longest name of an interface in bytes. (Linux allows 15, captures of other systems more.)
pub const MAX_INTERFACE_NAME_LEN: usize = 255;

/// A format of recordings: what it is called, what it can hold, and how to read and write it.
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// The name in sentences.
    pub title: &'static str,
    /// Endings of file names without the dot, the usual one first.
    pub endings: &'static [&'static str],
    /// Whether it names the interface of each frame; else a recording has only one.
    pub keeps_interfaces: bool,
    /// Whether it tells received frames from transmitted ones.
    pub keeps_directions: bool,
    begins: fn(&[u8]) -> bool,
    decoder: fn() -> Box<dyn Decoder>,
    encoder: fn(&mut Vec<u8>) -> Box<dyn Encoder>,
}

impl Format {
    /// The format of this [`Format::name`].
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| format.name == name)
    }

    /// The format with the ending of this file name, in any case.
    #[must_use]
    pub fn by_file_name(file_name: &str) -> Option<&'static Self> {
        let (_, ending) = file_name.rsplit_once('.')?;
        FORMATS
            .iter()
            .copied()
            .find(|format| format.endings.iter().any(|known| known.eq_ignore_ascii_case(ending)))
    }

    /// The format of a recording that begins with `head`; 4 bytes suffice unless a text begins
    /// with comments.
    #[must_use]
    pub fn by_content(head: &[u8]) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| (format.begins)(head))
    }

    /// A decoder for one recording.
    #[must_use]
    pub fn decoder(&self) -> Box<dyn Decoder> {
        (self.decoder)()
    }

    /// An encoder for one recording; appends the header of the format to `out`.
    #[must_use]
    pub fn encoder(&self, out: &mut Vec<u8>) -> Box<dyn Encoder> {
        (self.encoder)(out)
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Format {}

/// One frame of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since the zero of whoever recorded, usually 1970.
    pub time_ns: u64,
    /// Where it was seen; [`Decoder::interfaces`] knows the name.
    pub interface: InterfaceIndex,
    /// Whether the recorder received or sent it, if the recording says so.
    pub direction: Option<Direction>,
    /// The frame, or an error report.
    pub frame: Frame,
}

/// Which way a frame went, seen from the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came from the bus.
    Received,
    /// The recorder's own machine sent it.
    Transmitted,
}

/// Which interface of a recording; counts from 0 in the order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceIndex(pub u16);

/// The names of the interfaces seen so far: at most [`MAX_INTERFACES`].
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    names: Vec<String>,
    /// The name asked for last: runs of one interface cost one comparison.
    latest: usize,
}

impl Interfaces {
    /// The name of an interface; empty for an index from elsewhere.
    #[must_use]
    pub fn name(&self, index: InterfaceIndex) -> &str {
        self.names.get(usize::from(index.0)).map_or("", String::as_str)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All indices with their names, in the order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (InterfaceIndex, &str)> {
        self.names.iter().enumerate().map(|(i, name)| (InterfaceIndex(i as u16), name.as_str()))
    }

    /// The index of `name`, which is added if it is new.
    ///
    /// # Errors
    /// No legal name, or too many.
    pub fn intern(&mut self, name: &[u8]) -> Result<InterfaceIndex, InterfaceError> {
        let is_latest = self.names.get(self.latest).is_some_and(|known| known.as_bytes() == name);
        if !is_latest {
            let known = self.names.iter().position(|known| known.as_bytes() == name);
            self.latest = match known {
                Some(index) => index,
                None => self.add(name)?,
            };
        }
        Ok(InterfaceIndex(self.latest as u16))
    }

    fn add(&mut self, name: &[u8]) -> Result<usize, InterfaceError> {
        if self.names.len() == MAX_INTERFACES {
            return Err(InterfaceError::TooMany);
        }
        if name.is_empty() || name.len() > MAX_INTERFACE_NAME_LEN {
            return Err(InterfaceError::Length(name.len()));
        }
        let name = core::str::from_utf8(name).map_err(|_| InterfaceError::NotUtf8)?;
        self.names.push(name.into());
        Ok(self.names.len() - 1)
    }
}

/// Why something is no name of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceError {
    /// More than [`MAX_INTERFACES`].
    TooMany,
    /// Empty, or longer than [`MAX_INTERFACE_NAME_LEN`]; the number of bytes.
    Length(usize),
    /// Not text.
    NotUtf8,
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(
                f,
                "more than {MAX_INTERFACES} different interfaces; split the recording by interface"
            ),
            Self::Length(len) => write!(
                f,
                "the name of the interface has {len} bytes; it must have 1 to \
                 {MAX_INTERFACE_NAME_LEN}"
            ),
            Self::NotUtf8 => f.write_str("the name of the interface is not UTF-8; rename it"),
        }
    }
}
impl core::error::Error for InterfaceError {}

/// What a [`Decoder`] made of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame, in the first `consumed` bytes.
    Record {
        /// How many bytes to drop before the next call.
        consumed: usize,
        /// The frame.
        record: Record,
    },
    /// No frame in the first `consumed` bytes: a header, a comment, a packet of another protocol.
    Skip {
        /// How many bytes to drop before the next call, at least one.
        consumed: usize,
    },
    /// Call again with the same bytes and some more, or with `at_end`.
    NeedMore,
    /// The recording is over.
    End,
}

/// What a recording told of that is no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Packets of other protocols, recorded together with CAN.
    pub other_packets: u64,
    /// Frames the recorder says it lost.
    pub lost_frames: u64,
}

/// Reads one recording.
///
/// The caller shows a window of the bytes not yet consumed and does what the [`Step`] says. The
/// windows may be cut anywhere: the records do not depend on it. As long as the window is shorter
/// than [`MAX_RECORD_LEN`] a decoder may answer [`Step::NeedMore`], never with `at_end`.
pub trait Decoder: Send {
    /// Looks at `input`, the bytes right after those consumed so far; `at_end` if none follow.
    ///
    /// # Errors
    /// Malformed input. If [`LogError::resume`] is given, the caller may drop that many bytes and
    /// go on; else the rest cannot be understood.
    fn decode(&mut self, input: &[u8], at_end: bool) -> Result<Step, LogError>;

    /// The interfaces seen so far.
    fn interfaces(&self) -> &Interfaces;

    /// What was passed over so far.
    fn passed_over(&self) -> PassedOver {
        PassedOver::default()
    }
}

/// Writes one recording.
pub trait Encoder: Send {
    /// Appends `record`, seen on the interface of that name, to `out`. The record's own
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
}

/// Why and where a recording is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// Where.
    pub position: Position,
    /// Why, and what to do about it.
    pub reason: Reason,
    /// How many bytes to drop in order to go on behind the malformed record, if that is possible;
    /// 0 if it was dropped already.
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
    /// Anything else.
    Text(&'static str),
    /// Anything else, with a number between two texts.
    Number(&'static str, u64, &'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notation(reason) => reason.fmt(f),
            Self::Frame(error) => error.fmt(f),
            Self::Interface(error) => error.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Number(before, number, after) => write!(f, "{before}{number}{after}"),
        }
    }
}

/// The last record of a recorder that was stopped in the middle of it.
const CUT: Reason = Reason::Text(
    "the file ends inside this record: the recorder was stopped, or its disk was full",
);

impl LogError {
    /// Whether the recording only ends too early: inside a record, behind which there is nothing. What
    /// comes before it is whole.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.reason == CUT
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.reason)
    }
}
impl core::error::Error for LogError {}

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
        }
    }
}
impl core::error::Error for EncodeError {}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// What the name of an interface is if the recording has none.
const UNNAMED: &str = "can0";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{ERR_FLAG, FD_LENGTHS, SFF_MASK};
    use crate::{ExtendedId, Id, StandardId};
    use alloc::string::ToString;
    use proptest::prelude::*;

    /// A record with the name of its interface.
    type Named = (u64, String, Option<Direction>, Frame);

    /// Shows the decoder windows that grow by the given chunks, again and again.
    pub(super) fn decode_in_chunks(
        format: &Format,
        bytes: &[u8],
        chunks: &[usize],
    ) -> Result<Vec<Named>, LogError> {
        let mut decoder = format.decoder();
        let mut chunks = chunks.iter().copied().cycle();
        let (mut start, mut end) = (0, 0);
        let mut records = Vec::new();
        loop {
            match decoder.decode(&bytes[start..end], end == bytes.len())? {
                Step::Record { consumed, record } => {
                    let name = decoder.interfaces().name(record.interface).into();
                    records.push((record.time_ns, name, record.direction, record.frame));
                    start += consumed;
                }
                Step::Skip { consumed } => {
                    assert!(consumed > 0);
                    start += consumed;
                }
                Step::NeedMore => {
                    assert!(end < bytes.len(), "asks for more at the end");
                    end = bytes.len().min(end + chunks.next().unwrap_or(usize::MAX).max(1));
                }
                Step::End => {
                    assert_eq!(start, bytes.len());
                    return Ok(records);
                }
            }
        }
    }

    pub(super) fn decode(format: &Format, bytes: &[u8]) -> Result<Vec<Named>, LogError> {
        decode_in_chunks(format, bytes, &[bytes.len()])
    }

    pub(super) fn encode(format: &Format, records: &[Named]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = format.encoder(&mut out);
        for (time_ns, name, direction, frame) in records {
            let interface = InterfaceIndex(0);
            let record =
                Record { time_ns: *time_ns, interface, direction: *direction, frame: *frame };
            encoder.encode(&record, name, &mut out).unwrap();
        }
        out
    }

    fn any_id() -> impl Strategy<Value = Id> {
        prop_oneof![
            (0..=SFF_MASK as u16).prop_map(|raw| StandardId::new(raw).unwrap().into()),
            (0..1_u32 << 29).prop_map(|raw| ExtendedId::new(raw).unwrap().into()),
        ]
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        let bytes = |len| proptest::collection::vec(any::<u8>(), len);
        prop_oneof![
            (any_id(), bytes(0..=8)).prop_map(|(id, data)| Frame::new(id, &data).unwrap()),
            (any_id(), 0..=8_usize).prop_map(|(id, len)| Frame::remote(id, len).unwrap()),
            (any_id(), 9..=15_u8, bytes(8..=8)).prop_map(|(id, dlc, data)| {
                Frame::new(id, &data).unwrap().with_raw_dlc(dlc).unwrap()
            }),
            (any_id(), 0..=3_u8, 0..16_usize, bytes(64..=64)).prop_map(|(id, flags, dlc, data)| {
                Frame::fd(id, flags, &data[..usize::from(FD_LENGTHS[dlc])]).unwrap()
            }),
            (0..1_u32 << 29, bytes(0..=8)).prop_map(|(class, data)| {
                Frame::from_parts(class | ERR_FLAG, &data, None).unwrap()
            }),
        ]
    }

    fn any_record() -> impl Strategy<Value = Named> {
        let time = prop_oneof![
            0..u64::MAX,
            // Whole microseconds, as most recorders have them.
            (0..u64::MAX / 1_000).prop_map(|us| us * 1_000),
            Just(0),
        ];
        let name = prop_oneof![Just("can0"), Just("vcan-body.1"), Just("c")];
        let direction = prop_oneof![
            Just(None),
            Just(Some(Direction::Received)),
            Just(Some(Direction::Transmitted)),
        ];
        (time, name.prop_map(String::from), direction, any_frame())
    }

    /// What is left of records after a stay in `format`.
    fn as_kept_by(format: &Format, records: &[Named]) -> Vec<Named> {
        let mut kept = records.to_vec();
        for (time_ns, name, direction, _) in &mut kept {
            if !format.keeps_interfaces {
                *name = UNNAMED.into();
                *time_ns %= (1 << 32) * NANOS_PER_SECOND;
            }
            if !format.keeps_directions {
                *direction = None;
            }
        }
        kept
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in proptest::collection::vec(any_record(), 0..20),
            chunks in proptest::collection::vec(1..200_usize, 1..10),
        ) {
            for format in FORMATS {
                let records = as_kept_by(format, &records);
                let bytes = encode(format, &records);
                prop_assert_eq!(&decode_in_chunks(format, &bytes, &chunks).unwrap(), &records);
                prop_assert_eq!(&decode_in_chunks(format, &bytes, &[1]).unwrap(), &records);
                if !records.is_empty() || format.name != "candump" {
                    prop_assert_eq!(Format::by_content(&bytes), Some(*format));
                }
            }
        }

        #[test]
        fn a_damaged_recording_does_not_depend_on_the_chunks(
            records in proptest::collection::vec(any_record(), 1..5),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u32,
            chunks in proptest::collection::vec(1..200_usize, 1..10),
        ) {
            for format in FORMATS {
                let mut bytes = encode(format, &as_kept_by(format, &records));
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
                let outcome = |result: Result<Vec<Named>, LogError>| {
                    result.map_err(|error| (error.position, error.reason))
                };
                prop_assert_eq!(
                    outcome(decode_in_chunks(format, &bytes, &chunks)),
                    outcome(decode(format, &bytes))
                );
            }
        }
    }

    #[test]
    fn formats_are_found_by_name_and_ending() {
        assert_eq!(Format::by_name("pcapng"), Some(&pcapng::FORMAT));
        assert_eq!(Format::by_name("pcapn"), None);
        assert_ne!(Format::by_name("pcap"), Format::by_name("pcapng"));
        assert_eq!(alloc::format!("{FORMATS:?}"), "[candump, pcap, pcapng]");
        for (file_name, name) in [
            ("a.log", Some("candump")),
            ("a.b.PCAP", Some("pcap")),
            ("dir.log/a.pcapng", Some("pcapng")),
            ("pcap", None),
            ("a.xlsx", None),
        ] {
            assert_eq!(Format::by_file_name(file_name).map(|format| format.name), name);
        }
    }

    #[test]
    fn interfaces_are_numbered_as_they_appear_and_bounded() {
        let mut interfaces = Interfaces::default();
        for (name, index) in [("can1", 0), ("can0", 1), ("can0", 1), ("can1", 0)] {
            assert_eq!(interfaces.intern(name.as_bytes()), Ok(InterfaceIndex(index)));
        }
        for n in 2..MAX_INTERFACES {
            interfaces.intern(n.to_string().as_bytes()).unwrap();
        }
        assert_eq!(interfaces.intern(b"one more"), Err(InterfaceError::TooMany));
        assert_eq!(interfaces.intern(b"can0"), Ok(InterfaceIndex(1)));
        assert_eq!(interfaces.len(), MAX_INTERFACES);

        let mut interfaces = Interfaces::default();
        assert_eq!(interfaces.intern(b""), Err(InterfaceError::Length(0)));
        assert_eq!(interfaces.intern(&[b'c'; 256]), Err(InterfaceError::Length(256)));
        assert_eq!(interfaces.intern(b"\xFF"), Err(InterfaceError::NotUtf8));
        assert_eq!(interfaces.name(InterfaceIndex(0)), "");
    }

    #[test]
    fn interfaces_are_listed_with_their_numbers() {
        let mut interfaces = Interfaces::default();
        assert!(interfaces.is_empty());
        interfaces.intern(b"can1").unwrap();
        interfaces.intern(&[b'c'; MAX_INTERFACE_NAME_LEN]).unwrap();
        assert!(!interfaces.is_empty());
        let listed: Vec<_> = interfaces.iter().map(|(index, name)| (index.0, name.len())).collect();
        assert_eq!(listed, [(0, 4), (1, 255)]);
    }

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
            let error = LogError { position, reason, resume: None };
            assert_eq!(error.to_string(), expected);
            assert!(!error.is_cut());
        }
        let cut = LogError { position: text(9, 1), reason: CUT, resume: None };
        assert!(cut.is_cut());
    }

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
        ] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

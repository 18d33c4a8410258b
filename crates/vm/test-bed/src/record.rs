//! [`Record`]: what happened on a bus, as bytes of a fixed number.
//!
//! All numbers are little-endian.
//!
//! | bytes | |
//! |---|---|
//! | 0..8 | when, in ns of the machine's clock |
//! | 8 | what: the number of the [`Event`] |
//! | 9, 10 | the bus, and its node; or the network card, and 0 |
//! | 11 | 1 if the node is a controller of the guest, or the guest has answered |
//! | 12..16 | 0 |
//! | 16..32 | two numbers of the event |
//! | 32..104 | the [frame](crate::frame), or up to four further numbers |

use core::fmt;

use candor_can::Statistics;
use candor_wire::can::Frame;

use crate::frame::{self, FRAME_BYTES};
use crate::station::StationCount;

/// A record takes so many bytes.
pub const RECORD_BYTES: usize = 32 + FRAME_BYTES;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The tester starts: times of its plan count from here.
    Started,
    /// A frame got through: its end of frame is over. If an error hit its last bit, the others have it as well, and it
    /// passes once more.
    Passed {
        frame: Frame,
        /// Since when its node wanted to send it, in ns: the tester as its plan says, a controller since the driver
        /// asked for it.
        requested_ns: u64,
        /// When its start of frame began, in ns.
        started_ns: u64,
    },
    /// An error destroyed a frame of this node; its error flag begins.
    Failed {
        /// The kind of the error, as an SJA1000 captures it.
        kind: u8,
        /// Where in the frame, as an SJA1000 captures it.
        segment: u8,
    },
    /// Its error counter took this node off the bus.
    BusOff,
    /// This node takes part, for the first time or again.
    TakesPart,
    /// Controllers of the guest have another bit rate than their bus, in bit/s.
    OtherBitrate(u32),
    /// A controller of the guest received frames for which its memory had no room, or a sender that answers received requests
    /// for whose answers it had none: so many so far.
    Overrun(u64),
    /// The tester is done.
    Done,
    /// All that happened on this bus, at the end.
    Statistics(Statistics),
    /// The last frame of an answer has arrived at the station of this card.
    Answer {
        /// When the first frame of the request began, in ns.
        requested_ns: u64,
    },
    /// All that the station of this card counted, at the end.
    Station(StationCount),
}

/// What happened, when and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// When, in ns.
    pub at_ns: u64,
    /// The bus; or the network card.
    pub bus: u8,
    /// The node of the bus.
    pub node: u8,
    /// Whether the node is a controller of the guest.
    pub is_guest: bool,
    pub event: Event,
}

/// The bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError;

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is no record of a test bed")
    }
}

impl core::error::Error for RecordError {}

impl Record {
    #[must_use]
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let (number, [a, b], rest) = match self.event {
            Event::Started => (1, [0; 2], [0; FRAME_BYTES]),
            Event::Passed { frame, requested_ns, started_ns } => {
                (2, [requested_ns, started_ns], frame::bytes(&frame))
            }
            Event::Failed { kind, segment } => (3, [kind.into(), segment.into()], [0; FRAME_BYTES]),
            Event::BusOff => (4, [0; 2], [0; FRAME_BYTES]),
            Event::TakesPart => (5, [0; 2], [0; FRAME_BYTES]),
            Event::OtherBitrate(rate) => (6, [rate.into(), 0], [0; FRAME_BYTES]),
            Event::Overrun(count) => (7, [count, 0], [0; FRAME_BYTES]),
            Event::Done => (8, [0; 2], [0; FRAME_BYTES]),
            Event::Statistics(it) => {
                let mut rest = [0; FRAME_BYTES];
                let numbers = [it.bus_offs, it.busy_ns, it.first_ns, it.last_ns];
                rest[..32].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
                (9, [it.frames, it.error_frames], rest)
            }
            Event::Answer { requested_ns } => (10, [requested_ns, 0], [0; FRAME_BYTES]),
            Event::Station(it) => {
                let mut rest = [0; FRAME_BYTES];
                let numbers = [it.frames, it.refused, it.received].map(u64::to_le_bytes);
                rest[..24].copy_from_slice(numbers.as_flattened());
                (11, [it.datagrams, it.answers], rest)
            }
        };
        let mut bytes = [0; RECORD_BYTES];
        let (head, tail) = bytes.split_at_mut(32);
        head[..8].copy_from_slice(&self.at_ns.to_le_bytes());
        head[8..12].copy_from_slice(&[number, self.bus, self.node, self.is_guest.into()]);
        head[16..24].copy_from_slice(&a.to_le_bytes());
        head[24..32].copy_from_slice(&b.to_le_bytes());
        tail.copy_from_slice(&rest);
        bytes
    }

    /// The record of these bytes.
    ///
    /// # Errors
    /// They are not of one.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Result<Self, RecordError> {
        let number = |at: usize| {
            bytes.get(at..).and_then(|it| it.first_chunk()).map_or(0, |it| u64::from_le_bytes(*it))
        };
        let (a, b) = (number(16), number(24));
        let small = |number: u64| u8::try_from(number).map_err(|_| RecordError);
        let event = match bytes[8] {
            1 => Event::Started,
            2 => {
                let frame = bytes.last_chunk().and_then(frame::read).ok_or(RecordError)?;
                Event::Passed { frame, requested_ns: a, started_ns: b }
            }
            3 => Event::Failed { kind: small(a)?, segment: small(b)? },
            4 => Event::BusOff,
            5 => Event::TakesPart,
            6 => Event::OtherBitrate(u32::try_from(a).map_err(|_| RecordError)?),
            7 => Event::Overrun(a),
            8 => Event::Done,
            9 => Event::Statistics(Statistics {
                frames: a,
                error_frames: b,
                bus_offs: number(32),
                busy_ns: number(40),
                first_ns: number(48),
                last_ns: number(56),
                ..Statistics::default()
            }),
            10 => Event::Answer { requested_ns: a },
            11 => Event::Station(StationCount {
                datagrams: a,
                answers: b,
                frames: number(32),
                refused: number(40),
                received: number(48),
            }),
            _ => return Err(RecordError),
        };
        let is_guest = match bytes[11] {
            0 => false,
            1 => true,
            _ => return Err(RecordError),
        };
        Ok(Self { at_ns: number(0), bus: bytes[9], node: bytes[10], is_guest, event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let frame = |text: &str| text.parse().unwrap();
        let statistics = Statistics {
            frames: 1,
            error_frames: 2,
            bus_offs: 3,
            busy_ns: 1 << 60,
            first_ns: 4,
            last_ns: 1 << 61,
            ..Statistics::default()
        };
        let station =
            StationCount { datagrams: 1, answers: 2, frames: 3, refused: 4, received: 1 << 60 };
        for event in [
            Event::Started,
            Event::Passed { frame: frame("123#1122"), requested_ns: 5, started_ns: 1 << 40 },
            Event::Passed { frame: frame("1ABCDEFF##311"), requested_ns: 5, started_ns: 7 },
            Event::Passed { frame: frame("7FF#R8"), requested_ns: u64::MAX, started_ns: 7 },
            Event::Failed { kind: 2, segment: 0x19 },
            Event::BusOff,
            Event::TakesPart,
            Event::OtherBitrate(125_000),
            Event::Overrun(773),
            Event::Done,
            Event::Statistics(statistics),
            Event::Answer { requested_ns: 1 << 41 },
            Event::Station(station),
        ] {
            for is_guest in [false, true] {
                let record = Record { at_ns: 1 << 50, bus: 7, node: 23, is_guest, event };
                let mut bytes = record.to_bytes();
                assert_eq!(Record::from_bytes(&bytes), Ok(record));
                bytes[11] = 2;
                assert_eq!(Record::from_bytes(&bytes), Err(RecordError));
            }
        }
        assert_eq!(Record::from_bytes(&[0; RECORD_BYTES]), Err(RecordError));
    }
}

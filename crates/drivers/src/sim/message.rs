//! The messages between nodes and hub: all have one length, so that a stream of them needs no
//! framing. Both ends are of this machine, so numbers are as it has them.
//!
//! ```text
//!  | kind (1) | flags (1) | bytes of the frame (1) | 0 (5) | number (8) | number (8) | frame (72) |
//! ```
//!
//! | from | kind | numbers |
//! |---|---|---|
//! | node | join | its number; the bit rates it asks for, 0 for any |
//! | hub | accepted | frames of other nodes that this bus has had; its bit rates |
//! | hub | refused | -; the bit rates of the bus |
//! | hub | full | - |
//! | node | transmit | - |
//! | hub | received | when it was complete (ns since 1970); frames lost so far |
//! | hub | transmitted | frames of this node so far |
//! | hub | lost | frames lost so far, where no frame comes that could tell |

use std::os::unix::net::UnixStream;

use candor_linux::quick;
use candor_wire::can::socketcan::{self, CANFD_MTU, IdOrder};
use candor_wire::can::{Bitrate, Frame, Timing};

/// Bytes of a message.
pub(super) const LEN: usize = 24 + CANFD_MTU;
/// How many are read at once.
const BATCH: usize = 32;
/// The version of all this, part of the flags of whoever joins.
const VERSION: u8 = 2;

/// What a node connects for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To receive what other nodes transmit.
    Receive,
    /// To receive what it transmits itself too.
    ReceiveOwn,
    Transmit,
}

/// The bit rates of a bus, 0 for one that does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates {
    pub(super) nominal: u32,
    pub(super) data: u32,
}

impl Rates {
    pub(super) const fn from_timing(timing: Timing) -> Self {
        Self { nominal: timing.nominal.bits_per_second(), data: timing.data.bits_per_second() }
    }

    /// The timing, if both rates are some.
    pub(super) fn timing(self) -> Option<Timing> {
        Some(Timing { nominal: Bitrate::new(self.nominal)?, data: Bitrate::new(self.data)? })
    }

    /// Whether a bus with these rates is what was asked for.
    pub(super) const fn satisfies(self, asked: Self) -> bool {
        (asked.nominal == 0 || asked.nominal == self.nominal)
            && (asked.data == 0 || asked.data == self.data)
    }

    const fn to_number(self) -> u64 {
        self.nominal as u64 | (self.data as u64) << 32
    }

    const fn from_number(number: u64) -> Self {
        Self { nominal: number as u32, data: (number >> 32) as u32 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Message {
    Join {
        node: u64,
        purpose: Purpose,
        asked: Rates,
    },
    Accepted {
        passed: u64,
        rates: Rates,
    },
    Refused(Rates),
    /// A frame and when it was handed over, in ns of the monotonic clock.
    Transmit(Frame, u64),
    Received {
        frame: Frame,
        is_own: bool,
        time_ns: u64,
        lost: u64,
    },
    Transmitted(u64),
    Full,
    Lost(u64),
}

impl Message {
    pub(super) fn encode(&self) -> [u8; LEN] {
        let (kind, flags, first, second, frame) = match self {
            Self::Join { node, purpose, asked } => {
                (1, VERSION << 4 | *purpose as u8, *node, asked.to_number(), None)
            }
            Self::Accepted { passed, rates } => (2, 0, *passed, rates.to_number(), None),
            Self::Refused(rates) => (3, 0, 0, rates.to_number(), None),
            Self::Transmit(frame, at_ns) => (4, 0, *at_ns, 0, Some(frame)),
            Self::Received { frame, is_own, time_ns, lost } => {
                (5, u8::from(*is_own), *time_ns, *lost, Some(frame))
            }
            Self::Transmitted(count) => (6, 0, *count, 0, None),
            Self::Full => (7, 0, 0, 0, None),
            Self::Lost(lost) => (8, 0, 0, *lost, None),
        };
        let mut bytes = [0; LEN];
        bytes[0] = kind;
        bytes[1] = flags;
        bytes[8..16].copy_from_slice(&first.to_ne_bytes());
        bytes[16..24].copy_from_slice(&second.to_ne_bytes());
        if let Some(frame) = frame {
            let (layout, len) = socketcan::encode(frame, IdOrder::NATIVE);
            bytes[2] = len as u8;
            bytes[24..].copy_from_slice(&layout);
        }
        bytes
    }

    /// `None` if it is no message of this version.
    pub(super) fn decode(bytes: &[u8; LEN]) -> Option<Self> {
        let [kind, flags, len, _, _, _, _, _, rest @ ..] = bytes;
        let (first, rest) = rest.split_first_chunk::<8>()?;
        let (second, frame) = rest.split_first_chunk::<8>()?;
        let (first, second) = (u64::from_ne_bytes(*first), u64::from_ne_bytes(*second));
        let frame = || socketcan::decode(frame.get(..usize::from(*len))?, IdOrder::NATIVE).ok();
        let rates = Rates::from_number(second);
        Some(match kind {
            1 if flags >> 4 == VERSION => {
                let purpose = match flags & 0xF {
                    0 => Purpose::Receive,
                    1 => Purpose::ReceiveOwn,
                    2 => Purpose::Transmit,
                    _ => return None,
                };
                Self::Join { node: first, purpose, asked: rates }
            }
            2 => Self::Accepted { passed: first, rates },
            3 => Self::Refused(rates),
            4 => Self::Transmit(frame()?, first),
            5 => {
                let is_own = flags & 1 != 0;
                Self::Received { frame: frame()?, is_own, time_ns: first, lost: second }
            }
            6 => Self::Transmitted(first),
            7 => Self::Full,
            8 => Self::Lost(second),
            _ => return None,
        })
    }
}

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// There may be messages.
    Bytes,
    /// There is nothing now, or a signal came.
    Nothing,
    /// The other side has closed.
    Closed,
}

/// Cuts a stream into messages.
pub(super) struct Reader {
    bytes: [u8; BATCH * LEN],
    start: usize,
    end: usize,
}

impl Reader {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; BATCH * LEN], start: 0, end: 0 }
    }

    /// Reads once.
    pub(super) fn fill(&mut self, stream: &UnixStream, can_wait: bool) -> ReadOutcome {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        // There is room: less than a message is left.
        let room = self.bytes.get_mut(self.end..).unwrap_or_default();
        match quick::receive_once(stream, room, can_wait) {
            Ok(Some(0)) | Err(_) => ReadOutcome::Closed,
            Ok(Some(count)) => {
                self.end += count;
                ReadOutcome::Bytes
            }
            Ok(None) => ReadOutcome::Nothing,
        }
    }

    /// The next message that is there as a whole; an error for what is none.
    pub(super) fn next(&mut self) -> Option<Result<Message, ()>> {
        let bytes = self.bytes.get(self.start..self.end)?.first_chunk::<LEN>()?;
        self.start += LEN;
        Some(Message::decode(bytes).ok_or(()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use proptest::prelude::*;

    fn messages() -> Vec<Message> {
        let frame = |text: &str| text.parse::<Frame>().unwrap();
        let rates = Rates { nominal: 500_000, data: 2_000_000 };
        vec![
            Message::Join { node: u64::MAX, purpose: Purpose::ReceiveOwn, asked: rates },
            Message::Join { node: 1, purpose: Purpose::Transmit, asked: Rates::default() },
            Message::Accepted { passed: 5, rates },
            Message::Refused(rates),
            Message::Transmit(frame("12345678##1AABB"), 3),
            Message::Transmit(frame("7FF#1122334455667788_C"), u64::MAX),
            Message::Received { frame: frame("123#R4"), is_own: true, time_ns: 7, lost: 9 },
            Message::Transmitted(12),
            Message::Full,
            Message::Lost(u64::MAX),
        ]
    }

    #[test]
    fn messages_are_read_wherever_the_stream_is_cut() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let bytes: Vec<u8> = messages().iter().flat_map(Message::encode).collect();
        for piece in [1, 7, LEN, LEN + 1, bytes.len()] {
            let (mut reader, mut read) = (Reader::new(), Vec::new());
            for bytes in bytes.chunks(piece) {
                ours.write_all(bytes).unwrap();
                assert_eq!(reader.fill(&theirs, true), ReadOutcome::Bytes);
                read.extend(std::iter::from_fn(|| reader.next()).map(Result::unwrap));
            }
            assert_eq!(read, messages(), "pieces of {piece}");
            assert_eq!(reader.fill(&theirs, true), ReadOutcome::Nothing);
        }
        drop(ours);
        assert_eq!(Reader::new().fill(&theirs, true), ReadOutcome::Closed);
    }

    #[test]
    fn rates_satisfy_who_asks_for_less() {
        let bus = Rates { nominal: 500_000, data: 2_000_000 };
        for (nominal, data, is_satisfied) in [
            (0, 0, true),
            (500_000, 0, true),
            (0, 2_000_000, true),
            (250_000, 0, false),
            (500_000, 1_000_000, false),
        ] {
            assert_eq!(bus.satisfies(Rates { nominal, data }), is_satisfied, "{nominal} {data}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::array::uniform32(any::<u8>())) {
            let mut message = [0; LEN];
            message[..32].copy_from_slice(&bytes);
            if let Some(read) = Message::decode(&message) {
                prop_assert_eq!(Message::decode(&read.encode()), Some(read));
            }
        }
    }
}

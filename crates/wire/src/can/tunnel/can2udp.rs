//! can2udp of Cogent Embedded: a frame per datagram, as SocketCAN has it in memory.
//!
//! | bytes | version 1 (20) | version 2 (84) |
//! |---|---|---|
//! | 0 | version | version |
//! | 1 | flags: 1 timeout | flags: 1 timeout |
//! | 2..4 | number of the interface | number of the interface |
//! | 4.. | `struct can_frame`, 16 bytes | `struct canfd_frame`, 72 bytes |
//! | 76..84 | - | nanoseconds since 1970, or 0 |
//!
//! Numbers are those of the sender's processor; all that run it are little-endian.
//!
//! Version 2 does not say whether a frame is classical. Newer kernels set a flag (FDF) in a CAN FD
//! frame; else a frame is taken for one if it has more than 8 bytes or another flag of CAN FD. What
//! stands behind the data is whatever was in the sender's memory, and does not count.

use super::{Malformed, Reason};
use crate::can::Frame;
use crate::can::frame::{BRS, ESI, FrameError};
use crate::can::socketcan::{self, CAN_MTU, CANFD_MTU, FDF, HEADER_LEN, IdOrder};

/// The port that can2udp sends to.
pub const PORT: u16 = 4858;
/// The size of the longest datagram: that of version 2.
pub const MAX_LEN: usize = START + CANFD_MTU + 8;

/// Where the frame begins.
const START: usize = 4;
/// The size of a datagram of version 1.
const CLASSICAL_LEN: usize = START + CAN_MTU;
/// The flag of a datagram that was sent because no frame came.
const TIMEOUT: u8 = 1;

/// The version of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Classical frames.
    V1,
    /// CAN FD and the time.
    V2,
}

/// What a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its version.
    pub version: Version,
    /// The number of the sender's interface.
    pub interface: u16,
    /// The frame; `None` in a datagram that was sent because no frame came.
    pub frame: Option<Frame>,
    /// When the sender had the frame, in nanoseconds since 1970; zero counts as unknown.
    pub time_ns: Option<u64>,
}

impl Datagram {
    /// Reads a datagram.
    ///
    /// # Errors
    /// Another version, another size than its version has, or something that is no frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (version, len) = match bytes.first() {
            None => return Err(Malformed::new(0, Reason::Cut(CLASSICAL_LEN))),
            Some(1) => (Version::V1, CLASSICAL_LEN),
            Some(2) => (Version::V2, MAX_LEN),
            Some(&other) => return Err(Malformed::new(0, Reason::Version(other))),
        };
        if bytes.len() > len {
            return Err(Malformed::new(len, Reason::Surplus(bytes.len() - len)));
        }
        let cut = Malformed::new(bytes.len(), Reason::Cut(len - bytes.len()));
        if bytes.len() < len {
            return Err(cut);
        }
        let ([_, flags, i0, i1], rest) = bytes.split_first_chunk::<START>().ok_or(cut)?;
        let frame = match flags & TIMEOUT {
            0 => Some(match version {
                Version::V1 => classical(rest),
                Version::V2 => either(rest),
            }?),
            _ => None,
        };
        let time_ns = match version {
            Version::V1 => None,
            Version::V2 => rest.last_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
        };
        Ok(Self {
            version,
            interface: u16::from_le_bytes([*i0, *i1]),
            frame,
            time_ns: time_ns.filter(|&time| time != 0),
        })
    }

    /// Writes a datagram to the start of `out`; returns its size. `None` for a CAN FD frame in
    /// version 1, which has none.
    #[must_use]
    pub fn encode(&self, out: &mut [u8; MAX_LEN]) -> Option<usize> {
        let flags = if self.frame.is_none() { TIMEOUT } else { 0 };
        let [i0, i1] = self.interface.to_le_bytes();
        match self.version {
            Version::V1 => {
                let encode = |frame| socketcan::encode_classical(frame, IdOrder::LittleEndian);
                let frame = self.frame.as_ref().map_or(Some([0; CAN_MTU]), encode)?;
                out[..START].copy_from_slice(&[1, flags, i0, i1]);
                out[START..CLASSICAL_LEN].copy_from_slice(&frame);
                Some(CLASSICAL_LEN)
            }
            Version::V2 => {
                let encode = |frame| socketcan::encode(frame, IdOrder::LittleEndian).0;
                let frame = self.frame.as_ref().map_or([0; CANFD_MTU], encode);
                out[..START].copy_from_slice(&[2, flags, i0, i1]);
                out[START..START + CANFD_MTU].copy_from_slice(&frame);
                out[START + CANFD_MTU..].copy_from_slice(&self.time_ns.unwrap_or(0).to_le_bytes());
                Some(MAX_LEN)
            }
        }
    }
}

/// A `struct can_frame`. Its bytes 5 and 6 have no use.
fn classical(bytes: &[u8]) -> Result<Frame, Malformed> {
    let Some(mut layout) = bytes.first_chunk::<CAN_MTU>().copied() else {
        return Err(Malformed::new(START + bytes.len(), Reason::Cut(CAN_MTU - bytes.len())));
    };
    [layout[5], layout[6]] = [0; 2];
    if let Some(frame) = socketcan::decode_tidy(&layout, IdOrder::LittleEndian) {
        return Ok(frame);
    }
    frame(&layout, FrameError::ClassicalTooLong(usize::from(layout[4])))
}

/// A `struct canfd_frame` in which there may be a `struct can_frame`.
fn either(bytes: &[u8]) -> Result<Frame, Malformed> {
    let Some(layout) = bytes.first_chunk::<CANFD_MTU>() else {
        return Err(Malformed::new(START + bytes.len(), Reason::Cut(CANFD_MTU - bytes.len())));
    };
    let is_fd = layout[5] & (FDF | BRS | ESI) != 0 || usize::from(layout[4]) > CAN_MTU - HEADER_LEN;
    match is_fd {
        true => frame(layout, FrameError::FdLength(usize::from(layout[4]))),
        false => classical(layout),
    }
}

/// The frame in a layout; `too_long` if its data do not fit in there.
fn frame(layout: &[u8], too_long: FrameError) -> Result<Frame, Malformed> {
    socketcan::decode(layout, IdOrder::LittleEndian).map_err(|error| {
        let is_too_long = matches!(error, FrameError::Short(..));
        Malformed::frame(START, if is_too_long { too_long } else { error })
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::can::tunnel::testing;

    const CLASSICAL: [u8; CLASSICAL_LEN] =
        [1, 0, 0x34, 0x12, 0x23, 1, 0, 0, 2, 0, 0, 0, 0xAA, 0xBB, 0, 0, 0, 0, 0, 0];

    /// A datagram of version 2 with these bytes at its start and this time.
    fn v2(start: &[u8], time: u64) -> [u8; MAX_LEN] {
        let mut bytes = [0; MAX_LEN];
        bytes[0] = 2;
        bytes[1..=start.len()].copy_from_slice(start);
        bytes[START + CANFD_MTU..].copy_from_slice(&time.to_le_bytes());
        bytes
    }

    fn frame(text: &str) -> Option<Frame> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn bytes_stand_where_can2udp_puts_them() {
        let first = Datagram {
            version: Version::V1,
            interface: 0x1234,
            frame: frame("123#AABB"),
            time_ns: None,
        };
        assert_eq!(Datagram::decode(&CLASSICAL), Ok(first));
        let mut out = [0xEE; MAX_LEN];
        assert_eq!(first.encode(&mut out), Some(20));
        assert_eq!(out[..20], CLASSICAL);

        let second = Datagram {
            version: Version::V2,
            interface: 1,
            frame: frame("12345678##3AABB"),
            time_ns: Some(0x0102_0304_0506_0708),
        };
        let start = [0, 1, 0, 0x78, 0x56, 0x34, 0x92, 2, 7, 0, 0, 0xAA, 0xBB];
        let bytes = v2(&start, 0x0102_0304_0506_0708);
        assert_eq!(Datagram::decode(&bytes), Ok(second));
        assert_eq!(second.encode(&mut out), Some(84));
        assert_eq!(out, bytes);
        assert_eq!(Datagram { version: Version::V1, ..second }.encode(&mut out), None);
    }

    #[test]
    fn version_2_tells_classical_frames_by_what_they_lack() {
        let cases: [(&[u8], &str); 6] = [
            (&[0x23, 1, 0, 0, 2, 0, 0, 0, 0xAA, 0xBB], "123#AABB"),
            (&[0x23, 1, 0, 0, 2, FDF, 0, 0, 0xAA, 0xBB], "123##0AABB"),
            (&[0x23, 1, 0, 0, 2, BRS, 0, 0, 0xAA, 0xBB], "123##1AABB"),
            (&[0x23, 1, 0, 0, 12, 0, 0, 0], "123##0000000000000000000000000"),
            (&[0x23, 1, 0, 0x40, 4, 0, 0, 0], "123#R4"),
            (&[0x23, 1, 0, 0, 8, 0, 0, 13], "123#0000000000000000_D"),
        ];
        for (layout, text) in cases {
            let mut start = Vec::from([0, 0, 0]);
            start.extend(layout);
            // Rubbish behind the data does not count.
            let mut bytes = v2(&start, 0);
            bytes[60] = 0xEE;
            let read = Datagram::decode(&bytes).unwrap();
            assert_eq!((read.frame, read.time_ns), (frame(text), None), "{text}");
        }
    }

    #[test]
    fn a_timeout_is_no_frame() {
        let timeout =
            Datagram { version: Version::V2, interface: 3, frame: None, time_ns: Some(9) };
        let mut out = [0; MAX_LEN];
        assert_eq!(timeout.encode(&mut out), Some(MAX_LEN));
        assert_eq!(Datagram::decode(&out), Ok(timeout));
        assert_eq!(out, v2(&[TIMEOUT, 3, 0], 9));
    }

    #[test]
    fn what_is_not_right_is_refused_with_the_place() {
        let with = |at: usize, byte| {
            let mut bytes = CLASSICAL;
            bytes[at] = byte;
            Datagram::decode(&bytes).unwrap_err()
        };
        let illegal = |offset, error| Malformed::new(offset, Reason::Frame(error));
        assert_eq!(with(0, 0), Malformed::new(0, Reason::Version(0)));
        assert_eq!(with(0, 3), Malformed::new(0, Reason::Version(3)));
        assert_eq!(with(0, 2), Malformed::new(20, Reason::Cut(64)));
        assert_eq!(with(8, 9), illegal(8, FrameError::ClassicalTooLong(9)));
        assert_eq!(with(8, 0x80), illegal(8, FrameError::Xl));
        assert_eq!(with(5, 8), illegal(4, FrameError::StandardIdTooLarge(0x823)));
        assert_eq!(Datagram::decode(&[]), Err(Malformed::new(0, Reason::Cut(20))));
        assert_eq!(Datagram::decode(&CLASSICAL[..19]), Err(Malformed::new(19, Reason::Cut(1))));
        let long = v2(&[0, 0, 0, 1, 0, 0, 0, 65], 0);
        assert_eq!(Datagram::decode(&long), Err(illegal(8, FrameError::FdLength(65))));
        let odd = v2(&[0, 0, 0, 1, 0, 0, 0, 13], 0);
        assert_eq!(Datagram::decode(&odd), Err(illegal(8, FrameError::FdLength(13))));
        let remote = v2(&[0, 0, 0, 1, 0, 0, 0x40, 0, 1], 0);
        assert_eq!(Datagram::decode(&remote), Err(illegal(4, FrameError::RemoteFd)));
        for more in [1, 3] {
            let mut surplus = Vec::from(CLASSICAL);
            surplus.resize(20 + more, 0);
            assert_eq!(Datagram::decode(&surplus), Err(Malformed::new(20, Reason::Surplus(more))));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            frame in testing::frame(),
            interface: u16,
            time: u64,
            is_first: bool,
        ) {
            let version = if is_first { Version::V1 } else { Version::V2 };
            let time_ns = (!is_first && time != 0).then_some(time);
            let datagram = Datagram { version, interface, frame: Some(frame), time_ns };
            let mut out = [0; MAX_LEN];
            match datagram.encode(&mut out) {
                None => prop_assert!(is_first && frame.is_fd()),
                Some(len) => {
                    prop_assert_eq!(Datagram::decode(&out[..len]), Ok(datagram));
                    for end in 0..len {
                        prop_assert!(Datagram::decode(&out[..end]).is_err());
                    }
                }
            }
        }

        #[test]
        fn any_bytes_end(mut bytes in prop::collection::vec(any::<u8>(), 84), short: bool) {
            bytes.truncate(if short { 20 } else { 84 });
            bytes[0] = if short { 1 } else { 2 };
            if let Ok(datagram) = Datagram::decode(&bytes) {
                let mut out = [0; MAX_LEN];
                let len = datagram.encode(&mut out).unwrap();
                prop_assert_eq!(Datagram::decode(&out[..len]), Ok(datagram));
            }
        }
    }
}

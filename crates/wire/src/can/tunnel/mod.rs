//! CAN over Ethernet: frames in datagrams and in streams, one file per format.
//!
//! Bytes in, values out, and the other way round: nothing here opens a socket, reads a clock or
//! allocates. Encoders write into the caller's buffer; decoders hand frames over one by one.
//!
//! | format | file | unit | aggregates | time | raw DLC | error reports |
//! |---|---|---|---|---|---|---|
//! | cannelloni, version 2 | `cannelloni.rs` | UDP datagram | yes | - | - | yes |
//! | cannelloni, `CANNELLONIv1` | `cannelloni.rs` | TCP stream | - | - | - | yes |
//! | can2udp, versions 1 and 2 | `can2udp.rs` | UDP datagram | - | version 2 | yes | yes |
//! | python-can's `udp_multicast` | `multicast.rs` | UDP datagram | - | yes | - | yes |
//!
//! What is not right is refused with the place and the reason ([`Malformed`]). Of a datagram either
//! all frames are taken or none: where one length is wrong, the others are not to be trusted. In a
//! stream, the frames before the place are good, and there are none behind it.

pub mod can2udp;
pub mod cannelloni;
pub mod multicast;

use core::fmt;

use crate::can::frame::FrameError;

/// Why bytes are refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The byte at which it was seen, counted from the start of the datagram or stream.
    pub offset: u64,
    /// What is wrong there.
    pub reason: Reason,
}

impl Malformed {
    pub(crate) const fn new(offset: usize, reason: Reason) -> Self {
        Self { offset: offset as u64, reason }
    }

    /// A frame whose identifier word stands at `offset`, with the length byte behind it.
    pub(crate) const fn frame(offset: usize, error: FrameError) -> Self {
        let within = match error {
            FrameError::ClassicalTooLong(_) | FrameError::FdLength(_) | FrameError::Xl => 4,
            _ => 0,
        };
        Self::new(offset + within, Reason::Frame(error))
    }

    /// The same, seen from a stream in which these bytes stand at `start`.
    pub(crate) const fn behind(self, start: u64) -> Self {
        Self { offset: start + self.offset, reason: self.reason }
    }
}

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A version that the format does not have; the version.
    Version(u8),
    /// An operation other than data; its code.
    Operation(u8),
    /// A stream that does not begin with `CANNELLONIv1`.
    Hello,
    /// The bytes end before the value does; how many more it takes at least.
    Cut(usize),
    /// Bytes behind the last value; how many.
    Surplus(usize),
    /// Something that is no legal frame.
    Frame(FrameError),
    /// An error report that asks for data.
    RemoteErrorReport,
    /// Something that does not begin as a map of MessagePack does.
    NoMap,
    /// A value of MessagePack of another kind than this key has.
    Kind(&'static str),
    /// A number that is none for this key.
    Number(&'static str),
    /// A length that is not that of the data; the length, the bytes of data.
    Length(u64, usize),
    /// A byte that begins no value of MessagePack.
    Marker(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.reason)
    }
}
impl core::error::Error for Malformed {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Version(version) => write!(f, "unknown version {version}"),
            Self::Operation(code) => write!(f, "operation {code}, but only data (0) is supported"),
            Self::Hello => f.write_str("the stream does not begin with CANNELLONIv1"),
            Self::Cut(more) => write!(f, "the bytes end here, but {more} more are needed"),
            Self::Surplus(count) => write!(f, "{count} bytes follow the last value"),
            Self::Frame(error) => error.fmt(f),
            Self::RemoteErrorReport => f.write_str("an error report cannot be a remote frame"),
            Self::NoMap => f.write_str("expected a MessagePack map"),
            Self::Kind(key) => write!(f, "the value of `{key}` has the wrong type"),
            Self::Number(key) => write!(f, "the number is out of range for `{key}`"),
            Self::Length(len, data) => {
                write!(f, "the length is {len}, but there are {data} bytes of data")
            }
            Self::Marker(byte) => write!(f, "{byte:#04x} does not start a MessagePack value"),
        }
    }
}

/// Why a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It does not fit in any more.
    Full,
    /// The format has no such frame.
    Unsupported,
}

/// Frames for the tests of the formats.
#[cfg(test)]
pub(crate) mod testing {
    use proptest::prelude::*;

    use crate::can::Frame;
    use crate::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, FD_LENGTHS, RTR_FLAG, SFF_MASK};

    /// Any frame there is, error reports that ask for data excepted.
    pub(crate) fn frame() -> impl Strategy<Value = Frame> {
        let id = prop_oneof![0..=SFF_MASK, (0..=EFF_MASK).prop_map(|id| id | EFF_FLAG)];
        let data = prop::collection::vec(any::<u8>(), 64);
        let fd_flags = prop_oneof![Just(None), (0..4_u8).prop_map(Some)];
        (id, data, 0..16_u8, fd_flags, 0..6_u8).prop_map(|(id, data, dlc, fd_flags, kind)| {
            let len = FD_LENGTHS[usize::from(dlc)];
            let classical = &data[..usize::from(len.min(8))];
            let frame = match (kind, fd_flags) {
                (0, _) => Frame::from_parts(id | RTR_FLAG, classical, None),
                (1, _) => Frame::from_parts(id | ERR_FLAG, classical, None),
                (_, Some(_)) => Frame::from_parts(id, &data[..usize::from(len)], fd_flags),
                (_, None) => Frame::from_parts(id, classical, None),
            };
            let frame = frame.unwrap();
            frame.with_raw_dlc(dlc).unwrap_or(frame)
        })
    }

    /// The same frame as it is behind a tunnel that does not carry the raw DLC.
    pub(crate) fn without_raw_dlc(frame: &Frame) -> Frame {
        let fd_flags = frame.is_fd().then_some(frame.fd_flags());
        let len = frame.len() as u8;
        Frame::rewritten(frame.can_id(), len, fd_flags, *frame.buffer()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_refusal_says_where_and_why() {
        let error = Malformed::frame(5, FrameError::FdLength(65));
        assert_eq!(
            error.to_string(),
            "byte 9: 65 bytes of data, but a CAN FD frame has 0 to 8, 12, 16, 20, 24, 32, 48 or 64"
        );
        let error = Malformed::new(3, Reason::Cut(2)).behind(1 << 40);
        assert_eq!(
            error.to_string(),
            "byte 1099511627779: the bytes end here, but 2 more are needed"
        );
        for (reason, text) in [
            (Reason::Version(7), "unknown version 7"),
            (Reason::Operation(1), "operation 1, but only data (0) is supported"),
            (Reason::Hello, "the stream does not begin with CANNELLONIv1"),
            (Reason::Surplus(3), "3 bytes follow the last value"),
            (Reason::Frame(FrameError::RemoteFd), "CAN FD has no remote frames"),
            (Reason::RemoteErrorReport, "an error report cannot be a remote frame"),
            (Reason::NoMap, "expected a MessagePack map"),
            (Reason::Kind("dlc"), "the value of `dlc` has the wrong type"),
            (Reason::Number("dlc"), "the number is out of range for `dlc`"),
            (Reason::Length(4, 3), "the length is 4, but there are 3 bytes of data"),
            (Reason::Marker(0xC1), "0xc1 does not start a MessagePack value"),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }

    #[test]
    fn the_place_is_that_of_the_value() {
        // The length stands four bytes behind the identifier.
        for (error, offset) in [
            (FrameError::ClassicalTooLong(9), 14),
            (FrameError::FdLength(9), 14),
            (FrameError::Xl, 14),
            (FrameError::StandardIdTooLarge(0x800), 10),
            (FrameError::RemoteFd, 10),
        ] {
            let reason = Reason::Frame(error);
            assert_eq!(Malformed::frame(10, error), Malformed { offset, reason });
        }
    }
}

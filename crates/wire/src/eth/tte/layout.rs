//! [`Layout`]: whole frames of a wanted length.

use core::fmt;

use crate::eth::{Address, FCS_LEN, HEADER_LEN, Header, MAX_PAYLOAD_LEN, MIN_LEN, ether_type};

/// The least [`size`](Layout::size) of a frame, in bytes.
pub const MIN_SIZE: usize = MIN_LEN;
/// The largest [`size`](Layout::size) of a frame, in bytes (`maxFrameSize` without a tag, IEEE 802.3, clause 4.4.2).
pub const MAX_SIZE: usize = HEADER_LEN + MAX_PAYLOAD_LEN + FCS_LEN;

/// Everything of a frame but its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Who is to receive it, such as [`CriticalTraffic::address`](super::CriticalTraffic::address).
    pub destination: Address,
    /// Who sends it.
    pub source: Address,
    /// What the two bytes behind the addresses are.
    pub type_field: TypeField,
    /// Its length in bytes with the frame check sequence, [`MIN_SIZE`] to [`MAX_SIZE`]. RFC 2544 counts so too.
    pub size: usize,
}

/// The two bytes of a frame behind its addresses. Implementations of time-triggered Ethernet differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeField {
    /// An EtherType, 0x0600 or more. Wireshark names a time-triggered frame with one "Bogus TTEthernet Frame"
    /// (`epan/dissectors/packet-tte.c`).
    EtherType(u16),
    /// How many bytes there are between the header and the frame check sequence, padding included, as t-crest/patmos
    /// writes it. Wireshark names such a frame "TTEthernet Frame".
    Length,
}

impl Default for TypeField {
    /// [`ether_type::TTETHERNET`], 0x88D7.
    fn default() -> Self {
        Self::EtherType(ether_type::TTETHERNET)
    }
}

impl Layout {
    /// How many bytes the frame has without its frame check sequence, which the interface adds.
    #[must_use]
    pub const fn byte_len(&self) -> usize {
        self.size.saturating_sub(FCS_LEN)
    }

    /// How many bytes of payload there is room for.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.byte_len().saturating_sub(HEADER_LEN)
    }

    /// Writes the frame to the begin of `bytes`: the header, `payload`, and zeros up to the wanted length. Returns how
    /// many bytes it has, [`Layout::byte_len`].
    ///
    /// # Errors
    /// The length is none of an Ethernet frame, the payload does not fit into it, the EtherType is a length, or `bytes`
    /// are too few. Then nothing is written.
    pub fn write(&self, payload: &[u8], bytes: &mut [u8]) -> Result<usize, LayoutError> {
        if !(MIN_SIZE..=MAX_SIZE).contains(&self.size) {
            return Err(LayoutError::Size(self.size));
        }
        let room = self.room();
        let ether_type = match self.type_field {
            TypeField::EtherType(ether_type @ ether_type::FIRST..) => ether_type,
            TypeField::EtherType(ether_type) => return Err(LayoutError::EtherType(ether_type)),
            // At most 1,500.
            TypeField::Length => room as u16,
        };
        if payload.len() > room {
            return Err(LayoutError::Payload { len: payload.len(), room });
        }
        let no_room = LayoutError::Buffer { len: bytes.len(), least: self.byte_len() };
        let bytes = bytes.get_mut(..self.byte_len()).ok_or(no_room)?;
        let Self { destination, source, .. } = *self;
        let header = Header { destination, source, tag: None, ether_type };
        let rest = header.write(bytes).ok_or(no_room)?;
        let (start, padding) = rest.split_at_mut_checked(payload.len()).ok_or(no_room)?;
        start.copy_from_slice(payload);
        padding.fill(0);
        Ok(self.byte_len())
    }
}

/// Why a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// No frame without a tag has this length, in bytes with the frame check sequence.
    Size(usize),
    /// This value of the type field is a length.
    EtherType(u16),
    /// The payload is too long.
    Payload {
        /// How many bytes it has.
        len: usize,
        /// How many bytes a frame of this length has room for.
        room: usize,
    },
    /// There is too little room to write to.
    Buffer {
        /// How many bytes there are.
        len: usize,
        /// How many the frame has.
        least: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => write!(
                f,
                "a frame of {size} bytes; Ethernet has {MIN_SIZE} to {MAX_SIZE}, with the frame \
                 check sequence"
            ),
            Self::EtherType(value) => write!(
                f,
                "{value:#06x} is a length and no EtherType, which are {:#06x} or more",
                ether_type::FIRST
            ),
            Self::Payload { len, room } => write!(
                f,
                "a payload of {len} bytes in a frame with room for {room}; ask for a longer frame"
            ),
            Self::Buffer { len, least } => {
                write!(f, "room for {len} bytes; the frame has {least}")
            }
        }
    }
}

impl core::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::eth::{Frame, wire_len};

    const LAYOUT: Layout = Layout {
        destination: Address([3, 4, 5, 6, 0, 100]),
        source: Address([2, 0, 0, 0, 0, 1]),
        type_field: TypeField::EtherType(ether_type::TTETHERNET),
        size: 64,
    };

    #[test]
    fn frames_have_the_wanted_length() {
        // The lengths of RFC 2544.
        for size in [64, 65, 128, 256, 512, 1_024, 1_280, 1_518] {
            let mut bytes = [0xEE; 1_518];
            let layout = Layout { size, ..LAYOUT };
            assert_eq!(layout.write(&[1, 2, 3], &mut bytes), Ok(size - 4));
            assert_eq!(wire_len(size - 4), size + 20);
            assert_eq!(bytes[..17], [3, 4, 5, 6, 0, 100, 2, 0, 0, 0, 0, 1, 0x88, 0xD7, 1, 2, 3]);
            assert!(bytes[17..size - 4].iter().all(|byte| *byte == 0), "padding");
            assert!(bytes[size - 4..].iter().all(|byte| *byte == 0xEE), "behind the frame");

            let length = Layout { type_field: TypeField::Length, ..layout };
            assert_eq!(length.write(&[1, 2, 3], &mut bytes), Ok(size - 4));
            assert_eq!(bytes[12..14], (size as u16 - 18).to_be_bytes());
        }
        assert_eq!(TypeField::default(), LAYOUT.type_field);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let long = [0; 1_501];
        for (layout, len, room, error, words) in [
            (Layout { size: 63, ..LAYOUT }, 0, 2_000, LayoutError::Size(63), "64 to 1518"),
            (Layout { size: 1_519, ..LAYOUT }, 0, 2_000, LayoutError::Size(1_519), "64 to 1518"),
            (Layout { size: 0, ..LAYOUT }, 0, 2_000, LayoutError::Size(0), "64 to 1518"),
            (LAYOUT, 47, 60, LayoutError::Payload { len: 47, room: 46 }, "longer frame"),
            (
                Layout { size: 1_518, ..LAYOUT },
                1_501,
                2_000,
                LayoutError::Payload { len: 1_501, room: 1_500 },
                "longer frame",
            ),
            (LAYOUT, 46, 59, LayoutError::Buffer { len: 59, least: 60 }, "has 60"),
            (
                Layout { type_field: TypeField::EtherType(0x5FF), ..LAYOUT },
                0,
                60,
                LayoutError::EtherType(0x5FF),
                "0x0600 or more",
            ),
        ] {
            let mut bytes = vec![0xEE; room];
            assert_eq!(layout.write(&long[..len], &mut bytes), Err(error));
            assert!(bytes.iter().all(|byte| *byte == 0xEE), "nothing is written");
            assert!(error.to_string().contains(words), "{error}");
        }
        let first = Layout { type_field: TypeField::EtherType(0x600), ..LAYOUT };
        assert_eq!(first.write(&long[..46], &mut [0; 60]), Ok(60));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            destination: [u8; 6],
            source: [u8; 6],
            // A tag has other bytes behind it.
            ether_type in any::<u16>().prop_filter("no tag", |it| *it != ether_type::VLAN),
            has_length: bool,
            size in 0..1_600_usize,
            payload in prop::collection::vec(any::<u8>(), 0..1_600),
        ) {
            let (destination, source) = (Address(destination), Address(source));
            let type_field =
                if has_length { TypeField::Length } else { TypeField::EtherType(ether_type) };
            let layout = Layout { destination, source, type_field, size };
            let mut bytes = [0xEE; 1_514];
            match layout.write(&payload, &mut bytes) {
                Ok(len) => {
                    prop_assert_eq!(len, size - 4);
                    let frame = Frame::parse(&bytes[..len]).unwrap();
                    let ether_type = if has_length { frame.payload.len() as u16 } else { ether_type };
                    let header = Header { destination, source, tag: None, ether_type };
                    prop_assert_eq!(frame.header, header);
                    prop_assert_eq!(&frame.payload[..payload.len()], &payload);
                }
                Err(LayoutError::Size(_)) => prop_assert!(!(64..=1_518).contains(&size)),
                Err(LayoutError::EtherType(_)) => prop_assert!(!has_length && ether_type < 0x600),
                Err(LayoutError::Payload { .. }) => prop_assert!(payload.len() + 18 > size),
                Err(LayoutError::Buffer { .. }) => prop_assert!(false, "there is room"),
            }
        }
    }
}

//! [`Frame`] and [`Header`]: what stands before the payload.

use core::fmt;

use super::{Address, HEADER_LEN, TAG_LEN, ether_type};

/// A frame without its check sequence: a view of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What stands before the payload.
    pub header: Header,
    /// The payload, with its padding.
    pub payload: &'a [u8],
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who is to receive it.
    pub destination: Address,
    /// Who sent it.
    pub source: Address,
    /// Its VLAN tag, if it has one; of several, the outermost.
    pub tag: Option<Tag>,
    /// What the payload is, or below 0x0600 its length (IEEE 802.3, clause 3.2.6).
    pub ether_type: u16,
}

/// A VLAN tag (IEEE 802.1Q, clause 9.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// The priority code point, 0 to 7.
    pub priority: u8,
    /// Whether a switch that is overloaded should drop this frame first.
    pub drop_eligible: bool,
    /// The identifier of the VLAN, 0 to 4095; 0 for none, 4095 is reserved.
    pub vlan: u16,
}

impl Tag {
    const fn from_word(word: u16) -> Self {
        Self { priority: (word >> 13) as u8, drop_eligible: word & 0x1000 != 0, vlan: word & 0xFFF }
    }

    const fn word(self) -> u16 {
        (self.priority as u16 & 7) << 13 | (self.drop_eligible as u16) << 12 | self.vlan & 0xFFF
    }
}

/// Bytes are too few to be a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// How many there are.
    pub len: usize,
    /// How many the header needs.
    pub least: usize,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len, least } = self;
        write!(f, "an Ethernet frame of {len} bytes; its header alone has {least}")
    }
}

impl core::error::Error for TooShort {}

impl<'a> Frame<'a> {
    /// The frame that `bytes` are, without preamble and check sequence. Frames that are shorter than Ethernet
    /// allows are taken: receivers and recordings have them without padding.
    ///
    /// # Errors
    /// There are fewer bytes than a header has.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, TooShort> {
        let too_short = |least| TooShort { len: bytes.len(), least };
        let (destination, rest) = bytes.split_first_chunk().ok_or(too_short(HEADER_LEN))?;
        let (source, rest) = rest.split_first_chunk().ok_or(too_short(HEADER_LEN))?;
        let (first, rest) = rest.split_first_chunk().ok_or(too_short(HEADER_LEN))?;
        let (tag, ether_type, payload) = match u16::from_be_bytes(*first) {
            ether_type::VLAN => {
                let least = HEADER_LEN + TAG_LEN;
                let (word, rest) = rest.split_first_chunk().ok_or(too_short(least))?;
                let (next, payload) = rest.split_first_chunk().ok_or(too_short(least))?;
                let tag = Tag::from_word(u16::from_be_bytes(*word));
                (Some(tag), u16::from_be_bytes(*next), payload)
            }
            ether_type => (None, ether_type, rest),
        };
        let (destination, source) = (Address(*destination), Address(*source));
        Ok(Self { header: Header { destination, source, tag, ether_type }, payload })
    }
}

impl Header {
    /// How many bytes it has.
    #[must_use]
    pub const fn byte_len(&self) -> usize {
        if self.tag.is_some() { HEADER_LEN + TAG_LEN } else { HEADER_LEN }
    }

    /// Writes it to the begin of `bytes`, and returns what is behind it; `None` if it does not fit. Of a tag's
    /// priority and VLAN the bits count that a tag has.
    #[must_use]
    pub fn write<'a>(&self, bytes: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (header, payload) = bytes.split_at_mut_checked(self.byte_len())?;
        let mut at = 0;
        let mut put = |part: &[u8]| {
            header[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&self.destination.0);
        put(&self.source.0);
        if let Some(tag) = self.tag {
            put(&ether_type::VLAN.to_be_bytes());
            put(&tag.word().to_be_bytes());
        }
        put(&self.ether_type.to_be_bytes());
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> [u8; 20] {
        let mut bytes = [0; 20];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = index as u8 + 1;
        }
        bytes
    }

    #[test]
    fn a_frame_is_read_with_and_without_a_tag() {
        let mut bytes = bytes();
        let (destination, source) = (Address([1, 2, 3, 4, 5, 6]), Address([7, 8, 9, 10, 11, 12]));
        let frame = Frame::parse(&bytes).unwrap();
        let header = Header { destination, source, tag: None, ether_type: 0x0D0E };
        assert_eq!(frame, Frame { header, payload: &[15, 16, 17, 18, 19, 20] });

        bytes[12..16].copy_from_slice(&[0x81, 0x00, 0xB1, 0x23]);
        let frame = Frame::parse(&bytes).unwrap();
        let tag = Tag { priority: 5, drop_eligible: true, vlan: 0x123 };
        let header = Header { tag: Some(tag), ether_type: 0x1112, ..header };
        assert_eq!(frame, Frame { header, payload: &[19, 20] });
    }

    #[test]
    fn what_has_no_header_is_refused() {
        let mut bytes = bytes();
        for len in 0..14 {
            assert_eq!(Frame::parse(&bytes[..len]), Err(TooShort { len, least: 14 }));
        }
        assert!(Frame::parse(&bytes[..14]).unwrap().payload.is_empty());
        bytes[12..14].copy_from_slice(&[0x81, 0x00]);
        for len in 14..18 {
            assert_eq!(Frame::parse(&bytes[..len]), Err(TooShort { len, least: 18 }));
        }
        assert!(Frame::parse(&bytes[..18]).unwrap().payload.is_empty());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            destination: [u8; 6],
            source: [u8; 6],
            tag in prop::option::of((0..8_u8, any::<bool>(), 0..4096_u16)),
            // Another tag behind the first one is payload.
            ether_type in any::<u16>().prop_filter("no tag", |it| *it != ether_type::VLAN),
            payload in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let tag = tag.map(|(priority, drop_eligible, vlan)| Tag { priority, drop_eligible, vlan });
            let (destination, source) = (Address(destination), Address(source));
            let header = Header { destination, source, tag, ether_type };
            let mut bytes = [0; 68];
            let bytes = &mut bytes[..header.byte_len() + payload.len()];
            header.write(bytes).unwrap().copy_from_slice(&payload);
            prop_assert_eq!(Frame::parse(bytes), Ok(Frame { header, payload: &payload }));
            prop_assert!(header.write(&mut bytes[..header.byte_len() - 1]).is_none());
        }
    }
}

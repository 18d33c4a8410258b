//! [`Payload`]: which data and lengths a rule takes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use candor_wire::can::Frame;

/// Bytes of which some bits count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bytes {
    /// How many bytes a frame must have for this to match, also if the last ones may have any value.
    pub len: u8,
    /// The bits to compare with; zero where none counts.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial"))]
    pub value: Box<[u8; 64]>,
    /// The bits that count.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial"))]
    pub mask: Box<[u8; 64]>,
}

impl Bytes {
    /// From bytes and the bits of them that count, the first 64 at most.
    #[must_use]
    pub fn new(bytes: &[(u8, u8)]) -> Self {
        let (mut value, mut mask) = (Box::new([0; 64]), Box::new([0; 64]));
        for (index, &(byte, bits)) in bytes.iter().enumerate().take(64) {
            (value[index], mask[index]) = (byte & bits, bits);
        }
        Self { len: bytes.len().min(64) as u8, value, mask }
    }

    /// Whether data begins like this. A byte that is not there matches nothing.
    #[must_use]
    pub fn matches(&self, data: &[u8]) -> bool {
        let len = usize::from(self.len);
        data.len() >= len
            && data
                .iter()
                .zip(self.value.iter().zip(self.mask.iter()))
                .take(len)
                .all(|(byte, (value, mask))| byte & mask == *value)
    }
}

/// Which data and lengths a rule takes. A remote frame has a length but no data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Payload {
    /// Any of these, if there are some.
    pub data: Vec<Bytes>,
    /// None of these.
    pub not_data: Vec<Bytes>,
    /// Any of these lengths in bytes, from first to last, if there are some.
    pub lengths: Vec<(u8, u8)>,
}

impl Payload {
    /// Whether a frame with this data and length is taken.
    #[must_use]
    pub fn takes(&self, frame: &Frame) -> bool {
        let (data, len) = (frame.data(), frame.len() as u8);
        (self.lengths.is_empty()
            || self.lengths.iter().any(|&(first, last)| (first..=last).contains(&len)))
            && (self.data.is_empty() || self.data.iter().any(|bytes| bytes.matches(data)))
            && !self.not_data.iter().any(|bytes| bytes.matches(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_match_where_bits_count() {
        let bytes = Bytes::new(&[(0x11, 0xFF), (0, 0), (0x40, 0xF0), (0, 0)]);
        assert_eq!(bytes.len, 4);
        for (data, matches) in [
            (&[0x11, 9, 0x4A, 1][..], true),
            (&[0x11, 9, 0x4A, 1, 2], true),
            (&[0x11, 9, 0x5A, 1], false),
            (&[0x10, 9, 0x4A, 1], false),
            (&[0x11, 9, 0x4A], false),
            (&[], false),
        ] {
            assert_eq!(bytes.matches(data), matches, "{data:x?}");
        }
        assert!(Bytes::new(&[]).matches(&[]), "nothing counts");
    }

    #[test]
    fn a_payload_takes_any_of_the_wanted_and_none_of_the_others() {
        let payload = Payload {
            data: [Bytes::new(&[(1, 0xFF)]), Bytes::new(&[(2, 0xFF)])].into(),
            not_data: [Bytes::new(&[(2, 0xFF), (0xFF, 0xFF)])].into(),
            lengths: [(1, 3), (8, 8)].into(),
        };
        for (frame, is_taken) in [
            ("123#01", true),
            ("123#0200", true),
            ("123#02FF", false),
            ("123#03", false),
            ("123#01020304", false),
            ("123#0102030405060708", true),
            ("123#R1", false),
        ] {
            assert_eq!(payload.takes(&frame.parse().unwrap()), is_taken, "{frame}");
        }
        let lengths = Payload { lengths: [(1, 1)].into(), ..Payload::default() };
        assert!(lengths.takes(&"123#R1".parse().unwrap()));
        assert!(Payload::default().takes(&"123#".parse().unwrap()));
    }
}

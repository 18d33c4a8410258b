//! The order of the bytes of a number.

/// The order of the bytes of numbers in headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
}

impl Order {
    /// The number at `at`; 0 behind the end, which callers rule out before.
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        match self {
            Self::Big => u32::from_be_bytes(chunk(bytes, at)),
            Self::Little => u32::from_le_bytes(chunk(bytes, at)),
        }
    }

    /// As [`Order::u32`].
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        match self {
            Self::Big => u16::from_be_bytes(chunk(bytes, at)),
            Self::Little => u16::from_le_bytes(chunk(bytes, at)),
        }
    }

    /// As [`Order::u32`].
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        match self {
            Self::Big => u64::from_be_bytes(chunk(bytes, at)),
            Self::Little => u64::from_le_bytes(chunk(bytes, at)),
        }
    }
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

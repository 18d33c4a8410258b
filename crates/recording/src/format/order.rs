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
        let four = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        match self {
            Self::Big => u32::from_be_bytes(four),
            Self::Little => u32::from_le_bytes(four),
        }
    }

    /// As [`Order::u32`].
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let two = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        match self {
            Self::Big => u16::from_be_bytes(two),
            Self::Little => u16::from_le_bytes(two),
        }
    }

    /// As [`Order::u32`].
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let [first, second] = [at, at + 4].map(|at| u64::from(self.u32(bytes, at)));
        match self {
            Self::Big => first << 32 | second,
            Self::Little => second << 32 | first,
        }
    }
}

//! How long frames take on a link.

use super::{FCS_LEN, GAP_LEN, MIN_LEN, PREAMBLE_LEN};

/// How many byte times a frame of `len` bytes takes on a link: with padding, check sequence, preamble and the
/// gap behind it. `len` counts the header and the payload, not the check sequence.
#[must_use]
pub const fn wire_len(len: usize) -> usize {
    let len = len + FCS_LEN;
    PREAMBLE_LEN + if len < MIN_LEN { MIN_LEN } else { len } + GAP_LEN
}

/// The speed of a link, in bits per second; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkSpeed(u64);

impl LinkSpeed {
    /// 10 Mbit/s.
    pub const MBIT_10: Self = Self(10_000_000);
    /// 100 Mbit/s.
    pub const MBIT_100: Self = Self(100_000_000);
    /// 1 Gbit/s.
    pub const GBIT_1: Self = Self(1_000_000_000);
    /// 10 Gbit/s.
    pub const GBIT_10: Self = Self(10_000_000_000);

    /// A speed in bits per second; `None` for 0.
    #[must_use]
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        if bits_per_second == 0 { None } else { Some(Self(bits_per_second)) }
    }

    /// In bits per second.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// How long `len` bytes take, in nanoseconds, rounded up. Exact for speeds that divide 8 Gbit/s.
    #[must_use]
    pub const fn duration_ns(self, len: usize) -> u64 {
        let bits = len as u128 * 8;
        (bits * 1_000_000_000).div_ceil(self.0 as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_take_as_long_as_their_bytes() {
        // The shortest and the longest frame without a tag.
        for (len, wire, at_100_mbit_ns) in [
            (0, 84, 6_720),
            (14, 84, 6_720),
            (60, 84, 6_720),
            (61, 85, 6_800),
            (1_514, 1_538, 123_040),
        ] {
            assert_eq!(wire_len(len), wire, "{len}");
            assert_eq!(LinkSpeed::MBIT_100.duration_ns(wire), at_100_mbit_ns, "{len}");
            assert_eq!(LinkSpeed::MBIT_10.duration_ns(wire), at_100_mbit_ns * 10, "{len}");
            assert_eq!(LinkSpeed::GBIT_1.duration_ns(wire), at_100_mbit_ns / 10, "{len}");
        }
    }

    #[test]
    fn a_part_of_a_nanosecond_counts_as_one() {
        let speed = LinkSpeed::new(2_500_000_000).unwrap();
        assert_eq!([0, 1, 5].map(|len| speed.duration_ns(len)), [0, 4, 16]);
        assert_eq!(LinkSpeed::new(0), None);
    }
}

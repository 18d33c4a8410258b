//! Bit rates, and how long so many bits take.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use crate::can::bits::Length;

/// A bit rate in bit/s, from 1 bit/s to [`Bitrate::MAX`].
///
/// ```
/// use candor_wire::can::Bitrate;
/// assert_eq!("500k".parse::<Bitrate>()?.bits_per_second(), 500_000);
/// assert_eq!("83.333k".parse::<Bitrate>()?.bits_per_second(), 83_333);
/// assert_eq!(Bitrate::new(2_000_000).unwrap().to_string(), "2M");
/// # Ok::<(), candor_wire::can::bitrate::ParseBitrateError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitrate(NonZeroU32);

impl Bitrate {
    /// 20 Mbit/s: the fastest data phase of any CAN generation (CAN XL, CiA 610-1).
    pub const MAX: Self = Self(NonZeroU32::new(20_000_000).unwrap());

    /// 10 kbit/s: any data bit rate goes with it.
    const SLOW: Self = Self(NonZeroU32::new(10_000).unwrap());

    /// A bit rate of `bits_per_second`; `None` if zero or above [`Bitrate::MAX`].
    #[must_use]
    pub const fn new(bits_per_second: u32) -> Option<Self> {
        match NonZeroU32::new(bits_per_second) {
            Some(rate) if bits_per_second <= Self::MAX.bits_per_second() => Some(Self(rate)),
            _ => None,
        }
    }

    /// The rate in bit/s.
    #[must_use]
    pub const fn bits_per_second(self) -> u32 {
        self.0.get()
    }

    /// How long `bits` bits take, in nanoseconds, rounded to the nearest.
    #[must_use]
    pub const fn duration_ns(self, bits: u32) -> u64 {
        let rate = self.0.get() as u64;
        (bits as u64 * 1_000_000_000 + rate / 2) / rate
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits_per_second() {
            rate if rate % 1_000_000 == 0 => write!(f, "{}M", rate / 1_000_000),
            rate if rate % 1_000 == 0 => write!(f, "{}k", rate / 1_000),
            rate => write!(f, "{rate}"),
        }
    }
}
impl fmt::Debug for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}bit/s")
    }
}

/// A text that is no bit rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseBitrateError;

impl fmt::Display for ParseBitrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a bit rate in bit/s from 1 to 20M, such as 125k or 1M")
    }
}
impl core::error::Error for ParseBitrateError {}

impl FromStr for Bitrate {
    type Err = ParseBitrateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (number, unit) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000_u64),
            Some(b'M') => (&text[..text.len() - 1], 1_000_000),
            _ => (text, 1),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits =
            |s: &str| !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return Err(ParseBitrateError);
        }
        let mut rate = whole.parse::<u64>().map_err(|_| ParseBitrateError)? * unit;
        let mut scale = unit;
        for digit in fraction.bytes().map(|b| u64::from(b - b'0')) {
            if digit != 0 && !scale.is_multiple_of(10) {
                return Err(ParseBitrateError);
            }
            scale /= 10;
            rate += digit * scale;
        }
        u32::try_from(rate).ok().and_then(Self::new).ok_or(ParseBitrateError)
    }
}

/// The bit rates of a bus: the nominal one, and the one of the data phase of CAN FD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// The rate of classical frames, of arbitration, and of acknowledge to intermission.
    pub nominal: Bitrate,
    /// The rate from the sample point of BRS to that of the CRC delimiter, of frames with bit rate
    /// switch.
    pub data: Bitrate,
}

impl Timing {
    /// One rate for everything.
    #[must_use]
    pub const fn classical(rate: Bitrate) -> Self {
        Self { nominal: rate, data: rate }
    }

    /// How long a frame of this `length` takes in nanoseconds, intermission included.
    #[must_use]
    pub const fn duration_ns(self, length: Length) -> u64 {
        if length.data == 0 {
            return self.nominal.duration_ns(length.nominal);
        }
        self.nominal.duration_ns(length.nominal) + self.data.duration_ns(length.data)
    }
}

/// Why no CAN bus runs at some bit rates: a hint at a slip of the pen, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusualRates {
    rate: Bitrate,
    is_data: bool,
    reason: Unusual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unusual {
    Slow,
    Fast,
    BelowNominal,
}

impl Timing {
    /// The slowest nominal rate: what an SJA1000 reaches at 16 MHz. CiA 301 begins at 10 kbit/s.
    const SLOWEST: u32 = 5_000;
    /// The fastest nominal rate (ISO 11898-1:2015).
    const FASTEST: u32 = 1_000_000;
    /// The fastest data rate of CAN FD (CiA 601-4, transceivers with signal improvement).
    const FASTEST_DATA: u32 = 8_000_000;

    /// Why no CAN bus runs at these rates, if that is so.
    #[must_use]
    pub const fn unusual(self) -> Option<UnusualRates> {
        let (nominal, data) = (self.nominal.bits_per_second(), self.data.bits_per_second());
        if nominal < Self::SLOWEST {
            Some(UnusualRates { rate: self.nominal, is_data: false, reason: Unusual::Slow })
        } else if nominal > Self::FASTEST {
            Some(UnusualRates { rate: self.nominal, is_data: false, reason: Unusual::Fast })
        } else if data > Self::FASTEST_DATA {
            Some(UnusualRates { rate: self.data, is_data: true, reason: Unusual::Fast })
        } else if data < nominal {
            Some(UnusualRates { rate: self.data, is_data: true, reason: Unusual::BelowNominal })
        } else {
            None
        }
    }
}

impl UnusualRates {
    /// Whether it is the data bit rate of CAN FD.
    #[must_use]
    pub const fn is_data(self) -> bool {
        self.is_data
    }

    /// The rate that may have been meant: a thousand times as much, where that is one.
    #[must_use]
    pub fn meant(self) -> Option<Bitrate> {
        let meant = Bitrate::new(self.rate.bits_per_second().checked_mul(1_000)?)?;
        Timing { nominal: if self.is_data { Bitrate::SLOW } else { meant }, data: meant }
            .unusual()
            .is_none()
            .then_some(meant)
    }
}

/// A rate with its unit, as people write it.
struct RateInUnits(Bitrate);

impl fmt::Display for RateInUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.bits_per_second() {
            rate if rate % 1_000_000 == 0 => write!(f, "{} Mbit/s", rate / 1_000_000),
            rate if rate % 1_000 == 0 => write!(f, "{} kbit/s", rate / 1_000),
            rate => write!(f, "{rate} bit/s"),
        }
    }
}

impl fmt::Display for UnusualRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, is_data, reason } = *self;
        let kind = if is_data { "data bit rate" } else { "bit rate" };
        write!(f, "a {kind} of {} is not usual for CAN: ", RateInUnits(rate))?;
        match (reason, is_data) {
            (Unusual::BelowNominal, _) => f.write_str("it is lower than the nominal bit rate"),
            (_, false) => f.write_str("CAN buses use 5 kbit/s to 1 Mbit/s"),
            (_, true) => f.write_str("CAN FD reaches at most 8 Mbit/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn rates_are_read_and_shown() {
        for (text, rate, shown) in [
            ("1M", 1_000_000, "1M"),
            ("500k", 500_000, "500k"),
            ("500K", 500_000, "500k"),
            ("33.3k", 33_300, "33300"),
            ("83333", 83_333, "83333"),
            ("0.5M", 500_000, "500k"),
            ("20M", 20_000_000, "20M"),
        ] {
            let parsed: Bitrate = text.parse().unwrap();
            assert_eq!(parsed.bits_per_second(), rate, "{text}");
            assert_eq!(parsed.to_string(), shown);
            assert_eq!(alloc::format!("{parsed:?}"), alloc::format!("{shown}bit/s"));
        }
    }

    #[test]
    fn absurd_rates_are_refused() {
        for text in [
            "",
            "k",
            "0",
            "0k",
            "-1",
            "1e6",
            "21M",
            "99999999999",
            "1.5",
            "1.0005k",
            "1m",
            ".5M",
            "1.",
            "1.k",
            "1.xk",
            "x.1k",
            "1.0000000000M",
        ] {
            assert_eq!(text.parse::<Bitrate>(), Err(ParseBitrateError), "{text}");
        }
        assert!(ParseBitrateError.to_string().contains("such as 125k"));
    }

    #[test]
    fn rates_that_no_bus_has_are_reported() {
        let timing = |nominal: &str, data: &str| Timing {
            nominal: nominal.parse().unwrap(),
            data: data.parse().unwrap(),
        };
        for (nominal, data, reported, meant) in [
            ("500k", "500k", None, None),
            ("33.333k", "33.333k", None, None),
            ("5k", "5k", None, None),
            ("1M", "8M", None, None),
            (
                "500",
                "500",
                Some(
                    "a bit rate of 500 bit/s is not usual for CAN: CAN buses use 5 kbit/s to 1 \
                      Mbit/s",
                ),
                Some("500k"),
            ),
            (
                "2M",
                "2M",
                Some(
                    "a bit rate of 2 Mbit/s is not usual for CAN: CAN buses use 5 kbit/s to 1 \
                      Mbit/s",
                ),
                None,
            ),
            (
                "500k",
                "2k",
                Some(
                    "a data bit rate of 2 kbit/s is not usual for CAN: it is lower than the nominal bit rate",
                ),
                Some("2M"),
            ),
            (
                "500k",
                "12M",
                Some(
                    "a data bit rate of 12 Mbit/s is not usual for CAN: CAN FD reaches at most 8 \
                      Mbit/s",
                ),
                None,
            ),
        ] {
            let unusual = timing(nominal, data).unusual();
            let text = unusual.map(|unusual| unusual.to_string());
            assert_eq!(text.as_deref(), reported, "{nominal}, {data}");
            let rate = unusual.and_then(UnusualRates::meant).map(|rate| rate.to_string());
            assert_eq!(rate.as_deref(), meant, "{nominal}, {data}");
            let is_data = reported.is_some_and(|text| text.starts_with("a data bit rate"));
            assert_eq!(unusual.is_some_and(UnusualRates::is_data), is_data, "{nominal}, {data}");
        }
    }

    #[test]
    fn bits_take_time() {
        let rate = |text: &str| text.parse::<Bitrate>().unwrap();
        assert_eq!(rate("1M").duration_ns(111), 111_000);
        assert_eq!(rate("83.333k").duration_ns(100), 1_200_005);
        assert_eq!(rate("1").duration_ns(3), 3_000_000_000);
    }
}

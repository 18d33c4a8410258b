use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, Sub};
use core::str::FromStr;

/// A duration in nanoseconds. Arithmetic saturates.
///
/// It is written the way people write it, and shown in the largest unit that keeps it exact:
///
/// ```
/// use candor_time::Nanos;
/// assert_eq!("250us".parse(), Ok(Nanos::from_micros(250)));
/// assert_eq!("1.5 ms".parse(), Ok(Nanos::from_micros(1_500)));
/// assert_eq!(Nanos::from_nanos(124_500).to_string(), "124.5us");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest duration: 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }
    /// `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }
    /// `seconds` seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }
    /// The number of nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// The duration in seconds, rounded to what an `f64` holds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The duration in microseconds, rounded to what an `f64` holds.
    #[must_use]
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}
impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, suffix) = match self.0 {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (whole, mut rest) = (self.0 / unit, self.0 % unit);
        write!(f, "{whole}")?;
        if rest > 0 {
            f.write_str(".")?;
            let mut digit = unit / 10;
            while rest > 0 {
                write!(f, "{}", rest / digit)?;
                rest %= digit;
                digit /= 10;
            }
        }
        f.write_str(suffix)
    }
}
impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseNanosError {
    /// It does not begin with a plain decimal number.
    Number,
    /// The unit is missing or unknown.
    Unit,
    /// It is finer than a nanosecond.
    TooFine,
    /// It is longer than 584 years.
    TooLong,
}

impl fmt::Display for ParseNanosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "a duration is a number and a unit, such as 250us",
            Self::Unit => "the unit of a duration is ns, us, ms, s, min or h",
            Self::TooFine => "a duration is a whole number of nanoseconds",
            Self::TooLong => "a duration is at most 584 years",
        })
    }
}
impl core::error::Error for ParseNanosError {}

impl FromStr for Nanos {
    type Err = ParseNanosError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let number_len = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(number_len);
        let unit: u128 = match unit.trim() {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ if number.is_empty() => return Err(ParseNanosError::Number),
            _ => return Err(ParseNanosError::Unit),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(ParseNanosError::Number);
        }
        let mut nanos =
            whole.parse::<u64>().map_err(|_| ParseNanosError::TooLong).map(u128::from)? * unit;
        let mut scale = unit;
        for digit in fraction.bytes() {
            let digit = u128::from(digit - b'0');
            if digit != 0 && !scale.is_multiple_of(10) {
                return Err(ParseNanosError::TooFine);
            }
            scale /= 10;
            nanos += digit * scale;
        }
        u64::try_from(nanos).map(Self).map_err(|_| ParseNanosError::TooLong)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn durations_are_read_as_written() {
        for (text, nanos) in [
            ("0ns", 0),
            ("17ns", 17),
            ("250us", 250_000),
            ("250 µs", 250_000),
            ("1.5ms", 1_500_000),
            ("1s", 1_000_000_000),
            ("2min", 120_000_000_000),
            ("0.000000001s", 1),
            ("0.5000us", 500),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_why() {
        use ParseNanosError::*;
        for (text, error) in [
            ("", Number),
            ("us", Number),
            (".5us", Number),
            ("1.us", Number),
            ("1.2.3us", Number),
            ("-1us", Number),
            ("12", Unit),
            ("12 parsecs", Unit),
            ("1.5ns", TooFine),
            ("0.0001us", TooFine),
            ("600000000h", TooLong),
            ("99999999999999999999s", TooLong),
        ] {
            assert_eq!(text.parse::<Nanos>(), Err(error), "{text}");
        }
    }

    #[test]
    fn shown_exactly_and_read_back() {
        for nanos in [0, 1, 999, 1_000, 1_001, 124_500, 1_000_000, 35_000_001, u64::MAX] {
            let shown = Nanos(nanos).to_string();
            assert_eq!(shown.parse(), Ok(Nanos(nanos)), "{shown}");
        }
        assert_eq!(Nanos(124_500).to_string(), "124.5us");
        assert_eq!(Nanos(1_000_000_001).to_string(), "1.000000001s");
    }
}

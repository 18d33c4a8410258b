//! [`ExactRescaling`]: computing with signals of more than 53 bits.
//!
//! An `f64` holds whole numbers of up to 53 bits exactly. Wider signals are computed with whole
//! numbers of 128 bits instead: scales and offsets are decimal fractions, and all of them have
//! a common power of ten as their denominator.

use alloc::format;

use super::place::Place;
use candor_causes::Cause;

/// The most bits of a whole number that an `f64` holds exactly (IEEE 754).
const F64_BITS: u8 = f64::MANTISSA_DIGITS as u8;
/// Magnitudes from here on stand for "no bound"; no field holds such a number.
const UNBOUNDED: f64 = 1e30;
/// The largest magnitude of an intermediate result: half of what an `i128` holds, so that it can be
/// doubled to round.
const MOST: i128 = 1 << 126;

/// `(raw * factor + addend - offset) / scale`, each a whole number of the same unit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct ExactRescaling {
    factor: i128,
    addend: i128,
    /// The least and the greatest value before it is written.
    clamp: Option<(i128, i128)>,
    offset: i128,
    scale: i128,
    /// The least and the greatest number that is written.
    range: Option<(i128, i128)>,
}

/// Whether what is computed for this signal may need more bits than an `f64` has.
pub(super) const fn is_needed(from: &Place, to: &Place) -> bool {
    from.field.bits() > F64_BITS || to.field.bits() > F64_BITS
}

impl ExactRescaling {
    /// How what is read at `from` becomes what is written at `to`, times a factor, plus an addend, and within bounds;
    /// `None` if these numbers have too many digits.
    pub(super) fn new(
        from: &Place,
        (factor, addend): (f64, f64),
        clamp: Option<(f64, f64)>,
        to: &Place,
    ) -> Option<Self> {
        let number = DecimalFraction::from_f64;
        let own = number(factor)?;
        let factor = number(from.scale)?.times(own)?;
        let addend = number(from.offset)?.times(own)?.plus(number(addend)?)?;
        let (offset, scale) = (number(to.offset)?, number(to.scale)?);
        let (kept, range) = (bounds(clamp)?, bounds(to.range)?);
        let ends = [kept.0, kept.1, range.0, range.1].into_iter().flatten();
        let places = [factor, addend, offset, scale].into_iter().chain(ends).map(|it| it.places);
        let places = places.max()?;
        let whole = |decimal: DecimalFraction| decimal.whole(places);
        let (factor, addend) = (whole(factor)?, whole(addend)?);
        let (offset, scale) = (whole(offset)?, whole(scale)?);
        let most =
            factor.checked_abs()?.checked_mul(1 << 64)?.checked_add(addend.checked_abs()?)?;
        if scale == 0 || most.checked_add(offset.checked_abs()?)? >= MOST {
            return None;
        }
        let end = |end: Option<DecimalFraction>, open: i128| {
            Some(end.map_or(Some(open), whole)?.clamp(-MOST, MOST))
        };
        let clamp = match clamp {
            Some(_) => Some((end(kept.0, -MOST)?, end(kept.1, MOST)?)),
            None => None,
        };
        let written = |end: i128| Some(divide(end.checked_sub(offset)?, scale));
        let range = match to.range {
            Some(_) => {
                let ends = (
                    range.0.map_or(Some(None), |end| Some(written(whole(end)?)))?,
                    range.1.map_or(Some(None), |end| Some(written(whole(end)?)))?,
                );
                // With a negative scale the greatest value is the least number.
                let (least, most) = if scale < 0 { (ends.1, ends.0) } else { ends };
                Some((least.unwrap_or(i128::MIN), most.unwrap_or(i128::MAX)))
            }
            None => None,
        };
        Some(Self { factor, addend, clamp, offset, scale, range })
    }

    /// The number that is written for `raw`, of 64 bits at most.
    pub(super) fn run(&self, raw: i128) -> Result<i128, Cause> {
        let value = raw * self.factor + self.addend;
        let value = self.clamp.map_or(value, |(least, most)| value.max(least).min(most));
        let written = divide(value - self.offset, self.scale);
        match self.range {
            Some((least, most)) if written < least || written > most => Err(Cause::OutOfRange),
            _ => Ok(written),
        }
    }
}

/// The nearest whole number; halves go away from zero.
const fn divide(number: i128, by: i128) -> i128 {
    let (whole, rest) = (number / by, number % by);
    let is_away = rest.unsigned_abs() * 2 >= by.unsigned_abs();
    match (is_away, (number < 0) == (by < 0)) {
        (false, _) => whole,
        (true, true) => whole + 1,
        (true, false) => whole - 1,
    }
}

/// Both ends, each `None` if it is none.
fn bounds(ends: Option<(f64, f64)>) -> Option<(Option<DecimalFraction>, Option<DecimalFraction>)> {
    let end = |end: f64| match end.abs() < UNBOUNDED {
        true => DecimalFraction::from_f64(end).map(Some),
        false => Some(None),
    };
    match ends {
        Some((least, most)) => Some((end(least)?, end(most)?)),
        None => Some((None, None)),
    }
}

/// A decimal fraction: `digits / 10^places`.
#[derive(Clone, Copy, Debug)]
struct DecimalFraction {
    digits: i128,
    places: u32,
}

impl DecimalFraction {
    /// What a person wrote for `number`: the shortest fraction that stands for it.
    fn from_f64(number: f64) -> Option<Self> {
        let text = format!("{number}");
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { digits, places: u32::try_from(fraction.len()).ok()? })
    }

    fn times(self, other: Self) -> Option<Self> {
        let digits = self.digits.checked_mul(other.digits)?;
        Some(Self { digits, places: self.places.checked_add(other.places)? })
    }

    fn plus(self, other: Self) -> Option<Self> {
        let places = self.places.max(other.places);
        let digits = self.whole(places)?.checked_add(other.whole(places)?)?;
        Some(Self { digits, places })
    }

    /// In units of `10^-places`, which are no larger than its own.
    fn whole(self, places: u32) -> Option<i128> {
        let more = places.checked_sub(self.places)?;
        self.digits.checked_mul(10_i128.checked_pow(more)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::action::Signal;
    use alloc::string::String;
    use candor_wire::can::{ByteOrder, Field};
    use proptest::prelude::*;

    fn place(bits: u8, is_signed: bool, scale: f64, offset: f64) -> Place {
        let field = Field::new(0, bits, ByteOrder::Intel, is_signed).unwrap();
        Place { name: String::new(), field, scale, offset, range: None }
    }

    fn signal(from: Place, factor: f64, addend: f64, to: Place) -> Signal {
        Signal::new(from, true, factor, addend, None, to).unwrap()
    }

    fn run(signal: &Signal, raw: i128) -> Result<i128, Cause> {
        let Signal { from, factor, addend, clamp, to, .. } = signal;
        ExactRescaling::new(from, (*factor, *addend), *clamp, to).unwrap().run(raw)
    }

    #[test]
    fn every_bit_counts() {
        let wide = |scale, offset| place(64, false, scale, offset);
        for (from, factor, addend, to, raw, written) in [
            (wide(1.0, 0.0), 1.0, 1.0, wide(1.0, 0.0), (1 << 53) + 1, (1 << 53) + 2),
            (wide(1.0, 0.0), 1.0, 0.0, wide(1.0, 0.0), u64::MAX.into(), u64::MAX.into()),
            (wide(0.1, -40.0), 1.0, 0.0, wide(0.1, -40.0), u64::MAX.into(), u64::MAX.into()),
            (
                wide(0.001, 0.0),
                1.0,
                0.0,
                wide(0.01, 0.0),
                12_345_678_901_234_567_895,
                1_234_567_890_123_456_790,
            ),
            (wide(1.0, 0.0), 1.0, 0.0, wide(-1.0, 0.0), 7, -7),
            (wide(1.0, 0.0), 0.5, 0.0, wide(1.0, 0.0), 5, 3),
            (wide(1.0, 0.0), -0.5, 0.0, wide(1.0, 0.0), 5, -3),
            // Halves go away from zero where the scale goes down, too.
            (wide(1.0, 0.0), 1.0, 0.0, wide(-2.0, 0.0), 5, -3),
            (wide(1.0, 0.0), -1.0, 0.0, wide(-2.0, 0.0), 5, 3),
        ] {
            assert_eq!(run(&signal(from, factor, addend, to), raw), Ok(written), "{raw}");
        }
    }

    #[test]
    fn bounds_are_exact_too() {
        let most = (1_u64 << 54) as f64;
        let mut to = place(64, false, 1.0, 0.0);
        to.range = Some((f64::MIN, most));
        let limited = signal(place(64, false, 1.0, 0.0), 1.0, 0.0, to.clone());
        assert_eq!(run(&limited, 1 << 54), Ok(1 << 54));
        assert_eq!(run(&limited, (1 << 54) + 1), Err(Cause::OutOfRange));
        let from = place(64, false, 1.0, 0.0);
        let clamp = Some((3.0, most));
        let clamped = Signal::new(from, true, 1.0, 0.0, clamp, to.clone()).unwrap();
        assert_eq!(run(&clamped, (1 << 54) + 1), Ok(1 << 54));
        assert_eq!(run(&clamped, 0), Ok(3));
        to.range = Some((10.0, 100.0));
        let both = signal(place(64, false, 1.0, 0.0), 1.0, 0.0, to.clone());
        let outside = Err(Cause::OutOfRange);
        for (raw, expected) in [(9, outside), (10, Ok(10)), (100, Ok(100)), (101, outside)] {
            assert_eq!(run(&both, raw), expected, "{raw}");
        }
        to.range = Some((-100.0, 0.0));
        to.scale = -2.0;
        let down = signal(place(64, false, 1.0, 0.0), -1.0, 0.0, to);
        assert_eq!((run(&down, 100), run(&down, 102)), (Ok(50), Err(Cause::OutOfRange)));
    }

    #[test]
    fn a_wide_number_on_either_side_is_computed_exactly() {
        let wide = || place(64, true, 1.0, 0.0);
        let narrow = || place(8, true, 1.0, 0.0);
        let far = (1_u64 << 53) as f64;
        let (read, written) =
            (signal(wide(), 1.0, -far, narrow()), signal(narrow(), 1.0, far, wide()));
        assert!(is_needed(&read.from, &read.to) && is_needed(&written.from, &written.to));
        assert_eq!(run(&read, (1 << 53) + 1), Ok(1));
        assert_eq!(run(&written, 1), Ok((1 << 53) + 1));
        assert!(!is_needed(&narrow(), &narrow()));
    }

    #[test]
    fn an_open_end_does_not_clamp() {
        let wide = || place(64, true, 1.0, 0.0);
        for (clamp, expected) in [
            ((-f64::INFINITY, 10.0), [-5, 5, 10]),
            ((-UNBOUNDED, 10.0), [-5, 5, 10]),
            ((0.0, UNBOUNDED), [0, 5, 50]),
        ] {
            let clamped = Signal::new(wide(), true, 1.0, 0.0, Some(clamp), wide()).unwrap();
            assert_eq!([-5, 5, 50].map(|raw| run(&clamped, raw).unwrap()), expected, "{clamp:?}");
        }
    }

    #[test]
    fn too_many_digits_are_reported() {
        let from = place(64, false, 1e-20, 0.0);
        assert!(Signal::new(from, true, 1e-20, 0.0, None, place(64, false, 1.0, 0.0)).is_err());
        // The last factor that fits, and the first one that does not.
        let wide = || place(64, false, 1.0, 0.0);
        for (bits, fits) in [(61, true), (62, false)] {
            let factor = (1_u64 << bits) as f64;
            let made = Signal::new(wide(), true, factor, 0.0, None, wide());
            assert_eq!(made.is_ok(), fits, "{bits}");
        }
        assert!(Signal::new(wide(), true, 1.0, 0.0, None, place(64, false, 0.0, 0.0)).is_err());
        // What stands for no bound has no digits to compute with.
        let (fine, open) = (place(64, false, 1e-9, 0.0), Some((-UNBOUNDED, UNBOUNDED)));
        assert!(Signal::new(fine, true, 1.0, 0.0, open, wide()).is_ok());
        // As far as an f64 is exact, it computes them.
        let from = place(53, false, 1e-20, 0.0);
        assert!(Signal::new(from, true, 1e-20, 0.0, None, place(53, false, 1.0, 0.0)).is_ok());
    }

    proptest! {
        /// Where no bit is lost either way, both give the same.
        #[test]
        fn it_is_what_floating_point_numbers_give(
            raw in 0..1_i128 << 40,
            factor in -50..50_i32,
            addend in -1_000..1_000_i32,
            scale in 1..9_i32,
        ) {
            let to = place(64, true, f64::from(scale), 0.0);
            let signal = signal(place(64, true, 1.0, 0.0), factor.into(), addend.into(), to);
            let value = raw as f64 * f64::from(factor) + f64::from(addend);
            let expected = (value / f64::from(scale)).round() as i128;
            prop_assert_eq!(run(&signal, raw), Ok(expected));
        }
    }
}

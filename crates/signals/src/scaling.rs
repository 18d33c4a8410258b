//! [`Scaling`]: what the raw values of a signal are worth.

/// Physical value = raw value * scale + offset.
///
/// DBC files write scales as decimal numbers, most of which no `f64` is: 1278 * 0.01 is 12.780000000000001 there. Where
/// scale and offset are decimal numbers of few digits, the value of a whole number is computed in whole numbers: with
/// the smallest power of ten `p` for which `scale * p` and `offset * p` are whole,
///
/// ```text
/// raw * scale + offset = (raw * (scale * p) + (offset * p)) / p
/// ```
///
/// The dividend is exact, and `f64` has it if its amount is at most 2^53; `p` is at most 10^12, which `f64` has, too. IEEE 754 rounds a
/// quotient once, so the result is the `f64` next to the exact value: 12.78.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    scale: f64,
    offset: f64,
    decimal: Option<Decimal>,
}

/// Scale and offset as decimal numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Decimal {
    /// The scale, in units of `1 / power`.
    scale: i64,
    /// The offset, in units of `1 / power`.
    offset: i64,
    /// A power of ten, at least 10: whole scales and offsets have no error to avoid.
    power: f64,
}

/// Whole numbers up to this one are exact as `f64`.
const EXACT: i64 = 1 << f64::MANTISSA_DIGITS;
/// What numbers of so many decimal places are multiples of the inverse of.
const POWERS: [f64; 13] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12];

/// How many times `1 / power` a number is, if it is the `f64` next to such a multiple.
fn as_multiple(number: f64, power: f64) -> Option<i64> {
    // A number too large ends outside.
    let multiple = (number * power + 0.5_f64.copysign(number)) as i64;
    let is_exact = (-EXACT..=EXACT).contains(&multiple) && multiple as f64 / power == number;
    is_exact.then_some(multiple)
}

impl Decimal {
    fn new(scale: f64, offset: f64) -> Option<Self> {
        let mut decimals = POWERS.into_iter().filter_map(|power| {
            let (scale, offset) = (as_multiple(scale, power)?, as_multiple(offset, power)?);
            Some(Self { scale, offset, power })
        });
        decimals.next().filter(|decimal| decimal.power > 1.0)
    }
}

impl Scaling {
    /// With what one step of the raw value is worth, and the physical value of the raw value 0.
    #[must_use]
    pub fn new(scale: f64, offset: f64) -> Self {
        Self { scale, offset, decimal: Decimal::new(scale, offset) }
    }

    /// What one step of the raw value is worth.
    #[must_use]
    pub const fn scale(self) -> f64 {
        self.scale
    }

    /// The physical value of the raw value 0.
    #[must_use]
    pub const fn offset(self) -> f64 {
        self.offset
    }

    /// The physical value of a raw value that is no whole number, with the errors that computing with `f64` has.
    #[inline]
    #[must_use]
    pub fn of_float(self, raw: f64) -> f64 {
        raw * self.scale + self.offset
    }

    /// The raw value next to a physical one, half a step away from zero, if whole numbers can tell: scale and offset are decimal numbers
    /// of few digits, and the physical value is not too far off.
    ///
    /// A finite `f64` is `mantissa * 2^exponent`, so the exact quotient is, with the units of [`Scaling`],
    ///
    /// ```text
    /// (physical - offset) / scale = (mantissa * 2^exponent * p - offset * p) / (scale * p)
    /// ```
    ///
    /// and both sides are multiplied by `2^-exponent` if that is not whole.
    #[must_use]
    pub(crate) fn nearest(self, physical: f64) -> Option<i128> {
        let Decimal { scale, offset, power } = self.decimal.or_else(|| self.whole())?;
        let (mantissa, exponent) = parts(physical)?;
        let shift =
            |number: i128, by: i32| number.checked_mul(2_i128.checked_pow(by.unsigned_abs())?);
        let value = mantissa.checked_mul(power as i128)?;
        let (scale, offset) = (i128::from(scale), i128::from(offset));
        let (dividend, divisor) = match exponent {
            0.. => (shift(value, exponent)?.checked_sub(offset)?, scale),
            _ => (value.checked_sub(shift(offset, exponent)?)?, shift(scale, exponent)?),
        };
        rounded_quotient(dividend, divisor)
    }

    /// The raw value next to a physical one that is a whole number, however large, as [`Scaling::nearest`] finds it.
    pub(crate) fn nearest_to_whole(self, physical: i128) -> Option<i128> {
        let Decimal { scale, offset, power } = self.decimal.or_else(|| self.whole())?;
        let dividend = physical.checked_mul(power as i128)?.checked_sub(offset.into())?;
        rounded_quotient(dividend, scale.into())
    }

    /// The physical value of a whole number where scale and offset are whole numbers.
    pub(crate) fn whole_of(self, raw: i128) -> Option<i128> {
        let Decimal { scale, offset, .. } = self.whole()?;
        raw.checked_mul(scale.into())?.checked_add(offset.into())
    }

    /// Scale and offset, if both are whole numbers.
    fn whole(self) -> Option<Decimal> {
        let (scale, offset) = (as_multiple(self.scale, 1.0)?, as_multiple(self.offset, 1.0)?);
        Some(Decimal { scale, offset, power: 1.0 })
    }

    /// The physical value of a whole number: exact as described for [`Scaling`], else as [`Scaling::of_float`] computes it.
    #[inline]
    #[must_use]
    pub fn of_whole(self, raw: i64) -> f64 {
        let Some(Decimal { scale, offset, power }) = self.decimal else {
            return self.of_float(raw as f64);
        };
        match raw.checked_mul(scale).and_then(|steps| steps.checked_add(offset)) {
            Some(steps) if steps.unsigned_abs() <= EXACT as u64 => steps as f64 / power,
            _ => self.of_float(raw as f64),
        }
    }
}

/// A finite number as `mantissa * 2^exponent`, with the smallest whole mantissa (IEEE 754-2019, 3.4).
pub(crate) fn parts(number: f64) -> Option<(i128, i32)> {
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    const BIAS: i32 = 1_023 + FRACTION as i32;
    let bits = number.to_bits();
    let fraction = bits & ((1 << FRACTION) - 1);
    let (mantissa, exponent) = match (bits >> FRACTION) as i32 & 0x7FF {
        0x7FF => return None,
        0 => (fraction, 1 - BIAS),
        biased => (fraction | 1 << FRACTION, biased - BIAS),
    };
    if mantissa == 0 {
        return Some((0, 0));
    }
    let zeros = mantissa.trailing_zeros();
    let mantissa = i128::from(mantissa >> zeros);
    Some((if number < 0.0 { -mantissa } else { mantissa }, exponent + zeros as i32))
}

/// The whole number next to a quotient; of two, that farther from zero. `None` if it is too large, or the divisor is 0.
fn rounded_quotient(dividend: i128, divisor: i128) -> Option<i128> {
    let (quotient, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
    let is_up = rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs();
    let away = if (dividend < 0) == (divisor < 0) { 1 } else { -1 };
    Some(if is_up { quotient + away } else { quotient })
}

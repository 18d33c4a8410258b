//! [`Place`]: numbers in the data of a frame.

use alloc::string::String;

use candor_causes::Cause;
use candor_wire::can::Field;
use candor_wire::can::field::PutError;

/// Where a number stands, and what it stands for: `raw * scale + offset`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Place {
    /// What it is called.
    pub name: String,
    /// The bits.
    pub field: Field,
    /// How much one more is.
    pub scale: f64,
    /// What zero is.
    pub offset: f64,
    /// The least and the greatest value that are allowed.
    pub range: Option<(f64, f64)>,
}

impl Place {
    pub(super) fn read(&self, data: &[u8]) -> Option<f64> {
        Some(self.field.get(data)? as f64 * self.scale + self.offset)
    }

    /// Writes the number nearest to `value`, which must be no less than the one nearest to the
    /// least value and no more than the one nearest to the greatest.
    pub(super) fn write(&self, data: &mut [u8], value: f64) -> Result<(), Cause> {
        let raw = |value: f64| nearest((value - self.offset) / self.scale);
        let written = raw(value).ok_or(Cause::OutOfRange)?;
        if let Some((least, most)) = self.range {
            // With a negative scale the greatest value is the least number.
            let (least, most) = if self.scale < 0.0 { (most, least) } else { (least, most) };
            let is_below = raw(least).is_some_and(|least| written < least);
            let is_above = raw(most).is_some_and(|most| written > most);
            if is_below || is_above {
                return Err(Cause::OutOfRange);
            }
        }
        self.put(data, written)
    }

    pub(super) fn put(&self, data: &mut [u8], written: i128) -> Result<(), Cause> {
        self.field.put(data, written).map_err(|error| match error {
            PutError::OutOfRange { .. } => Cause::OutOfRange,
            PutError::TooShort { .. } => Cause::TooShort,
        })
    }
}

/// The nearest whole number; halves go away from zero.
pub(super) fn nearest(value: f64) -> Option<i128> {
    // Far more than any field holds.
    const MOST: f64 = 1e30;
    if value.abs() >= MOST || value.is_nan() {
        return None;
    }
    let whole = value as i128;
    let rest = value - whole as f64;
    Some(if rest >= 0.5 {
        whole + 1
    } else if rest <= -0.5 {
        whole - 1
    } else {
        whole
    })
}

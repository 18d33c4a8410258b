//! [`Signal`]: a number in a frame and what it means.

use std::ops::RangeInclusive;

use candor_wire::can::Field;
use candor_wire::can::field::PutError;

use crate::{EncodeError, NotFound, Scaling};

/// What the bits of a signal are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueType {
    /// A whole number.
    #[default]
    Integer,
    /// An IEEE 754 number of 32 bits.
    F32,
    /// An IEEE 754 number of 64 bits.
    F64,
}

/// A number in a frame: raw value * scale + offset = physical value.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// What the file calls it; the long name if there is one.
    pub name: String,
    pub field: Field,
    /// What the bits are.
    pub value_type: ValueType,
    /// What raw values are worth.
    pub scaling: Scaling,
    /// The physical values it is said to have, if the file says so (`[0|0]` says nothing). Values
    /// outside are decoded and encoded all the same.
    pub limits: Option<RangeInclusive<f64>>,
    /// The unit of the physical value, such as `km/h`; may be empty.
    pub unit: String,
    /// Names of raw values, such as `off` and `on`.
    pub value_names: ValueNames,
    /// Whether its value selects which of the other signals are in the frame.
    pub is_selector: bool,
    /// When it is in the frame; always, if there is none.
    pub selection: Option<Selection>,
    /// The nodes that use it.
    pub receivers: Vec<String>,
}

/// A multiplexed signal's condition: it is in a frame whose selector has one of these values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The index of the selector in the signals of the message.
    pub selector: usize,
    /// The raw values of the selector.
    pub ranges: Vec<RangeInclusive<u64>>,
}

impl Selection {
    /// Whether this value of the selector selects the signal.
    #[must_use]
    pub fn takes(&self, raw: i128) -> bool {
        u64::try_from(raw).is_ok_and(|raw| self.ranges.iter().any(|range| range.contains(&raw)))
    }
}

/// Names of raw values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueNames(Vec<(i128, String)>);

impl ValueNames {
    /// Of two names for the same value, the later one counts.
    pub(crate) fn new(mut names: Vec<(i128, String)>) -> Self {
        names.reverse();
        names.sort_by_key(|&(raw, _)| raw);
        names.dedup_by_key(|&mut (raw, _)| raw);
        Self(names)
    }

    #[must_use]
    pub fn get(&self, raw: i128) -> Option<&str> {
        let (first, _) = self.0.first()?;
        // Most have no gaps: then the place follows from the value.
        let place = usize::try_from(raw.checked_sub(*first)?).ok()?;
        let at_place = self.0.get(place).filter(|&&(at_place, _)| at_place == raw);
        let found = || {
            let index = self.0.binary_search_by_key(&raw, |&(raw, _)| raw).ok()?;
            self.0.get(index)
        };
        at_place.or_else(found).map(|(_, name)| name.as_str())
    }

    /// All of them, by raw value.
    pub fn iter(&self) -> impl Iterator<Item = (i128, &str)> {
        self.0.iter().map(|(raw, name)| (*raw, name.as_str()))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A value that a frame is to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// In the signal's unit.
    Physical(f64),
    /// The number in the frame; of a floating-point signal, its bits. Whole numbers of more than 53 bits are exact only so.
    Raw(i128),
}

impl From<f64> for Value {
    fn from(physical: f64) -> Self {
        Self::Physical(physical)
    }
}

/// A signal's value in one frame.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'a> {
    pub signal: &'a Signal,
    /// The number in the frame; of a floating-point signal, its bits.
    pub raw: i128,
    /// Scaled and with its offset, in the signal's unit; without the error of decimal scales such as 0.1.
    pub physical: f64,
}

impl<'a> Decoded<'a> {
    /// The name of the value, if it has one.
    #[must_use]
    pub fn value_name(&self) -> Option<&'a str> {
        match self.signal.value_type {
            ValueType::Integer => self.signal.value_names.get(self.raw),
            ValueType::F32 | ValueType::F64 => None,
        }
    }
}

impl Signal {
    /// The signal's value in the data of a frame, or `None` if the data is too short. Whether the
    /// signal is selected is not looked at: [`Message::decode`](crate::Message::decode) does.
    #[inline]
    #[must_use]
    pub fn read(&self, data: &[u8]) -> Option<Decoded<'_>> {
        let bits = self.field.get_bits(data)?;
        let raw = self.field.number(bits);
        Some(Decoded { signal: self, raw, physical: self.physical_of_bits(bits) })
    }

    #[inline]
    fn physical_of_bits(&self, bits: u64) -> f64 {
        match self.value_type {
            ValueType::Integer if self.field.is_signed() => {
                self.scaling.of_whole(self.field.extend_sign(bits))
            }
            ValueType::Integer => match i64::try_from(bits) {
                Ok(raw) => self.scaling.of_whole(raw),
                Err(_) => self.scaling.of_float(bits as f64),
            },
            ValueType::F32 => self.scaling.of_float(f32::from_bits(bits as u32).into()),
            ValueType::F64 => self.scaling.of_float(f64::from_bits(bits)),
        }
    }

    /// The physical value of a raw one.
    #[must_use]
    pub fn physical(&self, raw: i128) -> f64 {
        self.physical_of_bits(raw as u64)
    }

    /// The raw value next to a physical one; of a floating-point signal, its bits.
    ///
    /// # Errors
    /// The signal's bits do not hold it, or it is no number.
    pub fn raw(&self, physical: f64) -> Result<i128, EncodeError> {
        let (scale, offset) = (self.scaling.scale(), self.scaling.offset());
        if scale == 0.0 {
            return Err(EncodeError::NoScale { signal: self.name.clone() });
        }
        let unscaled = (physical - offset) / scale;
        match self.value_type {
            ValueType::Integer if !unscaled.is_finite() => {
                Err(EncodeError::NotFinite { signal: self.name.clone() })
            }
            ValueType::Integer => {
                let raw = self.scaling.nearest(physical).unwrap_or_else(|| {
                    // At the ends of i128 if it is outside.
                    let rounded = unscaled.round() as i128;
                    let off = |raw: &i128| (self.physical(*raw) - physical).abs();
                    let nearby = [0, -1, 1].map(|by| rounded.saturating_add(by));
                    let held = nearby.into_iter().filter(|raw| self.field.range().contains(raw));
                    held.min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(rounded)
                });
                if !self.field.range().contains(&raw) {
                    let range = self.field.range();
                    let ends = [*range.start(), *range.end()].map(Value::Raw);
                    return Err(self.out_of_range(Value::Physical(physical), ends));
                }
                Ok(raw)
            }
            ValueType::F32 => {
                let raw = unscaled as f32;
                if raw.is_infinite() && unscaled.is_finite() {
                    let end = |raw: f32| Value::Physical(self.scaling.of_float(raw.into()));
                    let ends = [end(f32::MIN), end(f32::MAX)];
                    return Err(self.out_of_range(Value::Physical(physical), ends));
                }
                Ok(self.field.number(u64::from(raw.to_bits())))
            }
            ValueType::F64 => Ok(self.field.number(unscaled.to_bits())),
        }
    }

    /// The raw value next to a physical one that is a whole number: also where `f64` does not have it. `None` if it is a floating-point
    /// signal, or scale and offset are no decimal numbers of few digits.
    #[must_use]
    pub fn raw_of_whole(&self, physical: i128) -> Option<i128> {
        let is_integer = self.value_type == ValueType::Integer;
        is_integer.then(|| self.scaling.nearest_to_whole(physical))?
    }

    /// Writes a raw value, or the one next to a physical value, and leaves every other bit as it is.
    ///
    /// # Errors
    /// The signal's bits do not hold it, it is no number, or the data is too short; then nothing is
    /// changed.
    pub fn write(&self, data: &mut [u8], value: impl Into<Value>) -> Result<(), EncodeError> {
        let value = value.into();
        let raw = match value {
            Value::Physical(physical) => self.raw(physical)?,
            Value::Raw(raw) => raw,
        };
        self.field.put(data, raw).map_err(|error| match error {
            PutError::TooShort { need, length } => {
                EncodeError::TooShort { signal: self.name.clone(), need, length }
            }
            PutError::OutOfRange { min, max, .. } => {
                self.out_of_range(value, [min, max].map(Value::Raw))
            }
        })
    }

    /// The raw value with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn value_named(&self, name: &str) -> Result<i128, NotFound> {
        self.value_names.iter().find(|&(_, known)| known == name).map(|(raw, _)| raw).ok_or_else(
            || {
                let known = self.value_names.iter().map(|(_, name)| name);
                NotFound::new("value", name, &format!("`{}`", self.name), known)
            },
        )
    }

    fn out_of_range(&self, value: Value, [a, b]: [Value; 2]) -> EncodeError {
        let (min, max) = if self.scaling.scale() < 0.0 { (b, a) } else { (a, b) };
        let [value, min, max] = [value, min, max].map(|value| self.shown(value));
        EncodeError::OutOfRange { signal: self.name.clone(), value, min, max }
    }

    /// A physical value in decimal notation; of a raw one with all digits if it is a whole number.
    fn shown(&self, value: Value) -> String {
        let physical = match value {
            Value::Physical(physical) => physical,
            Value::Raw(raw) => {
                if self.value_type == ValueType::Integer
                    && let Some(whole) = self.scaling.whole_of(raw)
                {
                    return whole.to_string();
                }
                match self.field.range().contains(&raw) {
                    true => self.physical(raw),
                    false => self.scaling.of_float(raw as f64),
                }
            }
        };
        physical.to_string()
    }
}

#[cfg(test)]
mod tests {
    use candor_wire::can::ByteOrder::{Intel, Motorola};
    use proptest::prelude::*;

    use super::*;
    use crate::scaling::parts;

    fn signal(bits: u8, is_signed: bool, scale: f64, offset: f64) -> Signal {
        Signal {
            name: "S".to_owned(),
            field: Field::new(0, bits, Intel, is_signed).unwrap(),
            value_type: ValueType::Integer,
            scaling: Scaling::new(scale, offset),
            limits: None,
            unit: String::new(),
            value_names: ValueNames::default(),
            is_selector: false,
            selection: None,
            receivers: Vec::new(),
        }
    }

    #[test]
    fn physical_values_are_rounded_to_the_nearest_raw_one() {
        for (scale, offset, physical, raw) in [
            (1.0, 0.0, 12.4, 12),
            (1.0, 0.0, 12.5, 13),
            (1.0, 0.0, -12.5, -13),
            (0.25, 0.0, 10.1, 40),
            (0.1, -40.0, -12.3, 277),
            (-0.5, 3.0, 1.0, 4),
            (1e-3, 0.0, 0.0314, 31),
        ] {
            assert_eq!(signal(16, true, scale, offset).raw(physical), Ok(raw), "{physical}");
        }
    }

    #[test]
    fn what_the_bits_do_not_hold_is_refused() {
        let limits = |value: &str, min: &str, max: &str| EncodeError::OutOfRange {
            signal: "S".into(),
            value: value.into(),
            min: min.into(),
            max: max.into(),
        };
        let not_finite = EncodeError::NotFinite { signal: "S".into() };
        for (signal, physical, error) in [
            (signal(8, false, 0.5, -10.0), 117.75, limits("117.75", "-10", "117.5")),
            (signal(8, false, 0.5, -10.0), -10.3, limits("-10.3", "-10", "117.5")),
            (signal(8, true, -1.0, 0.0), 129.0, limits("129", "-127", "128")),
            (
                signal(64, false, 1.0, 0.0),
                1e300,
                limits(&1e300.to_string(), "0", "18446744073709551615"),
            ),
            (signal(8, false, 1.0, 0.0), f64::NAN, not_finite.clone()),
            (signal(8, false, 1.0, 0.0), f64::INFINITY, not_finite),
            (signal(8, false, 0.0, 7.0), 7.0, EncodeError::NoScale { signal: "S".into() }),
        ] {
            assert_eq!(signal.raw(physical), Err(error.clone()));
            let mut data = [0x55; 8];
            assert_eq!(signal.write(&mut data, physical), Err(error));
            assert_eq!(data, [0x55; 8]);
        }
        let too_short = EncodeError::TooShort { signal: "S".into(), need: 2, length: 1 };
        assert_eq!(signal(9, false, 1.0, 0.0).write(&mut [0], 1.0), Err(too_short));
        // The last value that is rounded into the range.
        assert_eq!(signal(8, false, 0.5, -10.0).raw(117.74), Ok(255));
    }

    #[test]
    fn floating_point_numbers_keep_their_bits() {
        let single = Signal { value_type: ValueType::F32, ..signal(32, true, 2.0, 1.0) };
        let mut data = [0; 8];
        single.write(&mut data, -8.0).unwrap();
        assert_eq!(data[..4], (-4.5_f32).to_le_bytes());
        let decoded = single.read(&data).unwrap();
        assert_eq!((decoded.physical, decoded.value_name()), (-8.0, None));
        for scale in [2.0, 0.5] {
            let (offset, value) = (1e38, 1e39);
            let end = f64::from(f32::MAX) * scale;
            let [value_text, min, max] =
                [value, offset - end, offset + end].map(|it: f64| it.to_string());
            let error = EncodeError::OutOfRange { signal: "S".into(), value: value_text, min, max };
            assert_eq!(
                Signal { scaling: Scaling::new(scale, offset), ..single.clone() }.raw(value),
                Err(error)
            );
        }

        let double = Signal { value_type: ValueType::F64, ..signal(64, false, 1.0, 0.0) };
        for value in [0.1, -1e300, f64::INFINITY] {
            double.write(&mut data, value).unwrap();
            assert_eq!(data, value.to_le_bytes());
            assert_eq!(double.read(&data).unwrap().physical, value);
        }
    }

    #[test]
    fn values_have_names() {
        let names = [(1, "on"), (-1, "not available"), (0, "off"), (1, "ON")];
        let names = names.map(|(raw, name)| (raw, name.to_owned()));
        let gear =
            Signal { value_names: ValueNames::new(names.into()), ..signal(4, true, 1.0, 0.0) };
        for (byte, name) in
            [(0, Some("off")), (1, Some("ON")), (2, None), (0x0F, Some("not available"))]
        {
            assert_eq!(gear.read(&[byte]).unwrap().value_name(), name);
        }
        assert_eq!(gear.value_named("not available"), Ok(-1));
        assert_eq!(
            gear.value_named("of").unwrap_err().to_string(),
            "no value of `S` is called `of`; did you mean `off`?"
        );
        let listed: Vec<_> = gear.value_names.iter().collect();
        assert_eq!(listed, [(-1, "not available"), (0, "off"), (1, "ON")]);
        assert!(!gear.value_names.is_empty() && ValueNames::default().is_empty());
    }

    #[test]
    fn values_of_decimal_scales_are_short() {
        for (raw, scale, offset, text) in [
            (1_278, 0.01, 0.0, "12.78"),
            (3, 0.1, 0.0, "0.3"),
            (65_535, 0.000_1, 0.0, "6.5535"),
            (1, 0.015_625, 0.0, "0.015625"),
            (-7, 0.1, 0.0, "-0.7"),
            (7_678, 0.1, -780.0, "-12.2"),
            (1, 0.1, 0.2, "0.3"),
            (3, 1e-9, 0.0, "0.000000003"),
            (5_150_438_181, 1.0, 0.0, "5150438181"),
            (5_150_438_181, 1.0, -40.0, "5150438141"),
            (51_504_381_815, 0.1, 0.0, "5150438181.5"),
        ] {
            assert_eq!(signal(64, true, scale, offset).physical(raw).to_string(), text);
        }
        // What is no decimal number of few digits is computed.
        for (raw, scale, offset) in [
            (1_i64, 1.0 / 3.0, 0.0),
            (7, 2_f64.powi(-40), 0.1),
            (3, f64::MAX, 0.0),
            (3, f64::INFINITY, 0.1),
            (i64::MAX, 0.1, 0.0),
            (i64::MIN, 1e300, -1e300),
        ] {
            let physical = signal(64, true, scale, offset).physical(raw.into());
            assert_eq!(physical.to_bits(), (raw as f64 * scale + offset).to_bits(), "{raw}");
        }
        assert!(signal(8, true, f64::NAN, 0.0).physical(1).is_nan());
        // Numbers of IEEE 754 have their own errors.
        let double = Signal { value_type: ValueType::F64, ..signal(64, false, 0.1, 0.0) };
        assert_eq!(double.physical(3_f64.to_bits().into()), 3.0 * 0.1);
    }

    proptest! {
        /// What is decoded is encoded again, as long as `f64` can tell raw values apart.
        #[test]
        fn raw_values_survive(
            (start_bit, bits, is_intel, is_signed) in
                (0..512_u16, 1..=40_u8, any::<bool>(), any::<bool>()),
            scale in prop_oneof![1e-4..1e4, -1e4..-1e-4, Just(1.0), Just(0.1)],
            steps in -1e6..1e6,
            data in proptest::collection::vec(any::<u8>(), 64),
        ) {
            let order = if is_intel { Intel } else { Motorola };
            let Ok(field) = Field::new(start_bit, bits, order, is_signed) else { return Ok(()) };
            let signal = Signal { field, ..signal(1, false, scale, steps * scale) };
            let decoded = signal.read(&data).unwrap();
            prop_assert_eq!(decoded.physical, signal.physical(decoded.raw));
            prop_assert_eq!(signal.raw(decoded.physical), Ok(decoded.raw));
            let mut written = data.clone();
            signal.write(&mut written, decoded.physical).unwrap();
            prop_assert_eq!(written, data);
        }

        /// Whole numbers that `f64` has are what they are.
        #[test]
        fn whole_numbers_are_exact(raw in -(1_i64 << 53)..=1 << 53, narrow in 0_i64..1 << 33) {
            for raw in [raw, narrow] {
                prop_assert_eq!(signal(64, true, 1.0, 0.0).physical(raw.into()) as i64, raw);
            }
        }

        /// A value of a decimal scale is the `f64` next to what exact arithmetic gives, whose digits the standard library
        /// reads.
        #[test]
        fn values_of_decimal_scales_are_exact(
            raw in -(1_i64 << 40)..1 << 40,
            shift in 0..40_u32,
            (factor, places) in (-1_000_i64..=1_000, 0..=9_usize),
            (offset, offset_places) in (-100_000_i64..=100_000, 0..=9_usize),
        ) {
            let raw = raw >> shift;
            let decimal = |number: i128, places: usize| -> f64 {
                format!("{number}e-{places}").parse().unwrap()
            };
            let signal = signal(
                64, true, decimal(factor.into(), places), decimal(offset.into(), offset_places),
            );
            let most = places.max(offset_places);
            let power = |places: usize| 10_i128.pow((most - places) as u32);
            let steps = i128::from(raw) * i128::from(factor) * power(places)
                + i128::from(offset) * power(offset_places);
            let physical = signal.physical(raw.into());
            if steps.unsigned_abs() <= 1 << 53 {
                prop_assert_eq!(physical, decimal(steps, most));
            } else {
                // Nothing but what computing gives, which is near.
                let computed = signal.scaling.of_float(raw as f64);
                let exact = decimal(steps, most);
                prop_assert!((physical - exact).abs() <= (computed - exact).abs());
            }
        }

        /// However many bits the raw value has, none is nearer: a value of decimal scales, in units of the scale's last digit.
        #[test]
        fn no_raw_value_is_nearer(
            bits in 2_u8..=64,
            is_signed: bool,
            places in 0_usize..8,
            digits in 1_i64..1_000,
            raw: u64,
            off in -0.6..0.6_f64,
        ) {
            let scale = format!("{digits}e-{places}").parse::<f64>().unwrap();
            let signal = signal(bits, is_signed, scale, 0.0);
            let most = *signal.field.range().end() as u64;
            let physical = signal.physical((raw % most).into()) + off * scale;
            let Ok(found) = signal.raw(physical) else { return Ok(()) };
            // Twice the distance, exactly: physical = mantissa * 2^exponent.
            let power = 10_i128.pow(places as u32);
            let (mantissa, exponent) = parts(physical).unwrap();
            prop_assume!(exponent >= -20);
            let unit = 1_i128 << 20;
            let exact = mantissa * power * (1 << (exponent + 20));
            let distance = |raw: i128| (raw * i128::from(digits) * unit - exact).abs();
            for other in [found - 1, found + 1] {
                prop_assert!(distance(found) <= distance(other), "{physical}: {found}, {other}");
            }
        }

        /// The nearest raw value is at most half a step away.
        #[test]
        fn encoding_rounds_to_the_nearest(scale in 1e-3..1e3, physical in -1e6..1e6) {
            let signal = signal(32, true, scale, 0.0);
            match signal.raw(physical) {
                Ok(raw) => {
                    let distance = (signal.physical(raw) - physical).abs();
                    prop_assert!(distance <= scale * 0.5 * (1.0 + 1e-6), "{}", distance);
                }
                Err(_) => prop_assert!((physical / scale).abs() > 2_147_483_647.0),
            }
        }
    }
}

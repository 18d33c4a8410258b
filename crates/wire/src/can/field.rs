//! [`Field`]: a number of 1 to 64 bits somewhere in the data of a frame, numbered as in DBC files.
//!
//! DBC files number the bits of the data byte by byte, in each byte from the least significant bit
//! (0) to the most significant one (7): bit `b` of byte `B` is `8 * B + b`.
//!
//! ```text
//!           bit   7   6   5   4   3   2   1   0
//! byte 0         7   6   5   4   3   2   1   0
//! byte 1        15  14  13  12  11  10   9   8
//! byte 2        23  22  21  20  19  18  17  16
//! ```
//!
//! - **Intel**, little-endian: `start_bit` is the *least* significant bit of the number, and its
//!   further bits have the following bit numbers. 12 bits from 4 are bits 4 to 15.
//! - **Motorola**, big-endian: `start_bit` is the *most* significant bit. Less significant bits go
//!   down to bit 0 of the byte, then on at bit 7 of the next byte. 12 bits from 3 are bits 3, 2, 1,
//!   0, 15, 14 and so on to 8.
//!
//! ```
//! use candor_wire::can::{ByteOrder, Field};
//!
//! let intel = Field::new(4, 12, ByteOrder::Intel, false)?;
//! let motorola = Field::new(3, 12, ByteOrder::Motorola, true)?;
//! assert_eq!(intel.get(&[0x5A, 0xBC]), Some(0xBC5));
//! assert_eq!(motorola.get(&[0x5A, 0xBC]), Some(0xABC - 0x1000));
//!
//! let mut data = [0; 8];
//! motorola.put(&mut data, -2)?;
//! assert_eq!(data, [0x0F, 0xFE, 0, 0, 0, 0, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;
use core::ops::RangeInclusive;

/// The longest data that a frame has, in bytes.
const MAX_LENGTH: usize = 64;

/// In which order the bytes of a number are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ByteOrder {
    /// Little-endian: the least significant byte first.
    Intel,
    /// Big-endian: the most significant byte first.
    Motorola,
}

/// Where a number is in the data of a frame: see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "Written", try_from = "Written"))]
pub struct Field {
    start_bit: u16,
    bits: u8,
    order: ByteOrder,
    is_signed: bool,
    /// The bytes with the first and the last bit.
    first: u8,
    last: u8,
}

/// What a field is written as; the rest follows from it.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Written {
    start_bit: u16,
    bits: u8,
    order: ByteOrder,
    is_signed: bool,
}

#[cfg(feature = "serde")]
impl From<Field> for Written {
    fn from(field: Field) -> Self {
        let Field { start_bit, bits, order, is_signed, .. } = field;
        Self { start_bit, bits, order, is_signed }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Written> for Field {
    type Error = FieldError;

    fn try_from(written: Written) -> Result<Self, FieldError> {
        Self::new(written.start_bit, written.bits, written.order, written.is_signed)
    }
}

/// Why there is no such field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// Not 1 to 64 bits; how many.
    Bits(u64),
    /// The field ends beyond the data.
    Outside {
        /// How many bytes it needs.
        need: usize,
        /// How many there are.
        length: usize,
    },
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(bits) => write!(f, "a field must have 1 to 64 bits, not {bits}"),
            Self::Outside { need, length } => {
                write!(f, "the field ends in byte {need}, but there are {length}")
            }
        }
    }
}
impl core::error::Error for FieldError {}

/// A number that a field cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// The number is beyond what so many bits hold.
    OutOfRange {
        /// The number.
        value: i128,
        /// The smallest number that the field holds.
        min: i128,
        /// The largest one.
        max: i128,
    },
    /// The data ends before the field does.
    TooShort {
        /// How many bytes the field needs.
        need: usize,
        /// How many there are.
        length: usize,
    },
}

impl fmt::Display for PutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { value, min, max } => {
                write!(f, "{value} is outside the range of the field, {min} to {max}")
            }
            Self::TooShort { need, length } => {
                write!(f, "the field needs {need} bytes of data, but the frame has {length}")
            }
        }
    }
}
impl core::error::Error for PutError {}

impl Field {
    /// A field of at most 64 bits that lies within the longest data of a frame, 64 bytes.
    ///
    /// # Errors
    /// No or too many bits, or an end beyond 64 bytes.
    pub const fn new(
        start_bit: u16,
        bits: u8,
        order: ByteOrder,
        is_signed: bool,
    ) -> Result<Self, FieldError> {
        if bits == 0 || bits > 64 {
            return Err(FieldError::Bits(bits as u64));
        }
        let first = start_bit as usize / 8;
        let last = match order {
            ByteOrder::Intel => (start_bit as usize + bits as usize - 1) / 8,
            // In the order of sending, the start bit has so many bits before it in its byte.
            ByteOrder::Motorola => first + (7 - start_bit as usize % 8 + bits as usize - 1) / 8,
        };
        if last >= MAX_LENGTH {
            return Err(FieldError::Outside { need: last + 1, length: MAX_LENGTH });
        }
        Ok(Self { start_bit, bits, order, is_signed, first: first as u8, last: last as u8 })
    }

    /// The same, if it lies within `length` bytes.
    ///
    /// # Errors
    /// It does not.
    pub const fn within(self, length: usize) -> Result<Self, FieldError> {
        if self.bytes() > length {
            return Err(FieldError::Outside { need: self.bytes(), length });
        }
        Ok(self)
    }

    /// The bit it starts with, numbered as in DBC files.
    #[must_use]
    pub const fn start_bit(self) -> u16 {
        self.start_bit
    }

    /// How many bits it has, 1 to 64.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// In which order its bytes are sent.
    #[must_use]
    pub const fn order(self) -> ByteOrder {
        self.order
    }

    /// Whether it is a number in two's complement.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        self.is_signed
    }

    /// How many bytes the data must have at least for the field to be there.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.last as usize + 1
    }

    /// The numbers it holds.
    #[must_use]
    pub const fn range(self) -> RangeInclusive<i128> {
        if self.is_signed {
            let half = 1_i128 << (self.bits - 1);
            -half..=half - 1
        } else {
            0..=(1_i128 << self.bits) - 1
        }
    }

    /// The number, or `None` if the data is too short.
    #[inline]
    #[must_use]
    pub fn get(self, data: &[u8]) -> Option<i128> {
        self.get_bits(data).map(|bits| self.number(bits))
    }

    /// The number that these bits stand for: [`Field::get_bits`] may have read them.
    #[inline]
    #[must_use]
    pub const fn number(self, bits: u64) -> i128 {
        if self.is_signed { self.extend_sign(bits) as i128 } else { bits as i128 }
    }

    /// The bits of the field, read as a number in two's complement whether it is one or not.
    #[inline]
    #[must_use]
    pub const fn extend_sign(self, bits: u64) -> i64 {
        let unused = 64 - self.bits as u32;
        (bits << unused) as i64 >> unused
    }

    /// The bits of the field as they are, the least significant one as bit 0; `None` if the data
    /// is too short.
    #[inline]
    #[must_use]
    pub fn get_bits(self, data: &[u8]) -> Option<u64> {
        let (first, last) = (usize::from(self.first), usize::from(self.last));
        if last >= data.len() {
            return None;
        }
        // Eight bytes with the field in them. They begin earlier if the data ends too soon.
        let base = first.min(data.len().saturating_sub(8));
        if last - base >= 8 {
            return Some(self.get_bits_of_nine(data));
        }
        let word = match data.get(base..).and_then(<[u8]>::first_chunk) {
            Some(word) => *word,
            None => padded(data),
        };
        Some(match self.order {
            ByteOrder::Intel => {
                let shift = usize::from(self.start_bit) - 8 * base;
                u64::from_le_bytes(word) >> shift & self.mask()
            }
            ByteOrder::Motorola => {
                let before = 8 * (first - base) + 7 - usize::from(self.start_bit % 8);
                u64::from_be_bytes(word) << before >> (64 - u32::from(self.bits))
            }
        })
    }

    /// The bits of a field that shares a byte on either side with others.
    #[cold]
    fn get_bits_of_nine(self, data: &[u8]) -> u64 {
        let bytes = data.get(usize::from(self.first)..).unwrap_or_default();
        let window = padded::<16>(bytes);
        (self.window(window) >> self.window_shift()) as u64 & self.mask()
    }

    /// Writes the number and leaves every other bit as it is.
    ///
    /// # Errors
    /// The field does not hold the number, or the data is too short; then nothing is changed.
    pub fn put(self, data: &mut [u8], value: i128) -> Result<(), PutError> {
        let range = self.range();
        if !range.contains(&value) {
            return Err(PutError::OutOfRange { value, min: *range.start(), max: *range.end() });
        }
        self.put_bits(data, value as u64)
    }

    /// Writes the lowest bits of `bits` into the field and leaves every other bit as it is.
    ///
    /// # Errors
    /// The data is too short; then nothing is changed.
    pub fn put_bits(self, data: &mut [u8], bits: u64) -> Result<(), PutError> {
        let length = data.len();
        let Some(bytes) = data.get_mut(usize::from(self.first)..=usize::from(self.last)) else {
            return Err(PutError::TooShort { need: self.bytes(), length });
        };
        let shift = self.window_shift();
        let mask = u128::from(self.mask()) << shift;
        let window = self.window(padded(bytes)) & !mask | u128::from(bits) << shift & mask;
        let window = match self.order {
            ByteOrder::Intel => window.to_le_bytes(),
            ByteOrder::Motorola => window.to_be_bytes(),
        };
        for (byte, new) in bytes.iter_mut().zip(window) {
            *byte = new;
        }
        Ok(())
    }

    /// 16 bytes that begin with the field's first one, as a number.
    const fn window(self, bytes: [u8; 16]) -> u128 {
        match self.order {
            ByteOrder::Intel => u128::from_le_bytes(bytes),
            ByteOrder::Motorola => u128::from_be_bytes(bytes),
        }
    }

    /// Where the field's least significant bit is in the window.
    const fn window_shift(self) -> u32 {
        let bit = self.start_bit as u32 % 8;
        match self.order {
            ByteOrder::Intel => bit,
            ByteOrder::Motorola => 128 - (7 - bit) - self.bits as u32,
        }
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits as u32)
    }
}

/// The first bytes of `data`, zeros after its end.
fn padded<const LENGTH: usize>(data: &[u8]) -> [u8; LENGTH] {
    let mut padded = [0; LENGTH];
    for (padded, &byte) in padded.iter_mut().zip(data) {
        *padded = byte;
    }
    padded
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    use super::ByteOrder::{Intel, Motorola};
    use super::*;

    /// The numbers of the field's bits, the most significant one first, by the rule of the module's
    /// description and nothing else.
    fn bit_numbers(start_bit: u16, bits: u8, order: ByteOrder) -> Vec<u16> {
        let mut bit = start_bit;
        let mut numbers = Vec::new();
        for _ in 0..bits {
            numbers.push(bit);
            bit = match order {
                Intel => bit + 1,
                Motorola if bit.is_multiple_of(8) => bit + 15,
                Motorola => bit - 1,
            };
        }
        if order == Intel {
            numbers.reverse();
        }
        numbers
    }

    #[test]
    fn examples_worked_by_hand() {
        let data = [0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC, 0xDE, 0xF0];
        for (start_bit, bits, order, is_signed, value) in [
            // Whole bytes. Intel starts at bit 0 of the lowest byte, Motorola at bit 7 of the first.
            (0, 8, Intel, false, 0x12),
            (7, 8, Motorola, false, 0x12),
            (0, 16, Intel, false, 0x3412),
            (7, 16, Motorola, false, 0x1234),
            (8, 24, Intel, false, 0x78_5634),
            (15, 24, Motorola, false, 0x34_5678),
            // 0x12 is 0001_0010: bit 1 and bit 4 are set.
            (1, 1, Intel, false, 1),
            (1, 1, Motorola, false, 1),
            (2, 1, Intel, false, 0),
            // Bits 4..=11: the upper half of byte 0 is 1, the lower half of byte 1 is 4 and above it.
            (4, 8, Intel, false, 0x41),
            // Bits 3, 2, 1, 0 are 2; then bits 15, 14, 13, 12, the upper half of byte 1, are 3.
            (3, 8, Motorola, false, 0x23),
            // Bits 5, 4, 3, 2 of byte 0: 0100.
            (5, 4, Motorola, false, 0b0100),
            (2, 4, Intel, false, 0b0100),
            // 10 bits: bit 0 of byte 3 (0x78: 0), byte 4 (0x9A: 1001 1010), bit 7 of byte 5 (0xBC: 1).
            (24, 10, Motorola, false, 0b01_0011_0101),
            // Two's complement: 0xF0 is -16; its upper half, 0xF, is -1.
            (56, 8, Intel, true, -16),
            (60, 4, Intel, true, -1),
            (63, 4, Motorola, true, -1),
            (63, 8, Motorola, true, -16),
            (56, 4, Intel, true, 0),
            // All of it.
            (0, 64, Intel, false, 0xF0DE_BC9A_7856_3412),
            (7, 64, Motorola, false, 0x1234_5678_9ABC_DEF0),
            (0, 64, Intel, true, 0xF0DE_BC9A_7856_3412 - (1 << 64)),
        ] {
            let field = Field::new(start_bit, bits, order, is_signed).unwrap();
            assert_eq!(field.get(&data), Some(value), "{field:?}");
            assert_eq!((field.start_bit(), field.bits()), (start_bit, bits));
            assert_eq!((field.order(), field.is_signed()), (order, is_signed));
        }
    }

    #[test]
    fn fields_of_nine_bytes_are_read() {
        let data: Vec<u8> = (0..64).map(|byte| byte * 3 + 1).collect();
        // From bit 4 of byte 10 on: 0xF is the upper half of 31 = 0x1F, and so on.
        let field = Field::new(84, 64, Intel, false).unwrap();
        let window = u128::from_le_bytes(data[10..26].try_into().unwrap());
        assert_eq!(field.get_bits(&data), Some((window >> 4) as u64));
        let field = Field::new(83, 64, Motorola, false).unwrap();
        let window = u128::from_be_bytes(data[10..26].try_into().unwrap());
        assert_eq!(field.get_bits(&data), Some((window << 4 >> 64) as u64));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (start_bit, bits, order, error) in [
            (0, 0, Intel, FieldError::Bits(0)),
            (0, 65, Intel, FieldError::Bits(65)),
            (505, 8, Intel, FieldError::Outside { need: 65, length: 64 }),
            (510, 8, Motorola, FieldError::Outside { need: 65, length: 64 }),
            (u16::MAX, 64, Motorola, FieldError::Outside { need: 8_199, length: 64 }),
        ] {
            assert_eq!(Field::new(start_bit, bits, order, false), Err(error));
        }
        let field = Field::new(504, 8, Intel, false).unwrap();
        assert_eq!(Field::new(511, 8, Motorola, false).map(Field::bytes), Ok(64));
        assert_eq!(field.within(64), Ok(field));
        assert_eq!(field.within(63), Err(FieldError::Outside { need: 64, length: 63 }));
        assert_eq!(field.get(&[0; 63]), None);
        let mut short = [7; 63];
        assert_eq!(field.put(&mut short, 1), Err(PutError::TooShort { need: 64, length: 63 }));
        assert_eq!(short, [7; 63]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_field_is_written_as_what_it_is_made_of() {
        let text = r#"{"start_bit":12,"bits":5,"order":"Motorola","is_signed":true}"#;
        let field = Field::new(12, 5, Motorola, true).unwrap();
        assert_eq!(serde_json::to_string(&field).unwrap(), text);
        assert_eq!(serde_json::from_str::<Field>(text).unwrap(), field);
        let error = serde_json::from_str::<Field>(&text.replace(":5", ":65")).unwrap_err();
        assert!(error.to_string().contains("not 65"), "{error}");
    }

    #[test]
    fn refusals_name_the_numbers() {
        let outside = FieldError::Outside { need: 65, length: 64 };
        let out_of_range = PutError::OutOfRange { value: 300, min: 0, max: 255 };
        for (text, expected) in [
            (FieldError::Bits(65).to_string(), "a field must have 1 to 64 bits, not 65"),
            (outside.to_string(), "the field ends in byte 65, but there are 64"),
            (out_of_range.to_string(), "300 is outside the range of the field, 0 to 255"),
            (
                PutError::TooShort { need: 3, length: 2 }.to_string(),
                "the field needs 3 bytes of data, but the frame has 2",
            ),
        ] {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn numbers_beyond_the_range_are_refused() {
        for (bits, is_signed, min, max) in [
            (1, false, 0, 1),
            (1, true, -1, 0),
            (8, false, 0, 255),
            (8, true, -128, 127),
            (64, false, 0, i128::from(u64::MAX)),
            (64, true, i128::from(i64::MIN), i128::from(i64::MAX)),
        ] {
            let field = Field::new(0, bits, Intel, is_signed).unwrap();
            assert_eq!(field.range(), min..=max);
            for value in [min - 1, max + 1, i128::MIN, i128::MAX] {
                let mut data = [0x55; 8];
                let error = PutError::OutOfRange { value, min, max };
                assert_eq!(field.put(&mut data, value), Err(error));
                assert_eq!(data, [0x55; 8]);
            }
            for value in [min, max] {
                let mut data = [0x55; 8];
                field.put(&mut data, value).unwrap();
                assert_eq!(field.get(&data), Some(value));
            }
        }
    }

    fn any_field() -> impl Strategy<Value = Field> {
        (0..512_u16, 1..=64_u8, any::<bool>(), any::<bool>()).prop_filter_map(
            "ends beyond 64 bytes",
            |(start_bit, bits, is_intel, is_signed)| {
                let order = if is_intel { Intel } else { Motorola };
                Field::new(start_bit, bits, order, is_signed).ok()
            },
        )
    }

    proptest! {
        #[test]
        fn reading_is_reading_bit_by_bit(
            field in any_field(),
            data in proptest::collection::vec(any::<u8>(), 0..=64),
        ) {
            let numbers = bit_numbers(field.start_bit, field.bits, field.order);
            let expected = numbers.iter().try_fold(0_u64, |value, &number| {
                let byte = data.get(usize::from(number / 8))?;
                Some(value << 1 | u64::from(byte >> (number % 8) & 1))
            });
            prop_assert_eq!(field.get_bits(&data), expected);
            prop_assert_eq!(field.bytes(), usize::from(numbers.iter().max().unwrap() / 8) + 1);
        }

        #[test]
        fn what_is_written_is_read_and_the_rest_stays(
            field in any_field(),
            data in proptest::collection::vec(any::<u8>(), 64),
            bits in any::<u64>(),
        ) {
            let value = field.number(bits & field.mask());
            let mut written = data.clone();
            field.put(&mut written, value).unwrap();
            prop_assert_eq!(field.get(&written), Some(value));
            let own = bit_numbers(field.start_bit, field.bits, field.order);
            for number in (0..512_u16).filter(|number| !own.contains(number)) {
                let bit = |data: &[u8]| data[usize::from(number / 8)] >> (number % 8) & 1;
                prop_assert_eq!(bit(&written), bit(&data));
            }
        }

        #[test]
        fn a_field_exists_if_its_bits_do(
            start_bit in any::<u16>(),
            bits in any::<u8>(),
            is_intel in any::<bool>(),
        ) {
            let order = if is_intel { Intel } else { Motorola };
            let exists = (1..=64).contains(&bits)
                && start_bit < 1_000
                && bit_numbers(start_bit, bits, order).iter().all(|&number| number < 512);
            prop_assert_eq!(Field::new(start_bit, bits, order, false).is_ok(), exists);
        }
    }
}

//! [`Action`]: one step of an ordered edit. Steps run as they are written, each on what the one
//! before left; only what says so looks at the frame as it was received.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use candor_causes::Cause;
use candor_wire::field::PutError;
use candor_wire::frame::RTR_FLAG;
use candor_wire::{Field, Frame};

use super::e2e::E2e;
use super::exact::{self, Exact};
use crate::edit::{Crc8, Operands, Operator, Step, Working, XorChecksum};

/// One step of an ordered edit.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    /// An operator, as in [`Edit`](crate::Edit).
    Operate(Operator, Operands),
    /// A CRC8.
    Crc8(Crc8),
    /// An XOR checksum.
    XorChecksum(XorChecksum),
    /// Bytes of the frame as it was received.
    Copy(Copy),
    /// A number in the data: computed, written, perhaps elsewhere.
    Signal(Box<Signal>),
    /// Another message: identifier and length, all data zero.
    Message(Message),
    /// How many frames went out.
    Counter(Counter),
    /// End-to-end protection.
    E2e(E2e),
    /// Another identifier, out of a table.
    Remap(Remap),
}

/// Bytes of the frame as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Copy {
    /// The first byte in the received frame.
    pub from: u8,
    /// The first byte that is written.
    pub to: u8,
    /// How many bytes.
    pub count: u8,
}

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

/// A number that is read, computed and written: `value * factor + addend`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Signal {
    /// Where it is read.
    pub from: Place,
    /// Whether it is read from the frame as it was received, not as it is now.
    pub of_received: bool,
    /// The factor.
    pub factor: f64,
    /// What is added.
    pub addend: f64,
    /// The least and the greatest value: what is beyond becomes that. Else the frame is refused.
    pub clamp: Option<(f64, f64)>,
    /// Where it is written.
    pub to: Place,
    /// How it is computed if it is too wide for `f64`; made by [`Signal::new`].
    exact: Option<Box<Exact>>,
}

/// Another message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Message {
    /// What it is called.
    pub name: String,
    /// Its identifier word.
    pub can_id: u32,
    /// Its length in bytes.
    pub len: u8,
}

/// How many frames went out, as far as the field has room.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counter {
    /// The bits.
    pub field: Field,
    /// After so many it begins again, 1 at least.
    pub modulus: u64,
}

/// Identifiers and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Remap {
    /// Identifier words before and after, sorted by the first. Remote frames stay remote frames.
    pairs: Vec<(u32, u32)>,
    /// Whether frames with another identifier pass as they are; else they are refused.
    pub keeps_others: bool,
}

impl Remap {
    /// A table.
    #[must_use]
    pub fn new(mut pairs: Vec<(u32, u32)>, keeps_others: bool) -> Self {
        pairs.sort_unstable();
        pairs.dedup_by_key(|(from, _)| *from);
        Self { pairs, keeps_others }
    }

    /// The identifier words, before and after.
    #[must_use]
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// What becomes of an identifier word.
    #[must_use]
    pub fn find(&self, can_id: u32) -> Option<u32> {
        let remote = can_id & RTR_FLAG;
        let place = self.pairs.binary_search_by_key(&(can_id & !RTR_FLAG), |(from, _)| *from).ok();
        place.and_then(|place| self.pairs.get(place)).map(|(_, to)| to | remote)
    }
}

impl Place {
    fn read(&self, data: &[u8]) -> Option<f64> {
        Some(self.field.get(data)? as f64 * self.scale + self.offset)
    }

    /// Writes the number nearest to `value`, which must be no less than the one nearest to the
    /// least value and no more than the one nearest to the greatest.
    fn write(&self, data: &mut [u8], value: f64) -> Result<(), Cause> {
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

    fn put(&self, data: &mut [u8], written: i128) -> Result<(), Cause> {
        self.field.put(data, written).map_err(|error| match error {
            PutError::OutOfRange { .. } => Cause::OutOfRange,
            PutError::TooShort { .. } => Cause::TooShort,
        })
    }
}

/// The nearest whole number; halves go away from zero.
fn nearest(value: f64) -> Option<i128> {
    // Far beyond what any field holds.
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

/// Performs the actions on a frame, in their order. `sequence` counts the frames of this rule, for counters
/// and protection; `trace` gets every step.
///
/// # Errors
/// Why there is no frame to send.
pub fn run(
    actions: &[Action],
    frame: &Frame,
    sequence: u64,
    mut trace: impl FnMut(Step),
) -> Result<Frame, Cause> {
    let received = Working::new(frame);
    let mut working = received;
    for action in actions {
        action.run(&received, &mut working, sequence, &mut trace)?;
    }
    if working.len > working.longest() {
        trace(Step::TooLong(working.len));
        return Err(Cause::TooLong);
    }
    working.finish().map_err(|_| Cause::TooLong)
}

impl Action {
    /// The key of rule files.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Operate(operator, _) => operator.name(),
            Self::Crc8(_) => "crc8",
            Self::XorChecksum(_) => "xor_checksum",
            Self::Copy(_) => "copy",
            Self::Signal(_) => "signal",
            Self::Message(_) => "message",
            Self::Counter(_) => "counter",
            Self::E2e(_) => "e2e",
            Self::Remap(_) => "remap",
        }
    }

    fn run(
        &self,
        received: &Working,
        working: &mut Working,
        sequence: u64,
        trace: &mut impl FnMut(Step),
    ) -> Result<(), Cause> {
        let (can_id, data) = (working.can_id, working.data);
        match self {
            Self::Operate(operator, operands) => {
                working.operate(*operator, operands, trace);
                return Ok(());
            }
            Self::Crc8(crc8) => {
                working.crc8(crc8, trace);
                return Ok(());
            }
            Self::XorChecksum(checksum) => {
                working.xor_checksum(checksum, trace);
                return Ok(());
            }
            Self::Copy(copy) => {
                let bytes = |at: u8, len: usize| {
                    let range = usize::from(at)..usize::from(at) + usize::from(copy.count);
                    (range.end <= len).then_some(range)
                };
                let from = bytes(copy.from, received.byte_len()).ok_or(Cause::TooShort)?;
                let to = bytes(copy.to, working.byte_len()).ok_or(Cause::TooShort)?;
                working.data[to].copy_from_slice(&received.data[from]);
            }
            Self::Signal(signal) => signal.run(received, working)?,
            Self::Message(message) => {
                working.can_id = message.can_id;
                working.len = message.len;
                working.data = [0; 64];
                trace(Step::Message(can_id, message.can_id, message.len));
                return Ok(());
            }
            Self::Counter(counter) => {
                let value = sequence % counter.modulus.max(1);
                let len = working.byte_len();
                counter
                    .field
                    .put(&mut working.data[..len], i128::from(value))
                    .map_err(|_| Cause::TooShort)?;
            }
            Self::E2e(e2e) => {
                let len = working.byte_len();
                e2e.protect(&mut working.data[..len], sequence).map_err(|_| Cause::TooShort)?;
            }
            Self::Remap(remap) => {
                match remap.find(can_id) {
                    Some(to) => working.can_id = to,
                    None if remap.keeps_others => {}
                    None => return Err(Cause::Unmapped),
                }
                trace(Step::Remap(can_id, working.can_id));
                return Ok(());
            }
        }
        trace(Step::Bytes(self.key(), data, working.data));
        Ok(())
    }
}

/// A signal of more than 53 bits whose scales and offsets have too many digits to compute it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inexact;

impl Signal {
    /// A number that is read from `from`, computed and written to `to`.
    ///
    /// # Errors
    /// It would lose its low bits.
    pub fn new(
        from: Place,
        of_received: bool,
        factor: f64,
        addend: f64,
        clamp: Option<(f64, f64)>,
        to: Place,
    ) -> Result<Self, Inexact> {
        let is_wide = exact::is_needed(&from, &to);
        let mut signal = Self { from, of_received, factor, addend, clamp, to, exact: None };
        if is_wide {
            signal.exact = Some(Box::new(Exact::of(&signal).ok_or(Inexact)?));
        }
        Ok(signal)
    }

    fn run(&self, received: &Working, working: &mut Working) -> Result<(), Cause> {
        let source = if self.of_received { received } else { &*working };
        let bytes = source.data.get(..source.byte_len()).unwrap_or_default();
        if let Some(exact) = &self.exact {
            let written = exact.run(self.from.field.get(bytes).ok_or(Cause::TooShort)?)?;
            let len = working.byte_len();
            return self.to.put(working.data.get_mut(..len).unwrap_or_default(), written);
        }
        let value = self.from.read(bytes).ok_or(Cause::TooShort)?;
        let value = value * self.factor + self.addend;
        let value = self.clamp.map_or(value, |(least, most)| value.max(least).min(most));
        let len = working.byte_len();
        let bytes = working.data.get_mut(..len).unwrap_or_default();
        self.to.write(bytes, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use candor_wire::ByteOrder;

    /// What steps make of a frame.
    fn after(actions: &[Action], frame: &str, sequence: u64) -> Result<String, Cause> {
        let frame = frame.parse().unwrap();
        run(actions, &frame, sequence, |_| {}).map(|frame| frame.to_string())
    }

    fn place(bit: u16, bits: u8, scale: f64, offset: f64, range: Option<(f64, f64)>) -> Place {
        let field = Field::new(bit, bits, ByteOrder::Intel, false).unwrap();
        Place { name: String::new(), field, scale, offset, range }
    }

    fn signal(from: Place, to: Place) -> Signal {
        Signal::new(from, true, 1.0, 0.0, None, to).unwrap()
    }

    fn operate(operator: Operator, operands: Operands) -> Action {
        Action::Operate(operator, operands)
    }

    #[test]
    fn numbers_are_computed_rounded_and_held_within_their_range() {
        let byte = |at: u16, range| place(at * 8, 8, 1.0, 0.0, range);
        for (what, from, to, factor, addend, clamp, frame, expected) in [
            ("as it is", byte(0, None), byte(1, None), 1.0, 0.0, None, "1#7B00", Ok("001#7B7B")),
            ("computed", byte(0, None), byte(1, None), 2.0, -5.0, None, "1#0700", Ok("001#0709")),
            // 0.5 * 5 is 2.5, which is away from zero 3.
            ("a half", byte(0, None), byte(1, None), 0.5, 0.0, None, "1#0500", Ok("001#0503")),
            ("less", byte(0, None), byte(1, None), 0.49, 0.0, None, "1#0500", Ok("001#0502")),
            (
                "nothing but noise beyond the range",
                place(0, 8, 0.1, 0.0, None),
                place(8, 8, 0.3, 0.0, Some((0.0, 0.3))),
                1.0,
                0.0,
                None,
                "1#0300", // 0.1 * 3 is 0.30000000000000004
                Ok("001#0301"),
            ),
            (
                "more than the field holds",
                byte(0, None),
                byte(1, None),
                2.0,
                0.0,
                None,
                "1#8000",
                Err(Cause::OutOfRange),
            ),
            (
                "less than it holds",
                byte(0, None),
                byte(1, None),
                1.0,
                -2.0,
                None,
                "1#0100",
                Err(Cause::OutOfRange),
            ),
            (
                "beyond the range",
                byte(0, None),
                byte(1, Some((0.0, 100.0))),
                1.0,
                0.0,
                None,
                "1#6500",
                Err(Cause::OutOfRange),
            ),
            (
                "below the range",
                byte(0, None),
                byte(1, Some((50.0, 100.0))),
                1.0,
                0.0,
                None,
                "1#3100",
                Err(Cause::OutOfRange),
            ),
            (
                "at the end of the range",
                byte(0, None),
                byte(1, Some((50.0, f64::MAX))),
                1.0,
                0.0,
                None,
                "1#3200",
                Ok("001#3232"),
            ),
            (
                "clamped from above",
                byte(0, None),
                byte(1, Some((0.0, 100.0))),
                1.0,
                0.0,
                Some((0.0, 100.0)),
                "1#FF00",
                Ok("001#FF64"),
            ),
            (
                "clamped from below",
                byte(0, None),
                byte(1, None),
                1.0,
                -100.0,
                Some((3.0, 200.0)),
                "1#0100",
                Ok("001#0103"),
            ),
            (
                "a scale that goes down",
                byte(0, None),
                place(8, 8, -2.0, 100.0, Some((90.0, 100.0))),
                1.0,
                0.0,
                None,
                "1#5A00", // 90 = 5 * -2 + 100
                Ok("001#5A05"),
            ),
            (
                "a scale that goes down, extension",
                byte(0, None),
                place(8, 8, -2.0, 100.0, Some((90.0, 100.0))),
                1.0,
                0.0,
                None,
                "1#5800",
                Err(Cause::OutOfRange),
            ),
            (
                "far extension",
                byte(0, None),
                byte(1, None),
                1e300,
                0.0,
                None,
                "1#0100",
                Err(Cause::OutOfRange),
            ),
            (
                "no number",
                byte(0, None),
                place(8, 8, 1.0, 0.0, None),
                f64::MAX,
                0.0,
                Some((f64::MIN, f64::MAX)),
                "1#FF00",
                Err(Cause::OutOfRange),
            ),
            (
                "nothing to read",
                byte(1, None),
                byte(0, None),
                1.0,
                0.0,
                None,
                "1#01",
                Err(Cause::TooShort),
            ),
            (
                "nowhere to write",
                byte(0, None),
                byte(1, None),
                1.0,
                0.0,
                None,
                "1#01",
                Err(Cause::TooShort),
            ),
        ] {
            let signal = Signal { factor, addend, clamp, ..signal(from, to) };
            let found = after(&[Action::Signal(Box::new(signal))], &alloc::format!("00{frame}"), 0);
            assert_eq!(found, expected.map(ToString::to_string), "{what}");
        }
    }

    #[test]
    fn whole_numbers_are_the_nearest() {
        for (value, expected) in [
            (0.49999999999999994, Some(0)),
            (0.5, Some(1)),
            (-0.5, Some(-1)),
            (-0.4, Some(0)),
            (1.5, Some(2)),
            (9_007_199_254_740_993.0, Some(9_007_199_254_740_992)),
            (1e30, None),
            (-1e30, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(nearest(value), expected, "{value}");
        }
    }

    #[test]
    fn what_is_read_is_received_or_current() {
        let from = place(0, 8, 1.0, 0.0, None);
        let clear = operate(
            Operator::And,
            Operands { data: Some(Operator::And.operand(&[0])), ..Operands::default() },
        );
        let received = Signal { addend: 1.0, ..signal(from.clone(), from) };
        let current = Signal { of_received: false, ..received.clone() };
        for (signal, expected) in [(received, "001#0600"), (current, "001#0100")] {
            let actions = [clear.clone(), Action::Signal(Box::new(signal))];
            assert_eq!(after(&actions, "001#0500", 0).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn bytes_are_those_of_the_received_frame() {
        let copy = |from, to, count| Action::Copy(Copy { from, to, count });
        for (copy, expected) in [
            (copy(0, 2, 2), Ok("001#11221122")),
            (copy(1, 0, 3), Ok("001#22334444")),
            (copy(2, 0, 3), Err(Cause::TooShort)),
            (copy(0, 2, 3), Err(Cause::TooShort)),
        ] {
            let found = after(&[copy], "001#11223344", 0);
            assert_eq!(found, expected.map(ToString::to_string));
        }
        let longer = operate(Operator::Set, Operands { len: Some(6), ..Operands::default() });
        let found = after(&[longer.clone(), copy(0, 5, 1)], "001#1122", 0);
        assert_eq!(found.as_deref(), Ok("001#112200000011"));
        let found = after(&[longer, copy(5, 0, 1)], "001#1122", 0);
        assert_eq!(found, Err(Cause::TooShort), "what has been added was not received");
    }

    #[test]
    fn identifiers_are_looked_up() {
        let pairs = || [(0x123, 0x8000_0321), (0x8000_0123, 0x100), (0x124, 0x4000_0001)].into();
        let refuses = Action::Remap(Remap::new(pairs(), false));
        let keeps = Action::Remap(Remap::new(pairs(), true));
        for (frame, expected) in [
            ("123#11", Some("00000321#11")),
            ("123#R1", Some("00000321#R1")),
            ("00000123#11", Some("100#11")),
            ("124#11", Some("001#R1")),
            ("125#11", None),
        ] {
            let found = after(core::slice::from_ref(&refuses), frame, 0);
            assert_eq!(found, expected.map(ToString::to_string).ok_or(Cause::Unmapped), "{frame}");
            let found = after(core::slice::from_ref(&keeps), frame, 0);
            assert_eq!(found.as_deref(), Ok(expected.unwrap_or(frame)), "{frame}");
        }
    }

    #[test]
    fn counters_take_what_they_have_room_for() {
        let field = Field::new(12, 4, ByteOrder::Intel, false).unwrap();
        let counter = |modulus| Action::Counter(Counter { field, modulus });
        for (modulus, sequence, expected) in [
            (16, 0, Ok("001#FF0F")),
            (16, 15, Ok("001#FFFF")),
            (16, 16, Ok("001#FF0F")),
            (10, u64::MAX, Ok("001#FF5F")),
            (0, 3, Ok("001#FF0F")),
        ] {
            let found = after(&[counter(modulus)], "001#FFFF", sequence);
            assert_eq!(found, expected.map(ToString::to_string));
        }
        assert_eq!(after(&[counter(16)], "001#FF", 0), Err(Cause::TooShort));
    }

    #[test]
    fn messages_begin_with_zeros() {
        let message = |can_id, len| Action::Message(Message { name: "other".into(), can_id, len });
        let found = after(&[message(0x8000_0321, 3)], "001#1122334455", 0);
        assert_eq!(found.as_deref(), Ok("00000321#000000"));
        let found = after(&[message(0x321, 12)], "001##11122", 0);
        assert_eq!(found.as_deref(), Ok("321##1000000000000000000000000"));
        assert_eq!(after(&[message(0x321, 16)], "001#1122", 0), Err(Cause::TooLong));
    }

    #[test]
    fn protection_refuses_short_messages() {
        let protect = Action::E2e(E2e::Profile2([0; 16]));
        assert_eq!(after(core::slice::from_ref(&protect), "001#11", 0), Err(Cause::TooShort));
        assert!(after(&[protect], "001#1122", 0).is_ok());
    }
}

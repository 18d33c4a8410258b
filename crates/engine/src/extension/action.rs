//! [`Action`]: one step of an ordered edit. Steps run as they are written, each on what the one
//! before left; only what says so looks at the frame as it was received.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use candor_causes::Cause;
use candor_wire::can::frame::RTR_FLAG;
use candor_wire::can::{Field, Frame};

use super::e2e::E2e;
use super::exact::{self, ExactRescaling};
pub use super::place::Place;
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
    /// The least and the greatest value: what is outside becomes that. Else the frame is refused.
    pub clamp: Option<(f64, f64)>,
    /// Where it is written.
    pub to: Place,
    /// How it is computed if it is too wide for `f64`; made by [`Signal::new`].
    exact: Option<Box<ExactRescaling>>,
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
        let exact = match exact::is_needed(&from, &to) {
            true => Some(ExactRescaling::new(&from, (factor, addend), clamp, &to).ok_or(Inexact)?),
            false => None,
        };
        Ok(Self { from, of_received, factor, addend, clamp, to, exact: exact.map(Box::new) })
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
mod tests;

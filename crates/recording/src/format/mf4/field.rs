//! Fields of a record: where a channel has its bits, and what they mean.

use super::block::{Block, Blocks, Fault};
use crate::format::order::Order::Little;

/// How many pairs of a conversion table are read.
const MAX_PAIRS: u64 = 64;

// `cn_type`: a channel without bits; its values come from the conversion.
const VIRTUAL_MASTER: u8 = 3;
const VIRTUAL: u8 = 6;
/// The record has the place of the value in another stream.
const VARIABLE_LENGTH: u8 = 1;

/// What the raw number of a field means.
#[derive(Clone, Debug, Default)]
enum Conversion {
    /// The number itself.
    #[default]
    None,
    /// Offset and factor.
    Linear(f64, f64),
    /// Values by keys; others mean themselves.
    Table(Vec<(f64, f64)>),
    /// The same in every record.
    Constant(f64),
}

/// A channel: its bits in a record, and their meaning.
#[derive(Clone, Debug, Default)]
pub(super) struct Field {
    pub(super) byte: usize,
    bit: u32,
    pub(super) bits: u32,
    data_type: u8,
    conversion: Conversion,
    /// For a value of variable length where it is: a signal data block, or a group of such records.
    pub(super) elsewhere: Option<u64>,
}

impl Field {
    /// The channel of a CNBLOCK.
    pub(super) fn read(blocks: &mut Blocks, channel: &Block) -> Result<Self, Fault> {
        let data: [u8; 16] = blocks.data(channel)?;
        let is_virtual = matches!(data[0], VIRTUAL_MASTER | VIRTUAL);
        let mut field = Self {
            byte: Little.u32(&data, 4) as usize,
            bit: u32::from(data[3]).min(7),
            bits: if is_virtual { 0 } else { Little.u32(&data, 8) },
            data_type: data[2],
            conversion: Conversion::None,
            elsewhere: (data[0] == VARIABLE_LENGTH).then(|| channel.link(5)),
        };
        field.conversion = conversion(blocks, channel.link(4), is_virtual)?;
        Ok(field)
    }

    /// The bits as they are, the highest one at most the 64th; 0 if the record is too short.
    fn raw(&self, record: &[u8]) -> u64 {
        let bits = self.bits.min(64);
        let of = |number: u64| {
            let number = number >> self.bit;
            if bits < 64 { number & ((1 << bits) - 1) } else { number }
        };
        // Odd types have the highest byte first.
        let is_reversed = matches!(self.data_type, 1 | 3 | 5);
        // The usual case, fast: what eight bytes have of the record behind the field is above its bits.
        if let Some(&eight) = record.get(self.byte..).and_then(<[u8]>::first_chunk)
            && !is_reversed
        {
            return of(u64::from_le_bytes(eight));
        }
        let count = (self.bit + bits).div_ceil(8).min(8) as usize;
        let Some(bytes) = self.byte.checked_add(count).and_then(|end| record.get(self.byte..end))
        else {
            return 0;
        };
        let mut eight = [0; 8];
        of(if is_reversed {
            eight[8 - count..].copy_from_slice(bytes);
            u64::from_be_bytes(eight)
        } else {
            eight[..count].copy_from_slice(bytes);
            u64::from_le_bytes(eight)
        })
    }

    /// The number that the bits stand for.
    fn number(&self, record: &[u8]) -> f64 {
        let raw = self.raw(record);
        match (self.data_type, self.bits) {
            (4 | 5, 32) => f64::from(f32::from_bits(raw as u32)),
            (4 | 5, 64) => f64::from_bits(raw),
            (2 | 3, bits @ 1..64) => ((raw << (64 - bits)) as i64 >> (64 - bits)) as f64,
            (2 | 3, 64) => raw as i64 as f64,
            _ => raw as f64,
        }
    }

    /// What it means.
    pub(super) fn value(&self, record: &[u8]) -> f64 {
        match &self.conversion {
            Conversion::None => self.number(record),
            Conversion::Constant(value) => *value,
            Conversion::Linear(offset, factor) => offset + factor * self.number(record),
            Conversion::Table(pairs) => {
                let number = self.number(record);
                pairs.iter().find(|pair| pair.0 == number).map_or(number, |pair| pair.1)
            }
        }
    }

    /// What it means, where whole numbers are meant.
    pub(super) fn integer(&self, record: &[u8]) -> u64 {
        match self.conversion {
            // Numbers of more than 53 bits would lose some.
            Conversion::None if self.data_type < 4 => self.raw(record),
            _ => self.value(record) as u64,
        }
    }

    /// Whether a record of so many bytes holds its bits; what is behind a record would read as 0.
    pub(super) fn is_within(&self, record_len: usize) -> bool {
        let bytes = (u64::from(self.bit) + u64::from(self.bits)).div_ceil(8);
        self.bits == 0 || self.byte as u64 + bytes <= record_len as u64
    }

    /// What is left out of a record has no bits and no meaning.
    pub(super) fn is_there(&self) -> bool {
        self.bits > 0 || !matches!(self.conversion, Conversion::None)
    }
}

/// Reads a CCBLOCK: the linear one and tables of numbers. Texts are not needed: 0 is received, 1 transmitted.
fn conversion(blocks: &mut Blocks, at: u64, is_virtual: bool) -> Result<Conversion, Fault> {
    let otherwise = if is_virtual { Conversion::Constant(0.0) } else { Conversion::None };
    if at == 0 {
        return Ok(otherwise);
    }
    let block = blocks.block_of(at, b"CC")?;
    let head: [u8; 24] = blocks.data(&block)?;
    let count = u64::from(Little.u16(&head, 6)).min(2 * MAX_PAIRS);
    let values = blocks.bytes(block.data_at + 24, count * 8)?;
    let values: Vec<_> =
        values.chunks_exact(8).map(|bytes| f64::from_bits(Little.u64(bytes, 0))).collect();
    Ok(match (head[0], &values[..]) {
        (1, &[offset, _]) if is_virtual => Conversion::Constant(offset),
        (1, &[offset, factor]) => Conversion::Linear(offset, factor),
        (4 | 5, pairs) if !is_virtual => {
            Conversion::Table(pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
        }
        // Value to text: of a virtual channel the first text is the one.
        (7, _) if is_virtual => {
            let is_transmitted = blocks.text(block.link(4))? == "Tx";
            Conversion::Constant(f64::from(u8::from(is_transmitted)))
        }
        _ => otherwise,
    })
}

//! What rules do with frames: edits, extensions and their actions.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use candor_wire::can::Field;

use super::error::ImageError;
use super::read::{Reader, Record};
use super::section::Section;
use super::{CONVERSIONS, INCLUSIONS, ORDERS, PER};
use crate::edit::{Crc8, Crc8Profile, Edit, Operands, Operator, Range, XorChecksum};
use crate::extension::action::{Action, Copy, Counter, Message, Place, Remap, Signal};
use crate::extension::e2e::{E2e, Profile1};
use crate::extension::pace::OnChange;
use crate::extension::payload::Bytes;
use crate::extension::{Extension, Pace, Payload};

/// The longest data of a frame, in bytes.
const MOST_DATA: u8 = 64;

impl Record<'_> {
    fn operands(&mut self) -> Result<Operands, ImageError> {
        let (present, len, flags) = (self.u8(), self.u8(), self.u8());
        self.skip(1);
        let (can_id, data) = (self.u32(), self.array());
        let present = self.flags("the operands", present.into(), 4)?;
        let has = |bit: u32| present >> bit & 1 != 0;
        Ok(Operands {
            can_id: has(0).then_some(can_id),
            len: has(1).then_some(len),
            flags: has(2).then_some(flags),
            data: has(3).then(|| Box::new(data)),
        })
    }

    fn range(&mut self) -> Result<Range, ImageError> {
        let range = Range { from: self.i8(), to: self.i8(), result: self.i8() };
        let most = MOST_DATA as i8;
        for (what, byte) in [
            ("the first byte", range.from),
            ("the last byte", range.to),
            ("the byte of the result", range.result),
        ] {
            self.within(what, byte, -most..=most - 1)?;
        }
        Ok(range)
    }

    fn xor_checksum(&mut self) -> Result<XorChecksum, ImageError> {
        Ok(XorChecksum { range: self.range()?, init: self.u8() })
    }

    fn field(&mut self) -> Result<Field, ImageError> {
        let (start_bit, bits, order, sign) = (self.u16(), self.u8(), self.u8(), self.u8());
        let order = self.one_of("byte order", order.into(), &ORDERS)?;
        let is_signed = self.flag("is_signed", sign.into())?;
        Field::new(start_bit, bits, order, is_signed)
            .map_err(|error| self.error(format!("{error}")))
    }

    /// The least and the greatest value, if there are any.
    fn ends(&mut self, what: &str, is_there: bool) -> Result<Option<(f64, f64)>, ImageError> {
        let (least, most) = (self.f64(what)?, self.f64(what)?);
        if least > most {
            return self.refuse(format!("the {what} goes from {least} to {most}"));
        }
        Ok(is_there.then_some((least, most)))
    }

    fn copy(&mut self) -> Result<Copy, ImageError> {
        let copy = Copy { from: self.u8(), to: self.u8(), count: self.u8() };
        self.within("the number of bytes", copy.count, 1..=MOST_DATA)?;
        for (what, first) in
            [("the first byte read", copy.from), ("the first byte written", copy.to)]
        {
            self.within(what, first, 0..=MOST_DATA - copy.count)?;
        }
        Ok(copy)
    }

    /// Which of so many bytes or half bytes.
    fn place(&mut self, what: &str, count: u8) -> Result<u8, ImageError> {
        let place = self.u8();
        self.within(what, place, 0..=count - 1)
    }

    /// The CRC8 of an edit or an action.
    fn crc8(&mut self, reader: &Reader<'_>) -> Result<Crc8, ImageError> {
        let (range, init, final_xor) = (self.range()?, self.u8(), self.u8());
        let (profile, byte) = (self.u8(), self.u8());
        self.skip(1);
        let (table, bytes) = (self.u32(), self.array());
        let profiles = [
            Crc8Profile::Plain,
            Crc8Profile::OneByte(byte),
            Crc8Profile::ByCounter(bytes),
            Crc8Profile::IdXor,
        ];
        let Some(profile) = profiles.into_iter().nth(profile.into()) else {
            return self.refuse(format!("the CRC8 profile {profile} is unknown"));
        };
        let tables = reader.count(Section::CrcTables);
        if table >= tables {
            return self.refuse(format!("it uses CRC table {table}, but there are {tables}"));
        }
        let table = Box::new(reader.record(Section::CrcTables, table).array());
        Ok(Crc8 { range, init, final_xor, table, profile })
    }
}

impl Reader<'_> {
    pub(super) fn edit(&mut self, mut record: Record<'_>) -> Result<Edit, ImageError> {
        let present = record.u32();
        let present = record.flags("the checksums", present, 2)?;
        let has = |bit: u32| present >> bit & 1 != 0;
        let xor_checksum = record.xor_checksum()?;
        let mut edit = Edit { xor_checksum: has(1).then_some(xor_checksum), ..Edit::default() };
        for operator in Operator::ALL {
            *edit.operands_mut(operator) = record.operands()?;
        }
        if has(0) {
            edit.crc8 = Some(record.crc8(self)?);
        }
        if !edit.modifies() {
            return record.refuse("it changes nothing".into());
        }
        Ok(edit)
    }

    pub(super) fn extension(&mut self, mut record: Record<'_>) -> Result<Extension, ImageError> {
        let deadline_ns = record.u64();
        let (interval_ns, tolerance_ns) = (record.u64(), record.u64());
        let (at_least_every_ns, mask) = (record.u64(), record.array());
        let (ids, per, convert) = (record.u16(), record.u8(), record.u8());
        let (is_on_change, every) = (record.u32(), record.u32());
        let on_change = record
            .flag("on_change", is_on_change)?
            .then(|| OnChange { mask: Box::new(mask), at_least_every_ns });
        if interval_ns == 0 && tolerance_ns != 0 {
            return record.refuse(format!("a tolerance of {tolerance_ns} ns without a rate"));
        }
        let per = record.one_of("pace", per.into(), &PER)?;
        let convert = record.one_of("conversion", convert.into(), &CONVERSIONS)?;
        let (first_pattern, data, not_data) = (record.u32(), record.u32(), record.u32());
        let lengths = (record.u32(), record.u32());
        let actions = (record.u32(), record.u32());
        let data = self.patterns(&record, first_pattern, data)?;
        let not_data =
            self.patterns(&record, first_pattern.wrapping_add(data.len() as u32), not_data)?;
        let lengths = self.all(&record, Section::Lengths, lengths, |_, mut record| {
            let (least, most) = (record.u8(), record.u8());
            record.within("the greatest length", most, least..=MOST_DATA)?;
            Ok((least, most))
        })?;
        let actions = self.all(&record, Section::Actions, actions, Self::action)?;
        let pace = Pace { interval_ns, tolerance_ns, every, on_change, per, ids };
        let payload = Payload { data, not_data, lengths };
        let extension = Extension { payload, pace, actions, convert, deadline_ns };
        if extension.is_empty() {
            return record.refuse("there is nothing in it".into());
        }
        Ok(extension)
    }

    fn patterns(
        &mut self,
        by: &Record<'_>,
        first: u32,
        count: u32,
    ) -> Result<Vec<Bytes>, ImageError> {
        self.all(by, Section::Patterns, (first, count), |_, mut record| {
            let len = record.u8();
            record.skip(3);
            if len > MOST_DATA {
                return record
                    .refuse(format!("it has {len} bytes; a frame has {MOST_DATA} at most"));
            }
            let (value, mask): ([u8; 64], [u8; 64]) = (record.array(), record.array());
            let pairs = value.into_iter().zip(mask).collect::<Vec<_>>();
            let bytes = Bytes::new(&pairs[..usize::from(len)]);
            if (*bytes.value, *bytes.mask) != (value, mask) {
                return record.refuse("it has bits that it does not compare".into());
            }
            Ok(bytes)
        })
    }

    fn action(&mut self, mut record: Record<'_>) -> Result<Action, ImageError> {
        let (tag, flags) = (record.u32(), record.u32());
        if !(1..=10).contains(&tag) {
            return record.refuse(format!("the action {tag} is unknown"));
        }
        // An operator has its number there.
        let known = match tag {
            5 => 2,
            10 => 1,
            1 => u32::BITS - 1,
            _ => 0,
        };
        record.flags("the flags", flags, known)?;
        Ok(match tag {
            1 => {
                let operator = record.one_of("operator", flags, &Operator::ALL)?;
                Action::Operate(operator, record.operands()?)
            }
            2 => Action::Crc8(record.crc8(self)?),
            3 => Action::XorChecksum(record.xor_checksum()?),
            4 => Action::Copy(record.copy()?),
            5 => Action::Signal(Box::new(self.signal(record, flags)?)),
            6 => {
                let name = self.string(&mut record)?;
                let (can_id, len) = (record.can_id("the identifier word")?, record.u8());
                let len = record.within("the length", len, 0..=MOST_DATA)?;
                Action::Message(Message { name, can_id, len })
            }
            7 => {
                let modulus = record.u64();
                let field = record.field()?;
                // The counter fits into its field.
                let most = u64::MAX >> (64 - u32::from(field.bits()));
                let modulus = record.within("the modulus", modulus, 1..=most.saturating_add(1))?;
                Action::Counter(Counter { modulus, field })
            }
            8 => {
                let (data_id, inclusion) = (record.u16(), record.u8());
                Action::E2e(E2e::Profile1(Profile1 {
                    data_id,
                    inclusion: record.one_of("inclusion", inclusion.into(), &INCLUSIONS)?,
                    crc_byte: record.place("the byte of the CRC", MOST_DATA)?,
                    counter_nibble: record.place("the half byte of the counter", 2 * MOST_DATA)?,
                    id_nibble: record.place("the half byte of the identifier", 2 * MOST_DATA)?,
                }))
            }
            9 => Action::E2e(E2e::Profile2(record.array())),
            _ => Action::Remap(self.remap(record, flags)?),
        })
    }

    fn signal(&mut self, mut record: Record<'_>, flags: u32) -> Result<Signal, ImageError> {
        let (factor, addend) = (record.finite("factor")?, record.finite("addend")?);
        let clamp = record.ends("clamp", flags & 2 != 0)?;
        let (from, to) = (self.place(&mut record)?, self.place(&mut record)?);
        Signal::new(from, flags & 1 != 0, factor, addend, clamp, to).map_err(|_| {
            record.error("a signal of more than 53 bits cannot be computed exactly".into())
        })
    }

    fn place(&self, record: &mut Record<'_>) -> Result<Place, ImageError> {
        let name = self.string(record)?;
        let field = record.field()?;
        let has_range = record.u8();
        let has_range = record.flag("has_range", has_range.into())?;
        record.skip(2);
        let (scale, offset) = (record.finite("scale")?, record.finite("offset")?);
        if scale == 0.0 {
            return record.refuse("the scale is 0".into());
        }
        Ok(Place { name, field, scale, offset, range: record.ends("range", has_range)? })
    }

    fn remap(&mut self, mut record: Record<'_>, flags: u32) -> Result<Remap, ImageError> {
        let pairs = (record.u32(), record.u32());
        let mut last = None;
        let pairs = self.all(&record, Section::Remaps, pairs, |_, mut record| {
            let before = record.can_id("the identifier word before")?;
            let after = record.can_id("the identifier word after")?;
            if last.is_some_and(|last| last >= before) {
                return record.refuse(format!(
                    "the identifier word {before:08X} does not come after the one before it"
                ));
            }
            last = Some(before);
            Ok((before, after))
        })?;
        Ok(Remap::new(pairs, flags & 1 != 0))
    }
}

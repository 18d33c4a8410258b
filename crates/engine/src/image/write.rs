//! Writing images: each record from a value, field by field.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::crc::crc32;
use super::layout::{ALIGNMENT, CHECKED_FROM, ENTRY_BYTES, HEADER_BYTES, MAGIC, VERSION};
use super::section::Section;
use super::{CONVERSIONS, INCLUSIONS, NONE, ORDERS, PER, place_in};
use crate::Extension;
use crate::edit::{Crc8, Crc8Profile, Edit, Operands, Operator, Range, XorChecksum};
use crate::extension::action::{Action, Place, Signal};
use crate::extension::e2e::E2e;
use crate::extension::payload::Bytes;
use crate::program::hash::Hash;
use crate::program::matcher::{Cluster, Matcher};
use crate::program::{Match, Program};
use crate::table::Filter;
use candor_wire::can::Field;

/// The fields of a record, one after another.
#[derive(Default)]
pub(super) struct Fields(Vec<u8>);

impl Fields {
    fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn f64(self, value: f64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Zeros up to this place of the record.
    fn up_to(mut self, place: usize) -> Self {
        self.0.resize(place, 0);
        self
    }

    fn pair(self, (first, second): (u32, u32)) -> Self {
        self.u32(first).u32(second)
    }

    /// Both ends, zeros if there are none.
    fn ends(self, ends: Option<(f64, f64)>) -> Self {
        let (least, most) = ends.unwrap_or((0.0, 0.0));
        self.f64(least).f64(most)
    }

    fn filter(self, filter: Filter) -> Self {
        let Filter { can_id, mask, inverted } = filter.normalized();
        self.u32(can_id).u32(mask).u32(inverted.into())
    }

    fn found(self, found: Match) -> Self {
        self.u32(found.rule).u32(found.place)
    }

    fn range(self, range: Range) -> Self {
        let Range { from, to, result } = range;
        self.bytes(&[from, to, result].map(i8::cast_unsigned))
    }

    fn xor_checksum(self, checksum: XorChecksum) -> Self {
        self.range(checksum.range).u8(checksum.init)
    }

    fn operands(self, operands: &Operands) -> Self {
        let Operands { can_id, len, flags, data } = operands;
        let present = [can_id.is_some(), len.is_some(), flags.is_some(), data.is_some()];
        self.u8(bits(&present) as u8)
            .u8(len.unwrap_or(0))
            .u8(flags.unwrap_or(0))
            .u8(0)
            .u32(can_id.unwrap_or(0))
            .bytes(data.as_deref().unwrap_or(&[0; 64]))
    }

    fn field(self, field: Field) -> Self {
        let order = place_in(&ORDERS, &field.order());
        self.u16(field.start_bit()).u8(field.bits()).u8(order).u8(field.is_signed().into())
    }
}

/// A bit for each, the first one lowest.
fn bits(set: &[bool]) -> u32 {
    set.iter().rev().fold(0, |bits, &is_set| bits << 1 | u32::from(is_set))
}

/// The sections of an image while they grow.
pub(super) struct Writer<'a> {
    sections: [Vec<u8>; Section::ALL.len()],
    strings: BTreeMap<&'a str, u32>,
    tables: BTreeMap<&'a [u8; 256], u32>,
}

impl<'a> Writer<'a> {
    /// The image of a program.
    pub(super) fn image(program: &'a Program) -> Vec<u8> {
        let mut writer = Self {
            sections: [const { Vec::new() }; Section::ALL.len()],
            strings: BTreeMap::new(),
            tables: BTreeMap::new(),
        };
        writer.buses(program);
        writer.rules(program);
        for matcher in &program.matchers {
            writer.matcher(matcher);
        }
        writer.finish(program.max_hops)
    }

    fn finish(self, max_hops: u8) -> Vec<u8> {
        let mut offset = HEADER_BYTES + ENTRY_BYTES * Section::ALL.len();
        let mut table = Fields::default();
        for (section, bytes) in Section::ALL.into_iter().zip(&self.sections) {
            offset = offset.next_multiple_of(ALIGNMENT);
            table = table
                .u32(section.kind())
                .u32(section.record_bytes() as u32)
                .u64(offset as u64)
                .u32((bytes.len() / section.record_bytes()) as u32)
                .u32(0);
            offset += bytes.len();
        }
        let length = offset.next_multiple_of(ALIGNMENT);
        let mut image = Fields::default()
            .bytes(&MAGIC)
            .u32(VERSION)
            .u32(0)
            .u64(length as u64)
            .u32(Section::ALL.len() as u32)
            .u8(max_hops)
            .up_to(HEADER_BYTES)
            .bytes(&table.0)
            .0;
        image.reserve(length);
        for bytes in self.sections {
            image.resize(image.len().next_multiple_of(ALIGNMENT), 0);
            image.extend_from_slice(&bytes);
        }
        image.resize(length, 0);
        let crc = crc32(image.get(CHECKED_FROM..).unwrap_or_default());
        if let Some(place) = image.get_mut(12..16) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        image
    }

    /// How many records a section has so far.
    fn count(&self, section: Section) -> u32 {
        (self.sections[section.index()].len() / section.record_bytes()) as u32
    }

    /// Adds a record.
    fn push(&mut self, section: Section, record: &Fields) {
        let bytes = &mut self.sections[section.index()];
        let end = bytes.len() + section.record_bytes();
        bytes.extend_from_slice(&record.0);
        bytes.resize(end, 0);
    }

    /// Adds records; returns the first one and how many.
    fn push_all(
        &mut self,
        section: Section,
        records: impl IntoIterator<Item = Fields>,
    ) -> (u32, u32) {
        let first = self.count(section);
        for record in records {
            self.push(section, &record);
        }
        (first, self.count(section) - first)
    }

    /// Where a name stands, and how many bytes it has. Each name is written once.
    fn string(&mut self, text: &'a str) -> (u32, u32) {
        let bytes = &mut self.sections[Section::Strings.index()];
        let place = *self.strings.entry(text).or_insert_with(|| {
            let place = bytes.len() as u32;
            bytes.extend_from_slice(text.as_bytes());
            place
        });
        (place, text.len() as u32)
    }

    fn buses(&mut self, program: &'a Program) {
        for bus in &program.buses {
            let (name, port) = (self.string(&bus.name), self.string(&bus.port));
            let record = Fields::default().pair(name).pair(port).u32(bus.is_virtual.into());
            self.push(Section::Buses, &record);
        }
    }

    fn rules(&mut self, program: &'a Program) {
        for job in &program.jobs {
            let name = self.string(&job.rule);
            let record = Fields::default()
                .pair(name)
                .u32(job.rule_index)
                .u16(job.from.0)
                .u16(job.to.0)
                .u32(job.modifies.into());
            self.push(Section::Jobs, &record);
        }
        let effects = program.edits.iter().zip(&program.extension).zip(&program.except);
        for (rule, ((edit, extension), except)) in program.rules.iter().zip(effects) {
            let filters = except.iter().map(|&filter| Fields::default().filter(filter));
            let exclusions = self.push_all(Section::Exclusions, filters);
            let edit = edit.as_deref().map_or(NONE, |edit| self.edit(edit));
            let extension = extension.as_deref().map_or(NONE, |it| self.extension(it));
            let record = Fields::default()
                .u32(rule.first_job)
                .u16(rule.job_count)
                .u8(rule.limit_hops)
                .u8(rule.flags)
                .pair((edit, extension))
                .pair(exclusions);
            self.push(Section::Rules, &record);
        }
    }

    fn matcher(&mut self, matcher: &Matcher) {
        // Most of an image is this, so it takes the short way.
        let slots = matcher.standard.iter().flat_map(|short| short.0.to_le_bytes());
        self.sections[Section::Standard.index()].extend(slots);
        let lists = matcher.lists.iter().map(|it| Fields::default().u32(it.start).u32(it.len));
        let lists = self.push_all(Section::Lists, lists);
        let matches = matcher.matches.iter().map(|it| Fields::default().found(*it));
        let matches = self.push_all(Section::Matches, matches);
        let first_cluster = self.count(Section::Clusters);
        for cluster in &matcher.clusters {
            self.cluster(cluster);
        }
        let clusters = (first_cluster, matcher.clusters.len() as u32);
        let walked = |filters: &[(Filter, Match)]| -> Vec<Fields> {
            let record = |&(filter, found): &_| Fields::default().filter(filter).found(found);
            filters.iter().map(record).collect()
        };
        let inverted = self.push_all(Section::Inverted, walked(&matcher.inverted));
        let errors = self.push_all(Section::Errors, walked(&matcher.errors));
        let lengths = matcher.lengths;
        let record = Fields::default()
            .pair(lists)
            .pair(matches)
            .pair(clusters)
            .pair(inverted)
            .pair(errors)
            .u32(lengths.all)
            .u32(lengths.masked)
            .u32(lengths.inverted)
            .u32(lengths.extended)
            .u32(lengths.standard);
        self.push(Section::Matchers, &record);
    }

    fn cluster(&mut self, cluster: &Cluster) {
        let Hash { mask, shift, slots } = &cluster.candidates;
        let records =
            slots.iter().map(|&(key, groups)| Fields::default().u32(key).u32(0).u64(groups));
        let candidates = self.push_all(Section::Candidates, records);
        let first_group = self.count(Section::Groups);
        for group in &cluster.groups {
            let records = group.slots.iter().map(|&slot| Fields::default().pair(slot));
            let slots = self.push_all(Section::Slots, records);
            let record = Fields::default().u32(group.mask).u32(group.shift).pair(slots);
            self.push(Section::Groups, &record);
        }
        let record = Fields::default()
            .u32(*mask)
            .u32(*shift)
            .pair(candidates)
            .pair((first_group, cluster.groups.len() as u32));
        self.push(Section::Clusters, &record);
    }

    fn edit(&mut self, edit: &'a Edit) -> u32 {
        let Edit { crc8, xor_checksum, .. } = edit;
        let nowhere = XorChecksum { range: Range { from: 0, to: 0, result: 0 }, init: 0 };
        let mut record = Fields::default()
            .u32(bits(&[crc8.is_some(), xor_checksum.is_some()]))
            .xor_checksum(xor_checksum.unwrap_or(nowhere));
        for operator in Operator::ALL {
            record = record.operands(edit.operands(operator));
        }
        if let Some(crc8) = crc8 {
            record = self.crc8(record, crc8);
        }
        let number = self.count(Section::Edits);
        self.push(Section::Edits, &record);
        number
    }

    fn crc8(&mut self, record: Fields, crc8: &'a Crc8) -> Fields {
        let table = self.crc_table(&crc8.table);
        let (profile, byte, bytes) = match crc8.profile {
            Crc8Profile::Plain => (0, 0, [0; 16]),
            Crc8Profile::OneByte(byte) => (1, byte, [0; 16]),
            Crc8Profile::ByCounter(bytes) => (2, 0, bytes),
            Crc8Profile::IdXor => (3, 0, [0; 16]),
        };
        let record = record.range(crc8.range).bytes(&[crc8.init, crc8.final_xor, profile, byte, 0]);
        record.u32(table).bytes(&bytes)
    }

    /// The number of a table. Each table is written once.
    fn crc_table(&mut self, table: &'a [u8; 256]) -> u32 {
        if let Some(&known) = self.tables.get(table) {
            return known;
        }
        let number = self.count(Section::CrcTables);
        self.push(Section::CrcTables, &Fields::default().bytes(table));
        self.tables.insert(table, number);
        number
    }

    fn extension(&mut self, it: &'a Extension) -> u32 {
        let Extension { payload, pace, actions, convert, deadline_ns } = it;
        let pattern = |bytes: &Bytes| {
            Fields::default().u8(bytes.len).up_to(4).bytes(&*bytes.value).bytes(&*bytes.mask)
        };
        let (first_pattern, data) =
            self.push_all(Section::Patterns, payload.data.iter().map(pattern));
        let (_, not_data) = self.push_all(Section::Patterns, payload.not_data.iter().map(pattern));
        let record = |&(first, last): &(u8, u8)| Fields::default().u8(first).u8(last);
        let lengths = self.push_all(Section::Lengths, payload.lengths.iter().map(record));
        let first_action = self.count(Section::Actions);
        for action in actions {
            let record = self.action(action);
            self.push(Section::Actions, &record);
        }
        let on_change = pace.on_change.as_ref();
        let record = Fields::default()
            .u64(*deadline_ns)
            .u64(pace.interval_ns)
            .u64(pace.tolerance_ns)
            .u64(on_change.map_or(0, |change| change.at_least_every_ns))
            .bytes(on_change.map_or(&[0; 64], |change| &*change.mask))
            .u16(pace.ids)
            .u8(place_in(&PER, &pace.per))
            .u8(place_in(&CONVERSIONS, convert))
            .u32(on_change.is_some().into())
            .u32(pace.every)
            .u32(first_pattern)
            .u32(data)
            .u32(not_data)
            .pair(lengths)
            .pair((first_action, actions.len() as u32));
        let number = self.count(Section::Extensions);
        self.push(Section::Extensions, &record);
        number
    }

    fn action(&mut self, action: &'a Action) -> Fields {
        let tagged = |tag: u32, flags: u32| Fields::default().u32(tag).u32(flags);
        match action {
            Action::Operate(operator, operands) => {
                tagged(1, place_in(&Operator::ALL, operator).into()).operands(operands)
            }
            Action::Crc8(crc8) => self.crc8(tagged(2, 0), crc8),
            Action::XorChecksum(checksum) => tagged(3, 0).xor_checksum(*checksum),
            Action::Copy(copy) => tagged(4, 0).u8(copy.from).u8(copy.to).u8(copy.count),
            Action::Signal(signal) => {
                let Signal { from, of_received, factor, addend, clamp, to, .. } = &**signal;
                let record = tagged(5, bits(&[*of_received, clamp.is_some()]))
                    .f64(*factor)
                    .f64(*addend)
                    .ends(*clamp);
                let record = self.place(record, from);
                self.place(record, to)
            }
            Action::Message(message) => {
                let name = self.string(&message.name);
                tagged(6, 0).pair(name).u32(message.can_id).u8(message.len)
            }
            Action::Counter(counter) => tagged(7, 0).u64(counter.modulus).field(counter.field),
            Action::E2e(E2e::Profile1(it)) => {
                let inclusion = place_in(&INCLUSIONS, &it.inclusion);
                let places = [inclusion, it.crc_byte, it.counter_nibble, it.id_nibble];
                tagged(8, 0).u16(it.data_id).bytes(&places)
            }
            Action::E2e(E2e::Profile2(bytes)) => tagged(9, 0).bytes(bytes),
            Action::Remap(remap) => {
                let records = remap.pairs().iter().map(|&pair| Fields::default().pair(pair));
                let pairs = self.push_all(Section::Remaps, records);
                tagged(10, remap.keeps_others.into()).pair(pairs)
            }
        }
    }

    fn place(&mut self, record: Fields, place: &'a Place) -> Fields {
        let name = self.string(&place.name);
        record
            .pair(name)
            .field(place.field)
            .u8(place.range.is_some().into())
            .u16(0)
            .f64(place.scale)
            .f64(place.offset)
            .ends(place.range)
    }
}

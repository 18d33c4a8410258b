//! What the filters became: lists of matches, the slots of standard identifiers, hash tables.

use alloc::format;
use alloc::vec::Vec;

use candor_wire::can::frame::{EFF_FLAG, ERR_FLAG};

use super::error::ImageError;
use super::read::{Reader, Record};
use super::rules::Rules;
use super::section::Section;
use crate::program::hash::{Hash, HashValue};
use crate::program::matcher::{Cluster, ListRef, Matcher, STANDARD_IDS, ShortRef};
use crate::program::{ListLengths, Match};
use crate::table::List;

/// The rules that matches may name, and how long the lists of their bus are.
struct Known<'a> {
    rules: &'a Rules,
    bus: usize,
    lengths: ListLengths,
}

impl Known<'_> {
    /// A match, in one of these lists.
    fn found(&self, record: &mut Record<'_>, lists: &[List]) -> Result<Match, ImageError> {
        let found = record.found();
        let (rule, position) = (found.rule(), found.position());
        let rules = self.rules.rules.len();
        match self.rules.sources.get(rule as usize) {
            None => return record.refuse(format!("it names rule {rule}, but there are {rules}")),
            Some(Some(bus)) if usize::from(bus.0) != self.bus => {
                return record.refuse(format!(
                    "rule {rule} takes frames from bus {}, not from bus {}",
                    bus.0, self.bus
                ));
            }
            Some(_) => {}
        }
        let list = found.place >> Match::POSITION_BITS;
        let list = record.one_of("list", list, &Match::LISTS)?;
        if !lists.contains(&list) {
            return record
                .refuse(format!("a match of this section is not in list {}", list as u32));
        }
        let mut lengths = self.lengths;
        let length = lengths.counter(list).map_or(1, |length| *length);
        if position >= length {
            return record.refuse(format!(
                "its position is {position}, but list {} of the bus has {length} filters",
                list as u32
            ));
        }
        Ok(found)
    }
}

/// The lists of a bus, in the order of their matches.
struct Lists<'a>(&'a [ListRef]);

impl Lists<'_> {
    /// Checks a short reference: the place of a list of one match, or the number of another list.
    fn check(&self, record: &Record<'_>, short: u32) -> Result<(), ImageError> {
        let number = short & !ShortRef::SINGLE;
        if short & ShortRef::SINGLE == 0 {
            return match self.0.get(number as usize) {
                None => record
                    .refuse(format!("it names list {number}, but the bus has {}", self.0.len())),
                Some(list) if ShortRef::new(number, *list).0 != short => record
                    .refuse(format!("list {number} has one match, so its place must stand here")),
                Some(_) => Ok(()),
            };
        }
        let place = self.0.partition_point(|list| (list.start, list.len) < (number, 1));
        match self.0.get(place) {
            Some(list) if (list.start, list.len) == (number, 1) => Ok(()),
            _ => record.refuse(format!("match {number} is not a list of its own")),
        }
    }

    /// How many matches a checked reference stands for.
    fn len(&self, short: u32) -> usize {
        if short & ShortRef::SINGLE != 0 {
            return 1;
        }
        self.0.get(short as usize).map_or(0, |list| list.len as usize)
    }
}

impl Reader<'_> {
    pub(super) fn matchers(
        &mut self,
        buses: usize,
        rules: &Rules,
    ) -> Result<Vec<Matcher>, ImageError> {
        let all = self.record(Section::Matchers, 0);
        let count = self.count(Section::Matchers);
        if count as usize != buses {
            return all.refuse(format!("there are {count} matchers for {buses} buses"));
        }
        let slots = u64::from(self.count(Section::Standard));
        if slots != buses as u64 * STANDARD_IDS as u64 {
            return self.record(Section::Standard, 0).refuse(format!(
                "there are {slots} slots for {buses} buses; each has {STANDARD_IDS}"
            ));
        }
        let mut bus = 0;
        self.all(&all, Section::Matchers, (0, count), |reader, record| {
            bus += 1;
            reader.matcher(record, bus - 1, rules)
        })
    }

    fn matcher(
        &mut self,
        mut record: Record<'_>,
        bus: usize,
        rules: &Rules,
    ) -> Result<Matcher, ImageError> {
        let mut pair = || (record.u32(), record.u32());
        let [lists, matches, clusters, inverted, errors] = core::array::from_fn(|_| pair());
        let lengths = ListLengths {
            all: record.u32(),
            masked: record.u32(),
            inverted: record.u32(),
            extended: record.u32(),
            standard: record.u32(),
        };
        let known = Known { rules, bus, lengths };
        let lists = self.lists(&record, lists, matches.1)?;
        let looked_up = [List::All, List::Masked, List::Inverted, List::Extended, List::Standard];
        let first_match = matches.0;
        let matches = self.all(&record, Section::Matches, matches, |_, mut record| {
            known.found(&mut record, &looked_up)
        })?;
        self.sorted(&lists, &matches, first_match)?;
        let lists_of_bus = Lists(&lists);
        let first_slot = (bus * STANDARD_IDS) as u32;
        let slots = (first_slot, STANDARD_IDS as u32);
        let standard = self.all(&record, Section::Standard, slots, |_, mut record| {
            let short = record.u32();
            lists_of_bus.check(&record, short).map(|()| ShortRef(short))
        })?;
        let mut longest = 0;
        let clusters = self.all(&record, Section::Clusters, clusters, |reader, record| {
            reader.cluster(record, &lists_of_bus, &mut longest)
        })?;
        // Room for one list of each table is needed: no more than for all matches, as each filter is in one
        // table only.
        if longest > matches.len() {
            return record.refuse(format!(
                "the longest lists of its tables have {longest} matches together, but the bus has {}",
                matches.len()
            ));
        }
        let inverted = self.all(&record, Section::Inverted, inverted, |_, mut record| {
            let filter = record.filter()?;
            if !filter.inverted || filter.mask & ERR_FLAG != 0 {
                return record.refuse("this filter is not inverted".into());
            }
            Ok((filter, known.found(&mut record, &[List::Inverted])?))
        })?;
        let errors = self.all(&record, Section::Errors, errors, |_, mut record| {
            let filter = record.filter()?;
            if filter.mask & ERR_FLAG == 0 {
                return record.refuse("this filter takes no error reports".into());
            }
            Ok((filter, known.found(&mut record, &[List::Error])?))
        })?;
        Ok(Matcher {
            standard: standard.into(),
            lists: lists.into(),
            matches: matches.into(),
            clusters: clusters.into(),
            inverted: inverted.into(),
            errors: errors.into(),
            lengths,
        })
    }

    /// Lists that have all matches of the bus, one after another; the first one is empty and no other.
    fn lists(
        &mut self,
        by: &Record<'_>,
        lists: (u32, u32),
        matches: u32,
    ) -> Result<Vec<ListRef>, ImageError> {
        let mut next = 0;
        let first = lists.0;
        let lists = self.all(by, Section::Lists, lists, |_, mut record| {
            let list = ListRef { start: record.u32(), len: record.u32() };
            let is_first = record.number() == first;
            if list.start != next || (list.len == 0) != is_first {
                return record.refuse(format!(
                    "it has {} matches from {} on; the first list is empty, and each other one begins \
                     where the one before ends",
                    list.len, list.start
                ));
            }
            match list.start.checked_add(list.len).filter(|&end| end <= matches) {
                Some(end) => next = end,
                None => {
                    return record.refuse(format!(
                        "it has {} matches from {} on, but the bus has {matches}",
                        list.len, list.start
                    ));
                }
            }
            Ok(list)
        })?;
        if lists.is_empty() || next != matches {
            return by.refuse(format!("its lists have {next} of its {matches} matches"));
        }
        Ok(lists)
    }

    /// Lists are sorted in the order of firing, and a rule is in a list once.
    fn sorted(
        &self,
        lists: &[ListRef],
        matches: &[Match],
        first_match: u32,
    ) -> Result<(), ImageError> {
        for list in lists {
            let of_list = list.get(matches);
            let record = |index: usize| {
                self.record(Section::Matches, first_match + list.start + index as u32)
            };
            if let Some(at) = of_list.windows(2).position(|pair| pair[0] >= pair[1]) {
                return record(at + 1).refuse("it does not come after the match before it".into());
            }
            let mut rules: Vec<u32> = of_list.iter().map(|found| found.rule()).collect();
            rules.sort_unstable();
            if let Some(pair) = rules.windows(2).find(|pair| pair[0] == pair[1]) {
                return record(0).refuse(format!("rule {} is twice in this list", pair[0]));
            }
        }
        Ok(())
    }

    fn cluster(
        &mut self,
        mut record: Record<'_>,
        lists: &Lists<'_>,
        longest: &mut usize,
    ) -> Result<Cluster, ImageError> {
        let (mask, shift) = (record.u32(), record.u32());
        let candidates = (record.u32(), record.u32());
        let groups = (record.u32(), record.u32());
        let count = groups.1 as usize;
        if count == 0 || count > Cluster::MOST {
            return record.refuse(format!("it has {count} groups; 1 to 64 are possible"));
        }
        let groups = self.all(&record, Section::Groups, groups, |reader, mut record| {
            let (mask, shift) = (record.u32(), record.u32());
            let slots = (record.u32(), record.u32());
            let slots = reader.all(&record, Section::Slots, slots, |_, mut record| {
                let (key, short) = (record.u32(), record.u32());
                if (key == Hash::<u32>::FREE) != (short == 0) {
                    return record
                        .refuse("it has a key without a list, or a list without a key".into());
                }
                lists.check(&record, short)?;
                Ok((key, short))
            })?;
            let longest_here = slots.iter().map(|&(_, short)| lists.len(short)).max();
            *longest += longest_here.unwrap_or(0);
            hash(&record, mask, shift, slots)
        })?;
        let all = u64::MAX >> (Cluster::MOST - count);
        let candidates = self.all(&record, Section::Candidates, candidates, |_, mut record| {
            let key = record.u32();
            record.skip(4);
            let bits = record.u64();
            if bits & !all != 0 || (key == Hash::<u64>::FREE) != (bits == 0) {
                return record.refuse(format!(
                    "it has the key {key:08X} and the groups {bits:#x}; its cluster has {count} groups"
                ));
            }
            Ok((key, bits))
        })?;
        let candidates = hash(&record, mask, shift, candidates)?;
        let common = groups.iter().fold(u32::MAX, |common, group| common & group.mask);
        if mask != common {
            return record.refuse(format!(
                "the mask is {mask:08X}, but its groups have {common:08X} in common"
            ));
        }
        for (bit, group) in groups.iter().enumerate() {
            let keys =
                group.slots.iter().map(|&(key, _)| key).filter(|&key| key != Hash::<u32>::FREE);
            if let Some(key) = { keys }.find(|&key| candidates.find(key) >> bit & 1 == 0) {
                return record.refuse(format!("key {key:08X} of its group {bit} is no candidate"));
            }
        }
        Ok(Cluster { candidates, groups: groups.into() })
    }
}

/// A hash table in which each key is found once, in one of its two slots.
fn hash<V: HashValue>(
    record: &Record<'_>,
    mask: u32,
    shift: u32,
    slots: Vec<(u32, V)>,
) -> Result<Hash<V>, ImageError> {
    if !(1..=31).contains(&shift) || slots.len() != 1 << (32 - shift) {
        let count = slots.len();
        return record.refuse(format!("a table of {count} slots does not fit shift {shift}"));
    }
    if mask & EFF_FLAG == 0 || mask & ERR_FLAG != 0 {
        return record.refuse(format!("the mask {mask:08X} is not one for extended identifiers"));
    }
    for (place, &(key, _)) in slots.iter().enumerate() {
        if key == Hash::<V>::FREE {
            continue;
        }
        if key & !mask != 0 {
            return record.refuse(format!("key {key:08X} has bits beyond the mask {mask:08X}"));
        }
        if key & EFF_FLAG == 0 {
            return record.refuse(format!("key {key:08X} is no extended identifier"));
        }
        let [first, second] = [0, 1].map(|which| Hash::<V>::slot(key, which, shift));
        let other = if place == first { second } else { first };
        if place != first && place != second {
            return record.refuse(format!(
                "key {key:08X} is in slot {place}; its slots are {first} and {second}"
            ));
        }
        if other != place && slots.get(other).is_some_and(|&(it, _)| it == key) {
            return record.refuse(format!("key {key:08X} is in both of its slots"));
        }
    }
    Ok(Hash { mask, shift, slots: slots.into() })
}

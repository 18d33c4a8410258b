//! [`Work`]: how much the rules of a bus do for one frame at most, for who carries them out where time is short.

use alloc::vec::Vec;

use super::found::Match;
use super::matcher::{ListRef, Matcher, ShortRef};
use super::{Compiled, Program};
use crate::table::BusIndex;

/// The most work of one frame of a bus. `kernel/candor_can/image.h` says what a step is, and `image.c` there computes the same of
/// an image; the conformance test of the driver compares both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Steps, without copies that come back.
    pub steps: u64,
    /// Rules that an extended identifier may meet: of each mask the most that one identifier meets by it, and those with inverted
    /// filters.
    pub extended_rules: u64,
}

const RULE: u64 = 4;
const OPERAND: u64 = 4;
const CRC8: u64 = 9;
const XOR: u64 = 8;
const COPY: u64 = 12;
/// Copies of one frame that may come back.
const HOPS: u64 = 16;

impl Program {
    /// The most work of one frame of a bus; none for a bus that is not there.
    #[must_use]
    pub fn work(&self, bus: BusIndex) -> Work {
        let Some(matcher) = self.matchers.get(usize::from(bus.0)) else { return Work::default() };
        let lists = self.lists(matcher);
        let standard =
            matcher.standard.iter().map(|list| self.found(matcher, &lists, *list).1).max();
        let mut rules = 0;
        let mut steps = 1;
        for cluster in &matcher.clusters {
            steps += 1;
            for group in &cluster.groups {
                let taken = group.slots.iter().filter(|(key, _)| *key != 0);
                let (most, more) = taken.fold((0, 0), |(most, more), (_, list)| {
                    let (rules, steps) = self.found(matcher, &lists, ShortRef(*list));
                    (most.max(rules), more.max(steps))
                });
                rules += most;
                steps += 1 + more;
            }
        }
        for (_, found) in &matcher.inverted {
            rules += 1;
            steps += 1 + self.steps_of(found);
        }
        // Each match is compared with those before it when it is sorted in, and with the exclusions of its rule.
        let exclusions = self.except.iter().map(|except| except.len() as u64).max().unwrap_or(0);
        steps += rules * (rules + 1) / 2 + rules * exclusions;
        Work { steps: steps.max(1 + standard.unwrap_or(0)), extended_rules: rules }
    }

    /// The most steps of one frame of any bus, copies that come back included.
    #[must_use]
    pub fn most_steps(&self) -> u64 {
        let buses = (0..).zip(&*self.matchers);
        let most = buses.map(|(bus, _)| self.work(BusIndex(bus)).steps).max().unwrap_or(0);
        let has_echo = self.rules.iter().any(|rule| rule.echo());
        most * if has_echo { 1 + HOPS } else { 1 }
    }

    /// The steps of each list, which many identifiers may share.
    fn lists(&self, matcher: &Matcher) -> Vec<u64> {
        let of_list = |list: &ListRef| -> u64 {
            list.get(&matcher.matches).iter().map(|found| self.steps_of(found)).sum()
        };
        matcher.lists.iter().map(of_list).collect()
    }

    /// How many rules a short reference stands for, and their steps.
    fn found(&self, matcher: &Matcher, lists: &[u64], list: ShortRef) -> (u64, u64) {
        let found = list.get(matcher);
        let steps = match found {
            [only] => self.steps_of(only),
            _ => lists.get(list.0 as usize).copied().unwrap_or(0),
        };
        (found.len() as u64, steps)
    }

    fn steps_of(&self, found: &Match) -> u64 {
        let rule = found.rule as usize;
        let edit = self.edits.get(rule).and_then(Option::as_deref);
        let edit = edit.map_or(0, |edit| {
            let crc8 = if edit.crc8.is_some() { CRC8 } else { 0 };
            4 * OPERAND + crc8 + if edit.xor_checksum.is_some() { XOR } else { 0 }
        });
        let copies = self.rules.get(rule).map_or(0, |rule: &Compiled| u64::from(rule.job_count));
        RULE + edit + COPY * copies
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::table::{Bus, Filter, Rule, Table};

    fn work(filters: &[Filter]) -> Work {
        let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
        let rule = |filter: &Filter| {
            let mut rule = Rule::new("r", BusIndex(0), BusIndex(1));
            rule.filters = vec![*filter];
            rule
        };
        let rules: Vec<Rule> = filters.iter().map(rule).collect();
        let table = Table { buses: vec![bus("a"), bus("b")], rules, ..Table::default() };
        Program::new(&table).work(BusIndex(0))
    }

    #[test]
    fn rules_of_one_identifier_add_up_and_those_of_several_do_not() {
        let one = Filter::standard(0x123);
        assert_eq!(work(&[one]), Work { steps: 1 + 16, extended_rules: 0 });
        assert_eq!(work(&[one; 5]).steps, 1 + 5 * 16);
        assert_eq!(work(&[one, Filter::standard(0x124)]).steps, 1 + 16);
    }

    #[test]
    fn masks_of_extended_identifiers_count_together() {
        let mask = |bit: u32| Filter {
            mask: 0x9fff_ffff & !(1 << bit),
            ..Filter::extended(0x1234_5678 & !(1 << bit))
        };
        let masks: Vec<Filter> = (0..20).map(mask).collect();
        assert_eq!(work(&masks).extended_rules, 20);
        // One that is met by it alone.
        assert_eq!(work(&[Filter::extended(1), Filter::extended(2)]).extended_rules, 1);
    }
}

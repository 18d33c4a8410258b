//! What concerns the table as a whole: its buses, names, handles, and what its rules remember.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;

use super::checker::{Checker, Place};
use candor_engine::BusIndex;

/// The most characters of the name of a rule or a bus: names are columns of tables and labels of
/// metrics.
pub const MOST_NAME_CHARACTERS: usize = 100;

/// How many identifiers all rules may remember together: some 30 MB.
const MOST_REMEMBERED: u32 = 1 << 18;

impl Checker<'_> {
    pub(super) fn buses(&self) {
        if self.findings.has_errors() {
            return; // a rule that uses the bus may be among the unreadable ones
        }
        let rules = self.table.rules.iter();
        let used: BTreeSet<BusIndex> =
            rules.flat_map(|rule| rule.to.iter().copied().chain([rule.from])).collect();
        for (index, bus) in self.table.buses.iter().enumerate() {
            if !used.contains(&BusIndex(index as u16)) {
                let message = format!("no rule uses bus `{}`", bus.name);
                self.warn(Place::Bus(index), message, "remove it, or write a rule for it");
            }
        }
    }

    /// Names are shown in tables and as labels.
    pub(super) fn names(&self) {
        let buses = self.table.buses.iter().enumerate();
        let buses = buses.map(|(index, bus)| (Place::Bus(index), "bus", bus.name.as_str()));
        let rules = self.table.rules.iter().enumerate();
        let rules =
            rules.map(|(index, rule)| (Place::Rule(index, "name"), "rule", rule.name.as_str()));
        for (place, what, name) in buses.chain(rules) {
            let count = name.chars().count();
            if count > MOST_NAME_CHARACTERS {
                let message = format!(
                    "the name of this {what} has {count} characters, more than {MOST_NAME_CHARACTERS}"
                );
                self.error(
                    place,
                    message,
                    "choose a short name: it is shown in tables and metrics",
                );
            }
        }
    }

    /// The handles by which the kernel swaps operations.
    pub(super) fn handles(&self) {
        let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, rule) in self.table.rules.iter().enumerate().filter(|(_, rule)| rule.uid != 0) {
            let place = Place::Rule(index, "uid");
            if !rule.edit.modifies() {
                let message = "`uid` has no effect in a rule without an operation".to_string();
                self.warn(place, message, "remove it: a uid names the operations of a rule");
            }
            let owner = *owners.entry(rule.uid).or_insert(index);
            if owner != index {
                let name = self.rule_name(owner);
                let message = format!("uid 0x{:X} already belongs to {name:?}", rule.uid);
                let hint = "give each rule a different uid; the second rule would replace the operations \
                     of the first";
                self.error(place, message, hint);
            }
        }
    }

    /// What all rules remember takes memory.
    pub(super) fn memory(&self) {
        let mut count = 0;
        for (index, rule) in self.table.rules.iter().enumerate() {
            count += u32::from(rule.remembered_ids());
            if count > MOST_REMEMBERED {
                let message =
                    format!("all rules together remember more than {MOST_REMEMBERED} identifiers");
                let hint = "a rule remembers 256 identifiers by default: set a smaller number \
                            with `ids`, or set `per = \"rule\"`";
                self.error(Place::Rule(index, "ids"), message, hint);
                return;
            }
        }
    }
}

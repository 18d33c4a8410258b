//! [`Program`]: a table compiled so that deciding about a frame costs nearly the same for one rule
//! and for thousands.
//!
//! - A *standard* identifier has 2 x 2048 values (data and remote), so each bus has an array that
//!   gives the complete list of matching rules, whatever masks, ranges and exclusions they were
//!   written with. One look-up, always.
//! - For *extended* identifiers the filters of each distinct mask have a hash table (single
//!   identifiers are the mask of all bits). One look-up by the bits that the masks have in common
//!   tells which of these tables can match at all, usually one. Only masks with nothing in common
//!   cost a look-up each.
//! - *Inverted* filters match nearly everything, so they are walked one by one, as the kernel does.
//! - *Error reports* meet only the filters made for them.
//!
//! Compiling costs about 4096 comparisons per masked filter, which a swap of rules pays, not a
//! frame.
//!
//! | file | what |
//! |---|---|
//! | `rule.rs` | a rule and its jobs, as the hot path needs them |
//! | `found.rs` | a rule that was found, and in which list |
//! | `matcher.rs` | the rules of one bus, by identifier word |
//! | `hash.rs` | the hash tables of extended identifiers |
//! | `compile.rs` | how all of this is made from a table |
//! | `work.rs` | how much the rules of a bus do for one frame at most |

mod compile;
pub(crate) mod found;
pub(crate) mod hash;
pub(crate) mod matcher;
pub(crate) mod rule;
mod work;

use alloc::boxed::Box;
use alloc::vec::Vec;

use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG};

use crate::table::{Bus, BusIndex, Filter};
use crate::{Edit, Extension};
pub use found::{ListLengths, Match};
use hash::Hash;
use matcher::{Matcher, ShortRef, standard_slot};
pub(crate) use rule::Compiled;
pub use rule::{Job, JobIndex};
pub use work::Work;

/// A table compiled for deciding. Immutable; counters live in the engine.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) buses: Box<[Bus]>,
    pub(crate) rules: Box<[Compiled]>,
    /// Where the copies of each job go; apart from the jobs, so that a decision touches few bytes.
    pub(crate) targets: Box<[BusIndex]>,
    pub(crate) max_hops: u8,
    /// By rule.
    pub(crate) edits: Box<[Option<Box<Edit>>]>,
    /// By rule: what the kernel cannot do.
    pub(crate) extension: Box<[Option<Box<Extension>>]>,
    pub(crate) jobs: Box<[Job]>,
    /// Exclusions, rule by rule; standard identifiers have them worked in.
    pub(crate) except: Box<[Box<[Filter]>]>,
    pub(crate) matchers: Box<[Matcher]>,
}

impl Program {
    /// The buses, in the order of [`BusIndex`].
    #[must_use]
    pub fn buses(&self) -> &[Bus] {
        &self.buses
    }

    /// The destinations of all rules; counters have the same order.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// How long the kernel's receive lists of `bus` would be with these rules.
    #[must_use]
    pub fn list_lengths(&self, bus: BusIndex) -> ListLengths {
        self.matchers.get(usize::from(bus.0)).map_or_else(ListLengths::default, |m| m.lengths)
    }

    /// The rules whose filters match a frame with this identifier word on `bus`, in the order in
    /// which the kernel would fire them. `scratch` lends room and must have the capacity of
    /// [`Program::scratch`].
    #[inline]
    pub(crate) fn matches<'a>(
        &'a self,
        bus: BusIndex,
        can_id: u32,
        scratch: &'a mut Vec<Match>,
    ) -> &'a [Match] {
        let Some(matcher) = self.matchers.get(usize::from(bus.0)) else { return &[] };
        if can_id & (EFF_FLAG | ERR_FLAG) == 0 {
            let list = matcher.standard.get(standard_slot(can_id));
            return list.map_or(&[], |list| list.get(matcher));
        }
        self.extended_matches(matcher, can_id, scratch)
    }

    fn extended_matches<'a>(
        &'a self,
        matcher: &'a Matcher,
        can_id: u32,
        scratch: &'a mut Vec<Match>,
    ) -> &'a [Match] {
        scratch.clear();
        if can_id & ERR_FLAG != 0 {
            let reports = matcher.errors.iter().filter(|(filter, _)| filter.matches(can_id));
            scratch.extend(reports.map(|(_, found)| *found));
        } else {
            let mut only: &[Match] = &[];
            for cluster in &matcher.clusters {
                cluster.find(can_id, |number| {
                    let list = ShortRef(number).get(matcher);
                    if only.is_empty() {
                        only = list;
                    } else {
                        scratch.extend_from_slice(list);
                    }
                });
            }
            let inverted = matcher.inverted.iter().filter(|(filter, _)| filter.matches(can_id));
            scratch.extend(inverted.map(|(_, found)| *found));
            // The common case needs no copy: one table matched and nothing is excluded.
            let excludes = |found: &Match| {
                self.rules.get(found.rule as usize).is_some_and(|rule| rule.has(Compiled::EXCEPT))
            };
            if scratch.is_empty() && !only.iter().any(excludes) {
                return only;
            }
            scratch.extend_from_slice(only);
        }
        scratch.retain(|found| {
            self.except
                .get(found.rule as usize)
                .is_some_and(|except| !except.iter().any(|filter| filter.matches(can_id)))
        });
        scratch.sort_unstable();
        // A rule found in several tables fires once, from the first.
        let mut kept = 0;
        for index in 0..scratch.len() {
            let found = scratch[index];
            if !scratch[..kept].iter().any(|earlier| earlier.rule == found.rule) {
                scratch[kept] = found;
                kept += 1;
            }
        }
        scratch.truncate(kept);
        scratch
    }

    /// The edit of a rule.
    #[inline]
    pub(crate) fn edit(&self, rule: u32) -> Option<&Edit> {
        let is_edited = self.rules.get(rule as usize).is_some_and(|rule| rule.has(Compiled::EDIT));
        if is_edited { self.edits.get(rule as usize)?.as_deref() } else { None }
    }

    /// The bus that a rule takes frames from; nothing if it has no destination.
    pub(crate) fn source(&self, rule: u32) -> Option<BusIndex> {
        let job = self.rules.get(rule as usize)?.jobs().next()?;
        self.jobs.get(job as usize).map(|job| job.from)
    }

    /// Whether rules for the frames of `bus` need to know the time.
    #[must_use]
    pub fn needs_time(&self, bus: BusIndex) -> bool {
        let of_bus = (0..self.rules.len() as u32).filter(|&rule| self.source(rule) == Some(bus));
        of_bus.filter_map(|rule| self.extension(rule)).any(|extension| extension.pace.needs_time())
    }

    /// What a rule does that the kernel cannot.
    pub(crate) fn extension(&self, rule: u32) -> Option<&Extension> {
        self.extension.get(rule as usize)?.as_deref()
    }

    /// Room for the matches of any one frame.
    #[must_use]
    pub(crate) fn scratch(&self) -> Vec<Match> {
        let most = |matcher: &Matcher| {
            let longest = |group: &Hash<u32>| {
                let lists = group.slots.iter().map(|&(_, list)| ShortRef(list).get(matcher).len());
                lists.max().unwrap_or(0)
            };
            let groups = matcher.clusters.iter().flat_map(|cluster| &cluster.groups);
            let of_groups: usize = groups.map(longest).sum();
            of_groups + matcher.inverted.len() + matcher.errors.len()
        };
        Vec::with_capacity(self.matchers.iter().map(most).max().unwrap_or(0))
    }
}

const _: () = assert!(EFF_MASK & EFF_FLAG == 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::pace::{OnChange, Pace};
    use crate::{Rule, Table};

    #[test]
    fn the_time_is_needed_where_rules_depend_on_it() {
        let [a, b, c, d] = [0, 1, 2, 3].map(BusIndex);
        let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
        let paced = |pace| Extension { pace, ..Extension::default() };
        let on_change = |at_least_every_ns| {
            let change = OnChange { mask: Box::new([0xFF; 64]), at_least_every_ns };
            paced(Pace { on_change: Some(change), ..Pace::default() })
        };
        let rules = [
            Rule { extension: paced(Pace { every: 2, ..Pace::default() }), ..Rule::new("", a, b) },
            Rule {
                extension: paced(Pace { interval_ns: 5, ..Pace::default() }),
                ..Rule::new("", b, a)
            },
            Rule { extension: on_change(0), ..Rule::new("", c, a) },
            Rule { extension: on_change(1), ..Rule::new("", d, a) },
        ];
        let buses = [bus("a"), bus("b"), bus("c"), bus("d")].into();
        let table = Table { buses, rules: rules.into(), ..Table::default() };
        let program = Program::new(&table);
        assert_eq!([a, b, c, d].map(|bus| program.needs_time(bus)), [false, true, false, true]);
    }
}

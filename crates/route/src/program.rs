//! [`Program`]: a table compiled so that deciding about a frame costs nearly the same for one rule
//! and for thousands.
//!
//! - A *standard* identifier has 2 x 2048 values (data and remote), so each bus has an array that
//!   gives the complete list of matching rules, whatever masks, ranges and exclusions they were
//!   written with. One look-up, always.
//! - An *extended* identifier goes through one hash table per distinct mask: the cost grows with
//!   the number of different masks, not of rules. Single identifiers are the mask of all bits.
//! - *Inverted* filters match nearly everything, so they are walked one by one, as the kernel does.
//! - *Error reports* meet only the filters made for them.
//!
//! Compiling costs about 4096 comparisons per masked filter, which a swap of rules pays, not a
//! frame.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use candor_wire::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};

use crate::Edit;
use crate::table::{Bus, BusIndex, Filter, Gate, List, Rule, Table};

/// A table compiled for deciding. Immutable; counters live in the engine.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) buses: Box<[Bus]>,
    pub(crate) rules: Box<[Compiled]>,
    pub(crate) jobs: Box<[Job]>,
    pub(crate) max_hops: u8,
    matchers: Box<[Matcher]>,
}

/// A rule as the hot path needs it.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) gate: Gate,
    pub(crate) echo: bool,
    pub(crate) keep_timestamp: bool,
    pub(crate) allow_return: bool,
    pub(crate) limit_hops: u8,
    /// `None` passes the frame on as it is.
    pub(crate) edit: Option<Box<Edit>>,
    /// Its jobs, one per destination.
    pub(crate) jobs: core::ops::Range<u32>,
    except: Box<[Filter]>,
}

/// One destination of a rule: what the kernel calls a job, with counters of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The rule's name.
    pub rule: String,
    /// The rule's place in its table.
    pub rule_index: u32,
    /// Where frames come from.
    pub from: BusIndex,
    /// Where copies go.
    pub to: BusIndex,
    /// Whether the rule rewrites the frame.
    pub modifies: bool,
}

/// A rule that matched, and where the kernel would have found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// The receive list of the matching filter; the first in the kernel's order if several match.
    pub list: List,
    /// The rule's place in its table.
    pub rule: u32,
    /// How many filters of that list stand before the matching one.
    pub position: u32,
}

/// How many filters of a bus stand in each of the kernel's receive lists: what a frame costs there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListLengths {
    /// Filters without a mask.
    pub all: u32,
    /// Masked filters, walked one by one.
    pub masked: u32,
    /// Inverted filters, walked one by one.
    pub inverted: u32,
    /// Single extended identifiers.
    pub extended: u32,
    /// Single standard identifiers.
    pub standard: u32,
}

impl ListLengths {
    fn counter(&mut self, list: List) -> Option<&mut u32> {
        match list {
            List::Error => None,
            List::All => Some(&mut self.all),
            List::Masked => Some(&mut self.masked),
            List::Inverted => Some(&mut self.inverted),
            List::Extended => Some(&mut self.extended),
            List::Standard => Some(&mut self.standard),
        }
    }
}

/// The rules of one bus.
#[derive(Clone, Debug)]
struct Matcher {
    /// For each standard identifier, data then remote: where its list begins in `lists`.
    standard: Box<[u32]>,
    /// Lists: a length, then that many places in `matches`... kept as slices of one array.
    lists: Lists,
    /// Hash tables for extended identifiers, one per mask.
    groups: Box<[Group]>,
    /// Filters that every frame with an extended identifier must be held against.
    inverted: Box<[(Filter, Match)]>,
    errors: Box<[(Filter, Match)]>,
    lengths: ListLengths,
}

/// Match lists, each once, addressed by a packed start and length.
#[derive(Clone, Debug, Default)]
struct Lists {
    spans: Vec<(u32, u32)>,
    matches: Vec<Match>,
}

impl Lists {
    fn get(&self, list: u32) -> &[Match] {
        self.spans
            .get(list as usize)
            .and_then(|&(start, len)| self.matches.get(start as usize..(start + len) as usize))
            .unwrap_or(&[])
    }
}

/// Interns match lists while compiling.
#[derive(Default)]
struct ListBuilder {
    lists: Lists,
    known: BTreeMap<Vec<Match>, u32>,
}

impl ListBuilder {
    fn intern(&mut self, mut list: Vec<Match>) -> u32 {
        list.sort_unstable();
        if let Some(&index) = self.known.get(&list) {
            return index;
        }
        let index = self.lists.spans.len() as u32;
        self.lists.spans.push((self.lists.matches.len() as u32, list.len() as u32));
        self.lists.matches.extend_from_slice(&list);
        self.known.insert(list, index);
        index
    }
}

/// Filters with the same mask, by their identifier: an open hash table at most half full.
#[derive(Clone, Debug)]
struct Group {
    mask: u32,
    shift: u32,
    /// Identifier word under the mask and its list. An extended identifier never is
    /// [`Group::FREE`], so that marks a free slot.
    slots: Box<[(u32, u32)]>,
}

impl Group {
    const FREE: u32 = 0;

    fn new(mask: u32, entries: impl ExactSizeIterator<Item = (u32, u32)>) -> Self {
        let bits = (entries.len() * 2).next_power_of_two().ilog2().max(1);
        let mut slots = alloc::vec![(Self::FREE, 0); 1 << bits].into_boxed_slice();
        let shift = 32 - bits;
        for (key, list) in entries {
            let mut slot = hash(key, shift);
            while slots[slot].0 != Self::FREE {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = (key, list);
        }
        Self { mask, shift, slots }
    }

    #[inline]
    fn find(&self, can_id: u32) -> Option<u32> {
        let key = can_id & self.mask;
        let mut slot = hash(key, self.shift);
        loop {
            let &(found, list) = self.slots.get(slot)?;
            if found == key {
                return Some(list);
            }
            if found == Self::FREE {
                return None;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }
}

/// Fibonacci hashing: the high bits of a product with 2^32 divided by the golden ratio.
#[inline]
const fn hash(key: u32, shift: u32) -> usize {
    (key.wrapping_mul(0x9E37_79B9) >> shift) as usize
}

const STANDARD_IDS: usize = 2 * (SFF_MASK as usize + 1);

/// Where a standard identifier stands in [`Matcher::standard`]: remote frames in the upper half.
#[inline]
const fn standard_slot(can_id: u32) -> usize {
    (can_id & SFF_MASK | (can_id & RTR_FLAG) >> 19) as usize
}

impl Matcher {
    fn new(rules: &[(u32, &Rule)]) -> Self {
        let mut lengths = ListLengths::default();
        let mut standard: Vec<Vec<Match>> = alloc::vec![Vec::new(); STANDARD_IDS];
        let mut extended: BTreeMap<u32, BTreeMap<u32, Vec<Match>>> = BTreeMap::new();
        let (mut inverted, mut errors) = (Vec::new(), Vec::new());

        for &(index, rule) in rules {
            let any = [Filter::ANY];
            let filters = if rule.filters.is_empty() { &any[..] } else { &rule.filters };
            for filter in filters.iter().map(|filter| filter.normalized()) {
                let list = filter.list();
                let mut found = Match { list, rule: index, position: 0 };
                if let Some(counter) = lengths.counter(list) {
                    found.position = *counter;
                    *counter += 1;
                }
                match list {
                    List::Error => {
                        errors.push((filter, found));
                        continue;
                    }
                    List::Standard => {
                        add(
                            &mut standard[standard_slot(filter.can_id)],
                            found,
                            rule,
                            filter.can_id,
                        );
                        continue;
                    }
                    _ => {}
                }
                if list != List::Extended {
                    for (slot, matches) in standard.iter_mut().enumerate() {
                        let can_id = slot as u32 & SFF_MASK | (slot as u32 & !SFF_MASK) << 19;
                        if filter.matches(can_id) {
                            add(matches, found, rule, can_id);
                        }
                    }
                }
                if filter.inverted {
                    inverted.push((filter, found));
                } else if filter.mask & EFF_FLAG == 0 || filter.can_id & EFF_FLAG != 0 {
                    // The frames looked up here all have the flag, so comparing it is free and
                    // masks that differ only there share a table.
                    let matches = extended
                        .entry(filter.mask | EFF_FLAG)
                        .or_default()
                        .entry(filter.can_id | EFF_FLAG)
                        .or_default();
                    keep_first(matches, found);
                }
            }
        }

        let mut lists = ListBuilder::default();
        let standard = standard.into_iter().map(|matches| lists.intern(matches)).collect();
        let groups = extended
            .into_iter()
            .map(|(mask, entries)| {
                let entries: Vec<_> = entries
                    .into_iter()
                    .map(|(key, matches)| (key, lists.intern(matches)))
                    .collect();
                Group::new(mask, entries.into_iter())
            })
            .collect();
        Self {
            standard,
            lists: lists.lists,
            groups,
            inverted: inverted.into(),
            errors: errors.into(),
            lengths,
        }
    }
}

/// Adds a match for a standard identifier unless the rule excludes it.
fn add(matches: &mut Vec<Match>, found: Match, rule: &Rule, can_id: u32) {
    if !rule.except.iter().any(|filter| filter.matches(can_id)) {
        keep_first(matches, found);
    }
}

/// A rule fires once per frame, from the first list in which it is found.
fn keep_first(matches: &mut Vec<Match>, found: Match) {
    match matches.iter_mut().find(|earlier| earlier.rule == found.rule) {
        Some(earlier) => *earlier = (*earlier).min(found),
        None => matches.push(found),
    }
}

impl Program {
    /// Compiles `table`. Indices of buses that the table does not have are taken as buses without
    /// rules; destinations that do not exist are left out.
    #[must_use]
    pub fn new(table: &Table) -> Self {
        let mut jobs = Vec::new();
        let mut rules = Vec::with_capacity(table.rules.len());
        for (index, rule) in table.rules.iter().enumerate() {
            let first = jobs.len() as u32;
            let known = rule.to.iter().filter(|to| usize::from(to.0) < table.buses.len());
            jobs.extend(known.map(|&to| Job {
                rule: rule.name.clone(),
                rule_index: index as u32,
                from: rule.from,
                to,
                modifies: rule.edit.modifies(),
            }));
            rules.push(Compiled {
                gate: rule.gate,
                echo: rule.echo,
                keep_timestamp: rule.keep_timestamp,
                allow_return: rule.allow_return,
                limit_hops: rule.limit_hops.unwrap_or(0),
                edit: rule.edit.modifies().then(|| Box::new(rule.edit.clone())),
                jobs: first..jobs.len() as u32,
                except: rule.except.clone().into(),
            });
        }
        let matchers = (0..table.buses.len())
            .map(|bus| {
                let of_bus: Vec<_> = (0_u32..)
                    .zip(&table.rules)
                    .filter(|(_, rule)| usize::from(rule.from.0) == bus)
                    .collect();
                Matcher::new(&of_bus)
            })
            .collect();
        Self {
            buses: table.buses.clone().into(),
            rules: rules.into(),
            jobs: jobs.into(),
            max_hops: table.effective_max_hops(),
            matchers,
        }
    }

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
            let list = matcher.standard.get(standard_slot(can_id)).copied().unwrap_or(u32::MAX);
            return matcher.lists.get(list);
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
            for group in &matcher.groups {
                if let Some(list) = group.find(can_id) {
                    let list = matcher.lists.get(list);
                    if only.is_empty() {
                        only = list;
                    } else {
                        scratch.extend_from_slice(list);
                    }
                }
            }
            let inverted = matcher.inverted.iter().filter(|(filter, _)| filter.matches(can_id));
            scratch.extend(inverted.map(|(_, found)| *found));
            // The common case needs no copy: one table matched and nothing is excluded.
            let excludes = |found: &Match| {
                self.rules.get(found.rule as usize).is_some_and(|rule| !rule.except.is_empty())
            };
            if scratch.is_empty() && !only.iter().any(excludes) {
                return only;
            }
            scratch.extend_from_slice(only);
        }
        scratch.retain(|found| {
            self.rules
                .get(found.rule as usize)
                .is_some_and(|rule| !rule.except.iter().any(|filter| filter.matches(can_id)))
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

    /// Room for the matches of any one frame.
    #[must_use]
    pub(crate) fn scratch(&self) -> Vec<Match> {
        let most = |matcher: &Matcher| {
            let of_groups: usize = matcher
                .groups
                .iter()
                .map(|group| {
                    group
                        .slots
                        .iter()
                        .map(|&(_, list)| matcher.lists.get(list).len())
                        .max()
                        .unwrap_or(0)
                })
                .sum();
            of_groups + matcher.inverted.len() + matcher.errors.len()
        };
        Vec::with_capacity(self.matchers.iter().map(most).max().unwrap_or(0))
    }
}

const _: () = assert!(standard_slot(RTR_FLAG | SFF_MASK) == STANDARD_IDS - 1);
const _: () = assert!(EFF_MASK & EFF_FLAG == 0);

//! Compiling: what depends on the rules only is computed once, before any frame comes.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use candor_wire::can::frame::{EFF_FLAG, SFF_MASK};

use super::Program;
use super::found::{ListLengths, Match};
use super::hash::Hash;
use super::matcher::{Cluster, ListRef, Matcher, STANDARD_IDS, ShortRef, standard_slot};
use super::rule::{Compiled, Job};
use crate::table::{Filter, List, Rule, Table};

/// Interns match lists while compiling.
struct ListBuilder {
    lists: Vec<ListRef>,
    matches: Vec<Match>,
    known: BTreeMap<Vec<Match>, u32>,
}

impl ListBuilder {
    /// Only the empty list, which is number 0.
    fn new() -> Self {
        let known = BTreeMap::from([(Vec::new(), 0)]);
        Self { lists: [ListRef::default()].into(), matches: Vec::new(), known }
    }

    /// The number of a list.
    fn intern(&mut self, mut list: Vec<Match>) -> u32 {
        list.sort_unstable();
        if let Some(&known) = self.known.get(&list) {
            return known;
        }
        let number = self.lists.len() as u32;
        self.lists.push(ListRef { start: self.matches.len() as u32, len: list.len() as u32 });
        self.matches.extend_from_slice(&list);
        self.known.insert(list, number);
        number
    }

    fn short(&mut self, list: Vec<Match>) -> ShortRef {
        let number = self.intern(list);
        let list = self.lists.get(number as usize).copied().unwrap_or_default();
        ShortRef::new(number, list)
    }
}

impl Cluster {
    fn new(groups: &[(u32, Vec<(u32, u32)>)]) -> Self {
        let common = groups.iter().fold(u32::MAX, |common, (mask, _)| common & mask);
        let mut candidates: BTreeMap<u32, u64> = BTreeMap::new();
        for (bit, (_, entries)) in groups.iter().enumerate() {
            for &(key, _) in entries {
                *candidates.entry(key & common).or_default() |= 1 << bit;
            }
        }
        let candidates: Vec<_> = candidates.into_iter().collect();
        Self {
            candidates: Hash::new(common, &candidates),
            groups: groups.iter().map(|(mask, entries)| Hash::new(*mask, entries)).collect(),
        }
    }
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
                let mut position = 0;
                if let Some(counter) = lengths.counter(list) {
                    position = *counter;
                    *counter += 1;
                }
                let found = Match::new(list, index, position);
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

        let mut lists = ListBuilder::new();
        let standard = standard.into_iter().map(|matches| lists.short(matches)).collect();
        // In the order of the masks, so that those of a cluster have much in common.
        let groups: Vec<(u32, Vec<_>)> = extended
            .into_iter()
            .map(|(mask, entries)| {
                let short = |(key, matches)| (key, lists.short(matches).0);
                (mask, entries.into_iter().map(short).collect())
            })
            .collect();
        Self {
            standard,
            lists: lists.lists.into(),
            matches: lists.matches.into(),
            clusters: groups.chunks(Cluster::MOST).map(Cluster::new).collect(),
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
    // Rules come one after the other, so an earlier match of this one is the last that there is.
    match matches.last_mut().filter(|earlier| earlier.rule == found.rule) {
        Some(earlier) => *earlier = (*earlier).min(found),
        None => matches.push(found),
    }
}

impl Program {
    /// Compiles `table`. Indices of buses that the table does not have are taken as buses without
    /// rules; destinations that do not exist are left out.
    #[must_use]
    pub fn new(table: &Table) -> Self {
        let (mut jobs, mut edits) = (Vec::new(), Vec::new());
        let mut rules = Vec::with_capacity(table.rules.len());
        for (index, rule) in table.rules.iter().enumerate() {
            let first_job = jobs.len();
            let known = rule.to.iter().filter(|to| usize::from(to.0) < table.buses.len());
            let known = known.take(usize::from(u16::MAX));
            jobs.extend(known.map(|&to| Job {
                rule: rule.name.clone(),
                rule_index: index as u32,
                from: rule.from,
                to,
                modifies: rule.edit.modifies() || !rule.extension.actions.is_empty(),
            }));
            rules.push(Compiled::new(rule, first_job..jobs.len()));
            edits.push(rule.edit.modifies().then(|| Box::new(rule.edit.clone())));
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
            targets: jobs.iter().map(|job: &Job| job.to).collect(),
            jobs: jobs.into(),
            edits: edits.into(),
            extension: table
                .rules
                .iter()
                .map(|rule| {
                    let mut extension = rule.extension.clone();
                    extension.pace.ids = rule.remembered_ids();
                    if extension.pace.interval_ns == 0 {
                        extension.pace.tolerance_ns = 0;
                    }
                    (!rule.extension.is_empty()).then(|| Box::new(extension))
                })
                .collect(),
            except: table.rules.iter().map(|rule| rule.except.clone().into()).collect(),
            max_hops: table.effective_max_hops(),
            matchers,
        }
    }
}

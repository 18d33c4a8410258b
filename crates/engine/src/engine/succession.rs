//! [`Succession`]: what one program takes over from another.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::program::{JobIndex, Program};
use crate::table::BusIndex;

/// Which rules of a program take the place of which of an earlier one: those of the same name, from
/// and to buses of the same names.
#[derive(Clone, Debug)]
pub struct Succession {
    /// Old and new rules that remember the same.
    pub(super) rules: Vec<(u32, u32)>,
    jobs: Vec<Option<JobIndex>>,
    buses: Vec<Option<BusIndex>>,
}

impl Succession {
    /// Compares two programs.
    #[must_use]
    pub fn new(earlier: &Program, later: &Program) -> Self {
        type Key<'a> = (&'a str, &'a str, &'a str);
        fn keys(program: &Program) -> impl Iterator<Item = Key<'_>> {
            let bus = |index: BusIndex| {
                program.buses().get(usize::from(index.0)).map_or("", |bus| bus.name.as_str())
            };
            program.jobs().iter().map(move |job| (job.rule.as_str(), bus(job.from), bus(job.to)))
        }
        let new: BTreeMap<Key<'_>, JobIndex> = keys(later).zip((0..).map(JobIndex)).collect();
        let jobs: Vec<_> = keys(earlier).map(|key| new.get(&key).copied()).collect();
        let mut rules = Vec::new();
        for (old, new) in earlier.jobs().iter().zip(&jobs) {
            let new = new.and_then(|new| later.jobs().get(new.0 as usize));
            let Some(new) = new else { continue };
            let pair = (old.rule_index, new.rule_index);
            let paces = earlier.extension(pair.0).zip(later.extension(pair.1));
            if paces.is_some_and(|(old, new)| old.pace.counts_like(&new.pace))
                && rules.last() != Some(&pair)
            {
                rules.push(pair);
            }
        }
        let by_name: BTreeMap<&str, BusIndex> =
            later.buses().iter().map(|bus| bus.name.as_str()).zip((0..).map(BusIndex)).collect();
        let buses = earlier.buses().iter().map(|bus| by_name.get(bus.name.as_str()).copied());
        Self { rules, jobs, buses: buses.collect() }
    }

    /// For each job of the earlier program the one that takes its place.
    #[must_use]
    pub fn jobs(&self) -> &[Option<JobIndex>] {
        &self.jobs
    }

    /// For each bus of the earlier program the one of that name.
    #[must_use]
    pub fn buses(&self) -> &[Option<BusIndex>] {
        &self.buses
    }
}

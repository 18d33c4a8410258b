//! Several seeds: an experiment in `vm` runs several times, each from another boot of its machine, because what that boot
//! happened to be moves latencies, and which frames are slow is a matter of which frames meet a timer or the load.

use std::ops::RangeInclusive;

use candor_config::{Table, Value};

use super::matrix::Draft;
use crate::experiment::Testbed;
use crate::glob;
use crate::reading::MOST_SEEDS;
use crate::reading::machine::BOOTS;

/// Seeds of an experiment in `vm`, unless the file says otherwise: one for each boot.
const VM: u64 = BOOTS as u64;
/// Runs of an experiment on this machine, unless the file says otherwise: no run of it is like the last.
const HOST: u64 = 3;
/// One draft for each seed. With `only_seed`, for that seed alone.
pub(super) fn repeat(draft: Draft, only_seed: Option<u64>) -> Vec<Draft> {
    let Some(seeds) = several(&draft) else {
        return vec![Draft { seed: only_seed, ..draft }];
    };
    let seeds = match only_seed {
        Some(seed) => seed..=seed,
        None => seeds,
    };
    seeds.map(|seed| with_seed(&draft, seed)).collect()
}

/// What a draft is called, and each of its seeds that the file says.
pub(super) fn names(draft: &Draft) -> impl Iterator<Item = String> {
    let seeds = several(draft).into_iter().flatten();
    std::iter::once(draft.group.clone()).chain(seeds.map(|seed| name(&draft.group, seed)))
}

/// The seeds, if there is more than one.
fn several(draft: &Draft) -> Option<RangeInclusive<u64>> {
    let first = integer(&draft.table, "seed").unwrap_or(1);
    match seeds_of(draft) {
        1 => None,
        seeds => Some(first..=first.saturating_add(seeds - 1)),
    }
}

fn name(group: &str, seed: u64) -> String {
    format!("{group}-seed-{seed}")
}

fn with_seed(draft: &Draft, seed: u64) -> Draft {
    let mut draft = draft.clone();
    draft.name = name(&draft.group, seed);
    draft.seed = Some(seed);
    draft.axes.push(("seed".into(), seed.to_string()));
    draft
}

/// Whether a pattern of the command line means this draft: by its name, or by that of the experiment that it is an alternative
/// of.
pub(super) fn is_meant(draft: &Draft, glob: &str) -> bool {
    let mut names = [&draft.group, &draft.name].into_iter();
    names.any(|name| {
        let plain = name.strip_prefix(&draft.prefix).unwrap_or(name);
        glob::matches(glob, name) || glob::matches(glob, plain)
    })
}

/// What is out of range here becomes a finding when the draft is read.
fn seeds_of(Draft { table, axes, .. }: &Draft) -> u64 {
    let is_vm = table.get("testbed").and_then(Value::as_str) == Some(Testbed::Vm.name());
    let is_host = table.get("testbed").and_then(Value::as_str) == Some(Testbed::Host.name());
    // Each experiment of such a matrix has the one that it says.
    let is_axis = axes.iter().any(|(axis, _)| axis == "seed");
    let usual = match () {
        () if is_axis => 1,
        () if is_host => HOST,
        () if is_vm => VM,
        () => 1,
    };
    integer(table, "seeds").filter(|seeds| (1..=MOST_SEEDS).contains(seeds)).unwrap_or(usual)
}

fn integer(table: &Table, key: &str) -> Option<u64> {
    u64::try_from(table.get(key)?.as_integer()?).ok()
}

//! Several seeds: an experiment under load runs several times, because which of its frames are slow
//! is a matter of which frames meet the load.

use candor_config::{Table, Value};

use super::matrix::Draft;
use crate::experiment::Testbed;
use crate::glob;

/// Seeds of an experiment with load in `vm`, unless the file says otherwise.
const LOADED: u64 = 5;
/// Runs of an experiment on this machine, unless the file says otherwise: no run of it is like the last.
const HOST: u64 = 3;
/// Seeds of one experiment at most.
pub(super) const MOST: u64 = 100;

/// One draft for each seed. With `only_seed`, for that seed alone.
pub(super) fn repeat(draft: Draft, only_seed: Option<u64>) -> Vec<Draft> {
    let seeds = seeds_of(&draft.table);
    let first = integer(&draft.table, "seed").unwrap_or(1);
    if seeds == 1 {
        return vec![Draft { seed: only_seed, ..draft }];
    }
    let seeds = match only_seed {
        Some(seed) => seed..=seed,
        None => first..=first.saturating_add(seeds - 1),
    };
    seeds.map(|seed| with_seed(&draft, seed)).collect()
}

fn with_seed(draft: &Draft, seed: u64) -> Draft {
    let mut draft = draft.clone();
    draft.name = format!("{}-seed-{seed}", draft.group);
    draft.seed = Some(seed);
    draft.axes.push(("seed".into(), seed.to_string()));
    draft
}

/// Whether a pattern of the command line means this draft.
pub(super) fn is_meant(draft: &Draft, glob: &str) -> bool {
    glob::matches(glob, &draft.group) || glob::matches(glob, &draft.name)
}

/// What is out of range here becomes a finding when the draft is read.
fn seeds_of(table: &Table) -> u64 {
    let is_loaded = table
        .get("load")
        .and_then(Value::as_table)
        .and_then(|load| load.get("kind"))
        .and_then(Value::as_str)
        .is_some_and(|kind| kind != "none");
    let is_vm = table.get("testbed").and_then(Value::as_str) == Some(Testbed::Vm.name());
    let is_host = table.get("testbed").and_then(Value::as_str) == Some(Testbed::Host.name());
    let usual = match () {
        () if is_host => HOST,
        () if is_vm && is_loaded => LOADED,
        () => 1,
    };
    integer(table, "seeds").filter(|seeds| (1..=MOST).contains(seeds)).unwrap_or(usual)
}

fn integer(table: &Table, key: &str) -> Option<u64> {
    u64::try_from(table.get(key)?.as_integer()?).ok()
}

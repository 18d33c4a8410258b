//! What became of the frames on both sides: by ending, and by what stopped them.

use std::collections::BTreeMap;

use crate::group::Group;
use crate::result::{Counts, ResultFile};

/// What is counted, in the order of tables.
const NAMES: [&str; 8] =
    ["sent", "received", "not_routed", "refused", "lost", "duplicated", "reordered", "late"];

#[must_use]
pub const fn counted_names() -> [&'static str; 8] {
    NAMES
}

/// Frames that are another number after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountChange {
    /// The experiment, as it is called after.
    pub experiment: String,
    /// The seed; `None` for all seeds together, where each is one draw of chance.
    pub seed: Option<u64>,
    /// What is counted: one of [`counted_names`].
    pub count: &'static str,
    /// What stopped them; `None` for all that are counted so. A cause counts copies, too.
    pub cause: Option<String>,
    /// How many before.
    pub before: u64,
    /// How many after.
    pub after: u64,
}

impl CountChange {
    /// After without before.
    #[must_use]
    pub fn difference(&self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }
}

/// What is counted, and the cause: the key of a row.
type Key<'a> = (usize, Option<&'a str>);

fn tally<'a>(runs: &[&'a ResultFile]) -> BTreeMap<Key<'a>, u64> {
    let mut tally = BTreeMap::new();
    for run in runs {
        let Counts { sent, received, not_routed, refused, lost, duplicated, reordered, late } =
            run.counts;
        let counts = [sent, received, not_routed, refused, lost, duplicated, reordered, late];
        for (at, frames) in counts.into_iter().enumerate() {
            *tally.entry((at, None)).or_default() += frames;
        }
        for stopped in &run.stopped {
            let Some(at) = NAMES.iter().position(|name| *name == stopped.ending) else { continue };
            *tally.entry((at, Some(stopped.cause.as_str()))).or_default() += stopped.frames;
        }
    }
    tally
}

fn changes(
    experiment: &str,
    seed: Option<u64>,
    before: &[&ResultFile],
    after: &[&ResultFile],
) -> Vec<CountChange> {
    let (old, new) = (tally(before), tally(after));
    let mut keys: Vec<_> = old.keys().chain(new.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let change = |key @ (at, cause): Key<'_>| CountChange {
        experiment: experiment.to_owned(),
        seed,
        count: NAMES[at],
        cause: cause.map(str::to_owned),
        before: old.get(&key).copied().unwrap_or(0),
        after: new.get(&key).copied().unwrap_or(0),
    };
    keys.into_iter().map(change).filter(|it| it.before != it.after).collect()
}

/// The counts that differ between runs of one seed.
pub(super) fn by_seed(before: &Group<'_>, after: &Group<'_>) -> Vec<CountChange> {
    let of_seed = |new: &&ResultFile| {
        let old = before.runs.iter().find(|old| old.seed == new.seed)?;
        Some(changes(after.name, Some(new.seed), &[old], &[new]))
    };
    after.runs.iter().filter_map(of_seed).flatten().collect()
}

/// The counts that differ between all seeds of both sides together; none if one side has more seeds than the other.
pub(super) fn in_all(before: &Group<'_>, after: &Group<'_>) -> Vec<CountChange> {
    match before.runs.len() == after.runs.len() {
        true => changes(after.name, None, &before.runs, &after.runs),
        false => Vec::new(),
    }
}

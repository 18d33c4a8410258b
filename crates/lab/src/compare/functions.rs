//! Instructions by function, before and after.

use std::collections::{BTreeMap, BTreeSet};

use super::verdict::{ENOUGH_BOOTS, Sample, Verdict, judge};
use crate::result::ProfileFile;

/// What compilers append to the name of a function that they cut or copied.
const SUFFIXES: [&str; 4] = [".constprop", ".isra", ".part", ".cold"];

/// A difference up to this is none: half an instruction per frame is one in every other frame.
const LEAST_INSTRUCTIONS: f64 = 0.5;

/// Instructions per frame in one function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionChange {
    /// The experiment, as it is called after.
    pub experiment: String,
    /// `kernel`, a module, or a program.
    pub place: String,
    /// The function, without what compilers append.
    pub function: String,
    /// Instructions per frame before, on each boot.
    pub before: Sample,
    /// Instructions per frame after, on each boot.
    pub after: Sample,
    /// Whether the boots of both sides explain the difference.
    pub verdict: Verdict,
}

impl FunctionChange {
    /// The median after without that before.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.after.median - self.before.median
    }
}

fn plain(name: &str) -> &str {
    let ends = SUFFIXES.iter().filter_map(|suffix| name.find(suffix));
    ends.min().map_or(name, |end| &name[..end])
}

/// Instructions per frame by place and function.
type PerFrame<'a> = BTreeMap<(&'a str, &'a str), f64>;

fn per_frame(profile: &ProfileFile) -> PerFrame<'_> {
    // Timer interrupts and what they wake are among them.
    let mut functions = BTreeMap::from([(ALL, profile.per_frame(profile.profile.instructions))]);
    for function in &profile.profile.functions {
        let key = (function.place.as_str(), plain(&function.name));
        *functions.entry(key).or_insert(0.0) += profile.per_frame(function.instructions);
    }
    functions
}

/// What stands for all functions together: without a place.
const ALL: (&str, &str) = ("", "(all)");

/// All functions together, then those that take more or fewer instructions, largest difference first: with enough boots on both
/// sides only what these do not explain. Each side is the counts of one experiment on its boots.
pub(super) fn changes(
    experiment: &str,
    before: &[&ProfileFile],
    after: &[&ProfileFile],
) -> Vec<FunctionChange> {
    let boots = |side: &[&ProfileFile]| {
        let boots: BTreeSet<_> = side.iter().map(|profile| profile.machine.boot).collect();
        boots.len()
    };
    let is_enough = boots(before).min(boots(after)) >= ENOUGH_BOOTS;
    let old: Vec<_> = before.iter().map(|profile| per_frame(profile)).collect();
    let new: Vec<_> = after.iter().map(|profile| per_frame(profile)).collect();
    let keys: BTreeSet<_> = old.iter().chain(&new).flat_map(PerFrame::keys).copied().collect();
    let change = |key: (&str, &str)| {
        let of = |side: &[PerFrame<'_>]| {
            Sample::new(side.iter().map(|it| it.get(&key).copied().unwrap_or(0.0)))
        };
        let (before, after) = (of(&old)?, of(&new)?);
        let resolution = LEAST_INSTRUCTIONS.max(before.spread()).max(after.spread());
        let verdict = match is_enough {
            true => judge(&before, &after, resolution),
            false => Verdict::TooFewBoots,
        };
        let (place, function) = (key.0.to_owned(), key.1.to_owned());
        let experiment = experiment.to_owned();
        Some(FunctionChange { experiment, place, function, before, after, verdict })
    };
    let (all, mut changes): (Vec<_>, Vec<_>) =
        keys.into_iter().filter_map(change).partition(|it| it.place.is_empty());
    changes.retain(|it| it.verdict != Verdict::Same && it.difference() != 0.0);
    changes.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    all.into_iter().chain(changes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_compilers_append() {
        for (name, shown) in [
            ("can_rcv", "can_rcv"),
            ("can_rcv.isra.0", "can_rcv"),
            ("can_rcv.constprop.0.isra.1", "can_rcv"),
            ("can_rcv.cold", "can_rcv"),
        ] {
            assert_eq!(plain(name), shown);
        }
    }
}

//! Instructions by function, before and after.

use std::collections::{BTreeMap, BTreeSet};

use super::Figure;
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
    /// Whether the difference is in the latency. It cannot be if that changed by less and no other function makes up for it, as of
    /// what a kernel does now and then. `None` without a mean latency of both sides, and if most of those that could be are not.
    pub in_latency: Option<bool>,
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
/// sides only what these do not explain. Each side is the counts of one experiment on its boots; `mean` is its mean latency.
pub(super) fn changes(
    experiment: &str,
    before: &[&ProfileFile],
    after: &[&ProfileFile],
    mean: Option<&Figure>,
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
        let in_latency = None;
        Some(FunctionChange { experiment, place, function, before, after, verdict, in_latency })
    };
    let (all, mut changes): (Vec<_>, Vec<_>) =
        keys.into_iter().filter_map(change).partition(|it| it.place.is_empty());
    changes.retain(|it| it.verdict != Verdict::Same && it.difference() != 0.0);
    if let Some((change, width)) = mean.and_then(instructions) {
        let differences: Vec<_> = changes.iter().map(FunctionChange::difference).collect();
        for (it, is_in) in changes.iter_mut().zip(in_latency(&differences, change, width)) {
            it.in_latency = is_in;
        }
    }
    changes.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    all.into_iter().chain(changes).collect()
}

/// By how many instructions a mean latency changed, and how far off that may be.
fn instructions(mean: &Figure) -> Option<(f64, f64)> {
    let per_ns = 1.0 / mean.ns_per_instruction?;
    let width = mean.before.spread() + mean.after.spread() + mean.resolution;
    Some((mean.difference() * per_ns, width * per_ns))
}

/// Which differences of functions are in a mean latency that changed by `change`, all in instructions per frame.
///
/// Time is counted instructions, so a mean latency changes by the sum of the differences in it. One of them is at most as large as
/// the change and all that the others take less, if it is an increase, or as what the others take more without the change, if it is
/// a decrease. What is larger is beside the latency, and makes up for nothing: without it the same is asked of the others, until
/// none is left. If these add up to more than twice the change, more of them is beside it than in it, and which is not known.
fn in_latency(differences: &[f64], change: f64, width: f64) -> Vec<Option<bool>> {
    let mut is_in = vec![true; differences.len()];
    loop {
        let sum = |sign: f64| -> f64 {
            let inside = differences.iter().zip(&is_in).filter(|it| *it.1);
            inside.map(|it| (it.0 * sign).max(0.0)).sum()
        };
        let (more, less) = (sum(1.0), sum(-1.0));
        let can_be = |difference: f64| match difference > 0.0 {
            true => difference <= change + less + width,
            false => -difference <= more - change + width,
        };
        let next: Vec<_> =
            differences.iter().zip(&is_in).map(|(&it, &is_in)| is_in && can_be(it)).collect();
        if next == is_in {
            let is_known = (more - less - change).abs() <= change.abs() + width;
            return is_in.into_iter().map(|it| (is_known || !it).then_some(it)).collect();
        }
        is_in = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_the_latency_changed_is_beside_it() {
        for (differences, change, expected) in [
            // As much as the latency, in one function or in several.
            (&[100.0][..], 100.0, &[true][..]),
            (&[60.0, 40.0], 100.0, &[true, true]),
            // And a part of them when the frame has left.
            (&[60.0, 40.0], 50.0, &[true, true]),
            (&[-100.0], -100.0, &[true]),
            // One moved into another one.
            (&[500.0, -500.0], 0.0, &[true, true]),
            // Periodic work, and a little on the way.
            (&[12_312.0, 1_846.0, 70.0, -41.0], 30.0, &[false, false, true, true]),
            (&[-13_241.0, 163.0, 90.0], 253.0, &[false, true, true]),
            // One that is beside makes up for nothing.
            (&[5_000.0, -900.0], 0.0, &[false, false]),
            // Within the width of the boots.
            (&[19.0], 0.0, &[true]),
            (&[21.0], 0.0, &[false]),
        ] {
            let expected: Vec<_> = expected.iter().map(|it| Some(*it)).collect();
            assert_eq!(in_latency(differences, change, 20.0), expected, "{differences:?}");
        }
        // Many small ones of periodic work.
        let found = in_latency(&[1_000.0, 90.0, 80.0, 70.0, 60.0, -50.0], 30.0, 20.0);
        assert_eq!(found, [Some(false), None, None, None, None, None]);
    }

    proptest::proptest! {
        /// Functions in the latency, whose sum it is, and others beside it.
        #[test]
        fn no_difference_in_a_latency_is_called_beside_it(
            inside in proptest::collection::vec(-200.0..200.0_f64, 1..12),
            beside in proptest::collection::vec(-2_000.0..2_000.0_f64, 0..4),
        ) {
            let all: Vec<f64> = inside.iter().chain(&beside).copied().collect();
            let found = in_latency(&all, inside.iter().sum(), 1e-6);
            proptest::prop_assert!(found[..inside.len()].iter().all(|it| *it != Some(false)), "{found:?}");
        }
    }

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

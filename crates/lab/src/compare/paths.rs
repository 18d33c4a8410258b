//! The paths that frames take through a gateway, as groups of latencies.
//!
//! In counted instructions a latency is the length of a path, so the latencies of an idle machine lie in narrow groups: whether
//! the processor slept, whether a timer was due. A figure between two groups, such as a median, is an accident: with 49 % of
//! the frames on one path and 51 % on the other it is the length of either. The length of a path is none:
//!
//! ```text
//!  frames
//!    |        #                          #                 path 1: 33 % of the frames, 8030 ns
//!    |        #                         ###                path 2: 49 % of the frames, 9180 ns
//!    |       ##   .    .     .     .    #### .    .        others: fewer than 5 % each
//!    +---------------------------------------------> ns
//! ```

use candor_lat::Metric;

use super::verdict::Sample;
use crate::result::ResultFile;

/// Latencies of one path are less than so many instructions from the next one of it. What lies in between is a branch that is
/// short, such as a table that is searched from another end: boots move the shortest latency by up to 22 (on PREEMPT_RT).
const APART_INSTRUCTIONS: f64 = 25.0;
/// A path that fewer frames take, as a share of all, is met or not as it happens.
pub(super) const LEAST_SHARE: f64 = 0.05;

/// A path on one side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FramePath {
    least_ns: i64,
    most_ns: i64,
    /// The part of all frames that take it, 0 to 1.
    share: f64,
    /// The median length in each run that has it, in ns.
    pub(super) lengths: Sample,
    /// The part of the frames that take it in each run, in percent.
    pub(super) shares: Sample,
}

/// How many frames had each latency, in rising order.
type Distribution = Vec<(i64, u64)>;

/// From a profile: for rising times, so many latencies are at least as long.
fn distribution(profile: &[(i64, u64)]) -> Distribution {
    let next = profile.iter().skip(1).map(|&(_, count)| count).chain([0]);
    profile.iter().zip(next).map(|(&(ns, count), next)| (ns, count.saturating_sub(next))).collect()
}

fn frames(of: &[(i64, u64)]) -> u64 {
    of.iter().map(|&(_, count)| count).sum()
}

/// The width in which the histogram behind a profile counts latencies of this length, in ns.
pub(super) fn step(ns: f64) -> f64 {
    ns / 2048.0
}

/// The paths of some runs of one experiment, from the shortest to the longest.
pub(super) fn paths(
    runs: &[&ResultFile],
    metric: Metric,
    ns_per_instruction: f64,
) -> Vec<FramePath> {
    let of = |run: &&ResultFile| Some(distribution(&run.metric(metric)?.profile));
    let runs: Vec<Distribution> = runs.iter().filter_map(of).filter(|it| frames(it) > 0).collect();
    let mut all: Vec<i64> = runs.iter().flatten().map(|&(ns, _)| ns).collect();
    all.sort_unstable();
    let is_near = |a: &i64, b: &i64| {
        ((b - a) as f64) < (APART_INSTRUCTIONS * ns_per_instruction).max(2.0 * step(*b as f64))
    };
    let groups = all.chunk_by(is_near).filter_map(|group| Some((*group.first()?, *group.last()?)));
    groups.filter_map(|ends| path(&runs, ends)).collect()
}

/// The path between two latencies.
fn path(runs: &[Distribution], (least_ns, most_ns): (i64, i64)) -> Option<FramePath> {
    let of_run = |run: &Distribution| -> Distribution {
        run.iter().copied().filter(|(ns, _)| (least_ns..=most_ns).contains(ns)).collect()
    };
    let median = |part: &Distribution| {
        let half = frames(part).div_ceil(2);
        let mut before = 0;
        part.iter().find_map(|&(ns, count)| {
            before += count;
            (before >= half && count > 0).then_some(ns as f64)
        })
    };
    let parts: Vec<_> = runs.iter().map(of_run).collect();
    let shares: Vec<f64> = parts
        .iter()
        .zip(runs)
        .map(|(part, run)| frames(part) as f64 / frames(run) as f64)
        .collect();
    Some(FramePath {
        least_ns,
        most_ns,
        share: shares.iter().sum::<f64>() / shares.len() as f64,
        lengths: Sample::new(parts.iter().filter_map(median))?,
        shares: Sample::new(shares.iter().map(|share| share * 100.0))?,
    })
}

/// Which path before is which one after, as places in both, in the order of those before.
///
/// If most frames take paths of the same length on both sides, these are the same, whatever their shares are. A path
/// that is left belongs to the one that its frames take after, if frames keep their order by latency: more than half of both.
pub(super) fn pair(before: &[FramePath], after: &[FramePath]) -> Vec<(usize, usize)> {
    let mut pairs = same_length(before, after);
    let paired: f64 = pairs.iter().map(|&(old, new)| before[old].share.min(after[new].share)).sum();
    if paired < 0.5 {
        pairs.clear();
    }
    for (old, begin) in begins(before).enumerate() {
        for (new, other) in begins(after).enumerate() {
            let (mine, theirs) = (before[old].share, after[new].share);
            let common = (begin + mine).min(other + theirs) - begin.max(other);
            let is_most = common > mine / 2.0 && common > theirs / 2.0;
            if is_most && !pairs.iter().any(|&(a, b)| a == old || b == new) {
                pairs.push((old, new));
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

/// Pairs whose latencies overlap; of several, those with most frames.
fn same_length(before: &[FramePath], after: &[FramePath]) -> Vec<(usize, usize)> {
    let overlap = |a: &FramePath, b: &FramePath| a.least_ns <= b.most_ns && b.least_ns <= a.most_ns;
    let all = (0..before.len()).flat_map(|old| (0..after.len()).map(move |new| (old, new)));
    let mut all: Vec<_> = all.filter(|&(old, new)| overlap(&before[old], &after[new])).collect();
    let common = |&(old, new): &(usize, usize)| before[old].share.min(after[new].share);
    all.sort_by(|a, b| common(b).total_cmp(&common(a)));
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (old, new) in all {
        if !pairs.iter().any(|&(a, b)| a == old || b == new) {
            pairs.push((old, new));
        }
    }
    pairs
}

/// The part of the frames that take a shorter path, for each path.
fn begins(paths: &[FramePath]) -> impl Iterator<Item = f64> {
    paths.iter().scan(0.0, |before, path| {
        let begin = *before;
        *before += path.share;
        Some(begin)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths with these lengths and shares, in percent.
    fn some(paths: &[(i64, f64)]) -> Vec<FramePath> {
        let one = |&(ns, percent): &(i64, f64)| FramePath {
            least_ns: ns - 10,
            most_ns: ns + 10,
            share: percent / 100.0,
            lengths: Sample::new([ns as f64]).unwrap(),
            shares: Sample::new([percent]).unwrap(),
        };
        paths.iter().map(one).collect()
    }

    #[test]
    fn a_path_is_found_again() {
        let before = [(8_030, 33.0), (8_336, 4.0), (9_180, 50.0), (10_056, 13.0)];
        let shifted = |by: i64| before.map(|(ns, percent)| (ns + by, percent));
        let other_shares = [(8_030, 70.0), (8_336, 1.0), (9_180, 16.0), (10_056, 13.0)];
        // One path is longer, the others are not.
        let one_longer = [(8_030, 33.0), (8_336, 4.0), (9_400, 50.0), (10_056, 13.0)];
        for (after, expected) in [
            (before, vec![(0, 0), (1, 1), (2, 2), (3, 3)]),
            (shifted(2_000), vec![(0, 0), (1, 1), (2, 2), (3, 3)]),
            (shifted(-40), vec![(0, 0), (1, 1), (2, 2), (3, 3)]),
            // As long as the next path was before.
            (shifted(1_150), vec![(0, 0), (1, 1), (2, 2), (3, 3)]),
            (other_shares, vec![(0, 0), (1, 1), (2, 2), (3, 3)]),
            (one_longer, vec![(0, 0), (1, 1), (2, 2), (3, 3)]),
        ] {
            assert_eq!(pair(&some(&before), &some(&after)), expected, "{after:?}");
        }
        // Another kernel has other paths.
        let one = some(&[(64_000, 100.0)]);
        assert_eq!(pair(&some(&before), &one), []);
        assert_eq!(pair(&[], &one), []);
    }

    #[test]
    fn what_is_left_of_a_profile_are_frames() {
        assert_eq!(distribution(&[(5, 10), (7, 4), (9, 1)]), [(5, 6), (7, 3), (9, 1)]);
        assert_eq!(distribution(&[]), []);
    }
}

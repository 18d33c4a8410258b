//! By how much the clocks of two recordings differ at their start.

use std::collections::{HashMap, VecDeque};

use super::{Key, Sighting};

/// So many frames of each recording are looked at.
pub const HEAD_FRAMES: usize = 65_536;
/// Offsets that are no farther apart, in nanoseconds, speak for the same one: what jitter and drift make of it meanwhile.
pub const START_SPREAD_NS: i128 = 20_000_000;

/// So long, in nanoseconds, a clock that runs by 333 millionths apart keeps within [`START_SPREAD_NS`]: where that is enough, later frames
/// do not speak.
const START_NS: u64 = 60_000_000_000;
/// So many of the earliest pairs tell the offset at the start: drift has not come in between.
const EARLIEST: usize = 31;

/// Frames with a key are rare if there are so many in each recording at most.
const RARE: usize = 8;

/// By how much B's clock is ahead of A's: the offset that most pairs of rare frames with one key have, as the earliest of these pairs
/// tell it. Of several that have as many, the smallest. The first minute is asked, and all if that does not tell. `None` if fewer than half of the frames that could have it do: then the recordings did not start together.
/// The second value says whether rare frames tell it, and so exactly: of frames that repeat themselves, one may be taken for the next.
pub(super) fn offset(
    heads: &[VecDeque<Sighting>; 2],
    key: impl Fn(&Sighting) -> Key,
) -> Option<(i128, bool)> {
    offset_within(heads, START_NS, &key).or_else(|| offset_within(heads, u64::MAX, &key))
}

/// By frames that come so soon behind the first of their recording.
fn offset_within(
    heads: &[VecDeque<Sighting>; 2],
    most_ns: u64,
    key: &impl Fn(&Sighting) -> Key,
) -> Option<(i128, bool)> {
    let mut times: HashMap<Key, [Vec<u64>; 2]> = HashMap::new();
    for (place, head) in heads.iter().enumerate() {
        let first_ns = head.front().map_or(0, |first| first.time_ns);
        let is_soon = |it: &&Sighting| it.time_ns.saturating_sub(first_ns) <= most_ns;
        for sighting in head.iter().filter(is_soon) {
            let times = &mut times.entry(key(sighting)).or_default()[place];
            // One more tells that it is not rare.
            if times.len() <= RARE {
                times.push(sighting.time_ns);
            }
        }
    }
    let (rare, others): (Vec<_>, Vec<_>) =
        times.into_values().partition(|times| times.iter().all(|times| times.len() <= RARE));
    // What only repeats itself has no rare frames.
    let told = |found: Option<i128>, is_exact| found.map(|offset| (offset, is_exact));
    vote(&rare).map(|it| told(it, true)).or_else(|| vote(&others).map(|it| told(it, false)))?
}

/// The offset that most pairs have, if it is enough of them; `None` if there are no pairs. Each item has the times of one key.
fn vote(times: &[[Vec<u64>; 2]]) -> Option<Option<i128>> {
    let pairs =
        times.iter().flat_map(|[a, b]| a.iter().flat_map(|a| b.iter().map(move |b| (a, b))));
    let mut offsets: Vec<_> = pairs.map(|(&a, &b)| (i128::from(b) - i128::from(a), a)).collect();
    if offsets.is_empty() {
        return None;
    }
    offsets.sort_unstable();
    let mut best: Option<(usize, i128, usize)> = None;
    let mut start = 0;
    for end in 0..offsets.len() {
        while offsets[end].0 - offsets[start].0 > START_SPREAD_NS {
            start += 1;
        }
        let (votes, middle) = (end + 1 - start, offsets[usize::midpoint(start, end)].0);
        let is_better = best.is_none_or(|(most, offset, _)| {
            votes > most || votes == most && middle.abs() < offset.abs()
        });
        if is_better {
            best = Some((votes, middle, start));
        }
    }
    let frames = |place: usize| times.iter().map(|times| times[place].len()).sum::<usize>();
    let needed = frames(0).min(frames(1)).div_ceil(2);
    let best = best.filter(|&(votes, ..)| votes >= needed);
    Some(best.map(|(votes, _, start)| earliest(&mut offsets[start..start + votes])))
}

/// The middle offset of the earliest pairs, which have an offset and a time each.
fn earliest(pairs: &mut [(i128, u64)]) -> i128 {
    pairs.sort_unstable_by_key(|&(_, time_ns)| time_ns);
    let count = pairs.len().min(EARLIEST);
    let first = &mut pairs[..count];
    first.sort_unstable();
    first[first.len() / 2].0
}

//! Which items of two sequences are the same, in their order.
//!
//! What is found is near a longest common subsequence, and at its start: frames that occur once in either sequence pin them to one
//! another (patience diff), also between others; where there are none, a table of all ways finds the longest common subsequence that is passed
//! soonest. The ends are open: what the last items are the same as may still come.

use std::collections::HashMap;

use super::Side;

/// One step along both sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next items are the same.
    Both,
    /// The next item of this one is in no other.
    Only(Side),
}

/// So deep blocks between unique items are looked at for others.
const MAX_DEPTH: u32 = 16;
/// Of blocks with larger tables, so many items of either sequence are put into one; the second length where the first tells too little.
const PIECES: [usize; 2] = [512, 2_048];
/// A table has so many cells at most.
const MAX_CELLS: usize = PIECES[1] * PIECES[1];

/// The steps from the start of `a` and `b`, until so many items of one of them are `enough`.
pub(super) fn align(a: &[u32], b: &[u32], enough: [usize; 2]) -> Vec<Step> {
    let mut path = Path { steps: Vec::new(), done: [0; 2], enough };
    path.block(a, b, 0, enough == [usize::MAX; 2]);
    path.steps
}

/// The places of items that occur once in either sequence, in the order of `a`; and how many occur once in each.
pub(super) fn unique(a: &[u32], b: &[u32]) -> (Vec<(usize, usize)>, [usize; 2]) {
    /// More than once.
    const SEVERAL: usize = usize::MAX;
    let mut places: HashMap<u32, [Option<usize>; 2]> = HashMap::with_capacity(a.len());
    for (side, items) in [a, b].into_iter().enumerate() {
        for (place, &item) in items.iter().enumerate() {
            let known = &mut places.entry(item).or_default()[side];
            *known = Some(if known.is_some() { SEVERAL } else { place });
        }
    }
    let is_once = |place: &Option<usize>| place.is_some_and(|place| place != SEVERAL);
    let count = |side: usize| places.values().filter(|it| is_once(&it[side])).count();
    let counts = [count(0), count(1)];
    let in_both = places.values().filter(|it| it.iter().all(is_once));
    let mut pairs: Vec<_> = in_both.filter_map(|&[a, b]| Some((a?, b?))).collect();
    pairs.sort_unstable();
    (pairs, counts)
}

/// Of pairs in the order of their first places, the most whose second places are in order, too (by patience sorting).
pub(super) fn in_order(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The top of each pile, and below whom each pair lies.
    let mut tops: Vec<usize> = Vec::new();
    let mut below = vec![None; pairs.len()];
    for (place, pair) in pairs.iter().enumerate() {
        let pile = tops.partition_point(|&top| pairs[top].1 < pair.1);
        below[place] = pile.checked_sub(1).map(|pile| tops[pile]);
        match tops.get_mut(pile) {
            Some(top) => *top = place,
            None => tops.push(place),
        }
    }
    let last = tops.last().copied();
    let mut found: Vec<_> =
        std::iter::successors(last, |&place| below[place]).map(|place| pairs[place]).collect();
    found.reverse();
    found
}

struct Path {
    steps: Vec<Step>,
    /// How many items of each sequence were passed.
    done: [usize; 2],
    enough: [usize; 2],
}

impl Path {
    fn is_enough(&self) -> bool {
        self.done.iter().zip(self.enough).any(|(&done, enough)| done >= enough)
    }

    fn add(&mut self, step: Step, count: usize) {
        for side in Side::ALL {
            if step == Step::Both || step == Step::Only(side) {
                self.done[side as usize] += count;
            }
        }
        self.steps.extend(std::iter::repeat_n(step, count));
    }

    /// Passes all of two blocks, unless it is enough before. `is_closed` says that their ends are at the same place.
    fn block(&mut self, a: &[u32], b: &[u32], depth: u32, is_closed: bool) {
        let prefix = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        self.add(Step::Both, prefix);
        let (a, b) = (&a[prefix..], &b[prefix..]);
        let same_behind = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b);
        // A table tells more.
        let is_large = a.len() * b.len() > MAX_CELLS;
        let suffix = if is_closed && is_large { same_behind.count() } else { 0 };
        let inner = [&a[..a.len() - suffix], &b[..b.len() - suffix]];
        let start = self.steps.len();
        self.inside(inner, depth, is_closed);
        if !self.is_enough() {
            self.behind([a, b], suffix, start);
        }
    }

    /// Passes blocks with other items at their starts.
    fn inside(&mut self, [a, b]: [&[u32]; 2], depth: u32, is_closed: bool) {
        let anchors = match a.is_empty() || b.is_empty() || depth == MAX_DEPTH {
            true => Vec::new(),
            false => in_order(&unique(a, b).0),
        };
        if anchors.is_empty() {
            return self.pieces(a, b);
        }
        let mut from = (0, 0);
        for &(i, j) in &anchors {
            self.block(&a[from.0..i], &b[from.1..j], depth + 1, true);
            if self.is_enough() {
                return;
            }
            self.add(Step::Both, 1);
            from = (i + 1, j + 1);
        }
        if !self.is_enough() {
            self.block(&a[from.0..], &b[from.1..], depth + 1, is_closed);
        }
    }

    /// Passes what both blocks end with. The gaps before it, since a step, come as late as they can: past items that stand at the gap's start, too.
    fn behind(&mut self, blocks: [&[u32]; 2], suffix: usize, start: usize) {
        let gap = self.steps[start..].iter().rev().take_while(|&&step| step != Step::Both).count();
        let gaps = self.steps.split_off(self.steps.len() - gap);
        let gap_lens =
            Side::ALL.map(|side| gaps.iter().filter(|&&it| it == Step::Only(side)).count());
        let latest = [0, 1].map(|side| {
            let (block, len) = (blocks[side], gap_lens[side]);
            let behind = &block[block.len() - suffix..];
            let since = &block[block.len() - suffix - len..];
            since.iter().zip(behind).take_while(|(since, behind)| since == behind).count()
        });
        let mut passed = 0;
        let mut order = Side::ALL;
        order.sort_by_key(|&side| latest[side as usize]);
        for side in order {
            self.add(Step::Both, latest[side as usize] - passed);
            passed = latest[side as usize];
            self.steps.extend(std::iter::repeat_n(Step::Only(side), gap_lens[side as usize]));
        }
        self.add(Step::Both, suffix - passed);
    }

    /// Passes blocks in which no item is unique, piece by piece.
    fn pieces(&mut self, mut a: &[u32], mut b: &[u32]) {
        while !self.is_enough() && !a.is_empty() && !b.is_empty() {
            let start = self.done;
            self.piece(a, b);
            a = &a[self.done[0] - start[0]..];
            b = &b[self.done[1] - start[1]..];
        }
        if !self.is_enough() {
            self.add(Step::Only(Side::A), a.len());
            self.add(Step::Only(Side::B), b.len());
        }
    }

    /// Passes some of what two blocks begin with.
    fn piece(&mut self, a: &[u32], b: &[u32]) {
        let lens = match a.len() * b.len() <= MAX_CELLS {
            true => [(a.len(), b.len()); 2],
            false => PIECES.map(|len| (a.len().min(len), b.len().min(len))),
        };
        let mut found = (Vec::new(), lens[0]);
        for (len_a, len_b) in lens {
            let steps = longest(&a[..len_a], &b[..len_b]);
            let count = |step| steps.iter().filter(|&&it| it == step).count();
            let matched = count(Step::Both);
            let alone = count(Step::Only(Side::A)).min(count(Step::Only(Side::B)));
            found = (steps, (len_a, len_b));
            if matched > 0 && alone <= matched {
                break;
            }
        }
        let (steps, (len_a, len_b)) = found;
        // In the second half, items behind the piece may be the better partners.
        let until =
            |len: usize, whole: usize| if len == whole { usize::MAX } else { len.div_ceil(2) };
        let until = [until(len_a, a.len()), until(len_b, b.len())];
        let start = self.done;
        let is_done = |path: &Self| (0..2).any(|side| path.done[side] - start[side] >= until[side]);
        for step in steps {
            if is_done(self) {
                return;
            }
            self.add(step, 1);
        }
        if is_done(self) {
            return;
        }
        // Nothing else in it is the same.
        for (side, len) in Side::ALL.into_iter().zip([len_a, len_b]) {
            let left = len - (self.done[side as usize] - start[side as usize]);
            match until[side as usize] {
                usize::MAX if until == [usize::MAX; 2] => self.add(Step::Only(side), left),
                usize::MAX => {}
                _ => self.add(Step::Only(side), left.div_ceil(2)),
            }
        }
    }
}

/// The steps to the end of the longest common subsequence, of several that which is passed in the fewest steps.
fn longest(a: &[u32], b: &[u32]) -> Vec<Step> {
    // More than there are steps that are no match; the product with the matches is less than twice the cells.
    let a_match = (a.len() + b.len()) as i32;
    let width = b.len() + 1;
    let mut scores = vec![0_i32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        let (row, next) = scores[i * width..].split_at_mut(width);
        for j in (0..b.len()).rev() {
            row[j] = match a[i] == b[j] {
                true => next[j + 1] + a_match,
                false => (next[j].max(row[j + 1]) - 1).max(0),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut steps = Vec::new();
    while scores[i * width + j] > 0 {
        let step = match a[i] == b[j] {
            true => Step::Both,
            false if scores[(i + 1) * width + j] >= scores[i * width + j + 1] => {
                Step::Only(Side::A)
            }
            false => Step::Only(Side::B),
        };
        i += usize::from(step != Step::Only(Side::B));
        j += usize::from(step != Step::Only(Side::A));
        steps.push(step);
    }
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The length of the longest common subsequence, by the definition.
    fn longest_len(a: &[u32], b: &[u32]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut diagonal = 0;
            for (j, y) in b.iter().enumerate() {
                let above = row[j + 1];
                row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
                diagonal = above;
            }
        }
        row[b.len()]
    }

    /// How many items are the same, after the path was followed to the end.
    fn follow(a: &[u32], b: &[u32], steps: &[Step]) -> usize {
        let (mut i, mut j, mut matched) = (0, 0, 0);
        for step in steps {
            match step {
                Step::Both => {
                    assert_eq!(a[i], b[j]);
                    (i, j, matched) = (i + 1, j + 1, matched + 1);
                }
                Step::Only(Side::A) => i += 1,
                Step::Only(Side::B) => j += 1,
            }
        }
        assert_eq!((i, j), (a.len(), b.len()));
        matched
    }

    const ALL: [usize; 2] = [usize::MAX; 2];

    #[test]
    fn what_occurs_once_pins_both() {
        let (a, b) = ([1, 1, 2, 1, 3, 1, 4], [3, 1, 1, 4, 2]);
        let (pairs, counts) = unique(&a, &b);
        assert_eq!((&pairs[..], counts), (&[(2, 4), (4, 0), (6, 3)][..], [3, 3]));
        assert_eq!(in_order(&pairs), [(4, 0), (6, 3)]);
    }

    /// A sample of one in 50 is found in what it was taken of, however often frames repeat.
    #[test]
    fn a_sample_is_found_in_the_whole() {
        let a: Vec<u32> = (0..60_000).map(|n| if n % 50 == 0 { n / 50 % 7 } else { 99 }).collect();
        let b: Vec<u32> = (0..60_000).map(|n| n % 7).collect();
        let steps = align(&a, &b, [30_000, 60_000]);
        let count = |step| steps.iter().filter(|&&it| it == step).count();
        assert!(count(Step::Both) >= 600 && count(Step::Only(Side::B)) == 0, "{}", steps.len());
    }

    #[test]
    fn long_blocks_without_anything_in_common_are_passed() {
        let (a, b) = (vec![1; 9_000], vec![2; 5_000]);
        assert_eq!(follow(&a, &b, &align(&a, &b, ALL)), 0);
        let steps = align(&a, &b, [4_500, 2_500]);
        assert!((2_500..9_000).contains(&steps.len()), "{}", steps.len());
    }

    proptest! {
        /// Small sequences: the longest common subsequence itself; what is unique between blocks may cost some of it.
        #[test]
        fn nearly_the_longest_common_subsequence_is_found(
            a in prop::collection::vec(0_u32..4, 0..60),
            b in prop::collection::vec(0_u32..4, 0..60),
        ) {
            prop_assert_eq!(follow(&a, &b, &{
                let mut steps = longest(&a, &b);
                let left = |side| steps.iter().filter(|&&it| it == Step::Both || it == Step::Only(side)).count();
                let left = [a.len() - left(Side::A), b.len() - left(Side::B)];
                for side in Side::ALL {
                    steps.extend(std::iter::repeat_n(Step::Only(side), left[side as usize]));
                }
                steps
            }), longest_len(&a, &b));
            follow(&a, &b, &align(&a, &b, ALL));
        }

        /// Of a long sequence without some items, however often they repeat, exactly those are missing.
        #[test]
        fn what_is_left_out_is_missing(
            items in prop::collection::vec(0_u32..300, 1..4_000),
            fates in prop::collection::vec(0_u8..20, 4_000),
        ) {
            let kept = items.iter().zip(&fates).filter(|(_, fate)| **fate != 0);
            let b: Vec<_> = kept.map(|(item, _)| *item).collect();
            prop_assert_eq!(follow(&items, &b, &align(&items, &b, ALL)), b.len());
            prop_assert_eq!(follow(&b, &items, &align(&b, &items, ALL)), b.len());
        }
    }
}

//! Where frames are missing, if their order does not tell.
//!
//! ```text
//!  A: x x x x x x y     of the six x one is missing in B, by the order any of them
//!  B: x x x   x x y     its time tells which
//! ```
//!
//! Gaps come as late as the order allows. If the frames before one are the same as those in it, it may have been earlier, as a whole or in parts.

use std::collections::VecDeque;

use super::align::Step;
use super::clocks::Follower;
use super::{Side, Sighting};

/// So many partners are tried for a frame at most.
const MAX_SHIFTS: usize = 64;
/// Of longer gaps, partners are chosen for some of so many frames before them.
const SAMPLED: usize = 8_192;
/// So far from the nearest time a partner is looked for.
const NEARBY: usize = 256;

/// What became of frames of one interface.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Both(Sighting, Sighting),
    Only(Side, Sighting),
}

impl Found {
    pub(super) fn step(&self) -> Step {
        match self {
            Self::Both(..) => Step::Both,
            Self::Only(side, _) => Step::Only(*side),
        }
    }

    /// The frame as this recording has it.
    const fn of(&self, side: Side) -> Option<&Sighting> {
        match (self, side) {
            (Self::Both(it, _), Side::A) | (Self::Both(_, it), Side::B) => Some(it),
            (Self::Only(Side::A, it), Side::A) | (Self::Only(Side::B, it), Side::B) => Some(it),
            (Self::Only(..), _) => None,
        }
    }
}

/// The newest frames of one interface, whose partners may still change.
pub(super) struct Tail {
    found: VecDeque<(Found, Follower)>,
    clock: Follower,
}

impl Tail {
    /// A tail whose clocks differ by so much at the start.
    pub(super) fn new(clock: Follower) -> Self {
        Self { found: VecDeque::new(), clock }
    }

    pub(super) fn push(&mut self, found: Found) {
        if let Found::Both(a, b) = found
            && self.goes_on(&a, &b)
        {
            return;
        }
        if self.last_step().is_some_and(|last| last != found.step()) {
            self.settle();
        }
        self.put(found);
    }

    /// Moves what of the gap at the end is the same as a frame that both have, and what follows it there, behind that: so gaps come as late
    /// as they can.
    fn goes_on(&mut self, a: &Sighting, b: &Sighting) -> bool {
        let is_alone = |it: &&(Found, Follower)| it.0.step() != Step::Both;
        let gap = self.found.iter().rev().take(MAX_SHIFTS).take_while(is_alone).count();
        // Long ones stay where they are.
        if gap == MAX_SHIFTS {
            return false;
        }
        let start = self.found.len() - gap;
        let same = |side: Side, last: &Sighting| {
            let mut alone = self.found.range(start..).filter_map(|(found, _)| found.of(side));
            alone.position(|it| it.frame == last.frame)
        };
        let last = [(Side::A, *a), (Side::B, *b)].into_iter();
        let mut last = last.filter_map(|(side, last)| Some((side, same(side, &last)?, last)));
        let Some((side, before, last)) = last.next() else { return false };
        let old = self.found.split_off(start);
        self.clock = old[0].1;
        let old = old.into_iter().map(|(found, _)| found);
        let (own, other): (Vec<_>, Vec<_>) = old.partition(|it| it.step() == Step::Only(side));
        let own: Vec<_> = own.iter().filter_map(|it| it.of(side).copied()).collect();
        other.into_iter().for_each(|found| self.put(found));
        self.settle();
        own[..before].iter().for_each(|&it| self.put(Found::Only(side, it)));
        self.settle();
        let first = own[before];
        self.put(if side == Side::A { Found::Both(first, *b) } else { Found::Both(*a, first) });
        let behind = own[before + 1..].iter().chain([&last]);
        behind.for_each(|&it| self.put(Found::Only(side, it)));
        true
    }

    fn put(&mut self, found: Found) {
        let before = self.clock;
        if let Found::Both(a, b) = &found {
            self.clock.follow(a, b);
        }
        self.found.push_back((found, before));
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// The oldest one, which cannot change any more then.
    pub(super) fn pop(&mut self) -> Option<Found> {
        self.found.pop_front().map(|(found, _)| found)
    }

    /// The oldest one.
    pub(super) fn first(&self) -> Option<&Found> {
        self.found.front().map(|(found, _)| found)
    }

    /// The clocks, by the newest frames.
    pub(super) const fn clock(&self) -> &Follower {
        &self.clock
    }

    fn last_step(&self) -> Option<Step> {
        self.found.back().map(|(found, _)| found.step())
    }

    /// Puts the gap at the end where the times of the frames agree best, and gaps before it, as far as they are of equal frames.
    pub(super) fn settle(&mut self) {
        let Some(Step::Only(side)) = self.last_step() else { return };
        let is_gap = |it: &&(Found, Follower)| it.0.step() == Step::Only(side);
        let gap = self.found.len() - self.found.iter().rev().take_while(is_gap).count();
        let mut alone = self.found.len() - gap;
        let shifts = self.shifts(gap, side);
        // Frames of the recording that has more, the last one first; what only the other one has stands between them.
        let of_it = |place: usize| self.found[place].0.of(side).copied();
        let mut long: Vec<_> = (gap..self.found.len()).rev().filter_map(of_it).collect();
        let mut rows: Vec<Row> = Vec::new();
        let mut start = gap;
        for place in (0..gap).rev() {
            match self.found[place].0.step() {
                Step::Only(other) if other != side => continue,
                Step::Only(_) if alone >= MAX_SHIFTS => break,
                Step::Only(_) => {
                    alone += 1;
                    long.extend(of_it(place));
                    continue;
                }
                Step::Both => {}
            }
            long.extend(of_it(place));
            let row = Row::new(&long, &shifts, rows.last());
            if !row.can[1..].contains(&true) {
                break;
            }
            rows.push(row);
            start = place;
        }
        let Some(first) = rows.last().map(|row| row.own) else { return };
        // Forwards.
        long.truncate(first + 1);
        long.reverse();
        rows.reverse();
        rows.iter_mut().for_each(|row| row.own = first - row.own);
        self.place(start, side, &long, &shifts, &rows);
    }

    /// By how many places the partner of a frame can stand behind its own: few; behind very many that are missing those that are best for some
    /// frames before them, up to another gap.
    fn shifts(&self, gap: usize, side: Side) -> Vec<usize> {
        let gap_len = self.found.len() - gap;
        if gap_len < MAX_SHIFTS {
            return (0..MAX_SHIFTS).collect();
        }
        let mut shifts = vec![0, gap_len];
        let is_alone = |it: &(Found, Follower)| it.0.step() == Step::Only(side);
        let since = self.found.range(..gap).rev().take(SAMPLED).take_while(|it| !is_alone(it));
        let first = gap - since.count();
        let long: Vec<_> = self.found.range(first..).filter_map(|it| it.0.of(side)).collect();
        let count = long.len() - gap_len;
        let both = self.found.range(first..gap).filter(|it| it.0.step() == Step::Both);
        for (own, (found, clock)) in both.enumerate().step_by(count.div_ceil(MAX_SHIFTS - 2).max(1))
        {
            let Some(short) = found.of(side.other()) else { continue };
            let time = clock.on_a(side.other(), short.time_ns);
            let nearest = own
                + long[own..=own + gap_len]
                    .partition_point(|it| clock.on_a(side, it.time_ns) < time)
                    .min(gap_len);
            // A frame nearby that is the same.
            let around = (0..NEARBY).flat_map(|by| [nearest.checked_sub(by), Some(nearest + by)]);
            let mut around = around.flatten().filter(|it| (own..=own + gap_len).contains(it));
            shifts.extend(around.find(|&it| long[it].frame == short.frame).map(|it| it - own));
        }
        shifts.sort_unstable();
        shifts.dedup();
        shifts
    }

    /// Chooses partners anew for the frames from `start` on: those that the shifts allow whose distances in time have the least sum; of
    /// several, with the gaps as late as can be.
    fn place(
        &mut self,
        start: usize,
        side: Side,
        long: &[Sighting],
        shifts: &[usize],
        rows: &[Row],
    ) {
        let (first, mut clock) = self.found[start];
        if let Found::Both(a, b) = first {
            clock.begin(&a, &b);
        }
        let old = self.found.split_off(start);
        let both = old.iter().filter(|(found, _)| found.step() == Step::Both);
        let short = both.filter_map(|(found, _)| found.of(side.other()));
        let short: Vec<_> = short.map(|it| clock.on_a(side.other(), it.time_ns)).collect();
        let distance = |place: usize, partner: usize| {
            (clock.on_a(side, long[partner].time_ns) - short[place]).abs()
        };
        let mut partners = best_partners(rows, shifts, distance).into_iter();
        self.clock = clock;
        let mut passed = 0;
        for (found, _) in old {
            let Found::Both(a, b) = found else {
                if found.step() != Step::Only(side) {
                    self.put(found);
                }
                continue;
            };
            let partner = partners.next().unwrap_or(passed);
            long[passed..partner].iter().for_each(|&only| self.put(Found::Only(side, only)));
            let new = long[partner];
            self.put(if side == Side::A { Found::Both(new, b) } else { Found::Both(a, new) });
            passed = partner + 1;
        }
        long[passed..].iter().for_each(|&only| self.put(Found::Only(side, only)));
    }
}

/// A frame of both before a gap.
struct Row {
    /// The place of its partner among the frames of the recording that has more.
    own: usize,
    /// By which shifts the partner can stand behind it, so that those of the frames behind stand behind that.
    can: Vec<bool>,
}

impl Row {
    /// The frame that is the last one in `long`, where the last frame of the recording comes first; with the row behind it.
    fn new(long: &[Sighting], shifts: &[usize], behind: Option<&Self>) -> Self {
        let own = long.len() - 1;
        let last = behind.map(|row| {
            let most = row.can.iter().rposition(|can| *can).unwrap_or(0);
            row.own - shifts[most]
        });
        let can = |&shift: &usize| {
            let partner = own.checked_sub(shift).filter(|&it| last.is_none_or(|last| it > last));
            partner.is_some_and(|partner| long[partner].frame == long[own].frame)
        };
        Self { own, can: shifts.iter().map(can).collect() }
    }
}

/// The partners of the frames of rows, each behind that of the one before, so that the sum of the distances is least.
fn best_partners(
    rows: &[Row],
    shifts: &[usize],
    distance: impl Fn(usize, usize) -> i128,
) -> Vec<usize> {
    // The least sum from a frame on if it has this shift, and which one the frame behind it then has.
    let mut sums: Vec<Option<i128>> = Vec::new();
    let mut next = vec![0_u8; rows.len() * shifts.len()];
    for (place, row) in rows.iter().enumerate().rev() {
        // The best of the frame behind, from each shift on; of equal ones the smaller shift.
        let mut best = None;
        let mut behind: Vec<Option<(i128, usize)>> = Vec::with_capacity(sums.len());
        for (choice, sum) in sums.iter().enumerate().rev() {
            best = best.into_iter().chain(sum.map(|sum| (sum, choice))).min();
            behind.push(best);
        }
        behind.reverse();
        let sum = |(choice, &shift): (usize, &usize)| {
            let partner = row.own + shift;
            let (sum, then) = match rows.get(place + 1) {
                None => (0, 0),
                Some(after) => {
                    let from = shifts.partition_point(|shift| after.own + shift <= partner);
                    (*behind.get(from)?)?
                }
            };
            row.can[choice].then(|| (sum + distance(place, partner), then))
        };
        let found: Vec<_> = shifts.iter().enumerate().map(sum).collect();
        for (choice, found) in found.iter().enumerate() {
            next[place * shifts.len() + choice] = found.map_or(0, |(_, then)| then as u8);
        }
        sums = found.into_iter().map(|found| found.map(|(sum, _)| sum)).collect();
    }
    let least = sums.iter().enumerate().filter_map(|(choice, sum)| Some(((*sum)?, choice)));
    let mut choice = least.min().map_or(0, |(_, choice)| choice);
    let partner = |(place, row): (usize, &Row)| {
        let partner = row.own + shifts[choice];
        choice = usize::from(next[place * shifts.len() + choice]);
        partner
    };
    rows.iter().enumerate().map(partner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::InterfaceIndex;

    fn sighting(number: u64, time_ns: u64, id: u64) -> Sighting {
        let frame = format!("{id:03X}#").parse().unwrap();
        Sighting { number, time_ns, interface: InterfaceIndex(0), direction: None, frame }
    }

    /// The numbers of the frames that are missing, after the first of A have been taken for those of B.
    fn missing(a: &[Sighting], b: &[Sighting]) -> Vec<u64> {
        let mut tail = Tail::new(Follower::new(0, true));
        a.iter().zip(b).for_each(|(a, b)| tail.push(Found::Both(*a, *b)));
        a[b.len()..].iter().for_each(|a| tail.push(Found::Only(Side::A, *a)));
        tail.settle();
        let found = std::iter::from_fn(|| tail.pop());
        found
            .filter_map(|it| if let Found::Only(_, it) = it { Some(it.number) } else { None })
            .collect()
    }

    /// Of frames that repeat, by their times; a late one moves no gap.
    #[test]
    fn the_times_tell_where_a_gap_is() {
        for (count, kinds, gaps) in [
            (400, 1, &[(0, 1)][..]),
            (400, 1, &[(57, 58)]),
            (400, 1, &[(57, 60), (200, 201), (399, 400)]),
            (400, 7, &[(28, 42), (300, 307)]),
            (400, 1, &[(399, 400)]),
            // More than are tried one by one.
            (9_000, 3, &[(0, 4_500), (4_800, 9_000)]),
            (9_000, 1, &[(600, 8_700)]),
            (9_000, 50, &[(5_000, 8_000)]),
        ] {
            let a: Vec<_> = (0..count).map(|n| sighting(n, n * 10, n % kinds)).collect();
            let is_kept =
                |it: &&Sighting| !gaps.iter().any(|&(from, to)| (from..to).contains(&it.number));
            let mut b: Vec<_> = a.iter().filter(is_kept).copied().collect();
            let expected: Vec<_> = gaps.iter().flat_map(|&(from, to)| from..to).collect();
            assert_eq!(missing(&a, &b), expected, "{kinds} kinds, {gaps:?}");
            let middle = b.len() / 2;
            b[middle].time_ns += 5_000;
            let found = missing(&a, &b);
            let is_in = |number: &&u64| expected.contains(number);
            let right = found.iter().filter(is_in).count();
            assert!(right + 1 >= expected.len(), "{kinds} kinds, {gaps:?}: {found:?}");
        }
    }
}

//! [`Pace`]: how often a rule fires, and `State`: what it remembers for that.
//!
//! A rate is enforced by the generic cell rate algorithm (ITU-T I.371, annex A) with an increment I, the interval, and a
//! limit T, the tolerance. For frames that pass, and whole numbers n and b:
//!
//! - In any half-open window of n intervals, at most n + b frames pass if T = b * I: n with T = 0, n + 1 with T = I.
//! - With T = 0, two frames are at least one interval apart.
//! - Frames of which the k-th comes at k * I plus a delay of at most T all pass. This is a message at the nominal rate with
//!   jitter: so T = I is the default of `rate`.

use alloc::boxed::Box;

use candor_causes::Cause;
use candor_time::Nanos;
use candor_wire::can::Frame;

/// How many identifiers a rule remembers apart by default.
pub const DEFAULT_IDS: u16 = 256;

/// How often a rule fires. With nothing set: for every frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pace {
    /// The least time from one frame to the next in ns, on average; 0 for none.
    pub interval_ns: u64,
    /// How much too early a frame may come, in ns; 0 without an interval. With (b - 1) intervals, b frames may come at
    /// once.
    pub tolerance_ns: u64,
    /// Only the first of so many frames; 0 and 1 are all.
    pub every: u32,
    /// Only frames whose data differ from those of the last one that went out.
    pub on_change: Option<OnChange>,
    /// What all this counts.
    pub per: Per,
    /// How many identifiers are remembered apart, with [`Per::Id`]. Frames with more than these
    /// share what is remembered, and always count as changed.
    pub ids: u16,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            interval_ns: 0,
            tolerance_ns: 0,
            every: 0,
            on_change: None,
            per: Per::Id,
            ids: DEFAULT_IDS,
        }
    }
}

impl Pace {
    /// The tolerance with which so many frames may come at once, one at least.
    #[must_use]
    pub fn tolerance_of_burst(interval_ns: u64, burst: u32) -> u64 {
        interval_ns.saturating_mul(u64::from(burst.saturating_sub(1)))
    }

    /// Whether it depends on when frames come.
    #[must_use]
    pub fn needs_time(&self) -> bool {
        let is_due = |on_change: &OnChange| on_change.at_least_every_ns != 0;
        self.interval_ns != 0 || self.on_change.as_ref().is_some_and(is_due)
    }

    /// Whether every frame passes.
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.interval_ns == 0 && self.every <= 1 && self.on_change.is_none()
    }

    /// Whether what is remembered by one means the same to the other.
    pub(crate) fn counts_like(&self, other: &Self) -> bool {
        let Self { interval_ns, tolerance_ns, every, on_change, per, ids: _ } = self;
        (interval_ns, tolerance_ns, every, per)
            == (&other.interval_ns, &other.tolerance_ns, &other.every, &other.per)
            && *on_change == other.on_change
    }
}

/// Which change counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OnChange {
    /// The bits that count.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial"))]
    pub mask: Box<[u8; 64]>,
    /// After so long a frame goes out even if nothing has changed, in ns; 0 for never.
    pub at_least_every_ns: u64,
}

/// What a pace counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Per {
    /// The frames of each identifier apart.
    #[default]
    Id,
    /// All frames that the rule takes.
    Rule,
}

/// What a rule remembers of the frames of an identifier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// When the next frame is due, in ns: the theoretical arrival time of the generic cell rate algorithm. It may
    /// come earlier by the tolerance.
    due_ns: u64,
    /// How many frames came.
    seen: u32,
    /// How many frames went out: the value of counters.
    pub(crate) sequence: u64,
    /// When the last one went out, in ns.
    sent_ns: u64,
    last: Option<Payload>,
}

/// The data that went out last, as it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Payload {
    len: u8,
    is_fd: bool,
    data: [u8; 64],
}

impl Payload {
    fn new(frame: &Frame) -> Self {
        let mut data = [0; 64];
        let bytes = frame.data();
        data[..bytes.len()].copy_from_slice(bytes);
        Self { len: frame.len() as u8, is_fd: frame.is_fd(), data }
    }

    fn differs(&self, other: &Self, mask: &[u8; 64]) -> bool {
        let differ = |((a, b), mask): ((&u8, &u8), &u8)| (a ^ b) & mask != 0;
        self.len != other.len
            || self.is_fd != other.is_fd
            || self.data.iter().zip(&other.data).zip(mask).any(differ)
    }
}

impl Slot {
    const NEW: Self = Self { due_ns: 0, seen: 0, sequence: 0, sent_ns: 0, last: None };

    /// Whether the frame may pass, and why not. It counts as seen.
    pub(crate) fn admit(
        &mut self,
        pace: &Pace,
        now: Nanos,
        frame: &Frame,
        is_own: bool,
    ) -> Result<(), Cause> {
        let now_ns = now.as_nanos();
        let nth = self.seen;
        self.seen = if nth + 1 >= pace.every { 0 } else { nth + 1 };
        if nth != 0 && pace.every > 1 {
            return Err(Cause::Sampled);
        }
        if let (Some(on_change), Some(last), true) = (&pace.on_change, &self.last, is_own) {
            let OnChange { mask, at_least_every_ns } = on_change;
            let is_due = *at_least_every_ns != 0
                && now_ns.saturating_sub(self.sent_ns) >= *at_least_every_ns;
            if !is_due && !last.differs(&Payload::new(frame), mask) {
                return Err(Cause::Unchanged);
            }
        }
        if pace.interval_ns != 0 && self.due_ns > now_ns.saturating_add(pace.tolerance_ns) {
            return Err(Cause::Rate);
        }
        Ok(())
    }

    /// The frame went out, to one destination at least.
    pub(crate) fn commit(&mut self, pace: &Pace, now: Nanos, frame: &Frame) {
        let now_ns = now.as_nanos();
        if pace.interval_ns != 0 {
            self.due_ns = self.due_ns.max(now_ns).saturating_add(pace.interval_ns);
        }
        self.sequence = self.sequence.wrapping_add(1);
        if pace.on_change.is_some() {
            self.sent_ns = now_ns;
            self.last = Some(Payload::new(frame));
        }
    }
}

/// What a rule remembers: a hash table of identifier words, filled as they come and never grown.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Identifier words, each where its hash puts it or behind.
    keys: Box<[u32]>,
    /// For each of them where its slot is.
    places: Box<[u16]>,
    slots: Box<[Slot]>,
    used: usize,
    /// For what finds no room, and for rules that do not tell identifiers apart.
    shared: Slot,
}

impl State {
    /// No identifier word of a frame has this value: it would be extended, remote and an error.
    const FREE: u32 = u32::MAX;

    pub(crate) fn new(pace: &Pace) -> Self {
        let most = match pace.per {
            Per::Id => usize::from(pace.ids),
            Per::Rule => 0,
        };
        let size = if most == 0 { 0 } else { (most * 2).next_power_of_two() };
        Self {
            keys: alloc::vec![Self::FREE; size].into(),
            places: alloc::vec![0; size].into(),
            slots: alloc::vec![Slot::NEW; most].into(),
            used: 0,
            shared: Slot::NEW,
        }
    }

    /// Takes over what another one remembers, as far as there is room.
    pub(crate) fn succeed(self: &mut Box<Self>, earlier: Box<Self>) {
        if self.slots.len() == earlier.slots.len() {
            *self = earlier;
            return;
        }
        self.shared = earlier.shared;
        for (&key, &place) in earlier.keys.iter().zip(&earlier.places) {
            if key != Self::FREE
                && let Some(&old) = earlier.slots.get(usize::from(place))
                && let Some(new) = self.place(key)
            {
                self.slots[new] = old;
            }
        }
    }

    /// What is remembered of an identifier word, and whether of this one alone.
    pub(crate) fn slot(&mut self, can_id: u32, per: Per) -> (&mut Slot, bool) {
        match self.place(can_id) {
            Some(place) => (&mut self.slots[place], true),
            None => (&mut self.shared, per == Per::Rule),
        }
    }

    /// Where it stands; a new one is put there if there is room.
    fn place(&mut self, can_id: u32) -> Option<usize> {
        // Fibonacci hashing: 2^32 over the golden ratio.
        const MULTIPLIER: u32 = 0x9E37_79B9;
        let mask = self.keys.len().checked_sub(1)?;
        if can_id == Self::FREE {
            return None;
        }
        // At most half of the table is used, so this ends.
        let mut at = (can_id.wrapping_mul(MULTIPLIER) >> 15) as usize & mask;
        loop {
            match self.keys[at] {
                key if key == can_id => return Some(usize::from(self.places[at])),
                Self::FREE if self.used == self.slots.len() => return None,
                Self::FREE => {
                    let place = self.used;
                    self.keys[at] = can_id;
                    self.places[at] = place as u16;
                    self.used += 1;
                    return Some(place);
                }
                _ => at = (at + 1) & mask,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const MILLI: u64 = 1_000_000;

    /// What passes of frames at these times, in ms.
    fn passing(pace: &Pace, frames: &[(u64, &str)]) -> Vec<u64> {
        let mut slot = Slot::NEW;
        let mut passed = Vec::new();
        for &(at, frame) in frames {
            let frame = frame.parse().unwrap();
            let now = Nanos::from_millis(at);
            if slot.admit(pace, now, &frame, true).is_ok() {
                slot.commit(pace, now, &frame);
                passed.push(at);
            }
        }
        passed
    }

    /// A rate, in ms.
    fn rate(interval: u64, tolerance: u64) -> Pace {
        Pace { interval_ns: interval * MILLI, tolerance_ns: tolerance * MILLI, ..Pace::default() }
    }

    #[test]
    fn rates_hold_intervals_and_tolerances() {
        let every_ms: Vec<u64> = (0..10).collect();
        for (interval, tolerance, arrivals, expected) in [
            (3, 0, &every_ms[..], &[0, 3, 6, 9][..]),
            (3, 1, &every_ms, &[0, 2, 5, 8]),
            (3, 3, &every_ms, &[0, 1, 3, 6, 9]),
            (3, 6, &every_ms, &[0, 1, 2, 3, 6, 9]),
            (1, 0, &every_ms, &every_ms),
            (100, 100, &every_ms, &[0, 1]),
            // Nominal, each frame late by 0 to 9 ms.
            (10, 0, &[0, 19, 20, 35, 40, 59, 60], &[0, 19, 35, 59]),
            (10, 9, &[0, 19, 20, 35, 40, 59, 60], &[0, 19, 20, 35, 40, 59, 60]),
            (10, 10, &[0, 19, 20, 35, 40, 59, 60], &[0, 19, 20, 35, 40, 59, 60]),
            // Twice as often as allowed.
            (10, 10, &[0, 5, 10, 15, 20, 25, 30], &[0, 5, 10, 20, 30]),
            // A pause saves up one frame, not more.
            (10, 10, &[0, 100, 101, 102, 110, 111], &[0, 100, 101, 110]),
            (10, 0, &[0, 100, 101, 102, 110, 111], &[0, 100, 110]),
        ] {
            let frames: Vec<_> = arrivals.iter().map(|&at| (at, "001#")).collect();
            let pace = rate(interval, tolerance);
            assert_eq!(passing(&pace, &frames), expected, "{interval} ms, {tolerance} ms");
        }
    }

    #[test]
    fn a_burst_is_a_tolerance() {
        for (interval, burst, expected) in
            [(3, 1, 0), (3, 2, 3), (3, 10, 27), (3, 0, 0), (u64::MAX, 3, u64::MAX)]
        {
            assert_eq!(Pace::tolerance_of_burst(interval, burst), expected, "{interval} {burst}");
        }
    }

    #[test]
    fn times_that_are_too_large_refuse_nothing_by_mistake() {
        let pace = Pace { interval_ns: u64::MAX, tolerance_ns: u64::MAX, ..Pace::default() };
        assert_eq!(passing(&pace, &[(0, "001#"), (1, "001#"), (2, "001#")]), [0, 1, 2]);
    }

    #[test]
    fn one_of_so_many_passes() {
        let frames: Vec<_> = (0..7).map(|at| (at, "001#")).collect();
        for (every, expected) in
            [(0, &[0, 1, 2, 3, 4, 5, 6][..]), (1, &[0, 1, 2, 3, 4, 5, 6]), (3, &[0, 3, 6])]
        {
            assert_eq!(passing(&Pace { every, ..Pace::default() }, &frames), expected);
        }
    }

    #[test]
    fn only_changes_pass_and_what_is_due() {
        let mut mask = Box::new([0xFF; 64]);
        mask[1] = 0;
        let pace = |at_least_every_ns| Pace {
            on_change: Some(OnChange { mask: mask.clone(), at_least_every_ns }),
            ..Pace::default()
        };
        let frames = [
            (0, "001#0102"),
            (10, "001#0103"), // a bit that does not count
            (20, "001#0202"),
            (30, "001#02"), // another length
            (40, "001#02"),
            (50, "001##002"), // another kind
            (60, "001##002"),
            (90, "001##002"),
        ];
        assert_eq!(passing(&pace(0), &frames), [0, 20, 30, 50]);
        assert_eq!(passing(&pace(40 * MILLI), &frames), [0, 20, 30, 50, 90]);
    }

    #[test]
    fn only_the_number_of_identifiers_may_differ_where_memory_is_taken_over() {
        let on_change = |byte| OnChange { mask: Box::new([byte; 64]), at_least_every_ns: 0 };
        let pace = |byte| Pace { on_change: Some(on_change(byte)), ..Pace::default() };
        for (other, is_alike) in [
            (Pace { ids: 7, ..pace(1) }, true),
            (pace(2), false),
            (Pace { interval_ns: 1, ..pace(1) }, false),
            (Pace { tolerance_ns: 1, ..pace(1) }, false),
            (Pace { every: 2, ..pace(1) }, false),
            (Pace { per: Per::Rule, ..pace(1) }, false),
        ] {
            assert_eq!(pace(1).counts_like(&other), is_alike, "{other:?}");
        }
    }

    #[test]
    fn what_was_not_sent_is_not_remembered() {
        let on_change = OnChange { mask: Box::new([0xFF; 64]), at_least_every_ns: 0 };
        let pace = Pace { on_change: Some(on_change), interval_ns: MILLI, ..Pace::default() };
        let mut slot = Slot::NEW;
        let frame = "001#01".parse().unwrap();
        for _ in 0..2 {
            assert_eq!(slot.admit(&pace, Nanos::ZERO, &frame, true), Ok(()));
        }
        slot.commit(&pace, Nanos::ZERO, &frame);
        assert_eq!(slot.admit(&pace, Nanos::ZERO, &frame, true), Err(Cause::Unchanged));
        let other = "001#02".parse().unwrap();
        assert_eq!(slot.admit(&pace, Nanos::ZERO, &other, true), Err(Cause::Rate));
    }

    #[test]
    fn what_is_remembered_moves_to_a_larger_or_smaller_place() {
        for (before, after, known) in [(3, 3, 3), (3, 9, 3), (9, 3, 3), (2, 9, 2)] {
            let pace = |ids| Pace { ids, ..Pace::default() };
            let mut earlier = State::new(&pace(before));
            for id in 0..9 {
                earlier.slot(id, Per::Id).0.sequence = u64::from(id) + 1;
            }
            let shared = earlier.shared.sequence;
            let mut state = Box::new(State::new(&pace(after)));
            state.succeed(Box::new(earlier));
            let kept = (0..9).filter(|&id| {
                let (slot, is_own) = state.slot(id, Per::Id);
                is_own && slot.sequence == u64::from(id) + 1
            });
            assert_eq!(kept.count(), known, "{before} {after}");
            assert_eq!(state.shared.sequence, shared);
        }
    }

    /// The most frames in a half-open window of that length, counted plainly.
    fn most_in_a_window(passed: &[u64], length: u64) -> usize {
        let count =
            |&first: &u64| passed.iter().filter(|&&at| at >= first && at - first < length).count();
        passed.iter().map(count).max().unwrap_or(0)
    }

    proptest! {
        /// The law of windows, and that no frame is refused without need: a refused frame would have broken it.
        #[test]
        fn in_n_intervals_at_most_n_frames_and_the_burst_pass(
            gaps in prop::collection::vec(0..25_u64, 1..60),
            interval in 1..20_u64,
            burst in 1..5_u32,
        ) {
            let tolerance = Pace::tolerance_of_burst(interval, burst);
            let mut at = 0;
            let arrivals: Vec<_> = gaps.iter().map(|gap| { at += gap; at }).collect();
            let frames: Vec<_> = arrivals.iter().map(|&at| (at, "001#")).collect();
            let passed = passing(&rate(interval, tolerance), &frames);
            let holds = |passed: &[u64]| {
                (1..=60).all(|n| {
                    most_in_a_window(passed, n * interval) < (n + u64::from(burst)) as usize
                })
            };
            prop_assert!(holds(&passed), "{:?}", passed);
            // An oracle that knows only the law: each frame that does not break it passes.
            let mut greedy = Vec::new();
            for &at in &arrivals {
                greedy.push(at);
                if !holds(&greedy) {
                    greedy.pop();
                }
            }
            prop_assert_eq!(passed, greedy);
        }

        #[test]
        fn a_nominal_message_passes_whole_if_its_jitter_is_within_the_tolerance(
            delays in prop::collection::vec(0..=1_000_u64, 1..100),
            interval in 1..50_u64,
            permille in 0..=1_000_u64,
            offset in 0..100_u64,
        ) {
            // Jitter of one interval or less, as a share of it.
            let tolerance = interval * permille / 1_000;
            let mut arrivals: Vec<_> = (0..).zip(&delays)
                .map(|(k, delay)| offset + k * interval + tolerance * delay / 1_000)
                .collect();
            arrivals.sort_unstable();
            let frames: Vec<_> = arrivals.iter().map(|&at| (at, "001#")).collect();
            prop_assert_eq!(&passing(&rate(interval, tolerance), &frames), &arrivals);
            prop_assert_eq!(&passing(&rate(interval, interval), &frames), &arrivals);
        }

        #[test]
        fn identifiers_are_distinguished_as_long_as_there_is_room(
            ids in prop::collection::vec(0..50_u32, 1..200),
            most in 1..60_u16,
        ) {
            let pace = Pace { ids: most, ..Pace::default() };
            let mut state = State::new(&pace);
            let mut known: Vec<(u32, u64)> = Vec::new();
            let mut shared = 0;
            for id in ids {
                let place = known.iter().position(|(other, _)| *other == id);
                let has_room = known.len() < usize::from(most);
                let expected = match place {
                    Some(place) => (&mut known[place].1, true),
                    None if has_room => {
                        known.push((id, 0));
                        (&mut known.last_mut().unwrap().1, true)
                    }
                    None => (&mut shared, false),
                };
                let (slot, is_own) = state.slot(id, Per::Id);
                prop_assert_eq!((slot.sequence, is_own), (*expected.0, expected.1));
                slot.sequence += 1;
                *expected.0 += 1;
            }
        }
    }
}

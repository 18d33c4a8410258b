//! When a thread that spins was stopped: by another thread, an interrupt, the firmware (SMI), or the hypervisor that gave
//! its CPU to somebody else.
//!
//! ```
//! use candor_linux::clock;
//! use candor_linux::gaps::Gaps;
//! use candor_time::{Nanos, Realtime};
//!
//! let mut gaps = Gaps::default();
//! let start = clock::now::<Realtime>();
//! let end = start + Nanos::from_micros(500);
//! loop {
//!     let now = clock::now::<Realtime>();
//!     gaps.tick(now);
//!     if now >= end {
//!         break;
//!     }
//! }
//! // What was measured meanwhile counts only if the thread was not stopped.
//! let counts = !gaps.overlaps(start, end);
//! assert_eq!(counts, gaps.count() == 0);
//! ```

use std::fmt;
use std::ops::Range;

use candor_time::{Clock, Instant, Nanos};

/// Notes when two successive readings of a clock are further apart than a loop that does nothing else takes. It sees
/// what stops the calling thread, not what happens on other CPUs.
///
/// It keeps up to so many gaps. When there is no room, the last one grows up to the end of the new one: then
/// [`Gaps::overlaps`] may say yes too often, but never no in place of yes.
pub struct Gaps<C: Clock> {
    threshold: Nanos,
    capacity: usize,
    last: Option<Instant<C>>,
    is_paused: bool,
    kept: Vec<Range<Instant<C>>>,
    count: u64,
    total: Nanos,
    longest: Nanos,
}

impl<C: Clock> Gaps<C> {
    /// The threshold of [`Gaps::default`]: twice that of hwlatdetect, 10 µs.
    pub const THRESHOLD: Nanos = Nanos::from_micros(20);
    /// How many gaps [`Gaps::new`] keeps.
    pub const CAPACITY: usize = 1 << 16;

    /// Notes what is longer than `threshold`.
    #[must_use]
    pub fn new(threshold: Nanos) -> Self {
        Self::with_capacity(threshold, Self::CAPACITY)
    }

    /// The same, and keeps `capacity` gaps, at least one. This is the only function that allocates.
    #[must_use]
    pub fn with_capacity(threshold: Nanos, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            threshold,
            capacity,
            last: None,
            is_paused: false,
            kept: Vec::with_capacity(capacity),
            count: 0,
            total: Nanos::ZERO,
            longest: Nanos::ZERO,
        }
    }

    /// A reading of the clock. One that is before an earlier reading, because the clock was set, does not count.
    #[inline]
    pub fn tick(&mut self, now: Instant<C>) {
        let begin = *self.last.get_or_insert(now);
        if now <= begin {
            return;
        }
        self.last = Some(now);
        if self.is_paused {
            self.is_paused = false;
        } else if now - begin > self.threshold {
            self.note(begin..now);
        }
    }

    #[cold]
    fn note(&mut self, gap: Range<Instant<C>>) {
        let len = gap.end - gap.start;
        self.count += 1;
        self.total += len;
        self.longest = self.longest.max(len);
        let is_full = self.kept.len() >= self.capacity;
        match self.kept.last_mut() {
            Some(last) if is_full => last.end = gap.end,
            _ => self.kept.push(gap),
        }
    }

    /// The thread stops looking at the clock on purpose: the time until the next reading is no gap.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    /// The gaps, in the order of time: the last reading before and the first one after.
    #[must_use]
    pub fn list(&self) -> &[Range<Instant<C>>] {
        &self.kept
    }

    /// How many gaps there were, those without room included.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// How long all gaps together were.
    #[must_use]
    pub const fn total(&self) -> Nanos {
        self.total
    }

    /// How long the longest gap was; zero if there was none.
    #[must_use]
    pub const fn longest(&self) -> Nanos {
        self.longest
    }

    /// Whether a gap and the time from `begin` to `end` have an instant in common. The readings at both ends of a gap
    /// are no part of it: the thread ran then.
    #[must_use]
    pub fn overlaps(&self, begin: Instant<C>, end: Instant<C>) -> bool {
        let (begin, end) = (begin.min(end), begin.max(end));
        let first = self.kept.partition_point(|gap| gap.end <= begin);
        self.kept.get(first).is_some_and(|gap| gap.start < end)
    }

    /// Whether a gap may have delayed what was due at `due` and was done at `done`. What was done by its time was not
    /// delayed, although a gap may follow at once: the kernel has more to do in the call that does it.
    #[must_use]
    pub fn delayed(&self, due: Instant<C>, done: Instant<C>) -> bool {
        done > due && self.overlaps(due, done)
    }

    /// Forgets all gaps, and the last reading.
    pub fn clear(&mut self) {
        self.kept.clear();
        (self.last, self.is_paused, self.count) = (None, false, 0);
        (self.total, self.longest) = (Nanos::ZERO, Nanos::ZERO);
    }
}

impl<C: Clock> Default for Gaps<C> {
    fn default() -> Self {
        Self::new(Self::THRESHOLD)
    }
}

impl<C: Clock> fmt::Debug for Gaps<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, total, longest, .. } = self;
        write!(f, "Gaps ({count}, {total} together, at most {longest})")
    }
}

#[cfg(test)]
mod tests {
    use candor_time::Virtual;

    use super::*;

    fn at(micros: u64) -> Instant<Virtual> {
        Instant::from_nanos(micros * 1_000)
    }

    fn gap(begin: u64, end: u64) -> Range<Instant<Virtual>> {
        at(begin)..at(end)
    }

    fn after(readings: &[u64], capacity: usize) -> Gaps<Virtual> {
        let mut gaps = Gaps::with_capacity(Gaps::<Virtual>::THRESHOLD, capacity);
        readings.iter().for_each(|reading| gaps.tick(at(*reading)));
        gaps
    }

    #[test]
    fn readings_far_apart_have_a_gap_between_them() {
        for (readings, expected) in [
            (&[][..], &[][..]),
            (&[100], &[]),
            (&[100, 120, 140], &[]),
            (&[100, 121, 122], &[gap(100, 121)]),
            (&[100, 200, 201, 300], &[gap(100, 200), gap(201, 300)]),
            // The clock was set back by 50 us, and is behind for a while.
            (&[100, 110, 60, 100, 115, 120], &[]),
            (&[100, 110, 60, 109, 131], &[gap(110, 131)]),
        ] {
            assert_eq!(after(readings, 8).list(), expected, "{readings:?}");
        }
    }

    #[test]
    fn what_is_done_in_time_was_not_delayed() {
        let gaps = after(&[100, 200, 210, 300], 8);
        for (due, done, expected) in [
            (90, 110, true),
            (150, 160, true),
            (150, 150, false),
            // Handed over early, and the gap is behind it.
            (105, 100, false),
            (205, 200, false),
            (200, 205, false),
        ] {
            assert_eq!(gaps.delayed(at(due), at(done)), expected, "{due} {done}");
        }
    }

    #[test]
    fn an_overlap_has_more_than_an_end_in_common() {
        let gaps = after(&[100, 200, 210, 300], 8);
        for (begin, end, expected) in [
            (0, 100, false),
            (0, 101, true),
            (150, 150, true),
            (150, 160, true),
            (199, 205, true),
            (200, 210, false),
            (200, 200, false),
            (205, 211, true),
            (0, 1_000, true),
            (300, 400, false),
            // Ends in the wrong order.
            (160, 150, true),
            (210, 200, false),
        ] {
            assert_eq!(gaps.overlaps(at(begin), at(end)), expected, "{begin} to {end}");
        }
        assert!(!after(&[], 8).overlaps(at(0), at(1_000)));
    }

    #[test]
    fn without_room_the_last_gap_grows() {
        let gaps = after(&[0, 100, 110, 210, 220, 320], 2);
        assert_eq!(gaps.list(), [gap(0, 100), gap(110, 320)]);
        assert_eq!((gaps.count(), gaps.longest()), (3, Nanos::from_micros(100)));
        assert_eq!(gaps.total(), Nanos::from_micros(300));
        assert!(gaps.overlaps(at(212), at(218)), "not known, so it does not count");
        assert_eq!(after(&[0, 100], 0).list(), [gap(0, 100)]);
    }

    #[test]
    fn a_pause_is_no_gap() {
        let mut gaps = after(&[0, 100], 8);
        gaps.pause();
        gaps.tick(at(500));
        gaps.tick(at(510));
        assert_eq!(gaps.list(), [gap(0, 100)]);
        assert_eq!(format!("{gaps:?}"), "Gaps (1, 100us together, at most 100us)");
        gaps.clear();
        gaps.tick(at(1_000));
        assert_eq!((gaps.list(), gaps.count(), gaps.longest()), (&[][..], 0, Nanos::ZERO));
    }
}

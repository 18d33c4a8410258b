//! The highest load of a bus within any stretch of so long a time.

use std::collections::VecDeque;

/// The stretches of time for which [`super::Statistics`] has peaks, in nanoseconds.
pub const PEAK_WINDOWS_NS: [u64; 3] = [10_000_000, 100_000_000, 1_000_000_000];

/// Stamps kept at a time. A second of back-to-back frames has 22,000 at 1 Mbit/s and 50,000 at the
/// fastest data rates; a file with more is no recording of a bus, and its stamps are drawn together.
const MOST_STAMPS: usize = 1 << 16;

/// The busiest stretch of one length, found by sliding it over the recording: it always ends where a
/// frame ends, since no other stretch holds more.
#[derive(Clone, Debug)]
pub(super) struct Peak {
    length_ns: u64,
    /// Frames that ended within the last stretch: when, and how long they took. Those of one stamp
    /// are together.
    recent: VecDeque<(u64, u64)>,
    /// What all of them took.
    busy_ns: u64,
    peak_ns: u64,
}

impl Peak {
    pub(super) fn new(length_ns: u64) -> Self {
        Self { length_ns, recent: VecDeque::new(), busy_ns: 0, peak_ns: 0 }
    }

    /// A frame that took `busy_ns` ended. One that is earlier than the one before counts as if it
    /// ended with it.
    pub(super) fn add(&mut self, end_ns: u64, busy_ns: u64) {
        let latest = self.recent.back().map_or(0, |&(latest, _)| latest);
        let end_ns = end_ns.max(latest);
        let is_full = self.recent.len() >= MOST_STAMPS;
        match self.recent.back_mut().filter(|back| back.0 == end_ns || is_full) {
            Some(back) => *back = (end_ns, back.1.saturating_add(busy_ns)),
            None => self.recent.push_back((end_ns, busy_ns)),
        }
        self.busy_ns = self.busy_ns.saturating_add(busy_ns);
        // Stamps may begin at zero.
        let mut before = 0;
        if let Some(begin_ns) = end_ns.checked_sub(self.length_ns) {
            while let Some(&(_, busy)) = self.recent.front().filter(|front| front.0 <= begin_ns) {
                self.busy_ns = self.busy_ns.saturating_sub(busy);
                self.recent.pop_front();
            }
            // Of a frame that was under way when the stretch began, only the rest is in it.
            let rest = |&(end, busy): &(u64, u64)| busy.saturating_sub(end - begin_ns);
            before = self.recent.front().map_or(0, rest);
        }
        self.peak_ns = self.peak_ns.max(self.busy_ns.saturating_sub(before));
    }

    /// The share of the busiest stretch, in percent. More than 100 if the bit rate is too low to be
    /// true, or stamps are coarser than the stretch is long.
    pub(super) fn percent(&self) -> f64 {
        self.peak_ns as f64 / self.length_ns as f64 * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(length_ns: u64, frames: &[(u64, u64)]) -> f64 {
        let mut peak = Peak::new(length_ns);
        frames.iter().for_each(|&(end, busy)| peak.add(end, busy));
        peak.percent()
    }

    #[test]
    fn the_busiest_stretch_is_found_wherever_it_begins() {
        // A burst of ten frames of 10 from 995 to 1095, in a stream of one every 100.
        let stream = (1..20).map(|number| (number * 100, 10));
        let burst = (1..=10).map(|number| (995 + number * 10, 10));
        let mut frames: Vec<_> = stream.filter(|&(end, _)| end != 1_000 && end != 1_100).collect();
        frames.extend(burst);
        frames.sort_unstable();
        assert_eq!(peak(100, &frames), 100.0);
        assert_eq!(peak(50, &frames), 100.0);
        // All of the burst, and half of the frame before it or after it.
        assert_eq!(peak(200, &frames), 52.5);
    }

    #[test]
    fn of_a_frame_under_way_only_the_rest_counts() {
        assert_eq!(peak(100, &[(1_000, 80), (1_090, 80)]), 90.0);
        assert_eq!(peak(100, &[(1_000, 80), (1_100, 80)]), 80.0);
    }

    #[test]
    fn a_full_bus_is_full_and_no_more() {
        let frames: Vec<_> = (1..=10_000).map(|number| (number * 7, 7)).collect();
        for length in [10, 100, 1_000] {
            assert_eq!(peak(length, &frames), 100.0, "{length}");
        }
    }

    #[test]
    fn stamps_that_are_equal_or_run_backwards_lose_nothing() {
        assert_eq!(peak(1_000, &[(5_000, 100), (5_000, 100), (4_000, 100)]), 30.0);
        assert_eq!(peak(1_000, &[(0, 100), (0, 100)]), 20.0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut peak = Peak::new(1_000_000_000);
        (0..3 * MOST_STAMPS as u64).for_each(|end| peak.add(1_000_000_000 + end, 2));
        assert_eq!(peak.recent.len(), MOST_STAMPS);
        assert_eq!(peak.busy_ns, 6 * MOST_STAMPS as u64);
    }
}

//! [`Live`]: a histogram that several threads count in while others read it.
//!
//! Coarser and smaller than a [`Histogram`](crate::Histogram): a bucket is at most 1/64 wider than
//! its values, and everything from 17 s on is one bucket. Counting is one atomic addition, and
//! nothing is ever allocated. What a reader sees while others count is a snapshot that may lack the
//! latest latencies, but no bucket ever goes back.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::log_linear;

const PRECISION_BITS: u32 = 6;
/// All that is longer is in the last bucket: 17 s.
const LONGEST_NS: u64 = (1 << 34) - 1;
const BUCKETS: usize = log_linear::bucket_index::<PRECISION_BITS>(LONGEST_NS) + 1;

/// A histogram that several threads count in while others read it.
#[derive(Debug)]
pub struct Live {
    buckets: Box<[AtomicU64]>,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    sum_ns: AtomicU64,
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

impl Live {
    /// An empty histogram. Allocates once.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
        }
    }

    /// Counts one latency.
    #[inline]
    pub fn record(&self, latency_ns: u64) {
        let index = log_linear::bucket_index::<PRECISION_BITS>(latency_ns.min(LONGEST_NS));
        if let Some(bucket) = self.buckets.get(index) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(latency_ns, Ordering::Relaxed);
        // Nearly always neither changes, and reading is cheaper than writing.
        if latency_ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(latency_ns, Ordering::Relaxed);
        }
        if latency_ns < self.min_ns.load(Ordering::Relaxed) {
            self.min_ns.fetch_min(latency_ns, Ordering::Relaxed);
        }
    }

    /// What has been counted so far.
    #[must_use]
    pub fn snapshot(&self) -> Counts {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        Counts {
            buckets,
            min_ns: self.min_ns.load(Ordering::Relaxed),
            max_ns: self.max_ns.load(Ordering::Relaxed),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

/// What a [`Live`] histogram had counted at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    buckets: Vec<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
}

impl Counts {
    /// How many latencies there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The shortest, exact, if there is one.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min_ns)
    }

    /// The longest, exact, if there is one.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_ns)
    }

    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The value that `numerator` of `denominator` latencies are at most, rounded up to the end of
    /// its bucket.
    #[must_use]
    pub fn quantile(&self, numerator: u64, denominator: u64) -> Option<u64> {
        let rank = log_linear::rank(self.count(), numerator, denominator)?;
        let index = log_linear::bucket_of_rank(self.buckets.iter().copied().enumerate(), rank)?;
        let end = *log_linear::bucket_range::<PRECISION_BITS>(index).end();
        Some(end.clamp(self.min_ns, self.max_ns.max(self.min_ns)))
    }

    /// What was counted after `earlier`. The shortest and the longest are those of all time, since
    /// nobody noted others: quantiles are what tells of an interval.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let differences = self.buckets.iter().zip(&earlier.buckets);
        Self {
            buckets: differences.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum_ns: self.sum_ns.wrapping_sub(earlier.sum_ns),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_values_within_a_sixty_fourth(
            values in prop::collection::vec(prop_oneof![0..200_u64, 0..40_000_000_000_u64], 1..200),
            (numerator, denominator) in (1..=100_u64).prop_map(|numerator| (numerator, 100)),
        ) {
            let live = Live::new();
            values.iter().for_each(|&value| live.record(value));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let counts = live.snapshot();
            prop_assert_eq!(counts.count(), values.len() as u64);
            prop_assert_eq!(counts.min_ns(), sorted.first().copied());
            prop_assert_eq!(counts.max_ns(), sorted.last().copied());
            let rank = (values.len() as u64 * numerator).div_ceil(denominator).max(1) as usize;
            let exact = sorted[rank - 1];
            let found = counts.quantile(numerator, denominator).unwrap();
            if exact < 1 << 34 {
                prop_assert!(found >= exact && found <= exact + exact / 64 + 1, "{found} {exact}");
            }
        }
    }

    #[test]
    fn an_interval_is_what_came_since() {
        let live = Live::new();
        live.record(100);
        let before = live.snapshot();
        assert_eq!(before.since(&before).quantile(1, 2), None);
        live.record(1_000_000);
        let interval = live.snapshot().since(&before);
        assert_eq!((interval.count(), interval.sum_ns()), (1, 1_000_000));
        assert!(interval.quantile(1, 2) >= Some(1_000_000));
        let empty = Live::default().snapshot();
        assert_eq!((empty.min_ns(), empty.max_ns(), empty.quantile(1, 2)), (None, None, None));
    }
}

//! [`Latency`]: how long frames take from one port to another.
//!
//! It is a metric of the laboratory: see [`LATENCY`](crate::snapshot::LATENCY).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use candor_lat::live::{Counts, Live};
use candor_linux::clock;
use candor_time::{Instant, Monotonic, Realtime};

use crate::lock::lock;
use crate::snapshot::{LATENCY, LatencySnapshot};

/// More than this is no latency: the clock was set while the frame was under way.
const LONGEST_NS: i64 = 60_000_000_000;

/// When a frame arrived, by the clock of whoever noted it. Where it left is read from the same clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The kernel had it then. Its stamps are of the time of day, which may be set at any time.
    OfKernel(Instant<Realtime>),
    /// The worker had it then, by a clock that nobody sets.
    Own(Instant<Monotonic>),
}

impl Arrival {
    /// How long ago that is, in ns.
    fn elapsed_ns(self) -> i64 {
        match self {
            Self::OfKernel(arrival) => clock::now::<Realtime>().signed_nanos_since(arrival),
            Self::Own(arrival) => clock::now::<Monotonic>().signed_nanos_since(arrival),
        }
    }
}

/// How long frames take from one port to another.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    live: Live,
    unusable: AtomicU64,
    recent: Mutex<Recent>,
}

/// The last two counts, a second apart.
#[derive(Debug, Default)]
struct Recent {
    before: Option<Counts>,
    last: Option<Counts>,
}

impl Latency {
    /// Counts a frame that arrived then and leaves now.
    #[inline]
    pub(crate) fn record(&self, arrival: Arrival) {
        self.record_ns(arrival.elapsed_ns());
    }

    fn record_ns(&self, latency_ns: i64) {
        match latency_ns {
            latency @ 0..=LONGEST_NS => self.live.record(latency.unsigned_abs()),
            _ => _ = self.unusable.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A second is over.
    pub(crate) fn tick(&self) {
        let mut recent = lock(&self.recent);
        recent.before = recent.last.replace(self.live.snapshot());
    }

    pub(crate) fn snapshot(&self, from: &str, to: &str) -> LatencySnapshot {
        let counts = self.live.snapshot();
        let recent = lock(&self.recent);
        let second = match (&recent.before, &recent.last) {
            (Some(before), Some(last)) => Some(last.since(before)),
            (None, last) => last.clone(),
            (Some(_), None) => None,
        };
        let of_second = |numerator, denominator| {
            second.as_ref().and_then(|it| it.quantile(numerator, denominator)).unwrap_or(0)
        };
        let quantile =
            |numerator, denominator| counts.quantile(numerator, denominator).unwrap_or(0);
        LatencySnapshot {
            from: from.to_owned(),
            to: to.to_owned(),
            metric: LATENCY.key().to_owned(),
            count: counts.count(),
            sum_ns: counts.sum_ns(),
            min_ns: counts.min_ns().unwrap_or(0),
            p50_ns: quantile(1, 2),
            p99_ns: quantile(99, 100),
            p999_ns: quantile(999, 1000),
            max_ns: counts.max_ns().unwrap_or(0),
            recent_count: second.as_ref().map_or(0, Counts::count),
            recent_p50_ns: of_second(1, 2),
            recent_p99_ns: of_second(99, 100),
            unusable: self.unusable.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use candor_lat::TapPath;

    use super::*;

    #[test]
    fn the_metric_is_one_that_a_gateway_can_see() {
        assert!(TapPath::HOST.metrics().eq([LATENCY]));
    }

    #[test]
    fn clocks_that_were_set_are_no_latencies() {
        let latency = Latency::default();
        for latency_ns in [50_000, -50_000, 3_600_000_000_000] {
            latency.record_ns(latency_ns);
        }
        let snapshot = latency.snapshot("a", "b");
        assert_eq!((snapshot.count, snapshot.unusable), (1, 2));
        assert_eq!((snapshot.min_ns, snapshot.max_ns), (50_000, 50_000));
    }

    #[test]
    fn what_the_worker_stamps_is_measured_by_a_clock_that_nobody_sets() {
        let latency = Latency::default();
        latency.record(Arrival::Own(clock::now()));
        // The two clocks are decades apart: a stamp of one and a departure of the other are no latency.
        let monotonic = clock::now::<Monotonic>().as_nanos();
        latency.record(Arrival::OfKernel(Instant::from_nanos(monotonic)));
        latency.record(Arrival::OfKernel(clock::now()));
        let snapshot = latency.snapshot("a", "b");
        assert_eq!((snapshot.count, snapshot.unusable), (2, 1));
        assert!(snapshot.max_ns < 1_000_000_000, "{snapshot:?}");
    }

    #[test]
    fn the_last_second_is_distinguished() {
        let latency = Latency::default();
        latency.record_ns(10_000_000);
        latency.tick();
        assert_eq!(latency.snapshot("a", "b").recent_count, 1);
        latency.record_ns(1_000);
        latency.tick();
        let snapshot = latency.snapshot("a", "b");
        assert_eq!((snapshot.count, snapshot.recent_count), (2, 1));
        assert!(snapshot.recent_p99_ns < 1_100, "{}", snapshot.recent_p99_ns);
        latency.tick();
        assert_eq!(latency.snapshot("a", "b").recent_count, 0);
    }
}

//! [`Latencies`]: where latencies are counted.

use std::borrow::Cow;

use crate::figures::{Figures, quantile};
use crate::histogram::Histogram;

/// Latencies, one by one or counted.
#[derive(Clone, Debug)]
pub enum Latencies {
    /// Each is kept: quantiles are latencies that were measured.
    Exact(Vec<i64>),
    /// Quantiles are those of a [`Histogram`].
    Counted(Box<Histogram>),
}

impl Latencies {
    /// None yet.
    #[must_use]
    pub fn new(is_exact: bool) -> Self {
        match is_exact {
            true => Self::Exact(Vec::new()),
            false => Self::Counted(Box::default()),
        }
    }

    /// Counts one.
    #[inline]
    pub fn record(&mut self, latency_ns: i64) {
        match self {
            Self::Exact(latencies) => latencies.push(latency_ns),
            Self::Counted(histogram) => histogram.record(latency_ns),
        }
    }

    #[must_use]
    pub fn histogram(&self) -> Cow<'_, Histogram> {
        match self {
            Self::Exact(latencies) => Cow::Owned(latencies.iter().copied().collect()),
            Self::Counted(histogram) => Cow::Borrowed(histogram),
        }
    }

    /// What is said of them, without a profile; `None` if there are none.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        self.with_profile(0)
    }

    /// The same with a profile of at most so many points.
    #[must_use]
    pub fn with_profile(&self, points: usize) -> Option<Figures> {
        let histogram = self.histogram();
        let mut figures = histogram.figures()?;
        if points > 0 {
            figures.profile = histogram.profile_thinned(points);
        }
        if let Self::Exact(latencies) = self {
            let mut sorted = latencies.clone();
            sorted.sort_unstable();
            figures.p50_ns = quantile(&sorted, 50, 100)?;
            figures.p90_ns = quantile(&sorted, 90, 100)?;
            figures.p99_ns = quantile(&sorted, 99, 100)?;
            figures.p999_ns = quantile(&sorted, 999, 1_000)?;
        }
        Some(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_quantiles_are_latencies_that_were_measured() {
        assert!(Latencies::Exact(Vec::new()).figures().is_none());
        // Far above where a histogram has a bucket for every nanosecond.
        let latencies: Vec<i64> = (1..=1_000).rev().map(|n| 1_000_000 + n * 3).collect();
        let figures = Latencies::Exact(latencies).figures().unwrap();
        for (figure, rank) in [("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999)] {
            let expected = f64::from(1_000_000 + rank * 3);
            assert_eq!(figures.figure_ns(figure), Some(expected), "{figure}");
        }
        assert_eq!((figures.min_ns, figures.max_ns, figures.count), (1_000_003, 1_003_000, 1_000));
        assert_eq!(figures.jitter_ns(), 2_997);
        assert_eq!(Latencies::Exact(vec![7]).figures().unwrap().p999_ns, 7);
    }

    #[test]
    fn a_profile_comes_if_it_is_wanted() {
        for is_exact in [false, true] {
            let mut latencies = Latencies::new(is_exact);
            [5, 5, 9].into_iter().for_each(|latency| latencies.record(latency));
            assert_eq!(latencies.figures().unwrap().profile, []);
            assert_eq!(latencies.with_profile(10).unwrap().profile, [(5, 3), (9, 1)]);
        }
    }
}

//! [`Figures`]: what is said of many latencies.

use crate::log_linear;

/// What is said of a set of latencies. Whole nanoseconds but for mean and deviation.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Figures {
    /// How many latencies there are, at least 1.
    pub count: u64,
    /// The shortest, exact.
    pub min_ns: i64,
    /// Half of the latencies are at most this.
    pub p50_ns: i64,
    /// 90 of 100 are at most this.
    pub p90_ns: i64,
    /// 99 of 100 are at most this.
    pub p99_ns: i64,
    /// 999 of 1000 are at most this.
    pub p999_ns: i64,
    /// The longest, exact.
    pub max_ns: i64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The standard deviation of the population (divided by the count, not by one less).
    pub stddev_ns: f64,
    /// The latency profile, if it is wanted: for rising times, so many latencies are at least as long.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub profile: Vec<(i64, u64)>,
}

/// The names of figures, as [`Figures::figure_ns`] takes them.
pub const FIGURES: [&str; 8] = ["min", "p50", "p90", "p99", "p999", "max", "mean", "stddev"];

impl Figures {
    /// The figure of that name, one of [`FIGURES`].
    #[must_use]
    pub fn figure_ns(&self, name: &str) -> Option<f64> {
        Some(match name {
            "min" => self.min_ns as f64,
            "p50" => self.p50_ns as f64,
            "p90" => self.p90_ns as f64,
            "p99" => self.p99_ns as f64,
            "p999" => self.p999_ns as f64,
            "max" => self.max_ns as f64,
            "mean" => self.mean_ns,
            "stddev" => self.stddev_ns,
            _ => return None,
        })
    }

    /// The longest less the shortest: the jitter of Bartols and others (2011).
    #[must_use]
    pub const fn jitter_ns(&self) -> u64 {
        self.max_ns.abs_diff(self.min_ns)
    }
}

/// The value that `numerator` of `denominator` values do not exceed, by nearest rank; `None` if there are none.
#[must_use]
pub fn quantile<T: Copy>(sorted: &[T], numerator: u64, denominator: u64) -> Option<T> {
    let rank = log_linear::rank(sorted.len() as u64, numerator, denominator)?;
    sorted.get(usize::try_from(rank - 1).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let sorted = [1, 2, 3, 4, 5];
        for (numerator, expected) in [(0, 1), (20, 1), (21, 2), (50, 3), (99, 5), (100, 5)] {
            assert_eq!(quantile(&sorted, numerator, 100), Some(expected), "{numerator}");
        }
        assert_eq!(quantile::<i64>(&[], 50, 100), None);
    }
}

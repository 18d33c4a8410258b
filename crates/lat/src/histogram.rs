//! [`Histogram`]: many latencies in little memory, and what is said about them.
//!
//! A log-linear histogram in the manner of HdrHistogram: up to 4096 ns every nanosecond has its own
//! bucket, above that every power of two is cut into 2048 buckets, so that a bucket is never wider
//! than 1/2048 of its values. That covers every `i64`; latencies below zero, which inaccurate
//! instruments produce, go into a mirror image made when the first one comes. Memory is 0.9 MB
//! however many latencies are recorded, of which only touched pages count; recording takes a few
//! nanoseconds and does not allocate.
//!
//! What is exact: the count, the minimum, the maximum and how often it occurred, the mean, the
//! standard deviation, and every point of the [latency profile](Histogram::profile). What is
//! rounded: [quantiles](Histogram::quantile), upwards, to the end of their bucket. Sums are kept as
//! integers, so that merging is associative and commutative to the last bit: it does not matter who
//! measured which part.
//!
//! ```
//! use candor_lat::Histogram;
//! let mut latencies = Histogram::new();
//! for latency_ns in [35_000, 35_000, 50_000, 140_000] {
//!     latencies.record(latency_ns);
//! }
//! let figures = latencies.figures().unwrap();
//! assert_eq!((figures.count, figures.min_ns, figures.max_ns), (4, 35_000, 140_000));
//! assert_eq!(figures.mean_ns, 65_000.0);
//! ```

use core::ops::RangeInclusive;

use crate::figures::Figures;
use crate::log_linear;

/// A bucket is at most 1/2^`PRECISION_BITS` wider than its values.
const PRECISION_BITS: u32 = 11;

/// One more than the index of the highest magnitude, 2^63 (that of `i64::MIN`).
const BUCKETS: usize = bucket_index(1 << 63) + 1;

const fn bucket_index(magnitude: u64) -> usize {
    log_linear::bucket_index::<PRECISION_BITS>(magnitude)
}

const fn bucket_range(index: usize) -> RangeInclusive<u64> {
    log_linear::bucket_range::<PRECISION_BITS>(index)
}

/// Latencies in nanoseconds, counted in buckets of equal relative width.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Latencies from 0 on, by magnitude.
    positive: Vec<u64>,
    /// Latencies below 0, by magnitude; empty until there is one.
    negative: Vec<u64>,
    count: u64,
    min_ns: i64,
    max_ns: i64,
    /// How many latencies are exactly `max_ns`.
    max_count: u64,
    sum: i128,
    /// Saturating, which stays associative because nothing in it is negative. Full after 2^46
    /// latencies of one hour.
    sum_of_squares: u128,
}

/// A bar of the classic histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The shortest latency that counts here.
    pub from_ns: i64,
    /// The longest latency that counts here.
    pub to_ns: i64,
    /// How many latencies there are.
    pub count: u64,
}

impl Histogram {
    /// An empty histogram. Allocates once for all latencies from 0 on.
    #[must_use]
    pub fn new() -> Self {
        Self {
            positive: vec![0; BUCKETS],
            negative: Vec::new(),
            count: 0,
            min_ns: i64::MAX,
            max_ns: i64::MIN,
            max_count: 0,
            sum: 0,
            sum_of_squares: 0,
        }
    }

    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, latency_ns: i64) {
        let magnitude = latency_ns.unsigned_abs();
        if latency_ns >= 0 {
            self.positive[bucket_index(magnitude)] += 1;
        } else {
            self.count_negative(magnitude);
        }
        self.count += 1;
        self.min_ns = self.min_ns.min(latency_ns);
        if latency_ns >= self.max_ns {
            let before = if latency_ns == self.max_ns { self.max_count } else { 0 };
            (self.max_ns, self.max_count) = (latency_ns, before + 1);
        }
        self.sum += i128::from(latency_ns);
        let square = u128::from(magnitude) * u128::from(magnitude);
        self.sum_of_squares = self.sum_of_squares.saturating_add(square);
    }

    #[cold]
    fn count_negative(&mut self, magnitude: u64) {
        self.negative.resize(BUCKETS, 0);
        self.negative[bucket_index(magnitude)] += 1;
    }

    /// Adds all latencies of `other`. The result is the same in any order and grouping.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        add_all(&mut self.positive, &other.positive);
        if !other.negative.is_empty() {
            self.negative.resize(BUCKETS, 0);
            add_all(&mut self.negative, &other.negative);
        }
        self.max_count = match self.max_ns.cmp(&other.max_ns) {
            core::cmp::Ordering::Less => other.max_count,
            core::cmp::Ordering::Equal => self.max_count + other.max_count,
            core::cmp::Ordering::Greater => self.max_count,
        };
        self.count += other.count;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum += other.sum;
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// How many latencies were recorded.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The shortest latency.
    #[must_use]
    pub const fn min_ns(&self) -> Option<i64> {
        if self.count == 0 { None } else { Some(self.min_ns) }
    }

    /// The longest latency.
    #[must_use]
    pub const fn max_ns(&self) -> Option<i64> {
        if self.count == 0 { None } else { Some(self.max_ns) }
    }

    /// The arithmetic mean.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| {
            let (whole, rest) = self.whole_mean();
            whole as f64 + rest
        })
    }

    /// The mean as a whole number and a rest below 1, so that neither loses digits of the other.
    fn whole_mean(&self) -> (i128, f64) {
        let count = i128::from(self.count.max(1));
        let (whole, rest) = (self.sum.div_euclid(count), self.sum.rem_euclid(count));
        (whole, rest as f64 / count as f64)
    }

    /// The standard deviation of the population.
    #[must_use]
    pub fn stddev_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| {
            // Squares around the whole part of the mean, in integers: no digits cancel.
            let (whole, rest) = self.whole_mean();
            let count = i128::from(self.count);
            let around = i128::try_from(self.sum_of_squares)
                .unwrap_or(i128::MAX)
                .saturating_sub(whole.saturating_mul(self.sum).saturating_mul(2))
                .saturating_add(count.saturating_mul(whole.saturating_mul(whole)));
            (around as f64 / count as f64 - rest * rest).max(0.0).sqrt()
        })
    }

    /// The latency that `numerator` of `denominator` latencies do not exceed, by nearest rank: the
    /// smallest recorded one with at least `count * numerator / denominator` latencies at or below
    /// it. `quantile(999, 1000)` is the 99.9th percentile. At most 1/2048 too long, never too
    /// short; the minimum and the maximum are exact.
    ///
    /// A numerator beyond the denominator counts as equal to it; `None` for an empty histogram or
    /// a denominator of 0.
    #[must_use]
    pub fn quantile(&self, numerator: u64, denominator: u64) -> Option<i64> {
        let rank = log_linear::rank(self.count, numerator, denominator)?;
        if rank == 1 {
            return Some(self.min_ns);
        }
        let buckets = self.buckets().map(|bucket| (bucket.to_ns, bucket.count));
        log_linear::bucket_of_rank(buckets, rank)
    }

    /// Everything at once but the profile, `None` for an empty histogram.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        Some(Figures {
            count: self.count,
            min_ns: self.min_ns()?,
            p50_ns: self.quantile(50, 100)?,
            p90_ns: self.quantile(90, 100)?,
            p99_ns: self.quantile(99, 100)?,
            p999_ns: self.quantile(999, 1000)?,
            max_ns: self.max_ns()?,
            mean_ns: self.mean_ns()?,
            stddev_ns: self.stddev_ns()?,
            profile: Vec::new(),
        })
    }

    /// The latency profile: for rising times `t`, how many latencies are at least `t`.
    ///
    /// The papers' reverse cumulative histogram. Every count is exact. For two points `(t1, m1)`
    /// and `(t2, m2)` with `t1 < t2`, `m1 - m2` latencies lie in `t1..t2`. The first point is the
    /// minimum with the count of all, the last the maximum with the number of latencies that long.
    #[must_use]
    pub fn profile(&self) -> Vec<(i64, u64)> {
        let mut points = Vec::new();
        let mut at_least = self.count;
        for bucket in self.buckets() {
            points.push((bucket.from_ns, at_least));
            at_least -= bucket.count;
        }
        // The last bucket ends at the maximum, and may hold more than that.
        if points.last().is_some_and(|&(_, count)| count == self.max_count) {
            points.pop();
        }
        if self.count > 0 {
            points.push((self.max_ns, self.max_count));
        }
        points
    }

    /// The latency profile with at most `points` points, at least 2 ([`thin`]).
    #[must_use]
    pub fn profile_thinned(&self, points: usize) -> Vec<(i64, u64)> {
        thin(self.profile(), points)
    }

    /// The classic histogram: see [`classic`].
    #[must_use]
    pub fn classic(&self, bins: usize) -> Vec<Bin> {
        classic(&self.profile(), bins)
    }

    /// The buckets that hold something, in rising order, cut to the minimum and the maximum.
    fn buckets(&self) -> impl Iterator<Item = Bin> + '_ {
        fn is_filled(&(_, &count): &(usize, &u64)) -> bool {
            count > 0
        }
        // All others lie beyond the minimum and the maximum.
        let lowest = bucket_index(self.min_ns.max(0).unsigned_abs());
        let behind = u64::try_from(self.max_ns).map_or(0, |max_ns| bucket_index(max_ns) + 1);
        let positive = self.positive.iter().enumerate().take(behind).skip(lowest);
        let positive = positive.filter(is_filled).map(|(index, &count)| {
            let (low, high) = bucket_range(index).into_inner();
            (0_i64.saturating_add_unsigned(low), 0_i64.saturating_add_unsigned(high), count)
        });
        let negative = self.negative.iter().enumerate().rev();
        let negative = negative.filter(is_filled).map(|(index, &count)| {
            let (low, high) = bucket_range(index).into_inner();
            (0_i64.saturating_sub_unsigned(high), 0_i64.saturating_sub_unsigned(low), count)
        });
        negative.chain(positive).map(|(from, to, count)| Bin {
            from_ns: from.max(self.min_ns),
            to_ns: to.min(self.max_ns),
            count,
        })
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The classic histogram of a latency profile: at most `bins` bins of equal width from the minimum to
/// the maximum. A latency counts in the bin in which its step of the profile begins.
#[must_use]
pub fn classic(profile: &[(i64, u64)], bins: usize) -> Vec<Bin> {
    let (Some(&(min_ns, _)), Some(&(max_ns, _))) = (profile.first(), profile.last()) else {
        return Vec::new();
    };
    if bins == 0 {
        return Vec::new();
    }
    let (min, span) = (i128::from(min_ns), max_ns.abs_diff(min_ns));
    let width = (u128::from(span) + 1).div_ceil(bins as u128);
    let used = (u128::from(span) / width) as usize + 1;
    let edge = |index: usize| min + (width * index as u128) as i128;
    let mut classic: Vec<Bin> = (0..used)
        .map(|index| Bin {
            from_ns: edge(index) as i64,
            to_ns: (edge(index + 1) - 1).min(i128::from(max_ns)) as i64,
            count: 0,
        })
        .collect();
    let next = profile.iter().skip(1).map(|&(_, count)| count).chain([0]);
    for (&(from_ns, count), next) in profile.iter().zip(next) {
        let index = u128::from(from_ns.abs_diff(min_ns)) / width;
        classic[index as usize].count += count - next;
    }
    classic
}

/// Equal if no question tells them apart.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.min_ns, self.max_ns, self.max_count, self.sum, self.sum_of_squares)
            == (
                other.count,
                other.min_ns,
                other.max_ns,
                other.max_count,
                other.sum,
                other.sum_of_squares,
            )
            && self.buckets().eq(other.buckets())
    }
}
impl Eq for Histogram {}

impl Extend<i64> for Histogram {
    fn extend<I: IntoIterator<Item = i64>>(&mut self, latencies_ns: I) {
        latencies_ns.into_iter().for_each(|latency_ns| self.record(latency_ns));
    }
}

impl FromIterator<i64> for Histogram {
    fn from_iter<I: IntoIterator<Item = i64>>(latencies_ns: I) -> Self {
        let mut histogram = Self::new();
        histogram.extend(latencies_ns);
        histogram
    }
}

fn add_all(sums: &mut [u64], counts: &[u64]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// Thins a latency profile to at most `limit` points, at least 2, so that it looks the same on
/// logarithmic axes.
///
/// The curve is walked along in equal stretches, time and count measured logarithmically; the
/// first and the last point of every stretch stay. So both ends of every step and of the whole
/// stay, and every point that stays is as exact as before.
#[must_use]
pub fn thin(profile: Vec<(i64, u64)>, limit: usize) -> Vec<(i64, u64)> {
    let stretches = (limit / 2).max(1) as u128;
    let (Some(&first), Some(&last)) = (profile.first(), profile.last()) else { return profile };
    if profile.len() <= limit.max(2) {
        return profile;
    }
    let across = |(time_ns, _): (i64, u64)| height(time_ns).abs_diff(height(first.0)) as u128;
    let down = |(_, count): (i64, u64)| bucket_index(first.1).abs_diff(bucket_index(count)) as u128;
    let (width, depth) = (across(last).max(1), down(last).max(1));
    let length = across(last) * depth + down(last) * width + 1;
    let stretch = |point| (across(point) * depth + down(point) * width) * stretches / length;

    let stays = |index: usize| {
        let here = stretch(profile[index]);
        let differs = |neighbour: Option<&(i64, u64)>| {
            neighbour.is_none_or(|&neighbour| stretch(neighbour) != here)
        };
        differs(index.checked_sub(1).and_then(|before| profile.get(before)))
            || differs(profile.get(index + 1))
    };
    (0..profile.len()).filter(|&index| stays(index)).map(|index| profile[index]).collect()
}

/// A latency on a scale that rises like the logarithm and passes through zero.
fn height(latency_ns: i64) -> isize {
    let index = bucket_index(latency_ns.unsigned_abs()) as isize;
    if latency_ns < 0 { -index } else { index }
}

#[cfg(test)]
mod tests;

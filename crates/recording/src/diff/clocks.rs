//! [`Clocks`]: how the clocks of two recorders run, by the frames that both have; and [`Follower`], which says meanwhile what they differ by.

use super::{Side, Sighting};

/// What two clocks may run apart by: clocks that NTP sets run by up to 500 millionths faster or slower (`MAXFREQ` of Linux, RFC 5905, 11.3), either of
/// them. Crystals are nearer.
const MAX_DRIFT_PPM: i128 = 1_000;

/// What the clocks of two recorders differ by at present, whatever comes late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Follower {
    /// By how much B's clock is ahead, in nanoseconds.
    offset_ns: i128,
    /// Nothing: the first frame that both have tells the offset.
    is_known: bool,
    /// The latest stamp of A.
    time_ns: Option<u64>,
}

impl Follower {
    /// Clocks that differ by so much at the start: exactly, or about, until there is a frame that both have.
    pub(super) const fn new(offset_ns: i128, is_known: bool) -> Self {
        Self { offset_ns, is_known, time_ns: None }
    }

    /// A stamp as A's clock would show it, in nanoseconds.
    pub(super) fn on_a(&self, side: Side, stamp_ns: u64) -> i128 {
        i128::from(stamp_ns) - if side == Side::B { self.offset_ns } else { 0 }
    }

    /// Takes the first frame that both have.
    pub(super) fn begin(&mut self, a: &Sighting, b: &Sighting) {
        if !self.is_known {
            (self.offset_ns, self.is_known) = (offset_ns(a, b), true);
        }
    }

    /// Takes a frame that both have, and returns by how much more B's clock was ahead for it than for those before, in nanoseconds.
    pub(super) fn follow(&mut self, a: &Sighting, b: &Sighting) -> i128 {
        self.begin(a, b);
        let off_ns = offset_ns(a, b) - self.offset_ns;
        let since_ns = self.time_ns.map_or(0, |before| a.time_ns.saturating_sub(before));
        self.time_ns = self.time_ns.max(Some(a.time_ns));
        let most_ns = i128::from(since_ns) * MAX_DRIFT_PPM / 1_000_000;
        self.offset_ns += off_ns.clamp(-most_ns, most_ns);
        off_ns
    }
}

/// By how much B's clock was ahead for a frame.
pub(super) fn offset_ns(a: &Sighting, b: &Sighting) -> i128 {
    i128::from(b.time_ns) - i128::from(a.time_ns)
}

/// So many points are kept before those are left out that no line can be farthest from.
const MAX_POINTS: usize = 8_192;

/// How the clock of B runs against that of A: the offset is B's stamp less A's.
///
/// The drift is the slope of the line through the offsets of all common frames over A's time with the least squares of
/// distances: with `x` the time and `y` the offset, `sum((x - mean x) (y - mean y)) / sum((x - mean x)^2)`. (A line from the first to
/// the last frame would have the jitter of just these two.)
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    state: Option<Box<State>>,
}

/// Points are the time after the first match and the offset more than its, in ns.
#[derive(Clone, Debug)]
struct State {
    reference: (u64, i128),
    first: (u64, i128),
    last: (u64, i128),
    count: f64,
    mean: (f64, f64),
    /// The sums of squares and of products about the means.
    squares: f64,
    products: f64,
    points: Vec<(f64, f64)>,
}

impl Clocks {
    /// Counts a frame in: A's stamp and the offset.
    pub(super) fn add(&mut self, time_ns: u64, offset_ns: i128) {
        let sample = (time_ns, offset_ns);
        let state = self.state.get_or_insert_with(|| {
            Box::new(State {
                reference: sample,
                first: sample,
                last: sample,
                count: 0.0,
                mean: (0.0, 0.0),
                squares: 0.0,
                products: 0.0,
                points: Vec::new(),
            })
        });
        if time_ns < state.first.0 {
            state.first = sample;
        }
        if time_ns >= state.last.0 {
            state.last = sample;
        }
        let x = (i128::from(time_ns) - i128::from(state.reference.0)) as f64;
        let y = (offset_ns - state.reference.1) as f64;
        // Welford's way: no large sums that are nearly the same.
        state.count += 1.0;
        let (dx, dy) = (x - state.mean.0, y - state.mean.1);
        state.mean = (state.mean.0 + dx / state.count, state.mean.1 + dy / state.count);
        state.squares += dx * (x - state.mean.0);
        state.products += dx * (y - state.mean.1);
        state.points.push((x, y));
        if state.points.len() >= MAX_POINTS {
            state.points = hull(std::mem::take(&mut state.points));
            // So many corners are far from any that clocks make; then the largest deviation may be a little larger.
            while state.points.len() > MAX_POINTS / 2 {
                let mut place = 0;
                state.points.retain(|_| {
                    place += 1;
                    place % 2 == 0
                });
            }
        }
    }

    /// The offset of the earliest common frame in nanoseconds, if there is one.
    #[must_use]
    pub fn first_offset_ns(&self) -> Option<i128> {
        self.state.as_ref().map(|state| state.first.1)
    }

    /// The offset of the latest common frame in nanoseconds.
    #[must_use]
    pub fn last_offset_ns(&self) -> Option<i128> {
        self.state.as_ref().map(|state| state.last.1)
    }

    /// By how much B's clock gains, in millionths; `None` if the common frames have but one time.
    #[must_use]
    pub fn drift_ppm(&self) -> Option<f64> {
        self.state.as_ref()?.slope().map(|slope| slope * 1e6)
    }

    /// How far the offset of a common frame is from the line at most, in nanoseconds; if there is no drift, from the mean.
    #[must_use]
    pub fn deviation_ns_max(&self) -> Option<f64> {
        let state = self.state.as_ref()?;
        let slope = state.slope().unwrap_or(0.0);
        let (x, y) = state.mean;
        // The farthest point from a line is a corner of the hull.
        let distances =
            state.points.iter().map(|point| (point.1 - y - slope * (point.0 - x)).abs());
        distances.reduce(f64::max)
    }
}

impl State {
    fn slope(&self) -> Option<f64> {
        (self.squares > 0.0).then(|| self.products / self.squares)
    }
}

/// The corners of the convex hull of points (Andrew's monotone chain).
fn hull(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let chain = |points: &mut dyn Iterator<Item = (f64, f64)>| {
        let mut chain: Vec<(f64, f64)> = Vec::new();
        for point in points {
            while let [.., a, b] = chain[..]
                && (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0) <= 0.0
            {
                chain.pop();
            }
            chain.push(point);
        }
        chain
    };
    let mut lower = chain(&mut points.iter().copied());
    let upper = chain(&mut points.iter().rev().copied());
    // Both ends are in either chain.
    lower.extend(upper.iter().skip(1).take(upper.len().saturating_sub(2)));
    lower
}

impl PartialEq for Clocks {
    fn eq(&self, other: &Self) -> bool {
        let facts = |it: &Self| {
            (it.first_offset_ns(), it.last_offset_ns(), it.drift_ppm(), it.deviation_ns_max())
        };
        facts(self) == facts(other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However many points were left out, the farthest from the line is the farthest of all.
        #[test]
        fn the_largest_deviation_is_that_of_all(
            count in 2_usize..40_000,
            seed in any::<u32>(),
            drift_ppm in -300_i64..300,
        ) {
            let mut random = u64::from(seed) | 1;
            let mut next = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random
            };
            let mut clocks = Clocks::default();
            let mut points = Vec::new();
            let mut time_ns = 1_700_000_000_000_000_000_u64;
            let start_ns = time_ns;
            for _ in 0..count {
                time_ns += 1_000 + next() % 2_000_000;
                let noise = (next() % 100_000) as i64;
                let gained = (time_ns - start_ns) as i64 / 1_000 * drift_ppm / 1_000;
                let offset = i128::from(5_000_000_000 + gained + noise);
                clocks.add(time_ns, offset);
                points.push(((time_ns - start_ns) as f64, offset as f64));
            }
            let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
            let mean = |of| sum(of) / count as f64;
            let (x, y) = (mean(|it| it.0), mean(|it| it.1));
            let products: f64 = points.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
            let squares: f64 = points.iter().map(|it| (it.0 - x).powi(2)).sum();
            let slope = products / squares;
            let far = points.iter().map(|it| (it.1 - y - slope * (it.0 - x)).abs());
            let far = far.reduce(f64::max).unwrap_or(0.0);
            let found = clocks.deviation_ns_max().unwrap_or(f64::NAN);
            prop_assert!((found - far).abs() <= 2.0, "{found} is not {far}");
            let found = clocks.drift_ppm().unwrap_or(f64::NAN);
            prop_assert!((found - slope * 1e6).abs() <= 1e-3, "{found} is not {slope}");
        }
    }

    #[test]
    fn one_frame_has_no_drift() {
        let mut clocks = Clocks::default();
        assert_eq!((clocks.drift_ppm(), clocks.deviation_ns_max()), (None, None));
        clocks.add(7, -3);
        assert_eq!((clocks.first_offset_ns(), clocks.last_offset_ns()), (Some(-3), Some(-3)));
        assert_eq!((clocks.drift_ppm(), clocks.deviation_ns_max()), (None, Some(0.0)));
    }
}

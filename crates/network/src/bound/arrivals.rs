//! [`Arrivals`]: how densely the frames of a message can be queued.

use std::sync::Arc;

/// The frames of a message, one after the other.
///
/// The nominal releases are at least `period_ns` apart, and a frame is queued at most `jitter_ns` after its own: in the order of
/// their releases. Where the first one of a window was late by all of its jitter, and all others come at once, the `q`-th of
/// them, from 0, is queued `max(0, q T - J)` after it at the earliest. So a window of a time `t`, its end not included, has at
/// most `ceil((t + J) / T)` of them.
///
/// A rule may let fewer pass ([`Limit`]): then what both allow holds. The frame `q` that passes has at least `q` before it, so
/// its nominal release is as late as that of the message's frame `q`, or later.
///
/// Of a message that somebody has watched there may be a **curve**: the least times `D(q)` from the end of a frame to that of the
/// `q`-th one after it, as seen. For more frames than it has, `D(a + b) >= D(a) + D(b)` follows, since the longer way is made of both
/// ways. A frame ends at least `S` and at most `R` after it was queued, so two are queued at least `D(q) - (R - S)` after one
/// another: the jitter is `R - S`. Such a message has no nominal releases: its times count from when a frame is queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The least time from one nominal release to the next, in ns; above 0. A curve takes its place.
    pub period_ns: u64,
    /// From a frame to the next one, to the one behind that, and so on, in ns. They do not fall, and the last one is above 0.
    pub curve: Option<Arc<[u64]>>,
    /// For how long a frame may be queued after its nominal release, in ns.
    pub jitter_ns: u64,
    /// What a rule lets pass.
    pub limit: Option<Limit>,
}

/// What a rule with a `rate` lets pass, the generic cell rate algorithm: a frame may come `tolerance` earlier than `interval` after the
/// last one was due. So frame `q` comes `q` intervals without the tolerance after the first one at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The least time between two frames on average, in ns; above 0.
    pub interval_ns: u64,
    /// How much too early a frame may come, in ns.
    pub tolerance_ns: u64,
}

/// At most so many frames fit into a time, its end not included, if they are so far apart and the first is late.
const fn fitting(time_ns: u64, late_ns: u64, apart_ns: u64) -> u64 {
    time_ns.saturating_add(late_ns).div_ceil(apart_ns)
}

impl Arrivals {
    /// Frames with that period and jitter.
    #[must_use]
    pub const fn new(period_ns: u64, jitter_ns: u64) -> Self {
        Self { period_ns, jitter_ns, curve: None, limit: None }
    }

    /// Frames that are queued at least so far apart, in ns, as [`Arrivals::curve`] has it.
    #[must_use]
    pub fn of_curve(curve: Arc<[u64]>) -> Self {
        Self { curve: Some(curve), ..Self::new(1, 0) }
    }

    /// At most so many frames are queued within a time, its end not included.
    #[must_use]
    pub fn within(&self, time_ns: u64) -> u64 {
        if time_ns == 0 {
            return 0;
        }
        let frames = match &self.curve {
            None => fitting(time_ns, self.jitter_ns, self.period_ns),
            Some(curve) => of_curve::fitting(curve, time_ns.saturating_add(self.jitter_ns)),
        };
        match self.limit {
            None => frames,
            Some(Limit { interval_ns, tolerance_ns }) => {
                let passing = fitting(time_ns, tolerance_ns, interval_ns);
                if passing < frames { passing } else { frames }
            }
        }
    }

    /// The frame `index`, from 0, is queued so long after the first one at the earliest, in ns.
    #[must_use]
    pub fn distance(&self, index: u64) -> u64 {
        let distance_ns = self.without_jitter(index).saturating_sub(self.jitter_ns);
        distance_ns.max(self.limit.map_or(0, |limit| limit.distance(index)))
    }

    fn without_jitter(&self, index: u64) -> u64 {
        match &self.curve {
            None => index.saturating_mul(self.period_ns),
            Some(curve) => of_curve::distance(curve, index),
        }
    }

    /// For how long a frame may have been released when it is queued, in ns.
    #[must_use]
    pub const fn lateness_ns(&self) -> u64 {
        if self.curve.is_some() { 0 } else { self.jitter_ns }
    }

    /// Where the first frame was late by all of its jitter: the nominal release of frame `index` is so long after its own at
    /// the earliest, in ns.
    #[must_use]
    pub fn nominal(&self, index: u64) -> u64 {
        if self.curve.is_some() {
            return self.distance(index);
        }
        let nominal_ns = self.without_jitter(index);
        nominal_ns.max(self.limit.map_or(0, |limit| limit.distance(index)))
    }

    /// Later by up to `more_ns`.
    #[must_use]
    pub fn delayed(self, more_ns: u64) -> Self {
        let jitter_ns = self.jitter_ns.saturating_add(more_ns);
        Self { jitter_ns, limit: self.limit.map(|it| it.delayed(more_ns)), ..self }
    }

    /// Frames in a nanosecond, in the long run.
    pub(crate) fn rate(&self) -> f64 {
        let of_curve = |curve: &Arc<[u64]>| {
            curve.len() as f64 / curve.last().map_or(1.0, |&last_ns| last_ns as f64)
        };
        let own = self.curve.as_ref().map_or_else(|| 1.0 / self.period_ns as f64, of_curve);
        self.limit.map_or(own, |limit| own.min(1.0 / limit.interval_ns as f64))
    }

    /// What is added: `within(t)` is at least `rate * t + burst`.
    pub(crate) fn burst(&self) -> f64 {
        match &self.curve {
            // In its last part a curve may have all of its frames at the end.
            Some(curve) => 1.0 - curve.len() as f64,
            // Of two laws, the one with the lower rate may have the greater burst.
            None if self.limit.is_some() => 0.0,
            None => self.jitter_ns as f64 * self.rate(),
        }
    }
}

/// What a curve says, also for more frames than it has.
mod of_curve {
    /// The least time to the frame `index`, in ns.
    pub(super) fn distance(curve: &[u64], index: u64) -> u64 {
        let (length, last_ns) = (curve.len() as u64, curve.last().copied().unwrap_or(0));
        let (whole, rest) = (index / length.max(1), index % length.max(1));
        let rest_ns = rest.checked_sub(1).and_then(|it| curve.get(it as usize)).copied();
        whole.saturating_mul(last_ns).saturating_add(rest_ns.unwrap_or(0))
    }

    /// How many frames fit into a time, its end not included.
    pub(super) fn fitting(curve: &[u64], time_ns: u64) -> u64 {
        let last_ns = curve.last().copied().unwrap_or(0).max(1);
        let whole = (time_ns - 1) / last_ns;
        let rest_ns = time_ns - whole * last_ns;
        let in_rest = curve.partition_point(|&distance_ns| distance_ns < rest_ns) as u64;
        whole.saturating_mul(curve.len() as u64) + in_rest + 1
    }
}

impl Limit {
    fn distance(self, index: u64) -> u64 {
        index.saturating_mul(self.interval_ns).saturating_sub(self.tolerance_ns)
    }

    /// What comes later by up to `more_ns` comes as if more were tolerated.
    #[must_use]
    pub fn delayed(self, more_ns: u64) -> Self {
        Self { tolerance_ns: self.tolerance_ns.saturating_add(more_ns), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Both say the same: a window has a frame `q` if it is longer than the least distance to it.
        #[test]
        fn windows_and_distances_are_one_law(
            period_ns in 1_u64..50,
            jitter_ns in 0_u64..200,
            limit in prop::option::of((1_u64..80, 0_u64..200)),
            steps in prop::collection::vec(0_u64..40, 0..5),
            time_ns in 0_u64..500,
        ) {
            let limit = limit.map(|(interval_ns, tolerance_ns)| Limit { interval_ns, tolerance_ns });
            let of_period = Arrivals::new(period_ns, jitter_ns);
            let arrivals = match steps.is_empty() {
                true => Arrivals { limit, ..of_period },
                false => {
                    let sum = |at_ns: &mut u64, step_ns: u64| { *at_ns += step_ns; Some(*at_ns) };
                    let curve: Vec<_> = steps.into_iter().chain([1]).scan(0, sum).collect();
                    Arrivals { limit, curve: Some(curve.into()), ..of_period }
                }
            };
            let fitting = (0..).take_while(|&index| arrivals.distance(index) < time_ns).count();
            prop_assert_eq!(arrivals.within(time_ns), fitting as u64);
            let least = arrivals.rate() * time_ns as f64 + arrivals.burst();
            prop_assert!(time_ns == 0 || arrivals.within(time_ns) as f64 > least - 1e-9);
        }
    }
}

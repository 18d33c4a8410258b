//! [`Arrivals`]: how densely the frames of a message can be queued.

/// The frames of a message, one after the other.
///
/// The nominal releases are at least `period_ns` apart, and a frame is queued at most `jitter_ns` after its own: in the order of
/// their releases. Where the first one of a window was late by all of its jitter, and all others come at once, the `q`-th of
/// them, from 0, is queued `max(0, q T - J)` after it at the earliest. So a window of a time `t`, its end not included, has at
/// most `ceil((t + J) / T)` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The least time from one nominal release to the next, in ns; above 0.
    pub period_ns: u64,
    /// For how long a frame may be queued after its nominal release, in ns.
    pub jitter_ns: u64,
}

impl Arrivals {
    /// At most so many frames are queued within a time, its end not included.
    #[must_use]
    pub const fn within(&self, time_ns: u64) -> u64 {
        if time_ns == 0 {
            return 0;
        }
        time_ns.saturating_add(self.jitter_ns).div_ceil(self.period_ns)
    }

    /// The frame `index`, from 0, is queued so long after the first one at the earliest, in ns.
    #[must_use]
    pub const fn distance(&self, index: u64) -> u64 {
        self.nominal(index).saturating_sub(self.jitter_ns)
    }

    /// Where the first frame was late by all of its jitter: the nominal release of frame `index` is so long after its own at
    /// the earliest, in ns.
    #[must_use]
    pub const fn nominal(&self, index: u64) -> u64 {
        index.saturating_mul(self.period_ns)
    }

    /// Later by up to `more_ns`.
    #[must_use]
    pub const fn delayed(self, more_ns: u64) -> Self {
        Self { jitter_ns: self.jitter_ns.saturating_add(more_ns), ..self }
    }

    /// Frames in a nanosecond, in the long run.
    pub(crate) fn rate(&self) -> f64 {
        1.0 / self.period_ns as f64
    }

    /// Frames that come early at the most: `within(t)` is at least `rate * t + burst`.
    pub(crate) fn burst(&self) -> f64 {
        self.jitter_ns as f64 * self.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Both say the same: a window has a frame `q` if it is longer than the least distance to it.
        #[test]
        fn windows_and_distances_are_one_law(period_ns in 1_u64..50, jitter_ns in 0_u64..200, time_ns in 0_u64..500) {
            let arrivals = Arrivals { period_ns, jitter_ns };
            let fitting = (0..).take_while(|&index| arrivals.distance(index) < time_ns).count();
            prop_assert_eq!(arrivals.within(time_ns), fitting as u64);
        }
    }
}

//! [`Pace`]: waiting for an instant to the microsecond: asleep first, then awake.

use candor_linux::clock;
use candor_linux::gaps::Gaps;
use candor_time::{Instant, Nanos, Realtime};

/// How long before an instant a thread is awake: longer than almost every wake-up takes.
pub(crate) const AWAKE: Nanos = Nanos::from_micros(250);

/// The waiting of a thread.
#[derive(Default)]
pub(crate) struct Pace {
    /// When it was stopped while it was awake.
    pub(crate) gaps: Gaps<Realtime>,
}

impl Pace {
    /// Reads the clock.
    pub(crate) fn now(&mut self) -> Instant<Realtime> {
        let now = clock::now::<Realtime>();
        self.gaps.tick(now);
        now
    }

    /// The kernel has done at `stamp` what the thread asked for. What it did after that, such as waking others, is no
    /// part of the step.
    pub(crate) fn stamped(&mut self, stamp: Instant<Realtime>) {
        self.gaps.tick(stamp);
        self.now();
    }

    /// Waits for `instant`, and returns the first reading of the clock behind it.
    pub(crate) fn until(&mut self, instant: Instant<Realtime>) -> Instant<Realtime> {
        let mut now = self.now();
        if instant > now + AWAKE {
            self.gaps.pause();
            // Woken late or not: what follows reads the clock.
            let _ = clock::sleep_until(Instant::<Realtime>::from_nanos(
                instant.as_nanos() - AWAKE.as_nanos(),
            ));
            now = self.now();
        }
        while now < instant {
            now = self.now();
        }
        now
    }
}

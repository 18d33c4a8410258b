//! [`Silences`]: for how long no frame has come from each bus.
//!
//! The data path does not read a clock for that. Who asks the planes now and then how many frames they have seen knows when
//! the number changed last, as exactly as it asks.

use std::collections::BTreeMap;

use candor_time::{Instant, Monotonic, Nanos};

/// By the name of a bus.
#[derive(Debug, Default)]
pub(crate) struct Silences(BTreeMap<String, Seen>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    frames: u64,
    /// When the number was another one last, or when the bus was first looked at.
    since: Instant<Monotonic>,
}

impl Silences {
    /// Looks at how many frames have come from each bus by now. Those of a bus that is not there any more are forgotten.
    pub(crate) fn look(&mut self, frames: &BTreeMap<String, u64>, now: Instant<Monotonic>) {
        self.0.retain(|bus, _| frames.contains_key(bus));
        for (bus, &frames) in frames {
            match self.0.get_mut(bus) {
                Some(seen) if seen.frames == frames => {}
                Some(seen) => *seen = Seen { frames, since: now },
                None => drop(self.0.insert(bus.clone(), Seen { frames, since: now })),
            }
        }
    }

    /// For how long at least no frame has come from a bus of which so many have come by now.
    pub(crate) fn of(&self, bus: &str, frames: u64, now: Instant<Monotonic>) -> Nanos {
        match self.0.get(bus) {
            Some(seen) if seen.frames == frames => now - seen.since,
            _ => Nanos::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_begins_when_it_was_looked_last_after_a_frame() {
        let at = |ms| Instant::ZERO + Nanos::from_millis(ms);
        let frames =
            |body, drive| BTreeMap::from([("body".to_owned(), body), ("drive".to_owned(), drive)]);
        let mut silences = Silences::default();
        silences.look(&frames(0, 7), at(1_000));
        // Nothing ever came, and it is not known when the 7 came.
        assert_eq!(silences.of("body", 0, at(1_500)), Nanos::from_millis(500));
        assert_eq!(silences.of("drive", 7, at(1_500)), Nanos::from_millis(500));
        silences.look(&frames(3, 7), at(2_000));
        assert_eq!(silences.of("body", 3, at(2_400)), Nanos::from_millis(400));
        assert_eq!(silences.of("drive", 7, at(2_400)), Nanos::from_millis(1_400));
        // One came since it was looked.
        assert_eq!(silences.of("drive", 8, at(2_400)), Nanos::ZERO);
        // A bus that is new, or was away.
        assert_eq!(silences.of("other", 1, at(2_400)), Nanos::ZERO);
        silences.look(&BTreeMap::from([("body".to_owned(), 3)]), at(3_000));
        silences.look(&frames(3, 7), at(4_000));
        assert_eq!(silences.of("body", 3, at(4_100)), Nanos::from_millis(2_100));
        assert_eq!(silences.of("drive", 7, at(4_100)), Nanos::from_millis(100));
    }
}

//! [`Taps`]: when one frame passed the taps of its path.

use crate::path::TapPath;
use crate::taps::Tap;

/// The times of one frame at the taps of its path, in nanoseconds of one clock; each may be absent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Taps {
    path: &'static TapPath,
    times_ns: [u64; TapPath::MAX_TAPS],
}

/// Stands for a time that was not taken. As an instant it would lie 584 years after the clock's
/// zero.
const ABSENT: u64 = u64::MAX;

impl Taps {
    /// Of a frame on that path; no time was taken yet.
    #[must_use]
    pub const fn new(path: &'static TapPath) -> Self {
        Self { path, times_ns: [ABSENT; TapPath::MAX_TAPS] }
    }

    /// The path of the frame.
    #[must_use]
    pub const fn path(&self) -> &'static TapPath {
        self.path
    }

    /// When the frame passed `tap`, if that is known.
    #[inline]
    #[must_use]
    pub const fn at(&self, tap: Tap) -> Option<u64> {
        let Some(place) = self.path.place(tap) else { return None };
        match self.times_ns[place] {
            ABSENT => None,
            time_ns => Some(time_ns),
        }
    }

    /// Notes when the frame passed `tap`, replacing what was noted before.
    ///
    /// # Panics
    /// The tap is not on the path.
    #[inline]
    pub const fn set(&mut self, tap: Tap, time_ns: u64) {
        match self.path.place(tap) {
            Some(place) => self.times_ns[place] = time_ns,
            None => panic!("the tap is not on the path"),
        }
    }

    /// The same times and one more.
    #[must_use]
    pub const fn with(mut self, tap: Tap, time_ns: u64) -> Self {
        self.set(tap, time_ns);
        self
    }

    /// The time from one tap to another, if both are known: negative if `to` came first, which
    /// happens where the instrument is inaccurate.
    #[inline]
    #[must_use]
    pub const fn distance_ns(&self, from: Tap, to: Tap) -> Option<i64> {
        let (Some(from), Some(to)) = (self.at(from), self.at(to)) else { return None };
        Some(match to.checked_signed_diff(from) {
            Some(distance_ns) => distance_ns,
            None if from < to => i64::MAX,
            None => i64::MIN,
        })
    }
}

impl core::fmt::Debug for Taps {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let taps = self.path.taps().iter();
        let known = taps.filter_map(|tap| Some((tap.name(), self.at(*tap)?)));
        f.debug_map().entries(known).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absent_until_it_is_taken() {
        let mut taps = Taps::new(TapPath::CAN_GATEWAY);
        assert!(Tap::ALL.into_iter().all(|tap| taps.at(tap).is_none()));
        taps.set(Tap::Read, 0);
        assert_eq!(taps.at(Tap::Read), Some(0));
        assert_eq!(format!("{taps:?}"), r#"{"read": 0}"#);
    }

    #[test]
    fn distances_have_a_sign_and_an_end() {
        for (read, decided, distance_ns) in [
            (10, 25, 15),
            (25, 10, -15),
            (0, u64::MAX - 1, i64::MAX),
            (u64::MAX - 1, 0, i64::MIN),
            (7, 7, 0),
        ] {
            let taps =
                Taps::new(TapPath::CAN_GATEWAY).with(Tap::Read, read).with(Tap::Decided, decided);
            assert_eq!(taps.distance_ns(Tap::Read, Tap::Decided), Some(distance_ns));
        }
        let taps = Taps::new(TapPath::HOST).with(Tap::Read, 1);
        assert_eq!(taps.distance_ns(Tap::Read, Tap::Decided), None);
        assert_eq!(taps.distance_ns(Tap::Queued, Tap::Read), None);
    }
}

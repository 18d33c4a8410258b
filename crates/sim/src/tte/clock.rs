//! [`Clock`]: the clock of a node: it is fast or slow, its rate changes, and it is corrected.
//!
//! ```text
//!  local time
//!   |            / rate of now on
//!   |          _/
//!   |        _/   <- correction: a step
//!   |      /
//!   |   _/ anchor: from here the rate holds
//!   +---------------------------------- virtual time
//! ```
//!
//! All is exact: local time is a whole number of units of which a nanosecond has 10^9, and a rate is a whole number of
//! parts per billion, so that a nanosecond of virtual time is a whole number of units. Nothing is
//! rounded when a rate changes or a clock is corrected, and no error adds up.

use candor_time::Nanos;
use candor_tte::Oscillator;

use crate::event::{Random, Time};

/// Units of a nanosecond: parts per billion of a nanosecond at rate 0.
const UNITS: i128 = 1_000_000_000;
/// Parts per billion of one per million.
const PPB_OF_PPM: i64 = 1_000;

/// The clock of a node.
///
/// ```
/// use candor_sim::event::Time;
/// use candor_sim::tte::clock::Clock;
/// use candor_time::Nanos;
/// use candor_tte::Oscillator;
///
/// let mut clock = Clock::new(Oscillator { drift_ppm: 50, drift_change_ppm: 0 }, 0);
/// let hour = Time::ZERO + Nanos::from_secs(3_600);
/// assert_eq!(clock.local(hour), Nanos::from_secs(3_600) + Nanos::from_millis(180));
/// clock.step(hour, -180_000_000);
/// assert_eq!(clock.local(hour), Nanos::from_secs(3_600));
/// assert_eq!(clock.reaches(Nanos::from_secs(3_600)), hour);
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    oscillator: Oscillator,
    /// By how much it is fast now, in parts per billion.
    rate_ppb: i64,
    /// Since when that is so, and the local time then, in units.
    since: Time,
    units: i128,
}

impl Clock {
    /// A clock that is `offset_ns` ahead at the start of time.
    #[must_use]
    pub fn new(oscillator: Oscillator, offset_ns: i64) -> Self {
        let rate_ppb = i64::from(oscillator.drift_ppm) * PPB_OF_PPM;
        let units = i128::from(offset_ns) * UNITS;
        Self { oscillator, rate_ppb, since: Time::ZERO, units }
    }

    /// Local time at `at`, in units.
    fn units_at(&self, at: Time) -> i128 {
        // Before the anchor the rate was another one, but nobody asks far back.
        let passed = i128::from(at.as_nanos()) - i128::from(self.since.as_nanos());
        self.units + passed * (UNITS + i128::from(self.rate_ppb))
    }

    /// How far it is ahead of virtual time at `at`, in nanoseconds, rounded down.
    #[must_use]
    pub fn ahead_ns(&self, at: Time) -> i64 {
        let ahead = self.units_at(at).div_euclid(UNITS) - i128::from(at.as_nanos());
        ahead.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// What it shows at `at`: whole nanoseconds that have passed, and 0 before its start.
    #[must_use]
    pub fn local(&self, at: Time) -> Nanos {
        nanos(self.units_at(at).div_euclid(UNITS))
    }

    /// The same, rounded up: when it shows this, `at` is reached.
    #[must_use]
    pub fn local_behind(&self, at: Time) -> Nanos {
        nanos(-(-self.units_at(at)).div_euclid(UNITS))
    }

    /// The first instant at which it shows `local`, if it runs on as it does now.
    #[must_use]
    pub fn reaches(&self, local: Nanos) -> Time {
        let missing = i128::from(local.as_nanos()) * UNITS - self.units;
        let rate = UNITS + i128::from(self.rate_ppb);
        // Rounded up: the nanosecond before shows less.
        let passed = -(-missing).div_euclid(rate);
        let at = i128::from(self.since.as_nanos()) + passed;
        Time::from_nanos(nanos(at).as_nanos())
    }

    /// How long it measures from one instant to another, whatever it shows: steps do not count.
    #[must_use]
    pub fn measures(&self, from: Time, to: Time) -> Nanos {
        let passed = i128::from(to.as_nanos()) - i128::from(from.as_nanos());
        nanos((passed * (UNITS + i128::from(self.rate_ppb))).div_euclid(UNITS))
    }

    /// It shows `by_ns` more from `at` on.
    pub fn step(&mut self, at: Time, by_ns: i64) {
        self.anchor(at);
        self.units += i128::from(by_ns) * UNITS;
    }

    /// Its rate changes at random at `at`, as its oscillator allows: by so many parts per million at most, and
    /// not beyond [`Oscillator::MAX_DRIFT_PPM`].
    pub fn wander(&mut self, at: Time, random: &mut Random) {
        self.anchor(at);
        let change_ppb = i64::from(self.oscillator.drift_change_ppm) * PPB_OF_PPM;
        let span = Nanos::from_nanos(2 * change_ppb.unsigned_abs());
        let by_ppb = random.nanos(Nanos::ZERO, span).as_nanos().cast_signed() - change_ppb;
        let most_ppb = i64::from(self.oscillator.most_ppm()) * PPB_OF_PPM;
        self.rate_ppb = (self.rate_ppb + by_ppb).clamp(-most_ppb, most_ppb);
    }

    /// Whether its rate changes at random.
    #[must_use]
    pub const fn wanders(&self) -> bool {
        self.oscillator.drift_change_ppm > 0
    }

    /// By how much it is fast now, in parts per billion.
    #[must_use]
    pub const fn rate_ppb(&self) -> i64 {
        self.rate_ppb
    }

    fn anchor(&mut self, at: Time) {
        self.units = self.units_at(at);
        self.since = at;
    }
}

/// Whole nanoseconds, and 0 for less.
fn nanos(ns: i128) -> Nanos {
    Nanos::from_nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clock(drift_ppm: i32) -> Clock {
        Clock::new(Oscillator { drift_ppm, drift_change_ppm: 0 }, 0)
    }

    #[test]
    fn a_clock_without_drift_shows_virtual_time() {
        let clock = clock(0);
        for ns in [0, 1, 999_999_999, 86_400_000_000_000] {
            let (local, at) = (Nanos::from_nanos(ns), Time::from_nanos(ns));
            assert_eq!((clock.local(at), clock.local_behind(at)), (local, local));
            assert_eq!((clock.reaches(local), clock.ahead_ns(at)), (at, 0));
        }
    }

    #[test]
    fn nothing_is_lost_over_hours_of_small_changes() {
        // 50 ppm fast for ten hours, anchored anew every odd number of nanoseconds.
        let mut clock = clock(50);
        let end = Time::ZERO + Nanos::from_secs(36_000);
        let mut at = Time::ZERO;
        while at < end {
            clock.step(at, 3);
            clock.step(at, -3);
            at += Nanos::from_nanos(99_999_989);
        }
        assert_eq!(clock.local(end), Nanos::from_secs(36_000) + Nanos::from_micros(1_800_000));
    }

    #[test]
    fn a_clock_that_is_behind_at_the_start_shows_nothing_before_it_starts() {
        let clock = Clock::new(Oscillator::default(), -500);
        assert_eq!(clock.local(Time::from_nanos(300)), Nanos::ZERO);
        assert_eq!(clock.ahead_ns(Time::from_nanos(300)), -500);
        assert_eq!(clock.reaches(Nanos::ZERO), Time::from_nanos(500));
        assert_eq!(clock.reaches(Nanos::from_nanos(7)), Time::from_nanos(507));
    }

    #[test]
    fn rates_wander_within_their_bound() {
        let mut clock = Clock::new(Oscillator { drift_ppm: 190, drift_change_ppm: 50 }, 0);
        let mut random = Random::new(1, 2);
        let mut rates = Vec::new();
        for second in 0..1_000 {
            clock.wander(Time::ZERO + Nanos::from_secs(second), &mut random);
            rates.push(clock.rate_ppb());
        }
        assert!(rates.iter().all(|rate| rate.abs() <= 200_000));
        assert!(rates.iter().any(|&rate| rate < -100_000));
        assert!(rates.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 50_000));
    }

    proptest! {
        #[test]
        fn the_first_instant_at_which_it_shows_something(
            drift in -10_000..10_000_i32,
            offset in -100_000..100_000_i64,
            steps in prop::collection::vec((0..1_000_000_000_u64, -1_000..1_000_i64), 0..5),
            local in 200_000_000..10_000_000_000_000_u64,
        ) {
            let mut clock =
                Clock::new(Oscillator { drift_ppm: drift, drift_change_ppm: 0 }, offset);
            let mut at = Time::ZERO;
            for (after, by) in steps {
                at += Nanos::from_nanos(after);
                clock.step(at, by);
            }
            let local = clock.local(at) + Nanos::from_nanos(local);
            let reached = clock.reaches(local);
            prop_assert!(clock.local(reached) >= local);
            prop_assert!(clock.local(Time::from_nanos(reached.as_nanos() - 1)) < local);
            // When it shows what is behind an instant, the instant is past.
            prop_assert!(clock.reaches(clock.local_behind(at)) >= at);
        }

        #[test]
        fn it_never_runs_back_between_corrections(
            drift in -10_000..10_000_i32,
            mut instants in prop::collection::vec(0..10_000_000_u64, 2..20),
        ) {
            instants.sort_unstable();
            let clock = clock(drift);
            let shown: Vec<_> =
                instants.into_iter().map(|ns| clock.local(Time::from_nanos(ns))).collect();
            prop_assert!(shown.is_sorted());
        }
    }
}

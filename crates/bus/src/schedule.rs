//! [`Schedule`]: frames at given instants, and how punctual they were.
//!
//! The schedule is absolute: a frame is due so long after the start, whatever happened to the ones
//! before. If one is late, the next ones are not; nothing adds up.

use candor_lat::Histogram;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

use crate::outlet::{self, Outcome, Outlet, Stop, Time};

/// How late frames left. Handing a frame to the kernel counts as leaving.
#[derive(Clone, Debug, Default)]
pub struct Punctuality {
    late: Histogram,
    first: Option<(Nanos, Instant<Monotonic>)>,
    last: Option<(Nanos, Instant<Monotonic>)>,
}

/// What is said about punctuality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Half of the frames were at most so late.
    pub late_p50: Nanos,
    /// 99 of 100.
    pub late_p99: Nanos,
    pub late_max: Nanos,
    /// How much longer it took from the first frame to the last than it should have, in
    /// nanoseconds; negative if it took less.
    pub drift_ns: i64,
    /// From the first frame to the last, as planned.
    pub planned: Nanos,
    /// From the first frame to the last.
    pub took: Nanos,
}

impl Punctuality {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A frame was due at `due` after the start and left at `now`, so much late.
    fn record(&mut self, due: Nanos, late: Nanos, now: Instant<Monotonic>) {
        self.late.record(i64::try_from(late.as_nanos()).unwrap_or(i64::MAX));
        self.first.get_or_insert((due, now));
        self.last = Some((due, now));
    }

    /// How many frames have left.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.late.count()
    }

    /// The figures, if frames have left.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        let late = self.late.figures()?;
        let nanos = |ns: i64| Nanos::from_nanos(u64::try_from(ns).unwrap_or(0));
        let ((first_due, first), (last_due, last)) = (self.first?, self.last?);
        let (planned, took) = (last_due - first_due, last - first);
        let drift_ns = i128::from(took.as_nanos()) - i128::from(planned.as_nanos());
        Some(Figures {
            late_p50: nanos(late.p50_ns),
            late_p99: nanos(late.p99_ns),
            late_max: nanos(late.max_ns),
            drift_ns: i64::try_from(drift_ns).unwrap_or(i64::MAX),
            planned,
            took,
        })
    }
}

/// Instants counted from a start.
#[derive(Debug)]
pub struct Schedule {
    start: Instant<Monotonic>,
    punctuality: Punctuality,
}

impl Schedule {
    /// Starts a moment from now, so that the first frame has a chance to be punctual.
    #[must_use]
    pub fn start(time: &mut impl Time) -> Self {
        let start = time.now() + Nanos::from_millis(1);
        Self { start, punctuality: Punctuality::new() }
    }

    /// How long ago it started.
    #[must_use]
    pub fn passed(&self, time: &mut impl Time) -> Nanos {
        time.now() - self.start
    }

    /// Sends a frame to one of the ports, `due` after the start.
    pub fn send(
        &mut self,
        outlets: &mut [Outlet],
        which: usize,
        frame: &Frame,
        due: Nanos,
        time: &mut impl Time,
        stop: &Stop,
    ) -> Outcome {
        let instant = self.start + due;
        if !outlet::sleep_until(outlets, instant, time, stop) {
            return Outcome::Stopped;
        }
        let Some(outlet) = outlets.get_mut(which) else { return Outcome::Stopped };
        let outcome = outlet.send(frame, time, stop);
        if let Outcome::Taken(_) = outcome {
            let now = time.now();
            self.punctuality.record(due, now - instant, now);
        }
        outcome
    }

    /// How punctual frames were.
    #[must_use]
    pub const fn punctuality(&self) -> &Punctuality {
        &self.punctuality
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outlet::tests::{Narrow, TestTime};
    use candor_port::Sent;

    #[test]
    fn lateness_does_not_add_up() {
        let (outlet, given) = Narrow::outlet(Vec::new());
        let mut outlets = [outlet];
        // Every wake-up is 100 us late.
        let mut time = TestTime { late: Nanos::from_micros(100), ..TestTime::default() };
        let stop = Stop::new(false);
        let mut schedule = Schedule::start(&mut time);
        for number in 0..1_000 {
            let due = Nanos::from_millis(number);
            let outcome =
                schedule.send(&mut outlets, 0, &"123#".parse().unwrap(), due, &mut time, &stop);
            assert_eq!(outcome, Outcome::Taken(Nanos::ZERO));
        }
        assert_eq!(given.lock().unwrap().len(), 1_000);
        let figures = schedule.punctuality().figures().unwrap();
        assert_eq!(figures.late_max, Nanos::from_micros(100));
        assert_eq!(figures.drift_ns, 0);
        assert_eq!(figures.planned, Nanos::from_millis(999));
        assert_eq!(figures.took, figures.planned);
    }

    #[test]
    fn a_frame_that_waits_for_room_is_late_and_the_next_is_not() {
        let (outlet, _) = Narrow::outlet(vec![Sent::Taken, Sent::Full]);
        let mut outlets = [outlet];
        let (mut time, stop) = (TestTime::default(), Stop::new(false));
        let mut schedule = Schedule::start(&mut time);
        for due in [0, 100] {
            let frame = "123#".parse().unwrap();
            schedule.send(&mut outlets, 0, &frame, Nanos::from_millis(due), &mut time, &stop);
        }
        let figures = schedule.punctuality().figures().unwrap();
        assert_eq!(figures.late_max, Nanos::from_millis(50));
        assert_eq!(figures.late_p50, Nanos::ZERO);
        assert_eq!(figures.drift_ns, -50_000_000);
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        assert_eq!(Punctuality::new().figures(), None);
    }
}

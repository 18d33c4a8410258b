//! The event core: virtual time, what happens next, and randomness by seed. It knows no medium.
//!
//! The law of the core: **nothing is decided at an instant before everything of that instant has
//! happened.** So each event has a [`Phase`], and events of one instant are taken by phase. Whoever
//! is ready at the instant at which a bus, a link or a processor chooses takes part in the choice, in
//! whatever order the reasons for it were planned.
//!
//! ```
//! use candor_sim::event::{Core, Phase, Rank, Ranked, Time};
//! use candor_time::Nanos;
//!
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! enum Event { Released(u32), Chosen }
//! impl Ranked for Event {
//!     fn rank(self) -> Rank {
//!         match self {
//!             Self::Released(_) => Rank::HAPPENS,
//!             Self::Chosen => Rank::new(Phase::Chooses, 0),
//!         }
//!     }
//! }
//!
//! let mut core: Core<Event> = Core::new(1);
//! let at = Time::ZERO + Nanos::from_micros(5);
//! core.plan(at, Event::Chosen);
//! core.plan(at, Event::Released(7));
//! let mut order = Vec::new();
//! while let Some(event) = core.next() {
//!     order.push((core.now().as_nanos(), event));
//! }
//! assert_eq!(order, [(5_000, Event::Released(7)), (5_000, Event::Chosen)]);
//! ```

use candor_time::{Instant, Virtual};

pub use candor_random::Random;

/// A point in virtual time, in nanoseconds since the start of the simulation.
pub type Time = Instant<Virtual>;

/// When, among the events of one instant, an event is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Something comes into being, or a place becomes free: frames are released, work is done.
    Happens,
    /// Frames leave a medium and look for a place. After the above, so that a place that becomes
    /// free at this instant is there, and a frame that is released at this instant waits.
    Arrives,
    /// Processors choose their next piece of work.
    Serves,
    /// Media choose their next frames. A frame takes time, so nothing follows from it at once.
    Chooses,
}

/// The place of an event among those of one instant: its phase, then the bus, the
/// link or the host that it is of. Then the order does not depend on how things were planned. Events
/// of one rank are taken in the order in which they were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u64);

impl Rank {
    const PHASE_SHIFT: u32 = 40;

    /// The rank of all events of [`Phase::Happens`]: their order decides nothing.
    pub const HAPPENS: Self = Self::new(Phase::Happens, 0);

    /// The rank in a phase of what has the number `place` among its kind.
    #[must_use]
    pub const fn new(phase: Phase, place: u32) -> Self {
        Self((phase as u64) << Self::PHASE_SHIFT | place as u64)
    }

    /// Whether it is taken before all events of `phase`.
    #[must_use]
    pub const fn is_before(self, phase: Phase) -> bool {
        self.0 >> Self::PHASE_SHIFT < phase as u64
    }
}

pub trait Ranked: Copy {
    /// Its place among the events of one instant.
    fn rank(self) -> Rank;
}

/// The events of somebody, `P` among them.
pub trait Includes<P>: Ranked + From<P> {}

impl<E: Ranked + From<P>, P> Includes<P> for E {}

/// Virtual time, and what happens next. `E` are the events of all that take part.
///
/// Events are a sorted list, the next one last. Few are pending at once (one per bus, processor and
/// sender), and most new ones are among the next to happen, so an insertion moves a few entries. A
/// binary heap took two fifths of the time of a simulated gateway.
#[derive(Clone, Debug)]
pub struct Core<E> {
    seed: u64,
    now: Time,
    pending: Vec<(Time, Rank, E)>,
}

impl<E: Ranked> Core<E> {
    /// The start of time, with nothing planned.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, now: Time::ZERO, pending: Vec::new() }
    }

    /// The time reached.
    #[inline]
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// From which all randomness follows.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The stream of randomness of part number `part` of its kind. Each part draws from its own, so
    /// that adding a part leaves the draws of the others alone. Each kind has a number of its own.
    #[must_use]
    pub fn random(&self, kind: u32, part: u32) -> Random {
        Random::new(self.seed, (u64::from(kind) << 32) + u64::from(part))
    }

    /// Plans `event` at `at`, which is not past.
    #[inline(always)]
    pub fn plan(&mut self, at: Time, event: impl Into<E>) {
        let event = event.into();
        let rank = event.rank();
        // In front of those of the same instant and rank: they were planned before and are taken
        // before. Looked for from the next event on, for as many entries as are then moved.
        let is_later = |&(time, other, _): &(Time, Rank, E)| (time, other) > (at, rank);
        let place = self.pending.iter().rposition(is_later).map_or(0, |later| later + 1);
        self.pending.insert(place, (at, rank, event));
    }

    /// Time reaches the next event. `None` if nothing is planned.
    #[allow(clippy::should_implement_trait, reason = "more may be planned after the last event")]
    #[inline]
    pub fn next(&mut self) -> Option<E> {
        let (at, _, event) = self.pending.pop()?;
        debug_assert!(at >= self.now, "time runs forward");
        self.now = at;
        Some(event)
    }

    /// The same up to `limit`. At `limit` itself media have not yet chosen: that is left for later.
    pub fn next_until(&mut self, limit: Time) -> Option<E> {
        let &(at, rank, _) = self.pending.last()?;
        let is_due = at < limit || at == limit && rank.is_before(Phase::Chooses);
        if is_due { self.next() } else { None }
    }

    /// When the next event happens, for a driver that has a clock of its own. `None` if nothing is
    /// planned.
    #[must_use]
    pub fn next_at(&self) -> Option<Time> {
        self.pending.last().map(|&(at, ..)| at)
    }

    /// Nothing happens until `time`, which is now.
    pub fn reach(&mut self, time: Time) {
        self.now = self.now.max(time);
    }

    /// Time ended at `time`: what was waited for after that did not happen.
    pub(crate) fn end_at(&mut self, time: Time) {
        self.now = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Event(&'static str, Rank);
    impl Ranked for Event {
        fn rank(self) -> Rank {
            self.1
        }
    }

    fn core(planned: &[(u64, Event)]) -> Core<Event> {
        let mut core = Core::new(1);
        for &(at, event) in planned {
            core.plan(Time::from_nanos(at), event);
        }
        core
    }

    #[test]
    fn time_then_phase_then_place_then_plan_orders_events() {
        let arrives = Rank::new(Phase::Arrives, 1);
        let mut core = core(&[
            (5, Event("7th: chooses", Rank::new(Phase::Chooses, 0))),
            (5, Event("6th: serves", Rank::new(Phase::Serves, 0))),
            (5, Event("5th: arrives at place 1", arrives)),
            (3, Event("1st: earlier", Rank::new(Phase::Chooses, 2))),
            (5, Event("4th: arrives at place 0", Rank::new(Phase::Arrives, 0))),
            (5, Event("2nd: happens", Rank::HAPPENS)),
            (5, Event("3rd: happens", Rank::HAPPENS)),
        ]);
        let mut order = Vec::new();
        while let Some(event) = core.next() {
            order.push((core.now().as_nanos(), event.0));
        }
        let mut sorted = order.clone();
        sorted.sort_unstable_by_key(|&(_, name)| name);
        assert_eq!(order, sorted);
        assert_eq!(order.iter().map(|&(at, _)| at).collect::<Vec<_>>(), [3, 5, 5, 5, 5, 5, 5]);
    }

    #[test]
    fn at_the_limit_nothing_has_been_chosen() {
        let mut core = core(&[
            (5, Event("chooses", Rank::new(Phase::Chooses, 0))),
            (5, Event("serves", Rank::new(Phase::Serves, 0))),
            (4, Event("chooses before", Rank::new(Phase::Chooses, 0))),
        ]);
        let limit = Time::from_nanos(5);
        assert_eq!(core.next_at(), Some(Time::from_nanos(4)));
        let next = |core: &mut Core<Event>, limit| core.next_until(limit).map(|event| event.0);
        assert_eq!(next(&mut core, limit), Some("chooses before"));
        assert_eq!(next(&mut core, limit), Some("serves"));
        assert_eq!(next(&mut core, limit), None);
        core.reach(Time::from_nanos(3));
        assert_eq!(core.now(), limit, "time does not run back");
        assert_eq!(next(&mut core, Time::from_nanos(6)), Some("chooses"));
        core.reach(Time::from_nanos(6));
        assert_eq!((core.now(), core.next_at(), core.next()), (Time::from_nanos(6), None, None));
    }

    #[test]
    fn each_part_has_its_own_stream() {
        let core: Core<Event> = Core::new(3);
        let bits = |kind, part| core.random(kind, part).bits();
        assert_eq!(bits(1, 2), Random::new(3, (1 << 32) + 2).bits());
        assert_ne!(bits(1, 2), bits(1, 3));
        assert_ne!(bits(1, 2), bits(2, 2));
    }
}

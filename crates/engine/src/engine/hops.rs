//! [`Hops`]: copies that come back to the gateway that made them, whose rules take them again.

use alloc::collections::VecDeque;

use candor_causes::Cause;
use candor_time::Nanos;
use candor_wire::can::Frame;

use super::{Egress, Engine, Forward, Passage};
use crate::counters::Outcome;
use crate::program::JobIndex;
use crate::table::BusIndex;

/// How many copies may wait: more than one frame becomes, usually.
const MOST_HOPS: usize = 1_024;

/// A copy that has come back.
#[derive(Clone, Copy, Debug)]
pub struct Hop<T> {
    /// The bus whose rules are to decide about it.
    pub bus: BusIndex,
    /// The copy.
    pub frame: Frame,
    /// What it carries.
    pub passage: Passage,
    /// What was said of it to [`Hops::echo`].
    pub tag: T,
}

/// Copies that have come back and wait for rules, the oldest first. What a gateway sends with echo comes back: the rules
/// of that bus see it too.
///
/// There is room for 1,024; a copy beyond is refused as [`Cause::QueueFull`], for nobody's rules would see it.
#[derive(Debug)]
pub struct Hops<T = ()> {
    waiting: VecDeque<Hop<T>>,
}

impl<T> Default for Hops<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::with_capacity(MOST_HOPS) }
    }
}

impl<T: Clone> Hops<T> {
    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// An egress that hands copies to `egress`, and lets those that come back wait here with `tag`.
    #[inline]
    pub fn echo<'a, E: Egress>(
        &'a mut self,
        tag: &'a T,
        egress: &'a mut E,
    ) -> impl Egress + use<'a, T, E> {
        Echo { hops: self, tag, egress }
    }

    /// Has `decide` decide about each that waits, those included that come back meanwhile.
    pub fn follow(&mut self, mut decide: impl FnMut(Hop<T>, &mut Self)) {
        while let Some(hop) = self.waiting.pop_front() {
            decide(hop, self);
        }
    }
}

struct Echo<'a, T, E> {
    hops: &'a mut Hops<T>,
    tag: &'a T,
    egress: &'a mut E,
}

impl<T: Clone, E: Egress> Egress for Echo<'_, T, E> {
    #[inline]
    fn is_up(&self, bus: BusIndex) -> bool {
        self.egress.is_up(bus)
    }

    #[inline]
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        if copy.echo && self.hops.waiting.len() == MOST_HOPS {
            return Outcome::Refused(Cause::QueueFull);
        }
        let outcome = self.egress.forward(copy);
        if copy.echo && !matches!(outcome, Outcome::Refused(_)) {
            let (bus, frame, passage) = (copy.to, *copy.frame, copy.passage);
            self.hops.waiting.push_back(Hop { bus, frame, passage, tag: self.tag.clone() });
        }
        outcome
    }

    #[inline]
    fn refused(&mut self, job: JobIndex, cause: Cause) {
        self.egress.refused(job, cause);
    }
}

impl Engine {
    /// Decides about a frame fresh from `bus` as [`Engine::handle`] does, and then about each copy that comes back, all
    /// at `now`. For the engine of all buses of a gateway.
    pub fn follow(
        &mut self,
        now: Nanos,
        bus: BusIndex,
        frame: &Frame,
        hops: &mut Hops,
        egress: &mut impl Egress,
    ) {
        self.handle(now, bus, frame, Passage::received_on(bus), &mut hops.echo(&(), egress));
        hops.follow(|Hop { bus, frame, passage, tag }, hops| {
            self.handle(now, bus, &frame, passage, &mut hops.echo(&tag, egress));
        });
    }
}

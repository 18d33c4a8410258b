//! The event queue: what happens next in virtual time.
//!
//! The law of the event loop: **nothing is decided at an instant before everything of that instant
//! has happened.** So each kind of event has its [`Phase`], and events of one instant are taken by
//! phase. Whoever is ready at the instant at which a bus or a processor chooses takes part in the
//! choice, in whatever order the reasons for it were planned.

use candor_time::{Instant, Virtual};

/// A point in virtual time.
pub type Time = Instant<Virtual>;

/// Something that will happen. Indices are those of the world's vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A sender may release its next frame; the number tells stale wake-ups apart.
    Wake(u32, u32),
    /// A one-at-a-time sender may have waited long enough for its frame.
    Timeout(u32),
    /// The bus is idle and somebody may want it.
    Arbitrate(u32),
    /// The frame or the error frame on the bus is over.
    End(u32),
    /// The running piece of work of a host is done, unless it was preempted meanwhile.
    Done(u32, u32),
    /// The processor of a host chooses what to work on.
    Dispatch(u32),
    /// A host of constant delay passes on a frame.
    Emit(u32, u32),
    /// A host is disturbed: host and which interference.
    Disturb(u32, u32),
    /// An Ethernet packet reaches a host.
    Packet(u32),
    /// The driver of a controller has loaded the next frame.
    Reloaded(u32),
    /// The driver of a bus-off controller wants it back.
    Restart(u32),
    /// A controller comes back from bus-off, unless the silence was broken meanwhile.
    Recover(u32, u32),
}

/// When, among the events of one instant, an event is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Something comes into being, or a place becomes free: frames are released, work is done.
    Happens,
    /// Frames leave the bus and look for a place. After the above, so that a place that becomes
    /// free at this instant is there, and a frame that is released at this instant waits.
    Arrives,
    /// Processors choose their next piece of work.
    Serves,
    /// Buses choose their next frame. A frame takes time, so nothing follows from it at once.
    Arbitrates,
}

type Rank = (Phase, u32);

impl Event {
    /// The phase and, in phases where it matters who comes first, the bus or the host: then the order
    /// does not depend on how things were planned.
    const fn rank(self) -> Rank {
        match self {
            Self::Wake(..)
            | Self::Timeout(..)
            | Self::Done(..)
            | Self::Emit(..)
            | Self::Disturb(..)
            | Self::Packet(..)
            | Self::Reloaded(..)
            | Self::Restart(..)
            | Self::Recover(..) => (Phase::Happens, 0),
            Self::End(bus) => (Phase::Arrives, bus),
            Self::Dispatch(host) => (Phase::Serves, host),
            Self::Arbitrate(bus) => (Phase::Arbitrates, bus),
        }
    }
}

/// Events by time; those of one instant by phase, then by bus or host, then in the order in which they
/// were planned.
///
/// A sorted list, the next event last. Few events are pending at once (one per bus, processor and
/// sender), and most new ones are among the next to happen, so an insertion moves a few entries. A
/// binary heap took two fifths of the time of a simulated gateway.
#[derive(Default)]
pub(crate) struct Events {
    pending: Vec<(Time, Rank, Event)>,
}

impl Events {
    pub(crate) fn plan(&mut self, at: Time, event: Event) {
        let rank = event.rank();
        // In front of those of the same instant and rank: they were planned before and are taken
        // before.
        let is_later = |&(time, other, _): &(Time, Rank, Event)| (time, other) > (at, rank);
        let place = self.pending.partition_point(is_later);
        self.pending.insert(place, (at, rank, event));
    }

    pub(crate) fn next(&mut self) -> Option<(Time, Event)> {
        self.pending.pop().map(|(at, _, event)| (at, event))
    }

    /// The next event up to `limit`. At `limit` itself buses have not yet chosen: their arbitration
    /// is left for later.
    pub(crate) fn next_until(&mut self, limit: Time) -> Option<(Time, Event)> {
        let &(at, (phase, _), _) = self.pending.last()?;
        let is_due = at < limit || at == limit && phase < Phase::Arbitrates;
        if is_due { self.next() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_then_phase_then_place_orders_events() {
        let mut events = Events::default();
        for (at, event) in [
            (5, Event::Arbitrate(0)),
            (5, Event::Dispatch(0)),
            (5, Event::End(1)),
            (3, Event::Arbitrate(2)),
            (5, Event::End(0)),
            (5, Event::Wake(7, 0)),
            (5, Event::Done(0, 1)),
        ] {
            events.plan(Time::from_nanos(at), event);
        }
        let order: Vec<_> = std::iter::from_fn(|| events.next()).map(|(_, event)| event).collect();
        let expected = [
            Event::Arbitrate(2),
            Event::Wake(7, 0),
            Event::Done(0, 1),
            Event::End(0),
            Event::End(1),
            Event::Dispatch(0),
            Event::Arbitrate(0),
        ];
        assert_eq!(order, expected);
    }
}

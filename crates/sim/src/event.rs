//! The event queue: what happens next in virtual time.

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
    /// A host of constant delay passes on a frame.
    Emit(u32, u32),
    /// A host is disturbed: host and which interference.
    Disturb(u32, u32),
    /// An Ethernet packet reaches a host.
    Packet(u32),
    /// The driver of a controller has loaded the next frame.
    Reloaded(u32),
    /// A controller comes back from bus-off.
    Recover(u32),
}

/// Events by time; those of one instant in the order in which they were planned.
///
/// A sorted list, the next event last. Few events are pending at once (one per bus, processor and
/// sender), and most new ones are among the next to happen, so an insertion moves a few entries. A
/// binary heap took two fifths of the time of a simulated gateway.
#[derive(Default)]
pub(crate) struct Events {
    pending: Vec<(Time, Event)>,
}

impl Events {
    pub(crate) fn plan(&mut self, at: Time, event: Event) {
        // In front of those of the same instant: they were planned before and are taken before.
        let place = self.pending.partition_point(|&(planned, _)| planned > at);
        self.pending.insert(place, (at, event));
    }

    pub(crate) fn next(&mut self) -> Option<(Time, Event)> {
        self.pending.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_orders_events_and_planning_orders_instants() {
        let mut events = Events::default();
        events.plan(Time::from_nanos(5), Event::End(1));
        events.plan(Time::from_nanos(3), Event::End(2));
        events.plan(Time::from_nanos(5), Event::Arbitrate(0));
        let order: Vec<_> = std::iter::from_fn(|| events.next()).map(|(_, event)| event).collect();
        assert_eq!(order, [Event::End(2), Event::End(1), Event::Arbitrate(0)]);
    }
}

//! CAN controllers: transmit queues in front of nodes of a bus.

use candor_can::NodeId;
use candor_time::Nanos;

use super::ControllerConfig;
use super::queue::{Queue, Sending};
use crate::event::Time;

/// The slot of a frame that a medium carries.
pub(super) type Slot = u32;

pub(super) struct Controller {
    pub(super) bus: u32,
    /// Its place on the bus.
    pub(super) node: NodeId,
    pub(super) queue: Queue<Slot>,
    /// On the wire now.
    pub(super) sending: Option<Sending<Slot>>,
    /// The frame that its node wants to send.
    pub(super) requested: Option<Slot>,
    pub(super) is_bus_off: bool,
    /// How often it went bus-off.
    pub(super) bus_offs: u64,
    /// Until then its driver loads the next frame.
    pub(super) reloads_until: Time,
    pub(super) reload: Nanos,
    /// Whether it says what it receives.
    pub(super) is_listening: bool,
}

impl Controller {
    pub(super) fn new(bus: u32, node: NodeId, config: ControllerConfig) -> Self {
        Self {
            bus,
            node,
            queue: Queue::new(config.discipline, config.depth),
            sending: None,
            requested: None,
            is_bus_off: false,
            bus_offs: 0,
            reloads_until: Time::ZERO,
            reload: config.reload,
            is_listening: config.is_listening,
        }
    }

    /// The frame that its node is to send, if it is another one than its node has.
    #[inline]
    pub(super) fn to_request(&self) -> Option<Slot> {
        if self.is_bus_off || self.sending.is_some() {
            return None;
        }
        self.queue.first().filter(|&slot| self.requested != Some(slot))
    }

    /// Its node has begun to send its frame.
    #[inline]
    pub(super) fn start(&mut self) -> Option<Slot> {
        debug_assert!(self.sending.is_none(), "one frame at a time");
        self.sending = self.queue.take();
        self.on_wire()
    }

    /// The frame that it has on the wire.
    #[inline]
    pub(super) fn on_wire(&self) -> Option<Slot> {
        self.sending.as_ref().map(|sending| sending.item)
    }

    /// How many frames it holds.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.queue.len() + usize::from(self.sending.is_some())
    }

    /// A frame of its own was destroyed, and waits again. Its slot.
    pub(super) fn failed(&mut self) -> Option<Slot> {
        let sending = self.sending.take()?;
        let slot = sending.item;
        self.queue.put_back(sending);
        Some(slot)
    }

    /// A frame of its own got through. Its slot.
    #[inline]
    pub(super) fn sent(&mut self, now: Time) -> Option<Slot> {
        self.requested = None;
        self.reloads_until = now + self.reload;
        let sending = self.sending.take()?;
        Some(self.queue.release(&sending))
    }

    /// Its node is bus-off, and has forgotten what it wanted to send.
    pub(super) fn went_off(&mut self) {
        (self.is_bus_off, self.requested) = (true, None);
        self.bus_offs += 1;
    }
}

#[cfg(test)]
mod tests {
    use candor_queue::Discipline;

    use super::*;

    fn controller(discipline: Discipline) -> Controller {
        Controller::new(
            0,
            NodeId(0),
            ControllerConfig { discipline, depth: 8, ..Default::default() },
        )
    }

    #[test]
    fn a_fifo_retries_what_a_priority_queue_lets_wait() {
        for (discipline, second) in [(Discipline::Fifo, 1), (Discipline::Priority, 2)] {
            let mut controller = controller(discipline);
            controller.queue.push(50, 1).unwrap();
            assert_eq!(controller.start(), Some(1));
            controller.queue.push(10, 2).unwrap();
            controller.failed();
            assert_eq!(controller.start(), Some(second), "{discipline:?}");
        }
    }

    #[test]
    fn whatever_is_destroyed_waits_again_where_it_was() {
        for (discipline, order) in
            [(Discipline::Fifo, [1, 2, 3]), (Discipline::Priority, [3, 2, 1])]
        {
            let mut controller =
                Controller { queue: Queue::new(discipline, 2), ..controller(discipline) };
            controller.queue.push(50, 1).unwrap();
            controller.start();
            controller.queue.push(20, 2).unwrap();
            controller.failed();
            controller.start();
            // Its place went to another one, which is more urgent still: now there is one too many.
            controller.queue.push(10, 3).unwrap();
            controller.failed();
            assert_eq!((controller.queue.len(), controller.held()), (3, 3), "{discipline:?}");
            assert_eq!(controller.queue.push(5, 4), Err(4), "{discipline:?}");
            let sent = std::iter::from_fn(|| {
                controller.start()?;
                controller.sent(Time::ZERO)
            });
            assert_eq!(sent.collect::<Vec<_>>(), order, "{discipline:?}");
            assert_eq!(controller.held(), 0, "{discipline:?}");
        }
    }
}

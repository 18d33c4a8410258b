//! CAN controllers: transmit queue, error counters.

use candor_time::Nanos;
use candor_wire::can::{ErrorCounters, ErrorState};

use super::ControllerConfig;
use super::queue::{Queue, Sending};
use crate::event::Time;

/// The slot of a frame that a medium carries.
pub(super) type Slot = u32;

/// How far a bus-off controller is on its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BusOff {
    /// From when on it watches for recessive bits, because its driver wants it back; `None`: never.
    pub(super) watches_from: Option<Time>,
    /// Sequences of recessive bits that it has seen, before those of the present silence.
    pub(super) sequences: u32,
    /// Tells stale plans apart.
    pub(super) generation: u32,
}

pub(super) struct Controller {
    pub(super) bus: u32,
    pub(super) queue: Queue<Slot>,
    /// On the wire now.
    pub(super) sending: Option<Sending<Slot>>,
    pub(super) errors: ErrorCounters,
    pub(super) bus_off: Option<BusOff>,
    /// How often it went bus-off.
    pub(super) bus_offs: u64,
    /// It was error-passive when it sent the last frame: it sends no other before this time.
    pub(super) suspended_until: Time,
    /// The driver has yet to load the next frame.
    pub(super) is_reloading: bool,
    pub(super) reload: Nanos,
    pub(super) fault_rate: f64,
    /// Whether it says what it receives.
    pub(super) is_listening: bool,
}

impl Controller {
    pub(super) fn new(bus: u32, config: ControllerConfig) -> Self {
        Self {
            bus,
            queue: Queue::new(config.discipline, config.depth),
            sending: None,
            errors: ErrorCounters::default(),
            bus_off: None,
            bus_offs: 0,
            suspended_until: Time::ZERO,
            is_reloading: false,
            reload: config.reload,
            fault_rate: config.fault_rate,
            is_listening: config.is_listening,
        }
    }

    #[inline]
    pub(super) fn state(&self) -> ErrorState {
        if self.bus_off.is_some() { ErrorState::BusOff } else { self.errors.state() }
    }

    /// The arbitration key of the frame it would send now.
    #[inline]
    pub(super) fn offer(&self) -> Option<u32> {
        if self.bus_off.is_some() || self.is_reloading { None } else { self.queue.head() }
    }

    /// Takes the offered frame onto the wire.
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

    /// Counts a destroyed frame of its own, which will be sent again; whether its counter now takes it
    /// off the bus.
    pub(super) fn transmit_error(&mut self) -> bool {
        if let Some(sending) = self.sending.take() {
            self.queue.put_back(sending);
        }
        self.errors.transmit_error()
    }

    #[inline]
    pub(super) fn transmit_success(&mut self) -> Option<Slot> {
        self.errors.transmit_success();
        let sending = self.sending.take()?;
        Some(self.queue.release(&sending))
    }

    /// After 128 times 11 recessive bits.
    pub(super) fn recover(&mut self) {
        self.bus_off = None;
        self.errors = ErrorCounters::default();
    }
}

#[cfg(test)]
mod tests {
    use candor_queue::Discipline;

    use super::*;

    fn controller(discipline: Discipline) -> Controller {
        Controller::new(0, ControllerConfig { discipline, depth: 8, ..Default::default() })
    }

    #[test]
    fn a_fifo_retries_what_a_priority_queue_lets_wait() {
        for (discipline, second) in [(Discipline::Fifo, 1), (Discipline::Priority, 2)] {
            let mut controller = controller(discipline);
            controller.queue.push(50, 1).unwrap();
            assert_eq!(controller.start(), Some(1));
            controller.queue.push(10, 2).unwrap();
            assert!(!controller.transmit_error());
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
            controller.transmit_error();
            controller.start();
            // Its place went to another one, which is more urgent still: now there is one too many.
            controller.queue.push(10, 3).unwrap();
            controller.transmit_error();
            assert_eq!((controller.queue.len(), controller.held()), (3, 3), "{discipline:?}");
            assert_eq!(controller.queue.push(5, 4), Err(4), "{discipline:?}");
            let sent = std::iter::from_fn(|| {
                controller.start()?;
                controller.transmit_success()
            });
            assert_eq!(sent.collect::<Vec<_>>(), order, "{discipline:?}");
            assert_eq!(controller.held(), 0, "{discipline:?}");
        }
    }

    #[test]
    fn errors_lead_to_passive_and_bus_off_and_successes_back() {
        let mut controller = controller(Discipline::Fifo);
        let mut states = Vec::new();
        for round in 1..=32 {
            if round == 1 {
                controller.queue.push(1, round).unwrap();
            }
            assert_eq!(controller.start(), Some(1), "it is sent again and again");
            if controller.transmit_error() {
                let bus_off = BusOff { watches_from: None, sequences: 0, generation: 0 };
                controller.bus_off = Some(bus_off);
            }
            states.push(controller.state());
        }
        assert_eq!(states.iter().position(|&state| state == ErrorState::Passive), Some(15));
        assert_eq!(states.iter().position(|&state| state == ErrorState::BusOff), Some(31));
        assert_eq!(controller.offer(), None);
        controller.recover();
        assert_eq!((controller.state(), controller.errors.transmit), (ErrorState::Active, 0));
    }
}

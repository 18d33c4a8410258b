//! CAN controllers: transmit queue, receive FIFO, error counters.

use candor_queue::{ByPriority, Discipline, Fifo, Taken};

use crate::event::Time;
use crate::flight::FlightId;

/// The error state of a controller (ISO 11898-1, fault confinement).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorState {
    /// Both counters up to 127: signals errors with dominant flags.
    Active,
    /// A counter above 127: signals errors with recessive flags and pauses after sending.
    Passive,
    /// The transmit error counter above 255: off the bus.
    BusOff,
}

/// The frames that wait in front of the wire. A frame on the wire leaves its place to another; if it
/// is destroyed, it comes back to where it was, even if the queue has filled up meanwhile.
pub(crate) enum Queue {
    Fifo {
        waiting: Fifo<(u32, FlightId)>,
        /// Came back, and is first again.
        again: Option<(u32, FlightId)>,
    },
    Priority {
        /// With one place more than `depth`, for the frame that is on the wire.
        waiting: ByPriority<FlightId>,
        depth: usize,
    },
}

/// A frame taken out of its queue to be sent.
pub(crate) struct Sending {
    key: u32,
    flight: FlightId,
    /// Its place, in a queue by priority.
    place: Option<Taken<FlightId>>,
}

impl Queue {
    pub(crate) fn new(discipline: Discipline, depth: usize) -> Self {
        match discipline {
            Discipline::Fifo => Self::Fifo { waiting: Fifo::new(depth), again: None },
            Discipline::Priority => Self::Priority { waiting: ByPriority::new(depth + 1), depth },
        }
    }

    pub(crate) fn push(&mut self, key: u32, flight: FlightId) -> Result<(), FlightId> {
        if self.is_full() {
            return Err(flight);
        }
        match self {
            Self::Fifo { waiting, .. } => waiting.push((key, flight)).map_err(|(_, flight)| flight),
            Self::Priority { waiting, .. } => waiting.push(key, flight),
        }
    }

    /// Takes the first frame, to send it or for good.
    fn take(&mut self) -> Option<Sending> {
        match self {
            Self::Fifo { waiting, again } => {
                let (key, flight) = again.take().or_else(|| waiting.pop())?;
                Some(Sending { key, flight, place: None })
            }
            Self::Priority { waiting, .. } => {
                let (key, _) = waiting.peek()?;
                let place = waiting.take()?;
                Some(Sending { key, flight: place.item, place: Some(place) })
            }
        }
    }

    /// A frame was destroyed and waits again, before those that came after it.
    fn put_back(&mut self, sending: Sending) {
        match (self, sending.place) {
            (Self::Fifo { again, .. }, _) => *again = Some((sending.key, sending.flight)),
            (Self::Priority { waiting, .. }, Some(place)) => waiting.put_back(place),
            (Self::Priority { .. }, None) => debug_assert!(false, "it came out of another queue"),
        }
    }

    /// A frame that was taken does not come back.
    fn release(&mut self, sending: &Sending) -> FlightId {
        if let Self::Priority { waiting, .. } = self {
            waiting.give_up();
        }
        sending.flight
    }

    pub(crate) fn pop(&mut self) -> Option<FlightId> {
        let taken = self.take()?;
        Some(self.release(&taken))
    }

    /// The arbitration key of the first frame.
    pub(crate) fn head(&self) -> Option<u32> {
        match self {
            Self::Fifo { waiting, again } => {
                again.as_ref().or_else(|| waiting.peek()).map(|&(key, _)| key)
            }
            Self::Priority { waiting, .. } => waiting.peek().map(|(key, _)| key),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Fifo { waiting, again } => waiting.len() + usize::from(again.is_some()),
            Self::Priority { waiting, .. } => waiting.len(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Fifo { waiting, .. } => self.len() >= waiting.depth(),
            Self::Priority { depth, .. } => self.len() >= *depth,
        }
    }
}

/// Whom a controller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Sender(u32),
    /// A host and its port.
    Host(u32, u32),
    /// A program with a port of [`crate::port`].
    Program {
        /// Its sender, which has no source.
        sender: u32,
        /// Its place among such nodes.
        node: u32,
    },
    /// Acknowledges, and shows frames to the instrument.
    Listener,
}

/// How far a bus-off controller is on its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BusOff {
    /// From when on it watches for recessive bits, because its driver wants it back; `None`: never.
    pub(crate) watches_from: Option<Time>,
    /// Sequences of recessive bits that it has seen, before those of the present silence.
    pub(crate) sequences: u32,
    /// Tells stale plans apart.
    pub(crate) generation: u32,
}

pub(crate) struct Controller {
    pub(crate) bus: u32,
    pub(crate) owner: Owner,
    pub(crate) queue: Queue,
    /// On the wire now.
    pub(crate) sending: Option<Sending>,
    pub(crate) tec: u32,
    pub(crate) rec: u32,
    pub(crate) bus_off: Option<BusOff>,
    /// It was error-passive when it sent the last frame: it sends no other before this time.
    pub(crate) suspended_until: Time,
    /// The driver has yet to load the next frame.
    pub(crate) is_reloading: bool,
    pub(crate) fault_rate: f64,
}

impl Controller {
    pub(crate) fn state(&self) -> ErrorState {
        if self.bus_off.is_some() {
            ErrorState::BusOff
        } else if self.tec > 127 || self.rec > 127 {
            ErrorState::Passive
        } else {
            ErrorState::Active
        }
    }

    /// The arbitration key of the frame it would send now.
    pub(crate) fn offer(&self) -> Option<u32> {
        if self.bus_off.is_some() || self.is_reloading { None } else { self.queue.head() }
    }

    /// Takes the offered frame onto the wire.
    pub(crate) fn start(&mut self) -> Option<FlightId> {
        debug_assert!(self.sending.is_none(), "one frame at a time");
        self.sending = self.queue.take();
        self.on_wire()
    }

    /// The frame that it has on the wire.
    pub(crate) fn on_wire(&self) -> Option<FlightId> {
        self.sending.as_ref().map(|sending| sending.flight)
    }

    /// Transmit buffers in use.
    pub(crate) fn occupied(&self) -> usize {
        self.queue.len() + usize::from(self.sending.is_some())
    }

    /// Counts a destroyed frame of its own, which will be sent again; whether its counter now takes it
    /// off the bus.
    pub(crate) fn transmit_error(&mut self) -> bool {
        self.tec += 8;
        if let Some(sending) = self.sending.take() {
            self.queue.put_back(sending);
        }
        self.tec > 255
    }

    pub(crate) fn transmit_success(&mut self) -> Option<FlightId> {
        self.tec = self.tec.saturating_sub(1);
        let sending = self.sending.take()?;
        Some(self.queue.release(&sending))
    }

    pub(crate) fn receive_error(&mut self) {
        self.rec = (self.rec + 1).min(255);
    }

    /// After 128 times 11 recessive bits.
    pub(crate) fn recover(&mut self) {
        self.bus_off = None;
        self.tec = 0;
        self.rec = 0;
    }

    pub(crate) fn receive_success(&mut self) {
        // From passive the counter drops to between 119 and 127.
        self.rec = if self.rec > 127 { 127 } else { self.rec.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(discipline: Discipline) -> Controller {
        Controller {
            bus: 0,
            owner: Owner::Listener,
            queue: Queue::new(discipline, 8),
            sending: None,
            tec: 0,
            rec: 0,
            bus_off: None,
            suspended_until: Time::ZERO,
            is_reloading: false,
            fault_rate: 0.0,
        }
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
            assert_eq!((controller.queue.len(), controller.occupied()), (3, 3), "{discipline:?}");
            assert_eq!(controller.queue.push(5, 4), Err(4), "{discipline:?}");
            let sent = std::iter::from_fn(|| {
                controller.start()?;
                controller.transmit_success()
            });
            assert_eq!(sent.collect::<Vec<_>>(), order, "{discipline:?}");
            assert_eq!(controller.occupied(), 0, "{discipline:?}");
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
        assert_eq!((controller.state(), controller.tec), (ErrorState::Active, 0));
    }

    #[test]
    fn receive_errors_count_up_to_a_limit_and_down_again() {
        let mut controller = controller(Discipline::Fifo);
        for errors in 1..=300 {
            controller.receive_error();
            assert_eq!(controller.rec, errors.min(255));
            let state = if errors > 127 { ErrorState::Passive } else { ErrorState::Active };
            assert_eq!(controller.state(), state, "{errors} errors");
        }
        for rec in [127, 126, 125] {
            controller.receive_success();
            assert_eq!((controller.rec, controller.state()), (rec, ErrorState::Active));
        }
        controller.rec = 0;
        controller.receive_success();
        assert_eq!(controller.rec, 0);
    }
}

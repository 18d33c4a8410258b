//! CAN controllers: transmit queue, receive FIFO, error counters.

use candor_queue::{ByPriority, Fifo};

use crate::flight::FlightId;
use crate::model::Discipline;

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

pub(crate) enum Queue {
    Fifo(Fifo<(u32, FlightId)>),
    Priority(ByPriority<FlightId>),
}

impl Queue {
    pub(crate) fn new(discipline: Discipline, depth: usize) -> Self {
        match discipline {
            Discipline::Fifo => Self::Fifo(Fifo::new(depth)),
            Discipline::Priority => Self::Priority(ByPriority::new(depth)),
        }
    }

    pub(crate) fn push(&mut self, key: u32, flight: FlightId) -> Result<(), FlightId> {
        match self {
            Self::Fifo(queue) => queue.push((key, flight)).map_err(|(_, flight)| flight),
            Self::Priority(queue) => queue.push(key, flight),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<FlightId> {
        match self {
            Self::Fifo(queue) => queue.pop().map(|(_, flight)| flight),
            Self::Priority(queue) => queue.pop(),
        }
    }

    pub(crate) fn head(&self) -> Option<u32> {
        match self {
            Self::Fifo(queue) => queue.peek().map(|&(key, _)| key),
            Self::Priority(queue) => queue.peek().map(|(key, _)| key),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Fifo(queue) => queue.len(),
            Self::Priority(queue) => queue.len(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Fifo(queue) => queue.is_full(),
            Self::Priority(queue) => queue.is_full(),
        }
    }
}

/// Whom a controller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Sender(u32),
    /// A host and its port.
    Host(u32, u32),
    /// Acknowledges, and shows frames to the instrument.
    Listener,
}

pub(crate) struct Controller {
    pub(crate) bus: u32,
    pub(crate) owner: Owner,
    pub(crate) queue: Queue,
    /// On the wire now, with its arbitration key.
    pub(crate) sending: Option<(u32, FlightId)>,
    /// Destroyed by an error, to be sent again.
    pub(crate) again: Option<(u32, FlightId)>,
    /// Buffers whose transmission is over but not yet noticed by the driver.
    pub(crate) unacknowledged: usize,
    pub(crate) rx: Fifo<FlightId>,
    pub(crate) tec: u32,
    pub(crate) rec: u32,
    pub(crate) bus_off: bool,
    /// The driver has yet to load the next frame.
    pub(crate) is_reloading: bool,
    pub(crate) fault_rate: f64,
}

impl Controller {
    pub(crate) fn state(&self) -> ErrorState {
        if self.bus_off {
            ErrorState::BusOff
        } else if self.tec > 127 || self.rec > 127 {
            ErrorState::Passive
        } else {
            ErrorState::Active
        }
    }

    /// The arbitration key of the frame it would send now.
    pub(crate) fn offer(&self) -> Option<u32> {
        if self.bus_off || self.is_reloading {
            return None;
        }
        match (self.again, self.queue.head()) {
            (Some((again, _)), Some(head)) if matches!(self.queue, Queue::Priority(_)) => {
                Some(again.min(head))
            }
            (Some((again, _)), _) => Some(again),
            (None, head) => head,
        }
    }

    /// Takes the offered frame onto the wire.
    pub(crate) fn start(&mut self) -> Option<FlightId> {
        let key = self.offer()?;
        let flight = match self.again.take() {
            Some((again, flight)) if again == key => flight,
            other => {
                self.again = other;
                self.queue.pop()?
            }
        };
        self.sending = Some((key, flight));
        Some(flight)
    }

    /// Transmit buffers in use.
    pub(crate) fn occupied(&self) -> usize {
        self.queue.len()
            + usize::from(self.sending.is_some())
            + usize::from(self.again.is_some())
            + self.unacknowledged
    }

    /// Counts a destroyed frame of its own; whether that takes it off the bus.
    pub(crate) fn transmit_error(&mut self) -> bool {
        self.tec += 8;
        self.again = self.sending.take();
        if self.tec > 255 {
            self.bus_off = true;
        }
        self.bus_off
    }

    pub(crate) fn transmit_success(&mut self) -> Option<FlightId> {
        self.tec = self.tec.saturating_sub(1);
        self.sending.take().map(|(_, flight)| flight)
    }

    pub(crate) fn receive_error(&mut self) {
        self.rec = (self.rec + 1).min(255);
    }

    /// After 128 x 11 recessive bits.
    pub(crate) fn recover(&mut self) {
        self.bus_off = false;
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
            again: None,
            unacknowledged: 0,
            rx: Fifo::new(4),
            tec: 0,
            rec: 0,
            bus_off: false,
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
    fn errors_lead_to_passive_and_bus_off_and_successes_back() {
        let mut controller = controller(Discipline::Fifo);
        let mut states = Vec::new();
        for round in 1..=32 {
            controller.queue.push(1, round).unwrap();
            controller.again = None;
            controller.start();
            controller.transmit_error();
            states.push(controller.state());
        }
        assert_eq!(states.iter().position(|&state| state == ErrorState::Passive), Some(15));
        assert_eq!(states.iter().position(|&state| state == ErrorState::BusOff), Some(31));
        assert_eq!(controller.offer(), None);
        controller.recover();
        assert_eq!((controller.state(), controller.tec), (ErrorState::Active, 0));
    }
}

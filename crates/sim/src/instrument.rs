//! What the measuring computer makes of the wire: its stamps are taken in interrupt handlers, one
//! after the other.
//!
//! The papers' tester is a PC with one adapter of several controllers on one interrupt line. When
//! a frame ends, the handler first serves the controller that sent it (and loads the next frame,
//! if one waits), then the monitor, whose stamp is therefore late; the receiving side has its own
//! frame read and stamped in turn. Measured latencies are the differences of such stamps.

use candor_time::Nanos;

use crate::event::Time;

/// The costs of the measuring computer. All zero is an ideal instrument: stamps are wire times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instrument {
    /// From the interrupt line to the handler.
    pub interrupt: Nanos,
    /// Serving the transmit-complete interrupt of the sending controller.
    pub transmit_done: Nanos,
    /// Loading the next frame, if one waits.
    pub reload: Nanos,
    /// Reading a received frame; it is stamped then.
    pub read: Nanos,
}

/// An instrument at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measuring {
    costs: Instrument,
    busy_until: Time,
}

impl Measuring {
    pub(crate) fn new(costs: Instrument) -> Self {
        Self { costs, busy_until: Time::ZERO }
    }

    /// A frame of the tester itself ends at `now`: the stamp of the monitor.
    pub(crate) fn monitor(&mut self, now: Time, another_waits: bool) -> Time {
        let reload = if another_waits { self.costs.reload } else { Nanos::ZERO };
        self.stamp(now, self.costs.transmit_done + reload)
    }

    /// A frame of someone else ends at `now`: the stamp of the receiver.
    pub(crate) fn receive(&mut self, now: Time) -> Time {
        self.stamp(now, Nanos::ZERO)
    }

    fn stamp(&mut self, now: Time, first: Nanos) -> Time {
        let start = (now + self.costs.interrupt).max(self.busy_until);
        self.busy_until = start + first + self.costs.read;
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_queue_behind_one_another() {
        let us = Nanos::from_micros;
        let at = |micros| Time::ZERO + us(micros);
        let costs =
            Instrument { interrupt: us(2), transmit_done: us(3), reload: us(10), read: us(5) };
        let mut measuring = Measuring::new(costs);
        assert_eq!(measuring.monitor(at(0), false), at(10));
        assert_eq!(measuring.receive(at(1)), at(15));
        assert_eq!(measuring.monitor(at(100), true), at(120));
        let mut ideal = Measuring::new(Instrument::default());
        assert_eq!((ideal.monitor(at(7), true), ideal.receive(at(7))), (at(7), at(7)));
    }
}

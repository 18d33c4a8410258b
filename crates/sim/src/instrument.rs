//! What the measuring computer makes of the wire: its stamps are taken in interrupt handlers, one
//! after the other.
//!
//! The papers' tester is a PC with one adapter of several controllers on one interrupt line. When
//! a frame ends, the handler first serves the controller that sent it (and loads the next frame,
//! if one waits: until then the bus idles), then the monitor, whose stamp is therefore late; the receiving side has its own
//! frame read and stamped in turn. Measured latencies are the differences of such stamps.

use candor_time::Nanos;

use crate::event::{Random, Time};

/// The costs of the measuring computer. All zero is an ideal instrument: stamps are wire times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Instrument {
    /// From the interrupt line to the handler.
    pub interrupt: Nanos,
    /// Serving the transmit-complete interrupt of the sending controller.
    pub transmit_done: Nanos,
    /// Loading the next frame, if one waits.
    pub reload: Nanos,
    /// Reading a received frame; it is stamped then.
    pub read: Nanos,
    /// The largest delay of a stamp of the monitor while further frames wait to be sent. The delay is
    /// uniform.
    pub noise: Nanos,
    /// The share of these stamps, 0 to 1, that are later than that.
    pub late_share: f64,
    /// The largest delay of those stamps.
    pub late: Nanos,
}

/// An instrument at work.
#[derive(Clone, Debug)]
pub(crate) struct Measuring {
    costs: Instrument,
    busy_until: Time,
    random: Random,
}

impl Measuring {
    pub(crate) fn new(costs: Instrument, random: Random) -> Self {
        Self { costs, busy_until: Time::ZERO, random }
    }

    /// A frame of the tester itself ends at `now`: the stamp of the monitor.
    pub(crate) fn monitor(&mut self, now: Time, another_waits: bool) -> Time {
        let mut first = self.costs.transmit_done;
        if another_waits {
            first += self.costs.reload;
            let is_late = self.random.unit() < self.costs.late_share;
            let (from, to) = match is_late {
                true => (self.costs.noise, self.costs.late),
                false => (Nanos::ZERO, self.costs.noise),
            };
            first += self.random.nanos(from, to);
        }
        self.stamp(now, first)
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
        let costs = Instrument {
            interrupt: us(2),
            transmit_done: us(3),
            reload: us(10),
            read: us(5),
            ..Instrument::default()
        };
        let mut measuring = Measuring::new(costs, Random::new(1, 1));
        assert_eq!(measuring.monitor(at(0), false), at(10));
        assert_eq!(measuring.receive(at(1)), at(15));
        assert_eq!(measuring.monitor(at(100), true), at(120));
        let mut ideal = Measuring::new(Instrument::default(), Random::new(1, 1));
        assert_eq!((ideal.monitor(at(7), true), ideal.receive(at(7))), (at(7), at(7)));
    }
}

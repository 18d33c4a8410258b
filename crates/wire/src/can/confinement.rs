//! [`ErrorCounters`]: the error counters of a node and what follows from them (ISO 11898-1, fault confinement).
//!
//! | what happened | transmit | receive |
//! |---|---|---|
//! | a frame of its own got through | -1 | |
//! | a frame of its own was destroyed | +8 | |
//! | a frame of somebody else got through | | -1; from above 127 to 127 |
//! | a frame of somebody else was destroyed | | +1 |
//!
//! The receive counter stays at 255, as those of real controllers do: it decides nothing above 127.

/// The largest count at which a node is error-active.
const MOST_ACTIVE: u32 = 127;
/// The largest transmit count at which a node is on the bus.
const MOST_ON_BUS: u32 = 255;
/// The largest receive count.
const MOST_RECEIVE: u32 = 255;

/// The error state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorState {
    /// Both counters up to 127: it signals errors with dominant flags.
    Active,
    /// A counter above 127: it signals errors with recessive flags and pauses after sending.
    Passive,
    /// The transmit counter went above 255: off the bus.
    BusOff,
}

/// The error counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounters {
    /// Errors in frames of its own.
    pub transmit: u32,
    /// Errors in frames of others.
    pub receive: u32,
}

impl ErrorCounters {
    /// The state that they mean. A node that went bus-off stays so until it has recovered, whatever its counters are.
    #[must_use]
    #[inline]
    pub const fn state(self) -> ErrorState {
        if self.transmit > MOST_ON_BUS {
            ErrorState::BusOff
        } else if self.transmit > MOST_ACTIVE || self.receive > MOST_ACTIVE {
            ErrorState::Passive
        } else {
            ErrorState::Active
        }
    }

    /// A frame of its own got through.
    #[inline]
    pub const fn transmit_success(&mut self) {
        self.transmit = self.transmit.saturating_sub(1);
    }

    /// A frame of its own was destroyed; whether it goes bus-off.
    pub const fn transmit_error(&mut self) -> bool {
        self.transmit += 8;
        matches!(self.state(), ErrorState::BusOff)
    }

    /// A frame of somebody else got through.
    #[inline]
    pub const fn receive_success(&mut self) {
        // The standard lets the counter drop to a value between 119 and 127.
        self.receive =
            if self.receive > MOST_ACTIVE { MOST_ACTIVE } else { self.receive.saturating_sub(1) };
    }

    /// A frame of somebody else was destroyed.
    pub const fn receive_error(&mut self) {
        if self.receive < MOST_RECEIVE {
            self.receive += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_ones_own_lead_to_passive_and_bus_off() {
        let mut counters = ErrorCounters::default();
        for error in 1..=32 {
            assert_eq!(counters.transmit_error(), error == 32, "error {error}");
            let state = match error {
                ..16 => ErrorState::Active,
                16..32 => ErrorState::Passive,
                _ => ErrorState::BusOff,
            };
            assert_eq!((counters.state(), counters.transmit), (state, 8 * error));
        }
    }

    #[test]
    fn successes_of_ones_own_lead_back() {
        let mut counters = ErrorCounters { transmit: 129, receive: 0 };
        let states = [ErrorState::Passive, ErrorState::Active].map(|_| {
            counters.transmit_success();
            counters.state()
        });
        assert_eq!(states, [ErrorState::Passive, ErrorState::Active]);
        counters.transmit = 0;
        counters.transmit_success();
        assert_eq!(counters, ErrorCounters::default());
    }

    #[test]
    fn errors_of_others_count_up_to_a_limit_and_down_again() {
        let mut counters = ErrorCounters::default();
        for errors in 1..=300 {
            counters.receive_error();
            assert_eq!(counters.receive, errors.min(255));
            let state = if errors > 127 { ErrorState::Passive } else { ErrorState::Active };
            assert_eq!(counters.state(), state, "{errors} errors");
        }
        for receive in [127, 126, 125] {
            counters.receive_success();
            assert_eq!((counters.receive, counters.state()), (receive, ErrorState::Active));
        }
        counters.receive = 0;
        counters.receive_success();
        assert_eq!(counters, ErrorCounters::default());
    }
}

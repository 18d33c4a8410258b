//! [`Node`]: what a node of a bus remembers: the frame that it wants to send, and its error counters.

use candor_wire::can::{ErrorCounters, ErrorState, Frame};

/// Sequences of recessive bits after which a bus-off node takes part again (ISO 11898-1).
pub(crate) const RECOVERY_SEQUENCES: u32 = 128;

/// A frame that a node wants to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The frame.
    pub frame: Frame,
    /// Since when.
    pub at_ns: u64,
    /// Whether it is given up when it loses arbitration or is destroyed.
    pub is_single_shot: bool,
}

/// On which terms a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// Not at all: it is in reset, or absent.
    None,
    /// It reads, without acknowledging and without signalling errors.
    Listening,
    /// As every node does.
    Part,
}

/// A node that takes no part until it has seen enough recessive bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    /// Since when it counts recessive bits; `None`: it does not.
    pub(crate) watches_from_ns: Option<u64>,
    /// Sequences of 11 recessive bits that it has to see yet, those of the present silence included.
    pub(crate) missing: u32,
    /// Whether its error counter took it off the bus; else it has just been switched on.
    pub(crate) is_bus_off: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) taking: Taking,
    /// What it wants to send; stays until it was sent or given up.
    pub(crate) request: Option<Request>,
    pub(crate) errors: ErrorCounters,
    pub(crate) away: Option<Away>,
    /// It was error-passive when it last sent: it begins nothing before.
    pub(crate) suspended_until_ns: u64,
    /// Where in a bit it samples, in thousandths.
    pub(crate) sample_point_permille: u16,
}

impl Node {
    pub(crate) const NEW: Self = Self {
        taking: Taking::None,
        request: None,
        errors: ErrorCounters { transmit: 0, receive: 0 },
        away: None,
        suspended_until_ns: 0,
        sample_point_permille: 800,
    };

    pub(crate) fn state(&self) -> ErrorState {
        if self.away.is_some_and(|away| away.is_bus_off) {
            ErrorState::BusOff
        } else {
            self.errors.state()
        }
    }

    /// Whether it reads what is on the bus.
    pub(crate) fn reads(&self) -> bool {
        self.taking != Taking::None && self.away.is_none()
    }

    /// Whether it acknowledges frames and signals errors.
    pub(crate) fn acknowledges(&self) -> bool {
        self.taking == Taking::Part && self.away.is_none()
    }

    /// From when on it would begin to send; `None` if it has nothing, or may not.
    pub(crate) fn ready_at_ns(&self) -> Option<u64> {
        let request = self.request.filter(|_| self.acknowledges())?;
        Some(request.at_ns.max(self.suspended_until_ns))
    }

    /// A frame of its own got through.
    pub(crate) fn transmit_success(&mut self) {
        self.errors.transmit_success();
    }

    /// A frame of somebody else got through.
    pub(crate) fn receive_success(&mut self) {
        if self.taking == Taking::Part {
            self.errors.receive_success();
        }
    }

    /// An error in a frame of somebody else.
    pub(crate) fn receive_error(&mut self) {
        if self.taking == Taking::Part {
            self.errors.receive_error();
        }
    }

    /// It has seen the recessive bits that it waited for.
    pub(crate) fn come_back(&mut self) {
        if self.away.take().is_some_and(|away| away.is_bus_off) {
            self.errors = ErrorCounters::default();
        }
    }

    /// An error in a frame of its own; whether it goes bus-off.
    pub(crate) fn transmit_error(&mut self) -> bool {
        if !self.errors.transmit_error() {
            return false;
        }
        self.away =
            Some(Away { watches_from_ns: None, missing: RECOVERY_SEQUENCES, is_bus_off: true });
        self.request = None;
        true
    }
}

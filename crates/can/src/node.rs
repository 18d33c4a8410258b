//! [`Node`]: what a node of a bus remembers: the frame that it wants to send, its part in the frame on the wire, and its
//! error counters.

use candor_wire::can::bits::{Length, NotOnTheWire, length};
use candor_wire::can::{ErrorCounters, ErrorState, Frame};

use crate::error::Segment;

/// Sequences of recessive bits after which a bus-off node takes part again (ISO 11898-1, fault confinement).
pub(crate) const RECOVERY_SEQUENCES: u32 = 128;

/// A node of a bus, by its place in the slice of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A frame that a node wants to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    pub frame: Frame,
    /// Its length on the wire: what it has, or what a worst case gives it.
    pub length: Length,
    /// Since when.
    pub at_ns: u64,
    /// Whether it is given up when it loses arbitration or is destroyed.
    pub is_single_shot: bool,
}

impl Request {
    /// A frame that its node wants to send from `at_ns` on, until it was sent.
    ///
    /// # Errors
    /// An error report is no frame on the wire.
    #[inline]
    pub fn new(frame: Frame, at_ns: u64) -> Result<Self, NotOnTheWire> {
        let length = length(&frame)?;
        Ok(Self { frame, length, at_ns, is_single_shot: false })
    }
}

/// On which terms a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Participation {
    /// Not at all: it is in reset, or absent.
    None,
    /// It reads, without acknowledging and without signalling errors.
    Listening,
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

/// What a node does with the frame on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It reads it, if it takes part.
    Reads,
    Sends,
    /// It has begun to send another one and has lost arbitration, which it learns then.
    Loses {
        at_ns: u64,
        bit: u8,
    },
    /// It is error-passive and sends another one with the same identifier; it learns then that its bit was overridden.
    Overridden {
        at_ns: u64,
        segment: Segment,
    },
}

/// A node of a bus.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub(crate) taking: Participation,
    pub(crate) role: Role,
    /// What it wants to send; stays until it was sent or given up.
    pub(crate) request: Option<Request>,
    /// Since when it would begin to send: of its request, suspended and off the bus considered; `u64::MAX` if it would not.
    pub(crate) ready_at_ns: u64,
    pub(crate) errors: ErrorCounters,
    pub(crate) away: Option<Away>,
    /// It was error-passive when it last sent: it begins nothing before.
    pub(crate) suspended_until_ns: u64,
    /// Where in a bit it samples, in thousandths.
    pub(crate) sample_point_permille: u16,
}

impl Node {
    /// A node that takes no part yet: see [`crate::Bus::join`].
    pub const ABSENT: Self = Self {
        taking: Participation::None,
        role: Role::Reads,
        request: None,
        ready_at_ns: u64::MAX,
        errors: ErrorCounters { transmit: 0, receive: 0 },
        away: None,
        suspended_until_ns: 0,
        sample_point_permille: 800,
    };

    /// A node that has taken part for as long as the bus has been there.
    pub const TAKES_PART: Self = Self { taking: Participation::Part, ..Self::ABSENT };

    #[inline]
    pub(crate) fn state(&self) -> ErrorState {
        if self.is_bus_off() { ErrorState::BusOff } else { self.errors.state() }
    }

    #[inline]
    pub(crate) fn is_bus_off(&self) -> bool {
        self.away.is_some_and(|away| away.is_bus_off)
    }

    /// Whether it reads what is on the bus.
    #[inline]
    pub(crate) fn reads(&self) -> bool {
        self.taking != Participation::None && self.away.is_none()
    }

    /// Whether it acknowledges frames and signals errors.
    #[inline]
    pub(crate) fn acknowledges(&self) -> bool {
        self.taking == Participation::Part && self.away.is_none()
    }

    /// Its request, its suspension or its part on the bus has changed.
    #[inline]
    pub(crate) fn update_ready(&mut self) {
        self.ready_at_ns = match &self.request {
            Some(request) if self.acknowledges() => request.at_ns.max(self.suspended_until_ns),
            _ => u64::MAX,
        };
    }

    /// A frame of somebody else got through.
    #[inline]
    pub(crate) fn receive_success(&mut self) {
        if self.taking == Participation::Part {
            self.errors.receive_success();
        }
    }

    /// An error in a frame of somebody else.
    pub(crate) fn receive_error(&mut self) {
        if self.taking == Participation::Part {
            self.errors.receive_error();
        }
    }

    /// It has seen the recessive bits that it waited for.
    pub(crate) fn come_back(&mut self) {
        if self.away.take().is_some_and(|away| away.is_bus_off) {
            self.errors = ErrorCounters::default();
        }
        self.update_ready();
    }

    /// A single shot is not repeated.
    pub(crate) fn give_up_single_shot(&mut self) {
        self.request = self.request.filter(|request| !request.is_single_shot);
        self.update_ready();
    }

    /// An error in a frame of its own; whether it goes bus-off, and forgets its frame.
    pub(crate) fn transmit_error(&mut self) -> bool {
        if !self.errors.transmit_error() {
            return false;
        }
        self.go_off();
        true
    }

    pub(crate) fn go_off(&mut self) {
        self.away =
            Some(Away { watches_from_ns: None, missing: RECOVERY_SEQUENCES, is_bus_off: true });
        self.request = None;
        self.update_ready();
    }
}

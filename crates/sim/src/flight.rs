//! Frames on their way.

use candor_lat::Taps;
use candor_wire::can::Frame;
use candor_wire::can::bits::{Length, length, worst_length};

use crate::sender::Stuffing;

/// Which flight.
pub(crate) type FlightId = u32;

/// What a gateway wants remembered with a frame inside one host; its meaning is the gateway's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassageTag {
    /// The port the frame first came in on.
    pub origin: u32,
    /// How often it was passed on.
    pub hops: u8,
}

/// A frame on its way, or a copy of one.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    /// The number of the frame it began as, counted over all senders.
    pub(crate) identity: u64,
    pub(crate) sender: u32,
    /// The frame as it was sent.
    pub(crate) sent: Frame,
    /// The frame as it is now.
    pub(crate) frame: Frame,
    pub(crate) length: Length,
    pub(crate) stuffing: Stuffing,
    pub(crate) taps: Taps,
    pub(crate) leg: Leg,
}

/// How the flight came to its present bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    /// From its sender.
    Sent,
    /// Inside a host, received but not decided about.
    Received { passage: PassageTag },
    /// From a host, by a job of its rules.
    Forwarded { port: u32, job: u32, passage: PassageTag, echo: bool },
}

impl Flight {
    /// Replaces the frame, and with it the length on the wire.
    pub(crate) fn rewrite(&mut self, frame: &Frame) {
        if self.frame != *frame {
            self.length = wire_length(frame, self.stuffing);
        }
        self.frame = *frame;
    }
}

/// The length; zero for an error report, which senders and hosts keep off the wire.
pub(crate) fn wire_length(frame: &Frame, stuffing: Stuffing) -> Length {
    let length = match stuffing {
        Stuffing::Exact => length(frame),
        Stuffing::Worst => worst_length(frame),
    };
    length.unwrap_or(Length { nominal: 0, data: 0, stuff_bits: 0 })
}

/// All frames on their way: slots that are used again, so that memory follows how many are under
/// way at once and not how many there were.
#[derive(Default)]
pub(crate) struct Flights {
    slots: Vec<Flight>,
    /// Which slots hold a frame under way.
    is_live: Vec<bool>,
    free: Vec<FlightId>,
}

impl Flights {
    pub(crate) fn insert(&mut self, flight: Flight) -> FlightId {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = flight;
            self.is_live[id as usize] = true;
            return id;
        }
        self.slots.push(flight);
        self.is_live.push(true);
        (self.slots.len() - 1) as FlightId
    }

    pub(crate) fn remove(&mut self, id: FlightId) {
        let was_live = std::mem::replace(&mut self.is_live[id as usize], false);
        debug_assert!(was_live, "flight {id} ended twice");
        self.free.push(id);
    }

    pub(crate) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Those under way, wherever they are, in the order in which they were sent.
    pub(crate) fn all(&self) -> Vec<FlightId> {
        let is_live = |id: &FlightId| self.is_live[*id as usize];
        let mut all: Vec<_> = (0..self.slots.len() as FlightId).filter(is_live).collect();
        all.sort_by_key(|&id| self.slots[id as usize].identity);
        all
    }
}

impl std::ops::Index<FlightId> for Flights {
    type Output = Flight;
    fn index(&self, id: FlightId) -> &Flight {
        &self.slots[id as usize]
    }
}

impl std::ops::IndexMut<FlightId> for Flights {
    fn index_mut(&mut self, id: FlightId) -> &mut Flight {
        &mut self.slots[id as usize]
    }
}

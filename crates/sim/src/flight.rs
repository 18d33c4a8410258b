//! Frames on their way.

use candor_lat::Taps;
use candor_wire::can::Frame;
use candor_wire::can::bits::{Length, length, worst_length};

use crate::sender::Stuffing;
use crate::slab::Slab;

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// The number of the frame it began as, counted over all senders.
    pub(crate) identity: u64,
    pub(crate) sender: u32,
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

/// All frames on their way.
pub(crate) type Flights = Slab<Flight>;

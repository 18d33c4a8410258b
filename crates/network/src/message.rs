//! [`Message`]: what a node sends again and again.

use candor_time::Nanos;
use candor_wire::can::bits::worst_length;
use candor_wire::can::frame::{BRS, EFF_FLAG, EFF_MASK, SFF_MASK};
use candor_wire::can::{Frame, Timing};

/// A message that is sent again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its name, for people.
    pub name: String,
    /// The identifier word, as in SocketCAN.
    pub can_id: u32,
    /// Bytes of data; more than 8 only in a CAN FD frame.
    pub length: usize,
    /// The fewest bytes of data that a frame of it has; all have `length` if it is not given.
    pub min_length: Option<usize>,
    /// Whether its frames are CAN FD ones.
    pub is_fd: bool,
    /// Whether these switch to the bit rate of the data.
    pub has_brs: bool,
    /// From release to release.
    pub period: Nanos,
    /// The first release. If it is not given, experiments draw it within the period.
    pub offset: Option<Nanos>,
    /// Each release is late by up to this.
    pub jitter: Nanos,
    /// From the release until a frame must have arrived on every bus; the period if it is not given.
    pub deadline: Option<Nanos>,
    /// What is in its data.
    pub payload: Payload,
    /// The least times that somebody has seen from the end of a frame to that of the next one, of the one behind that, and so
    /// on; empty if nobody has looked.
    pub distances: Vec<Nanos>,
}

/// What is in the data of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// A rolling counter in the first byte, and bytes that drift, as signals do.
    #[default]
    Signals,
    /// Always these bytes.
    Bytes(Vec<u8>),
    /// Nobody knows, so that each frame has as many stuff bits as one of its length may have.
    Worst,
}

impl Message {
    /// From the release until a frame must have arrived on every bus.
    #[must_use]
    pub fn deadline(&self) -> Nanos {
        self.deadline.unwrap_or(self.period)
    }

    /// The frame with this data, of which it takes as many bytes as it has; `None` if no frame has such an
    /// identifier or length.
    #[must_use]
    pub fn frame(&self, data: &[u8; 64]) -> Option<Frame> {
        let fd_flags = self.is_fd.then_some(if self.has_brs { BRS } else { 0 });
        Frame::from_parts(self.can_id, data.get(..self.length)?, fd_flags).ok()
    }
}

/// The longest time that a frame of this kind, identifier format and length takes on a bus, intermission
/// included: with as many stuff bits as any such frame has. `None` for an error report.
#[must_use]
pub fn longest_transmission(frame: &Frame, timing: Timing) -> Option<Nanos> {
    let length = worst_length(frame).ok()?;
    Some(Nanos::from_nanos(timing.duration_ns(length)))
}

/// An identifier as files have it: `0x123`, or `0x18FEF100x` for an extended one.
#[must_use]
pub fn show_id(can_id: u32) -> String {
    if can_id & EFF_FLAG != 0 {
        format!("0x{:X}x", can_id & EFF_MASK)
    } else {
        format!("0x{:X}", can_id & SFF_MASK)
    }
}

//! What happens in a world, and its ranks.

use crate::can;
use crate::event::{Phase, Rank, Ranked};
use crate::flight::FlightId;

/// What happens in a world. Indices are those of the world's vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// On the buses.
    Can(can::Event),
    /// A sender may release its next frame; the number tells stale wake-ups apart.
    Wake(u32, u32),
    /// A one-at-a-time sender may have waited long enough for its frame.
    Timeout(u32),
    /// The running piece of work of a host is done, unless it was preempted meanwhile.
    Done(u32, u32),
    /// The processor of a host chooses what to work on.
    Dispatch(u32),
    /// A host of constant delay passes on a frame.
    Emit(u32, FlightId),
    /// A host is disturbed: host and which interference.
    Disturb(u32, u32),
    /// An Ethernet packet reaches a host.
    Packet(u32),
}

impl Ranked for Event {
    #[inline]
    fn rank(self) -> Rank {
        match self {
            Self::Can(event) => event.rank(),
            Self::Wake(..)
            | Self::Timeout(..)
            | Self::Done(..)
            | Self::Emit(..)
            | Self::Disturb(..)
            | Self::Packet(..) => Rank::HAPPENS,
            Self::Dispatch(host) => Rank::new(Phase::Serves, host),
        }
    }
}

impl From<can::Event> for Event {
    #[inline]
    fn from(event: can::Event) -> Self {
        Self::Can(event)
    }
}

//! What happens to senders and hosts, and its ranks.

use crate::event::{Phase, Rank, Ranked};
use crate::flight::FlightId;
use crate::media;

/// What happens in a world.
pub(super) type Event = media::Event<Part>;

/// What happens outside the media. Indices are those of the world's vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A sender may release its next frame; the number tells stale wake-ups apart.
    Wake(u32, u32),
    /// A one-at-a-time sender may have waited long enough for its frame.
    Timeout(u32),
    /// A sender at a link releases its next frame.
    LinkRelease(u32),
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

impl Ranked for Part {
    #[inline]
    fn rank(self) -> Rank {
        match self {
            Self::Wake(..)
            | Self::Timeout(..)
            | Self::LinkRelease(..)
            | Self::Done(..)
            | Self::Emit(..)
            | Self::Disturb(..)
            | Self::Packet(..) => Rank::HAPPENS,
            Self::Dispatch(host) => Rank::new(Phase::Serves, host),
        }
    }
}

impl From<Part> for Event {
    #[inline]
    fn from(part: Part) -> Self {
        Self::Part(part)
    }
}

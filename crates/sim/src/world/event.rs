//! The events of a world, and their ranks.

use crate::event::{Phase, Rank, Ranked};

/// Something that will happen. Indices are those of the world's vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A sender may release its next frame; the number tells stale wake-ups apart.
    Wake(u32, u32),
    /// A one-at-a-time sender may have waited long enough for its frame.
    Timeout(u32),
    /// The bus is idle and somebody may want it.
    Arbitrate(u32),
    /// The frame or the error frame on the bus is over.
    End(u32),
    /// The running piece of work of a host is done, unless it was preempted meanwhile.
    Done(u32, u32),
    /// The processor of a host chooses what to work on.
    Dispatch(u32),
    /// A host of constant delay passes on a frame.
    Emit(u32, u32),
    /// A host is disturbed: host and which interference.
    Disturb(u32, u32),
    /// An Ethernet packet reaches a host.
    Packet(u32),
    /// The driver of a controller has loaded the next frame.
    Reloaded(u32),
    /// The driver of a bus-off controller wants it back.
    Restart(u32),
    /// A controller comes back from bus-off, unless the silence was broken meanwhile.
    Recover(u32, u32),
}

impl Ranked for Event {
    #[inline]
    fn rank(self) -> Rank {
        match self {
            Self::Wake(..)
            | Self::Timeout(..)
            | Self::Done(..)
            | Self::Emit(..)
            | Self::Disturb(..)
            | Self::Packet(..)
            | Self::Reloaded(..)
            | Self::Restart(..)
            | Self::Recover(..) => Rank::HAPPENS,
            Self::End(bus) => Rank::new(Phase::Arrives, bus),
            Self::Dispatch(host) => Rank::new(Phase::Serves, host),
            Self::Arbitrate(bus) => Rank::new(Phase::Chooses, bus),
        }
    }
}

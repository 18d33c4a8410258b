//! Senders: who puts frames on a bus, and when.

use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::event::{Random, Time};
use crate::medium::ControllerId;
use candor_queue::Discipline;

/// A frame and when it shall be released.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// When; only a [`Drive::Timed`] sender looks at it. It never lies before the one before it.
    pub at: Time,
    pub frame: Frame,
    /// How many stuff bits it has.
    pub stuffing: Stuffing,
}

impl Release {
    /// A frame with the stuff bits of its bits.
    #[must_use]
    pub const fn new(at: Time, frame: Frame) -> Self {
        Self { at, frame, stuffing: Stuffing::Exact }
    }
}

/// How many stuff bits a frame has, and each copy of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stuffing {
    /// Those of its bits.
    #[default]
    Exact,
    /// As many as any frame of its kind, identifier format and length may have: what schedulability analysis
    /// assumes of a message with unknown data. A classical frame with a standard identifier and s bytes then
    /// takes 55 + 10 s bits, intermission included (Davis, Burns, Bril and Lukkien 2007).
    Worst,
}

/// Where a sender's frames come from, one after the other.
pub trait Source {
    /// The next frame, `None` after the last.
    fn next(&mut self) -> Option<Release>;
}

impl<F: FnMut() -> Option<Release>> Source for F {
    fn next(&mut self) -> Option<Release> {
        self()
    }
}

/// What makes a sender release its next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// The time in [`Release::at`].
    Timed,
    /// Room in its transmit queue: the bus is never left idle.
    Flood,
    /// The arrival of the frame before it on the far side, or the timeout after its release, and then a random turnaround.
    OneAtATime {
        /// Shortest and longest turnaround.
        turnaround: (Nanos, Nanos),
        /// How long to wait for a frame that does not come.
        timeout: Nanos,
    },
    /// The clock, with a period of this many percent of the duration of each frame: 200 loads the
    /// bus to one half.
    Paced {
        /// Percent of the duration of the frame just released.
        period_percent: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// What makes it release.
    pub drive: Drive,
    /// The order in its transmit queue.
    pub discipline: Discipline,
    /// The depth of that queue.
    pub depth: usize,
    /// How long its driver takes to load the next frame after one has left; the bus may idle that
    /// long. Zero for controllers with more than one transmit buffer.
    pub reload: Nanos,
    /// Probability that a frame it sends is destroyed by a fault of its own.
    pub fault_rate: f64,
}

pub(crate) struct Sender<S: ?Sized> {
    pub(crate) controller: ControllerId,
    pub(crate) drive: Drive,
    /// `None` for a node whose frames a program offers.
    pub(crate) source: Option<Box<S>>,
    pub(crate) random: Random,
    /// The frame to be released next.
    pub(crate) next: Option<Release>,
    /// The frame whose arrival a one-at-a-time sender awaits.
    pub(crate) awaited: Option<u64>,
    /// How long it waits for that frame. One timer is planned at most; it reads this when it expires.
    pub(crate) deadline: Time,
    pub(crate) has_timer: bool,
    /// Tells stale wake-ups apart.
    pub(crate) generation: u32,
    pub(crate) released: u64,
}

//! Time-triggered Ethernet on the interfaces of this machine: a generator that sends in schedule for end systems, a switch that
//! relays, an analyzer that receives. Each is a loop for a thread of its own.
//!
//! ```text
//!  Generator --> interface == interface --> Switch --> interface == interface --> Analyzer
//!      stamp ^                                                      ^ stamp
//! ```
//!
//! The queues and the schedule are those of the simulation: [`candor_tte::station`]. The cables are not: a pair of virtual
//! interfaces carries a frame at once, so the switch has a model of the links. A frame of an end system has come as
//! a whole when its transmission is over, and a frame leaves the switch when its last bit would reach the other
//! end. Then the stamps of the kernel, before the sender's interface and behind the receiver's, are as far apart as
//! the first bit out and the last bit in of real links.
//!
//! Latencies come from the kernel's stamps, never from the clock of a program. A thread that waits spins before its
//! instant, and notes when it was stopped meanwhile ([`Gaps`]): a frame whose step falls into a gap is
//! marked. Marks come from gaps only, not from latencies.

pub mod analysis;
pub mod analyzer;
mod feed;
pub mod generator;
pub mod join;
mod pace;
pub mod recorded;
pub mod switch;
pub mod synchronisation;

pub use pace::Warmer;

use candor_linux::Error;
use candor_linux::gaps::Gaps;
use candor_time::{Instant, Nanos, Realtime};

/// When the first cycle begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(pub Instant<Realtime>);

impl Epoch {
    /// The instant that is so far behind the begin of the first cycle.
    #[must_use]
    pub fn at(self, time: Nanos) -> Instant<Realtime> {
        self.0 + time
    }

    /// The first instant at or behind `instant` at which a cycle of the clock of this machine begins: cycles of a length
    /// follow one another from 1970 on. So programs that share a clock have the same cycles.
    #[must_use]
    pub fn of_the_clock(instant: Instant<Realtime>, cycle: Nanos) -> Self {
        let cycle_ns = cycle.as_nanos().max(1);
        Self(Instant::from_nanos(instant.as_nanos().div_ceil(cycle_ns) * cycle_ns))
    }

    /// How far an instant is behind the begin of the first cycle; zero before that.
    #[must_use]
    pub fn since(self, instant: Instant<Realtime>) -> Nanos {
        Nanos::from_nanos(instant.as_nanos().saturating_sub(self.0.as_nanos()))
    }
}

/// An interface that is down for a moment takes and brings nothing, and that is all.
fn unless_down<T>(outcome: Result<T, Error>, otherwise: T) -> Result<T, Error> {
    match outcome {
        Err(error) if error.is_down() => Ok(otherwise),
        outcome => outcome,
    }
}

/// When a thread that spins was stopped.
pub type Stops = Gaps<Realtime>;

//! What became of every frame, by cause.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::program::{JobIndex, Program};
use crate::table::BusIndex;

/// Why a copy of a frame was not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// It has passed the gateway as often as it may (the kernel counts it as deleted).
    HopLimit,
    /// After the edit its length is beyond what its kind of frame holds (deleted).
    TooLong,
    /// The destination is down (the kernel counts it as dropped).
    Down,
    /// It would leave on the interface it first came in on (the kernel does not count it).
    Returning,
    /// The egress queue is full (dropped).
    QueueFull,
    /// The destination does not carry this kind of frame (dropped).
    Unsupported,
}

impl Cause {
    /// All causes, in the order in which they are listed.
    pub const ALL: [Self; 6] = [
        Self::HopLimit,
        Self::TooLong,
        Self::Down,
        Self::Returning,
        Self::QueueFull,
        Self::Unsupported,
    ];

    /// The name in counters, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HopLimit => "hop_limit",
            Self::TooLong => "too_long",
            Self::Down => "down",
            Self::Returning => "returning",
            Self::QueueFull => "queue_full",
            Self::Unsupported => "unsupported",
        }
    }
}

/// The counters of one job: a rule and one of its destinations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounters {
    /// Copies the destination's queue took. Handled is not yet transmitted.
    pub handled: u64,
    /// Copies whose fate the destination has not told yet.
    pub pending: u64,
    refused: [u64; Cause::ALL.len()],
}

impl JobCounters {
    /// Copies refused for `cause`.
    #[must_use]
    pub const fn refused(&self, cause: Cause) -> u64 {
        self.refused[cause as usize]
    }

    /// What the kernel reports as dropped.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.refused(Cause::Down)
            + self.refused(Cause::QueueFull)
            + self.refused(Cause::Unsupported)
    }

    /// What the kernel reports as deleted.
    #[must_use]
    pub const fn deleted(&self) -> u64 {
        self.refused(Cause::HopLimit) + self.refused(Cause::TooLong)
    }

    /// All copies this job was asked for: handled, pending and refused.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.handled + self.pending + self.refused.iter().sum::<u64>()
    }
}

/// The counters of one bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounters {
    /// Frames that came in.
    pub received: u64,
    /// Frames of these that no rule took.
    pub unmatched: u64,
}

/// What became of the copy of a frame that a destination was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its queue took it.
    Handled,
    /// It refused, and why.
    Refused(Cause),
    /// It will tell later, by [`Counters::settle`].
    Pending,
}

/// All counters of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Handled copies per job; apart from the rest, so that the usual case touches few bytes.
    handled: Box<[u64]>,
    /// Everything but `handled`.
    others: Box<[JobCounters]>,
    buses: Box<[BusCounters]>,
}

impl Counters {
    pub(crate) fn new(program: &Program) -> Self {
        Self {
            handled: program.jobs().iter().map(|_| 0).collect(),
            others: program.jobs().iter().map(|_| JobCounters::default()).collect(),
            buses: program.buses().iter().map(|_| BusCounters::default()).collect(),
        }
    }

    /// Per job, in the order of [`Program::jobs`]: a snapshot.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobCounters> {
        let both = self.handled.iter().zip(&self.others);
        both.map(|(&handled, others)| JobCounters { handled, ..*others }).collect()
    }

    /// Per bus, in the order of [`Program::buses`].
    #[must_use]
    pub fn buses(&self) -> &[BusCounters] {
        &self.buses
    }

    #[inline]
    pub(crate) fn count(&mut self, job: JobIndex, outcome: Outcome) {
        match outcome {
            Outcome::Handled => {
                if let Some(handled) = self.handled.get_mut(job.0 as usize) {
                    *handled += 1;
                }
            }
            other => self.count_other(job, other),
        }
    }

    #[cold]
    fn count_other(&mut self, job: JobIndex, outcome: Outcome) {
        let Some(counters) = self.others.get_mut(job.0 as usize) else { return };
        match outcome {
            Outcome::Handled => {}
            Outcome::Pending => counters.pending += 1,
            Outcome::Refused(cause) => counters.refused[cause as usize] += 1,
        }
    }

    /// Tells the fate of a copy that was [`Outcome::Pending`].
    pub fn settle(&mut self, job: JobIndex, outcome: Outcome) {
        if let Some(counters) = self.others.get_mut(job.0 as usize) {
            debug_assert!(counters.pending > 0, "nothing is pending");
            counters.pending = counters.pending.saturating_sub(1);
        }
        self.count(job, outcome);
    }

    #[inline]
    pub(crate) fn received(&mut self, bus: BusIndex, matched: bool) {
        if let Some(counters) = self.buses.get_mut(usize::from(bus.0)) {
            counters.received += 1;
            if !matched {
                counters.unmatched += 1;
            }
        }
    }
}

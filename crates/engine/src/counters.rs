//! What became of every frame, by cause.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering;

use candor_causes::Cause;
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicU64;

use crate::program::{JobIndex, Program};
use crate::table::BusIndex;

/// The causes that can stop a copy of a frame, each with a counter per job; in the order in which they are
/// listed. Whatever else a destination may say counts as [`Cause::Unexplained`].
pub const CAUSES: [Cause; 14] = [
    Cause::HopLimit,
    Cause::TooLong,
    Cause::Down,
    Cause::Returning,
    Cause::QueueFull,
    Cause::Unsupported,
    Cause::Stale,
    Cause::Rate,
    Cause::Sampled,
    Cause::Unchanged,
    Cause::TooShort,
    Cause::OutOfRange,
    Cause::Unmapped,
    Cause::Unconvertible,
];

/// A number for each of [`CAUSES`], and one for all others.
type PerCause<T> = [T; CAUSES.len() + 1];

/// Where the number of a cause stands in a [`PerCause`].
const fn slot(cause: Cause) -> usize {
    const SLOTS: [usize; Cause::ALL.len()] = {
        let mut slots = [CAUSES.len(); Cause::ALL.len()];
        let mut slot = 0;
        while slot < CAUSES.len() {
            slots[CAUSES[slot] as usize] = slot;
            slot += 1;
        }
        slots
    };
    SLOTS[cause as usize]
}

/// The counters of one job: a rule and one of its destinations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounters {
    /// Copies the destination's queue took. Handled is not yet transmitted.
    pub handled: u64,
    /// Copies whose fate the destination has not reported yet.
    pub pending: u64,
    refused: PerCause<u64>,
}

impl core::ops::AddAssign for JobCounters {
    fn add_assign(&mut self, more: Self) {
        self.handled += more.handled;
        self.pending += more.pending;
        for (sum, more) in self.refused.iter_mut().zip(more.refused) {
            *sum += more;
        }
    }
}

impl core::ops::AddAssign for BusCounters {
    fn add_assign(&mut self, more: Self) {
        self.received += more.received;
        self.unmatched += more.unmatched;
    }
}

impl JobCounters {
    /// Copies refused for `cause`.
    #[must_use]
    pub fn refused(&self, cause: Cause) -> u64 {
        self.refusals().find(|(counted, _)| *counted == cause).map_or(0, |(_, copies)| copies)
    }

    /// Copies refused, by cause; most of the numbers are 0.
    pub fn refusals(&self) -> impl Iterator<Item = (Cause, u64)> {
        CAUSES.into_iter().chain([Cause::Unexplained]).zip(self.refused)
    }

    /// What the kernel reports as dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.refused(Cause::Down)
            + self.refused(Cause::QueueFull)
            + self.refused(Cause::Unsupported)
    }

    /// What the kernel reports as deleted.
    #[must_use]
    pub fn deleted(&self) -> u64 {
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

/// A number that one thread counts and others read.
#[derive(Debug, Default)]
struct CounterCell(AtomicU64);

impl CounterCell {
    #[inline]
    fn add(&self, more: u64) {
        // There is one writer, so nothing is lost in between, and no locked instruction is needed.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is seldom counted of a job.
#[derive(Debug, Default)]
struct Others {
    /// All that were ever pending.
    pending: CounterCell,
    refused: PerCause<CounterCell>,
}

/// What is reported later of the pending copies of a job, by whichever threads.
#[derive(Debug, Default)]
struct SettledCopies {
    handled: AtomicU64,
    refused: PerCause<AtomicU64>,
}

#[derive(Debug, Default)]
struct BusCells {
    received: CounterCell,
    unmatched: CounterCell,
}

/// All counters of an engine. A clone shows the same counters, wherever the engine is: only the
/// engine counts.
#[derive(Clone, Debug)]
pub struct Counters(Arc<Cells>);

#[derive(Debug)]
struct Cells {
    /// Handled copies per job; apart from the rest, so that the usual case touches few bytes.
    handled: Box<[CounterCell]>,
    /// Everything but `handled`.
    others: Box<[Others]>,
    settled: Box<[SettledCopies]>,
    buses: Box<[BusCells]>,
}

impl Counters {
    /// All at zero.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        Self(Arc::new(Cells {
            handled: program.jobs().iter().map(|_| CounterCell::default()).collect(),
            others: program.jobs().iter().map(|_| Others::default()).collect(),
            settled: program.jobs().iter().map(|_| SettledCopies::default()).collect(),
            buses: program.buses().iter().map(|_| BusCells::default()).collect(),
        }))
    }

    /// Per job, in the order of [`Program::jobs`]: a snapshot.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobCounters> {
        let cells = self.0.handled.iter().zip(&self.0.others).zip(&self.0.settled);
        cells
            .map(|((handled, others), settled)| {
                // What is settled is read first: it never exceeds what was pending by then.
                let of = |cells: &PerCause<CounterCell>, cause: usize| {
                    cells.get(cause).map_or(0, CounterCell::get)
                };
                let late = settled.handled.load(Ordering::Relaxed);
                let late_refused = settled.refused.each_ref().map(|it| it.load(Ordering::Relaxed));
                let reported = late + late_refused.iter().sum::<u64>();
                JobCounters {
                    handled: handled.get() + late,
                    pending: others.pending.get().saturating_sub(reported),
                    refused: core::array::from_fn(|cause| {
                        of(&others.refused, cause)
                            + late_refused.get(cause).copied().unwrap_or_default()
                    }),
                }
            })
            .collect()
    }

    /// Per bus, in the order of [`Program::buses`]: a snapshot.
    #[must_use]
    pub fn buses(&self) -> Vec<BusCounters> {
        let counters = |bus: &BusCells| BusCounters {
            received: bus.received.get(),
            unmatched: bus.unmatched.get(),
        };
        self.0.buses.iter().map(counters).collect()
    }

    #[inline]
    pub(crate) fn count(&self, job: JobIndex, outcome: Outcome) {
        match outcome {
            Outcome::Handled => {
                if let Some(handled) = self.0.handled.get(job.0 as usize) {
                    handled.add(1);
                }
            }
            other => self.count_other(job, other),
        }
    }

    #[cold]
    fn count_other(&self, job: JobIndex, outcome: Outcome) {
        let Some(counters) = self.0.others.get(job.0 as usize) else { return };
        match outcome {
            Outcome::Handled => {}
            Outcome::Pending => counters.pending.add(1),
            Outcome::Refused(cause) => counters.refused[slot(cause)].add(1),
        }
    }

    /// Tells the fate of a copy that was [`Outcome::Pending`]. Any thread may, several at once too.
    pub fn settle(&self, job: JobIndex, outcome: Outcome) {
        let Some(settled) = self.0.settled.get(job.0 as usize) else { return };
        let count = match outcome {
            Outcome::Handled => &settled.handled,
            Outcome::Refused(cause) => &settled.refused[slot(cause)],
            Outcome::Pending => return,
        };
        // Copies that waited take a slow path anyway, so a locked addition costs nothing that counts.
        count.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn received(&self, bus: BusIndex, matched: bool) {
        if let Some(counters) = self.0.buses.get(usize::from(bus.0)) {
            counters.received.add(1);
            if !matched {
                counters.unmatched.add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up() {
        let job = |factor: u64| JobCounters {
            handled: factor,
            pending: 10 * factor,
            refused: core::array::from_fn(|slot| factor * (100 + slot as u64)),
        };
        let mut sum = job(2);
        sum += job(3);
        assert_eq!(sum, job(5));

        let mut sum = BusCounters { received: 7, unmatched: 2 };
        sum += BusCounters { received: 5, unmatched: 3 };
        assert_eq!(sum, BusCounters { received: 12, unmatched: 5 });
    }

    #[test]
    fn each_cause_has_a_counter() {
        for (place, cause) in CAUSES.into_iter().enumerate() {
            assert_eq!(slot(cause), place, "{cause:?}");
        }
        // No copy has this cause, and yet it is not lost.
        let mut job = JobCounters::default();
        job.refused[slot(Cause::NoRule)] = 3;
        assert_eq!(job.refusals().last(), Some((Cause::Unexplained, 3)));
        assert_eq!(Cause::ALL.map(|cause| job.refused(cause)).iter().sum::<u64>(), job.total());
    }

    /// As `cangw -L` prints them (`cgw_job` of `net/can/gw.c`).
    #[test]
    fn the_kernels_two_counters_have_their_causes() {
        for cause in CAUSES {
            let mut job = JobCounters { handled: 1, ..JobCounters::default() };
            job.refused[slot(cause)] = 4;
            let (dropped, deleted) = match cause {
                Cause::Down | Cause::QueueFull | Cause::Unsupported => (4, 0),
                Cause::HopLimit | Cause::TooLong => (0, 4),
                _ => (0, 0),
            };
            assert_eq!((job.dropped(), job.deleted(), job.total()), (dropped, deleted, 5));
        }
    }

    #[test]
    fn copies_that_wait_count_among_all() {
        let mut job = JobCounters { handled: 5, pending: 3, ..JobCounters::default() };
        job.refused[0] = 1;
        assert_eq!(job.total(), 9);
    }
}

//! One processor with preemption: pieces of work at four levels, the higher one first.

use candor_time::Nanos;

use super::Interrupt;
use crate::event::Time;

pub(crate) const LEVELS: usize = 4;

/// Interrupts that nothing preempts.
pub(crate) const HARD: usize = 3;

/// A piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Interrupt(Interrupt),
    /// From the interrupt into the soft-irq.
    SoftEntry,
    /// The soft-irq reads a frame from the controller of a port.
    PollRead(u32),
    /// The soft-irq serves an Ethernet packet.
    Packet,
    /// The soft-irq (or the process) walks the filters and passes on the next copy; without
    /// another copy, the rest of the walk.
    Deliver,
    /// A frame goes into the socket of the process.
    Socket(u32),
    /// The process receives a frame.
    UserRecv,
    /// The process passes on the next copy.
    UserSend,
}

/// A piece of work in progress.
#[derive(Clone, Copy, Debug)]
struct Slice {
    work: Work,
    left: Nanos,
    /// How much work lies behind the point of decision, and when that point was passed.
    behind_mark: Nanos,
    marked: Option<Time>,
}

impl Slice {
    /// Works until `now`, having begun or resumed at `since`.
    fn advance(&mut self, since: Time, now: Time) {
        let left = self.left - (now - since);
        if self.marked.is_none() && left <= self.behind_mark {
            self.marked = Some(since + (self.left - self.behind_mark));
        }
        self.left = left;
    }
}

/// Which level of work runs at which level of the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    pub(crate) device: usize,
    pub(crate) soft: usize,
    pub(crate) user: usize,
}

/// The processor.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub(crate) levels: Levels,
    running: Option<(usize, Time)>,
    slices: [Option<Slice>; LEVELS],
    generation: u32,
}

impl Cpu {
    pub(crate) fn new(is_preempt_rt: bool) -> Self {
        let levels = if is_preempt_rt {
            Levels { device: 1, soft: 0, user: 2 }
        } else {
            Levels { device: HARD, soft: 1, user: 0 }
        };
        Self { levels, running: None, slices: [None; LEVELS], generation: 0 }
    }

    /// The level at which something runs.
    pub(crate) fn running(&self) -> Option<usize> {
        self.running.map(|(level, _)| level)
    }

    /// Whether a level has work begun and not finished.
    pub(crate) fn has_begun(&self, level: usize) -> bool {
        self.slices[level].is_some()
    }

    /// Begins `work` at `level`, to be run when [`Cpu::run`] says so.
    pub(crate) fn begin(&mut self, level: usize, work: Work, cost: Nanos, behind_mark: Nanos) {
        debug_assert!(self.slices[level].is_none(), "level {level} is busy");
        self.slices[level] = Some(Slice { work, left: cost, behind_mark, marked: None });
    }

    /// Runs `level` from `now` on, suspending what ran before. Returns when it will be done if
    /// nothing comes between, and the generation that the event must carry.
    pub(crate) fn run(&mut self, level: usize, now: Time) -> Option<(Time, u32)> {
        if let Some((running, since)) = self.running.replace((level, now))
            && let Some(slice) = &mut self.slices[running]
        {
            slice.advance(since, now);
        }
        self.generation = self.generation.wrapping_add(1);
        self.slices[level].map(|slice| (now + slice.left, self.generation))
    }

    /// The running work is done, if the event is not stale: its level, the work, and when the
    /// point of decision was passed.
    pub(crate) fn finish(&mut self, now: Time, generation: u32) -> Option<(usize, Work, Time)> {
        if generation != self.generation {
            return None;
        }
        let (level, since) = self.running.take()?;
        let mut slice = self.slices[level].take()?;
        slice.advance(since, now);
        debug_assert_eq!(slice.left, Nanos::ZERO);
        Some((level, slice.work, slice.marked.unwrap_or(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_suspended_and_resumed() {
        let ns = Nanos::from_nanos;
        let at = Time::from_nanos;
        let mut cpu = Cpu::new(false);
        cpu.begin(1, Work::SoftEntry, ns(100), ns(30));
        let (done, first) = cpu.run(1, at(0)).unwrap();
        assert_eq!(done, at(100));
        // An interrupt of 50 ns at 80 ns: the point of decision at 70 ns is behind.
        cpu.begin(HARD, Work::Packet, ns(50), Nanos::ZERO);
        let (done, second) = cpu.run(HARD, at(80)).unwrap();
        assert_eq!(done, at(130));
        assert!(cpu.finish(at(100), first).is_none(), "a stale event");
        assert_eq!(cpu.finish(at(130), second), Some((HARD, Work::Packet, at(130))));
        let (done, third) = cpu.run(1, at(130)).unwrap();
        assert_eq!(done, at(150));
        assert_eq!(cpu.finish(at(150), third), Some((1, Work::SoftEntry, at(70))));
    }
}

//! Rules and their jobs, as the hot path needs them.

use alloc::string::String;

use candor_wire::can::Frame;

use crate::table::{BusIndex, Gate, Rule};

/// A rule as the hot path needs it: in eight bytes, so that thousands fit the nearest cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    pub(crate) first_job: u32,
    pub(crate) job_count: u16,
    /// 0 for none.
    pub(crate) limit_hops: u8,
    pub(crate) flags: u8,
}

const _: () = assert!(size_of::<Compiled>() == 8);

impl Compiled {
    pub(crate) const CLASSICAL: u8 = 1;
    pub(crate) const FD: u8 = 2;
    pub(crate) const ECHO: u8 = 4;
    pub(crate) const KEEP_TIMESTAMP: u8 = 8;
    pub(crate) const ALLOW_RETURN: u8 = 16;
    /// `Program::except` has filters of it.
    pub(crate) const EXCEPT: u8 = 32;
    /// `Program::edits` has its edit; else frames pass as they are.
    pub(crate) const EDIT: u8 = 64;
    /// `Program::extension` has something for it.
    pub(crate) const EXTENSION: u8 = 128;

    pub(super) fn new(rule: &Rule, jobs: core::ops::Range<usize>) -> Self {
        let gate = match rule.gate {
            Gate::Classical => Self::CLASSICAL,
            Gate::Fd => Self::FD,
            Gate::Any => Self::CLASSICAL | Self::FD,
        };
        let flags = [
            (rule.echo, Self::ECHO),
            (rule.keep_timestamp, Self::KEEP_TIMESTAMP),
            (rule.allow_return, Self::ALLOW_RETURN),
            (!rule.except.is_empty(), Self::EXCEPT),
            (rule.edit.modifies(), Self::EDIT),
            (!rule.extension.is_empty(), Self::EXTENSION),
        ];
        Self {
            first_job: jobs.start as u32,
            job_count: jobs.len() as u16,
            limit_hops: rule.limit_hops.unwrap_or(0),
            flags: flags.iter().filter(|(set, _)| *set).fold(gate, |all, (_, flag)| all | flag),
        }
    }

    #[inline]
    pub(crate) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(crate) const fn takes(self, frame: &Frame) -> bool {
        self.has(if frame.is_fd() { Self::FD } else { Self::CLASSICAL })
    }

    #[inline]
    pub(crate) const fn echo(self) -> bool {
        self.has(Self::ECHO)
    }

    #[inline]
    pub(crate) const fn keep_timestamp(self) -> bool {
        self.has(Self::KEEP_TIMESTAMP)
    }

    #[inline]
    pub(crate) const fn allow_return(self) -> bool {
        self.has(Self::ALLOW_RETURN)
    }

    /// Its job, if it passes frames as they are to a single destination.
    #[inline]
    pub(crate) fn only_job(self) -> Option<u32> {
        let is_plain = self.job_count == 1 && self.flags & (Self::EDIT | Self::EXTENSION) == 0;
        is_plain.then_some(self.first_job)
    }

    #[inline]
    pub(crate) const fn is_extended(self) -> bool {
        self.has(Self::EXTENSION)
    }

    /// Its jobs, one per destination.
    #[inline]
    pub(crate) fn jobs(self) -> core::ops::Range<u32> {
        self.first_job..self.first_job + u32::from(self.job_count)
    }
}

/// One destination of a rule: what the kernel calls a job, with counters of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The rule's name.
    pub rule: String,
    /// The rule's place in its table.
    pub rule_index: u32,
    /// Where frames come from.
    pub from: BusIndex,
    /// Where copies go.
    pub to: BusIndex,
    /// Whether the rule rewrites the frame.
    pub modifies: bool,
}

/// Which job of a program; see [`Program::jobs`](super::Program::jobs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobIndex(pub u32);

//! Takes the records of a simulation: how each frame ended, and what the result needs of it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;

use candor_causes::{Cause, Ending, Endings};
use candor_lat::{Tap, TapPath};
use candor_sim::{Fate, Observer, Record, Time};
use candor_time::Nanos;

use crate::builder::{Copied, ResultBuilder, Sight};
use crate::doubt::Waits;
use crate::messages::Messages;
use crate::runner::Watch;

/// What the rules are to the frames of an experiment.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) has_gateway: bool,
    /// What no rule takes is refused.
    pub(super) is_allow_list: bool,
}

/// How each frame ended: a byte per frame, since a copy may end long after the others.
#[derive(Default)]
pub(super) struct Ledger {
    endings: Vec<Option<Ending>>,
    extra: u64,
}

/// The sums of a [`Ledger`].
pub(super) struct Accounts {
    pub(super) endings: Endings,
    /// Frames, counted as lost, that ended without a record.
    pub(super) unexplained: u64,
    /// Further copies of frames that arrived.
    pub(super) extra: u64,
}

impl Ledger {
    /// One more copy of a frame has ended: how the frame had ended before, and how it has now.
    fn note(&mut self, identity: u64, ending: Ending) -> (Option<Ending>, Option<Ending>) {
        let index = identity as usize;
        if index >= self.endings.len() {
            self.endings.resize(index + 1, None);
        }
        let before = self.endings[index];
        if (before, ending) == (Some(Ending::Received), Ending::Received) {
            self.extra += 1;
        }
        self.endings[index] = Ending::of_frame(before.into_iter().chain([ending]));
        (before, self.endings[index])
    }

    /// The sums over all frames sent.
    pub(super) fn close(mut self, sent: u64) -> Accounts {
        self.endings.resize(sent.max(self.endings.len() as u64) as usize, None);
        let mut endings = Endings::default();
        let mut unexplained = 0;
        for ending in self.endings {
            unexplained += u64::from(ending.is_none());
            endings.add(ending.unwrap_or(Ending::Lost), 1);
        }
        Accounts { endings, unexplained, extra: self.extra }
    }
}

/// Takes what became of each frame.
pub(super) struct Collector<'a> {
    pub(super) builder: ResultBuilder<'a>,
    pub(super) jobs: Vec<(String, String)>,
    pub(super) waits: Waits,
    pub(super) messages: Messages,
    watch: &'a dyn Watch,
    way: Way,
    pub(super) stopped: BTreeMap<(Option<u32>, Cause), u64>,
    pub(super) ledger: Ledger,
    pub(super) reordered: u64,
    /// The latest frame that arrived, per job.
    latest: Vec<Option<u64>>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(
        path: &'static TapPath,
        frames: Option<&'a mut dyn Write>,
        jobs: Vec<(String, String)>,
        way: Way,
        waits: Waits,
        messages: Messages,
        watch: &'a dyn Watch,
    ) -> Self {
        // A simulation sees everything, and too much of it to keep.
        let sight = Sight { taps: path.taps(), has_rules: true, is_exact: false };
        Self {
            builder: ResultBuilder::new(path, sight, frames),
            waits,
            messages,
            watch,
            way,
            stopped: BTreeMap::new(),
            ledger: Ledger::default(),
            reordered: 0,
            latest: vec![None; jobs.len()],
            jobs,
        }
    }
}

impl Collector<'_> {
    /// Takes the order of a copy that arrived.
    fn arrived(&mut self, record: &Record<'_>) {
        let latest = record.job.and_then(|job| self.latest.get_mut(job as usize));
        if let Some(latest) = latest {
            self.reordered += u64::from(latest.is_some_and(|seen| seen > record.identity));
            *latest = (*latest).max(Some(record.identity));
        }
    }
}

impl Observer for Collector<'_> {
    fn record(&mut self, record: &Record<'_>) {
        let stopped_by = match record.fate {
            Fate::Forwarded => None,
            Fate::Delivered => self.way.has_gateway.then_some(Cause::NoGateway),
            Fate::Refused(Cause::NoRule) if self.way.is_allow_list => Some(Cause::NotAllowed),
            Fate::Refused(cause) => Some(cause),
        };
        let ending = stopped_by.map_or(Ending::Received, Cause::ending);
        let (before, now) = self.ledger.note(record.identity, ending);
        self.messages.note(record, before, now);
        let outcome = match stopped_by {
            Some(cause) => {
                *self.stopped.entry((record.job, cause)).or_default() += 1;
                cause.name()
            }
            None => {
                self.arrived(record);
                if record.fate == Fate::Forwarded { "forwarded" } else { "delivered" }
            }
        };
        let waited = record.taps.at(Tap::SourceStart).zip(record.taps.at(Tap::Queued));
        if let Some((start, queued)) = waited {
            let wait = Nanos::from_nanos(start.saturating_sub(queued));
            self.waits.add(record.sender, record.sent.can_id(), wait);
        }
        let rule = record.job.and_then(|job| self.jobs.get(job as usize));
        self.builder.add(&Copied {
            number: record.identity,
            sent: Some(&record.sent),
            received: (ending == Ending::Received).then_some(&record.frame as &dyn Display),
            outcome,
            rule: rule.map_or("", |(rule, _)| rule),
            taps: record.taps,
            known_ns: record.transmission_ns,
        });
    }

    fn proceed(&mut self, now: Time, sent: u64) -> bool {
        self.builder.is_intact() && self.watch.proceed(now - Time::ZERO, sent)
    }
}

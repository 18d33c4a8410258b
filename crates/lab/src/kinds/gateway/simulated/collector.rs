//! Takes the records of a simulation: how each frame ended, and what the result needs of it.

use std::fmt::Display;

use candor_causes::Cause;
use candor_lat::Tap;
use candor_lat::account::{Copies, End, Terms};
use candor_sim::{Fate, Observer, Record, Time};
use candor_time::Nanos;

use super::super::doubt::Waits;
use super::super::messages::Messages;
use crate::builder::{Copied, ResultBuilder, Sight};
use crate::experiment::Run;

/// What the rules are to the frames of an experiment.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) has_gateway: bool,
    /// What no rule takes is refused.
    pub(super) is_allow_list: bool,
}

/// Takes what became of each frame.
pub(super) struct Collector<'a> {
    pub(super) builder: ResultBuilder<'a>,
    pub(super) jobs: Vec<(String, String)>,
    pub(super) waits: Waits,
    pub(super) messages: Messages,
    way: Way,
}

impl<'a> Collector<'a> {
    pub(super) fn new(
        run: Run<'a>,
        jobs: Vec<(String, String)>,
        way: Way,
        waits: Waits,
        messages: Messages,
        late_after_ns: Option<i64>,
    ) -> Self {
        let path = run.experiment.path();
        // A simulation sees everything, and too much of it to keep. Each job makes copies.
        let terms = Terms { copies: Copies::Any, late_after_ns, ..Terms::new(path) };
        let sight = Sight { taps: path.taps(), has_rules: true };
        Self { builder: ResultBuilder::new(terms, sight, run), waits, messages, way, jobs }
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
        let waited = record.taps.at(Tap::SourceStart).zip(record.taps.at(Tap::Queued));
        if let Some((start, queued)) = waited {
            let wait = Nanos::from_nanos(start.saturating_sub(queued));
            self.waits.add(record.sender, record.sent.can_id(), wait);
        }
        let rule = record.job.and_then(|job| self.jobs.get(job as usize));
        let taken = self.builder.add(&Copied {
            end: End {
                stream: record.job,
                number: record.identity,
                taps: record.taps,
                known_ns: record.transmission_ns,
                stopped_by,
            },
            sent: Some(&record.sent),
            received: stopped_by.is_none().then_some(&record.frame as &dyn Display),
            passed: if record.fate == Fate::Forwarded { "forwarded" } else { "delivered" },
            rule: rule.map_or("", |(rule, _)| rule),
        });
        self.messages.note(record, taken);
    }

    fn proceed(&mut self, now: Time, sent: u64) -> bool {
        self.builder.is_intact() && self.builder.run.watch.proceed(now - Time::ZERO, sent)
    }
}

//! Firing: what a rule that a frame has met does.

use alloc::boxed::Box;

use candor_causes::Cause;
use candor_time::Nanos;
use candor_wire::can::Frame;

use super::{Egress, Forward, Passage};
use crate::counters::{Counters, Outcome};
use crate::extension::action;
use crate::extension::pace::State;
use crate::program::{Compiled, JobIndex, Match, Program};
use crate::table::BusIndex;

/// A frame and what rules need to fire on it.
pub(super) struct Firing<'a> {
    pub(super) program: &'a Program,
    pub(super) counters: &'a Counters,
    pub(super) states: &'a mut [Option<Box<State>>],
    pub(super) now: Nanos,
    pub(super) frame: &'a Frame,
    pub(super) passage: Passage,
}

impl Firing<'_> {
    /// Fires the rules that a frame has met; false if none takes its kind.
    #[inline(never)]
    pub(super) fn fire_all(&mut self, matches: &[Match], egress: &mut impl Egress) -> bool {
        matches.iter().fold(false, |any, &found| any | self.fire(found, egress))
    }

    /// Fires one rule; false if it does not take this kind of frame.
    #[inline(always)]
    pub(super) fn fire(&mut self, found: Match, egress: &mut impl Egress) -> bool {
        let Some(&rule) = self.program.rules.get(found.rule() as usize) else { return false };
        if !rule.takes(self.frame) {
            return false;
        }
        match rule.only_job() {
            Some(job) => {
                let offer = FiredRule::new(self, rule, found);
                offer.make(self.counters, JobIndex(job), self.frame, false, egress);
                true
            }
            None => self.fire_at_length(found, egress),
        }
    }

    /// Fires a rule that edits, has several destinations, or does what the kernel cannot; false if it
    /// does not take this payload.
    // Apart from the rest, which would be the slower for it.
    #[inline(never)]
    fn fire_at_length(&mut self, found: Match, egress: &mut impl Egress) -> bool {
        let Some(&rule) = self.program.rules.get(found.rule() as usize) else { return false };
        if rule.is_extended() {
            return self.fire_extended(found, egress);
        }
        let offer = FiredRule::new(self, rule, found);
        let edited = self.program.edit(found.rule()).map(|edit| edit.apply(self.frame));
        for job in rule.jobs().map(JobIndex) {
            match &edited {
                None => _ = offer.make(self.counters, job, self.frame, false, egress),
                Some(Ok(edited)) => _ = offer.make(self.counters, job, edited, true, egress),
                Some(Err(_)) => offer.refuse(self.counters, job, Cause::TooLong, egress),
            }
        }
        true
    }

    #[inline(never)]
    fn fire_extended(&mut self, found: Match, egress: &mut impl Egress) -> bool {
        let Self { program, counters, now, frame, .. } = *self;
        let number = found.rule();
        let Some(&rule) = program.rules.get(number as usize) else { return false };
        let Some(extension) = program.extension(number) else { return false };
        if !extension.payload.takes(frame) {
            return false;
        }
        let mut offer = FiredRule::new(self, rule, found);
        offer.deadline = Nanos::from_nanos(extension.deadline_ns);
        let Some(state) = self.states.get_mut(number as usize).and_then(Option::as_mut) else {
            return false;
        };
        let (slot, is_own) = state.slot(frame.can_id(), extension.pace.per);
        let rewritten = slot.admit(&extension.pace, now, frame, is_own).and_then(|()| {
            let rewritten = match (&extension.actions[..], program.edit(number)) {
                ([], None) => *frame,
                ([], Some(edit)) => edit.apply(frame).map_err(|_| Cause::TooLong)?,
                (actions, _) => action::run(actions, frame, slot.sequence, |_| {})?,
            };
            match extension.convert {
                None => Ok(rewritten),
                Some(conversion) => conversion.apply(&rewritten).map_err(|_| Cause::Unconvertible),
            }
        });
        let is_edited = program.edit(number).is_some()
            || !extension.actions.is_empty()
            || extension.convert.is_some();
        let mut went_out = false;
        for job in rule.jobs().map(JobIndex) {
            match &rewritten {
                Ok(rewritten) => {
                    went_out |= offer.make(counters, job, rewritten, is_edited, egress);
                }
                Err(cause) => offer.refuse(counters, job, *cause, egress),
            }
        }
        if went_out {
            slot.commit(&extension.pace, now, frame);
        }
        true
    }
}

/// A rule that a frame has met, and what its copies have in common.
#[derive(Clone, Copy)]
struct FiredRule<'a> {
    program: &'a Program,
    rule: Compiled,
    found: Match,
    passage: Passage,
    deadline: Nanos,
}

impl<'a> FiredRule<'a> {
    #[inline(always)]
    fn new(firing: &Firing<'a>, rule: Compiled, found: Match) -> Self {
        let Firing { program, passage, .. } = *firing;
        Self { program, rule, found, passage, deadline: Nanos::ZERO }
    }

    /// Offers `frame` to the destination of a job; false if it was refused.
    #[inline(always)]
    fn make(
        self,
        counters: &Counters,
        job: JobIndex,
        frame: &Frame,
        is_edited: bool,
        egress: &mut impl Egress,
    ) -> bool {
        let Self { program, rule, found, passage, deadline } = self;
        let Some(&to) = program.targets.get(job.0 as usize) else { return false };
        if let Some(cause) = self.refusal(to, egress) {
            refuse(counters, job, cause, egress);
            return false;
        }
        let outcome = egress.forward(Forward {
            job,
            to,
            frame,
            passage: Passage { origin: passage.origin, hops: self.hops() },
            echo: rule.echo(),
            keep_timestamp: rule.keep_timestamp(),
            is_edited,
            found,
            deadline,
        });
        counters.count(job, outcome);
        !matches!(outcome, Outcome::Refused(_))
    }

    /// Refuses the copy for the destination of a job: for what the kernel looks at first, or else
    /// for `cause`.
    #[cold]
    fn refuse(self, counters: &Counters, job: JobIndex, cause: Cause, egress: &mut impl Egress) {
        let Some(&to) = self.program.targets.get(job.0 as usize) else { return };
        let cause = self.refusal(to, egress).unwrap_or(cause);
        refuse(counters, job, cause, egress);
    }

    /// How often the frame will have been passed on.
    #[inline]
    const fn hops(self) -> u8 {
        match (self.passage.hops, self.rule.limit_hops) {
            (0, limit) if limit != 0 => self.program.max_hops.saturating_sub(limit - 1),
            (hops, _) => hops + 1,
        }
    }

    /// Why it may not go to `to`.
    #[inline]
    fn refusal(self, to: BusIndex, egress: &impl Egress) -> Option<Cause> {
        if self.passage.hops >= self.program.max_hops {
            Some(Cause::HopLimit)
        } else if !egress.is_up(to) {
            Some(Cause::Down)
        } else if !self.rule.allow_return() && self.passage.origin == to {
            Some(Cause::Returning)
        } else {
            None
        }
    }
}

#[cold]
fn refuse(counters: &Counters, job: JobIndex, cause: Cause, egress: &mut impl Egress) {
    counters.count(job, Outcome::Refused(cause));
    egress.refused(job, cause);
}

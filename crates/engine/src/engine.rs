//! [`Engine`]: the hot path. It decides about one frame at a time, allocates nothing, reads no
//! clock and cannot fail.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use candor_causes::Cause;
use candor_time::Nanos;
use candor_wire::Frame;

use crate::counters::{Counters, Outcome};
use crate::extension::action;
use crate::extension::pace::State;
use crate::program::{Compiled, JobIndex, Match, Program};
use crate::table::BusIndex;

/// What travels with a frame through one host, from interface to interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The bus it first came in on.
    pub origin: BusIndex,
    /// How often the gateway has passed it on.
    pub hops: u8,
}

impl Passage {
    /// A frame fresh from `bus`.
    #[must_use]
    pub const fn received_on(bus: BusIndex) -> Self {
        Self { origin: bus, hops: 0 }
    }
}

/// A copy on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Forward<'a> {
    /// Whose copy it is.
    pub job: JobIndex,
    /// Where it goes.
    pub to: BusIndex,
    /// What goes there.
    pub frame: &'a Frame,
    /// What the frame carries on if it comes back from a virtual bus.
    pub passage: Passage,
    /// Whether sockets on the destination shall see it.
    pub echo: bool,
    /// Whether it keeps the time stamp of its reception.
    pub keep_timestamp: bool,
    /// Whether it was rewritten, which costs a copy of the buffer.
    pub is_edited: bool,
    /// Where the kernel would have found the rule.
    pub found: Match,
    /// How long it may wait for its bus; zero for ever.
    pub deadline: Nanos,
}

/// Where copies go. The engine's only way out.
pub trait Egress {
    /// Whether `bus` is up.
    fn is_up(&self, bus: BusIndex) -> bool {
        let _ = bus;
        true
    }

    /// Takes a copy, or says why not.
    fn forward(&mut self, copy: Forward<'_>) -> Outcome;

    /// Learns of a copy that the engine itself refused. It is counted already.
    fn refused(&mut self, job: JobIndex, cause: Cause) {
        let _ = (job, cause);
    }
}

impl<F: FnMut(Forward<'_>) -> Outcome> Egress for F {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        self(copy)
    }
}

/// A program and its counters.
///
/// ```
/// use candor_engine::{Engine, Forward, Passage};
/// use candor_engine::counters::Outcome;
/// use candor_engine::{Bus, BusIndex, Filter, Rule, Table};
/// use candor_time::Nanos;
///
/// let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
/// let (can0, can1) = (BusIndex(0), BusIndex(1));
/// let mut rule = Rule::new("speed", can0, can1);
/// rule.filters = vec![Filter::standard(0x201)];
/// let buses = vec![bus("can0"), bus("can1")];
/// let table = Table { buses, rules: vec![rule], ..Table::default() };
///
/// let mut engine = Engine::new(&table);
/// let frame = "201#1122".parse()?;
/// let now = Nanos::ZERO; // of any clock, as long as it is always the same
/// engine.handle(now, can0, &frame, Passage::received_on(can0), &mut |copy: Forward<'_>| {
///     assert_eq!((copy.to, *copy.frame), (can1, frame));
///     Outcome::Handled
/// });
/// assert_eq!(engine.counters().jobs()[0].handled, 1);
/// # Ok::<(), candor_wire::notation::NotationError>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    program: Arc<Program>,
    counters: Counters,
    /// By rule: what it remembers.
    states: Box<[Option<Box<State>>]>,
    scratch: Vec<Match>,
}

impl Engine {
    /// Compiles `table` and starts all counters at zero.
    #[must_use]
    pub fn new(table: &crate::Table) -> Self {
        let program = Arc::new(Program::new(table));
        let counters = Counters::new(&program);
        Self::of(program, counters, None)
    }

    /// The engine of a program that counts in `counters`, for the frames of one bus or of all. Engines
    /// for different buses may share counters and be in different threads.
    #[must_use]
    pub fn of(program: Arc<Program>, counters: Counters, bus: Option<BusIndex>) -> Self {
        let state = |(number, job_bus): (u32, Option<BusIndex>)| {
            let is_ours = bus.is_none() || bus == job_bus;
            let extension = program.extension(number).filter(|_| is_ours)?;
            Some(Box::new(State::new(&extension.pace)))
        };
        let sources = (0..program.rules.len() as u32).map(|rule| (rule, program.source(rule)));
        let states = sources.map(state).collect();
        Self { counters, scratch: program.scratch(), states, program }
    }

    /// Takes over what the rules of `earlier` remember, as `succession` says. Cheap: nothing is
    /// compared, and copied only for rules that now take more identifiers or fewer.
    pub fn succeed(&mut self, earlier: &mut Self, succession: &Succession) {
        for &(old, new) in &succession.rules {
            let state = earlier.states.get_mut(old as usize).and_then(Option::take);
            let place = self.states.get_mut(new as usize).and_then(Option::as_mut);
            if let (Some(state), Some(place)) = (state, place) {
                place.succeed(state);
            }
        }
    }

    /// The compiled rules.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What became of every frame so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// See [`Counters::settle`].
    pub fn settle(&self, job: JobIndex, outcome: Outcome) {
        self.counters.settle(job, outcome);
    }

    /// Decides about `frame`, received on `bus` at `now` by some clock that is always the same and
    /// never goes back: hands every copy to `egress` in the order in
    /// which the kernel would, and counts what becomes of it.
    ///
    /// The order of checks is that of `can_can_gw_rcv` (`net/can/gw.c`): kind of frame (not
    /// counted), hop limit, destination up, return to the origin, edit. Rules that go beyond the
    /// kernel look at the payload first (not counted), and at their pace before the edit.
    #[inline]
    pub fn handle(
        &mut self,
        now: Nanos,
        bus: BusIndex,
        frame: &Frame,
        passage: Passage,
        egress: &mut impl Egress,
    ) {
        let Self { program, counters, states, scratch } = self;
        let program = &**program;
        let mut firing = Firing { program, counters, states, now, frame, passage };
        let matches = program.matches(bus, frame.can_id(), scratch);
        // Nearly always there is one, and no loop is quicker than a loop of one turn.
        let matched = match *matches {
            [] => false,
            [found] => firing.fire(found, egress),
            _ => firing.fire_all(matches, egress),
        };
        counters.received(bus, matched);
    }
}

/// Which rules of a program take the place of which of an earlier one: those of the same name, from
/// and to buses of the same names.
#[derive(Clone, Debug)]
pub struct Succession {
    /// Old and new rules that remember the same.
    rules: Vec<(u32, u32)>,
    jobs: Vec<Option<JobIndex>>,
    buses: Vec<Option<BusIndex>>,
}

impl Succession {
    /// Compares two programs.
    #[must_use]
    pub fn new(earlier: &Program, later: &Program) -> Self {
        type Key<'a> = (&'a str, &'a str, &'a str);
        fn keys(program: &Program) -> impl Iterator<Item = Key<'_>> {
            let bus = |index: BusIndex| {
                program.buses().get(usize::from(index.0)).map_or("", |bus| bus.name.as_str())
            };
            program.jobs().iter().map(move |job| (job.rule.as_str(), bus(job.from), bus(job.to)))
        }
        let new: BTreeMap<Key<'_>, JobIndex> = keys(later).zip((0..).map(JobIndex)).collect();
        let jobs: Vec<_> = keys(earlier).map(|key| new.get(&key).copied()).collect();
        let mut rules = Vec::new();
        for (old, new) in earlier.jobs().iter().zip(&jobs) {
            let new = new.and_then(|new| later.jobs().get(new.0 as usize));
            let Some(new) = new else { continue };
            let pair = (old.rule_index, new.rule_index);
            let paces = earlier.extension(pair.0).zip(later.extension(pair.1));
            if paces.is_some_and(|(old, new)| old.pace.counts_like(&new.pace))
                && rules.last() != Some(&pair)
            {
                rules.push(pair);
            }
        }
        let by_name: BTreeMap<&str, BusIndex> =
            later.buses().iter().map(|bus| bus.name.as_str()).zip((0..).map(BusIndex)).collect();
        let buses = earlier.buses().iter().map(|bus| by_name.get(bus.name.as_str()).copied());
        Self { rules, jobs, buses: buses.collect() }
    }

    /// For each job of the earlier program the one that takes its place.
    #[must_use]
    pub fn jobs(&self) -> &[Option<JobIndex>] {
        &self.jobs
    }

    /// For each bus of the earlier program the one of that name.
    #[must_use]
    pub fn buses(&self) -> &[Option<BusIndex>] {
        &self.buses
    }
}

/// A frame and what rules need to fire on it.
struct Firing<'a> {
    program: &'a Program,
    counters: &'a Counters,
    states: &'a mut [Option<Box<State>>],
    now: Nanos,
    frame: &'a Frame,
    passage: Passage,
}

impl Firing<'_> {
    /// Fires the rules that a frame has met; false if none takes its kind.
    #[inline(never)]
    fn fire_all(&mut self, matches: &[Match], egress: &mut impl Egress) -> bool {
        matches.iter().fold(false, |any, &found| any | self.fire(found, egress))
    }

    /// Fires one rule; false if it does not take this kind of frame.
    #[inline(always)]
    fn fire(&mut self, found: Match, egress: &mut impl Egress) -> bool {
        let Some(&rule) = self.program.rules.get(found.rule() as usize) else { return false };
        if !rule.takes(self.frame) {
            return false;
        }
        match rule.only_job() {
            Some(job) => {
                let offer = Offer::new(self, rule, found);
                offer.make(self.counters, JobIndex(job), self.frame, false, egress);
                true
            }
            None => self.fire_at_length(found, egress),
        }
    }

    /// Fires a rule that edits, has several destinations, or goes beyond the kernel; false if it
    /// does not take this payload.
    // Apart from the rest, which would be the slower for it.
    #[inline(never)]
    fn fire_at_length(&mut self, found: Match, egress: &mut impl Egress) -> bool {
        let Some(&rule) = self.program.rules.get(found.rule() as usize) else { return false };
        if rule.is_extended() {
            return self.fire_extended(found, egress);
        }
        let offer = Offer::new(self, rule, found);
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
        let mut offer = Offer::new(self, rule, found);
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
struct Offer<'a> {
    program: &'a Program,
    rule: Compiled,
    found: Match,
    passage: Passage,
    deadline: Nanos,
}

impl<'a> Offer<'a> {
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
            (0, limit) if limit != 0 => (self.program.max_hops + 1).saturating_sub(limit),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::{Edit, Operands};
    use crate::table::{Bus, Filter, Gate, List, Rule, Table};
    use alloc::string::{String, ToString};
    use alloc::vec;
    use proptest::prelude::*;

    const A: BusIndex = BusIndex(0);
    const B: BusIndex = BusIndex(1);
    const C: BusIndex = BusIndex(2);

    fn table(rules: Vec<Rule>) -> Table {
        let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
        let buses = vec![bus("a"), bus("b"), bus("c")];
        Table { buses, rules, ..Table::default() }
    }

    fn rule(name: &str, from: BusIndex, to: BusIndex, filters: &[Filter]) -> Rule {
        Rule { filters: filters.into(), ..Rule::new(name, from, to) }
    }

    /// The copies of a frame as `bus frame`, in order.
    fn copies(engine: &mut Engine, bus: BusIndex, frame: &str, passage: Passage) -> Vec<String> {
        let mut out = Vec::new();
        let frame: Frame = frame.parse().unwrap();
        engine.handle(Nanos::ZERO, bus, &frame, passage, &mut |copy: Forward<'_>| {
            out.push(alloc::format!("{} {}", copy.to.0, copy.frame));
            Outcome::Handled
        });
        out
    }

    fn fresh(engine: &mut Engine, frame: &str) -> Vec<String> {
        copies(engine, A, frame, Passage::received_on(A))
    }

    #[test]
    fn every_matching_rule_fires_in_the_order_of_the_kernels_lists() {
        let mut engine = Engine::new(&table(vec![
            rule("single", A, B, &[Filter::standard(0x123)]),
            rule("masked", A, C, &[Filter { can_id: 0x120, mask: 0x7F0, inverted: false }]),
            rule("all", A, B, &[]),
            rule("other", A, B, &[Filter::standard(0x124)]),
            rule("other bus", B, A, &[]),
        ]));
        assert_eq!(fresh(&mut engine, "123#11"), ["1 123#11", "2 123#11", "1 123#11"]);
        let handled: Vec<_> = engine.counters().jobs().iter().map(|job| job.handled).collect();
        assert_eq!(handled, [1, 1, 1, 0, 0]);
    }

    #[test]
    fn the_gate_ignores_without_counting() {
        let fd = Rule { gate: Gate::Fd, ..Rule::new("fd", A, B) };
        let mut engine = Engine::new(&table(vec![fd, Rule::new("classical", A, C)]));
        assert_eq!(fresh(&mut engine, "123#11"), ["2 123#11"]);
        assert_eq!(fresh(&mut engine, "123##011"), ["1 123##011"]);
        assert_eq!(engine.counters().jobs().iter().map(|job| job.total()).sum::<u64>(), 2);
    }

    #[test]
    fn hops_are_limited_by_the_table_and_by_the_rule() {
        let mut chain = table(vec![
            Rule::new("free", A, B),
            Rule { limit_hops: Some(1), ..Rule::new("once", A, C) },
        ]);
        chain.max_hops = 3;
        let mut engine = Engine::new(&chain);
        let mut hops = Vec::new();
        let frame = "123#".parse().unwrap();
        engine.handle(Nanos::ZERO, A, &frame, Passage::received_on(A), &mut |copy: Forward<'_>| {
            hops.push(copy.passage.hops);
            Outcome::Handled
        });
        // After a rule with limit 1 no further hop is left: the counter stands at the limit.
        assert_eq!(hops, [1, 3]);
        let passage = |hops| Passage { origin: C, hops };
        assert_eq!(copies(&mut engine, A, "123#", passage(2)), ["1 123#"]);
        assert_eq!(copies(&mut engine, A, "123#", passage(3)).len(), 0);
        assert_eq!(engine.counters().jobs()[0].refused(Cause::HopLimit), 1);
    }

    #[test]
    fn a_frame_returns_to_its_origin_only_if_allowed() {
        let mut engine = Engine::new(&table(vec![
            Rule::new("no", A, A),
            Rule { allow_return: true, ..Rule::new("yes", A, A) },
        ]));
        assert_eq!(fresh(&mut engine, "123#"), ["0 123#"]);
        assert_eq!(engine.counters().jobs()[0].refused(Cause::Returning), 1);
    }

    #[test]
    fn copies_are_sent_as_their_rule_says() {
        for (echo, keep_timestamp) in [(false, false), (true, false), (false, true)] {
            let rule = Rule { echo, keep_timestamp, ..Rule::new("rule", A, B) };
            let mut engine = Engine::new(&table(vec![rule]));
            let mut ways = Vec::new();
            let frame = "123#11".parse().unwrap();
            let passage = Passage::received_on(A);
            engine.handle(Nanos::ZERO, A, &frame, passage, &mut |copy: Forward<'_>| {
                ways.push((copy.echo, copy.keep_timestamp));
                Outcome::Handled
            });
            assert_eq!(ways, [(echo, keep_timestamp)]);
        }
    }

    #[test]
    fn copies_that_are_changed_are_marked() {
        use crate::extension::action::{Action, Copy};
        use crate::extension::{Conversion, Extension};
        let edit =
            Edit { set: Operands { len: Some(2), ..Operands::default() }, ..Edit::default() };
        let pace = crate::extension::pace::Pace { every: 1, ..Default::default() };
        let extended = |extension| Rule { extension, ..Rule::new("extended", A, B) };
        let rules = [
            (Rule::new("same", A, B), false),
            (Rule { edit, ..Rule::new("edit", A, B) }, true),
            (extended(Extension { pace, ..Extension::default() }), false),
            (
                extended(Extension {
                    actions: vec![Action::Copy(Copy { from: 0, to: 0, count: 1 })],
                    ..Extension::default()
                }),
                true,
            ),
            (extended(Extension { convert: Some(Conversion::Fd), ..Extension::default() }), true),
        ];
        for (rule, is_edited) in rules {
            let name = rule.name.clone();
            let mut engine = Engine::new(&table(vec![rule]));
            let mut marks = Vec::new();
            let frame = "123#11".parse().unwrap();
            let passage = Passage::received_on(A);
            engine.handle(Nanos::ZERO, A, &frame, passage, &mut |copy: Forward<'_>| {
                marks.push(copy.is_edited);
                Outcome::Handled
            });
            assert_eq!(marks, [is_edited], "{name}");
        }
    }

    #[test]
    fn a_frame_that_grows_too_long_is_deleted_once_per_destination() {
        let edit =
            Edit { set: Operands { len: Some(20), ..Operands::default() }, ..Edit::default() };
        let mut engine =
            Engine::new(&table(vec![Rule { edit, to: vec![B, C], ..Rule::new("long", A, B) }]));
        assert_eq!(fresh(&mut engine, "123#").len(), 0);
        assert_eq!(engine.counters().jobs().iter().map(|job| job.deleted()).sum::<u64>(), 2);
    }

    #[test]
    fn a_destination_that_is_down_drops() {
        struct Down;
        impl Egress for Down {
            fn is_up(&self, _: BusIndex) -> bool {
                false
            }
            fn forward(&mut self, _: Forward<'_>) -> Outcome {
                unreachable!("nothing goes to a bus that is down")
            }
        }
        let mut engine = Engine::new(&table(vec![Rule::new("all", A, B)]));
        engine.handle(Nanos::ZERO, A, &"123#".parse().unwrap(), Passage::received_on(A), &mut Down);
        assert_eq!(engine.counters().jobs()[0].dropped(), 1);
    }

    #[test]
    fn several_threads_may_settle_at_once() {
        const EACH: u64 = 100_000;
        let counters = Counters::new(&Program::new(&table(vec![Rule::new("all", A, B)])));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for number in 0..EACH {
                        let outcome = match number % 2 {
                            0 => Outcome::Handled,
                            _ => Outcome::Refused(Cause::Stale),
                        };
                        counters.settle(JobIndex(0), outcome);
                    }
                });
            }
        });
        let job = counters.jobs()[0];
        assert_eq!((job.handled, job.refused(Cause::Stale)), (EACH * 3 / 2, EACH * 3 / 2));
    }

    #[test]
    fn pending_copies_are_settled_later() {
        let mut engine = Engine::new(&table(vec![Rule::new("all", A, B)]));
        let frame = "123#".parse().unwrap();
        let mut job = None;
        engine.handle(Nanos::ZERO, A, &frame, Passage::received_on(A), &mut |copy: Forward<'_>| {
            job = Some(copy.job);
            Outcome::Pending
        });
        assert_eq!(engine.counters().jobs()[0].pending, 1);
        engine.settle(job.unwrap(), Outcome::Refused(Cause::QueueFull));
        let counters = engine.counters().jobs()[0];
        assert_eq!((counters.pending, counters.dropped(), counters.total()), (0, 1, 1));
    }

    #[test]
    fn exclusions_and_lists_of_filters_fire_once() {
        let mut ranged = rule(
            "range",
            A,
            B,
            &[
                Filter { can_id: 0x100, mask: 0xC000_0700, inverted: false },
                Filter::standard(0x123),
                Filter { can_id: EXT | 0x100, mask: 0xC000_0000 | 0x1FFF_FF00, inverted: false },
                Filter::extended(0x123),
            ],
        );
        ranged.except = vec![Filter::standard(0x124), Filter::extended(0x124)];
        let mut engine = Engine::new(&table(vec![ranged]));
        for (frame, count) in [
            ("123#", 1),
            ("124#", 0),
            ("125#", 1),
            ("00000123#", 1),
            ("00000124#", 0),
            ("00000125#", 1),
            ("00000225#", 0),
        ] {
            assert_eq!(fresh(&mut engine, frame).len(), count, "{frame}");
        }
    }

    const EXT: u32 = candor_wire::frame::EFF_FLAG;

    #[test]
    fn the_kernels_lists_are_measured() {
        let rules = (0..5).map(|id| {
            rule(&id.to_string(), A, B, &[Filter { can_id: id, mask: 0x7FF, inverted: false }])
        });
        let mut engine = Engine::new(&table(rules.collect()));
        assert_eq!(engine.program().list_lengths(A).masked, 5);
        let frame = "004#".parse().unwrap();
        engine.handle(Nanos::ZERO, A, &frame, Passage::received_on(A), &mut |copy: Forward<'_>| {
            assert_eq!((copy.found.list(), copy.found.position()), (List::Masked, 4));
            Outcome::Handled
        });
        assert_eq!(engine.counters().jobs()[4].handled, 1);
    }

    fn any_can_id() -> impl Strategy<Value = u32> {
        // Few values, so that filters and frames meet.
        (
            0..4_u32,
            prop_oneof![0..8_u32, 0x100..0x108_u32, Just(0x7FF), Just(0x1FFF_FFFF)],
            prop::bool::weighted(0.1),
        )
            .prop_map(|(flags, id, error)| {
                let (extended, remote) = (flags & 1 != 0, flags & 2 != 0);
                let id = if extended { id | EXT } else { id & 0x7FF };
                id | if remote { 0x4000_0000 } else { 0 } | if error { 0x2000_0000 } else { 0 }
            })
    }

    fn any_filter() -> impl Strategy<Value = Filter> {
        let masks = prop_oneof![
            Just(0xC000_07FF),
            Just(0xDFFF_FFFF),
            Just(0x7FF),
            Just(0x7F8),
            Just(0),
            Just(0xC000_0000),
            Just(0x8000_0007),
            Just(0x2000_0004),
            Just(0x1FFF_FFF0),
            any::<u32>(),
        ];
        (any_can_id(), masks, prop::bool::weighted(0.2)).prop_map(|(can_id, mask, inverted)| {
            Filter { can_id, mask, inverted: inverted && mask & 0x2000_0000 == 0 }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn the_program_matches_as_the_rules_do(
            rules in prop::collection::vec(
                (prop::collection::vec(any_filter(), 0..4), prop::collection::vec(any_filter(), 0..3), 0..3_u8),
                0..12,
            ),
            ids in prop::collection::vec((any_can_id(), any::<bool>()), 1..60),
        ) {
            let rules: Vec<Rule> = rules.into_iter().enumerate().map(|(index, (filters, except, gate))| Rule {
                filters,
                except,
                gate: [Gate::Classical, Gate::Fd, Gate::Any][usize::from(gate)],
                ..Rule::new(index.to_string(), A, B)
            }).collect();
            let table = table(rules);
            let mut engine = Engine::new(&table);
            let mut offered = 0;
            for (can_id, is_fd) in ids {
                let is_fd = is_fd && can_id & 0x6000_0000 == 0;
                let frame = Frame::from_parts(can_id, &[], is_fd.then_some(0)).unwrap();
                let mut fired = Vec::new();
                engine.handle(Nanos::ZERO, A, &frame, Passage::received_on(A), &mut |copy: Forward<'_>| {
                    fired.push((copy.found.list(), copy.found.rule()));
                    Outcome::Handled
                });
                offered += fired.len() as u64;
                prop_assert!(fired.is_sorted(), "{:?}", fired);
                let mut fired: Vec<_> = fired.into_iter().map(|(_, rule)| rule).collect();
                fired.sort_unstable();
                let expected: Vec<u32> =
                    (0..).zip(&table.rules).filter(|(_, rule)| rule.matches(&frame)).map(|(i, _)| i).collect();
                prop_assert_eq!(fired, expected);
            }
            // Frames in = copies forwarded + refused, by cause.
            let total: u64 = engine.counters().jobs().iter().map(|job| job.total()).sum();
            prop_assert_eq!(total, offered);
        }
    }

    #[test]
    fn a_frame_that_several_rules_take_is_matched() {
        let mut engine = Engine::new(&table(vec![
            rule("first", A, B, &[]),
            Rule { gate: Gate::Fd, ..Rule::new("fd", A, B) },
            rule("second", A, C, &[]),
        ]));
        assert_eq!(fresh(&mut engine, "123#11").len(), 2);
        assert_eq!(
            engine.counters().buses()[0],
            crate::counters::BusCounters { received: 1, unmatched: 0 }
        );
    }

    #[test]
    fn the_engine_of_a_bus_keeps_the_pace_of_its_rules() {
        use crate::extension::{Extension, Pace};
        let pace = Pace { every: 2, ..Pace::default() };
        let extension = Extension { pace, ..Extension::default() };
        let table = table(vec![Rule { extension, ..Rule::new("every second", A, B) }]);
        let program = Arc::new(Program::new(&table));
        for bus in [None, Some(A)] {
            let counters = Counters::new(&program);
            let mut engine = Engine::of(program.clone(), counters, bus);
            let forwarded: Vec<_> = (0..4).map(|_| fresh(&mut engine, "123#11").len()).collect();
            assert_eq!(forwarded, [1, 0, 1, 0], "{bus:?}");
        }
    }
}

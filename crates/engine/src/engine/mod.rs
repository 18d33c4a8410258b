//! [`Engine`]: the hot path. It decides about one frame at a time, allocates nothing, reads no
//! clock and cannot fail.

mod firing;
mod hops;
mod succession;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use candor_causes::Cause;
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::counters::{Counters, Outcome};
use crate::extension::pace::State;
use crate::program::{JobIndex, Match, Program};
use crate::table::BusIndex;
use firing::Firing;
pub use hops::{Hop, Hops};
pub use succession::Succession;

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
/// # Ok::<(), candor_wire::can::notation::NotationError>(())
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
        Self::with_counters(program, counters, None)
    }

    /// The engine of a program that counts in `counters`, for the frames of one bus or of all. Engines
    /// for different buses may share counters and be in different threads.
    #[must_use]
    pub fn with_counters(program: Arc<Program>, counters: Counters, bus: Option<BusIndex>) -> Self {
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

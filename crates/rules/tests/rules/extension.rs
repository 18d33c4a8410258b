//! The engine against a plain interpreter of what the kernel cannot do: payloads, paces, counters,
//! conversions. It is slow, remembers everything, and shares no code with the engine.

use std::collections::{BTreeMap, HashMap};

use crate::random::payloads;
use candor_causes::Cause;
use candor_engine::counters::{BusCounters, Counters, JobCounters, Outcome};
use candor_engine::extension::action::{Action, Counter};
use candor_engine::extension::pace::{OnChange, Pace, Per};
use candor_engine::extension::payload::Bytes;
use candor_engine::extension::{Conversion, Extension, Payload};
use candor_engine::program::JobIndex;
use candor_engine::{Bus, BusIndex, Filter, Gate, Program, Rule, Table};
use candor_engine::{Egress, Engine, Forward, Passage, Succession};
use candor_time::Nanos;
use candor_wire::can::frame::{BRS, EFF_FLAG, Kind};
use candor_wire::can::{ByteOrder, Field, Frame};
use proptest::prelude::*;

/// What became of a copy: by rule and destination.
type Fates = BTreeMap<(String, BusIndex), Result<Frame, Cause>>;

/// What a destination does with what it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Takes,
    TellsLater,
    IsFull,
    IsDown,
}

/// What an interpreter remembers of the frames that count together.
#[derive(Clone, Debug, Default)]
struct Memory {
    seen: u64,
    sent: u64,
    last: Option<(Frame, u64)>,
    /// The bucket that leaks one drop per nanosecond, and when it was looked at.
    level: u128,
    at: u64,
}

#[derive(Default)]
struct Interpreter {
    /// By rule and identifier word.
    memories: HashMap<(String, Option<u32>), Memory>,
}

fn takes(payload: &Payload, frame: &Frame) -> bool {
    let data = frame.data();
    let fits = |bytes: &Bytes| {
        (0..usize::from(bytes.len)).all(|index| {
            data.get(index).is_some_and(|byte| byte & bytes.mask[index] == bytes.value[index])
        })
    };
    let any = payload.data.iter().any(fits);
    let none = !payload.not_data.iter().any(fits);
    let length = frame.len();
    let mut ranges = payload.lengths.iter();
    let has_length =
        ranges.any(|&(first, last)| usize::from(first) <= length && length <= usize::from(last));
    (any || payload.data.is_empty()) && none && (has_length || payload.lengths.is_empty())
}

fn differ(a: &Frame, b: &Frame, mask: &[u8; 64]) -> bool {
    let byte = |frame: &Frame, index: usize| frame.data().get(index).copied().unwrap_or(0);
    a.is_fd() != b.is_fd()
        || a.len() != b.len()
        || (0..64).any(|index| byte(a, index) & mask[index] != byte(b, index) & mask[index])
}

fn converted(conversion: Option<Conversion>, frame: Frame) -> Result<Frame, Cause> {
    let to_fd = match conversion {
        Some(Conversion::Fd) => Some(0),
        Some(Conversion::FdWithSwitch) => Some(BRS),
        Some(Conversion::Classical) => None,
        None => return Ok(frame),
    };
    if to_fd.is_some() == frame.is_fd() {
        return Ok(frame);
    }
    if to_fd.is_some() && frame.kind() != Kind::Data {
        return Err(Cause::Unconvertible);
    }
    Frame::from_parts(frame.can_id(), frame.data(), to_fd).map_err(|_| Cause::Unconvertible)
}

impl Interpreter {
    fn handle(
        &mut self,
        table: &Table,
        now: u64,
        bus: BusIndex,
        frame: &Frame,
        behaviours: &[Behaviour],
    ) -> Fates {
        let mut fates = Fates::new();
        for rule in table.rules.iter().filter(|rule| rule.from == bus) {
            let is_met = rule.gate.takes(frame)
                && (rule.filters.is_empty()
                    || rule.filters.iter().any(|filter| filter.matches(frame.can_id())));
            if !is_met || !takes(&rule.extension.payload, frame) {
                continue;
            }
            let pace = &rule.extension.pace;
            let id = (pace.per == Per::Id).then_some(frame.can_id());
            let memory = self.memories.entry((rule.name.clone(), id)).or_default();
            let result = memory.admit(pace, now, frame).and_then(|()| {
                let mut data = frame.data().to_vec();
                for action in &rule.extension.actions {
                    let Action::Counter(counter) = action else { panic!("not in these tests") };
                    let at = usize::from(counter.field.start_bit() / 8);
                    if at >= frame.len() {
                        return Err(Cause::TooShort);
                    }
                    // A remote frame has a length, but no data.
                    if let Some(byte) = data.get_mut(at) {
                        *byte = (memory.sent % counter.modulus) as u8;
                    }
                }
                let flags = frame.is_fd().then(|| frame.fd_flags());
                let frame = match data == frame.data() {
                    true => *frame,
                    false => Frame::from_parts(frame.can_id(), &data, flags).unwrap(),
                };
                converted(rule.extension.convert, frame)
            });
            let mut is_sent = false;
            for &to in &rule.to {
                let behaviour = behaviours[usize::from(to.0)];
                let fate = if behaviour == Behaviour::IsDown {
                    Err(Cause::Down)
                } else if to == bus && !rule.allow_return {
                    Err(Cause::Returning)
                } else if behaviour == Behaviour::IsFull && result.is_ok() {
                    Err(Cause::QueueFull)
                } else {
                    result
                };
                is_sent |= fate.is_ok();
                fates.insert((rule.name.clone(), to), fate);
            }
            if is_sent {
                memory.sent += 1;
                memory.last = Some((*frame, now));
                memory.level += u128::from(pace.interval_ns);
            }
        }
        fates
    }
}

impl Memory {
    fn admit(&mut self, pace: &Pace, now: u64, frame: &Frame) -> Result<(), Cause> {
        let elapsed = u128::from(now - self.at);
        self.level = self.level.saturating_sub(elapsed);
        self.at = now;
        self.seen += 1;
        if pace.every > 1 && !(self.seen - 1).is_multiple_of(pace.every.into()) {
            return Err(Cause::Sampled);
        }
        if let (Some(OnChange { mask, at_least_every_ns }), Some((last, sent))) =
            (&pace.on_change, &self.last)
        {
            let is_due = *at_least_every_ns > 0 && now - sent >= *at_least_every_ns;
            if !is_due && !differ(frame, last, mask) {
                return Err(Cause::Unchanged);
            }
        }
        if self.level > u128::from(pace.tolerance_ns) { Err(Cause::Rate) } else { Ok(()) }
    }
}

/// What the engine does, in the same form.
struct Recorder<'a> {
    jobs: &'a [(String, BusIndex)],
    behaviours: &'a [Behaviour],
    fates: Fates,
    pending: Vec<JobIndex>,
}

impl Egress for Recorder<'_> {
    fn is_up(&self, bus: BusIndex) -> bool {
        self.behaviours[usize::from(bus.0)] != Behaviour::IsDown
    }

    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        let job = self.jobs[copy.job.0 as usize].clone();
        assert_eq!(job.1, copy.to);
        let (fate, outcome) = match self.behaviours[usize::from(copy.to.0)] {
            Behaviour::Takes => (Ok(*copy.frame), Outcome::Handled),
            Behaviour::TellsLater => {
                self.pending.push(copy.job);
                (Ok(*copy.frame), Outcome::Pending)
            }
            Behaviour::IsFull => (Err(Cause::QueueFull), Outcome::Refused(Cause::QueueFull)),
            Behaviour::IsDown => panic!("nothing is offered to a bus that is down"),
        };
        assert_eq!(self.fates.insert(job, fate), None);
        outcome
    }

    fn refused(&mut self, job: JobIndex, cause: Cause) {
        let job = self.jobs[job.0 as usize].clone();
        assert_eq!(self.fates.insert(job, Err(cause)), None);
    }
}

/// An engine and what it needs to be watched.
struct Watched {
    engine: Engine,
    jobs: Vec<(String, BusIndex)>,
}

impl Watched {
    fn new(table: &Table) -> Self {
        let engine = Engine::new(table);
        let jobs = engine.program().jobs().iter();
        let jobs = jobs.map(|job| (job.rule.clone(), job.to)).collect();
        Self { engine, jobs }
    }

    /// Handles a frame; pending copies are settled at once if `settles`.
    fn handle(&mut self, input: &Input) -> Fates {
        let Self { engine, jobs } = self;
        let (behaviours, fates) = (&input.behaviours, Fates::new());
        let mut recorder = Recorder { jobs, behaviours, fates, pending: Vec::new() };
        let passage = Passage::received_on(input.bus);
        engine.handle(Nanos::from_nanos(input.at), input.bus, &input.frame, passage, &mut recorder);
        for job in recorder.pending.drain(..) {
            match input.settles {
                0 => {}
                1 => engine.settle(job, Outcome::Handled),
                _ => engine.settle(job, Outcome::Refused(Cause::Stale)),
            }
        }
        recorder.fates
    }
}

/// A frame that comes in, and how the world is then.
#[derive(Clone, Debug)]
struct Input {
    at: u64,
    bus: BusIndex,
    frame: Frame,
    behaviours: Vec<Behaviour>,
    settles: u8,
}

const BUSES: u16 = 3;

fn gates() -> impl Strategy<Value = Gate> {
    prop_oneof![Just(Gate::Classical), Just(Gate::Fd), Just(Gate::Any)]
}

fn paces() -> impl Strategy<Value = Pace> {
    let mask = prop_oneof![
        Just(Box::new([0xFF; 64])),
        prop::collection::vec(prop::sample::select(vec![0, 1, 0xFF]), 64)
            .prop_map(|bytes| Box::new(bytes.try_into().unwrap())),
    ];
    let on_change = (mask, prop_oneof![Just(0), 1..40_u64])
        .prop_map(|(mask, at_least_every_ns)| OnChange { mask, at_least_every_ns });
    (
        prop_oneof![Just(0), 1..20_u64],
        prop_oneof![Just(0), 1..60_u64],
        prop_oneof![3 => Just(0), 1 => 1..4_u32],
        prop::option::weighted(0.4, on_change),
        any::<bool>(),
    )
        .prop_map(|(interval_ns, tolerance_ns, every, on_change, per_rule)| {
            let per = if per_rule { Per::Rule } else { Per::Id };
            Pace { interval_ns, tolerance_ns, every, on_change, per, ids: 100 }
        })
}

fn rules() -> impl Strategy<Value = Rule> {
    let buses = || prop::sample::subsequence((0..BUSES).collect::<Vec<_>>(), 1..=2);
    let filters = prop::collection::vec((0..6_u16).prop_map(Filter::standard), 0..3);
    let conversion = prop::option::of(prop::sample::select(vec![
        Conversion::Fd,
        Conversion::FdWithSwitch,
        Conversion::Classical,
    ]));
    (gates(), 0..BUSES, buses(), filters, conversion, any::<bool>(), prop::option::of(0..4_u16))
        .prop_flat_map(|(gate, from, to, filters, convert, allow_return, counter)| {
            let payload = prop_oneof![Just(Payload::default()), payloads(gate)];
            let rule = move |(payload, pace)| {
                let counter = counter.filter(|_| gate != Gate::Any).map(|byte| {
                    let field = Field::new(byte * 8, 8, ByteOrder::Intel, false).unwrap();
                    Action::Counter(Counter { field, modulus: u64::from(byte) + 2 })
                });
                Rule {
                    gate,
                    to: to.iter().map(|&to| BusIndex(to)).collect(),
                    filters: filters.clone(),
                    allow_return,
                    extension: Extension {
                        payload,
                        pace,
                        actions: counter.into_iter().collect(),
                        convert,
                        deadline_ns: 0,
                    },
                    ..Rule::new("", BusIndex(from), BusIndex(0))
                }
            };
            (payload, paces()).prop_map(rule)
        })
}

prop_compose! {
    fn tables()(rules in prop::collection::vec(rules(), 1..6)) -> Table {
        let bus = |index: u16| {
            let name = format!("bus {index}");
            Bus { port: name.clone(), name, is_virtual: false }
        };
        let rules = rules.into_iter().zip(0..).map(|(rule, index)| {
            Rule { name: format!("rule {index}"), ..rule }
        });
        Table { buses: (0..BUSES).map(bus).collect(), rules: rules.collect(), ..Table::default() }
    }
}

fn frames() -> impl Strategy<Value = Frame> {
    let lengths = prop::sample::select(vec![0_usize, 1, 2, 3, 8, 12]);
    let data = (lengths, prop::collection::vec(0..3_u8, 12));
    (0..6_u32, prop::bool::weighted(0.1), 0..10_u8, data).prop_map(
        |(id, extended, kind, (length, data))| {
            let short = length.min(8);
            let word = if extended { id | EFF_FLAG } else { id };
            match kind {
                0 if extended => format!("{id:08X}#R{short}").parse().unwrap(),
                0 => format!("{id:03X}#R{short}").parse().unwrap(),
                1..=4 => Frame::from_parts(word, &data[..length], Some(kind & BRS)).unwrap(),
                _ => Frame::from_parts(word, &data[..short], None).unwrap(),
            }
        },
    )
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    use Behaviour::{IsDown, IsFull, Takes, TellsLater};
    let behaviour = prop_oneof![
        6 => Just(Takes), 2 => Just(TellsLater), 1 => Just(IsFull), 1 => Just(IsDown)
    ];
    let behaviours = prop::collection::vec(behaviour, usize::from(BUSES));
    let input = (0..12_u64, 0..BUSES, frames(), behaviours, 0..3_u8);
    prop::collection::vec(input, 1..80).prop_map(|inputs| {
        let mut now = 0;
        inputs
            .into_iter()
            .map(|(wait, bus, frame, behaviours, settles)| {
                now += wait;
                Input { at: now, bus: BusIndex(bus), frame, behaviours, settles }
            })
            .collect()
    })
}

/// The sums of the fates of all frames.
#[derive(Default)]
struct Sums {
    handled: u64,
    refused: HashMap<Cause, u64>,
    received: u64,
    unmatched: u64,
}

impl Sums {
    fn add(&mut self, input: &Input, fates: &Fates) {
        self.received += 1;
        self.unmatched += u64::from(fates.is_empty());
        for ((_, to), fate) in fates {
            let later = input.behaviours[usize::from(to.0)] == Behaviour::TellsLater;
            match fate {
                Ok(_) if later && input.settles == 0 => {}
                Ok(_) if later && input.settles == 2 => {
                    *self.refused.entry(Cause::Stale).or_default() += 1;
                }
                Ok(_) => self.handled += 1,
                Err(cause) => *self.refused.entry(*cause).or_default() += 1,
            }
        }
    }

    fn check(
        &self,
        fates: u64,
        jobs: JobCounters,
        buses: BusCounters,
    ) -> Result<(), TestCaseError> {
        prop_assert_eq!(jobs.handled, self.handled);
        for cause in Cause::ALL {
            let expected = self.refused.get(&cause).copied().unwrap_or_default();
            prop_assert_eq!(jobs.refused(cause), expected, "{:?}", cause);
        }
        // Copies = handled + refused by cause + pending.
        let refused: u64 = Cause::ALL.iter().map(|cause| jobs.refused(*cause)).sum();
        prop_assert_eq!(jobs.handled + refused + jobs.pending, fates);
        prop_assert_eq!(jobs.total(), fates);
        prop_assert_eq!(buses, BusCounters { received: self.received, unmatched: self.unmatched });
        Ok(())
    }
}

fn job_sum(counters: &Counters) -> JobCounters {
    let mut sum = JobCounters::default();
    counters.jobs().into_iter().for_each(|job| sum += job);
    sum
}

fn bus_sum(counters: &Counters) -> BusCounters {
    let mut sum = BusCounters::default();
    counters.buses().into_iter().for_each(|bus| sum += bus);
    sum
}

/// The same rules in another order, one of them with more patterns.
fn changed(table: &Table, turn: usize, more: usize) -> Table {
    let mut table = table.clone();
    let count = table.rules.len();
    table.rules.rotate_left(turn % count);
    if let Some(rule) = table.rules.get_mut(more % (2 * count))
        && !rule.filters.is_empty()
    {
        rule.filters.extend((0..6).map(Filter::standard));
    }
    table
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_engine_does_what_the_rules_say(table in tables(), inputs in inputs()) {
        let mut watched = Watched::new(&table);
        let mut interpreter = Interpreter::default();
        let (mut sums, mut copies) = (Sums::default(), 0);
        for input in inputs {
            let Input { at, bus, ref frame, ref behaviours, .. } = input;
            let expected = interpreter.handle(&table, at, bus, frame, behaviours);
            let fates = watched.handle(&input);
            prop_assert_eq!(&fates, &expected, "{:?}", input);
            sums.add(&input, &fates);
            copies += fates.len() as u64;
        }
        let counters = watched.engine.counters();
        sums.check(copies, job_sum(counters), bus_sum(counters))?;
    }

    /// Rules that are changed while frames come: what has been remembered stays, nothing is counted
    /// twice, and nothing is lost.
    #[test]
    fn a_successor_goes_on_where_the_earlier_engine_was(
        table in tables(),
        inputs in inputs(),
        swaps in prop::collection::vec((0..80_usize, 0..5_usize, 0..12_usize), 0..4),
    ) {
        let mut table = table;
        let mut watched = Watched::new(&table);
        let mut interpreter = Interpreter::default();
        let (mut sums, mut copies) = (Sums::default(), 0);
        let (mut job_total, mut bus_total) = (JobCounters::default(), BusCounters::default());
        for (index, input) in inputs.into_iter().enumerate() {
            for &(_, turn, more) in swaps.iter().filter(|(at, ..)| *at == index) {
                job_total += job_sum(watched.engine.counters());
                bus_total += bus_sum(watched.engine.counters());
                table = changed(&table, turn, more);
                let mut next = Watched::new(&table);
                let succession = Succession::new(watched.engine.program(), next.engine.program());
                for (old, new) in watched.jobs.iter().zip(succession.jobs()) {
                    let new = new.map(|new| &next.jobs[new.0 as usize]);
                    prop_assert_eq!(Some(old), new);
                }
                next.engine.succeed(&mut watched.engine, &succession);
                watched = next;
            }
            let Input { at, bus, ref frame, ref behaviours, .. } = input;
            let expected = interpreter.handle(&table, at, bus, frame, behaviours);
            let fates = watched.handle(&input);
            prop_assert_eq!(&fates, &expected, "{:?}", input);
            sums.add(&input, &fates);
            copies += fates.len() as u64;
        }
        job_total += job_sum(watched.engine.counters());
        bus_total += bus_sum(watched.engine.counters());
        sums.check(copies, job_total, bus_total)?;
    }
}

#[test]
fn what_has_no_successor_is_reported() {
    let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
    let table = |buses: &[&str], rules: Vec<Rule>| {
        let buses = buses.iter().map(|name| bus(name)).collect();
        Program::new(&Table { buses, rules, ..Table::default() })
    };
    let (a, b, c) = (BusIndex(0), BusIndex(1), BusIndex(2));
    let two = Rule { to: vec![b, c], ..Rule::new("two", a, b) };
    let earlier =
        table(&["a", "b", "c"], vec![two, Rule::new("gone", a, b), Rule::new("turned", a, b)]);
    // Bus `b` is gone, `c` has moved to the front.
    let one = Rule::new("two", b, a);
    let later =
        table(&["c", "a", "d"], vec![Rule::new("new", b, a), one, Rule::new("turned", a, b)]);
    let succession = Succession::new(&earlier, &later);
    assert_eq!(succession.jobs(), [None, Some(JobIndex(1)), None, None]);
    assert_eq!(succession.buses(), [Some(BusIndex(1)), None, Some(BusIndex(0))]);
}

#[test]
fn an_extension_is_empty_until_something_is_in_it() {
    assert!(Extension::default().is_empty());
    let pace = Pace { every: 2, ..Pace::default() };
    assert!(!Extension { pace, ..Extension::default() }.is_empty());
}

#[test]
fn an_extension_names_the_keys_that_are_used() {
    for every in [0, 1] {
        let extension = Extension {
            pace: Pace { every, ..Pace::default() },
            deadline_ns: 1,
            ..Extension::default()
        };
        assert_eq!(extension.keys(), ["deadline"], "{every}");
    }
}

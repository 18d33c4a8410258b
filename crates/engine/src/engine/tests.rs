//! The engine decides as the rules say, and counts what it decides.

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

/// From `A` over `B` to `C`, each copy echoed.
fn echoed() -> Table {
    let echoing = |name: &str, from, to| Rule { echo: true, ..Rule::new(name, from, to) };
    let rules = vec![echoing("on", B, C), echoing("in", A, B), Rule::new("back", C, A)];
    Table { max_hops: 3, ..table(rules) }
}

#[test]
fn copies_that_are_echoed_come_back_until_none_does() {
    let follow = |limit, takes: fn(BusIndex) -> bool| {
        let mut engine = Engine::new(&Table { max_hops: limit, ..echoed() });
        let (mut seen, mut hops) = (Vec::new(), Hops::default());
        let frame = "123#".parse().unwrap();
        engine.follow(Nanos::ZERO, A, &frame, &mut hops, &mut |copy: Forward<'_>| {
            seen.push((copy.to, copy.passage.hops));
            if takes(copy.to) { Outcome::Handled } else { Outcome::Refused(Cause::Down) }
        });
        assert!(hops.is_empty());
        let count = |cause| engine.counters().jobs().iter().map(|job| job.refused(cause)).sum();
        let refused: [u64; 2] = [count(Cause::HopLimit), count(Cause::Returning)];
        (seen, refused)
    };
    assert_eq!(follow(3, |_| true), (vec![(B, 1), (C, 2)], [0, 1]));
    assert_eq!(follow(1, |_| true), (vec![(B, 1)], [1, 0]));
    // What did not go out does not come back.
    assert_eq!(follow(3, |_| false), (vec![(B, 1)], [0, 0]));
}

#[test]
fn copies_that_come_back_have_a_bound() {
    let doubling = Rule { echo: true, allow_return: true, to: vec![A, A], ..Rule::new("", A, A) };
    let mut engine = Engine::new(&Table { max_hops: 12, ..table(vec![doubling]) });
    let (mut sent, mut hops) = (0, Hops::default());
    let frame = "123#".parse().unwrap();
    engine.follow(Nanos::ZERO, A, &frame, &mut hops, &mut |_: Forward<'_>| {
        sent += 1;
        Outcome::Handled
    });
    let jobs = engine.counters().jobs();
    let refused: u64 = jobs.iter().map(|job| job.refused(Cause::QueueFull)).sum();
    assert_eq!(sent, jobs.iter().map(|job| job.handled).sum::<u64>());
    // After ten passes 1,024 wait: for each that leaves, one of its two copies has room.
    assert_eq!((sent, refused), (2_046 + 2 * 1_024, 2 * 1_024));
}

#[test]
fn every_limit_of_hops_has_a_meaning() {
    for (max_hops, limit, left_behind) in [(255, 1, 255), (255, 255, 1), (3, 2, 2), (3, 255, 0)] {
        let limited = Rule { limit_hops: Some(limit), ..Rule::new("limited", A, B) };
        let mut engine = Engine::new(&Table { max_hops, ..table(vec![limited]) });
        let mut hops = None;
        let passage = Passage::received_on(A);
        let frame = "123#".parse().unwrap();
        engine.handle(Nanos::ZERO, A, &frame, passage, &mut |copy: Forward<'_>| {
            hops = Some(copy.passage.hops);
            Outcome::Handled
        });
        assert_eq!(hops, Some(left_behind), "{max_hops} {limit}");
    }
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
    let edit = Edit { set: Operands { len: Some(2), ..Operands::default() }, ..Edit::default() };
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
    let edit = Edit { set: Operands { len: Some(20), ..Operands::default() }, ..Edit::default() };
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

const EXT: u32 = candor_wire::can::frame::EFF_FLAG;

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
    (any_can_id(), masks, prop::bool::weighted(0.2)).prop_map(|(can_id, mask, inverted)| Filter {
        can_id,
        mask,
        inverted: inverted && mask & 0x2000_0000 == 0,
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
        let mut engine = Engine::with_counters(program.clone(), counters, bus);
        let forwarded: Vec<_> = (0..4).map(|_| fresh(&mut engine, "123#11").len()).collect();
        assert_eq!(forwarded, [1, 0, 1, 0], "{bus:?}");
    }
}

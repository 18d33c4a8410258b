//! Buses alone: frames are offered, and outcomes come back.

use candor_causes::Cause;
use candor_queue::Discipline;
use candor_time::Nanos;
use candor_wire::can::{ErrorCounters, ErrorState};

use super::bench::Bench;
use super::{BusStatistics, ControllerConfig, Fault};
use crate::medium::{ControllerId, FrameId, Outcome};

fn started(at: ControllerId, frame: u32) -> Outcome {
    Outcome::Started { at, frame: FrameId(frame) }
}

fn sent(at: ControllerId, frame: u32) -> Outcome {
    Outcome::Sent { at, frame: FrameId(frame) }
}

fn failed(at: ControllerId, frame: u32) -> Outcome {
    Outcome::Failed { at, frame: FrameId(frame) }
}

/// A node that does not say what it receives.
fn silent() -> ControllerConfig {
    ControllerConfig { is_listening: false, ..ControllerConfig::default() }
}

#[test]
fn an_offer_is_refused_if_it_has_no_room_or_no_place_on_the_bus() {
    for discipline in [Discipline::Fifo, Discipline::Priority] {
        let mut bench = Bench::new(None);
        let node = bench.add(ControllerConfig { discipline, depth: 2, ..silent() });
        for (id, frame, result) in [
            (0, "123##1AA", Err(Cause::Unsupported)),
            (1, "20000004#00", Err(Cause::Unsupported)),
            (2, "100#", Ok(())),
            (3, "200#", Ok(())),
            (4, "300#", Err(Cause::QueueFull)),
        ] {
            assert_eq!(bench.offer(node, id, frame), result, "{frame}");
        }
        assert!(bench.can.is_full(node));
        assert_eq!((bench.can.waiting(node), bench.can.held(node)), (2, 2));
        bench.run();
        assert_eq!((bench.can.waiting(node), bench.can.held(node)), (0, 0));
        let frames = [started(node, 2), sent(node, 2), started(node, 3), sent(node, 3)];
        let outcomes: Vec<_> = bench.outcomes.iter().map(|&(_, outcome)| outcome).collect();
        assert_eq!(outcomes, frames, "{discipline:?}");
        assert_eq!(bench.can.frames.len(), 0);
    }
}

#[test]
fn the_lowest_identifier_wins_and_all_others_receive_it() {
    let mut bench = Bench::new(None);
    let nodes = [0, 1, 2].map(|_| bench.add(ControllerConfig::default()));
    for (id, frame) in [(0, "300#"), (1, "100#"), (2, "200#")] {
        bench.offer(nodes[id as usize], id, frame).unwrap();
    }
    bench.run();
    let [a, b, c] = nodes;
    let received = |at, from, frame| Outcome::Received { at, from, frame: FrameId(frame) };
    // Each has 44 bits and 4 stuff bits; 3 bits of intermission follow.
    let mut expected = Vec::new();
    let mut start_us = 0;
    for (id, from, to) in [(1, b, [a, c]), (2, c, [a, b]), (0, a, [b, c])] {
        let end_us = start_us + 44 + 4;
        expected.push((start_us, started(from, id)));
        expected.extend(to.map(|at| (end_us, received(at, from, id))));
        expected.push((end_us, sent(from, id)));
        start_us = end_us + 3;
    }
    assert_eq!(bench.outcomes_us(), expected);
    assert_eq!(bench.statistics().frames, 3);
    // The intermission of the last frame is not over.
    assert_eq!(bench.statistics().busy, Nanos::from_micros(start_us - 3));
}

#[test]
fn a_destroyed_frame_is_sent_again() {
    let mut bench = Bench::new(None);
    let node = bench.add(silent());
    bench.destroy_bit(20);
    bench.offer(node, 7, "123#").unwrap();
    bench.run();
    let [(0, first), (failed_us, second), (again_us, third), (end_us, fourth)] =
        bench.outcomes_us()[..]
    else {
        panic!("{:?}", bench.outcomes_us());
    };
    assert_eq!([first, second], [started(node, 7), failed(node, 7)]);
    assert_eq!([third, fourth], [started(node, 7), sent(node, 7)]);
    // The wrong bit is the 21st. Behind it come 6 to 12 bits of flags, 8 of delimiter and 3 of
    // intermission.
    assert_eq!((failed_us, end_us), (21, again_us + 45));
    assert!((21 + 6 + 11..=21 + 12 + 11).contains(&again_us), "{again_us}");
    assert_eq!(bench.can.error_counters(node, bench.core.now()).transmit, 8 - 1);
    assert_eq!((bench.statistics().frames, bench.statistics().error_frames), (1, 1));
}

/// ISO 11898-1: a frame is valid for receivers before the last bit of its end of frame, for its sender after it.
#[test]
fn a_frame_with_an_error_in_its_last_bit_arrives_twice() {
    // 123# has 45 bits without its intermission.
    for (bit, receptions_us) in [(44, vec![45, 45 + 6 + 11 + 45]), (43, vec![44 + 6 + 11 + 45])] {
        let mut bench = Bench::new(None);
        let [node, listener] = [silent(), ControllerConfig::default()].map(|it| bench.add(it));
        assert!(bench.can.add_fault(bench.bus, Fault { frame: 0, bit }));
        bench.offer(node, 7, "123#").unwrap();
        bench.run();
        let received = Outcome::Received { at: listener, from: node, frame: FrameId(7) };
        let at = bench.outcomes_us().into_iter().filter(|it| it.1 == received).map(|it| it.0);
        assert_eq!(at.collect::<Vec<_>>(), receptions_us, "{bit}");
        assert_eq!((bench.statistics().frames, bench.statistics().error_frames), (1, 1));
    }
}

#[test]
fn equal_frames_of_two_nodes_are_one_frame_on_the_bus() {
    let mut bench = Bench::new(None);
    let [a, b] = [0, 1].map(|_| bench.add(silent()));
    let listener = bench.add(ControllerConfig::default());
    bench.offer(a, 0, "123#").unwrap();
    bench.offer(b, 1, "123#").unwrap();
    bench.run();
    let received = Outcome::Received { at: listener, from: a, frame: FrameId(0) };
    let merged = Outcome::Refused { at: b, frame: FrameId(1), cause: Cause::Merged };
    let at_end = [received, sent(a, 0), merged].map(|outcome| (45, outcome));
    let expected = [&[(0, started(a, 0)), (0, started(b, 1))][..], &at_end].concat();
    assert_eq!(bench.outcomes_us(), expected);
    assert_eq!(bench.can.frames.len(), 0);
}

#[test]
fn a_passive_node_whose_bit_is_overridden_fails_at_once_and_goes_on_later() {
    let mut bench = Bench::new(None);
    let [a, b] = [0, 1].map(|_| bench.add(silent()));
    // The first difference is in the length, where the first node has the recessive bit.
    bench.offer(a, 0, "123#11").unwrap();
    bench.offer(b, 1, "123#").unwrap();
    bench.can.set_transmit_errors(a, 128);
    assert_eq!([a, b].map(|node| bench.can.state(node)), [ErrorState::Passive, ErrorState::Active]);
    bench.run();
    let outcomes: Vec<_> = bench.outcomes.iter().map(|&(_, outcome)| outcome).collect();
    let expected =
        [started(a, 0), started(b, 1), failed(a, 0), sent(b, 1), started(a, 0), sent(a, 0)];
    assert_eq!(outcomes, expected);
    assert_eq!(bench.can.error_counters(a, bench.core.now()).transmit, 128 + 8 - 1);
}

#[test]
fn a_driver_that_reloads_lets_the_bus_idle() {
    for (reload_us, second_us) in [(0, 48), (2, 48), (3, 48), (4, 49), (20, 65)] {
        let mut bench = Bench::new(None);
        let reload = Nanos::from_micros(reload_us);
        let node = bench.add(ControllerConfig { reload, ..silent() });
        bench.offer(node, 0, "123#").unwrap();
        bench.offer(node, 1, "123#").unwrap();
        bench.run();
        let starts = bench.outcomes_us().into_iter();
        let starts: Vec<_> =
            starts.filter(|(_, it)| matches!(it, Outcome::Started { .. })).map(|it| it.0).collect();
        assert_eq!(starts, [0, second_us], "{reload_us} us");
    }
}

/// When a node that is bus-off from the beginning sends a frame, beside one that sends frames of
/// 45 bits and an intermission at these times.
fn back_at(restart_us: u64, times: Vec<u64>) -> u64 {
    let mut bench = Bench::new(Some(Nanos::from_micros(restart_us)));
    bench.node("123#", times);
    let off = bench.node("100#", vec![0]);
    bench.can.take_off(&mut bench.core, off);
    assert!(bench.can.is_recovering());
    bench.run();
    assert_eq!(bench.can.error_counters(off, bench.core.now()), ErrorCounters::default());
    assert!(!bench.can.is_recovering());
    bench.last_start_us("100#")
}

#[test]
fn on_an_idle_bus_coming_back_takes_1408_bits() {
    assert_eq!(back_at(0, vec![]), 128 * 11);
    assert_eq!(back_at(250, vec![]), 250 + 128 * 11);
}

#[test]
fn on_a_full_bus_coming_back_takes_128_frames() {
    let full: Vec<_> = vec![0; 900];
    assert_eq!(back_at(0, full.clone()), 128 * 48);
    // It watches from within the second frame on.
    assert_eq!(back_at(60, full), 129 * 48);
}

#[test]
fn a_started_sequence_is_lost_when_a_frame_begins() {
    // From 37 us, the acknowledge delimiter, to the next frame are 63 bits: 5 sequences. After 25
    // frames 3 are missing.
    let every_100_us = (0..900).map(|number| number * 100).collect();
    assert_eq!(back_at(0, every_100_us), 25 * 100 + 37 + 3 * 11);
}

#[test]
fn only_the_passive_sender_itself_waits_after_its_frame() {
    for (others, second) in [(vec![], 48 + 8), (vec![10], 96)] {
        let mut bench = Bench::new(None);
        let passive = bench.node("123#", vec![0, 0]);
        // Less urgent, but not suspended.
        bench.node("133#", others.clone());
        bench.can.set_transmit_errors(passive, 200);
        assert_eq!(bench.can.state(passive), ErrorState::Passive);
        bench.run();
        assert_eq!(bench.starts_us("123#"), [0, second], "{others:?}");
        assert_eq!(bench.starts_us("133#"), others.iter().map(|_| 48).collect::<Vec<_>>());
    }
}

#[test]
fn a_controller_that_is_bus_off_misses_frames_and_one_that_never_restarts_sends_none() {
    let mut bench = Bench::new(None);
    let sender = bench.node("123#", vec![0]);
    let deaf = bench.node("100#", vec![0]);
    let silent = ControllerConfig { is_listening: false, ..ControllerConfig::default() };
    bench.can.add_controller(bench.bus, silent);
    bench.can.take_off(&mut bench.core, deaf);
    assert!(!bench.can.is_recovering());
    bench.run();
    let frame = FrameId(0);
    let missed = Outcome::Missed { at: deaf, from: sender, frame, cause: Cause::BusOff };
    let expected = [
        (0, Outcome::Started { at: sender, frame }),
        (45, missed),
        (45, Outcome::Sent { at: sender, frame }),
    ];
    assert_eq!(bench.outcomes_us(), expected);
    assert_eq!((bench.can.waiting(deaf), bench.statistics().bus_offs), (1, 1));
    assert_eq!(bench.can.bus_offs(deaf), 1);
}

/// Two passive nodes send at once, and something destroys bit `until_error` from now on. What
/// the bus has counted, and of each node its transmit error counter and when its frame began.
fn collide_passive(until_error: u64) -> (BusStatistics, [(u32, u64); 2]) {
    let mut bench = Bench::new(None);
    let senders = [LONG, SHORT].map(|frame| bench.node(frame, vec![0]));
    for sender in senders {
        bench.can.set_transmit_errors(sender, 200);
    }
    bench.destroy_bit(until_error);
    bench.run();
    let counted = |index: usize, frame| {
        (
            bench.can.error_counters(senders[index], bench.core.now()).transmit,
            bench.last_start_us(frame),
        )
    };
    (bench.statistics(), [counted(0, LONG), counted(1, SHORT)])
}

/// The longer frame has the recessive bit, in its length: bit 15.
const LONG: &str = "123#1122334455667788";
const SHORT: &str = "123#";

#[test]
fn an_error_drawn_for_a_frame_that_gives_in_does_not_hit_the_shorter_one() {
    // An error in a bit that the shorter frame, of 45 bits, does not have: there is none.
    let (statistics, [(long_tec, _), (short_tec, _)]) = collide_passive(60);
    assert_eq!((statistics.frames, statistics.error_frames), (2, 0));
    assert_eq!((long_tec, short_tec), (200 + 8 - 1, 199));
}

#[test]
fn an_error_where_two_frames_differ_hits_both() {
    // Both have failed at the same bit, so both are suspended, and they collide again. Behind
    // that bit there is one sender alone, and the other one need not wait for so long.
    for (until_error, collisions) in [(14, 2), (15, 2), (16, 1)] {
        let (statistics, [(_, long_start), (_, short_start)]) = collide_passive(until_error);
        assert_eq!(statistics.error_frames, 1, "{until_error}");
        assert_eq!(statistics.id_collisions, collisions, "{until_error}");
        assert_eq!(short_start < long_start, collisions == 2, "{until_error}");
    }
}

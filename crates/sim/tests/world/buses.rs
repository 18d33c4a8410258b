//! Buses: arbitration, errors, collisions, and frames that a bus cannot carry.

use candor_lat::Tap;
use candor_sim::model::{Linux, Readout};
use candor_sim::*;
use candor_time::Nanos;
use candor_wire::can::ErrorState;

use crate::scene::*;
use crate::start::run;

#[test]
fn a_frame_that_its_bus_cannot_carry_is_refused() {
    for (is_fd, causes) in [
        (false, vec![("delivered", 2), ("unsupported", 2)]),
        (true, vec![("delivered", 3), ("unsupported", 1)]),
    ] {
        let mut world: World<Repeater> = World::new(7);
        let a = world.add_bus(BusConfig { is_fd, ..bus("a", 1_000_000) });
        // An error report is nothing that anybody sends.
        let list = frames(&[(0, "123#"), (1, "123##0"), (2, "20000004#00"), (3, "123#R")]);
        world.add_sender(a, sender(Drive::Timed, Discipline::Fifo, 8), list);
        let mut log = Log::default();
        world.run(&mut log);
        assert_eq!(log.causes(), causes.into_iter().collect(), "{is_fd}");
    }
}

#[test]
fn a_copy_that_its_bus_cannot_carry_is_refused() {
    for (is_fd, causes) in
        [(false, vec![("forwarded", 1), ("unsupported", 1)]), (true, vec![("forwarded", 2)])]
    {
        let mut world = World::new(7);
        let a = world.add_bus(BusConfig { is_fd: true, ..bus("a", 1_000_000) });
        let b = world.add_bus(BusConfig { is_fd, ..bus("b", 1_000_000) });
        let host = world.add_host(Model::Linux(Box::new(linux())), Repeater::new(&[&[1], &[]]));
        world.connect(host, a);
        world.connect(host, b);
        let list = frames(&[(0, "123##0"), (1_000, "123#")]);
        world.add_sender(a, sender(Drive::Timed, Discipline::Fifo, 8), list);
        let mut log = Log::default();
        world.run(&mut log);
        assert_eq!(log.causes(), causes.into_iter().collect(), "{is_fd}");
    }
}

#[test]
fn the_smallest_identifier_wins_and_a_fifo_inverts_priorities() {
    for (discipline, order) in [
        (Discipline::Priority, ["300#", "100#", "200#", "400#"]),
        (Discipline::Fifo, ["300#", "200#", "400#", "100#"]),
    ] {
        let mut world: World<Repeater> = World::new(7);
        let a = world.add_bus(bus("a", 1_000_000));
        // 300# is on the wire when the others come.
        let list = frames(&[(0, "300#"), (10, "400#"), (11, "100#")]);
        world.add_sender(a, sender(Drive::Timed, discipline, 8), list);
        world.add_sender(a, sender(Drive::Timed, discipline, 8), frames(&[(12, "200#")]));
        let mut log = Log::default();
        world.run(&mut log);
        let sent: Vec<_> = log.ends.iter().map(|(_, frame, _, _)| frame.as_str()).collect();
        assert_eq!(sent, order, "{discipline:?}");
        // Back to back: 44 bits, a few stuff bits and the intermission.
        let ends: Vec<_> = log.ends.iter().map(|end| end.3.at(Tap::SourceEnd).unwrap()).collect();
        assert_eq!(ends[0], 48_000);
        assert!(ends.windows(2).all(|pair| (47_000..55_000).contains(&(pair[1] - pair[0]))));
    }
}

#[test]
fn errors_delay_frames_and_lose_none() {
    let mut noisy = bus("a", 500_000);
    noisy.bit_error_rate = 1e-3;
    let mut world: World<Repeater> = World::new(7);
    let a = world.add_bus(noisy);
    world.add_listener(a);
    world.add_sender(
        a,
        sender(Drive::Flood, Discipline::Fifo, 2),
        repeat("123#1122334455667788", 2_000),
    );
    let mut log = Log::default();
    world.run(&mut log);
    assert_eq!(log.causes(), [("delivered", 2_000)].into());
    let statistics = world.bus_statistics(a);
    // About one frame in ten is hit, and some of the repetitions.
    assert!((150..350).contains(&statistics.error_frames), "{statistics:?}");
    assert_eq!((statistics.frames, statistics.bus_offs), (2_000, 0));
}

#[test]
fn a_faulty_sender_goes_bus_off_and_comes_back_if_it_may() {
    for (restart, causes) in [
        (None, vec![("delivered", 20), ("unfinished", 3)]),
        (Some(Nanos::from_millis(100)), vec![("delivered", 23)]),
    ] {
        let mut world: World<Repeater> = World::new(7);
        let a = world.add_bus(BusConfig { restart, ..bus("a", 500_000) });
        let healthy = world.add_sender(a, sender(Drive::Timed, Discipline::Fifo, 20), {
            let list: Vec<_> = (0..20).map(|n| (n * 1_000, "123#11")).collect();
            frames(&list)
        });
        // It fails often enough to reach bus-off, not so often that it never gets through.
        let faulty = SenderConfig {
            fault_rate: if restart.is_some() { 0.985 } else { 1.0 },
            ..sender(Drive::Timed, Discipline::Fifo, 8)
        };
        let broken = world.add_sender(a, faulty, frames(&[(0, "100#"), (1, "101#"), (2, "102#")]));
        let mut log = Log::default();
        world.run(&mut log);
        if restart.is_none() {
            assert_eq!(world.sender_state(broken), ErrorState::BusOff);
        }
        assert_eq!(log.causes(), causes.into_iter().collect());
        assert!(world.bus_statistics(a).bus_offs >= 1);
        assert_eq!(world.sender_state(healthy), ErrorState::Active);
    }
}

/// All orders of `items`.
fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let without = |index: usize| [&items[..index], &items[index + 1..]].concat();
    (0..items.len())
        .flat_map(|index| {
            let rest = permutations(&without(index));
            rest.into_iter().map(move |rest| [&[items[index].clone()], &rest[..]].concat())
        })
        .collect()
}

#[test]
fn of_frames_released_at_one_instant_the_most_urgent_is_first() {
    for releases in permutations(&["500#", "400#", "300#", "200#", "100#"]) {
        for split in 0..releases.len() {
            // Some at one node, the others at another.
            let mut world: World<Repeater> = World::new(7);
            let a = world.add_bus(bus("a", 1_000_000));
            for part in [&releases[..split], &releases[split..]] {
                let list: Vec<_> = part.iter().map(|frame| (0, *frame)).collect();
                world.add_sender(a, sender(Drive::Timed, Discipline::Priority, 8), frames(&list));
            }
            let mut log = Log::default();
            world.run(&mut log);
            let sent: Vec<_> = log.ends.iter().map(|end| end.1.as_str()).collect();
            assert_eq!(sent, ["100#", "200#", "300#", "400#", "500#"], "{releases:?} {split}");
        }
    }
}

#[test]
fn a_node_that_is_ready_when_the_bus_becomes_free_takes_part() {
    // 300# ends at 45 us, and the intermission at 48 us.
    let mut world: World<Repeater> = World::new(7);
    let a = world.add_bus(bus("a", 1_000_000));
    for list in [&[(0, "300#"), (1, "400#")][..], &[(48, "200#")], &[(48, "100#")]] {
        world.add_sender(a, sender(Drive::Timed, Discipline::Fifo, 8), frames(list));
    }
    let mut log = Log::default();
    world.run(&mut log);
    let sent: Vec<_> = log.ends.iter().map(|end| end.1.as_str()).collect();
    assert_eq!(sent, ["300#", "100#", "200#", "400#"]);
}

#[test]
fn a_place_that_becomes_free_when_a_frame_arrives_is_free() {
    // The second frame ends 48 us after the first one, exactly when that has been read out of the
    // only place: 1 + 2 + 45 us. A microsecond more, and it is lost.
    for (read, readout, expected) in [
        (45, Readout::SoftIrq, vec![("forwarded", 2)]),
        (46, Readout::SoftIrq, vec![("forwarded", 1), ("rx_overflow", 1)]),
        (47, Readout::HardIrq, vec![("forwarded", 2)]),
        (48, Readout::HardIrq, vec![("forwarded", 1), ("rx_overflow", 1)]),
    ] {
        let model = Linux { rx_fifo: 1, read: US(read), readout, ..linux() };
        let config = sender(Drive::Flood, Discipline::Fifo, 2);
        let (log, _) = run(Model::Linux(Box::new(model)), config, repeat("123#", 2));
        assert_eq!(log.causes(), expected.into_iter().collect(), "{read} us");
    }
}

/// Two nodes send these frames at the same time: what became of them, and of the bus.
fn collide(frames_of: [&str; 2]) -> (Log, BusStatistics, [ErrorState; 2]) {
    let mut world: World<Repeater> = World::new(7);
    let a = world.add_bus(bus("a", 1_000_000));
    let senders = frames_of.map(|frame| {
        world.add_sender(a, sender(Drive::Timed, Discipline::Fifo, 8), frames(&[(0, frame)]))
    });
    world.add_listener(a);
    let mut log = Log::default();
    world.run(&mut log);
    let statistics = world.bus_statistics(a);
    (log, statistics, senders.map(|sender| world.sender_state(sender)))
}

#[test]
fn equal_frames_of_two_nodes_are_one_frame() {
    let (log, statistics, _) = collide(["123#11", "123#11"]);
    assert_eq!(log.causes(), [("delivered", 1), ("merged", 1)].into());
    assert_eq!((statistics.frames, statistics.id_collisions), (1, 1));
    assert_eq!((statistics.error_frames, statistics.collision_id), (0, Some(0x123)));
}

#[test]
fn different_frames_with_one_identifier_destroy_each_other_until_their_senders_are_passive() {
    // The first node sends a recessive bit where the other sends a dominant one, or the other way.
    for (pair, first) in [(["123#11", "123#01"], "123#01"), (["123#", "123#01"], "123#")] {
        let (log, statistics, states) = collide(pair);
        let order: Vec<_> = log.ends.iter().map(|end| end.1.as_str()).collect();
        let second = if pair[0] == first { pair[1] } else { pair[0] };
        assert_eq!(order, [first, second]);
        assert_eq!(log.causes(), [("delivered", 2)].into());
        // 16 times 8 make both passive. The 17th time the recessive bit gives in: its sender has 136,
        // and 135 after its own frame; the other one has 127, and is active again.
        assert_eq!((statistics.id_collisions, statistics.error_frames), (17, 16));
        let passive = pair.map(|frame| match frame == first {
            true => ErrorState::Active,
            false => ErrorState::Passive,
        });
        assert_eq!(states, passive);
    }
}

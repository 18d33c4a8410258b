//! The world as a whole: small scenes with known outcomes.

mod scene;

use candor_causes::Cause;
use candor_lat::Tap;
use candor_sim::instrument::Instrument;
use candor_sim::model::{Egress, EthernetLoad, Interference, Linux, Readout, UserSpace};
use candor_sim::*;
use candor_time::Nanos;

use scene::*;

/// Sender, bus, host, bus: the scene of most tests.
fn run(model: Model, config: SenderConfig, source: Box<dyn Source>) -> (Log, World<Repeater>) {
    let mut world = World::new(7);
    let (a, b) = (world.add_bus(bus("a", 1_000_000)), world.add_bus(bus("b", 1_000_000)));
    let host = world.add_host(model, Repeater::new(&[&[1], &[]]));
    world.connect(host, a);
    world.connect(host, b);
    world.add_listener(b);
    world.add_sender(a, config, source);
    let mut log = Log::default();
    assert!(world.run(&mut log));
    (log, world)
}

#[test]
fn a_frame_takes_the_sum_of_its_steps() {
    let model = Model::Linux(Box::new(linux()));
    let (log, _) =
        run(model, sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#1122334455667788", 3));
    // interrupt 1, soft-irq 2, read 4, receive 8, slot 16, clone 32, transmit 64; 109 bits.
    assert_eq!(log.latencies_ns(), [127_000 + 109_000; 3]);
    let taps = log.ends[0].3;
    let since_end = |tap| taps.distance_ns(Tap::SourceEnd, tap).unwrap() / 1_000;
    assert_eq!(since_end(Tap::Read), 1 + 2 + 4);
    assert_eq!(since_end(Tap::Decided), 7 + 8 + 16);
    assert_eq!(since_end(Tap::Enqueued), 31 + 32 + 64);
    assert_eq!(since_end(Tap::TargetStart), 127);
}

#[test]
fn a_slowed_host_takes_longer_for_everything_but_the_wire() {
    let model = Model::Linux(Box::new(Linux { slowdown_percent: 150, ..linux() }));
    let (log, _) =
        run(model, sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#1122334455667788", 1));
    assert_eq!(log.latencies_ns(), [127_000 * 3 / 2 + 109_000]);
}

#[test]
fn an_instrument_stamps_late() {
    let mut world = World::new(7);
    let (a, b) = (world.add_bus(bus("a", 1_000_000)), world.add_bus(bus("b", 1_000_000)));
    let host = world.add_host(Model::Linux(Box::new(linux())), Repeater::new(&[&[1], &[]]));
    world.connect(host, a);
    world.connect(host, b);
    world.add_listener(b);
    world.add_sender(a, sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#", 1));
    let costs = Instrument {
        interrupt: US(2),
        transmit_done: US(3),
        reload: US(100),
        read: US(5),
        ..Instrument::default()
    };
    world.set_instrument(costs);
    let mut log = Log::default();
    world.run(&mut log);
    // 45 bits; the gateway takes 127 us and knows nothing of the instrument.
    let at = |tap| log.ends[0].3.at(tap).unwrap();
    assert_eq!(at(Tap::SourceEnd), 45_000 + 2_000 + 3_000 + 5_000);
    assert_eq!(at(Tap::TargetStart), 45_000 + 127_000);
    assert_eq!(at(Tap::TargetEnd), 45_000 + 127_000 + 45_000 + 2_000 + 5_000);
}

#[test]
fn a_paced_sender_loads_the_bus_as_asked() {
    for (period_percent, period_ns) in [(100, 48_000), (200, 96_000), (250, 120_000)] {
        let mut world: World<Repeater> = World::new(7);
        let a = world.add_bus(bus("a", 1_000_000));
        let config = sender(Drive::Paced { period_percent }, Discipline::Fifo, 8);
        let id = world.add_sender(a, config, repeat("123#", 4));
        let mut log = Log::default();
        world.run(&mut log);
        // 45 bits and 3 of intermission.
        let released: Vec<_> = log.ends.iter().map(|end| end.3.at(Tap::Queued).unwrap()).collect();
        assert_eq!(released, [0, 1, 2, 3].map(|n| n * period_ns), "{period_percent} %");
        assert_eq!(world.released(id), 4);
    }
}

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
fn a_driver_that_reloads_lets_the_bus_idle() {
    // A frame of 45 bits and 3 of intermission; the driver begins to reload at the end of the frame.
    for (reload_us, starts_us) in [(0, [0, 48, 96]), (1, [0, 48, 96]), (20, [0, 65, 130])] {
        let mut world: World<Repeater> = World::new(7);
        let a = world.add_bus(bus("a", 1_000_000));
        let config =
            SenderConfig { reload: US(reload_us), ..sender(Drive::Flood, Discipline::Fifo, 2) };
        world.add_sender(a, config, repeat("123#", 3));
        let mut log = Log::default();
        world.run(&mut log);
        let starts = log.ends.iter().map(|end| end.3.at(Tap::SourceStart).unwrap() / 1_000);
        assert_eq!(starts.collect::<Vec<_>>(), starts_us, "{reload_us} us");
    }
}

#[test]
fn the_timeout_of_a_frame_counts_from_its_own_release() {
    let mut world: World<Repeater> = World::new(7);
    let a = world.add_bus(bus("a", 1_000_000));
    let turnaround = Nanos::from_millis(400);
    let drive =
        Drive::OneAtATime { turnaround: (turnaround, turnaround), timeout: Nanos::from_secs(1) };
    // The third one is lost: this bus carries no CAN FD.
    let list = frames(&[(0, "123#"), (0, "123#"), (0, "123##0"), (0, "123#")]);
    world.add_sender(a, sender(drive, Discipline::Fifo, 8), list);
    let mut log = Log::default();
    world.run(&mut log);
    let released: Vec<_> = log.ends.iter().map(|end| end.3.at(Tap::Queued).unwrap()).collect();
    assert_eq!(released, [0, 400_045_000, 800_090_000, 1_800_090_000]);
}

#[test]
fn an_observer_may_stop_the_run() {
    /// Stops when so many frames have been sent.
    struct Until(u64, Log);
    impl Observer for Until {
        fn record(&mut self, record: &Record<'_>) {
            self.1.record(record);
        }
        fn proceed(&mut self, now: Time, sent: u64) -> bool {
            assert_eq!(sent > 0, now > Time::ZERO);
            sent < self.0
        }
    }
    let run = |count: usize, until: u64| {
        let mut world: World<Repeater> = World::new(7);
        let a = world.add_bus(bus("a", 1_000_000));
        world.add_sender(a, sender(Drive::Flood, Discipline::Fifo, 2), repeat("123#", count));
        let mut until = Until(until, Log::default());
        (world.run(&mut until), until.1.ends.len())
    };
    assert_eq!(run(100_000, u64::MAX), (true, 100_000));
    let (is_over, ends) = run(100_000, 20_000);
    assert!(!is_over && (20_000..30_000).contains(&ends), "{ends}");
}

#[test]
fn the_process_costs_its_wake_up_and_calls() {
    let user =
        UserSpace { socket: US(10), socket_depth: 5, wake: US(20), recv: US(30), send: US(40) };
    let model = Linux { user_space: Some(user), ..linux() };
    let (log, _) = run(
        Model::Linux(Box::new(model)),
        sender(ONE_AT_A_TIME, Discipline::Fifo, 1),
        repeat("123#", 2),
    );
    // 1 + 2 + 4 + 8 + socket 10 + wake 20 + recv 30 + send 40 + transmit 64; 45 bits.
    assert_eq!(log.latencies_ns(), [179_000 + 45_000; 2]);
}

#[test]
fn hops_over_a_virtual_bus_add_up() {
    let mut world = World::new(7);
    let (a, b) = (world.add_bus(bus("a", 1_000_000)), world.add_bus(bus("b", 1_000_000)));
    let host = world.add_host(Model::Linux(Box::new(linux())), Repeater::new(&[&[2], &[], &[1]]));
    world.connect(host, a);
    world.connect(host, b);
    assert_eq!(world.add_virtual_port(host), Port(2));
    world.add_listener(b);
    world.add_sender(a, sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#", 1));
    let mut log = Log::default();
    world.run(&mut log);
    // To the virtual bus: 1 + 2 + 4 + 8 + 16 + 32 + 128; back: 8 + 16 + 32 + 64; 45 bits.
    assert_eq!(log.latencies_ns(), [(191 + 120 + 45) * 1_000]);
}

#[test]
fn a_second_virtual_bus_makes_each_hop_dearer() {
    let mut world = World::new(7);
    let (a, b) = (world.add_bus(bus("a", 1_000_000)), world.add_bus(bus("b", 1_000_000)));
    let rules = Repeater::new(&[&[2], &[], &[3], &[1]]);
    let host = world.add_host(Model::Linux(Box::new(linux())), rules);
    world.connect(host, a);
    world.connect(host, b);
    world.add_virtual_port(host);
    world.add_virtual_port(host);
    world.add_sender(a, sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#", 1));
    let mut log = Log::default();
    world.run(&mut log);
    // To the first: 1 + 2 + 4 + 8 + 16 + 32 + 129; to the second: 8 + 16 + 32 + 129; back as above.
    assert_eq!(log.latencies_ns(), [(192 + 185 + 120 + 45) * 1_000]);
}

#[test]
fn a_rule_with_two_destinations_makes_two_copies() {
    let mut world = World::new(7);
    let buses = ["a", "b", "c"].map(|name| world.add_bus(bus(name, 1_000_000)));
    let rules = Repeater::new(&[&[1, 2], &[], &[]]);
    let host = world.add_host(Model::Linux(Box::new(linux())), rules);
    for bus in buses {
        world.connect(host, bus);
    }
    world.add_sender(buses[0], sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#", 1));
    let mut log = Log::default();
    world.run(&mut log);
    // The second copy is cloned and sent after the first one, which interrupts when it has left.
    assert_eq!(log.latencies_ns(), [(127 + 45) * 1_000, (127 + 96 + 1 + 45) * 1_000]);
}

#[test]
fn filters_behind_the_last_rule_hold_up_the_next_frame() {
    let ends = |look_ups| {
        let mut world = World::new(7);
        let (a, b) = (world.add_bus(bus("a", 1_000_000)), world.add_bus(bus("b", 1_000_000)));
        let rules = Repeater::new(&[&[1], &[]]).with_look_ups(look_ups);
        let host = world.add_host(Model::Linux(Box::new(linux())), rules);
        world.connect(host, a);
        world.connect(host, b);
        world.add_sender(a, sender(Drive::Flood, Discipline::Fifo, 2), repeat("123#", 2));
        let mut log = Log::default();
        world.run(&mut log);
        log.ends.iter().map(|end| end.3.at(Tap::TargetEnd).unwrap()).collect::<Vec<_>>()
    };
    let (one, three) = (ends(1), ends(3));
    assert_eq!(three, [one[0], one[1] + 2 * 16_000]);
}

#[test]
fn cold_caches_take_up_to_so_much_more() {
    let model = Model::Linux(Box::new(Linux { jitter: US(10), ..linux() }));
    let (log, _) = run(model, sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#", 500));
    let base = (127 + 45) * 1_000;
    let more: Vec<_> = log.latencies_ns().iter().map(|latency| latency - base).collect();
    assert!(more.iter().all(|more| (0..=10_000).contains(more)), "{more:?}");
    assert!(more.iter().any(|&more| more < 500) && more.iter().any(|&more| more > 9_500));
}

#[test]
fn ethernet_packets_take_their_part_of_the_processor() {
    // An overloaded host: what it forwards is what time it has.
    let forwarded = |ethernet| {
        let model = Linux { ethernet, ..linux() };
        let config = sender(Drive::Flood, Discipline::Fifo, 2);
        let (log, _) = run(Model::Linux(Box::new(model)), config, repeat("123#", 20_000));
        log.causes()["forwarded"] as f64
    };
    let alone = forwarded(None);
    // Every millisecond three fragments: 3 x (50 + 40) + 60 us.
    let load = EthernetLoad {
        every: Nanos::from_millis(1),
        fragments: 3,
        spacing: US(100),
        interrupt: US(50),
        receive: US(40),
        reply: US(60),
    };
    let share = forwarded(Some(load)) / alone;
    assert!((0.655..0.685).contains(&share), "{share}");
}

#[test]
fn a_flood_on_one_port_does_not_starve_the_others() {
    let mut world = World::new(7);
    let buses = ["a", "b", "c"].map(|name| world.add_bus(bus(name, 1_000_000)));
    let model = Model::Linux(Box::new(Linux { poll_weight: 8, ..linux() }));
    let host = world.add_host(model, Repeater::new(&[&[1], &[], &[1]]));
    for bus in buses {
        world.connect(host, bus);
    }
    world.add_sender(buses[0], sender(Drive::Flood, Discipline::Fifo, 2), repeat("123#", 20_000));
    let list = frames(&[(100_000, "200#")]);
    let other = world.add_sender(buses[2], sender(Drive::Timed, Discipline::Fifo, 2), list);
    let mut log = Log::default();
    world.run(&mut log);
    let of_other = log.origins.iter().position(|&(sender, _)| sender == other.0).unwrap();
    let taps = log.ends[of_other].3;
    // Eight frames of the flood at most, 124 us each, and what is being done.
    let waited = taps.distance_ns(Tap::SourceEnd, Tap::Read).unwrap();
    assert!(waited <= 9 * 130_000, "{waited} ns");
}

#[test]
fn a_slow_host_overflows_its_controller() {
    let mut slow = linux();
    slow.receive = US(1_000);
    let config = sender(Drive::Flood, Discipline::Fifo, 2);
    let (log, world) = run(Model::Linux(Box::new(slow)), config, repeat("123#", 1_000));
    let causes = log.causes();
    assert_eq!(causes.values().sum::<usize>(), 1_000);
    assert!(causes["rx_overflow"] > 900 && causes["forwarded"] > 40, "{causes:?}");
    // At first the FIFO takes four frames and the one being read.
    let first_lost = log.ends.iter().position(|(_, _, fate, _)| fate.is_err()).unwrap();
    assert_eq!(log.ends[first_lost].0, 5);
    assert_eq!(world.gateway(HostId(0)).handled, causes["forwarded"] as u64);
}

#[test]
fn a_slow_target_bus_fills_the_egress_queue() {
    let mut world = World::new(7);
    let (a, b) = (world.add_bus(bus("a", 1_000_000)), world.add_bus(bus("b", 100_000)));
    let mut quick = linux();
    (quick.transmit, quick.clone, quick.filter.slot) = (US(1), US(1), US(1));
    let host = world.add_host(Model::Linux(Box::new(quick)), Repeater::new(&[&[1], &[]]));
    world.connect(host, a);
    world.connect(host, b);
    world.add_listener(b);
    world.add_sender(a, sender(Drive::Flood, Discipline::Fifo, 2), repeat("123#", 1_000));
    let mut log = Log::default();
    world.run(&mut log);
    let causes = log.causes();
    assert_eq!(causes["forwarded"] + causes["queue_full"], 1_000);
    assert!((100..130).contains(&causes["forwarded"]), "a tenth and the queue: {causes:?}");
    assert_eq!(world.gateway(HostId(0)).refused, causes["queue_full"] as u64);
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

#[test]
fn a_lost_frame_costs_a_one_at_a_time_sender_its_timeout() {
    let mut world = World::new(7);
    let a = world.add_bus(bus("a", 1_000_000));
    let egress = Egress { depth: 4, discipline: Discipline::Fifo };
    // No port to go to: no rule takes the frames.
    let host = world.add_host(Model::Constant { delay: US(1), egress }, Repeater::new(&[&[]]));
    world.connect(host, a);
    world.add_sender(a, sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#", 3));
    let mut log = Log::default();
    world.run(&mut log);
    assert_eq!(log.causes(), [("no_rule", 3)].into());
    let released: Vec<_> = log.ends.iter().map(|end| end.3.at(Tap::Queued).unwrap()).collect();
    assert_eq!(released, [0, 1_000_000_000, 2_000_000_000]);
}

#[test]
fn frames_cross_two_gateways_in_two_measurements() {
    let mut world = World::new(7);
    let buses = ["a", "b", "c"].map(|name| world.add_bus(bus(name, 1_000_000)));
    let egress = Egress { depth: 4, discipline: Discipline::Fifo };
    for pair in buses.windows(2) {
        let host =
            world.add_host(Model::Constant { delay: US(10), egress }, Repeater::new(&[&[1], &[]]));
        world.connect(host, pair[0]);
        world.connect(host, pair[1]);
    }
    world.add_listener(buses[2]);
    world.add_sender(buses[0], sender(Drive::Timed, Discipline::Fifo, 1), frames(&[(0, "123#")]));
    let mut log = Log::default();
    world.run(&mut log);
    assert_eq!(log.latencies_ns(), [55_000, 55_000]);
    assert_eq!(log.ends[0].3.at(Tap::TargetEnd), log.ends[1].3.at(Tap::SourceEnd));
}

#[test]
fn a_one_at_a_time_sender_goes_on_when_a_frame_is_stuck() {
    let mut world = World::new(7);
    let a = world.add_bus(bus("a", 1_000_000));
    // Nothing gets through: the gateway's controller goes bus-off and stays there.
    let b = world.add_bus(BusConfig { bit_error_rate: 0.1, ..bus("b", 1_000_000) });
    let host = world.add_host(Model::Linux(Box::new(linux())), Repeater::new(&[&[1], &[]]));
    world.connect(host, a);
    world.connect(host, b);
    world.add_listener(b);
    world.add_sender(
        a,
        sender(ONE_AT_A_TIME, Discipline::Fifo, 1),
        repeat("123#0000000000000000", 3),
    );
    let mut log = Log::default();
    assert!(world.run(&mut log));
    assert_eq!(log.causes(), [(Cause::Unfinished.name(), 3)].into());
    let released: Vec<_> = log.ends.iter().map(|end| end.3.at(Tap::Queued).unwrap()).collect();
    assert_eq!(released, [0, 1_000_000_000, 2_000_000_000]);
    assert_eq!((world.under_way(), world.bus_statistics(b).bus_offs), (0, 1));
}

#[test]
fn what_is_stuck_inside_a_host_is_reported_and_takes_no_time() {
    let user =
        UserSpace { socket: US(1), socket_depth: 100, wake: US(20), recv: US(30), send: US(40) };
    // Something takes the processor over and over: the process never runs.
    let interference = Interference {
        every: Nanos::from_millis(1),
        is_random: false,
        duration: (US(900), US(900)),
    };
    let model = Linux {
        user_space: Some(UserSpace { wake: Nanos::from_secs(1_000), ..user }),
        interference: vec![interference],
        ..linux()
    };
    let list: Vec<_> = (0..5).map(|n| (n * 10_000, "123#")).collect();
    let (log, world) = run(
        Model::Linux(Box::new(model)),
        sender(Drive::Timed, Discipline::Fifo, 8),
        frames(&list),
    );
    assert_eq!(log.causes(), [(Cause::Unfinished.name(), 5)].into());
    assert_eq!(world.under_way(), 0);
    let duration = world.now() - Time::ZERO;
    assert!((40_000..41_000).contains(&(duration.as_nanos() / 1_000)), "{duration}");
}

#[test]
fn who_still_waits_is_waited_for() {
    // Its process never runs, and something takes the processor over and over: that alone is no reason
    // to go on for ever, but a sender that has something to send is.
    let user = UserSpace {
        socket: US(1),
        socket_depth: 100,
        wake: Nanos::from_secs(1_000),
        recv: US(30),
        send: US(40),
    };
    let interference = Interference {
        every: Nanos::from_millis(1),
        is_random: false,
        duration: (US(900), US(900)),
    };
    let model = Linux { user_space: Some(user), interference: vec![interference], ..linux() };
    let timeout = Nanos::from_secs(12);
    let one_at_a_time = Drive::OneAtATime { turnaround: (US(50), US(50)), timeout };
    for (drive, released_s) in [(Drive::Timed, [0, 20]), (one_at_a_time, [0, 12])] {
        let list = frames(&[(0, "123#"), (20_000_000, "123#")]);
        let config = sender(drive, Discipline::Fifo, 8);
        let (log, _) = run(Model::Linux(Box::new(model.clone())), config, list);
        assert_eq!(log.causes(), [(Cause::Unfinished.name(), 2)].into());
        let released = log.ends.iter().map(|end| end.3.at(Tap::Queued).unwrap() / 1_000_000_000);
        assert_eq!(released.collect::<Vec<_>>(), released_s, "{drive:?}");
    }
}

#[test]
fn on_preempt_rt_hard_interrupts_alone_hold_up_a_process() {
    let user =
        UserSpace { socket: US(1), socket_depth: 100, wake: US(20), recv: US(30), send: US(40) };
    let first_latency_us = |is_preempt_rt, count, interference: &[Interference]| {
        let model = Linux {
            user_space: Some(user),
            is_preempt_rt,
            readout: Readout::HardIrq,
            interference: interference.to_vec(),
            ..linux()
        };
        let config = sender(Drive::Flood, Discipline::Fifo, 8);
        let (log, _) = run(Model::Linux(Box::new(model)), config, repeat("123#", count));
        log.latencies_ns()[0] / 1_000
    };
    // The second frame arrives while the process passes on the first one. Elsewhere, its interrupt
    // comes before the process; here, the thread of the interrupt waits.
    for (is_preempt_rt, delay_us) in [(false, 16), (true, 0)] {
        let alone_us = first_latency_us(is_preempt_rt, 1, &[]);
        assert_eq!(first_latency_us(is_preempt_rt, 2, &[]) - alone_us, delay_us);
    }
    // What takes half of the processor for itself takes it from the process, too: all work, 168 us
    // and 70 of them in the process, takes twice as long.
    let half =
        Interference { every: Nanos::from_micros(10), is_random: false, duration: (US(5), US(5)) };
    for is_preempt_rt in [false, true] {
        let alone_us = first_latency_us(is_preempt_rt, 1, &[]);
        let held_up_us = first_latency_us(is_preempt_rt, 1, &[half]) - alone_us;
        assert!((160..=168).contains(&held_up_us), "{is_preempt_rt}: {held_up_us} us more");
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

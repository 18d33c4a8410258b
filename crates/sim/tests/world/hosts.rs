//! What a host costs: interrupts, the process, hops, filters, other load.

use candor_causes::Cause;
use candor_lat::Tap;
use candor_sim::model::{Egress, EthernetLoad, Interference, Linux, Readout, UserSpace};
use candor_sim::*;
use candor_time::Nanos;

use crate::scene::*;
use crate::start::run;

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

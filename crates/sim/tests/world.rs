//! The world as a whole: small scenes with known outcomes, and the laws over random ones.

use std::collections::BTreeMap;

use candor_lat::{Tap, Taps};
use candor_sim::model::{
    Egress, EthernetLoad, FilterCosts, Interference, Linux, Readout, UserSpace,
};
use candor_sim::*;
use candor_time::Nanos;
use candor_wire::{Bitrate, Frame, Timing};
use proptest::prelude::*;

const US: fn(u64) -> Nanos = Nanos::from_micros;

/// Passes every frame from any port on to the others in `to`, unchanged.
#[derive(Clone)]
struct Repeater {
    to: Vec<Vec<u32>>,
    max_hops: u8,
    handled: u64,
    refused: u64,
}

impl Repeater {
    fn new(to: &[&[u32]]) -> Self {
        let to = to.iter().map(|ports| ports.to_vec()).collect();
        Self { to, max_hops: 20, handled: 0, refused: 0 }
    }
}

impl Gateway for Repeater {
    fn decide(
        &mut self,
        _: Time,
        port: u32,
        frame: &Frame,
        passage: PassageTag,
        decision: &mut Decision,
    ) {
        for &to in &self.to[port as usize] {
            if passage.hops >= self.max_hops {
                decision.refused.push((to, "hop_limit"));
                continue;
            }
            decision.copies.push(Copy {
                job: to,
                port: to,
                frame: *frame,
                passage: PassageTag { hops: passage.hops + 1, ..passage },
                echo: true,
                is_edited: false,
                walk: Walk { slots: 1, ..Walk::default() },
            });
        }
        decision.walk = Walk { slots: 1, ..Walk::default() };
    }
    fn settle(&mut self, _: u32, settled: Settled) {
        match settled {
            Settled::Handled => self.handled += 1,
            Settled::Refused(_) => self.refused += 1,
        }
    }
}

/// Keeps everything.
#[derive(Default, Debug, PartialEq)]
struct Log {
    ends: Vec<(u64, String, Result<&'static str, &'static str>, Taps)>,
}

impl Observer for Log {
    fn record(&mut self, record: &Record<'_>) {
        let fate = match record.fate {
            Fate::Forwarded => Ok("forwarded"),
            Fate::Delivered => Ok("delivered"),
            Fate::Refused(cause) => Err(cause),
        };
        self.ends.push((record.identity, record.frame.to_string(), fate, *record.taps));
    }
}

impl Log {
    fn causes(&self) -> BTreeMap<&'static str, usize> {
        let mut causes = BTreeMap::new();
        for (_, _, fate, _) in &self.ends {
            *causes.entry(fate.unwrap_or_else(|cause| cause)).or_default() += 1;
        }
        causes
    }

    fn latencies_ns(&self) -> Vec<i64> {
        self.ends
            .iter()
            .filter_map(|(_, _, _, taps)| taps.distance_ns(Tap::SourceEnd, Tap::TargetEnd))
            .collect()
    }
}

fn bus(name: &str, rate: u32) -> BusConfig {
    BusConfig {
        name: name.into(),
        timing: Timing::classical(Bitrate::new(rate).unwrap()),
        is_fd: false,
        bit_error_rate: 0.0,
        restart: None,
    }
}

fn sender(drive: Drive, discipline: Discipline, depth: usize) -> SenderConfig {
    SenderConfig { drive, discipline, depth, reload: Nanos::ZERO, fault_rate: 0.0 }
}

fn frames(list: &[(u64, &str)]) -> Box<dyn Source> {
    let mut list: Vec<_> = list
        .iter()
        .rev()
        .map(|&(at_us, frame)| Release {
            at: Time::ZERO + US(at_us),
            frame: frame.parse().unwrap(),
        })
        .collect();
    Box::new(move || list.pop())
}

fn repeat(frame: &str, count: usize) -> Box<dyn Source> {
    let release = Release { at: Time::ZERO, frame: frame.parse().unwrap() };
    let mut frames = std::iter::repeat_n(release, count);
    Box::new(move || frames.next())
}

const ONE_AT_A_TIME: Drive = Drive::OneAtATime {
    turnaround: (Nanos::from_micros(50), Nanos::from_micros(50)),
    timeout: Nanos::from_secs(1),
};

/// A host whose costs are easy to add up: 1, 2, 4, 8 ... us.
fn linux() -> Linux {
    Linux {
        interrupt: US(1),
        readout: Readout::SoftIrq,
        read: US(4),
        rx_fifo: 4,
        tx_buffers: 1,
        transmit_done: US(0),
        soft_irq: US(2),
        poll_weight: 64,
        receive: US(8),
        jitter: Nanos::ZERO,
        filter: FilterCosts {
            slot: US(16),
            entry: US(1),
            entry_uncached: US(3),
            cached_entries: 10,
            extended_in_list: true,
        },
        clone: US(32),
        copy: US(100),
        transmit: US(64),
        virtual_transmit: US(128),
        virtual_more: US(1),
        backlog: 1_000,
        egress: Egress { depth: 10, discipline: Discipline::Fifo },
        user_space: None,
        is_preempt_rt: false,
        slowdown_percent: 100,
        interference: Vec::new(),
        ethernet: None,
    }
}

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
    world.add_virtual_port(host);
    world.add_listener(b);
    world.add_sender(a, sender(ONE_AT_A_TIME, Discipline::Fifo, 1), repeat("123#", 1));
    let mut log = Log::default();
    world.run(&mut log);
    // To the virtual bus: 1 + 2 + 4 + 8 + 16 + 32 + 128; back: 8 + 16 + 32 + 64; 45 bits.
    assert_eq!(log.latencies_ns(), [(191 + 120 + 45) * 1_000]);
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

fn any_model() -> impl Strategy<Value = Model> {
    let egress = (1..20_usize, any::<bool>()).prop_map(|(depth, priority)| Egress {
        depth,
        discipline: if priority { Discipline::Priority } else { Discipline::Fifo },
    });
    let user =
        prop::option::of((1..20_usize, 1..80_u64).prop_map(|(socket_depth, us)| UserSpace {
            socket: US(us / 4),
            socket_depth,
            wake: US(us),
            recv: US(us / 2),
            send: US(us / 2),
        }));
    let ethernet = prop::option::of(Just(EthernetLoad {
        every: Nanos::from_millis(10),
        fragments: 41,
        spacing: US(123),
        interrupt: US(5),
        receive: US(20),
        reply: US(2_500),
    }));
    (
        egress,
        user,
        ethernet,
        any::<(bool, bool)>(),
        1..5_usize,
        1..4_usize,
        0..200_u64,
        1..5_usize,
        1..70_u32,
    )
        .prop_map(
            |(
                egress,
                user_space,
                ethernet,
                (hard, rt),
                rx_fifo,
                tx_buffers,
                us,
                backlog,
                poll_weight,
            )| {
                Model::Linux(Box::new(Linux {
                    readout: if hard { Readout::HardIrq } else { Readout::SoftIrq },
                    rx_fifo,
                    tx_buffers,
                    clone: US(us),
                    jitter: US(us / 3),
                    transmit: US(5),
                    poll_weight,
                    backlog: backlog * 10,
                    egress,
                    user_space,
                    is_preempt_rt: rt,
                    interference: vec![Interference {
                        every: Nanos::from_millis(1),
                        is_random: true,
                        duration: (US(1), US(300)),
                    }],
                    ethernet,
                    ..linux()
                }))
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Frames in = forwarded + refused, by cause, whatever the host is and however it is loaded.
    #[test]
    fn every_frame_ends_once_per_copy_and_the_same_seed_gives_the_same_bytes(
        model in any_model(),
        flood in any::<bool>(),
        virtual_hops in any::<bool>(),
        error_rate in prop_oneof![Just(0.0), Just(1e-3)],
        seed in any::<u64>(),
    ) {
        let simulate = || {
            let mut world = World::new(seed);
            let mut noisy = bus("a", 1_000_000);
            noisy.bit_error_rate = error_rate;
            let (a, b) = (world.add_bus(noisy), world.add_bus(bus("b", 500_000)));
            let to: &[&[u32]] = if virtual_hops { &[&[2], &[], &[1]] } else { &[&[1], &[]] };
            let host = world.add_host(model.clone(), Repeater::new(to));
            world.connect(host, a);
            world.connect(host, b);
            if virtual_hops {
                world.add_virtual_port(host);
            }
            world.add_listener(b);
            let drive = if flood { Drive::Flood } else { Drive::Paced { period_percent: 200 } };
            world.add_sender(a, sender(drive, Discipline::Fifo, 3), repeat("123#1122", 300));
            world.add_sender(a, sender(Drive::Timed, Discipline::Priority, 3), {
                let list: Vec<_> = (0..100).map(|n| (n * 700, "050#")).collect();
                frames(&list)
            });
            let mut log = Log::default();
            assert!(world.run(&mut log));
            let gateway = world.gateway(host);
            (log, gateway.handled, gateway.refused)
        };
        let (log, handled, refused) = simulate();
        let mut identities: Vec<_> = log.ends.iter().map(|end| end.0).collect();
        identities.sort_unstable();
        prop_assert_eq!(identities, (0..400).collect::<Vec<_>>());
        let causes = log.causes();
        prop_assert!(!causes.contains_key("unfinished"), "{:?}", causes);
        let count = |cause| causes.get(cause).copied().unwrap_or(0) as u64;
        // With virtual hops the first copy is handled as well, unless the backlog was full.
        if !virtual_hops {
            prop_assert_eq!(count("forwarded"), handled);
            prop_assert_eq!(count("queue_full"), refused);
        }
        for (_, _, _, taps) in &log.ends {
            let times: Vec<_> = Tap::ALL.iter().filter_map(|&tap| taps.at(tap)).collect();
            prop_assert!(times.is_sorted(), "{:?}", taps);
        }
        prop_assert_eq!(simulate().0, log);
    }
}

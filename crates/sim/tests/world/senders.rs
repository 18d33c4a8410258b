//! Senders and instruments: paces, timeouts, stamps, and who stops a run.

use candor_causes::Cause;
use candor_lat::Tap;
use candor_sim::instrument::Instrument;
use candor_sim::model::Egress;
use candor_sim::*;
use candor_time::Nanos;

use crate::scene::*;

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
    assert_eq!(released, [0, 400_045_000, 800_090_000, 2_200_090_000]);
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
    assert_eq!(released, [0, 1_000_050_000, 2_000_100_000]);
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
    assert_eq!(released, [0, 1_000_050_000, 2_000_100_000]);
    assert_eq!((world.under_way(), world.bus_statistics(b).bus_offs), (0, 1));
}

//! A tester outside of the guest, on buses that take their time: what real drivers and gateways make of it, held against
//! the bits of the frames.
//!
//! Needs QEMU and kernels, so it runs only when asked to, as `conformance.rs` does.

use candor_engine::{Bus, BusIndex, Rule, Table};
use candor_init::INIT;
use candor_protocol::order::{
    BusFaults, BusTiming, Datagrams, EthernetLoad, Gateway, Measurement, Offer, Pace, Tester,
    Traffic, WarmUp,
};
use candor_protocol::report::{OnWire, Stamp};
use candor_protocol::{Order, Report, interface};
use candor_vm::{Boot, BusTime, Cache, Kernel, Machine, Qemu, Setup, Unwatched, kernel};
use candor_wire::can::bits;
use candor_wire::can::{Bitrate, Timing};

const ONE_AT_A_TIME: Pace =
    Pace::OneAtATime { shortest_ns: 50_000, longest_ns: 150_000, timeout_ns: 1_000_000_000 };
const FLOOD: Pace = Pace::Paced { period_percent: 100, gap_ns: 0 };

fn kernels() -> Vec<Kernel> {
    let names = std::env::var("CANDOR_KERNELS").unwrap_or("6.12 6.12-rt".into());
    let cache = Cache::open(None).unwrap();
    let find = |name: &str| {
        let spec = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        kernel::find(&cache, &spec).unwrap_or_else(|error| panic!("{error}"))
    };
    names.split_whitespace().map(find).collect()
}

fn machine(kernel: &Kernel, tester: Tester) -> Machine {
    let qemu = Qemu::find().unwrap_or_else(|error| panic!("{error}"));
    let cache = Cache::open(None).unwrap();
    Machine::new(&cache, &qemu, kernel, INIT, Setup { tester, ..Setup::default() }).unwrap()
}

fn measurement(gateway: Gateway, pace: Pace, count: u64, rates: [u32; 2]) -> Measurement {
    let [source, target] = rates.map(|bitrate| BusTiming { bitrate, data_bitrate: None });
    let bus =
        |interface: &str| Bus { name: interface.into(), port: interface.into(), is_virtual: false };
    let rules = Table {
        buses: interface::OF_GATEWAY.map(bus).into(),
        rules: vec![Rule::new("all", BusIndex(0), BusIndex(1))],
        ..Table::default()
    };
    let traffic = Traffic::new(pace, count);
    let tester = Tester::Outside;
    Measurement { tester, source, target, ..Measurement::new(gateway, rules, traffic) }
}

fn try_run(machine: &Machine, measurement: &Measurement) -> Result<Report, candor_vm::Error> {
    machine.run(&Order::Measure(Box::new(measurement.clone())), &Unwatched)
}

fn run(machine: &Machine, measurement: &Measurement) -> Report {
    try_run(machine, measurement).unwrap_or_else(|error| panic!("{error}"))
}

/// Each frame took as long as its bits; the gaps between them, in ns.
fn gaps(measurement: &Measurement, rate: u32, ends: &[Stamp], begins: &[OnWire]) -> Vec<u64> {
    let timing = Timing::classical(Bitrate::new(rate).unwrap());
    assert_eq!(ends.len(), begins.len());
    for (end, begin) in ends.iter().zip(begins) {
        let frame = measurement.traffic.frame(end.number.into()).unwrap();
        let length = bits::length(&frame).unwrap();
        let intermission = bits::INTERMISSION_BITS;
        let on_wire = timing.duration_ns(length) - timing.nominal.duration_ns(intermission);
        assert_eq!(end.time_ns - begin.started_ns, on_wire, "frame {}", end.number);
        assert!(begin.requested_ns <= begin.started_ns);
    }
    begins[1..].iter().zip(ends).map(|(next, end)| next.started_ns - end.time_ns).collect()
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn frames_of_a_flood_are_on_the_wire_as_long_as_their_bits() {
    const COUNT: u64 = 1_000;
    const RATES: [u32; 2] = [500_000, 250_000];
    for kernel in kernels() {
        let machine = machine(&kernel, Tester::Outside);
        assert_eq!(machine.identity().bus, BusTime::Timed);
        for gateway in [Gateway::Kernel, Gateway::ReadWrite] {
            let order = measurement(gateway, FLOOD, COUNT, RATES);
            let report = run(&machine, &order);
            let about = format!("Linux {}, {:?}", kernel.release, order.gateway);
            let wire = report.wire.as_ref().unwrap();
            // Three bits of intermission between two frames of the tester.
            let between = gaps(&order, RATES[0], &report.monitored, &wire.source);
            assert_eq!(report.sent.len() as u64, COUNT, "{about}");
            assert!(between.iter().all(|&gap| gap == 6_000), "{about}: {between:?}");
            let between = gaps(&order, RATES[1], &report.received, &wire.target);
            assert!(between.iter().all(|&gap| gap >= 12_000), "{about}: {between:?}");
            // The target bus carries half of it and the queue a fifth; the rest is counted as lost.
            let received = report.received.len() as u64;
            let dropped = report.totals.overflow_of_queue;
            assert_eq!((received + dropped, dropped > 200), (COUNT, true), "{about}");
            let counted: Vec<_> =
                wire.buses.iter().map(|bus| (bus.frames, bus.error_frames)).collect();
            assert_eq!(counted, [(COUNT, 0), (received, 0)], "{about}");
            let load = wire.buses[1].busy_ns as f64 / report.totals.duration_ns as f64;
            assert!((0.98..=1.0).contains(&load), "{about}: {load}");
        }
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn round_trips_take_what_both_frames_take_and_some_more() {
    const COUNT: u64 = 300;
    for kernel in kernels() {
        let machine = machine(&kernel, Tester::Master);
        assert_eq!(machine.identity().bus, BusTime::Timed);
        for (is_open_loop, period_ns) in [(false, 0), (true, 1_000_000)] {
            let pace = Pace::RoundTrips {
                period_ns,
                is_open_loop,
                timeout_ns: 100_000_000,
                linger_ns: 0,
                is_virtual: false,
            };
            let mut order = measurement(Gateway::Slave, pace, COUNT, [1_000_000; 2]);
            order.tester = Tester::Master;
            order.wants_frames = false;
            order.traffic.can_ids = vec![0x77, 0x78];
            order.settings.gateway_priority = 60;
            let about = format!("Linux {}, {pace:?}", kernel.release);
            let report = run(&machine, &order);
            assert_eq!((report.sent.len(), report.received.len()), (300, 300), "{about}");
            let mut times: Vec<_> = report
                .sent
                .iter()
                .zip(&report.received)
                .map(|(sent, answered)| {
                    assert_eq!(sent.number, answered.number, "{about}");
                    answered.time_ns - sent.time_ns
                })
                .collect();
            times.sort_unstable();
            // Two frames of 8 bytes at 1 Mbit/s, with as few and as many stuff bits as there can be, and the programs.
            assert!(times[0] > 2 * 108_000 + 3_000, "{about}: {times:?}");
            assert!(times[150] < 2 * 132_000 + 3_000 + 300_000, "{about}: {times:?}");
            let wire = report.wire.as_ref().unwrap();
            let frames: Vec<_> = wire.buses.iter().map(|bus| bus.frames).collect();
            assert_eq!(frames, [2 * COUNT, 0], "{about}");
            assert_eq!(run(&machine, &order), report, "{about}: again");
        }
    }
}

/// What a partner outside answers takes both frames, the intermission between them, and the time of the master alone.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_partner_outside_answers_at_once() {
    const COUNT: u64 = 300;
    for kernel in kernels() {
        let [inside, outside] = [Tester::Master, Tester::Outside].map(|it| machine(&kernel, it));
        for (is_open_loop, period_ns) in [(false, 0), (true, 1_000_000), (true, 300_000)] {
            let pace = Pace::RoundTrips {
                period_ns,
                is_open_loop,
                timeout_ns: 100_000_000,
                linger_ns: 0,
                is_virtual: false,
            };
            let mut order = measurement(Gateway::None, pace, COUNT, [1_000_000; 2]);
            order.tester = Tester::Master;
            order.wants_frames = false;
            order.traffic.can_ids = vec![0x77, 0x78];
            order.settings.gateway_priority = 60;
            let about = format!("Linux {}, {pace:?}", kernel.release);
            let report = run(&outside, &order);
            let times = round_trips(&report, COUNT, &about);
            // Two frames of 8 bytes without a stuff bit: 111 bits each, of which the answer has no intermission, and a
            // controller has it one bit before its end.
            let shortest_ns = (111 + 111 - 3 - 1) * 1_000;
            assert!(times[0] > shortest_ns, "{about}: {times:?}");
            assert!(times[150] < 2 * 132_000 + 3_000 + 150_000, "{about}: {times:?}");
            let wire = report.wire.as_ref().unwrap();
            let frames: Vec<_> = wire.buses.iter().map(|bus| bus.frames).collect();
            assert_eq!(frames, [2 * COUNT, 0], "{about}");
            // It wants the bus when the request ends; another request may be more urgent.
            assert_eq!(wire.source.len() as u64, COUNT, "{about}");
            let waits = wire.source.iter().map(|it| it.started_ns - it.requested_ns);
            let (least, most) = (waits.clone().min(), waits.max());
            assert_eq!(least, Some(3_000), "{about}");
            assert!(is_open_loop || most == Some(3_000), "{about}: {most:?}");
            assert_eq!(run(&outside, &order), report, "{about}: again");
            // A slave in the guest takes time of its own.
            let slave = Measurement { gateway: Gateway::Slave, ..order };
            let with_slave = round_trips(&run(&inside, &slave), COUNT, &about);
            println!(
                "{about}: from {} us, p50 {} us; with a slave in the guest from {} us, p50 {} us",
                times[0] / 1_000,
                times[150] / 1_000,
                with_slave[0] / 1_000,
                with_slave[150] / 1_000,
            );
            assert!(times[150] + 10_000 < with_slave[150], "{about}: {times:?} {with_slave:?}");
        }
    }
}

/// All round trips, by length, in ns.
fn round_trips(report: &Report, count: u64, about: &str) -> Vec<u64> {
    assert_eq!([&report.sent, &report.received].map(|it| it.len() as u64), [count; 2], "{about}");
    let mut answered = report.received.clone();
    answered.sort_by_key(|stamp| stamp.number);
    let mut sent = report.sent.clone();
    sent.sort_by_key(|stamp| stamp.number);
    let pairs = sent.iter().zip(&answered);
    let mut times: Vec<_> = pairs
        .map(|(sent, answered)| {
            assert_eq!(sent.number, answered.number, "{about}");
            answered.time_ns - sent.time_ns
        })
        .collect();
    times.sort_unstable();
    times
}

/// A machine with much to do sends its first request late: the tester waits until the master is done.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn round_trips_of_a_busy_machine_are_all_on_the_wire() {
    const COUNT: u64 = 200;
    for kernel in kernels() {
        let machine = machine(&kernel, Tester::Master);
        for is_virtual in [false, true] {
            let pace = Pace::RoundTrips {
                period_ns: 0,
                is_open_loop: false,
                timeout_ns: 1_000_000_000,
                linger_ns: 0,
                is_virtual,
            };
            let mut order = measurement(Gateway::Slave, pace, COUNT, [1_000_000; 2]);
            order.tester = Tester::Master;
            order.wants_frames = false;
            order.traffic.can_ids = vec![0x77, 0x78];
            order.settings.gateway_priority = 60;
            order.load.hackbench_groups = Some(2);
            let about = format!("Linux {}, {pace:?}", kernel.release);
            let report = run(&machine, &order);
            assert_eq!(report.received.len() as u64, COUNT, "{about}");
            let on_wire = if is_virtual { 0 } else { 2 * COUNT };
            assert_eq!(report.wire.as_ref().unwrap().buses[0].frames, on_wire, "{about}");
        }
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn the_same_order_gives_the_same_nanoseconds_on_the_wire() {
    let rates = [1_000_000, 1_000_000];
    let live = Gateway::Live { measures: false, port: None };
    let orders = [
        measurement(Gateway::Kernel, ONE_AT_A_TIME, 200, rates),
        measurement(live, FLOOD, 200, rates),
        measurement(Gateway::None, ONE_AT_A_TIME, 50, rates),
    ];
    for kernel in kernels() {
        let machine = machine(&kernel, Tester::Outside);
        let first: Vec<_> = orders.iter().map(|order| run(&machine, order)).collect();
        let mut again: Vec<_> = orders.iter().rev().map(|order| run(&machine, order)).collect();
        again.reverse();
        for (one, other) in first.iter().zip(&again) {
            assert_eq!((one.received.is_empty(), one), (false, other), "Linux {}", kernel.release);
        }
        // Nothing of the tester is in the time of the gateway: shorter than with a tester inside.
        let latency = |report: &Report| {
            let times = report.monitored.iter().zip(&report.received);
            let on_target =
                report.wire.iter().flat_map(|wire| &wire.target).map(|it| it.started_ns);
            let latencies = times.zip(on_target).map(|((sent, _), start)| start - sent.time_ns);
            latencies.min().unwrap()
        };
        let shortest = latency(&first[0]);
        assert!((3_000..40_000).contains(&shortest), "Linux {}: {shortest} ns", kernel.release);
        assert_eq!(
            first[2].received, first[2].monitored,
            "without a gateway the tester hears itself"
        );
    }
}

/// Three senders with several identifiers: those that want the bus at the same instant get through by identifier.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn several_senders_share_the_source_bus() {
    const COUNT: u64 = 300;
    const PERIOD_NS: u64 = 1_000_000;
    let offer = |number: u64| Offer {
        sender: (number % 3) as u8,
        // All three at once; the last one is the most urgent.
        at_ns: number / 3 * PERIOD_NS,
        can_id: 0x300 - (number % 3 * 0x100) as u32 + (number / 3 % 2) as u32,
        data: [&(number as u16).to_be_bytes()[..], &[0xA7; 6]].concat(),
    };
    for kernel in kernels() {
        let machine = machine(&kernel, Tester::Outside);
        let pace = Pace::Offered { lasts_ns: COUNT / 3 * PERIOD_NS };
        let mut order = measurement(Gateway::Kernel, pace, COUNT, [1_000_000; 2]);
        order.offers = (0..COUNT).map(offer).collect();
        let report = run(&machine, &order);
        let about = format!("Linux {}", kernel.release);
        let counts = [&report.sent, &report.monitored, &report.received].map(Vec::len);
        assert_eq!(counts, [COUNT as usize; 3], "{about}");
        // By number, at the instants that were wanted.
        let first_ns = report.due[0];
        for ((number, sent), due) in (0..).zip(&report.sent).zip(&report.due) {
            let wanted_ns = first_ns + number / 3 * PERIOD_NS;
            assert_eq!(
                (u64::from(sent.number), sent.time_ns, *due),
                (number, wanted_ns, wanted_ns)
            );
        }
        // On the bus and behind the gateway by identifier.
        for stamps in [&report.monitored, &report.received] {
            let numbers: Vec<_> = stamps.iter().map(|it| u64::from(it.number)).collect();
            let expected: Vec<_> = (0..COUNT).map(|it| it / 3 * 3 + 2 - it % 3).collect();
            assert_eq!(numbers, expected, "{about}");
        }
        let wire = report.wire.as_ref().unwrap();
        for round in wire.source.chunks(3) {
            assert_eq!(round[2].started_ns, round[2].requested_ns, "{about}");
            assert!(round[1].started_ns > round[2].started_ns + 100_000, "{about}");
            assert!(round[0].started_ns > round[1].started_ns + 100_000, "{about}");
        }
        assert_eq!(run(&machine, &order), report, "{about}: again");
    }
}

/// A gateway that passes nothing on: each frame of the warm-up is waited for, longer than an order may take without one.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_warm_up_of_which_nothing_arrives_comes_to_its_end() {
    let kernel = kernels().remove(0);
    let machine = machine(&kernel, Tester::Outside);
    let mut order = measurement(Gateway::Kernel, FLOOD, 50, [500_000; 2]);
    order.rules.rules.clear();
    order.warm_up = Some(WarmUp {
        frames: 700,
        shortest_ns: 100_000,
        longest_ns: 200_000,
        timeout_ns: 100_000_000,
    });
    let report = run(&machine, &order);
    let cold = report.cold.unwrap();
    assert_eq!((cold.sent.len(), cold.received.len()), (700, 0));
    assert_eq!((report.sent.len(), report.received.len()), (50, 0));
}

/// From the end of each frame on the source bus to its begin on the target bus, the longest, in ns.
fn latest_ns(monitored: &[Stamp], begins: &[OnWire]) -> u64 {
    let latency = monitored.iter().zip(begins).map(|(end, begin)| begin.started_ns - end.time_ns);
    latency.max().unwrap()
}

/// Which of the first frames need memory, and how much, is up to the boot. What comes behind a warm-up does not
/// know of it, and neither it nor what a gateway counts has anything of the warm-up.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn behind_a_warm_up_nothing_is_done_for_the_first_time() {
    const COUNT: u64 = 200;
    let warm_up = WarmUp {
        frames: 64,
        shortest_ns: 100_000,
        longest_ns: 5_000_000,
        timeout_ns: 1_000_000_000,
    };
    let qemu = Qemu::find().unwrap();
    let cache = Cache::open(None).unwrap();
    let live = Gateway::Live { measures: false, port: None };
    for kernel in kernels() {
        let mut longest_cold_ns = 0;
        for seed in 1..=2 {
            let boot = Boot::of_seed(seed, 2);
            let setup = Setup { tester: Tester::Outside, boot, ..Setup::default() };
            let machine = Machine::new(&cache, &qemu, &kernel, INIT, setup).unwrap();
            for (gateway, pace) in [
                (Gateway::Kernel, ONE_AT_A_TIME),
                (Gateway::Kernel, FLOOD),
                (live.clone(), ONE_AT_A_TIME),
                (Gateway::ReadWrite, ONE_AT_A_TIME),
                (Gateway::Reader, ONE_AT_A_TIME),
            ] {
                let mut order = measurement(gateway, pace, COUNT, [500_000; 2]);
                order.warm_up = Some(warm_up);
                let report = run(&machine, &order);
                let about = format!("Linux {} boot {boot}, {:?}", kernel.release, order.gateway);
                let cold = report.cold.as_ref().unwrap();
                assert_eq!((cold.sent.len(), cold.received.len()), (64, 64), "{about}");
                assert_eq!(report.sent.len() as u64, COUNT, "{about}");
                let wire = report.wire.as_ref().unwrap();
                assert_eq!(wire.buses[0].frames, COUNT, "{about}");
                let handled: u64 = report.jobs.iter().map(|job| job.handled).sum();
                if order.gateway.follows_rules() {
                    assert_eq!(handled + report.totals.overflow_of_queue, COUNT, "{about}");
                }
                if order.gateway == Gateway::Reader {
                    assert_eq!(report.delivered.len() as u64, COUNT, "{about}");
                }
                if order.gateway == Gateway::Kernel && pace == ONE_AT_A_TIME {
                    let [warm_ns, cold_ns] = [
                        latest_ns(&report.monitored, &wire.target),
                        latest_ns(&cold.monitored, &cold.target),
                    ];
                    let is_rt = kernel.release.contains("-rt");
                    assert!(warm_ns < if is_rt { 30_000 } else { 15_000 }, "{about}: {warm_ns}");
                    longest_cold_ns = longest_cold_ns.max(cold_ns);
                }
            }
        }
        // PREEMPT_RT takes longer for each frame, and no longer for the first ones.
        let is_rt = kernel.release.contains("-rt");
        assert!(is_rt || longest_cold_ns > 20_000, "{}: {longest_cold_ns}", kernel.release);
    }
}

/// What differs between two boots is the same wherever they are booted.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_boot_is_the_same_in_two_caches_and_another_one_is_not() {
    let order = measurement(Gateway::Kernel, ONE_AT_A_TIME, 500, [1_000_000; 2]);
    let qemu = Qemu::find().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let caches = [Cache::open(None), Cache::open(Some(elsewhere.path()))];
    let [here, there] = caches.map(Result::unwrap);
    let kernel = &kernels()[0];
    let report = |cache: &Cache, seed| {
        let boot = Boot::of_seed(seed, 2);
        let setup = Setup { tester: Tester::Outside, boot, ..Setup::default() };
        run(&Machine::new(cache, &qemu, kernel, INIT, setup).unwrap(), &order)
    };
    let second = report(&here, 2);
    assert!(second == report(&there, 2), "another boot of the same machine differs");
    assert!(second != report(&here, 1), "two boots are one");
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_reader_has_each_frame_soon_after_its_interrupt() {
    const COUNT: u64 = 100;
    for kernel in kernels() {
        let machine = machine(&kernel, Tester::Outside);
        let order = measurement(Gateway::Reader, ONE_AT_A_TIME, COUNT, [1_000_000; 2]);
        let report = run(&machine, &order);
        let about = format!("Linux {}", kernel.release);
        assert_eq!(report.delivered.len() as u64, COUNT, "{about}");
        for (end, delivered) in report.monitored.iter().zip(&report.delivered) {
            assert_eq!(end.number, delivered.number, "{about}");
            // The interrupt is one bit before the end of the frame; SocketCAN takes 14 to 36 us on an idle machine.
            let took_ns = delivered.time_ns + 1_000 - end.time_ns;
            assert!((10_000..100_000).contains(&took_ns), "{about}: {took_ns} ns");
        }
        assert_eq!(run(&machine, &order), report, "{about}: again");
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_station_outside_loads_the_guest_over_ethernet() {
    const GBIT: f64 = 1e9;
    for kernel in kernels() {
        let machine = machine(&kernel, Tester::Outside);
        let about = format!("Linux {}", kernel.release);
        let idle = measurement(Gateway::Kernel, ONE_AT_A_TIME, 60, [1_000_000; 2]);
        let longest_ns = |report: &Report| {
            let wire = report.wire.as_ref().unwrap();
            let pairs = report.monitored.iter().zip(&wire.target);
            pairs.map(|(sent, it)| it.started_ns - sent.time_ns).max().unwrap()
        };
        let idle_ns = longest_ns(&run(&machine, &idle));
        for (datagrams, data_bytes, frames_each) in [
            (Datagrams::Ping, 60_000, 41),
            (Datagrams::Echo { period_ns: 2_000_000 }, 20_000, 14),
            (Datagrams::Udp { period_ns: 0 }, 1_472, 1),
        ] {
            let ethernet = Some(EthernetLoad { datagrams, ..EthernetLoad::ping(data_bytes) });
            let mut order = idle.clone();
            order.load.ethernet = ethernet;
            let report = run(&machine, &order);
            let about = format!("{about}, {datagrams:?}");
            assert_eq!(report.received.len(), 60, "{about}");
            let station = report.wire.as_ref().and_then(|wire| wire.station.clone()).unwrap();
            // All but the last datagram are whole.
            let cut = station.datagrams - station.frames / frames_each;
            assert!(cut <= 1, "{about}: {station:?}");
            assert!(longest_ns(&report) > idle_ns, "{about}");
            // Nothing is faster than the link: request and answer, one after the other.
            let bytes = f64::from(data_bytes) + 8.0 + frames_each as f64 * 58.0;
            let round_trip_ns = 2.0 * bytes * 8.0 / GBIT * 1e9;
            let shortest = station.round_trips_ns.iter().min();
            assert!(shortest.is_none_or(|&it| it as f64 > round_trip_ns), "{about}: {shortest:?}");
            match datagrams {
                Datagrams::Udp { .. } => assert_eq!(station.answers, 0, "{about}"),
                // All but those on their way at the end.
                _ => assert!(station.datagrams - station.answers <= 2, "{about}: {station:?}"),
            }
            assert_eq!(run(&machine, &order), report, "{about}");
        }
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_driver_comes_back_from_bus_off() {
    const COUNT: u64 = 300;
    let faults = BusFaults { bit_error_rate: 5e-3, restart_ns: Some(50_000_000) };
    for kernel in kernels() {
        let machine = machine(&kernel, Tester::Outside);
        let order = measurement(Gateway::Kernel, ONE_AT_A_TIME, COUNT, [1_000_000; 2]);
        let order = Measurement { faults: [BusFaults::default(), faults], ..order };
        let report = run(&machine, &order);
        let [source, target] = &report.wire.as_ref().unwrap().buses[..] else {
            panic!("two buses")
        };
        let about = format!("Linux {}: {target:?}", kernel.release);
        assert_eq!((source.frames, source.error_frames), (COUNT, 0), "{about}");
        // 128 bits at 5 errors of 1,000 each: half of the frames are destroyed, and sixteen in a row now and then.
        assert!((100..500).contains(&target.error_frames), "{about}");
        assert!((1..20).contains(&target.bus_offs), "{about}");
        // Only the frame that the controller held is lost.
        let mut numbers: Vec<_> = report.received.iter().map(|stamp| stamp.number).collect();
        numbers.dedup();
        assert_eq!(numbers.len() as u64 + target.bus_offs, COUNT, "{about}");
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_bit_rate_that_the_controller_does_not_have_is_told() {
    let kernel = kernels().remove(0);
    let machine = machine(&kernel, Tester::Outside);
    let order = measurement(Gateway::Kernel, ONE_AT_A_TIME, 5, [123_456, 500_000]);
    let error = try_run(&machine, &order).unwrap_err().to_string();
    assert!(error.contains("on the bus \"source\" of 123456 bit/s"), "{error}");
}

/// What does not depend on the number of frames is little of it.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_profile_leaves_start_up_out() {
    let kernel = kernels().remove(0);
    let machine = machine(&kernel, Tester::Outside);
    let [few, many] = [200, 400].map(|count| {
        let order = measurement(Gateway::Reader, ONE_AT_A_TIME, count, [1_000_000; 2]);
        let order = Order::Measure(Box::new(order));
        let (_, profile) = machine.profile(&order, &Unwatched).unwrap();
        profile.instructions
    });
    let start_up = (2 * few).saturating_sub(many);
    println!("Linux {}: {start_up} of {few} instructions are start-up", kernel.release);
    assert!(start_up < few / 5, "{start_up} of {few}");
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn machines_with_a_tester_inside_and_outside_are_different() {
    let kernel = kernels().remove(0);
    let [inside, outside] = [Tester::Inside, Tester::Outside].map(|it| machine(&kernel, it));
    assert_ne!(inside.hash(), outside.hash());
    assert_eq!(inside.identity().bus, BusTime::Instant);
}

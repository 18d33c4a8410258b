//! Ports in virtual time: a forwarder is as exact as the gateways of the simulation, and a transmitter as its senders.

mod scene;

use candor_lat::Tap;
use candor_port::{Progress, Receiver, Sent, Transmitter, Until, Wanted};
use candor_sim::model::Egress;
use candor_sim::port::{PortConfig, PortWorld, Simulation};
use candor_sim::*;
use candor_time::{Instant, Nanos};
use candor_wire::can::Frame;
use proptest::prelude::*;

use scene::*;

/// Frames for a node, which has its own identifiers: when, in ns, and which.
type Offers = Vec<(u64, Frame)>;

/// When frames ended on a bus, in ns, as a node there received them.
type Ends = Vec<(u64, String)>;

fn any_offers(node: u32) -> impl Strategy<Value = Offers> {
    // Often several at one instant.
    let gap = prop_oneof![Just(0), Just(0), 0..300_000_u64];
    prop::collection::vec((gap, 0..6_u32, 0..9_usize), 1..40).prop_map(move |list| {
        let mut at = 0;
        let offer = |(number, (gap, id, len)): (usize, (u64, u32, usize))| {
            at += gap;
            let data = [number as u8; 8];
            (at, Frame::from_parts((5 - id) << 8 | node, &data[..len], None).unwrap())
        };
        list.into_iter().enumerate().map(offer).collect()
    })
}

fn source(offers: &Offers) -> Box<dyn Source + Send> {
    let mut offers = offers.clone().into_iter();
    Box::new(move || offers.next().map(|(at, frame)| Release::new(Time::from_nanos(at), frame)))
}

fn config(depth: usize, discipline: Discipline) -> PortConfig {
    PortConfig { transmit_queue: depth, discipline, receive_queue: 4_096, ..PortConfig::default() }
}

/// Everything that a receiver gets within a second.
fn listen(receiver: &mut dyn Receiver) -> Ends {
    let mut ends = Vec::new();
    let until = Until::Instant(Instant::from_nanos(1_000_000_000));
    loop {
        let progress = receiver.receive(until, &mut |received| {
            let at = received.stamp.hardware.unwrap();
            assert_eq!(received.stamp.system.unwrap().as_nanos(), at.as_nanos());
            ends.push((at.as_nanos(), received.frame.to_string()));
        });
        if !matches!(progress, Ok(Progress::Frames(_))) {
            assert_eq!(progress, Ok(Progress::Nothing));
            return ends;
        }
    }
}

/// A gateway that knows only ports. What finds no room is dropped, as by an egress queue.
fn forward(receiver: &mut dyn Receiver, transmitter: &mut dyn Transmitter, until: Until) -> u64 {
    let mut dropped = 0;
    loop {
        let progress = receiver.receive(until, &mut |received| {
            dropped += u64::from(transmitter.transmit(&received.frame, true) == Sent::Full);
        });
        if !matches!(progress, Ok(Progress::Frames(_))) {
            return dropped;
        }
    }
}

/// Two buses, and a sender on each.
fn two_buses(
    seed: u64,
    error_rate: f64,
    offers: [&Offers; 2],
) -> (PortWorld<Repeater>, [BusId; 2]) {
    let mut world = World::for_ports(seed);
    let noisy = |name, rate| BusConfig { bit_error_rate: error_rate, ..bus(name, rate) };
    let buses = [world.add_bus(noisy("a", 500_000)), world.add_bus(noisy("b", 250_000))];
    for (bus, offers) in buses.into_iter().zip(offers) {
        world.add_sender(bus, sender(Drive::Timed, Discipline::Priority, 1_000), source(offers));
    }
    (world, buses)
}

/// The ends on the target bus behind a forwarder; and what it dropped.
fn through_ports(seed: u64, error_rate: f64, depth: usize, offers: [&Offers; 2]) -> (Ends, u64) {
    let (world, buses) = two_buses(seed, error_rate, offers);
    let simulation = Simulation::new(world, Log::default());
    let config = config(depth, Discipline::Fifo);
    let mut from = simulation.open(buses[0], &config, Wanted::BOTH);
    let mut to = simulation.open(buses[1], &config, Wanted::BOTH);
    let mut listener = simulation.open(buses[1], &config, Wanted::RECEIVER);
    let receiver = from.receiver.as_deref_mut().unwrap();
    let transmitter = to.transmitter.as_deref_mut().unwrap();
    let until = Until::Instant(Instant::from_nanos(1_000_000_000));
    let dropped = forward(receiver, transmitter, until);
    assert!(transmitter.is_drained());
    (listen(listener.receiver.as_deref_mut().unwrap()), dropped)
}

/// The same behind a gateway of the simulation, which takes no time.
fn through_gateway(seed: u64, error_rate: f64, depth: usize, offers: [&Offers; 2]) -> (Ends, u64) {
    let (mut world, buses) = two_buses(seed, error_rate, offers);
    let egress = Egress { depth, discipline: Discipline::Fifo };
    let model = Model::Constant { delay: Nanos::ZERO, egress };
    let host = world.add_host(model, Repeater::new(&[&[1], &[]]));
    world.connect(host, buses[0]);
    world.connect(host, buses[1]);
    let simulation = Simulation::new(world, Log::default());
    let wanted = Wanted::RECEIVER;
    let mut listener = simulation.open(buses[1], &config(1, Discipline::Fifo), wanted);
    let ends = listen(listener.receiver.as_deref_mut().unwrap());
    let refused = simulation.inspect(|world, log| {
        // The records of the simulation agree with the stamps of the port.
        let forwarded = log.ends.iter().filter(|end| end.2 == Ok("forwarded"));
        for (_, frame, _, taps) in forwarded {
            assert!(ends.contains(&(taps.at(Tap::TargetEnd).unwrap(), frame.clone())));
        }
        world.gateway(host).refused
    });
    (ends, refused)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// A program of ports is a gateway without delay: the same frames end at the same nanosecond, beside other
    /// traffic on the target bus, with bit errors, and if the queue overflows. A second run gives the same.
    #[test]
    fn a_forwarder_is_a_gateway_without_delay(
        first in any_offers(1),
        second in any_offers(2),
        depth in prop_oneof![Just(1), Just(3), Just(1_000_usize)],
        error_rate in prop_oneof![Just(0.0), Just(1e-3)],
        seed in any::<u64>(),
    ) {
        let offers = [&first, &second];
        let ports = through_ports(seed, error_rate, depth, offers);
        prop_assert_eq!(&ports, &through_gateway(seed, error_rate, depth, offers));
        prop_assert_eq!(&ports, &through_ports(seed, error_rate, depth, offers));
        // A frame with an error in its last bit comes twice.
        let (ends, sent) = (ports.0.len() as u64 + ports.1, (first.len() + second.len()) as u64);
        prop_assert!(ends == sent || ends > sent && error_rate > 0.0, "{} ends of {}", ends, sent);
    }

    /// Frames that a program offers at an instant end when those of a sender do that releases them then.
    #[test]
    fn a_transmitter_is_a_timed_sender(
        first in any_offers(1),
        second in any_offers(2),
        depth in prop_oneof![Just(1), Just(3), Just(1_000_usize)],
        is_fifo in any::<bool>(),
        is_noisy in any::<bool>(),
        seed in any::<u64>(),
    ) {
        // A frame that is destroyed takes its place back, which a full queue shows at that very instant.
        let (depth, error_rate) = if is_noisy { (1_000, 1e-3) } else { (depth, 0.0) };
        let discipline = if is_fifo { Discipline::Fifo } else { Discipline::Priority };
        let config = config(depth, discipline);
        let world = || {
            let mut world: PortWorld<Repeater> = World::for_ports(seed);
            let noisy = BusConfig { bit_error_rate: error_rate, ..bus("bus", 500_000) };
            let bus = world.add_bus(noisy);
            (world, bus)
        };
        let offered = {
            let (world, bus) = world();
            let simulation = Simulation::new(world, Log::default());
            let mut nodes = [(); 2].map(|()| {
                simulation.open(bus, &config, Wanted::TRANSMITTER).transmitter.unwrap()
            });
            let mut listener = simulation.open(bus, &config, Wanted::RECEIVER);
            let mut all: Vec<_> = first.iter().map(|offer| (0, offer)).collect();
            all.extend(second.iter().map(|offer| (1, offer)));
            all.sort_by_key(|(_, (at, _))| *at);
            for (node, (at, frame)) in all {
                simulation.run_until(Time::from_nanos(*at));
                let sent = nodes[node as usize].transmit(frame, true);
                prop_assert!(matches!(sent, Sent::Taken | Sent::Full));
            }
            listen(listener.receiver.as_deref_mut().unwrap())
        };
        let released = {
            let (mut world, bus) = world();
            for offers in [&first, &second] {
                world.add_sender(bus, sender(Drive::Timed, discipline, depth), source(offers));
            }
            let simulation = Simulation::new(world, Log::default());
            let mut listener = simulation.open(bus, &config, Wanted::RECEIVER);
            listen(listener.receiver.as_deref_mut().unwrap())
        };
        prop_assert_eq!(offered, released);
    }
}

#[test]
fn latencies_are_exact() {
    let frame: Frame = "123#1122334455667788".parse().unwrap();
    let (ends, dropped) = through_ports(1, 0.0, 16, [&vec![(7, frame)], &vec![]]);
    // 109 bits at 500 kbit/s, then 109 bits at 250 kbit/s.
    assert_eq!(ends, [(7 + 109 * 2_000 + 109 * 4_000, frame.to_string())]);
    assert_eq!(dropped, 0);
}

#[test]
fn a_controller_that_fails_says_so() {
    let restarts = [None, Some(Nanos::from_millis(1))];
    for restart in restarts {
        let mut world: PortWorld<Repeater> = World::for_ports(1);
        let bus = world.add_bus(BusConfig { restart, ..bus("bus", 1_000_000) });
        let simulation = Simulation::new(world, Log::default());
        let config = PortConfig { fault_rate: 1.0, ..PortConfig::default() };
        let wanted = Wanted { error_reports: true, ..Wanted::BOTH };
        let mut port = simulation.open(bus, &config, wanted);
        let (receiver, transmitter) =
            (port.receiver.as_deref_mut().unwrap(), port.transmitter.as_deref_mut().unwrap());
        let frame: Frame = "123#11".parse().unwrap();
        assert_eq!(transmitter.transmit(&frame, true), Sent::Taken);
        let mut reports = Vec::new();
        let mut receive = |limit_ms: u64| {
            let end = Until::Instant(Instant::from_nanos(limit_ms * 1_000_000));
            while let Ok(Progress::Frames(_)) =
                receiver.receive(end, &mut |received| reports.push(received.frame.to_string()))
            {
            }
        };
        receive(3);
        // Error-passive after 16 faults of its own, bus-off after 32; two more looked like lost arbitration to it.
        assert_eq!(transmitter.transmit(&frame, true), Sent::Down);
        assert_eq!(transmitter.counters().trouble.get().as_deref(), Some("bus-off"));
        if restart.is_none() {
            assert_eq!(reports, ["20000204#0020000000008002", "20000040#0000000000000000"]);
            assert!(!transmitter.is_drained());
            simulation.close();
            assert_eq!(receiver.receive(Until::Woken, &mut |_| {}), Ok(Progress::Ended));
            assert_eq!(transmitter.counters().lost.get(), 1);
        } else {
            receive(10);
            assert_eq!(reports[2], "20000100#0000000000000000");
            assert_eq!(receiver.counters().error_reports.get(), reports.len() as u64);
        }
    }
}

#[test]
fn one_thread_serves_both_directions() {
    let mut world: PortWorld<Repeater> = World::for_ports(1);
    let buses = [world.add_bus(bus("a", 1_000_000)), world.add_bus(bus("b", 1_000_000))];
    for (bus, frame) in buses.into_iter().zip(["123#", "321#"]) {
        world.add_sender(bus, sender(Drive::Timed, Discipline::Fifo, 1), repeat(frame, 1));
    }
    let simulation = Simulation::new(world, Log::default());
    let mut ports = buses.map(|bus| simulation.open(bus, &PortConfig::default(), Wanted::BOTH));
    let mut listeners =
        buses.map(|bus| simulation.open(bus, &PortConfig::default(), Wanted::RECEIVER));
    let end = Time::from_nanos(1_000_000);
    while simulation.now() < end {
        // The listeners have receive queues too, which stay as they are.
        let mut is_quiet = true;
        for from in 0..2 {
            let mut frames = Vec::new();
            let receiver = ports[from].receiver.as_deref_mut().unwrap();
            let _ = receiver.receive(Until::Now, &mut |received| frames.push(received.frame));
            for frame in &frames {
                let to = ports[1 - from].transmitter.as_deref_mut().unwrap();
                assert_eq!(to.transmit(frame, true), Sent::Taken);
            }
            is_quiet &= frames.is_empty();
        }
        if is_quiet {
            simulation.run_until(simulation.now() + Nanos::from_micros(1));
        }
    }
    // 45 bits each, and 3 of intermission between them.
    for (listener, frames) in listeners.iter_mut().zip([["123#", "321#"], ["321#", "123#"]]) {
        let ends = listen(listener.receiver.as_deref_mut().unwrap());
        let texts: Vec<_> = ends.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, frames);
        assert_eq!(ends[0].0, 45_000);
        assert_eq!(ends[1].0, 93_000);
    }
}

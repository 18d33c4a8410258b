//! The laws of the world, over random ones.

mod scene;

use std::collections::BTreeSet;

use candor_causes::Cause;
use candor_lat::Tap;
use candor_sim::model::{Egress, EthernetLoad, Interference, Linux, Readout, UserSpace};
use candor_sim::*;
use candor_time::Nanos;
use candor_wire::can::bits;
use proptest::prelude::*;

use scene::*;

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

/// What a node sends, and how.
#[derive(Clone, Debug)]
struct Node {
    bus: usize,
    config: SenderConfig,
    /// Time from frame to frame, in us, and the identifier by its place among those of the node.
    frames: Vec<(u64, u32)>,
}

fn any_node() -> impl Strategy<Value = Node> {
    let drive = prop_oneof![
        3 => Just(Drive::Timed),
        1 => Just(Drive::Flood),
        1 => Just(Drive::Paced { period_percent: 150 }),
        1 => Just(ONE_AT_A_TIME),
    ];
    // Often several at one instant.
    let gap = prop_oneof![Just(0), Just(0), 0..3_000_u64];
    (0..3_usize, drive, any::<bool>(), 1..12_usize, prop::collection::vec((gap, 0..6_u32), 1..60))
        .prop_map(|(bus, drive, is_fifo, depth, frames)| {
            let discipline = if is_fifo { Discipline::Fifo } else { Discipline::Priority };
            Node { bus, config: sender(drive, discipline, depth), frames }
        })
}

/// The frames of the node of that number: no other node has their identifiers, and no two are equal.
fn source_of(number: usize, node: &Node) -> Box<dyn Source> {
    let (mut at, mut count) = (Time::ZERO, 0);
    let release = |&(gap, id): &(u64, u32)| {
        at += US(gap);
        let can_id = (5 - id) << 8 | number as u32;
        let data = [count, id as u8, 0, 0, 0, 0, 0xFF, 0xFF];
        count += 1;
        let frame = candor_wire::can::Frame::from_parts(can_id, &data[..id as usize + 2], None);
        Release::new(at, frame.unwrap())
    };
    let mut list: Vec<_> = node.frames.iter().map(release).collect();
    list.reverse();
    Box::new(move || list.pop())
}

/// A gateway between two buses, both ways; perhaps over a virtual bus.
#[derive(Clone, Debug)]
struct Between {
    model: Model,
    is_virtual: bool,
}

fn any_gateway() -> impl Strategy<Value = Between> {
    let egress = (1..10_usize, any::<bool>()).prop_map(|(depth, is_fifo)| Egress {
        depth,
        discipline: if is_fifo { Discipline::Fifo } else { Discipline::Priority },
    });
    let constant =
        (egress, 0..500_u64).prop_map(|(egress, us)| Model::Constant { delay: US(us), egress });
    prop_oneof![
        constant.prop_map(|model| Between { model, is_virtual: false }),
        (any_model(), any::<bool>()).prop_map(|(model, is_virtual)| Between { model, is_virtual }),
    ]
}

/// Three buses in a row, two gateways between them, and nodes.
struct Network {
    buses: [BusId; 3],
    hosts: [HostId; 2],
    senders: Vec<SenderId>,
    world: World<Repeater>,
}

impl Network {
    /// With the nodes added in this order.
    fn new(
        seed: u64,
        gateways: &[Between; 2],
        nodes: &[Node],
        order: &[usize],
        error_rates: [f64; 3],
    ) -> Self {
        let mut world = World::new(seed);
        let mut number = 0;
        let buses = error_rates.map(|bit_error_rate| {
            number += 1;
            let restart = Some(Nanos::from_millis(3));
            let bus = bus(&format!("bus {number}"), [0, 1_000_000, 500_000, 125_000][number]);
            world.add_bus(BusConfig { bit_error_rate, restart, ..bus })
        });
        let mut number = 0;
        let hosts = [0, 1].map(|index| {
            let Between { model, is_virtual } = &gateways[index];
            let to: &[&[u32]] = if *is_virtual { &[&[2], &[0], &[1]] } else { &[&[1], &[0]] };
            let host =
                world.add_host(model.clone(), Repeater::new(to).jobs_from(10 * index as u32));
            world.connect(host, buses[number]);
            world.connect(host, buses[number + 1]);
            if *is_virtual {
                world.add_virtual_port(host);
            }
            number += 1;
            host
        });
        for bus in buses {
            world.add_listener(bus);
        }
        let senders = order.iter().map(|&number| {
            let node = &nodes[number];
            world.add_sender(buses[node.bus], node.config, source_of(number, node))
        });
        let senders = senders.collect();
        Self { buses, hosts, senders, world }
    }

    /// The bus that copies of a job go to; `None` if it is a virtual one.
    fn bus_of(job: u32) -> Option<usize> {
        [[Some(0), Some(1), None], [Some(1), Some(2), None]][job as usize / 10][job as usize % 10]
    }

    /// Frames that got through on each bus, as the records of frames and copies have it, and how
    /// long they took with their intermissions.
    fn carried(&self, log: &Log, nodes: &[Node]) -> [(u64, Nanos); 3] {
        let mut seen = BTreeSet::new();
        let mut carried = [(0, Nanos::ZERO); 3];
        for ((identity, frame, fate, _), &(sender, job)) in log.ends.iter().zip(&log.origins) {
            let mut carry = |bus: usize| {
                let rate = [1_000_000, 500_000, 125_000][bus];
                let length = bits::length(&frame.parse().unwrap()).unwrap();
                carried[bus].0 += 1;
                carried[bus].1 +=
                    Nanos::from_nanos(u64::from(length.total()) * 1_000_000_000 / rate);
            };
            if *fate == Ok("forwarded") {
                carry(Self::bus_of(job.unwrap()).unwrap());
            }
            // Whatever it met later, it was on its first bus, unless it never left its sender.
            if seen.insert(*identity) && *fate != Err(Cause::SenderQueueFull.name()) {
                carry(nodes[sender as usize].bus);
            }
        }
        carried
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Frames in = frames out + frames refused, in any network: several identifiers per node, noise
    /// on every bus, gateways of every kind. Buses, durations and loads agree with the records.
    #[test]
    fn nothing_vanishes_and_nothing_lasts_too_long(
        gateways in (any_gateway(), any_gateway()),
        nodes in prop::collection::vec(any_node(), 1..7),
        error_rates in prop::array::uniform3(prop_oneof![
            Just(0.0), Just(1e-4), Just(1e-3), Just(8e-3),
        ]),
        seed in any::<u64>(),
    ) {
        let gateways = [gateways.0, gateways.1];
        let order: Vec<_> = (0..nodes.len()).collect();
        let mut network = Network::new(seed, &gateways, &nodes, &order, error_rates);
        let mut log = Log::default();
        prop_assert!(network.world.run(&mut log));
        let world = &network.world;
        let causes = log.causes();

        // Every frame that was sent has ended, and all were sent.
        let released: u64 = network.senders.iter().map(|&sender| world.released(sender)).sum();
        let to_send: usize = nodes.iter().map(|node| node.frames.len()).sum();
        prop_assert_eq!(released, to_send as u64);
        let identities: BTreeSet<_> = log.ends.iter().map(|end| end.0).collect();
        prop_assert_eq!(identities.len() as u64, released);
        prop_assert_eq!(world.under_way(), 0);
        prop_assert!(!causes.contains_key(Cause::Unfinished.name()), "{:?}", causes);

        // Every copy has ended once, and was settled once.
        for (host, gateway) in network.hosts.iter().zip(&gateways) {
            let repeater = world.gateway(*host);
            for (&job, &made) in &repeater.made {
                let ends = log.origins.iter().filter(|origin| origin.1 == Some(job)).count();
                if Network::bus_of(job).is_some() {
                    prop_assert_eq!(ends as u64, made, "copies of job {}", job);
                }
            }
            let made: u64 = repeater.made.values().sum();
            prop_assert_eq!(repeater.handled + repeater.refused, made, "{:?}", gateway);
        }

        // The buses carried what the records say, for as long as the bits take.
        for (index, (frames, taken)) in network.carried(&log, &nodes).into_iter().enumerate() {
            let statistics = world.bus_statistics(network.buses[index]);
            let bit = Nanos::from_nanos([1_000, 2_000, 8_000][index]);
            prop_assert_eq!(statistics.frames, frames, "bus {}", index);
            // The intermission of the last frame may lie behind the end.
            let errors = statistics.error_frames;
            let shortest = (taken + bit * ((1 + 6 + 11) * errors)) - bit * 3;
            let longest = taken + bit * ((135 + 12 + 11) * errors);
            prop_assert!(statistics.busy >= shortest, "bus {}: {:?}", index, statistics);
            prop_assert!(statistics.busy <= longest, "bus {}: {:?}", index, statistics);
            prop_assert!(statistics.busy <= world.now() - Time::ZERO, "more than full");
            prop_assert_eq!(errors > 0 && error_rates[index] == 0.0, false);
        }

        // Time ends with the last frame; a slow host may still be about to refuse one.
        let last_tap = log.ends.iter().flat_map(|end| Tap::ALL.iter().filter_map(|&t| end.3.at(t)));
        let last_ns = last_tap.max().unwrap_or(0);
        let ended_ns = world.now().as_nanos();
        prop_assert!(last_ns <= ended_ns && ended_ns <= last_ns + 50_000_000, "{last_ns} {ended_ns}");
        for (_, _, _, taps) in &log.ends {
            let times: Vec<_> = Tap::ALL.iter().filter_map(|&tap| taps.at(tap)).collect();
            prop_assert!(times.is_sorted(), "{:?}", taps);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Nothing is decided at an instant before everything of that instant has happened: the order in
    /// which nodes are added, and with it that in which simultaneous events are planned, changes
    /// nothing for any frame.
    #[test]
    fn the_order_of_simultaneous_events_changes_nothing(
        gateways in (any_gateway(), any_gateway()),
        nodes in prop::collection::vec(any_node(), 2..7),
        shuffled in any::<prop::sample::Index>(),
        error_rates in prop::array::uniform3(prop_oneof![Just(0.0), Just(1e-3)]),
        seed in any::<u64>(),
    ) {
        let gateways = [gateways.0, gateways.1];
        let order: Vec<_> = (0..nodes.len()).collect();
        let mut other = order.clone();
        other.rotate_left(shuffled.index(nodes.len()));
        other.swap(0, 1);
        let outcome = |order: &[usize]| {
            let mut network = Network::new(seed, &gateways, &nodes, order, error_rates);
            let mut log = Log::default();
            assert!(network.world.run(&mut log));
            let ends = log.ends.into_iter().zip(log.origins);
            let mut ends: Vec<_> = ends
                .map(|((_, frame, fate, taps), (_, job))| (frame, job, fate, format!("{taps:?}")))
                .collect();
            ends.sort_unstable();
            ends
        };
        prop_assert_eq!(outcome(&order), outcome(&other));
    }

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
            (log, gateway.handled, gateway.refused, world.bus_statistics(a).error_frames)
        };
        let (log, handled, refused, error_frames) = simulate();
        let mut identities: Vec<_> = log.ends.iter().map(|end| end.0).collect();
        identities.sort_unstable();
        // A frame with an error in its last bit comes twice.
        let ends = identities.len() as u64;
        identities.dedup();
        prop_assert!(ends <= 400 + error_frames, "{} ends, {} error frames", ends, error_frames);
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

//! The bus, held against that of the simulation: the same frames offered give the same instants on the wire.

mod simulated;

use candor_can::{Fault, Node, NodeId, Notice, Options, Request, Statistics, TimedFaults};
use candor_wire::can::bits::length;
use candor_wire::can::{ErrorCounters, ErrorState, Frame, Timing};
use proptest::prelude::*;
use simulated::{Offered, OnWire, simulated};

/// Before this, nodes join.
const BEGINS_NS: u64 = 10_000_000;

type Bus = candor_can::Bus<Vec<Node>, TimedFaults>;

/// A bus with so many nodes, which join it.
fn bus(timing: Timing, nodes: usize, sample_point_permille: u16) -> (Bus, Vec<NodeId>) {
    let absent = vec![Node::ABSENT; nodes];
    let mut bus = Bus::new(timing, absent, TimedFaults::NONE, Options::default());
    let nodes: Vec<_> = (0..nodes as u32).map(NodeId).collect();
    nodes.iter().for_each(|&node| bus.join(node, false, sample_point_permille, 0));
    (bus, nodes)
}

/// A bus with nodes, each with a queue in front of it, and one that only acknowledges.
struct Bench {
    bus: Bus,
    nodes: Vec<NodeId>,
    queues: Vec<Vec<usize>>,
    starts: Vec<u64>,
    sent: Vec<OnWire>,
    notices: Vec<(NodeId, u64, Notice)>,
}

impl Bench {
    fn new(timing: Timing, nodes: usize) -> Self {
        let (mut bus, nodes) = bus(timing, nodes + 1, 800);
        bus.advance(BEGINS_NS - 1, &mut |_, _, notice| assert_eq!(notice, Notice::TakesPart));
        let queues = nodes.iter().map(|_| Vec::new()).collect();
        Self { bus, nodes, queues, starts: Vec::new(), sent: Vec::new(), notices: Vec::new() }
    }

    /// The first frame of a queue is the one that its node wants to send.
    fn ask(&mut self, node: usize, at_ns: u64, offers: &[Offered]) {
        if let Some(&first) = self.queues[node].first() {
            let request = Request::new(offers[first].frame, at_ns).unwrap();
            self.bus.request(self.nodes[node], request);
        }
    }

    /// Everything that happens until `now_ns`.
    fn advance(&mut self, now_ns: u64, offers: &[Offered]) {
        while let Some(at) = self.bus.deadline().filter(|&at| at <= now_ns) {
            let mut notices = Vec::new();
            self.bus.advance(at, &mut |node, at, notice| notices.push((node, at, notice)));
            for &(id, at, notice) in &notices {
                let node = id.0 as usize;
                let first = self.queues[node].first().copied();
                match (notice, first) {
                    (Notice::Started, Some(first)) => self.starts[first] = at,
                    (Notice::Sent(passage), Some(first)) => {
                        assert_eq!(passage.started_ns, self.starts[first]);
                        self.sent.push((first, self.starts[first], at));
                        self.queues[node].remove(0);
                        self.ask(node, at, offers);
                    }
                    _ => {}
                }
            }
            self.notices.extend(notices);
        }
    }

    fn run(&mut self, offers: &[Offered]) {
        self.starts = vec![0; offers.len()];
        for (index, offer) in offers.iter().enumerate() {
            self.advance(offer.at_ns - 1, offers);
            self.queues[offer.node].push(index);
            if self.queues[offer.node].len() == 1 {
                self.ask(offer.node, offer.at_ns, offers);
            }
        }
        self.advance(u64::MAX - 1, offers);
    }
}

fn frames(is_fd: bool) -> impl Strategy<Value = Frame> {
    let data = prop::collection::vec(prop_oneof![Just(0), Just(0xFF), any::<u8>()], 0..=8);
    (any::<u32>(), any::<bool>(), data, any::<bool>(), any::<u8>()).prop_map(
        move |(id, is_extended, data, is_long, flags)| {
            let id = if is_extended { id & 0x1FFF_FFFF | 0x8000_0000 } else { id & 0x7FF };
            if is_fd && is_long {
                return Frame::from_parts(
                    id,
                    &data.repeat(8)[..data.len() / 2 * 8],
                    Some(flags & 3),
                )
                .unwrap_or_else(|_| Frame::from_parts(id, &data, Some(flags & 3)).unwrap());
            }
            Frame::from_parts(id, &data, None).unwrap()
        },
    )
}

/// Frames with an identifier of their own each, some at the same instant, some back to back.
fn traffic() -> impl Strategy<Value = (Timing, usize, Vec<Offered>)> {
    let rates = prop_oneof![Just("125k"), Just("500k"), Just("1M"), Just("83.333k")];
    (rates, any::<bool>(), 1_usize..6).prop_flat_map(|(rate, is_fd, nodes)| {
        let gaps = prop_oneof![Just(0), 0_u64..300_000, 0_u64..3_000_000];
        let offers = prop::collection::vec((gaps, 0..nodes, frames(is_fd)), 1..60);
        offers.prop_map(move |offers| {
            let nominal = rate.parse().unwrap();
            let timing =
                Timing { nominal, data: if is_fd { "2M".parse().unwrap() } else { nominal } };
            let (mut at_ns, mut keys) = (BEGINS_NS, Vec::new());
            let mut kept = Vec::new();
            for (gap, node, frame) in offers {
                at_ns += gap;
                if !keys.contains(&frame.arbitration_key()) {
                    keys.push(frame.arbitration_key());
                    kept.push(Offered { at_ns, node, frame });
                }
            }
            (timing, nodes, kept)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn frames_are_on_the_wire_when_the_simulation_says((timing, nodes, offers) in traffic()) {
        let (expected, busy) = simulated(timing, nodes, &offers);
        let mut bench = Bench::new(timing, nodes);
        bench.run(&offers);
        prop_assert_eq!(&bench.sent, &expected);
        let Statistics { frames, busy_ns, error_frames, .. } = *bench.bus.statistics();
        prop_assert_eq!((frames, busy_ns, error_frames), (offers.len() as u64, busy, 0));
        // Everybody else has each frame one bit before its sender knows.
        let received = bench.notices.iter().filter(|(_, _, it)| matches!(it, Notice::Received(_))).count();
        prop_assert_eq!(received, offers.len() * nodes);
    }

    /// Whatever bits are inverted: each frame gets through in the end, unless its node goes bus-off.
    #[test]
    fn frames_with_errors_are_repeated(
        (timing, nodes, offers) in traffic(),
        faults in prop::collection::vec((0_u64..80, 0_u32..160), 0..32),
    ) {
        let mut bench = Bench::new(timing, nodes);
        for &(frame, bit) in &faults {
            let has_room = bench.bus.faults_mut().add(Fault { frame, bit });
            prop_assert!(has_room);
        }
        bench.run(&offers);
        let Statistics { frames, error_frames, bus_offs, .. } = *bench.bus.statistics();
        prop_assert!(error_frames <= faults.len() as u64);
        prop_assert_eq!(frames + error_frames, bench.bus.begun());
        if bus_offs == 0 {
            prop_assert_eq!(frames, offers.len() as u64);
        }
        let failures = bench.notices.iter().filter(|(_, _, it)| matches!(it, Notice::Failed { is_sender: true, .. }));
        // Who loses arbitration to nobody does not know that it was an error.
        prop_assert!(failures.count() as u64 <= error_frames);
        prop_assert!(bench.notices.is_sorted_by_key(|(_, at, _)| *at));
    }
}

fn timing() -> Timing {
    Timing::classical("1M".parse().unwrap())
}

/// A bus of 1 Mbit/s with so many nodes, after they have joined at 11 us.
fn joined(nodes: usize) -> (Bus, Vec<NodeId>) {
    let (mut bus, nodes) = bus(timing(), nodes, 750);
    bus.advance(11_000, &mut |_, at, notice| assert_eq!((at, notice), (11_000, Notice::TakesPart)));
    (bus, nodes)
}

fn request(bus: &mut Bus, node: NodeId, at_us: u64, frame: &str) {
    bus.request(node, Request::new(frame.parse().unwrap(), at_us * 1_000).unwrap());
}

/// What happens until `us`, with times in us.
fn until(bus: &mut Bus, us: u64) -> Vec<(u32, f64, Notice)> {
    let mut all = Vec::new();
    bus.advance(us * 1_000, &mut |node, at, notice| {
        all.push((node.0, at as f64 / 1_000.0, notice));
    });
    all
}

#[test]
fn arbitration_is_lost_at_the_sample_point_of_the_bit() {
    // The identifiers differ in bit 3 from the front, without stuff bits before it; 7FF against 6FF: the same.
    let (mut bus, nodes) = joined(3);
    request(&mut bus, nodes[0], 20, "555#");
    request(&mut bus, nodes[1], 20, "545#");
    let lost =
        until(&mut bus, 30).into_iter().find(|it| matches!(it.2, Notice::LostArbitration { .. }));
    // Start of frame, six bits of the identifier, three quarters of the seventh.
    assert_eq!(lost, Some((0, 20.0 + 7.0 + 0.75, Notice::LostArbitration { bit: 6 })));
    // A stuff bit behind five dominant bits (start of frame and four more) comes before.
    let (mut bus, nodes) = joined(3);
    request(&mut bus, nodes[0], 20, "07F#");
    request(&mut bus, nodes[1], 20, "07E#");
    let lost =
        until(&mut bus, 45).into_iter().find(|it| matches!(it.2, Notice::LostArbitration { .. }));
    // 0 0000 (1) 1111 1 (0) 11: start of frame, ten bits of the identifier, two stuff bits.
    assert_eq!(lost, Some((0, 20.0 + 13.0 + 0.75, Notice::LostArbitration { bit: 10 })));
}

#[test]
fn a_node_alone_is_never_acknowledged_and_never_goes_bus_off() {
    let (mut bus, nodes) = joined(2);
    bus.leave(nodes[1], 12_000);
    request(&mut bus, nodes[0], 20, "123#");
    let failed = until(&mut bus, 100_000);
    assert_eq!(bus.error_counters(nodes[0], 0), ErrorCounters { transmit: 128, receive: 0 });
    assert_eq!(bus.state(nodes[0]), ErrorState::Passive);
    let flags: Vec<_> =
        failed.iter().filter(|it| matches!(it.2, Notice::Failed { .. })).map(|it| it.1).collect();
    let bits = length(&"123#".parse().unwrap()).unwrap().total() - 3;
    let to_flag = f64::from(bits - 8);
    assert_eq!(flags[0], 20.0 + to_flag);
    // Flag, delimiter, intermission; as an error-passive node it waits for 8 bits more.
    assert_eq!(flags[1] - flags[0], 6.0 + 8.0 + 3.0 + to_flag);
    assert_eq!(flags[20] - flags[19], 6.0 + 8.0 + 3.0 + 8.0 + to_flag);
    // An error in the acknowledge slot looks like an acknowledgement.
    let mut disturbed = bus.clone();
    let frame = disturbed.begun();
    assert!(disturbed.faults_mut().add(Fault { frame, bit: bits - 9 }));
    let all = until(&mut disturbed, 101_000);
    assert!(all.iter().any(|it| matches!(it.2, Notice::Sent(_))), "{all:?}");
    // When somebody joins, it gets through.
    bus.join(nodes[1], false, 750, 100_000_000);
    let later = until(&mut bus, 110_000);
    assert!(later.iter().any(|it| it.0 == 1 && matches!(it.2, Notice::Received(_))), "{later:?}");
    assert!(matches!(later.last().unwrap().2, Notice::Sent(_)));
}

#[test]
fn thirty_two_errors_take_a_node_off_and_1408_bits_bring_it_back() {
    // Of data, and the acknowledge slot: other nodes see what became of their acknowledgement, and signal an error.
    let slot = length(&"123#11".parse().unwrap()).unwrap().total() - 3 - 9;
    for bit in [20, slot] {
        come_back_after_errors_in(bit);
    }
}

fn come_back_after_errors_in(bit: u32) {
    let (mut bus, nodes) = joined(2);
    for frame in 0..32 {
        assert!(bus.faults_mut().add(Fault { frame, bit }));
    }
    request(&mut bus, nodes[0], 20, "123#11");
    let all = until(&mut bus, 10_000);
    let off = all.iter().find(|it| it.2 == Notice::BusOff).unwrap();
    assert_eq!(
        all.iter().filter(|it| it.0 == 0 && matches!(it.2, Notice::Failed { .. })).count(),
        32
    );
    assert_eq!((bus.state(nodes[0]), off.0), (ErrorState::BusOff, 0));
    assert_eq!(bus.error_counters(nodes[1], 0).receive, 32);
    assert!(!bus.has_request(nodes[0]));
    bus.join(nodes[0], false, 750, 20_000_000);
    assert_eq!(bus.error_counters(nodes[0], 20_000_000).transmit, 127);
    assert_eq!(bus.error_counters(nodes[0], 20_000_000 + 64 * 11_000).transmit, 63);
    let back = until(&mut bus, 30_000);
    assert_eq!(back, [(0, 20_000.0 + 1_408.0, Notice::TakesPart)]);
    assert_eq!(bus.error_counters(nodes[0], 30_000_000), ErrorCounters::default());
}

#[test]
fn an_error_frame_takes_as_long_as_its_flags_overlap() {
    // Bits of 2AA#: 0 01010101010 0 0 0 0000 ...: how long the error flags are when bit `at` was inverted.
    for (at, flags) in [
        // Dominant becomes recessive: the flag of the sender is the first of the six equal bits.
        (1, 12),
        // A recessive bit of the identifier becomes dominant: its sender has lost arbitration to nobody, and all see six
        // recessive bits before their flags begin together.
        (2, 6 + 6),
        // A recessive stuff bit becomes dominant: six equal bits for all at once.
        (16, 6),
    ] {
        let (mut bus, nodes) = joined(2);
        assert!(bus.faults_mut().add(Fault { frame: 0, bit: at }));
        request(&mut bus, nodes[0], 20, "2AA#");
        let all = until(&mut bus, 1_000);
        let starts: Vec<_> =
            all.iter().filter(|it| it.2 == Notice::Started).map(|it| it.1).collect();
        assert_eq!(starts[1] - starts[0], f64::from(at + 1 + flags + 11), "{at}");
    }
}

#[test]
fn a_frame_with_an_error_in_its_last_bit_is_received_twice() {
    let (mut bus, nodes) = joined(2);
    let bits = length(&"123#".parse().unwrap()).unwrap().total() - 3;
    assert!(bus.faults_mut().add(Fault { frame: 0, bit: bits - 1 }));
    request(&mut bus, nodes[0], 20, "123#");
    let all = until(&mut bus, 1_000);
    assert_eq!(all.iter().filter(|it| matches!(it.2, Notice::Received(_))).count(), 2);
    assert_eq!(all.iter().filter(|it| matches!(it.2, Notice::Sent(_))).count(), 1);
}

#[test]
fn a_frame_breaks_off_when_its_sender_leaves() {
    let (mut bus, nodes) = joined(3);
    request(&mut bus, nodes[0], 20, "123#1122334455667788");
    assert!(until(&mut bus, 60).iter().any(|it| it.2 == Notice::Started));
    assert!(bus.is_sending(nodes[0]) && bus.is_receiving(nodes[1]));
    bus.leave(nodes[0], 60_000);
    request(&mut bus, nodes[1], 61, "7FF#");
    let all = until(&mut bus, 1_000);
    let failed =
        all.iter().filter(|it| matches!(it.2, Notice::Failed { .. })).map(|it| (it.0, it.1));
    assert_eq!(failed.collect::<Vec<_>>(), [(1, 66.0), (2, 66.0)]);
    let start = all.iter().find(|it| it.2 == Notice::Started).unwrap();
    assert_eq!((start.0, start.1), (1, 66.0 + 6.0 + 11.0));
}

#[test]
fn one_that_is_withdrawn_on_the_wire_is_not_repeated() {
    let (mut bus, nodes) = joined(2);
    assert!(bus.faults_mut().add(Fault { frame: 0, bit: 30 }));
    request(&mut bus, nodes[0], 20, "123#11");
    let _ = until(&mut bus, 30);
    assert!(!bus.withdraw(nodes[0]));
    let all = until(&mut bus, 1_000);
    assert!(
        !all.iter().any(|it| matches!(it.2, Notice::Sent(_)) || it.2 == Notice::Started),
        "{all:?}"
    );
    assert!(bus.withdraw(nodes[0]) && !bus.has_request(nodes[0]));
}

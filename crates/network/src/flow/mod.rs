//! [`Flow`]: where each message goes, through gateways that forward it, and what that makes of the buses'
//! load.
//!
//! The rules are carried out by the engine itself, on a frame of each message. What a rule makes depend on
//! earlier frames or on data (`rate`, `every`, `on_change`, `data`) is taken as passed, so a bus never carries
//! more than its load says.

use std::collections::BTreeSet;

use candor_engine::counters::Outcome;
use candor_engine::extension::{Pace, Payload as Conditions};
use candor_engine::{BusIndex, Engine, Forward, Passage, Table};
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::message::{Message, Payload, longest_transmission};
use crate::{Gateway, Network};

/// A message on one bus: where it is sent, or where a gateway forwards it to.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The index of the node that sends the message.
    pub node: usize,
    /// The index of the message in that node.
    pub message: usize,
    /// The index of the bus.
    pub bus: usize,
    /// A frame of it, as it is on that bus.
    pub frame: Frame,
    /// The indices of the gateways that it has passed, in order; none on the bus where it is sent.
    pub gateways: Vec<usize>,
}

/// The share of its time that a bus is occupied, and by how many frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Frames per second.
    pub frames_per_second: f64,
    /// The share of time, 1 for all of it, if every frame has as many stuff bits as it may have.
    pub longest_share: f64,
}

/// Every message on every bus that it reaches, in the order of nodes and messages, and each from where it is
/// sent. A frame that comes back to a bus unchanged through the same gateway is not followed again.
#[must_use]
pub fn flows(network: &Network) -> Vec<Flow> {
    let mut gateways: Vec<_> =
        network.gateways.iter().map(|gateway| Forwarder::new(network, gateway)).collect();
    let mut flows = Vec::new();
    for (node, message, bus, frame) in sent(network) {
        let begin = flows.len();
        flows.push(Flow { node, message, bus, frame, gateways: Vec::new() });
        let mut seen = BTreeSet::new();
        let mut next = begin;
        while let Some(flow) = flows.get(next).cloned() {
            next += 1;
            for (index, gateway) in gateways.iter_mut().enumerate() {
                // A controller does not receive what it sends.
                if flow.gateways.last() == Some(&index) {
                    continue;
                }
                for (bus, frame) in gateway.copies(flow.bus, &flow.frame) {
                    if seen.insert((index, flow.bus, bus, frame.can_id())) {
                        let gateways = flow.gateways.iter().copied().chain([index]).collect();
                        flows.push(Flow { bus, frame, gateways, ..flow });
                    }
                }
            }
        }
    }
    flows
}

/// The messages of all nodes with a frame of each.
fn sent(network: &Network) -> impl Iterator<Item = (usize, usize, usize, Frame)> + '_ {
    network.nodes.iter().enumerate().flat_map(|(node, sender)| {
        let frames = sender.messages.iter().map(example).enumerate();
        frames.filter_map(move |(message, frame)| Some((node, message, sender.bus, frame?)))
    })
}

/// A frame of a message; data that nobody knows are zero.
fn example(message: &Message) -> Option<Frame> {
    let mut data = [0; 64];
    if let Payload::Bytes(bytes) = &message.payload {
        data.iter_mut().zip(bytes).for_each(|(byte, &given)| *byte = given);
    }
    message.frame(&data)
}

/// The load of each bus.
#[must_use]
pub fn loads(network: &Network, flows: &[Flow]) -> Vec<Load> {
    let mut loads = vec![Load::default(); network.buses.len()];
    for flow in flows {
        let message = network.nodes.get(flow.node).and_then(|it| it.messages.get(flow.message));
        let (Some(message), Some(bus), Some(load)) =
            (message, network.buses.get(flow.bus), loads.get_mut(flow.bus))
        else {
            continue;
        };
        let period_ns = message.period.as_nanos().max(1) as f64;
        let longest = longest_transmission(&flow.frame, bus.timing).unwrap_or_default();
        load.frames_per_second += 1e9 / period_ns;
        load.longest_share += longest.as_nanos() as f64 / period_ns;
    }
    loads
}

/// A gateway's engine, and which bus of the network each of its buses is.
struct Forwarder {
    engine: Engine,
    /// By bus of the gateway; `None` for those inside of it.
    buses: Vec<Option<usize>>,
}

impl Forwarder {
    fn new(network: &Network, gateway: &Gateway) -> Self {
        let mut table: Table = gateway.rules.clone();
        for rule in &mut table.rules {
            (rule.extension.payload, rule.extension.pace) =
                (Conditions::default(), Pace::default());
        }
        let place = |bus: &candor_engine::Bus| {
            if bus.is_virtual { None } else { network.bus(&bus.name) }
        };
        Self { engine: Engine::new(&table), buses: table.buses.iter().map(place).collect() }
    }

    /// The copies of a frame that came from a bus of the network, and their buses.
    fn copies(&mut self, bus: usize, frame: &Frame) -> Vec<(usize, Frame)> {
        let mut copies = Vec::new();
        let own = (0..).map(BusIndex).zip(&self.buses).find(|(_, place)| **place == Some(bus));
        let Some((own, _)) = own else { return copies };
        // Copies for a bus inside of the gateway come back to it. The limit of hops ends this.
        let mut waiting = vec![(own, *frame, Passage::received_on(own))];
        while let Some((bus, frame, passage)) = waiting.pop() {
            let buses = &self.buses;
            self.engine.handle(Nanos::ZERO, bus, &frame, passage, &mut |copy: Forward<'_>| {
                match buses.get(usize::from(copy.to.0)) {
                    Some(Some(place)) => copies.push((*place, *copy.frame)),
                    _ => waiting.push((copy.to, *copy.frame, copy.passage)),
                }
                Outcome::Handled
            });
        }
        copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bus, Node, Queue};
    use candor_engine::edit::{Edit, Operands};
    use candor_engine::{Filter, Rule};
    use candor_wire::can::Timing;

    /// Buses of a gateway, and its rules: from, to, and the identifier that it takes and raises by one.
    type Described<'a> = (&'a [&'a str], &'a [(u16, u16, u32)]);

    fn network(gateways: &[Described<'_>]) -> Network {
        let timing = Timing::classical("500k".parse().unwrap());
        let bus = |name: &str| Bus { name: name.into(), timing, is_fd: false };
        let message = |name: &str, can_id| Message {
            name: name.into(),
            can_id,
            length: 8,
            period: Nanos::from_millis(10),
            offset: None,
            jitter: Nanos::ZERO,
            payload: Payload::Signals,
        };
        let node =
            |bus, messages| Node { name: "N".into(), bus, queue: Queue::default(), messages };
        let gateway = |(buses, rules): &Described<'_>| {
            let bus = |name: &&str| candor_engine::Bus {
                name: (*name).into(),
                port: (*name).into(),
                is_virtual: name.starts_with('v'),
            };
            let rule = |&(from, to, can_id): &(u16, u16, u32)| Rule {
                filters: vec![Filter { can_id, mask: 0x7FF, inverted: false }],
                edit: Edit {
                    set: Operands { can_id: Some(can_id + 1), ..Operands::default() },
                    ..Edit::default()
                },
                ..Rule::new(can_id.to_string(), BusIndex(from), BusIndex(to))
            };
            let buses = buses.iter().map(bus).collect();
            let rules = rules.iter().map(rule).collect();
            let rules = Table { buses, rules, max_hops: 3, ..Table::default() };
            Gateway { name: "G".into(), rules }
        };
        Network {
            title: String::new(),
            buses: ["a", "b", "c"].map(bus).into(),
            nodes: vec![
                node(0, vec![message("A", 0x100), message("B", 0x200)]),
                node(2, vec![message("C", 0x300)]),
            ],
            gateways: gateways.iter().map(gateway).collect(),
        }
    }

    /// Each flow as `message: bus identifier`, with the gateways behind it.
    fn shown(network: &Network) -> Vec<String> {
        let show = |flow: Flow| {
            let message = &network.nodes[flow.node].messages[flow.message].name;
            let bus = &network.buses[flow.bus].name;
            format!("{message}: {bus} {:X} {:?}", flow.frame.can_id(), flow.gateways)
        };
        flows(network).into_iter().map(show).collect()
    }

    #[test]
    fn messages_go_where_the_rules_send_them() {
        let own = ["A: a 100 []", "B: a 200 []", "C: c 300 []"];
        let with = |more: &[(usize, &str)]| {
            let mut all: Vec<String> = own.map(String::from).into();
            more.iter().for_each(|(at, flow)| all.insert(*at, (*flow).into()));
            all
        };
        for (gateways, expected) in [
            (&[][..], with(&[])),
            (&[(&["a", "b"][..], &[(0, 1, 0x100)][..])], with(&[(1, "A: b 101 [0]")])),
            // Two gateways in a row.
            (
                &[(&["a", "b"], &[(0, 1, 0x100)]), (&["b", "c"], &[(0, 1, 0x101)])],
                with(&[(1, "A: b 101 [0]"), (2, "A: c 102 [0, 1]")]),
            ),
            // A gateway does not receive what it sends, but what comes back from a bus inside of it.
            (&[(&["a", "b", "c"], &[(0, 1, 0x200), (1, 2, 0x201)])], with(&[(2, "B: b 201 [0]")])),
            (&[(&["a", "v", "c"], &[(0, 1, 0x200), (1, 2, 0x201)])], with(&[(2, "B: c 202 [0]")])),
        ] {
            assert_eq!(shown(&network(gateways)), expected);
        }
    }

    #[test]
    fn a_circle_of_gateways_ends() {
        let mut network = network(&[
            (&["a", "b"], &[(0, 1, 0x100), (1, 0, 0x100)]),
            (&["b", "a"], &[(0, 1, 0x100), (1, 0, 0x100)]),
        ]);
        for gateway in &mut network.gateways {
            gateway.rules.rules.iter_mut().for_each(|rule| rule.edit = Edit::default());
        }
        let of_a: Vec<_> = shown(&network).into_iter().filter(|it| it.starts_with("A")).collect();
        let expected =
            ["A: a 100 []", "A: b 100 [0]", "A: b 100 [1]", "A: a 100 [0, 1]", "A: a 100 [1, 0]"];
        assert_eq!(of_a, expected);
    }

    #[test]
    fn the_load_is_that_of_the_longest_frames() {
        // 55 + 80 bits at 500 kbit/s are 270 us, 100 times a second.
        let network = network(&[(&["a", "b"], &[(0, 1, 0x100)])]);
        let loads = loads(&network, &flows(&network));
        for (load, messages) in loads.iter().zip([2.0, 1.0, 1.0]) {
            assert!((load.frames_per_second - messages * 100.0).abs() < 1e-9, "{load:?}");
            assert!((load.longest_share - messages * 0.027).abs() < 1e-12, "{load:?}");
        }
    }
}

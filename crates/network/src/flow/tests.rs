use candor_engine::edit::{Edit, Operands};
use candor_engine::{BusIndex, Filter, Rule, Table};
use candor_time::Nanos;
use candor_wire::can::Timing;

use super::*;
use crate::{Bus, Gateway, Node, Queue};

/// Buses of a gateway, and its rules: from, to, and the identifier that it takes and raises by one.
type Described<'a> = (&'a [&'a str], &'a [(u16, u16, u32)]);

fn network(gateways: &[Described<'_>]) -> Network {
    let timing = Timing::classical("500k".parse().unwrap());
    let bus = |name: &str| Bus { name: name.into(), timing, is_fd: false };
    let message = |name: &str, can_id| Message {
        name: name.into(),
        can_id,
        length: 8,
        is_fd: false,
        period: Nanos::from_millis(10),
        offset: None,
        jitter: Nanos::ZERO,
        deadline: None,
        distances: Vec::new(),
        min_length: None,
        has_brs: true,
        payload: Payload::Signals,
    };
    let node = |bus, messages| Node { name: "N".into(), bus, queue: Queue::default(), messages };
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
            echo: buses[usize::from(to)].starts_with('v'),
            ..Rule::new(can_id.to_string(), BusIndex(from), BusIndex(to))
        };
        let buses = buses.iter().map(bus).collect();
        let rules = rules.iter().map(rule).collect();
        let rules = Table { buses, rules, max_hops: 3, ..Table::default() };
        Gateway::new("G", rules)
    };
    Network {
        title: String::new(),
        buses: ["a", "b", "c"].map(bus).into(),
        nodes: vec![
            node(0, vec![message("A", 0x100), message("B", 0x200)]),
            node(2, vec![message("C", 0x300)]),
        ],
        gateways: gateways.iter().map(gateway).collect(),
        recorded: Vec::new(),
    }
}

/// Each flow as `message: bus identifier`, with the gateways behind it.
fn shown(network: &Network) -> Vec<String> {
    let show = |flow: Flow| {
        let message = &network.nodes[flow.node].messages[flow.message].name;
        let bus = &network.buses[flow.bus].name;
        format!("{message}: {bus} {:X} {:?}", flow.frame.can_id(), flow.gateways)
    };
    flows(network).unwrap().into_iter().map(show).collect()
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

/// Two gateways that pass everything on between a and b: from and to, by gateway.
fn passing(rules: [&[(u16, u16)]; 2]) -> Network {
    let rules =
        rules.map(|rules| rules.iter().map(|&(from, to)| (from, to, 0)).collect::<Vec<_>>());
    let mut network = network(&[(&["a", "b"], &rules[0]), (&["a", "b"], &rules[1])]);
    for rule in network.gateways.iter_mut().flat_map(|it| &mut it.rules.rules) {
        (rule.edit, rule.filters) = (Edit::default(), Vec::new());
    }
    network
}

#[test]
fn frames_that_go_round_for_ever_are_an_error() {
    // One gateway does not receive what it sends itself.
    assert_eq!(shown(&passing([&[(0, 1), (1, 0)], &[]])).len(), 5);
    let unbounded = flows(&passing([&[(0, 1)], &[(1, 0)]])).unwrap_err();
    let circle = vec![(0, 1), (1, 0), (0, 1)];
    let expected =
        Unbounded { node: 0, message: 0, gateway: 0, rule: 0, reason: Reason::Endless(circle) };
    assert_eq!(unbounded, expected);
    // Identifiers that change on the way come back sooner or later.
    let mut network = passing([&[(0, 1)], &[(1, 0)]]);
    for (gateway, bits) in network.gateways.iter_mut().zip([1, 2]) {
        gateway.rules.rules[0].edit.xor.can_id = Some(bits);
    }
    let Reason::Endless(circle) = flows(&network).unwrap_err().reason else { panic!() };
    assert_eq!(circle.len(), 5);
}

#[test]
fn copies_are_bounded() {
    // Twelve gateways that each have a bit of their own: each copy has passed another selection of them.
    let mut network = passing([&[(0, 1), (1, 0)], &[]]);
    let one = network.gateways[0].clone();
    network.gateways = (0..12)
        .map(|bit| {
            let mut gateway = one.clone();
            for rule in &mut gateway.rules.rules {
                rule.filters = vec![Filter { can_id: 0, mask: 1 << bit, inverted: false }];
                rule.edit.or.can_id = Some(1 << bit);
            }
            gateway
        })
        .collect();
    network.nodes[0].messages[0].can_id |= 1 << 31;
    let unbounded = flows(&network).unwrap_err();
    assert_eq!(unbounded.reason, Reason::TooMany(MOST_COPIES));
    // Inside of a gateway, too.
    let rules: Vec<_> = (0..8).flat_map(|_| [(0, 1, 0x100), (1, 1, 0x101)]).collect();
    let mut network = self::network(&[(&["a", "v"], &rules)]);
    for rule in &mut network.gateways[0].rules.rules {
        (rule.allow_return, rule.filters, rule.edit) = (true, Vec::new(), Edit::default());
    }
    network.gateways[0].rules.max_hops = 6;
    assert_eq!(flows(&network).unwrap_err().reason, Reason::TooMany(MOST_COPIES));
    // And all messages together.
    let rules: Vec<_> = (0..900).map(|_| (0, 1, 0x100)).collect();
    let mut network = self::network(&[(&["a", "b"], &rules)]);
    let message = network.nodes[0].messages[0].clone();
    network.nodes[0].messages = vec![message; 120];
    assert_eq!(flows(&network).unwrap_err().reason, Reason::TooMany(MOST_COPIES_IN_ALL));
}

#[test]
fn each_copy_counts() {
    let twice = network(&[(&["a", "b"], &[(0, 1, 0x100), (0, 1, 0x100)])]);
    let of_b = |network: &Network| loads(network, &flows(network).unwrap())[1];
    let load = of_b(&twice);
    assert!((load.frames_per_second - 200.0).abs() < 1e-9, "{load:?}");
    // The same identifier with another length.
    let mut shorter = twice;
    shorter.gateways[0].rules.rules[1].edit.set.len = Some(0);
    let load = of_b(&shorter);
    assert!((load.longest_share - (0.027 + 0.011)).abs() < 1e-12, "{load:?}");
}

/// The bytes of the copies on b of message A, of so many bytes, if the rule is changed like that.
fn lengths_on_b(length: usize, change: impl Fn(&mut Rule)) -> Vec<usize> {
    let mut network = network(&[(&["a", "b"], &[(0, 1, 0x100)])]);
    network.nodes[0].messages[0].length = length;
    change(&mut network.gateways[0].rules.rules[0]);
    let on_b = |flow: Flow| (flow.bus == 1).then(|| flow.frame.len());
    flows(&network).unwrap().into_iter().filter_map(on_b).collect()
}

#[test]
fn what_depends_on_data_or_time_counts_as_forwarded() {
    use candor_engine::extension::action::{Action, Copy, Place, Signal};
    use candor_engine::extension::payload::Bytes;
    use candor_wire::can::Field;
    use candor_wire::can::field::ByteOrder;

    let signal = |of_received, bits| {
        let place = |offset, range| Place {
            name: "S".into(),
            field: Field::new(0, bits, ByteOrder::Intel, false).unwrap(),
            scale: 1.0,
            offset,
            range,
        };
        let range = Some((50.0, 90.0));
        let signal = Signal::new(place(10.0, None), of_received, 1.0, 0.0, None, place(0.0, range));
        Action::Signal(Box::new(signal.unwrap()))
    };
    // Zeros are out of range, but other data are not. Only bits that are not there never are.
    for (bits, length, expected) in
        [(8, 8, &[8][..]), (8, 0, &[]), (60, 8, &[8]), (60, 7, &[]), (20, 3, &[3]), (20, 2, &[])]
    {
        for of_received in [false, true] {
            let with_signal = |rule: &mut Rule| {
                rule.extension.actions = vec![signal(of_received, bits)];
            };
            assert_eq!(lengths_on_b(length, with_signal), expected, "{bits} {length}");
        }
    }
    let copying = |rule: &mut Rule| {
        rule.extension.actions = vec![Action::Copy(Copy { from: 2, to: 0, count: 2 })];
    };
    assert_eq!((lengths_on_b(4, copying), lengths_on_b(3, copying)), (vec![4], vec![]));
    let with_data = |rule: &mut Rule| {
        rule.extension.payload.data = vec![Bytes::new(&[(1, 0xFF), (2, 0xFF)])];
        rule.extension.payload.not_data = vec![Bytes::new(&[(0, 0xFF)])];
        rule.extension.pace.every = 10;
    };
    assert_eq!((lengths_on_b(2, with_data), lengths_on_b(1, with_data)), (vec![2], vec![]));
}

#[test]
fn a_length_that_a_rule_does_not_take_is_not_forwarded() {
    let long = |rule: &mut Rule| rule.extension.payload.lengths = vec![(4, 8)];
    assert_eq!((lengths_on_b(4, long), lengths_on_b(3, long)), (vec![4], vec![]));
}

#[test]
fn frames_that_a_bus_cannot_carry_are_refused() {
    let mut network = network(&[
        (&["a", "b"], &[(0, 1, 0x100)]),
        (&["b", "c"], &[(0, 1, 0x101)]),
        (&["a", "c"], &[(0, 1, 0x100)]),
    ]);
    for gateway in &mut network.gateways {
        gateway.rules.rules[0].gate = candor_engine::table::Gate::Any;
        gateway.rules.rules[0].edit = Edit::default();
    }
    let message = &mut network.nodes[0].messages[0];
    (message.length, message.is_fd) = (64, true);
    (network.buses[0].is_fd, network.buses[2].is_fd) = (true, true);
    let flows = flows(&network).unwrap();
    let of_a: Vec<_> = flows.iter().filter(|it| (it.node, it.message) == (0, 0)).collect();
    let found: Vec<_> = of_a.iter().map(|it| (it.bus, it.is_refused)).collect();
    assert_eq!(found, [(0, false), (1, true), (2, false)], "what is refused goes no further");
    assert!(loads(&network, &flows)[1].frames_per_second.abs() < 1e-9);
}

#[test]
fn only_the_names_of_the_buses_count() {
    let mut network = network(&[(&["a", "b"], &[(0, 1, 0x100)])]);
    let bus = &mut network.gateways[0].rules.buses[1];
    (bus.port, bus.is_virtual) = ("vcan0".into(), true);
    assert!(shown(&network).contains(&"A: b 101 [0]".into()));
    // A bus inside of the gateway discards what is sent without echo.
    let mut network = self::network(&[(&["a", "v", "c"], &[(0, 1, 0x200), (1, 2, 0x201)])]);
    assert_eq!(shown(&network).len(), 4);
    network.gateways[0].rules.rules[0].echo = false;
    assert_eq!(shown(&network).len(), 3);
    // From any other bus comes back what is sent with echo, as far as the limit of hops.
    let mut network = self::network(&[(&["a", "b", "c"], &[(0, 1, 0x200), (1, 2, 0x201)])]);
    network.gateways[0].rules.rules[0].echo = true;
    assert_eq!(shown(&network).len(), 5);
    network.gateways[0].rules.max_hops = 1;
    assert_eq!(shown(&network).len(), 4);
}

#[test]
fn the_load_is_that_of_the_longest_frames() {
    // 55 + 80 bits at 500 kbit/s are 270 us, 100 times a second.
    let network = network(&[(&["a", "b"], &[(0, 1, 0x100)])]);
    let loads = loads(&network, &flows(&network).unwrap());
    for (load, messages) in loads.iter().zip([2.0, 1.0, 1.0]) {
        assert!((load.frames_per_second - messages * 100.0).abs() < 1e-9, "{load:?}");
        assert!((load.longest_share - messages * 0.027).abs() < 1e-12, "{load:?}");
    }
}

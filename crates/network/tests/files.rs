//! What network files say, and what is wrong with them.

use candor_network::Network;
use candor_network::file::parse;
use candor_network::flow::{flows, loads};

const BUSES: &str = "bus.a.bitrate = '500k'\nbus.b.bitrate = '250k'\n\
    bus.c = { bitrate = '125k', data_bitrate = '500k' }\nnodes = { a = ['A1'], b = ['B1'], c = ['C1'] }\n";

/// A table of a message.
fn message(name: &str, id: u32, node: &str, length: usize) -> String {
    format!(
        "[[message]]\nname = '{name}'\nid = {id}\nnode = '{node}'\nlength = {length}\nperiod = '10ms'\n"
    )
}

/// A gateway whose rule file has the name of the gateway.
fn gateway(name: &str) -> String {
    format!("[gateway.{name}]\nrules = '{name}'\n")
}

const RULE_BUSES: &str = "bus = { a = 'can0', b = 'can1', c = 'can2' }\n";

/// A network file, and beside it other files by name.
fn read(text: &str, files: &[(&str, &str)]) -> (Option<Network>, String) {
    let include = |name: &str| {
        let file = files.iter().find(|(known, _)| *known == name);
        file.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| "is absent".into())
    };
    let (network, findings) = parse("n.toml", text, &include);
    (network, findings.to_string())
}

/// The messages on a bus with their lengths, and its load in frames per second.
fn on_bus(network: &Network, bus: &str) -> (Vec<(String, usize)>, f64) {
    let bus = network.bus(bus).unwrap();
    let flows = flows(network).unwrap();
    let load = loads(network, &flows)[bus].frames_per_second;
    let of_bus = flows.iter().filter(|flow| flow.bus == bus && !flow.is_refused);
    let name = |node: usize, message: usize| network.nodes[node].messages[message].name.clone();
    (of_bus.map(|flow| (name(flow.node, flow.message), flow.frame.len())).collect(), load)
}

/// Checks that each of `expected` is in `found`, and that there are no others of this severity.
fn assert_findings(found: &str, severity: &str, expected: &[&str]) {
    assert_eq!(found.matches(&format!(": {severity}: ")).count(), expected.len(), "{found}");
    for expected in expected {
        assert!(found.contains(expected), "{expected}\n{found}");
    }
}

#[test]
fn gateways_that_send_a_frame_round_are_an_error() {
    let text = format!("{BUSES}{}{}{}", message("M", 1, "A1", 8), gateway("g1"), gateway("g2"));
    let rules = |from, to| format!("{RULE_BUSES}[[rule]]\nfrom = '{from}'\nto = '{to}'\n");
    let (network, found) = read(&text, &[("g1", &rules("a", "b")), ("g2", &rules("b", "a"))]);
    assert!(network.is_none());
    let expected = "g1:2:1: error: `M` of node `A1` goes round for ever: `g1` sends it to `b`, `g2` sends \
        it to `a`, `g1` sends it to `b`\n  [[rule]]\n";
    assert_findings(&found, "error", &[expected]);
    assert!(found.contains("hint: let one of these gateways leave it out"), "{found}");
}

#[test]
fn the_copies_of_a_message_have_a_limit() {
    let bits = 0..16;
    let gateways: String = bits.clone().map(|bit| gateway(&format!("g{bit}"))).collect();
    let text = format!("{BUSES}{}{gateways}", message("M", 1, "A1", 8));
    let rule = |bit: u32, from, to| {
        format!("[[rule]]\nfrom = '{from}'\nto = '{to}'\nxor.id = 'word 0x{:X}'\n", 1 << bit)
    };
    let rules: Vec<_> = bits
        .map(|bit| {
            let rules = [rule(bit, "a", "b"), rule(bit, "b", "a")].concat();
            (format!("g{bit}"), format!("{RULE_BUSES}{rules}"))
        })
        .collect();
    let files: Vec<_> = rules.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let (_, found) = read(&text, &files);
    assert_findings(&found, "error", &["gateways make more than 1000 copies of `M` of node `A1`"]);
}

#[test]
fn lengths_and_kinds_decide_what_a_bus_gets() {
    let messages = [message("Short", 1, "A1", 3), message("Long", 2, "A1", 4)].concat();
    let text = format!("{BUSES}{messages}{}{}", message("Fd", 3, "C1", 64), gateway("g"));
    let rules = "[[rule]]\nfrom = 'a'\nto = 'b'\nlength = '4-8'\n\
        [[rule]]\nname = 'all'\nfrom = 'c'\nto = ['a', 'b']\nframes = 'any'\n";
    let (network, found) = read(&text, &[("g", &format!("{RULE_BUSES}{rules}"))]);
    let (messages, frames) = on_bus(&network.unwrap(), "b");
    assert_eq!(messages, [("Long".into(), 4)]);
    assert!((frames - 100.0).abs() < 1e-9, "{frames}");
    let lost = |bus| {
        format!(
            "g:6:1: warning: gateway `g` sends `Fd` to bus `{bus}` as CAN FD frames, but the bus is classical"
        )
    };
    assert_findings(&found, "warning", &[&lost("a"), &lost("b")]);
}

#[test]
fn only_the_names_of_the_buses_count() {
    let text = format!("{BUSES}{}{}", message("M", 1, "A1", 8), gateway("g"));
    let rules = "bus = { a = 'vcan0', b = 'vcan1' }\n[[rule]]\nfrom = 'a'\nto = 'b'\necho = true\n";
    let (network, found) = read(&text, &[("g", rules)]);
    assert_eq!(on_bus(&network.unwrap(), "b").0, [("M".into(), 8)], "{found}");
    // Others are inside of the gateway if they are virtual, and unknown if not.
    let rules = "[bus]\na = 'can0'\nx = 'can3'\n[[rule]]\nfrom = 'a'\nto = 'x'\n";
    let (_, found) = read(&text, &[("g", rules)]);
    let expected = "g:3:1: error: unknown bus `x`\n  x = 'can3'\n  ^\n  hint: there are a, b, c\n";
    assert_findings(&found, "error", &[expected]);
}

#[test]
fn a_bus_with_more_than_it_can_carry_is_a_warning() {
    let message = message("M", 1, "A1", 8).replace("10ms", "200us");
    let (network, found) = read(&format!("{BUSES}{message}"), &[]);
    assert!(network.is_some());
    let expected = "n.toml:1:5: warning: the messages on bus `a` may need 135 % of its time";
    assert_findings(&found, "warning", &[expected]);
}

#[test]
fn copies_with_an_identifier_of_somebody_else_are_warnings() {
    let messages =
        [message("M", 1, "A1", 8), message("N", 2, "A1", 8), message("B", 0x200, "B1", 4)];
    let gateways = gateway("g") + &gateway("h");
    let text = format!("{BUSES}{}{gateways}", messages.concat());
    let rule = |from: &str, to: &str, id: u32, more: &str| {
        format!("[[rule]]\nfrom = '{from}'\nto = '{to}'\nmatch = '0x{id:03X}'\n{more}")
    };
    let file = |rules: &[String]| RULE_BUSES.to_owned() + &rules.concat();
    let renamed = "set.id = '0x200'\n";
    // One rule for two buses is right; the same message twice in one gateway is told with the rules.
    let right = file(&[rule("a", "b", 1, ""), rule("a", "c", 1, "")]);
    for (g, h, expected) in [
        (right.clone(), file(&[]), &[][..]),
        (
            file(&[rule("a", "b", 2, ""), rule("a", "b", 1, renamed)]),
            file(&[]),
            &[
                "g:6:1: warning: gateway `g` sends `M` to bus `b` as 0x200, with which node `B1` sends `B` \
               there",
            ],
        ),
        (
            right.clone(),
            right,
            &[
                "h:2:1: warning: gateway `h` sends `M` to bus `b` as 0x1, with which gateway `g` sends `M` \
                 there",
                "h:6:1: warning: gateway `h` sends `M` to bus `c` as 0x1, with which gateway `g` sends `M` \
                 there",
            ],
        ),
        (
            file(&[rule("a", "c", 1, renamed), rule("a", "c", 2, renamed)]),
            file(&[]),
            &[
                "g:7:1: warning: gateway `g` sends `N` to bus `c` as 0x200, with which it also sends `M` there",
            ],
        ),
    ] {
        let (network, found) = read(&text, &[("g", &g), ("h", &h)]);
        assert!(network.is_some());
        // There are others, about buses that no rule uses.
        let collisions: Vec<_> = found.lines().filter(|line| line.contains("with which")).collect();
        assert_eq!(collisions, expected);
    }
}

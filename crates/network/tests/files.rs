//! What network files say, and what is wrong with them.

use candor_network::Network;
use candor_network::file::{Purpose, parse};
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
    let (network, findings) = parse("n.toml", text, &include, Purpose::Flow);
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

const DBC: &str = "BU_: A1 B1\n\nBO_ 1 M: 8 A1\n\nBO_ 2 Short: 5 A1\n\nBO_ 3 Nobody: 8 Vector__XXX\n\n\
    BO_ 4 Silent: 8 A1\n\n\
    BA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 1000;\nBA_DEF_DEF_ \"GenMsgCycleTime\" 10;\n\
    BA_ \"GenMsgCycleTime\" BO_ 4 0;\n";

/// The nodes with their buses and the names of their messages.
fn senders(network: &Network) -> Vec<String> {
    let show = |node: &candor_network::Node| {
        let messages: Vec<_> = node.messages.iter().map(|it| it.name.as_str()).collect();
        format!("{} {}: {}", node.name, network.buses[node.bus].name, messages.join(" "))
    };
    network.nodes.iter().map(show).collect()
}

#[test]
fn messages_of_a_dbc_file_need_a_sender() {
    let files = [("car.dbc", DBC)];
    let buses = "bus.a.bitrate = '500k'\n";
    for (text, place) in [
        (format!("dbc = 'car.dbc'\n{buses}nodes.a = ['A1', 'B1']\n"), "n.toml:1:7"),
        (format!("{buses}bus.a.dbc = 'car.dbc'\nnodes.a = ['B1']\n"), "n.toml:2:13"),
    ] {
        let (network, found) = read(&text, &files);
        let expected = [
            &format!(
                "{place}: warning: car.dbc: 1 of 4 messages has no cycle time and is not sent: Silent"
            ),
            &format!(
                "{place}: warning: car.dbc: 1 of 4 messages has no sender and is not sent: Nobody"
            ),
        ];
        assert_findings(&found, "warning", &expected.map(String::as_str));
        assert!(found.contains("list them with a node under [[message]]"), "{found}");
        assert_eq!(senders(&network.unwrap()), ["A1 a: M Short", "B1 a: "]);
    }
    let no_sender = DBC.replace(": 8 A1", ": 8 Vector__XXX").replace(": 5 A1", ": 5 Vector__XXX");
    let text = format!("dbc = 'car.dbc'\n{buses}");
    let (network, found) = read(&text, &[("car.dbc", &no_sender)]);
    assert!(network.is_some() && found.contains("3 of 4 messages have no sender"), "{found}");
}

#[test]
fn can_fd_frames_may_be_short() {
    let fd = message("M", 1, "C1", 8) + "fd = true\n";
    let (network, found) = read(&format!("{BUSES}{fd}"), &[]);
    let network = network.unwrap_or_else(|| panic!("{found}"));
    let flow = flows(&network).unwrap().remove(0);
    assert!(flow.frame.is_fd() && flow.frame.len() == 8 && flow.frame.fd_flags() != 0);
    let dbc = DBC.to_owned() + "BA_ \"VFrameFormat\" BO_ 2 14;\n";
    let text = "dbc = 'car.dbc'\n[bus.a]\nbitrate = '500k'\nfd = true\n[nodes]\na = ['A1']\n";
    let network = read(text, &[("car.dbc", &dbc)]).0.unwrap();
    let is_fd: Vec<_> = flows(&network).unwrap().iter().map(|flow| flow.frame.is_fd()).collect();
    assert_eq!(is_fd, [false, true]);
}

#[test]
fn mistakes_have_their_place_and_a_remedy() {
    let (a, b) = (message("M", 1, "A1", 8), message("N", 1, "B1", 8));
    let length = message("M", 1, "A1", 64);
    let absent = |key: &str| {
        let lines = a.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n"));
        lines.collect::<String>()
    };
    let no_bus = BUSES.replace("b = ['B1']", "b = []");
    for (text, expected) in [
        (
            format!("{BUSES}{a}{}", message("N", 1, "A1", 8)),
            &[
                "n.toml:13:6: error: `A1` sends 0x1 on bus a twice: n.toml:7:6\n  id = 1\n       ^\n  hint: list each",
            ][..],
        ),
        (
            format!("{}{a}{b}", BUSES.replace("a = ['A1'], b = ['B1']", "a = ['A1', 'B1']")),
            &["n.toml:13:6: error: `A1` and `B1` both send 0x1 on bus a: n.toml:7:6\n  id = 1\n"],
        ),
        (
            format!("{BUSES}{}", message("M", 1, "X", 8)),
            &["n.toml:8:8: error: node `X` sends M, but is not on any bus\n  node = 'X'\n"],
        ),
        (
            format!("{BUSES}{length}"),
            &[
                "n.toml:9:10: error: `M` is a CAN FD frame of 64 bytes, but its bus `a` is classical\n",
            ],
        ),
        (
            format!("{BUSES}{}", message("M", 1, "A1", 9)),
            &["n.toml:9:10: error: a frame cannot have 9 bytes\n", "is a CAN FD frame of 9 bytes"],
        ),
        (
            format!("{BUSES}{length}fd = false\n"),
            &["error: a classical frame cannot have 64 bytes\n"],
        ),
        // What is missing is the only mistake.
        (
            format!("{BUSES}{}", absent("node")),
            &["n.toml:5:1: error: `node` is missing\n  [[message]]\n"],
        ),
        (format!("{BUSES}{}", absent("id")), &["n.toml:5:1: error: `id` is missing\n"]),
        (format!("{BUSES}{}", absent("period")), &["n.toml:5:1: error: `period` is missing\n"]),
        (format!("{BUSES}{}", a.replace("'A1'", "1")), &["`node` is an integer, expected text"]),
        ("title = 'x'\n".into(), &["n.toml:1:1: error: `bus` is missing\n"]),
        ("[bus.a]\n".into(), &["n.toml:1:1: error: `bitrate` is missing\n"]),
        (format!("{BUSES}[gateway.g]\n"), &["n.toml:5:1: error: `rules` is missing\n"]),
        (
            format!("{}{a}", BUSES.replace("a = ['A1']", "y = ['A1']")),
            &["error: unknown bus `y`\n"],
        ),
        // Names.
        (format!("{BUSES}bus.''.bitrate = '1M'\n"), &["error: the name of this bus is empty\n"]),
        (BUSES.replace("'B1'", "''"), &["n.toml:4:28: error: the name of this node is empty\n"]),
        (
            format!("{BUSES}{}", message("", 1, "A1", 8)),
            &["error: the name of this message is empty\n"],
        ),
        (
            format!("{BUSES}{}", message("M", 1, "", 8)),
            &["error: the name of this node is empty\n"],
        ),
        (BUSES.replace("'B1'", "'B1', 'B1'"), &["n.toml:4:34: error: node `B1` is listed twice\n"]),
        (BUSES.replace("'B1'", "'A1'"), &["n.toml:4:28: error: node `A1` is on bus `a` already\n"]),
        (format!("{no_bus}{b}"), &["error: node `B1` sends N, but is not on any bus\n"]),
    ] {
        let (network, found) = read(&text, &[]);
        assert!(network.is_none(), "{text}");
        assert_findings(&found, "error", expected);
        let hints = found.matches("  hint: ").count();
        let typed = found.matches("expected text").count();
        assert_eq!(hints + typed, expected.len(), "{found}");
    }
}

#[test]
fn what_is_there_twice_or_without_effect_is_told() {
    let files = [("car.dbc", DBC)];
    // The same messages for the file and for a bus of it.
    let text = "dbc = 'car.dbc'\n[bus.a]\nbitrate = '500k'\ndbc = 'car.dbc'\n";
    let (network, found) = read(text, &files);
    assert!(network.is_none());
    let twice = |id| format!("n.toml:4:7: error: `A1` sends {id} on bus a twice: n.toml:1:7\n");
    assert_findings(&found, "error", &[&twice("0x1"), &twice("0x2")]);
    // Nodes of one name on two buses, and a message of it that may be on either.
    let text =
        "[bus.a]\nbitrate = '500k'\ndbc = 'car.dbc'\n[bus.b]\nbitrate = '500k'\ndbc = 'car.dbc'\n";
    assert!(read(text, &files).0.is_some());
    let more = message("More", 9, "A1", 8);
    let (_, found) = read(&format!("{text}{more}"), &files);
    assert_findings(&found, "error", &["node `A1` sends More, but is on the buses `a` and `b`\n"]);
    // Names of messages, and a bit rate that nothing has.
    let messages = [message("M", 1, "A1", 8), message("M", 2, "B1", 8)].concat();
    let (network, found) = read(&format!("{BUSES}{messages}"), &[]);
    assert!(network.is_some());
    let expected = "n.toml:12:8: warning: another message is called `M`: n.toml:6:8\n";
    assert_findings(&found, "warning", &[expected]);
    let (network, found) = read(&BUSES.replace("'500k' }", "'500k', fd = false }"), &[]);
    assert!(network.is_some());
    let expected = "n.toml:3:57: warning: bus `c` has a `data_bitrate`, but no CAN FD frames";
    assert_findings(&found, "warning", &[expected]);
}

#[test]
fn data_is_never_slower_than_the_arbitration() {
    for (data, is_wrong) in [("499k", true), ("500k", false), ("2M", false)] {
        let text = format!("[bus.a]\nbitrate = \"500k\"\ndata_bitrate = \"{data}\"\n");
        let (network, findings) = read(&text, &[]);
        assert_eq!(network.is_none(), is_wrong, "{data}: {findings}");
        let message = "n.toml:3:16: error: the bit rate of the data is 499kbit/s, less than that of the arbitration";
        assert_eq!(findings.contains(message), is_wrong, "{findings}");
    }
}

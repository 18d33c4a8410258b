//! Network files under experiments.

use std::fs;

use candor_lab::campaign::{self, Campaign, Options};
use candor_lab::experiment::Run;
use candor_lab::kinds::gateway::{CanGateway, Traffic};
use candor_lab::quantity::value;
use candor_lab::sections::BUSES;
use candor_lab::simulate::run;
use candor_network::flow::{flows, loads};

const NETWORK: &str = r#"
    dbc = "car.dbc"
    queue = "fifo"
    [bus.fast]
    bitrate = "500k"
    [bus.slow]
    bitrate = "125k"
    [nodes]
    fast = ["A"]
    [offsets]
    Speed = "1ms"
    [gateway.central]
    rules = "car.rules.toml"
"#;

const DBC: &str = "BU_: A\n\nBO_ 291 Speed: 8 A\n\nBO_ 292 Torque: 4 A\n\n\
    BA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 10000;\nBA_DEF_DEF_ \"GenMsgCycleTime\" 0;\n\
    BA_ \"GenMsgCycleTime\" BO_ 291 10;\nBA_ \"GenMsgCycleTime\" BO_ 292 20;\n";

const RULES: &str = r#"
    bus = { fast = "can0", slow = "can1" }
    rule = [{ from = "fast", to = "slow", match = ["0x123"] }]
"#;

/// A folder with the network in a folder of its own, and what an experiment file beside that is read as.
fn read(experiment: &str) -> Result<Campaign, String> {
    read_with(experiment, RULES)
}

fn read_with(experiment: &str, rules: &str) -> Result<Campaign, String> {
    let folder = tempfile::tempdir().unwrap();
    let car = folder.path().join("car");
    fs::create_dir(&car).unwrap();
    for (name, text) in [("car.network.toml", NETWORK), ("car.dbc", DBC), ("car.rules.toml", rules)]
    {
        fs::write(car.join(name), text).unwrap();
    }
    fs::write(car.join("wrong.network.toml"), "bus.a.bitrate = '500k'\nnodes.b = ['A']\n").unwrap();
    let two = NETWORK.to_owned() + "[gateway.other]\nrules = 'car.rules.toml'\n";
    fs::write(car.join("two.network.toml"), two).unwrap();
    // Only one of its buses can carry what is longer than 8 bytes.
    let long = NETWORK
        .replace("\"500k\"", "\"500k\"\n    fd = true")
        .replace("car.rules", "all.rules")
        + "[[message]]\nname = 'Long'\nid = '0x125'\nlength = 12\nperiod = '10ms'\nnode = 'A'\n";
    fs::write(car.join("long.network.toml"), long).unwrap();
    let all = RULES.replace("match = [\"0x123\"]", "frames = \"any\"");
    fs::write(car.join("all.rules.toml"), all).unwrap();
    fs::write(car.join("silent.network.toml"), "bus.a.bitrate = '500k'\n").unwrap();
    let virtual_names = NETWORK.replace("car.rules", "virtual.rules");
    fs::write(car.join("virtual.network.toml"), virtual_names).unwrap();
    let of_virtual = RULES.replace("can0", "vcan0").replace("can1", "vcan1");
    fs::write(car.join("virtual.rules.toml"), of_virtual).unwrap();
    campaign::parse("test.toml", experiment, folder.path(), &Options::default())
        .map_err(|error| error.to_string())
}

const PERIODIC: &str = "network = 'car/car.network.toml'\ngateway.delay = '35us'\n\
    traffic.kind = 'periodic'\ncount = 600\n";

#[test]
fn an_experiment_takes_buses_messages_and_rules_from_the_network() {
    let campaign = read(PERIODIC).unwrap();
    let experiment = &campaign.experiments[0];
    let names = |it: &candor_network::Node| (it.name.clone(), it.messages.len());
    assert_eq!(experiment.of::<CanGateway>().unwrap().network.buses.len(), 2);
    assert_eq!(
        experiment.of::<CanGateway>().unwrap().network.nodes.iter().map(names).collect::<Vec<_>>(),
        [("A".into(), 2)]
    );
    assert_eq!(
        experiment.of::<CanGateway>().unwrap().network.nodes[0].messages[0]
            .offset
            .unwrap()
            .as_nanos(),
        1_000_000
    );
    assert_eq!(experiment.of::<CanGateway>().unwrap().rules().unwrap().rules.len(), 1);
    let inputs: Vec<_> = experiment.inputs.iter().map(|input| input.path.as_str()).collect();
    assert_eq!(inputs, ["car/car.network.toml", "car/car.dbc", "car/car.rules.toml"]);

    // What is written out in the experiment gives the same.
    let written = "bus = { fast.bitrate = '500k', slow.bitrate = '125k' }\n\
        gateway = { delay = '35us', rules = 'car/car.rules.toml' }\ncount = 600\n\
        traffic = { kind = 'periodic', dbc = 'car/car.dbc', queue = 'fifo', nodes.fast = ['A'], \
        offsets.Speed = '1ms' }\n";
    let written = read(written).unwrap();
    let run = |campaign: &Campaign| run(Run::unwatched(&campaign.experiments[0])).unwrap();
    let (result, expected) = (run(&campaign), run(&written));
    let figures = |it: &candor_lab::result::ResultFile| {
        (it.duration_ns, it.counts, it.sections.rows(&BUSES).to_vec())
    };
    assert_eq!(figures(&result), figures(&expected));
    assert_eq!(result.counts.received, 400, "two of three frames are Speed");
}

#[test]
fn a_bus_is_never_busier_than_its_flows_say() {
    let campaign = read(&PERIODIC.replace("600", "3000")).unwrap();
    let experiment = &campaign.experiments[0];
    let loads = loads(
        &experiment.of::<CanGateway>().unwrap().network,
        &flows(&experiment.of::<CanGateway>().unwrap().network).unwrap(),
    );
    let result = run(Run::unwatched(experiment)).unwrap();
    for (percent, load) in result.sections.numbers(&BUSES, "load_percent").iter().zip(loads) {
        let (measured, most) = (percent / 100.0, load.longest_share);
        assert!(measured > 0.7 * most && measured <= most, "{measured} {most}");
    }
}

#[test]
fn what_an_experiment_says_itself_wins() {
    let more = "bus.slow.bitrate = '250k'\ntraffic.offsets.Speed = '2ms'\n";
    let campaign = read(&format!("{PERIODIC}{more}")).unwrap();
    let network = &campaign.experiments[0].of::<CanGateway>().unwrap().network;
    assert_eq!(network.buses[1].timing.nominal.bits_per_second(), 250_000);
    assert_eq!(network.nodes[0].messages[0].offset.unwrap().as_nanos(), 2_000_000);

    // Other traffic than periodic takes the buses only.
    let flood = "network = 'car/car.network.toml'\ntraffic.kind = 'flood'\n";
    let campaign = read(flood).unwrap();
    let experiment = &campaign.experiments[0];
    assert!(matches!(experiment.of::<CanGateway>().unwrap().traffic, Traffic::Numbered { .. }));
    assert_eq!(
        (
            experiment.of::<CanGateway>().unwrap().network.nodes.len(),
            experiment.of::<CanGateway>().unwrap().rules().is_none()
        ),
        (0, true)
    );
}

#[test]
fn mistakes_have_their_places() {
    let wrong = PERIODIC.replace("car.network", "wrong.network");
    let two = PERIODIC.replace("car.network", "two.network");
    let silent = PERIODIC.replace("car.network", "silent.network");
    for (text, place, message) in [
        ("network = 'car/car.network.toml'\n", "test.toml:1:1: ", "`traffic` is missing"),
        (
            "network = 'car/car.network.toml'\ntraffic.count = 1\n",
            "test.toml:2:1",
            "`kind` is missing",
        ),
        (
            &PERIODIC.replace("gateway.delay = '35us'", "gateway.tx_queue = 9"),
            "test.toml:2:1",
            "a gateway needs either",
        ),
        (
            &silent,
            "test.toml:3:1",
            "network file, name a DBC file with dbc, or list messages under [[message]]",
        ),
        (wrong.as_str(), "wrong.network.toml:2:7", "unknown bus `b`"),
        (&PERIODIC.replace("car.network", "absent"), "test.toml:1:11", "cannot be read"),
        (&two, "test.toml:2:1", "the network has 2 gateways"),
        ("network = 3\n", "test.toml:1:11", "`network` is an integer"),
        (
            &format!("{PERIODIC}[[experiment]]\nname = 'a'\nnetwork = 'b'\n"),
            "test.toml:7:1",
            "unknown key `network`",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(place) && error.contains(message), "{place} {message}\n{error}");
    }
}

#[test]
fn a_gateway_of_the_network_is_not_left_out_in_silence() {
    let without = PERIODIC.replace("gateway.delay = '35us'\n", "");
    let campaign = read(&without).unwrap();
    assert!(campaign.experiments[0].of::<CanGateway>().unwrap().rules().is_none());
    let warnings = campaign.warnings.to_string();
    let expected =
        "test.toml:1:11: warning: the network has a gateway, but the experiment has no [gateway]";
    assert!(warnings.contains(expected), "{warnings}");
    for text in [PERIODIC, &format!("{without}gateway.kind = 'none'\n")] {
        assert_eq!(read(text).unwrap().warnings.to_string(), "");
    }
    // Wherever the gateway is said, it has the rules of the network.
    let of_one = format!("{without}[[experiment]]\nname = 'a'\ngateway.delay = '35us'\n");
    let campaign = read(&of_one).unwrap();
    assert_eq!(campaign.experiments[0].of::<CanGateway>().unwrap().rules().unwrap().rules.len(), 1);
    assert!(
        campaign.experiments[0].of::<CanGateway>().unwrap().rules().unwrap().rules[0].filters.len()
            == 1
    );
}

#[test]
fn rules_of_an_experiment_replace_those_of_the_network() {
    let generated = "[[experiment]]\nname = 'few'\n[[experiment]]\nname = 'many'\n\
        gateway.generate.filters = 3\n";
    let campaign = read(&format!("{PERIODIC}{generated}")).unwrap();
    let rules: Vec<_> = campaign
        .experiments
        .iter()
        .map(|it| it.of::<CanGateway>().unwrap().rules().unwrap().rules.len())
        .collect();
    assert_eq!(rules[0], 1);
    assert!(rules[1] > 1, "{rules:?}");
}

#[test]
fn an_experiment_shows_the_warnings_of_its_network() {
    let campaign = read(&PERIODIC.replace("car.network", "long.network")).unwrap();
    let warnings = campaign.warnings.to_string();
    assert!(warnings.contains("to bus `slow` as CAN FD frames"), "{warnings}");
}

#[test]
fn messages_that_are_never_due_are_counted_with_none_sent() {
    let late = "traffic.offsets.Speed = '5000000h'\n";
    let campaign = read(&format!("{PERIODIC}{late}")).unwrap();
    let result = run(Run::unwatched(&campaign.experiments[0])).unwrap();
    let sent = ["Speed sent", "Torque sent"].map(|words| value(&result, words));
    assert_eq!(sent, [Some(0.0), Some(600.0)]);
}

#[test]
fn only_the_names_of_the_buses_count() {
    let campaign = read(&PERIODIC.replace("car.network", "virtual.network")).unwrap();
    let result = run(Run::unwatched(&campaign.experiments[0])).unwrap();
    assert_eq!(result.counts.received, 400, "two of three frames are Speed");
}

#[test]
fn no_rule_makes_a_bus_busier_than_its_flows_say() {
    let signal = "edit = [{ signal = { from = { bit = 0, bits = 8 }, into = { bit = 8, bits = 8, min = 50 } } }]";
    for (rules, is_busier) in [
        // Twice the same frame, and once with another length.
        (
            "[[rule]]\nfrom = 'fast'\nto = 'slow'\n[[rule]]\nfrom = 'fast'\nto = 'slow'\nmatch = '0x123'\n",
            true,
        ),
        (
            "[[rule]]\nfrom = 'fast'\nto = 'slow'\n[[rule]]\nfrom = 'fast'\nto = 'slow'\nset = { length = 8 }\n",
            true,
        ),
        // What some data let pass, and what none do.
        (&format!("[[rule]]\nfrom = 'fast'\nto = 'slow'\nmatch = '0x123'\n{signal}\n"), true),
        ("[[rule]]\nfrom = 'fast'\nto = 'slow'\nevery = 3\non_change = true\n", true),
        ("[[rule]]\nfrom = 'fast'\nto = 'slow'\nlength = '1-3'\n", false),
        // Onto the bus that they come from.
        (
            "[[rule]]\nfrom = 'fast'\nto = 'fast'\nallow_return = true\nset = { id = '0x7' }\n",
            false,
        ),
    ] {
        let rules = format!("bus = {{ fast = 'can0', slow = 'vcan1' }}\n{rules}");
        let campaign = read_with(PERIODIC, &rules).unwrap();
        let experiment = &campaign.experiments[0];
        let loads = loads(
            &experiment.of::<CanGateway>().unwrap().network,
            &flows(&experiment.of::<CanGateway>().unwrap().network).unwrap(),
        );
        let result = run(Run::unwatched(experiment)).unwrap();
        for (percent, load) in result.sections.numbers(&BUSES, "load_percent").iter().zip(loads) {
            assert!(percent / 100.0 <= load.longest_share, "{rules}: {percent} {load:?}");
        }
        assert_eq!(result.sections.numbers(&BUSES, "frames")[1] > 0.0, is_busier, "{rules}");
    }
}

//! What an experiment orders of a machine, and what a machine cannot host.

use std::fs;
use std::path::Path;

use candor_lab::Experiment;
use candor_lab::campaign::{self, Options};
use candor_lab::experiment::{KernelChoice, Run, Testbed};
use candor_lab::kinds::gateway::{CanGateway, World};
use candor_lab::result::machine;
use candor_lab::sections::MESSAGES;
use candor_lab::simulate;
use candor_protocol::Report;
use candor_protocol::order::{
    Controller, Driver, EthernetLoad, Gateway, Handler, Load, Measurement, Offer, Pace,
};
use candor_protocol::report::Stamp;
use candor_wire::can::frame::EFF_FLAG;
use candor_wire::can::{Frame, socketcan};

use crate::by_hand::{Lab, Noting, TWO, experiments, perfect, refused};

#[test]
fn settings_reach_the_order() {
    let lab = Lab::new(perfect);
    let text = "\
        testbed = 'vm'
        seeds = 1
        count = 50
        seed = 7
        bus.in = { bitrate = '500k', data_bitrate = '2M' }
        bus.out.bitrate = '250k'
        gateway.kind = 'live'
        gateway.priority = 80
        gateway.tx_queue = 50
        gateway.port = 'packet:{interface}?gather=2ms'
        gateway.generate = { hops = 2, virtual_buses = 2 }
        load = { kind = 'both', groups = 3, ping_bytes = 1000 }
        traffic = { kind = 'half', id = '0x100', length = 2 }
        [vm]
        mips = 125
        parameters = 'threadirqs'
        interrupt_priority = 60
        napi_thread_priority = 0
        backlog_priority = 90
        netdev_budget = 64
        kernel = '6.1-rt'
        ";
    lab.run(text);
    let orders = lab.log.orders.lock().unwrap();
    let order = &orders[0];
    assert_eq!((order.controller, order.seed), (Controller::CtuCanFd, 7));
    assert_eq!((order.source.bitrate, order.source.data_bitrate), (500_000, Some(2_000_000)));
    assert_eq!((order.target.bitrate, order.target.data_bitrate), (250_000, None));
    let port = Some("packet:{interface}?gather=2ms".to_owned());
    assert_eq!(order.gateway, Gateway::Live { measures: false, port });
    assert_eq!(order.traffic.pace, Pace::Paced { period_percent: 200, gap_ns: 0 });
    assert_eq!((order.traffic.count, order.traffic.length), (50, 2));
    assert_eq!(
        order.load,
        Load { hackbench_groups: Some(3), ethernet: Some(EthernetLoad::ping(1_000)) }
    );
    let settings = &order.settings;
    assert_eq!((settings.gateway_priority, settings.tx_queue), (80, 50));
    assert_eq!((settings.receive_buffer, settings.netdev_budget), (None, Some(64)));
    assert_eq!(settings.backlog_priority, Some(90));
    let priorities = (settings.interrupt_priority, settings.napi_thread_priority);
    assert_eq!(priorities, (Some(60), Some(0)));
    let interfaces: Vec<_> = order.rules.buses.iter().map(|bus| bus.port.as_str()).collect();
    assert_eq!(interfaces, ["can2", "can3", "vcan0", "vcan1"]);
    assert_eq!(
        *lab.log.boots.lock().unwrap(),
        ["Linux 6.1-rt, 125 MIPS, threadirqs, tester inside, boot 2"]
    );
}

#[test]
fn errors_are_for_buses_that_take_their_time() {
    for (tester, expected) in [("inside", (0.0, None)), ("outside", (1e-4, Some(2_500_000)))] {
        let lab = Lab::new(perfect);
        let errors = "bus.in.bit_error_rate = 1e-4\nbus.in.restart = '2500us'";
        lab.run(&format!("{TWO}{errors}\nvm.tester = '{tester}'"));
        let orders = lab.log.orders.lock().unwrap();
        let [source, target] = orders[0].faults;
        assert_eq!((source.bit_error_rate, source.restart_ns), expected, "{tester}");
        assert_eq!((target.bit_error_rate, target.restart_ns), (0.0, None));
    }
}

#[test]
fn an_experiment_of_the_simulation_runs_here_too() {
    let text = "
        count = 20
        seeds = 1
        instrument = 'tester'
        bus.in = { bitrate = '1M', bit_error_rate = 0.001, restart = '10ms' }
        bus.out.bitrate = '1M'
        gateway = { profile = 'mpc5200-2.6.33', kind = 'user', receive_buffer = 4096 }
        load.kind = 'cpu'
        traffic.kind = 'flood'
        [matrix]
        testbed = ['sim', 'vm']
        ";
    let lab = Lab::new(perfect);
    let results = lab.run(text).results();
    let worlds: Vec<_> = results
        .iter()
        .map(|result| {
            (result.experiment.as_str(), result.testbed.as_str(), machine(result).is_some())
        })
        .collect();
    assert_eq!(worlds, [("sim", "sim", false), ("vm", "vm", true)]);
    let order = &lab.log.orders.lock().unwrap()[0];
    assert_eq!(order.gateway, Gateway::ReadWrite);
    assert_eq!(order.settings.receive_buffer, Some(4_096));
    assert_eq!(order.load.hackbench_groups, Some(2));
}

/// Tests run in the folder of their crate.
const SOURCES: &str = "../../kernel/candor_can";

#[test]
fn the_driver_comes_with_the_order_for_the_kernel_of_the_machine() {
    let lab = Lab::new(perfect);
    let text = format!(
        "{}vm = {{ driver = 'candor_can', handler = 'thread', driver_sources = '{SOURCES}', tester = 'outside', kernel = '6.1' }}",
        TWO.replace("'kernel'", "'user'").replace("'500k'", "'1M'")
    );
    lab.run(&text);
    let order = &lab.log.orders.lock().unwrap()[0];
    assert_eq!(order.driver, Driver::CandorCan(Handler::Thread));
    let [file] = &order.files[..] else { panic!("{:?}", order.files) };
    assert_eq!((file.path.as_str(), &file.contents[..]), ("/candor_can.ko", &b"for 6.1"[..]));
}

/// Periodic traffic with these lines, and a message of each of these nodes.
fn periodic(lines: &str, nodes: &str) -> String {
    let message = |(id, node): (u32, char)| {
        format!("[[traffic.message]]\nid = '{id:#x}'\nnode = '{node}'\nperiod = '1ms'\n")
    };
    let messages: String = (1..).zip(nodes.chars()).map(message).collect();
    TWO.replace("'one-at-a-time'", "'periodic'") + lines + &messages
}

/// All offers pass, 280 us later.
fn passed_on(measurement: &Measurement) -> Report {
    let offers = || (0_u16..).zip(&measurement.offers);
    let stamps = |after_ns: u64| {
        let stamp = |(number, it): (u16, &Offer)| Stamp { number, time_ns: it.at_ns + after_ns };
        offers().map(stamp).collect::<Vec<_>>()
    };
    let encoded = |(_, it): (u16, &Offer)| {
        let frame = Frame::from_parts(it.can_id, &it.data, None).unwrap();
        let length = socketcan::HEADER_LEN + frame.len();
        socketcan::encode(&frame, socketcan::IdOrder::LittleEndian).0[..length].to_vec()
    };
    Report {
        frames: offers().map(encoded).collect(),
        sent: stamps(0),
        monitored: stamps(120_000),
        received: stamps(400_000),
        ..perfect(measurement)
    }
}

/// What can have no number stays away and is told.
#[test]
fn a_recording_is_offered_at_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("drive.log");
    let lines = "(5.000000) can0 123#AABBCCDD\n(5.000500) can1 123#AABB\n(5.001000) can0 456#R\n\
                 (5.002000) can0 456#11\n(5.003000) can0 12345678#0102030405060708\n";
    fs::write(&log, lines).unwrap();
    let text = TWO.replace("count = 100\n", "").replace("'one-at-a-time'", "'replay'")
        + &format!("traffic.log = {log:?}\ntraffic.interface = 'can0'\ntraffic.speed = 2.0\n");
    let lab = Lab::new(passed_on);
    let (result, _) = lab.one(&text);
    let counts = result.counts;
    assert_eq!((counts.sent, counts.received, counts.lost), (2, 2, 0));
    let expected = "2 frames of the traffic were not sent: the number of a frame takes two bytes of classical data";
    assert_eq!(result.notes, [expected]);
    let orders = lab.log.orders.lock().unwrap();
    let offers: Vec<_> =
        orders[0].offers.iter().map(|it| (it.sender, it.at_ns, it.can_id, &it.data[..])).collect();
    let long = [0, 1, 3, 4, 5, 6, 7, 8];
    let expected =
        [(0, 0, 0x123, &[0, 0, 0xCC, 0xDD][..]), (0, 1_500_000, 0x1234_5678 | EFF_FLAG, &long)];
    assert_eq!(offers, expected);
}

/// A guest meets the frames of the simulation at their instants, with numbers.
#[test]
fn periodic_frames_are_those_of_the_simulation() {
    let lines = "seed = 5\ntraffic.queue = 'fifo'\ntraffic.nodes.in = ['A', 'B', 'C']\n";
    let text = periodic(lines, "AABCCC");
    let lab = Lab::new(passed_on);
    let (result, in_guest) = lab.one(&text);
    let counts = result.counts;
    assert_eq!((counts.sent, counts.received, counts.lost), (100, 100, 0));
    // No frame is another one than the rules make of it, and each belongs to its message.
    assert_eq!(result.notes, [""; 0]);
    assert_eq!(result.sections.numbers(&MESSAGES, "sent").iter().sum::<f64>(), 100.0);
    let orders = lab.log.orders.lock().unwrap();
    let offers = &orders[0].offers;
    assert_eq!(orders[0].traffic.pace, Pace::Offered { lasts_ns: offers[99].at_ns });
    assert_eq!(offers[77].data[..2], [0, 77]);
    let text = text.replace("testbed = 'vm'", "testbed = 'sim'");
    let text = text.replace("gateway.kind = 'kernel'", "gateway.delay = '0s'");
    let campaign = campaign::parse("t.toml", &text, Path::new("."), &Options::default()).unwrap();
    let mut lines = Vec::new();
    simulate::run(Run { lines: Some(&mut lines), ..Run::unwatched(&campaign.experiments[0]) })
        .unwrap();
    let lines = String::from_utf8(lines).unwrap();
    // Number, instant and identifier of each frame.
    let of = |lines: &mut dyn Iterator<Item = &str>| {
        let header: Vec<_> = lines.next().unwrap().split(',').collect();
        let column = |name: &str| header.iter().position(|it| *it == name).unwrap();
        let columns = [column("number"), column("queued_ns"), column("sent")];
        let mut rows: Vec<_> = lines
            .map(|line| {
                let cells: Vec<_> = line.split(',').collect();
                let [number, queued, sent] = columns.map(|at| cells[at]);
                let number: u64 = number.parse().unwrap();
                (number, queued.to_owned(), sent.split('#').next().unwrap().to_owned())
            })
            .collect();
        rows.sort();
        rows
    };
    let simulated = of(&mut lines.lines());
    assert_eq!(simulated.len(), 100);
    assert_eq!(simulated, of(&mut in_guest.iter().map(String::as_str)));
}

#[test]
fn what_a_machine_cannot_host_is_reported_with_place_and_remedy() {
    let chain = "gateway.generate = { hops = 6 }";
    for (text, parts) in [
        (
            format!("{TWO}gateway.delay = '35us'"),
            &["t.toml:8:17: error: a gateway of constant delay", "gateway.kind"][..],
        ),
        (
            format!("{TWO}gateway.egress = 'priority'"),
            &["t.toml:8:18: error: the queues", "--testbed sim"],
        ),
        (format!("{TWO}bus.third.bitrate = '1M'"), &["needs two buses", "hint: "]),
        (TWO.replace("one-at-a-time", "replay"), &["`log` is missing"]),
        (
            TWO.replace("'one-at-a-time'", "'periodic'")
                + "traffic.nodes.in = ['A']\nvm.tester = 'inside'\n[[traffic.message]]\nid = '0x1'\nnode = 'A'\nperiod = '1ms'",
            &["a tester inside sends numbered frames only", "remove what puts the tester inside"],
        ),
        (
            periodic(
                "traffic.nodes.in = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I']\n",
                "ABCDEFGHI",
            ),
            &["t.toml:7:16: error: there are 9 nodes, but 8 can be", "traffic.nodes"],
        ),
        (
            periodic("traffic.nodes = { in = ['A'], out = ['B'] }\n", "AB"),
            &["node `B` is not on the first bus", "--testbed sim"],
        ),
        (
            periodic("traffic.nodes.in = ['A']\n", "AA"),
            &["node `A` sends the most urgent message first", "queue = \"fifo\""],
        ),
        (
            periodic("traffic.nodes.in = ['A']\n", "A") + "length = 1\n",
            &["has no room for the number of a frame", "length of 2"],
        ),
        (
            periodic("traffic.nodes.in = ['A']\n", "A") + "fill = 'worst-case'\n",
            &["a real frame has the stuff bits of its bits"],
        ),
        (
            periodic("traffic.nodes.in = ['A']\n", "A").replace("'kernel'", "'reader'"),
            &["a reader is measured with one sender", "open-loop"],
        ),
        (TWO.replace("= 100", "= 300_000"), &["t.toml:3:9: error: `count` is more than 200000"]),
        (format!("{TWO}{chain}"), &["would pass can-gw 7 times", "kind = \"live\""]),
        (
            format!("{}gateway.generate.filters = 1", TWO.replace("'kernel'", "'user'")),
            &["ignores rules", "kind = \"live\""],
        ),
        (TWO.replace("'kernel'", "'command'"), &["needs a `command`", "{in}"]),
        (
            format!("{}gateway.command = './absent'", TWO.replace("'kernel'", "'command'")),
            &["absent"],
        ),
        (format!("{TWO}vm.kernel = 6.12"), &["`kernel` is a number", "--kernel 6.12"]),
        (format!("{TWO}vm.kernel = 'linux'"), &["t.toml:8:13: error: `kernel` is \"linux\""]),
        (format!("{TWO}vm.kernel.image = 'bzImage'"), &["`modules` is missing"]),
        (format!("{TWO}vm.mips = 400"), &["400 MIPS is not possible"]),
        (format!("{TWO}vm.kernl = '6.12'"), &["unknown key `kernl`", "did you mean `kernel`?"]),
        (
            format!("{TWO}vm.controller = 'sja1000'\nbus.in.data_bitrate = '2M'"),
            &["the SJA1000 does not support it", "ctucanfd"],
        ),
        (
            format!("{TWO}vm.tester = 'outside'\nbus.in.data_bitrate = '2M'"),
            &["t.toml:8:13: error: a tester outside", "use tester = \"inside\""],
        ),
        (
            format!("{TWO}vm.tester = 'outside'\nvm.controller = 'ctucanfd'"),
            &["a tester outside has SJA1000 controllers only"],
        ),
        (
            format!("{TWO}load = {{ kind = 'ethernet', datagrams = 'udp' }}\nvm.tester = 'inside'"),
            &[
                "t.toml:8:41: error: this is for a station outside",
                "remove it, or what puts the tester inside: vm.tester",
            ],
        ),
        (
            format!("{TWO}load = {{ kind = 'ethernet', link = '100M' }}\nvm.tester = 'inside'"),
            &["this is for a station outside of the guest"],
        ),
        (
            format!("{TWO}gateway.tx_queue = 32768"),
            &["a queue of 32767 frames at most", "a shorter one"],
        ),
        (
            format!("{TWO}load = {{ kind = 'ethernet', period = '2ms' }}"),
            &["a flood ping has no period", "datagrams = \"echo\""],
        ),
        (format!("{TWO}load = {{ kind = 'ethernet', link = '2G' }}"), &["`link` is \"2G\"", "1G"]),
        (
            format!(
                "{TWO}vm.driver_sources = '{SOURCES}'\nvm.driver = 'candor_can'\nvm.tester = 'inside'"
            ),
            &[
                "t.toml:9:13: error: the tester inside uses",
                "remove what puts the tester inside: vm.tester = \"inside\"",
            ],
        ),
        (
            format!("{TWO}vm = {{ driver = 'candor_can', driver_sources = '{SOURCES}' }}"),
            &[
                "only the read/write loop, the gateway in the interrupt handler and the reader use",
                "gateway.kind = \"user\", \"candor_can\" or \"reader\"",
            ],
        ),
        (
            format!("{TWO}vm.driver = 'candor_can'\nvm.driver_sources = 'crates'"),
            &["t.toml:9:21: error: crates cannot be read", "driver_sources"],
        ),
        (
            format!("{TWO}vm.driver = 'candor_can'\nvm.driver_sources = '{SOURCES}'"),
            &["same bit rate", "give both buses the same bitrate"],
        ),
        (
            format!("{}vm.tester = 'inside'", TWO.replace("'kernel'", "'reader'")),
            &[
                "t.toml:6:16: error: a reader is measured against the bus",
                "remove what puts the tester inside: vm.tester = \"inside\"",
            ],
        ),
        (
            format!("{}gateway.generate = {{ filters = 1 }}", TWO.replace("'kernel'", "'reader'")),
            &["a reader passes nothing on", "remove `rules` and `generate`"],
        ),
        (
            TWO.replace("'vm'", "'sim'").replace("'kernel'", "'reader'"),
            &["the simulation has no gateway of kind `reader`", "--testbed vm"],
        ),
        (format!("{TWO}vm.handler = 'thread'"), &["are those of candor_can", "remove them"]),
        (format!("{TWO}vm.tester = 'there'"), &["`tester` is \"there\"", "outside"]),
        (format!("{TWO}gateway.priority = 100"), &["`priority` is 100"]),
        (
            format!("{}gateway.port = 'packet:can0'", TWO.replace("'kernel'", "'live'")),
            &["t.toml:8:16: error: `port` is", "{interface}?gather=1ms"],
        ),
        (
            format!("{TWO}gateway.port = 'packet:{{interface}}'"),
            &["t.toml:8:16: error: only the live gateway", "kind = \"live\""],
        ),
        (
            format!(
                "{}gateway.port = '{{interface}}'\ngateway.receive_buffer = 1",
                TWO.replace("'kernel'", "'live'")
            ),
            &["t.toml:9:26: error: `receive_buffer`", "{interface}?buffer=4096"],
        ),
        (format!("{TWO}gateway.files = [{{ from = 'a' }}]"), &["`to` is missing"]),
        (
            format!(
                "{}gateway.delay = '1us'",
                TWO.replace("'vm'", "'sim'").replace("'kernel'", "'live'")
            ),
            &["the simulation has no gateway of kind", "--testbed vm"],
        ),
    ] {
        let error = refused(&text);
        for part in parts {
            assert!(error.contains(part), "{part} is missing in\n{error}");
        }
    }
}

#[test]
fn rules_that_change_the_number_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    for (rule, is_fine) in [
        ("set = { data = '0000000000000000' }", false),
        ("or = { data = '0000FF0000000000' }", true),
        ("xor = { data = '0100000000000000' }", false),
        ("or = { id = '0x1' }\nxor_checksum = { from = 0, to = 6, into = 7 }", true),
        ("set = { length = 1 }", false),
    ] {
        let rules = format!(
            "bus = {{ in = 'x0', out = 'x1' }}\n[[rule]]\nname = 'r'\nfrom = 'in'\nto = 'out'\n{rule}\n"
        );
        fs::write(&file, rules).unwrap();
        let text = format!("{TWO}gateway.rules = '{}'\n", file.display());
        let read = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
        match (is_fine, read) {
            (true, Ok(_)) => {}
            (false, Err(error)) => {
                let error = error.to_string();
                assert!(
                    error.contains("rule `r` changes the first two data bytes"),
                    "{rule}\n{error}"
                );
            }
            (_, read) => {
                panic!("{rule}: {:?}", read.map(|_| ()).map_err(|error| error.to_string()))
            }
        }
    }
}

#[test]
fn a_tester_outside_waits_over_the_longest_period_of_the_system() {
    let udp = |period| format!("load = {{ kind = 'ethernet', datagrams = 'udp'{period} }}\n");
    let open_loop = TWO.replace("'one-at-a-time'", "'open-loop'");
    let inside = "vm.tester = 'inside'\n".to_owned();
    for (text, expected) in [
        (TWO.to_owned(), (100_000, 5_000_000)),
        (TWO.to_owned() + &udp(", period = '3ms'"), (100_000, 5_000_000)),
        (TWO.to_owned() + &udp(", period = '40ms'"), (100_000, 40_100_000)),
        (TWO.to_owned() + &udp(""), (100_000, 5_000_000)),
        (format!("{TWO}traffic.turnaround_shortest = '10us'\n"), (10_000, 5_000_000)),
        (open_loop.clone(), (100_000, 5_000_000)),
        (open_loop + &inside, (100_000, 5_000_000)),
    ] {
        let lab = Lab::new(perfect);
        lab.run(&text);
        let orders = lab.log.orders.lock().unwrap();
        let (Pace::OneAtATime { shortest_ns, longest_ns, .. }
        | Pace::OpenLoop { shortest_ns, longest_ns }) = orders[0].traffic.pace
        else {
            panic!("{text}")
        };
        assert_eq!((shortest_ns, longest_ns), expected, "{text}");
    }
}

#[test]
fn a_gap_is_that_of_a_flood() {
    for (kind, expected) in [
        ("flood", Pace::Paced { period_percent: 100, gap_ns: 8_000 }),
        ("half", Pace::Paced { period_percent: 200, gap_ns: 0 }),
    ] {
        let lab = Lab::new(perfect);
        lab.run(&format!("{}traffic.gap = '8us'\n", TWO.replace("one-at-a-time", kind)));
        assert_eq!(lab.log.orders.lock().unwrap()[0].traffic.pace, expected, "{kind}");
    }
}

#[test]
fn the_command_line_chooses_world_and_machine() {
    let text = "
        bus.in.bitrate = '1M'
        bus.out.bitrate = '1M'
        traffic.kind = 'flood'
        gateway.profile = 'mpc5200-2.6.33'
        vm.kernel = { image = 'a', modules = 'b' }
        [[experiment]]
        name = 'a'
        [[experiment]]
        name = 'b'
        testbed = 'vm'
        ";
    let kernels = |options: &Options| -> Vec<String> {
        let campaign = campaign::parse("t.toml", text, Path::new("."), options).unwrap();
        let kernel = |experiment: &Experiment| match &experiment.of::<CanGateway>().unwrap().world {
            World::Vm(vm) => vm.machine.to_string(),
            World::Sim(_) => {
                assert!(!experiment.config.contains("6.1"), "{}", experiment.config);
                "sim".into()
            }
        };
        campaign.experiments.iter().map(kernel).collect()
    };
    let boots = |machine: &str| -> Vec<String> {
        let others = (2..=5).map(|boot| format!("{machine}, boot {boot}"));
        std::iter::once(machine.to_owned()).chain(others).collect()
    };
    let with_sim = |machine: &str| [vec!["sim".into()], boots(machine)].concat();
    assert_eq!(kernels(&Options::default()), with_sim("Linux a, 500 MIPS"));
    let named = KernelChoice::Named("6.1".into());
    let options = Options { kernels: vec![named], mips: Some(1_000), ..Options::default() };
    assert_eq!(kernels(&options), with_sim("Linux 6.1, 1000 MIPS"));
    let own = KernelChoice::Files { image: "b z".into(), modules: "m".into() };
    let options = Options { kernels: vec![own], testbed: Some(Testbed::Vm), ..Options::default() };
    assert_eq!(
        kernels(&options),
        [boots("Linux b z, 500 MIPS"), boots("Linux b z, 500 MIPS")].concat()
    );
}

#[test]
fn kernels_on_the_command_line_take_the_place_of_those_of_a_matrix() {
    let machines = "testbed = 'vm'\nseeds = 1\ntraffic.kind = 'flood'\ngateway.kind = 'kernel'\nbus.in.bitrate = '1M'\n\
                    bus.out.bitrate = '1M'\n";
    let matrix = "[matrix]\nvm.kernel = ['6.1', '6.1-rt', '7.2']\n[[experiment]]\nname = 'a'\n";
    let claim = "[[claim]]\nid = '1'\nsays = 's'\npublished = 'p'\neach = ['6.1', '6.1-rt', '7.2']\n\
                 value = 'a-{each} gateway_latency min'\nat_most = 1\n\
                 [[figure]]\ntitle = 'f'\nonly = ['a-7.2']\n";
    let one = "[[experiment]]\nname = 'a'\n";
    let release = "debian:6.12.90+deb13-amd64";
    let own = KernelChoice::Files { image: "x/bz.1".into(), modules: "m".into() };
    let options = Options { kernels: vec![own], ..Options::default() };
    let text = format!("{machines}{matrix}{claim}");
    let campaign = campaign::parse("t.toml", &text, Path::new(""), &options).unwrap();
    assert_eq!(campaign.experiments[0].name, "a-bz.1");
    assert_eq!((campaign.experiments.len(), campaign.claims.len()), (1, 1));
    for (text, kernels, names, claims) in [
        (format!("{machines}{matrix}{claim}"), &[][..], &["a-6.1", "a-6.1-rt", "a-7.2"][..], 3),
        (format!("{machines}{matrix}{claim}"), &[release], &["a-debian-6.12.90-deb13-amd64"], 1),
        (
            format!("{machines}{matrix}{claim}"),
            &["5.1", "5.2", "5.3"],
            &["a-5.1", "a-5.2", "a-5.3"],
            3,
        ),
        (format!("{machines}{one}"), &["5.1"], &["a"], 0),
        (format!("{machines}{one}"), &["5.1", "6.1"], &["a-5.1", "a-6.1"], 0),
    ] {
        let named = |name: &&str| KernelChoice::Named((*name).into());
        let options =
            Options { kernels: kernels.iter().map(named).collect(), ..Options::default() };
        let campaign = campaign::parse("t.toml", &text, Path::new(""), &options).unwrap();
        let found: Vec<_> = campaign.experiments.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((&found[..], campaign.claims.len()), (names, claims), "{kernels:?}");
        for (kernel, it) in kernels.iter().zip(&campaign.experiments) {
            let expected = format!("kernel = \"{kernel}\"");
            assert!(it.config.contains(&expected), "{}", it.config);
        }
    }
}

#[test]
fn a_claim_about_some_kernels_stays_with_those() {
    let text = "testbed = 'vm'\nseeds = 1\ntraffic.kind = 'flood'\ngateway.kind = 'kernel'\nbus.in.bitrate = '1M'\n\
                bus.out.bitrate = '1M'\nname = 'a'\nmatrix.vm.kernel = ['6.1', '6.1-rt', '7.2']\n";
    let claim = |each: &str, value: &str| {
        format!(
            "[[claim]]\nid = '1'\nsays = 's'\n{each}value = '{value} gateway_latency min'\nat_most = 1\n"
        )
    };
    let claims = [
        claim("each = ['6.1', '6.1-rt', '7.2']\n", "a-{each}"),
        claim("each = ['6.1', '7.2']\n", "a-{each}"),
        claim("", "a-6.1-rt"),
    ];
    let text = format!("{text}{}", claims.concat());
    for (kernels, expected) in [
        (&[][..], &["6.1", "6.1-rt", "7.2", "6.1", "7.2", "-"][..]),
        // Those of the file in another order: nothing else is asked.
        (&["7.2", "6.1", "6.1-rt"], &["7.2", "6.1", "6.1-rt", "7.2", "6.1", "-"]),
        (&["6.1-rt"], &["6.1-rt", "-"]),
        (&["6.12"], &["6.12"]),
    ] {
        let named = |name: &&str| KernelChoice::Named((*name).into());
        let options =
            Options { kernels: kernels.iter().map(named).collect(), ..Options::default() };
        let campaign = campaign::parse("t.toml", &text, Path::new(""), &options).unwrap();
        let about: Vec<_> =
            campaign.claims.iter().map(|it| it.each.as_deref().unwrap_or("-")).collect();
        assert_eq!(about, expected, "{kernels:?}");
    }
}

#[test]
fn an_alternative_stays_what_it_is_called() {
    let text = "testbed = 'vm'\nseeds = 1\ntraffic.kind = 'flood'\ngateway.kind = 'kernel'\nbus.in.bitrate = '1M'\n\
                bus.out.bitrate = '1M'\nname = 'a'\nvm.kernel = '6.1'\n\
                [[alternative]]\nname = 'slow'\nvm.mips = 125\n\
                [[alternative]]\nname = 'new'\nvm.kernel = '7.2'\n\
                [[alternative]]\nname = 'inside'\nvm.tester = 'inside'\n";
    let kernels = vec![KernelChoice::Named("6.12".into())];
    let set = vec!["vm.tester=\"outside\"".to_owned()];
    let has_alternatives = true;
    let options = Options { kernels, set, mips: Some(500), has_alternatives, ..Options::default() };
    let campaign = campaign::parse("t.toml", text, Path::new(""), &options).unwrap();
    let told = |it: &Experiment| {
        let has = |text: &str| it.config.contains(text);
        (has("mips = 125"), has("kernel = \"7.2\""), has("tester = \"inside\""))
    };
    let told: Vec<_> = campaign.experiments.iter().map(told).collect();
    let (none, all) = ((false, false, false), campaign.experiments.len());
    assert_eq!(
        told,
        [none, (true, false, false), (false, true, false), (false, false, true)],
        "{all}"
    );
}

#[test]
fn figures_are_about_the_experiments_of_the_file() {
    let text = "testbed = 'vm'\nseeds = 1\ngateway.kind = 'kernel'\nbus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\n\
                traffic.kind = 'flood'\nvm.kernel = '6.1'\n\
                [matrix]\n'traffic.length' = [2, 8]\n[[experiment]]\nname = 'one'\n\
                [[alternative]]\nname = 'slow'\nvm.mips = 125\n\
                [[figure]]\ntitle = 'all'\nonly = ['*']\n\
                [[figure]]\ntitle = 'eight'\nonly = ['*-8*']\n\
                [[figure]]\ntitle = 'slow'\nonly = ['slow.*-2', 'one-2']\n";
    let shown = |kernels: &[&str], has_alternatives| -> Vec<Vec<String>> {
        let named = |name: &&str| KernelChoice::Named((*name).into());
        let kernels = kernels.iter().map(named).collect();
        let options = Options { kernels, has_alternatives, ..Options::default() };
        let campaign = campaign::parse("t.toml", text, Path::new(""), &options).unwrap();
        campaign.figures.into_iter().map(|figure| figure.only).collect()
    };
    assert_eq!(shown(&[], false), [&["one-2", "one-8"][..], &["one-8"], &["one-2"]]);
    assert_eq!(shown(&[], true), [&["one-2", "one-8"][..], &["one-8"], &["one-2", "slow.one-2"]]);
    assert_eq!(
        shown(&["6.12", "7.2"], false),
        [&["one-2-6.12", "one-2-7.2", "one-8-6.12", "one-8-7.2"][..], &["one-8-6.12", "one-8-7.2"]]
    );
}

#[test]
fn a_kernel_on_the_command_line_is_where_a_shell_would_find_it() {
    use KernelChoice::Files;

    let folder = tempfile::tempdir().unwrap();
    let beside = |name: &str| folder.path().join(name);
    std::fs::write(beside("bzImage"), "").unwrap();
    std::fs::create_dir(beside("mods")).unwrap();
    let text = "
        testbed = 'vm'
        seeds = 1
        bus.in.bitrate = '1M'
        bus.out.bitrate = '1M'
        traffic.kind = 'flood'
        gateway.kind = 'kernel'
        vm.kernel = { image = 'bzImage', modules = 'gone' }
    ";
    let files = |options: &Options| {
        let campaign = campaign::parse("t.toml", text, folder.path(), options).unwrap();
        match &campaign.experiments[0].of::<CanGateway>().unwrap().world {
            World::Vm(vm) => vm.machine.kernel.clone(),
            World::Sim(_) => panic!("it is for vm"),
        }
    };
    let in_file = Files { image: beside("bzImage"), modules: "gone".into() };
    assert_eq!(files(&Options::default()), in_file);
    let typed = Files { image: "bzImage".into(), modules: "mods".into() };
    assert_eq!(files(&Options { kernels: vec![typed.clone()], ..Options::default() }), typed);
}

#[test]
fn rules_that_nobody_wrote_take_the_frames_that_are_sent() {
    let gates = |rest: &str| {
        let text = format!(
            "testbed = 'vm'\nseeds = 1\nbus.in = {{ bitrate = '1M', fd = true }}\nbus.out.bitrate = '1M'\n\
             [traffic]\nkind = 'flood'\n{rest}"
        );
        let campaign =
            campaign::parse("t.toml", &text, Path::new("."), &Options::default()).unwrap();
        let rules = campaign.experiments[0].of::<CanGateway>().unwrap().rules().unwrap();
        rules.rules.iter().map(|rule| format!("{:?}", rule.gate)).collect::<Vec<_>>()
    };
    let generated = "[gateway]\ngenerate = { filters = 2, modify = 'set' }";
    for (rest, expected) in [
        ("[gateway]", &["Classical"][..]),
        ("length = 64\n[gateway]", &["Fd"]),
        ("length = 8\nfd = true\n[gateway]", &["Fd"]),
        (&format!("length = 8\n{generated}"), &["Classical"; 2]),
        (&format!("length = 64\n{generated}"), &["Fd"; 2]),
        ("length = 64\n[gateway]\ngenerate.hops = 2", &["Fd"; 3]),
    ] {
        assert_eq!(gates(rest), expected, "{rest}");
    }
}

#[test]
fn commands_come_with_their_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("my.conf"), "x = 1\n").unwrap();
    fs::write(folder.path().join("other.conf"), "y = 1\n").unwrap();
    let program = std::env::current_exe().unwrap();
    let text = format!(
        "{}gateway.command = ['{}', '{{in}}', '--out', '{{out}}']\n\
         gateway.files = ['my.conf', {{ from = 'other.conf', to = '/etc/other.conf' }}]\n",
        TWO.replace("'kernel'", "'command'"),
        program.display()
    );
    let experiments = experiments(&text, folder.path());
    let lab = Lab::new(perfect);
    lab.try_run(&experiments, &Noting::default()).unwrap();
    let order = &lab.log.orders.lock().unwrap()[0];
    let Gateway::Command(argv) = &order.gateway else { panic!("{:?}", order.gateway) };
    assert_eq!(argv[1..], ["{in}", "--out", "{out}"]);
    let file = |path: &str| order.files.iter().find(|file| file.path == path).unwrap();
    assert!(file(&argv[0]).is_executable);
    assert_eq!(file("/my.conf").contents, b"x = 1\n");
    assert_eq!(file("/etc/other.conf").contents, b"y = 1\n");
    let inputs: Vec<_> = experiments[0].inputs.iter().map(|input| input.path.as_str()).collect();
    assert_eq!(inputs[1..], ["my.conf", "other.conf"]);
}

#[test]
fn a_python_script_comes_with_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gateway.py"), "#!/usr/bin/env python3\nimport socket\n").unwrap();
    let text = |script: &str| {
        let command = format!("gateway.command = ['./{script}', '{{in}}']\n");
        format!("{}{command}", TWO.replace("'kernel'", "'command'"))
    };
    let experiments = experiments(&text("gateway.py"), folder.path());
    let lab = Lab::new(perfect);
    lab.try_run(&experiments, &Noting::default()).unwrap();
    let order = &lab.log.orders.lock().unwrap()[0];
    let Gateway::Command(argv) = &order.gateway else { panic!("{:?}", order.gateway) };
    assert_eq!(argv[1..], ["/gateway.py", "{in}"]);
    let has = |path: &str| order.files.iter().any(|file| file.path.ends_with(path));
    assert!([&*argv[0], "/gateway.py", "/socket.py"].into_iter().all(has), "{argv:?}");
    assert_eq!(experiments[0].inputs[0].path, "./gateway.py");
    fs::write(folder.path().join("gone.py"), "#!/usr/bin/env python3\nimport no_such\n").unwrap();
    let options = Options::default();
    let error = campaign::parse("two.toml", &text("gone.py"), folder.path(), &options).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("needs `no_such`") && error.contains("two.toml:"), "{error}");
}

#[test]
fn extended_identifiers_reach_the_rules() {
    let lab = Lab::new(perfect);
    let text = format!(
        "{TWO}traffic.id = '0x12345678x'\n\
         gateway.generate = {{ filters = 3, filter_kind = 'extended' }}\n"
    );
    lab.run(&text);
    let order = &lab.log.orders.lock().unwrap()[0];
    assert_eq!(order.traffic.can_ids, [0x1234_5678 | EFF_FLAG]);
    assert_eq!(order.rules.rules.len(), 3);
}

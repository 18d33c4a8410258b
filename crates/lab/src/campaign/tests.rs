//! Campaigns as files and command lines say them, and everything that is wrong with them.

use candor_protocol::order::{Gateway, Tester};

use super::*;
use crate::experiment::Testbed;
use crate::kinds::Ping;
use crate::kinds::gateway::CanGateway;

const SIMPLE: &str = r#"
        title = "test"
        count = 100
        [bus.in]
        bitrate = "1M"
        [bus.out]
        bitrate = "500k"
        [gateway]
        delay = "35us"
        [traffic]
        kind = "flood"
    "#;

fn names(text: &str, options: &Options) -> Result<Vec<String>, Error> {
    let campaign = parse("test.toml", text, Path::new("."), options)?;
    Ok(campaign.experiments.into_iter().map(|experiment| experiment.name).collect())
}

#[test]
fn lists_multiply_into_a_matrix() {
    let text = format!(
        "{SIMPLE}
            [matrix]
            \"traffic.kind\" = [\"flood\", \"half\"]
            traffic.length = [2, 8]
            [[experiment]]
            name = \"a\"
            [[experiment]]
            name = \"b\"
            matrix.seed = [7, 8]"
    );
    let all = names(&text, &Options::default()).unwrap();
    assert_eq!(all[..5], ["a-flood-2", "a-flood-8", "a-half-2", "a-half-8", "b-7-flood-2"]);
    assert_eq!(all.len(), 4 + 8);
    let only = Options { only: vec!["*8-half-?".into()], ..Options::default() };
    assert_eq!(names(&text, &only).unwrap(), ["b-8-half-2", "b-8-half-8"]);
    // Several are all that match one of them, each once and in the order of the file; one that matches none is a mistake.
    let several = |globs: &[&str]| {
        let only = globs.iter().map(|&glob| glob.to_owned()).collect();
        names(&text, &Options { only, ..Options::default() })
    };
    let found = several(&["b-8-half-?", "a-half-8", "b-8-half-2"]).unwrap();
    assert_eq!(found, ["a-half-8", "b-8-half-2", "b-8-half-8"]);
    let Err(Error::Other(reason)) = several(&["a-half-8", "c*"]) else { panic!() };
    assert!(reason.contains("no experiment matches `c*`; there are a-flood-2"), "{reason}");
}

#[test]
fn an_axis_that_no_experiment_uses_is_refused() {
    const PING: &str = "kind = 'ping'\nbus.desk.bitrate = '1M'\n";
    let axis = |axis: &str, more: &str| format!("{PING}{more}[matrix]\n{axis}\n");
    for (text, key) in [
        (axis("vm.kernel = ['6.1', '6.12']", ""), "vm.kernel"),
        (axis("ping.priority = [1, 2]", ""), "ping.priority"),
        (format!("{SIMPLE}\n[matrix]\nvm.kernel = ['6.1', '6.12']"), "vm.kernel"),
        (
            format!("{PING}[[experiment]]\nname = 'a'\nmatrix.'vm.kernel' = ['6.1', '6.12']"),
            "vm.kernel",
        ),
    ] {
        let Err(Error::Findings(findings)) = names(&text, &Options::default()) else {
            panic!("{text}: accepted");
        };
        let message = format!("`{key}` in the matrix has no effect");
        let found: Vec<_> = findings.into_iter().map(|finding| finding.message).collect();
        assert_eq!(found, [message], "{text}");
    }
    // One value is a setting like any other.
    let one = axis("vm.kernel = ['6.1']", "");
    assert_eq!(names(&one, &Options::default()).unwrap(), ["6.1"]);
    // One of the experiments uses it.
    let both = axis("testbed = ['sim', 'vm']\nvm.kernel = ['6.1', '6.12']", "seeds = 1\n");
    assert_eq!(names(&both, &Options::default()).unwrap().len(), 4);
    // What uses it is not chosen now, or another world is.
    let sim = Options { only: vec!["sim-*".into()], ..Options::default() };
    assert_eq!(names(&both, &sim).unwrap().len(), 2);
    let there = axis("vm.kernel = ['6.1', '6.12']", "testbed = 'vm'\nseeds = 1\n");
    let sim = Options { testbed: Some(Testbed::Sim), ..Options::default() };
    assert_eq!(names(&there, &sim).unwrap().len(), 2);
}

#[test]
fn lists_and_tables_of_an_axis_have_different_names() {
    let text = format!(
        "{SIMPLE}
            [matrix]
            \"traffic.id\" = [[\"0x10\", \"0x20\"], [\"0x10\"], \"0x30\"]"
    );
    let campaign = parse("t.toml", &text, Path::new("."), &Options::default()).unwrap();
    let axes: Vec<_> = campaign
        .experiments
        .iter()
        .map(|experiment| (experiment.name.as_str(), experiment.axes[0].1.as_str()))
        .collect();
    assert_eq!(
        axes,
        [("0x10-0x20", "0x10,0x20"), ("0x10", "0x10"), ("0x30", "0x30")],
        "two lists are not both called `list`"
    );
}

#[test]
fn the_command_line_has_the_last_word() {
    let options = Options {
        set: vec!["traffic.kind=half".into(), "bus.in.bitrate=250k".into()],
        seed: Some(9),
        ..Options::default()
    };
    let campaign = parse("t.toml", SIMPLE, Path::new("."), &options).unwrap();
    let experiment = &campaign.experiments[0];
    assert_eq!(experiment.seed, 9);
    assert_eq!(
        experiment.of::<CanGateway>().unwrap().network.buses[0].timing.nominal.bits_per_second(),
        250_000
    );
    assert!(experiment.config.contains("kind = \"half\""), "{}", experiment.config);
}

#[test]
fn of_a_bus_that_cannot_be_read_nothing_else_is_said() {
    for rest in [
        "traffic.kind = 'flood'",
        "traffic = { kind = 'periodic', nodes = { out = ['A'] }, \
         message = [{ id = '0x1', node = 'A', period = '10ms' }] }",
    ] {
        let text = format!(
            "bus = {{ in = {{ bitrate = '1M' }}, out = 5 }}\ngateway.delay = '1us'\n{rest}"
        );
        let error = names(&text, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("`out` is an integer, expected a table"), "{error}");
        assert_eq!(error.matches(": error: ").count(), 1, "{error}");
    }
}

#[test]
fn everything_wrong_is_reported_at_once() {
    let text = r#"
            count = -1
            [bus.in]
            bitrate = "fast"
            [gateway]
            profile = "mpc5200-2.6.34"
            [traffic]
            kind = "floot"
            lenght = 8
        "#;
    let error = names(text, &Options::default()).unwrap_err().to_string();
    for part in [
        "test.toml:2:21: error: `count` is -1",
        "`bitrate` is \"fast\"",
        "did you mean `mpc5200-2.6.33`?",
        "did you mean `flood`?",
        "did you mean `length`?",
    ] {
        assert!(error.contains(part), "{part} is missing in\n{error}");
    }
}

#[test]
fn what_does_not_fit_together_is_reported() {
    let two = "bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\n";
    let flood = "traffic.kind = 'flood'\n";
    let periodic = "traffic.kind = 'periodic'\n";
    let message = "traffic.nodes.in = ['A']\n[[traffic.message]]\nname = 'Speed'\nid = '0x1'\n\
                   node = 'A'\nperiod = '10ms'\nlength = 2\n";
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.log");
    std::fs::write(&empty, "# nothing happened\n").unwrap();
    let empty = empty.display();
    for (text, parts) in [
        (format!("{two}{flood}gateway.tx_queue = 5"), &["either a `profile` or a `delay`"][..]),
        (format!("{two}{flood}gateway = {{ delay = '1us', tx_queue = 0 }}"), &["`tx_queue` is 0"]),
        (
            format!("{two}{flood}gateway = {{ delay = '1us', rules = 'absent.toml' }}"),
            &["absent.toml: cannot be read", "paths are relative"],
        ),
        (
            format!("bus.in.bitrate = '1M'\n{flood}gateway.delay = '1us'"),
            &["the rules do not match the buses"],
        ),
        (
            format!("{two}{flood}gateway = {{ delay = '1us', generate.hops = 101 }}"),
            &["`hops` is 101, but must be 0 to 100"],
        ),
        (format!("{two}{flood}instrument = 'tester'"), &["there is no tester"]),
        (format!("bus = {{}}\n{flood}"), &["no bus is defined"]),
        (format!("bus.in = 1\n{flood}"), &["`in` is an integer, expected a table"]),
        (
            format!("{two}traffic = {{ kind = 'flood', id = '0x800' }}"),
            &["`0x800` is not an identifier"],
        ),
        (format!("{two}traffic = {{ kind = 'flood', length = 1 }}"), &["`length` is 1"]),
        (format!("{two}traffic = {{ kind = 'flood', length = 12 }}"), &["does not support CAN FD"]),
        (format!("{two}traffic = {{ kind = 'flood', fill = 256 }}"), &["must be 0 to 255"]),
        (format!("{two}{periodic}"), &["there are no messages to send"]),
        (
            format!("{two}{periodic}traffic.nodes.inn = ['A']"),
            &["unknown bus `inn`", "did you mean `in`?"],
        ),
        (
            format!("{two}{periodic}[[traffic.message]]\nid = '0x1'\nnode = 'A'\nperiod = '1us'"),
            &["a period must be at least 10us", "node `A` sends 0x1, but is not on any bus"],
        ),
        (format!("{two}{periodic}traffic.dbc = 'absent.dbc'"), &["absent.dbc: cannot be read"]),
        (
            format!("{two}{periodic}{message}data = '12 3'"),
            &["test.toml:11:8: error: the last byte of `data` has one hex digit"],
        ),
        (
            format!("{two}{periodic}{message}data = '12'"),
            &["test.toml:11:8: error: `data` has 1 byte, but `length` is 2"],
        ),
        (
            format!("{two}{periodic}{message}data = '1234'\nfill = 1"),
            &["test.toml:11:8: error: a message can have `data` or `fill`, not both"],
        ),
        (
            format!("{two}{periodic}{message}fill = 'most'"),
            &["test.toml:11:8: error: `fill` is \"most\", but must be 0 to 255, or \"worst-case\""],
        ),
        (
            format!("{two}{periodic}traffic.node.B.queue_depth = 0\n{message}"),
            &[
                "test.toml:4:14: error: there is no node `B` on any bus",
                "`queue_depth` is 0, but must be 1 to 100000",
            ],
        ),
        (format!("{two}{periodic}traffic.node.A.depth = 1\n{message}"), &["unknown key `depth`"]),
        (
            format!("{two}{periodic}traffic.offsets = {{ Sped = '1ms', Speed = 1 }}\n{message}"),
            &[
                "test.toml:4:21: error: there is no message `Sped`",
                "did you mean `Speed`?",
                "`Speed` is an integer, expected a duration",
            ],
        ),
        (format!("{two}traffic.kind = 'replay'"), &["`log` is missing"]),
        (
            format!("{two}traffic = {{ kind = 'replay', log = 'absent.log' }}"),
            &["absent.log cannot be read"],
        ),
        (
            format!("{two}traffic = {{ kind = 'replay', log = '{empty}' }}"),
            &["empty.log has no frames to send"],
        ),
        (
            format!("{two}{flood}[matrix]\nbus.oit.bitrate = ['1M']"),
            &["the matrix sets bus `oit`", "did you mean `out`?"],
        ),
        (format!("{two}{flood}[matrix]\ncount = 5"), &["`count` is an integer, expected a list"]),
        (format!("{two}{flood}[[experiment]]"), &["`name` is missing"]),
        (
            format!("{two}{flood}[[experiment]]\nname = 'a b'\n[[experiment]]\nname = 'a/b'"),
            &["two experiments are called `a-b`", "letters, digits", "name = 'a/b'"],
        ),
        (
            format!("{two}{flood}[matrix]\ntraffic.kind = []\ntraffic.length = 1"),
            &[
                "test.toml:5:16: error: `traffic.kind` is empty",
                "remove it from the matrix",
                "`traffic.length` is an integer, expected a list",
            ],
        ),
        (
            format!("{two}{flood}[matrix]\ntraffic.kind = ['half']\n'traffic.kind' = ['half']"),
            &["test.toml:6:18: error: two lists of a matrix set `traffic.kind`", "one list"],
        ),
        (
            format!(
                "{two}{flood}[[experiment]]\nname = 'a'\nmatrix.seed = [1, 2]\n\
                 [matrix]\nseed = [3]"
            ),
            &["test.toml:8:8: error: two lists of a matrix set `seed`"],
        ),
        (
            format!("testbed = 'vm'\n{two}{flood}gateway = {{ kind = 'kernel', profile = 'mpc' }}"),
            &["test.toml:5:40: error: unknown host profile `mpc`"],
        ),
        (
            format!("experiment = []\n{two}{flood}"),
            &["test.toml:1:14: error: `experiment` is empty", "write a table [[experiment]]"],
        ),
        (
            format!("{two}traffic = {{ kind = 'flood', id = [] }}"),
            &["test.toml:3:34: error: `id` is empty", "remove `id` to send 0x123"],
        ),
        (
            format!("{two}{flood}traffic.nodes.in = 'A'"),
            &["test.toml:4:20: error: `in` is text, expected a list of nodes"],
        ),
        (
            format!(
                "{two}{flood}[[claim]]\nid = 'A'\nsays = ''\nvalue = '{{each}} lost'\n\
                 at_most = 0\neach = []"
            ),
            &["test.toml:9:8: error: `each` is empty", "remove `each` to make one claim"],
        ),
        (
            format!("{two}{flood}[[alternative]]\nname = 'a'\nvm.mips = 125\nmatrix = {{}}"),
            &[
                "test.toml:7:10: error: an alternative cannot have `matrix`",
                "write settings of experiments only",
            ],
        ),
        (
            format!("{two}{flood}[[alternative]]\nname = 'a'\nbus.is.bitrate = '1M'"),
            &[
                "test.toml:4:1: error: the alternative `a` sets bus `is`, which the experiments do not have",
                "did you mean `in`?",
            ],
        ),
        (
            format!("{two}{flood}[[figure]]\ntitle = 'x'\nonly = ['a-*']\n[[figure]]\nonly = []"),
            &[
                "test.toml:4:1: error: the figure `x` matches no experiment",
                "test.toml:7:1: error: `title` is missing",
                "test.toml:8:8: error: `only` is empty",
            ],
        ),
        (
            format!("{two}{flood}[[figure]]\ntitle = 'x'\nonly = ['*']\nmetric = 'y'"),
            &["test.toml:7:10: error: `metric` is \"y\""],
        ),
        (
            format!("{two}{flood}[[alternative]]\nname = 'a'\nexcept = ['nothing-*']\ncount = 3"),
            &[
                "test.toml:6:11: error: no experiment matches `nothing-*`",
                "`candor lab list` shows their names",
            ],
        ),
        (
            format!("{two}{flood}[[alternative]]\nname = 'a'\nbus.in.bitrate = 0"),
            &["test.toml:6:18: error: "],
        ),
        (
            format!(
                "{two}{flood}[[alternative]]\nname = 'a'\n[[alternative]]\nname = 'a'\ncount = 3"
            ),
            &[
                "test.toml:4:1: error: an alternative without settings changes nothing",
                "test.toml:7:8: error: two alternatives are called `a`",
            ],
        ),
        (
            format!("{two}{flood}[matrix]\nseed = {0:?}\ncount = {0:?}", [1; 400]),
            &["more than 100000 experiments"],
        ),
    ] {
        let error = match names(&text, &Options::default()) {
            Err(error) => error.to_string(),
            Ok(names) => panic!("accepted as {names:?}:\n{text}"),
        };
        for part in parts {
            assert!(error.contains(part), "{part} is missing in\n{error}");
        }
    }
}

/// What each experiment lays something over is read too, by itself.
#[test]
fn values_that_no_experiment_uses_are_checked() {
    let two = "bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\ngateway.delay = '1us'\n";
    let all = "[[experiment]]\nname = 'a'\ncount = 5\ntraffic = { kind = 'half', length = 2 }\n\
               [[experiment]]\nname = 'b'\ncount = 6\ntraffic = { kind = 'half', length = 3 }\n";
    let matrix = "[matrix]\ntraffic.kind = ['half', 'flood']\n'gateway.kind' = ['kernel']\n";
    for (text, parts) in [
        (
            format!("count = 0\n{two}[traffic]\nlength = 65\nkind = 'floot'\n{all}"),
            &[
                "test.toml:1:9: error: `count` is 0",
                "test.toml:6:10: error: `length` is 65",
                "test.toml:7:8: error: `kind` is \"floot\"",
                "did you mean `flood`?",
            ][..],
        ),
        (
            format!(
                "{two}traffic.kind = 'half'\ngateway.profile = 'mpc'\n\
                 [[experiment]]\nname = 'a'\ngateway.profile = 'mpc5200-2.6.33'\n"
            )
            .replace("gateway.delay = '1us'\n", ""),
            &["test.toml:4:19: error: unknown host profile `mpc`"],
        ),
        (format!("name = 5\n{two}{all}"), &["test.toml:1:8: error: `name` is an integer"]),
        (
            format!("{two}[[traffic]]\nkind = 'flood'\n{matrix}"),
            &["test.toml:4:1: error: `traffic` is a list, expected a table"],
        ),
        (
            format!("{two}[traffic.kind]\nhalf = true\n{matrix}"),
            &["test.toml:4:1: error: `kind` is a table, expected text"],
        ),
        (
            format!("{two}traffic.kind = 'x'\n[[experiment]]\nname = 'a'\n{matrix}"),
            &["test.toml:4:16: error: `kind` is \"x\""],
        ),
        (
            format!("{two}[[experiment]]\nname = 'a'\ntraffic.kind = 'x'\n{matrix}"),
            &["test.toml:6:16: error: `kind` is \"x\""],
        ),
    ] {
        let error = match names(&text, &Options::default()) {
            Err(error) => error.to_string(),
            Ok(names) => panic!("accepted as {names:?}:\n{text}"),
        };
        let count = error.matches("error:").count();
        let expected = parts.iter().filter(|part| part.contains("error:")).count();
        assert_eq!(count, expected, "{text}\n{error}");
        for part in parts {
            assert!(error.contains(part), "{part} is missing in\n{error}");
        }
    }
}

/// Whether they would fit to the rest does not matter.
#[test]
fn values_that_no_experiment_uses_are_held_against_nothing() {
    let two = "bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\n";
    for (rest, expected) in [
        // A classical bus, another kind of traffic, no log, a bus that is not there.
        (
            "testbed = 'vm'\nseeds = 1\ntraffic.length = 64\ntraffic.kind = 'replay'\ntraffic.bus = 'x'\n\
             gateway.delay = '1us'\n\
             [[experiment]]\nname = 'a'\ntestbed = 'sim'\n\
             traffic = { kind = 'half', length = 8, bus = 'in' }\n",
            &["a"][..],
        ),
        // A load without a kind; a table that every experiment completes.
        (
            "load.groups = 2\ngateway.profile = 'mpc5200-2.6.33'\ntraffic.fill = 1\n\
             [matrix]\nload.groups = [3, 4]\nload.kind = ['cpu']\ntraffic.fill = [2]\n\
             traffic.kind = ['half']\n",
            &["3-cpu-2-half", "4-cpu-2-half"],
        ),
    ] {
        // What is chosen need not use every axis.
        let only = Options { only: vec!["*".into()], ..Options::default() };
        let found = names(&format!("{rest}[bus]\n{}", two.replace("bus.", "")), &only);
        assert_eq!(found.unwrap(), expected, "{rest}");
    }
}

#[test]
fn a_file_without_experiments_says_why_whatever_is_chosen() {
    let only = Options { only: vec!["a".into()], ..Options::default() };
    let error = names("experiment = []", &only).unwrap_err().to_string();
    assert!(error.contains("`experiment` is empty"), "{error}");
}

#[test]
fn round_trips_are_read_and_what_cannot_be_has_its_place() {
    let head = "kind = 'ping'\ntestbed = 'vm'\nbus.can.bitrate = '1M'\n";
    let read = |rest: &str| {
        parse("test.toml", &format!("{head}{rest}"), Path::new("."), &Options::default())
    };
    let campaign = read("[ping]\nperiod = '0s'\nlength = 2\n[vm]\nkernel = '6.12-rt'").unwrap();
    let experiment = &campaign.experiments[0];
    let ping = experiment.of::<Ping>().unwrap();
    assert_eq!((experiment.count, experiment.testbed()), (10_000, Testbed::Vm));
    assert_eq!((ping.length, ping.period.as_nanos(), ping.is_open_loop), (2, 0, false));
    assert_eq!(ping.timeout, candor_time::Nanos::from_millis(100));
    assert_eq!(experiment.vm().unwrap().settings.gateway_priority, 60);
    // The sources of the driver are found from any folder of the checkout.
    let campaign = read("ping.virtual = true\n[vm]\ndriver = 'candor_can'").unwrap();
    let experiment = &campaign.experiments[0];
    assert!(experiment.conditions.contains("candor_can, handler hard, on one virtual device"));
    assert!(experiment.inputs.iter().any(|input| input.path.ends_with("candor_can/handle.c")));
    let campaign = read("ping.partner = 'outside'").unwrap();
    let experiment = &campaign.experiments[0];
    assert!(experiment.conditions.contains("its partner outside of the guest, which answers at"));
    let vm = experiment.vm().unwrap();
    assert_eq!((vm.machine.tester, &vm.gateway), (Tester::Outside, &Gateway::None));
    for (rest, part) in [
        ("bus.b.bitrate = '1M'", "3:1: error: there are several buses"),
        ("count = 70000", "4:9: error: `count` is 70000, but there can be 65536 requests"),
        ("ping.period = '1s'", "4:15: error: `period` is 1s, but the bus must not be silent"),
        ("ping = { paced = true, period = '0s' }", "error: without a period requests can only"),
        ("ping.timeout = '0us'", "4:16: error: `timeout` is 0, so every answer would be late"),
        ("ping.length = 9", "4:15: error: "),
        (
            "ping = { virtual = true, partner = 'outside' }",
            "4:36: error: a partner outside of the guest does not see its virtual device",
        ),
        ("ping.partner = 'inside'", "4:16: error: "),
        ("vm.tester = 'inside'", "error: round trips have SJA1000 controllers and a tester of"),
        ("gateway.kind = 'kernel'", "error: unknown key `gateway`"),
    ] {
        let error = read(rest).unwrap_err().to_string();
        assert!(error.contains(part), "{rest}: {error}");
    }
}

#[test]
fn round_trips_have_what_their_world_has() {
    let read = |testbed: &str, rest: &str, set: &[&str]| {
        let set = set.iter().map(|&it| it.to_owned()).collect();
        let text = format!("kind = 'ping'\n{testbed}\nbus.can.bitrate = '1M'\n{rest}");
        parse("t.toml", &text, Path::new("."), &Options { set, ..Options::default() })
    };
    let (sim, host) = ("testbed = 'sim'", "testbed = 'host'");
    // What only a guest cannot have; the table of a guest is left alone.
    for (testbed, expected) in [("", Testbed::Sim), (sim, Testbed::Sim), (host, Testbed::Host)] {
        let rest = "count = 70000\nseeds = 1\nping = { period = '1s', timeout = '2s' }\nload.kind = 'none'\n\
                    vm = { kernel = '6.12', tester = 'inside' }";
        let campaign =
            read(testbed, rest, &[]).unwrap_or_else(|error| panic!("{testbed}: {error}"));
        let [experiment] = &campaign.experiments[..] else { panic!() };
        assert_eq!((experiment.testbed(), experiment.count), (expected, 70_000));
        assert!(experiment.vm().is_none());
    }
    for (testbed, rest, part) in [
        (sim, "ping.virtual = true", "4:16: error: the testbed `sim` has no virtual device"),
        (host, "ping.virtual = true", "4:16: error: the testbed `host` has no virtual device"),
        (sim, "ping.partner = 'outside'", "4:16: error: the testbed `sim` has no guest that"),
        (host, "ping.partner = 'outside'", "4:16: error: the testbed `host` has no guest that"),
        (sim, "load.kind = 'cpu'", "error: the testbed `sim` has no load for round trips"),
        (host, "load.kind = 'ethernet'", "error: the testbed `host` has no load for round trips"),
        (host, "bus.can.data_bitrate = '2M'", "error: requests and answers are classical frames"),
    ] {
        let error = read(testbed, rest, &[]).unwrap_err().to_string();
        assert!(error.contains(part), "{rest}: {error}");
    }
    // What the command line sets has an effect, or is refused.
    for (testbed, set, has_effect) in [
        (sim, "bus.can.bit_error_rate=1e-5", true),
        (host, "bus.can.bit_error_rate=1e-5", false),
        (host, "ping.priority=5", true),
        (sim, "ping.priority=5", false),
        (sim, "ping.virtual=false", false),
        (sim, "ping.partner=\"guest\"", false),
        ("testbed = 'vm'", "ping.partner=\"outside\"", true),
        (sim, "vm.kernel=\"6.12\"", false),
        (sim, "ping.length=2", true),
    ] {
        assert_eq!(read(testbed, "", &[set]).is_ok(), has_effect, "{testbed} {set}");
    }
}

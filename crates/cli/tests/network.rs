//! `candor network`, as a user sees it.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const NETWORK: &str = "title = \"A \u{202e}car\"\n[bus.a]\nbitrate = \"500k\"\ndata_bitrate = \"2M\"\n\
    [bus.b]\nbitrate = \"250k\"\n[nodes]\na = [\"Engine\", \"Silent\"]\nb = []\n[node.Engine]\nqueue = \"fifo\"\n\
    queue_depth = 8\n[[message]]\nname = \"Speed\u{1b}\"\nid = \"0x100\"\nnode = \"Engine\"\nperiod = \"10ms\"\n\
    offset = \"1ms\"\n[[message]]\nname = \"Long\"\nid = \"0x101\"\nnode = \"Engine\"\nperiod = \"100ms\"\n\
    length = 64\njitter = \"100us\"\n[gateway.g]\nrules = \"g.rules.toml\"\n";

const RULES: &str = "bus = { a = \"can0\", b = \"can1\" }\nrule = [{ from = \"a\", to = \"b\", frames = \"any\" }]\n";

struct Scene(TempDir);

impl Scene {
    fn new(network: &str, rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("n.toml"), network).unwrap();
        fs::write(folder.path().join("g.rules.toml"), rules).unwrap();
        Self(folder)
    }

    /// What `network show` prints on standard output and standard error, and its exit code.
    fn run(&self, arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
        self.run_command("show", arguments, input)
    }

    fn bound(&self, arguments: &[&str]) -> (String, String, Option<i32>) {
        self.run_command("bound", arguments, "")
    }

    fn run_command(
        &self,
        command: &str,
        arguments: &[&str],
        input: &str,
    ) -> (String, String, Option<i32>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_candor"))
            .args(["network", command])
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Who reads no input closes it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr), output.status.code())
    }
}

const SHOWN: &str = "\
A \\u{202e}car

bus  kind                        bit rate  frames/s  load at most
---  ---------  -------------------------  --------  ------------
a    CAN FD     500 kbit/s, data 2 Mbit/s     110.0         3.1 %
b    classical                 250 kbit/s     100.0         5.4 %

node    bus  queue                 messages
------  ---  --------------------  --------
Engine  a    fifo, 8 frames               2
Silent  a    priority, 200 frames         0

bus  identifier  message      sent by     kind       bytes   period   offset  jitter  longest
---  ----------  -----------  ----------  ---------  -----  -------  -------  ------  -------
a    0x100       Speed\\u{1b}  Engine      classical      8  10.0 ms  1.00 ms       -   270 us
a    0x101       Long         Engine      CAN FD        64   100 ms   random  100 us   406 us
b    0x100       Speed\\u{1b}  g (from a)  classical      8  10.0 ms        -       -   540 us
b    0x101       Long         g (from a)  CAN FD        64   100 ms        -       -     lost
";

#[test]
fn a_network_is_shown_with_everything_in_it() {
    let toml = NETWORK.replace('\u{1b}', "\\u001b");
    let scene = Scene::new(&toml, RULES);
    let (shown, findings, code) = scene.run(&["n.toml"], "");
    assert_eq!((shown.as_str(), code), (SHOWN, Some(0)));
    assert!(
        findings.contains("gateway `g` sends `Long` to bus `b` as CAN FD frames"),
        "{findings}"
    );
    // The same from standard input.
    assert_eq!(scene.run(&["-"], &toml).0, shown);
    let (json, _, _) = scene.run(&["n.toml", "--json"], "");
    for expected in [
        "{\"type\":\"network\",\"data\":{\"title\":\"A \u{202e}car\",\"buses\":2,\"nodes\":2,\"gateways\":1}}",
        r#"{"type":"node","data":{"node":"Silent","bus":"a","queue":"priority","queue_depth":200,"messages":0}}"#,
        r#""length":64,"fd":true,"period_ns":100000000,"offset_ns":null,"jitter_ns":100000,"longest_ns":null"#,
    ] {
        assert!(json.contains(expected), "{expected}\n{json}");
    }
}

#[test]
fn what_stands_against_bounds_is_told_below_them() {
    let names = ["Silent", "Wake", "Sleep", "Diag", "Reply", "Last"];
    let messages = names.iter().enumerate().map(|(id, name)| format!("BO_ {id} {name}: 8 A\n\n"));
    let dbc = "BU_: A\n\n".to_owned()
        + &messages.collect::<String>()
        + "BO_ 9 Speed: 8 A\n\nBA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 1000;\n\
           BA_DEF_DEF_ \"GenMsgCycleTime\" 0;\nBA_ \"GenMsgCycleTime\" BO_ 9 10;\n";
    let scene = Scene::new("bus.a.bitrate = '500k'\nbus.a.dbc = 'car.dbc'\n", RULES);
    fs::write(scene.0.path().join("car.dbc"), dbc).unwrap();
    let unsent = "car.dbc: 6 of 7 messages have no cycle time and are not sent: Silent, Wake, Sleep, \
                  Diag, Reply and 1 more";
    let (text, said, code) = scene.bound(&["n.toml"]);
    assert!(text.ends_with(&format!("against them:\n- {unsent}\n")), "{text}");
    assert!(said.contains(unsent) && code == Some(0), "{said}");
    let (json, ..) = scene.bound(&["n.toml", "--json"]);
    assert!(json.starts_with(r#"{"type":"finding","data":{"severity":"warning""#), "{json}");
    assert!(json.contains(unsent), "{json}");
}

#[test]
fn exit_codes_tell_what_is_wrong() {
    let names = NETWORK.replace('\u{1b}', "");
    let scene = Scene::new(&names.replace("\"Silent\"", "\"Engine\""), RULES);
    let (shown, findings, code) = scene.run(&["n.toml"], "");
    assert_eq!((shown.as_str(), code), ("", Some(1)));
    assert!(findings.ends_with("n.toml: 1 error\n"), "{findings}");
    let (_, findings, code) = scene.run(&["-"], "nonsense");
    assert!(findings.contains("-:1:") && code == Some(1), "{findings}");
    let (_, findings, code) = scene.run(&["absent.toml"], "");
    assert!(findings.contains("absent.toml: cannot be read") && code == Some(2), "{findings}");
    // Frames that go round for ever have no load.
    let back = RULES.replace("from = \"a\", to = \"b\"", "from = \"b\", to = \"a\"");
    let two = format!("{names}[gateway.h]\nrules = \"h.rules.toml\"\n");
    let scene = Scene::new(&two, RULES);
    fs::write(scene.0.path().join("h.rules.toml"), back).unwrap();
    let (shown, findings, code) = scene.run(&["n.toml"], "");
    assert_eq!((shown.as_str(), code), ("", Some(1)));
    assert!(findings.contains("g.rules.toml:2:9: error: `Speed` of node"), "{findings}");
    assert!(findings.contains("goes round for ever"), "{findings}");
    // Places are files as they are found from here.
    let path = scene.0.path().join("n.toml");
    let (_, findings, _) = scene.run(&[path.to_str().unwrap()], "");
    let rules = scene.0.path().join("g.rules.toml");
    assert!(findings.contains(&format!("{}:2:9: error: ", rules.display())), "{findings}");
}

/// Two buses and a gateway between them, without the message that is lost.
const BOUND: &str = "bus.a.bitrate = \"500k\"\nbus.b.bitrate = \"250k\"\nqueue_depth = 8\n\
    deadlines.Long = \"1ms\"\nnodes.a = [\"Engine\", \"Brakes\"]\n\
    message = [\n\
    { name = \"Speed\", id = \"0x100\", node = \"Engine\", period = \"10ms\", length = 2 },\n\
    { name = \"Long\", id = \"0x101\", node = \"Engine\", period = \"100ms\", jitter = \"100us\" },\n\
    { name = \"Force\", id = \"0x102\", node = \"Brakes\", period = \"20ms\", deadline = \"5ms\" },\n\
    ]\n[gateway.g]\nrules = \"g.rules.toml\"\ndelay = [\"20us\", \"200us\"]\nqueue = \"fifo\"\n";

/// In bits of 2 us: Speed has 75, the others 135. Long waits for one Force and one Speed, and is late by 100 us.
///
/// On b, in a FIFO queue, all wait for each other, and nobody else sends there. A frame on a takes at least 60, 108 and 108 bits
/// without stuff bits and intermission.
const BOUND_SHOWN: &str = "\
bus  identifier  message  sent by     longest  jitter  blocking  interference  response  end to end  deadline     slack
---  ----------  -------  ----------  -------  ------  --------  ------------  --------  ----------  --------  --------
a    0x100       Speed    Engine       150 us    0 ns    270 us          0 ns    420 us      420 us   10.0 ms   9.58 ms
a    0x101       Long     Engine       270 us  100 us    270 us        150 us    790 us      790 us   1.00 ms    210 us
a    0x102       Force    Brakes       270 us    0 ns      0 ns        420 us    690 us      690 us   5.00 ms   4.31 ms
b    0x100       Speed    g (from a)   300 us  480 us      0 ns       1.08 ms   1.86 ms     2.00 ms   10.0 ms   8.00 ms
b    0x101       Long     g (from a)   540 us  754 us      0 ns        840 us   2.14 ms     2.37 ms   1.00 ms  -1.37 ms
b    0x102       Force    g (from a)   540 us  654 us      0 ns        840 us   2.04 ms     2.27 ms   5.00 ms   2.73 ms

";

#[test]
fn bounds_are_shown_with_what_they_are_made_of() {
    let scene = Scene::new(BOUND, RULES);
    let (shown, findings, code) = scene.bound(&["n.toml"]);
    assert_eq!((findings.as_str(), code), ("", Some(1)));
    assert!(shown.starts_with(BOUND_SHOWN));
    assert!(shown.contains("\nLong on b: up to 1.37 ms later than its deadline\n"));
    assert!(shown.contains("\ng         b   fifo                   3      8\n"));
    assert!(shown.contains("\nThese bounds hold if\n"));
    let (json, _, _) = scene.bound(&["n.toml", "--json"]);
    for expected in [
        r#""message":"Long","node":"Engine","from":"a","bus":"a","id":"0x101","gateways":[],"longest_ns":270000,"jitter_ns":100000,"#,
        r#""blocking_ns":270000,"blocked_by":"Force","interference_ns":150000,"response_ns":790000,"best_ns":216000,"worst_ns":790000,"#,
        r#""deadline_ns":1000000,"slack_ns":-1370000,"verdict":"missed","reason":null}"#,
        r#"{"type":"queue","data":{"sender":"g","bus":"b","queue":"fifo","queue_depth":8,"frames":3,"overflows":false}}"#,
    ] {
        assert!(json.contains(expected), "{expected}\n{json}");
    }
    // With a deadline that can be met, all is well.
    let (_, _, code) = Scene::new(&BOUND.replace("\"1ms\"", "\"5ms\""), RULES).bound(&["n.toml"]);
    assert_eq!(code, Some(0));
}

#[test]
fn what_has_no_bound_says_why() {
    let two_frames = BOUND.replace("queue_depth = 8", "queue_depth = 2");
    let slow = BOUND.replace("bus.b.bitrate = \"250k\"", "bus.b.bitrate = \"15k\"");
    let busy = BOUND.replace("delay = [\"20us\", \"200us\"]", "time_per_frame = \"7ms\"");
    for (network, expected) in [
        (&two_frames, "the queue of g on b: at worst 3 of 2: frames can be lost\n"),
        (&two_frames, "Speed on b: no bound: the queue of g on b can lose it\n"),
        (&slow, "Speed on b: no bound: it and what it waits for need 104.0 % of the time"),
        (&busy, "Force on b: no bound: the frames that g receives need 112.0 % of its time\n"),
        (&busy, "the queue of g on b: no bound for its 8 places: frames can be lost\n"),
    ] {
        let (shown, _, code) = Scene::new(network, RULES).bound(&["n.toml"]);
        assert_eq!(code, Some(1));
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}

#[test]
fn what_a_bound_needs_is_missed_where_it_should_stand() {
    let delay = "delay = [\"20us\", \"200us\"]";
    for (from, to, expected) in [
        (delay, "", "n.toml:11:1: error: nobody knows how long gateway `g` takes\n"),
        (
            delay,
            "delay = [\"2ms\", \"20us\"]",
            "n.toml:13:9: error: `delay` is at least 2ms, and at most 20us, which is less",
        ),
        (delay, "delay = 20", "error: `delay` is an integer, expected the least and the greatest"),
        (delay, "delay = [\"20us\"]", "error: `delay` is a list, expected"),
        (
            delay,
            "delay = \"20us\"\ntime_per_frame = \"20us\"",
            "`delay` or `time_per_frame`, not both",
        ),
        ("\"5ms\"", "\"0ms\"", "error: a deadline must be above 0"),
        ("deadlines.Long", "deadlines.Lang", "there is no message `Lang`"),
        (
            "deadlines.Long = \"1ms\"",
            "deadlines.Long = \"0ms\"",
            "error: a deadline must be above 0",
        ),
    ] {
        let (shown, findings, code) =
            Scene::new(&BOUND.replace(from, to), RULES).bound(&["n.toml"]);
        assert_eq!((shown.as_str(), code), ("", Some(2)));
        assert!(findings.contains(expected), "{expected}\n{findings}");
    }
}

#[test]
fn a_bound_is_explained_step_by_step() {
    let scene = Scene::new(BOUND, RULES);
    let (shown, _, code) = scene.bound(&["n.toml", "--explain", "Long"]);
    let expected = "\
Long on a: 216 us to 790 us

step           at least  at most  behind
-------------  --------  -------  ---------------------------
released late      0 ns   100 us
waits for a        0 ns   420 us  blocked by Force, 1 Speed
sent on a        216 us   270 us

Long on b: 668 us to 2.37 ms

step           at least  at most  behind
-------------  --------  -------  ---------------------------
released late      0 ns   100 us
waits for a        0 ns   420 us  blocked by Force, 1 Speed
sent on a        216 us   270 us
in g            20.0 us   200 us
waits for b        0 ns   840 us  1 Speed, 1 Force
sent on b        432 us   540 us
";
    // Lines under heads are as wide as their columns.
    let lines = |text: &str| {
        text.lines().filter(|it| !it.starts_with('-')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((lines(&shown), code), (lines(expected), Some(0)));
    let (json, _, _) = scene.bound(&["n.toml", "--explain", "Long", "--json"]);
    let sum = |key: &str| {
        let of_b = json.lines().filter(|it| it.contains("\"bus\":\"b\""));
        let number = |line: &str| {
            let (_, rest) = line.split_once(&format!("\"{key}\":")).unwrap();
            rest.split(',').next().unwrap().parse::<u64>().unwrap()
        };
        of_b.map(number).sum::<u64>()
    };
    assert_eq!((sum("least_ns"), sum("most_ns")), (668_000, 2_370_000));
    let (_, said, code) = scene.bound(&["n.toml", "--explain", "Lang"]);
    assert!(said.contains("no message `Lang`: did you mean `Long`?") && code == Some(2), "{said}");
    let full = Scene::new(&BOUND.replace("queue_depth = 8", "queue_depth = 2"), RULES);
    let (shown, said, code) = full.bound(&["n.toml", "--explain", "Force"]);
    assert!(shown.starts_with("Force on a: ") && !shown.contains("Force on b"), "{shown}");
    assert_eq!(said, "Force on b: no bound: the queue of g on b can lose it\n");
    assert_eq!(code, Some(1));
}

/// What is printed makes a network whose queues hold what they have to.
#[test]
fn depths_are_enough() {
    let two = BOUND.replace("queue_depth = 8", "queue_depth = 2");
    let (depths, said, code) = Scene::new(&two, RULES).bound(&["n.toml", "--depths"]);
    assert_eq!((said.as_str(), code), ("", Some(0)));
    assert!(depths.ends_with(
        "node.Engine.queue_depth = 2\nnode.Brakes.queue_depth = 1\ngateway.g.queue_depth = 3\n"
    ));
    let settings = depths.replace("gateway.g.", "");
    let (nodes, gateway) = settings.rsplit_once("queue_depth").unwrap();
    let nodes = nodes.lines().map(|line| format!("{line}\n")).collect::<String>();
    let enough = format!("{nodes}{}queue_depth{gateway}", two.replace("queue_depth = 2\n", ""));
    let (shown, said, _) = Scene::new(&enough, RULES).bound(&["n.toml"]);
    assert!(shown.contains("g         b   fifo                   3      3\n"), "{shown}{said}");
    assert!(!shown.contains("can be lost"), "{shown}");
    let busy = BOUND.replace("delay = [\"20us\", \"200us\"]", "time_per_frame = \"7ms\"");
    let (_, said, code) = Scene::new(&busy, RULES).bound(&["n.toml", "--depths"]);
    assert!(said.starts_with("the queue of g on b has no depth that is enough") && code == Some(1));
}

/// A rule that limits frames bounds what a message does to others, whether it has a bound itself or not.
#[test]
fn a_rate_of_a_rule_is_a_bound() {
    let limited = |rate: &str| {
        "bus = { a = \"can0\", b = \"can1\" }\nrule = [{ from = \"a\", to = \"b\", match = [\"0x100\"], RATE }]\n"
            .replace(", RATE", rate)
    };
    // On b, Own waits for as many frames of Speed as the way of Speed or the rule lets through.
    let network = |period: &str| {
        format!(
            "bus.a.bitrate = \"500k\"\nbus.b.bitrate = \"250k\"\nnodes.a = [\"Engine\"]\nnodes.b = [\"Body\"]\n\
             message = [\n\
             {{ name = \"First\", id = \"0x50\", node = \"Engine\", period = \"{period}\" }},\n\
             {{ name = \"Speed\", id = \"0x100\", node = \"Engine\", period = \"1ms\", jitter = \"5ms\" }},\n\
             {{ name = \"Own\", id = \"0x200\", node = \"Body\", period = \"50ms\" }},\n\
             ]\n[gateway.g]\nrules = \"g.rules.toml\"\ndelay = [\"20us\", \"200us\"]\n"
        )
    };
    for (period, rate, expected) in [
        ("2ms", "", "Own on b: 432 us to 7.02 ms"),
        ("2ms", ", min_interval = \"100ms\"", "Own on b: 432 us to 1.08 ms"),
        // Without `burst`, two frames may come at once.
        ("2ms", ", rate = \"10/s\"", "Own on b: 432 us to 1.62 ms"),
        ("2ms", ", rate = \"10/s\", burst = 3", "Own on b: 432 us to 2.16 ms"),
        // No time is left for Speed.
        ("300us", ", min_interval = \"100ms\"", "Own on b: 432 us to 1.08 ms"),
    ] {
        let scene = Scene::new(&network(period), &limited(rate));
        let (shown, said, _) = scene.bound(&["n.toml", "--explain", "Own"]);
        assert!(shown.starts_with(expected), "{period}{rate}: {shown}{said}");
    }
    let scene = Scene::new(&network("300us"), &limited(""));
    let (shown, _, code) = scene.bound(&["n.toml"]);
    assert_eq!(code, Some(1));
    for expected in [
        "Speed on a: no bound: it and what it waits for need 117.0 % of the time of a\n",
        "Speed on b: no bound: there is none for Speed on a\n",
        "Own on b: no bound: it waits for Speed on b, which may come as densely as it likes\n",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}

/// Frames of 0x100 end 10, 9 and 11 ms after one another, one of 0x200 once.
const DRIVE: &str = "(1.000000) can0 100#1122\n(1.005000) can0 200#11223344\n(1.010000) can0 100#1122\n\
    (1.019000) can0 100#112233\n(1.030000) can0 100#11\n";

#[test]
fn a_network_is_inferred_from_a_recording() {
    let scene = Scene::new("", "");
    let write = |name: &str, text: &str| fs::write(scene.0.path().join(name), text).unwrap();
    write("drive.log", DRIVE);
    write(
        "car.dbc",
        "BU_: Engine\nBO_ 256 Speed: 8 Engine\n SG_ S : 0|8@1+ (1,0) [0|0] \"\" Engine\n",
    );
    let infer = |arguments: &[&str]| scene.run_command("infer", arguments, "");
    let (network, said, code) = infer(&["drive.log", "--bitrate", "500k", "--dbc", "car.dbc"]);
    assert_eq!((said.as_str(), code), ("", Some(0)));
    let expected = "\
title = \"drive.log\"

[bus.can0]
bitrate = \"500k\"

[nodes]
can0 = [\"Engine\", \"others\"]

[[message]]  # 4 frames
name = \"Speed\"
id = \"0x100\"
node = \"Engine\"
length = 3
min_length = 1
period = \"10ms\"
jitter = \"1ms\"
distances = [\"9ms\", \"19ms\", \"30ms\"]

[[message]]  # 1 frame
id = \"0x200\"
node = \"others\"
length = 4
period = \"30ms\"
jitter = \"0ns\"
distances = [\"30ms\"]
";
    assert!(network.starts_with("# 5 frames, of 2 messages in 30.0 ms.\n#\n"), "{network}");
    assert!(network.ends_with(expected), "{network}");
    write("n.toml", &network);
    let (shown, said, code) = scene.bound(&["n.toml"]);
    assert_eq!((said.as_str(), code), ("", Some(0)));
    // 85 bits of Speed behind 95 of the other; the next one may be 9 ms later, and as much sooner as the bus can have made this one late.
    assert!(
        shown.contains(
            "can0  0x100       Speed    Engine    170 us    190 us          0 ns    360 us"
        ),
        "{shown}"
    );
    assert!(shown.contains("\n- messages with `distances` come no closer"), "{shown}");
    let (steps, _, _) = scene.bound(&["n.toml", "--explain", "Speed"]);
    let expected = "Speed on can0: 104 us to 360 us\n\nstep            at least  at most  behind\n";
    assert!(steps.starts_with(expected), "{steps}");
    let (_, said, code) = infer(&["drive.log", "--bitrate", "500x"]);
    assert!(said.contains("500x") && code == Some(2), "{said}");
    for (log, expected, code) in [
        ("(1.0) can0 100#\n(0.5) can0 100#\n", "record 2 is 500 ms before the one before it", 2),
        ("(1.0) can0 100#\n(1.9) can0 100#\n", "", 0),
        (
            "(0.0) can0 100#\n(2.5) can0 100#\n(3.5) can0 100#\n",
            "note: o.log: can0: 2 silences of 1.00 s and more, the longest 2.50 s until 2.50 s;",
            0,
        ),
        (
            // The other bus goes on meanwhile.
            "(0.0) can0 100#\n(0.5) can1 001#\n(1.0) can1 001#\n(1.5) can0 100#\n(2.0) can1 001#\n",
            "note: o.log: can0: 1 silence of 1.00 s and more, the longest 1.50 s until 1.50 s;",
            0,
        ),
        (
            "(1.0) can0 100#00\n(1.1) can0 100##000\n",
            "o.log: record 2: 0x100 on can0 is a CAN FD frame without a switch of the bit rate here, and was a classical frame before",
            2,
        ),
        ("(1.0) can0 20000088#0000000000000000\n", "no recording has a frame of CAN", 2),
    ] {
        write("o.log", log);
        let (_, said, found) = infer(&["o.log", "--bitrate", "500k"]);
        assert!(said.contains(expected) && found == Some(code), "{said}");
        assert!(!expected.is_empty() || said.is_empty(), "{said}");
    }
    write("o.log", "(1.0) can0 100#\n(0.5) can0 100#\n");
    let (_, _, code) = infer(&["o.log", "--sort", "--bitrate", "500k"]);
    assert_eq!(code, Some(0));
    for (from, to, expected) in [
        (
            "[\"9ms\", \"19ms\", \"30ms\"]",
            "[\"9ms\", \"8ms\"]",
            "n.toml:23:21: error: the second next frame cannot come before",
        ),
        ("[\"30ms\"]", "[\"0ms\"]", "`distances` must end with a time above 0"),
        ("[\"30ms\"]", "[]", "`distances` must end with a time above 0"),
        ("[\"30ms\"]", "\"30ms\"", "`distances` is text, expected a list of durations"),
    ] {
        write("n.toml", &network.replace(from, to));
        let (_, said, code) = scene.bound(&["n.toml"]);
        assert!(said.contains(expected) && code == Some(2), "{said}");
    }
}

/// `arrivals` of a bus: the same bounds as of the file that is inferred, and messages of the file keep their names.
#[test]
fn recordings_say_how_densely_messages_come() {
    let scene = Scene::new("", "");
    let write = |name: &str, text: &str| fs::write(scene.0.path().join(name), text).unwrap();
    write("drive.log", DRIVE);
    let (inferred, _, _) = scene.run_command("infer", &["drive.log", "--bitrate", "500k"], "");
    write("inferred.toml", &inferred);
    let (as_inferred, _, _) = scene.bound(&["inferred.toml", "--json"]);
    let bus = "bus.can0.bitrate = \"500k\"\nbus.can0.arrivals = \"drive.log\"\n";
    let bound = |network: &str, arguments: &[&str]| {
        write("n.toml", network);
        scene.bound(&[&["n.toml"], arguments].concat())
    };
    assert_eq!(bound(bus, &["--json"]), (as_inferred, String::new(), Some(0)));
    // A message of the file: 0x100 has another name and a deadline, and the distances of the recording.
    let named = |length: u32| {
        format!(
            "{bus}nodes.can0 = [\"Engine\"]\n[[message]]\nname = \"Speed\"\nid = \"0x100\"\nnode = \"Engine\"\n\
         length = {length}\nperiod = \"10ms\"\ndeadline = \"359us\"\n"
        )
    };
    let (shown, _, code) = bound(&named(3), &[]);
    let row = "can0  0x100       Speed    Engine    170 us    190 us          0 ns    360 us    359 us  -1.00 us\n";
    assert!(shown.contains(row) && code == Some(1), "{shown}");
    assert!(
        shown.contains("0x200    others") && shown.contains("messages with `distances`"),
        "{shown}"
    );
    // What a gateway sends on the bus comes from the other one, and a recording of it says nothing new.
    let rules = "bus = { a = \"can1\", can0 = \"can0\" }\nrule = [{ from = \"a\", to = \"can0\", frames = \"any\" }]\n";
    write("g.rules.toml", rules);
    let gateway = "bus.a.bitrate = \"500k\"\ngateway.g.rules = \"g.rules.toml\"\ngateway.g.delay = \"20us\"\nnodes.a = [\"A\"]\n\
                   [[message]]\nid = \"0x200\"\nnode = \"A\"\nlength = 4\nperiod = \"30ms\"\n";
    let (shown, said, _) = bound(&format!("{bus}{gateway}"), &[]);
    assert!(
        shown.contains("0x200    g (from a)") && shown.matches("0x200 ").count() >= 2,
        "{shown}{said}"
    );
    assert!(!shown.contains("0x200    others"), "{shown}");
    write("a.log", "(1.0) can1 100#11\n(1.1) can1 100#22\n");
    // A node of the file may have the name of the one for what the file does not say: two senders of an identifier are a warning.
    let own = "nodes.can0 = [\"others\"]\n[[message]]\nname = \"Own\"\nid = \"0x200\"\nnode = \"others\"\n\
               length = 4\nperiod = \"30ms\"\n";
    let two = gateway.replace("[[message]]", &format!("{own}[[message]]"));
    let (shown, said, _) = bound(&format!("{bus}{two}"), &[]);
    assert!(shown.contains("0x200    g (from a)") && said.contains("warning"), "{shown}{said}");
    let both = format!("{bus}{gateway}")
        .replace("bus.a.bitrate", "bus.a.arrivals = [\"a.log\"]\nbus.a.bitrate");
    write("two.log", "(1.0) can7 100#11\n(1.1) can8 100#22\n");
    write("fd.log", "(1.0) can0 100##011\n(1.1) can0 100##011\n");
    write("none.log", "(1.0) can0 20000088#0000000000000000\n");
    let other = |file: &str| bus.replace("drive.log", file);
    for (network, expected) in [
        (
            both,
            "candor: 0x100 was recorded on can0, where gateway g sends it, too; list it under [[message]]",
        ),
        (
            named(2),
            "drive.log: 0x100 is a classical frame of up to 3 bytes, and `Speed` of the network file is none of that",
        ),
        (other("no.log"), "no.log: "),
        (
            other("two.log"),
            "two.log: it has frames of `can7` and `can8`, and the bus is called `can0`",
        ),
        (
            other("fd.log"),
            "fd.log: 0x100 is a CAN FD frame without a switch of the bit rate, and bus `can0` has none",
        ),
        (other("none.log"), "none.log: it has no frame of CAN"),
        (bus.replace("\"drive.log\"", "[]"), "n.toml:2:21: error: `arrivals` is empty"),
    ] {
        let (shown, said, code) = bound(&network, &[]);
        assert!(said.contains(expected) && code == Some(2), "{expected}\n{shown}{said}");
    }
}

/// Frames of different lengths came out of requests as far apart as a bus can have moved them: here 0x2A of 0 and of 8
/// bytes, requested 200 us apart.
#[test]
fn what_was_seen_of_frames_can_have_been_requested_closer() {
    let scene = Scene::new("", "");
    let log = "(1.000092000) can0 02A#\n(1.000447000) can0 155#3C3C3C3C3C3C3C3C\n\
               (1.000705000) can0 02A#3C3C3C3C3C3C3C3C\n(1.100248000) can0 155#3C3C3C3C3C3C3C3C\n\
               (1.200252000) can0 02A#3C3C3C3C3C3C3C3C\n(1.300248000) can0 155#3C3C3C3C3C3C3C3C\n";
    fs::write(scene.0.path().join("two.log"), log).unwrap();
    let (network, _, _) = scene.run_command("infer", &["two.log", "--bitrate", "500k"], "");
    assert!(network.contains("length = 8\nmin_length = 0\n"), "{network}");
    fs::write(scene.0.path().join("n.toml"), network).unwrap();
    let (json, _, _) = scene.bound(&["n.toml", "--json"]);
    let response_us = |id: &str| {
        let line = json.lines().find(|it| it.contains(&format!("\"id\":\"{id}\""))).unwrap();
        let (_, rest) = line.split_once("\"response_ns\":").unwrap();
        rest.split(',').next().unwrap().parse::<u64>().unwrap() / 1_000
    };
    // Requested 1 us after the first 0x2A, and two of these before it: 246 + 249 + 274 us.
    assert!(response_us("0x155") >= 769, "{json}");
    // One that keeps the bit rate of the arbitration takes as long as its bits at that rate: 709 and 3 of intermission.
    let slow = format!(
        "(1.0) can0 123##0{0}\n(1.1) can0 124##1{0}\n(1.2) can0 123##0{0}\n",
        "AA".repeat(64)
    );
    fs::write(scene.0.path().join("slow.log"), slow).unwrap();
    let fast = ["slow.log", "--bitrate", "500k", "--data-bitrate", "2M"];
    let (network, _, _) = scene.run_command("infer", &fast, "");
    assert_eq!(network.matches("fd = true\nbrs = false\n").count(), 1, "{network}");
    fs::write(scene.0.path().join("n.toml"), network).unwrap();
    let (shown, _, _) = scene.bound(&["n.toml"]);
    let longest = |id: &str| {
        let line = shown.lines().find(|it| it.contains(id)).unwrap();
        line.split_whitespace().skip(4).take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([longest("0x123"), longest("0x124")], ["1.43 ms", "406 us"], "{shown}");
}

/// What has no bound says why, and nothing that depends on it has one.
#[test]
fn what_has_no_bound_names_the_cause() {
    let message = |name: &str, id: &str, node: &str, period: &str| {
        format!("[[message]]\nname = \"{name}\"\nid = \"{id}\"\nnode = \"{node}\"\n{period}\n")
    };
    let overloaded_fifo = "bus.a.bitrate = \"500k\"\nqueue_depth = 1000\nnodes.a = [\"N\", \"K\", \"C\"]\nnode.N.queue = \"fifo\"\n"
        .to_owned()
        + &message("X", "0x1", "N", "period = \"2ms\"")
        + &message("Y", "0x300", "N", "period = \"100ms\"")
        + &message("K", "0x50", "K", "period = \"270.5us\"")
        + &message("C", "0x10", "C", "period = \"20ms\"");
    let processor =
        "bus.a.bitrate = \"500k\"\nbus.b.bitrate = \"500k\"\nnodes.a = [\"A\"]\nnodes.b = [\"B\"]\n\
                     gateway.g.rules = \"g.rules.toml\"\ngateway.g.time_per_frame = \"501us\"\n"
            .to_owned()
            + &message("Out", "0x10", "A", "period = \"1ms\"")
            + &message("Back", "0x20", "B", "period = \"1ms\"");
    let watched = "bus.a.bitrate = \"500k\"\nnodes.a = [\"A\", \"B\"]\n".to_owned()
        + &message("Often", "0x10", "A", "period = \"1ms\"\ndistances = [\"500us\", \"520us\"]")
        + &message("Seldom", "0x20", "B", "period = \"100ms\"");
    let both = "bus = { a = \"can0\", b = \"can1\" }\nrule = [{ from = \"a\", to = \"b\", match = \"0x10\" }, \
                { from = \"b\", to = \"a\", match = \"0x20\" }]\n";
    for (network, expected) in [
        // All that waits for the FIFO queue's frames sees as many of them at once as were held behind Y.
        (&overloaded_fifo, "C on a: no bound: it waits for X on a"),
        (&processor, "Out on b: no bound: the frames that g receives need 100.2 % of its time"),
        (&watched, "Often on a: no bound: it and what it waits for need 103.8 % of the time of a"),
        (&watched, "Seldom on a: no bound: it and what it waits for need 104."),
    ] {
        let (shown, said, code) = Scene::new(network, both).bound(&["n.toml"]);
        assert!(shown.contains(expected) && code == Some(1), "{expected}\n{shown}{said}");
    }
}

/// Two buses whose gateways send each other's messages, through FIFO queues, nearly full: later frames on one bus make those of
/// the other later.
#[test]
fn a_circle_that_grows_for_ever_is_named() {
    let network = |period_us: u32| {
        let mut network = "queue = \"fifo\"\nbus.a.bitrate = \"500k\"\nbus.b.bitrate = \"500k\"\nnodes.a = [\"A\"]\nnodes.b = [\"B\"]\n".to_owned();
        for (index, id) in [5, 11, 2, 8, 1, 7, 10, 4, 12, 6, 3, 9].into_iter().enumerate() {
            let node = ["A", "B"][index % 2];
            network += &format!(
                "[[message]]\nid = \"0x{id:X}\"\nnode = \"{node}\"\nperiod = \"{period_us}us\"\ndeadline = \"10s\"\n"
            );
        }
        for (gateway, rules) in [("g", "g"), ("h", "h")] {
            network += &format!(
                "[gateway.{gateway}]\nrules = \"{rules}.rules.toml\"\ndelay = [\"1us\", \"2us\"]\n"
            );
        }
        network
    };
    let rules = |from: &str, to: &str, ids: [u32; 6]| {
        let ids: Vec<_> = ids.iter().map(|id| format!("\"0x{id:X}\"")).collect();
        format!(
            "bus = {{ a = \"can0\", b = \"can1\" }}\nrule = [{{ from = \"{from}\", to = \"{to}\", match = [{}] }}]\n",
            ids.join(", ")
        )
    };
    for (period_us, has_bounds) in [(4_500, true), (3_306, false)] {
        let scene = Scene::new(&network(period_us), &rules("a", "b", [5, 2, 1, 10, 12, 3]));
        let other = rules("b", "a", [11, 8, 7, 4, 6, 9]);
        fs::write(scene.0.path().join("h.rules.toml"), other).unwrap();
        let (shown, said, code) = scene.bound(&["n.toml"]);
        assert_eq!(code, Some(i32::from(!has_bounds)), "{shown}{said}");
        let grows =
            shown.contains("no bound: jitters in a circle make each other grow on and on: 0x");
        assert_eq!(grows, !has_bounds, "{shown}");
    }
}

/// The limits that are shown hold, and a little beyond them what is named breaks.
#[test]
fn limits_of_changes_are_limits() {
    let network = BOUND.replace("\"1ms\"", "\"5ms\"");
    let (shown, said, code) = Scene::new(&network, RULES).bound(&["n.toml", "--sensitivity"]);
    assert_eq!((said.as_str(), code), ("", Some(0)));
    let expected = "\
bus  bit rate  at least  with less
";
    assert!(shown.starts_with(expected), "{shown}");
    let rate = |bus: &str| {
        let line = shown.lines().find(|line| line.starts_with(&format!("{bus} "))).unwrap();
        let rate = line.split_whitespace().nth(2).unwrap();
        let rate = rate.strip_suffix('k').map_or_else(|| rate.to_owned(), |it| format!("{it}000"));
        rate.parse::<u32>().unwrap()
    };
    for (bus, usual, quoted) in [("a", 500_000, "\"500k\""), ("b", 250_000, "\"250k\"")] {
        let least = rate(bus);
        for (bits_per_second, expected) in [(least, 0), (least - usual / 1_000, 1)] {
            let slower = network.replace(quoted, &bits_per_second.to_string());
            let (shown, _, code) = Scene::new(&slower, RULES).bound(&["n.toml"]);
            assert_eq!(code, Some(expected), "{bus} {bits_per_second}\n{shown}");
        }
    }
    // Long on b has 2.63 ms left: itself and what it waits for may be longer, on both buses.
    assert!(shown.contains("\nLong         8"), "{shown}");
    let (json, _, _) = Scene::new(&network, RULES).bound(&["n.toml", "--sensitivity", "--json"]);
    assert_eq!(json.lines().filter(|it| it.contains("\"longer_message\"")).count(), 3, "{json}");
    let (shown, said, code) = Scene::new(BOUND, RULES).bound(&["n.toml", "--sensitivity"]);
    assert_eq!((shown.as_str(), code), ("", Some(1)));
    assert_eq!(said, "Long on b is late; see without --sensitivity\n");
}

#[test]
fn identifiers_are_assigned_so_that_deadlines_hold() {
    let network = "bus.a.bitrate = \"500k\"\nnodes.a = [\"A\", \"B\"]\nmessage = [\n\
        { name = \"Slow\", id = \"0x10\", node = \"A\", period = \"10ms\" },\n\
        { name = \"Fast\", id = \"0x20\", node = \"A\", period = \"10ms\", deadline = \"600us\" },\n\
        { name = \"Other\", id = \"0x30\", node = \"B\", period = \"10ms\" },\n]\n";
    let scene = Scene::new(network, "");
    assert_eq!(scene.bound(&["n.toml"]).2, Some(1));
    let (shown, said, code) = scene.bound(&["n.toml", "--assign"]);
    let expected = "\
bus  identifier  message  now
---  ----------  -------  --------
a    0x10        Fast     0x20
a    0x20        Slow     0x10
a    0x30        Other    the same
";
    assert_eq!((shown.as_str(), said.as_str(), code), (expected, "", Some(0)));
    let (shown, _, code) = scene.bound(&["n.toml", "--assign=Fast,Slow"]);
    assert_eq!((shown.as_str(), code), (expected, Some(0)));
    let none = "a: no order was found that meets all deadlines; there may be one: all are looked at only where all messages \
                have one kind of identifier and may move\n";
    assert_eq!(
        scene.bound(&["n.toml", "--assign=Fast,Other"]),
        (String::new(), none.into(), Some(1))
    );
    let hurried = Scene::new(&network.replace("600us", "500us"), "");
    let none = "a: no order of these identifiers meets all deadlines\n";
    assert_eq!(hurried.bound(&["n.toml", "--assign"]), (String::new(), none.into(), Some(1)));
    // Each kind of identifiers is exchanged among itself.
    let both = Scene::new(&network.replace("0x30", "0x1FFFFFF0x"), "");
    let (shown, _, code) = both.bound(&["n.toml", "--assign"]);
    assert!(shown.contains("a    0x10         Fast     0x20\n") && code == Some(0), "{shown}");
    // An order with which a queue is too short.
    let short = network.replace("deadline = \"600us\"", "jitter = \"25ms\", deadline = \"30ms\"");
    let short = Scene::new(&format!("queue_depth = 2\n{short}"), "");
    let (_, said, code) = short.bound(&["n.toml", "--assign"]);
    let lost =
        "with these identifiers:\nthe queue of A on a: at worst 4 of 2: frames can be lost\n";
    assert!(said.starts_with(lost) && code == Some(1), "{said}");
    for (network, argument, expected) in [
        (network.to_owned(), "--assign=Fest", "there is no message `Fest`: did you mean `Fast`?"),
        (format!("queue = \"fifo\"\n{network}"), "--assign", "Slow on a waits in a FIFO queue"),
    ] {
        let (_, said, code) = Scene::new(&network, "").bound(&["n.toml", argument]);
        assert!(said.contains(expected) && code == Some(2), "{said}");
    }
}

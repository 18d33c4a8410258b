//! What commands print with `--json` is what `candor help json --schema` says.

mod schema;

#[path = "../../vm/src/kernel/fabricated.rs"]
mod fabricated;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use expect_test::expect_file;
use serde_json::Value;
use tempfile::TempDir;

/// Objects that these tests do not see, and why; other tests look at most of them.
const UNSEEN: &[(&str, &str, &str)] = &[
    ("bus list", "interface", "not every machine has a CAN interface"),
    ("lab compare", "function", "needs two folders of counted instructions, so QEMU"),
    ("lab compare", "range", "needs results of a virtual machine under load, so QEMU"),
    (
        "lab history",
        "point",
        "needs results of virtual machines, so QEMU; candor-lab's tests make some",
    ),
    ("lab profile", "function", "needs QEMU"),
    ("lab profile", "place", "needs QEMU"),
    ("tte analyze", "interval", "needs root and two interfaces"),
    ("vm kernels", "available", "needs Debian's package lists; tests/vm makes some"),
];

const LOG: &str = "\
(1436509052.249713) can0 123#DEADBEEF
(1436509052.249913) can0 12345678#1122334455667788
(1436509052.259713) can1 123#R2
(1436509052.269713) can0 20000004#0020000000009000
(1436509052.269913) can0 1F0##1AABBCCDD
(1436509052.279713) can0 123#ADBEEFDE
";

const DBC: &str = "\
BU_: Engine

BO_ 291 EngineData: 8 Engine
 SG_ EngineSpeed : 7|16@0+ (0.25,0) [0|16000] \"rpm\" Vector__XXX
 SG_ Gear : 16|4@1+ (1,0) [0|15] \"\" Vector__XXX

VAL_ 291 Gear 0 \"neutral\" 15 \"reverse\" ;
";

const RULES: &str = "\
[bus]
car = { port = \"file:drive.log?speed=max\", dbc = \"car.dbc\" }
logger = \"file:copy.log\"

[[rule]]
name = \"engine\"
from = \"car\"
to = \"logger\"
match = [\"0x123\"]
set = { id = \"0x124\" }
";

const NETWORK: &str = "\
bus.car = { bitrate = \"500k\", data_bitrate = \"2M\" }
bus.body.bitrate = \"250k\"
nodes.car = [\"Engine\"]

[[message]]
id = \"0x123\"
node = \"Engine\"
period = \"10ms\"
offset = \"1ms\"

[[message]]
id = \"0x18FEF100x\"
node = \"Engine\"
period = \"100ms\"

[gateway.central]
rules = \"car-to-body.rules.toml\"
delay = [\"20us\", \"200us\"]
";

const FORWARDED: &str = "\
bus = { car = \"can0\", body = \"can1\" }
rule = [{ from = \"car\", to = \"body\", match = [\"0x123\"] }]
";

const EXPERIMENTS: &str = "\
title = \"Two buses\"
count = 50
bus.in.bitrate = \"1M\"
bus.out.bitrate = \"500k\"
gateway.delay = \"35us\"
traffic.kind = \"one-at-a-time\"

[[experiment]]
name = \"calm\"

[[experiment]]
name = \"flood\"
traffic.kind = \"flood\"

[[experiment]]
name = \"again\"
traffic = { kind = \"replay\", log = \"drive.log\", interface = \"can0\" }

[[experiment]]
name = \"car\"
traffic.kind = \"periodic\"
traffic.nodes.in = [\"Engine\"]
traffic.message = [{ id = \"0x100\", node = \"Engine\", period = \"10ms\" }]

[[claim]]
id = \"A\"
says = \"nothing is lost\"
value = \"calm lost\"
at_most = 0
";

/// It is listed, not run.
const KERNEL: &str = "\
testbed = \"vm\"
bus.in.bitrate = \"1M\"
bus.out.bitrate = \"500k\"
gateway.kind = \"kernel\"
vm.kernel = \"6.12\"
traffic.kind = \"one-at-a-time\"
";

const ONE_SWITCH: &str = include_str!("../../../examples/one-switch.tte.toml");

/// Beside it.
const TIME_TRIGGERED: &str = "\
kind = \"time-triggered\"
count = 20
network.file = \"one-switch.tte.toml\"
measure.flow = \"measured\"

[[experiment]]
name = \"bed\"
";

/// A capture of one Ethernet frame without payload: the header of the file, that of the record, the frame.
const ETHERNET: &[u8] = b"\x4D\x3C\xB2\xA1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01\0\0\0\
    \x01\0\0\0\0\0\0\0\x0E\0\0\0\x0E\0\0\0\
    \x03\x04\x05\x06\0\x01\x02\0\0\0\0\x01\x88\xD7";

/// A folder, the schema, and which objects were printed in it.
struct Scene {
    folder: TempDir,
    /// The schemas of the objects.
    objects: Vec<Value>,
    seen: BTreeSet<(String, String)>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("drive.log", LOG),
            ("car.dbc", DBC),
            ("drive.rules.toml", RULES),
            ("wrong.toml", &RULES.replace("to = \"logger\"", "to = \"loger\"")),
            ("car.network.toml", NETWORK),
            ("car-to-body.rules.toml", FORWARDED),
            ("two.toml", EXPERIMENTS),
            ("kernel.toml", KERNEL),
            ("one-switch.tte.toml", ONE_SWITCH),
            ("tte.toml", TIME_TRIGGERED),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::write(folder.path().join("ethernet.pcap"), ETHERNET).unwrap();
        let mut scene = Self { folder, objects: Vec::new(), seen: BTreeSet::new() };
        let output = scene.command("help json --schema").output().unwrap();
        let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        scene.objects = schema["oneOf"].as_array().unwrap().clone();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        command
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .env("CANDOR_CACHE", self.path("cache"))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command with `--json` and looks at every line of it.
    #[track_caller]
    fn run(&mut self, command: &str, arguments: &str) {
        let output = self.command(&format!("{command} --json {arguments}")).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.is_empty(), "candor {command} printed nothing: {errors}");
        for line in text.lines() {
            self.look_at(command, line);
        }
    }

    #[track_caller]
    fn look_at(&mut self, command: &str, line: &str) {
        let value: Value = serde_json::from_str(line).unwrap();
        let misfits: Vec<_> =
            self.objects.iter().map(|object| schema::misfits(object, &value, "line")).collect();
        let fitting: Vec<_> = (0..misfits.len()).filter(|&it| misfits[it].is_empty()).collect();
        let [index] = fitting[..] else {
            // Those of its type tell best what is wrong.
            let is_near = |object: &Value| match value.get("type") {
                Some(name) => object["properties"]["type"]["const"] == *name,
                None => object["properties"].get("type").is_none(),
            };
            let near = (0..misfits.len()).filter(|&index| is_near(&self.objects[index]));
            let near: Vec<_> = near.map(|index| &misfits[index]).collect();
            panic!("candor {command}: {} objects fit {line}: {near:#?}", fitting.len());
        };
        let (name, commands) = name_and_commands(&self.objects[index]);
        assert!(commands.contains(&command), "candor {command} printed the {name} of {commands:?}");
        self.seen.insert((command.to_owned(), name.to_owned()));
    }
}

/// What the title of an object says: `frame of candor bus dump, candor ...`.
fn name_and_commands(object: &Value) -> (&str, Vec<&str>) {
    let (name, commands) = object["title"].as_str().unwrap().split_once(" of ").unwrap();
    let commands = commands.split(", ").map(|command| command.strip_prefix("candor ").unwrap());
    (name, commands.collect())
}

/// A gateway that ends with the test.
struct Gateway(Child);

impl Gateway {
    fn start(scene: &Scene) -> Self {
        let mut command = scene.command("route run drive.rules.toml --control ./drive.sock");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let messages = BufReader::new(child.stderr.take().unwrap());
        let gateway = Self(child);
        // Then all frames of the recording have passed.
        let has_ended = |line: std::io::Result<String>| line.unwrap().contains("no more frames");
        assert!(messages.lines().any(has_ended));
        gateway
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run_bus(scene: &mut Scene) {
    scene.run("bus list", "");
    scene.run("bus dump", "file:drive.log?speed=max --dbc car.dbc --errors");
    scene.run("bus load", "file:drive.log?speed=max@500k,2M --interval 10ms");
    scene.run("bus record", "file:drive.log?speed=max --output recorded.log");
    scene.run("bus send", "file:sent.log 123#DEADBEEF");
    scene.run("bus generate", "file:generated.log --count 5 --rate 1000/s");
    scene.run("bus replay", "recorded.log file:replayed.log --speed max");
}

fn run_route(scene: &mut Scene) {
    scene.run("route check", "drive.rules.toml --plan");
    scene.run("route check", "wrong.toml");
    scene.run("route explain", "drive.rules.toml car 123#1122334455667788");
    scene.run("route explain", "drive.rules.toml car 7FF#");
    scene.run("route apply", "drive.rules.toml drive.log applied.log --map can0=car");
    let compile = scene.command("route compile drive.rules.toml -o drive.image");
    assert!({ compile }.status().unwrap().success());
    scene.run("route image", "drive.image");
    let _gateway = Gateway::start(scene);
    scene.run("route stats", "--control ./drive.sock");
    // The recording is over, which is a problem.
    scene.run("route stats", "--check --control ./drive.sock");
    scene.run("route load", "--control ./drive.sock");
    scene.run("route load", "wrong.toml --control ./drive.sock");
    let watch = scene.command("route stats --json --watch 20ms --control ./drive.sock");
    let mut watch = Gateway({ watch }.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    // Rates come the second time.
    for line in lines.take(15) {
        scene.look_at("route stats", &line.unwrap());
    }
}

fn run_signals(scene: &mut Scene) {
    let serve = "signals serve --port file:drive.log?loop=true --listen 127.0.0.1:0";
    for options in ["--dbc car.dbc", ""] {
        let serve = scene.command(&format!("{serve} {options}"));
        let mut service = Gateway({ serve }.stderr(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(service.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("ws://"))
            .unwrap_or_else(|| panic!("{line}"));
        scene.run("signals watch", &format!("{url} --count 3"));
        scene.run("signals watch", &format!("{url} --count 3 --format cbor"));
        let watch = scene.command(&format!("signals watch {url} --json"));
        let mut watch = Gateway({ watch }.stdout(Stdio::piped()).spawn().unwrap());
        // The pipe stays open, or the watch ends with its next line.
        let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("\"type\""), "the watch has ended");
        scene.run("signals stats", url);
    }
    // An address that no machine has.
    let serve = "signals serve --port can2udp:192.0.2.1:4858 --listen unix:./absent.sock";
    let mut service = Gateway(scene.command(serve).stderr(Stdio::piped()).spawn().unwrap());
    BufReader::new(service.0.stderr.take().unwrap()).read_line(&mut String::new()).unwrap();
    scene.run("signals stats", "unix:./absent.sock --check");
}

fn run_ping(scene: &mut Scene) {
    let bus = format!("sim:json-{}?bitrate=1M", std::process::id());
    let args = format!("{bus} --pong {bus} --count 20 --period 5ms --paced --interval 20ms");
    scene.run("ping", &args);
    let ping = format!("ping {bus} --count 1000 --timeout 20ms");
    let _ping = Gateway(scene.command(&ping).stdout(Stdio::null()).spawn().unwrap());
    scene.run("pong", &format!("{bus} --count 3"));
}

fn run_tte(scene: &mut Scene) {
    scene.run("tte check", "one-switch.tte.toml");
    scene.run("tte model", "one-switch.tte.toml");
    scene.run("tte run", "tte.toml --out tte");
    let capture = scene.command("tte capture one-switch.tte.toml bed.pcapng").status().unwrap();
    assert!(capture.success());
    scene.run("tte analyze", "one-switch.tte.toml bed.pcapng --interface out/switch");
    let early = ONE_SWITCH.replace("\"350us\"", "\"15us\"");
    fs::write(scene.path("one-switch.tte.toml"), early).unwrap();
    scene.run("tte check", "one-switch.tte.toml");
}

const TWO_MESSAGES: &str = "BU_: A\n\nBO_ 1 Silent: 8 A\n\nBO_ 2 Speed: 8 A\n\n\
    BA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 1000;\nBA_DEF_DEF_ \"GenMsgCycleTime\" 0;\n\
    BA_ \"GenMsgCycleTime\" BO_ 2 10;\n";

fn run_lab(scene: &mut Scene) {
    scene.run("network show", "car.network.toml");
    scene.run("network bound", "car.network.toml");
    // A message that is not sent, of which there is a warning.
    fs::write(scene.path("two.dbc"), TWO_MESSAGES).unwrap();
    fs::write(scene.path("two.network.toml"), "bus.a.bitrate = '500k'\nbus.a.dbc = 'two.dbc'\n")
        .unwrap();
    scene.run("network bound", "two.network.toml");
    scene.run("network bound", "car.network.toml --explain 0x123");
    scene.run("network bound", "car.network.toml --sensitivity");
    let (one_bus, _) = NETWORK.split_once("[gateway").unwrap();
    fs::write(scene.path("one.network.toml"), one_bus.replace("0x18FEF100x", "0x124")).unwrap();
    scene.run("network bound", "one.network.toml --assign");
    scene.run("lab list", "two.toml");
    scene.run("lab list", "kernel.toml --coverage");
    scene.run("lab run", "two.toml --out before");
    scene.run("lab messages", "before");
    scene.run("lab claims", "two.toml --out claims");
    let longer = LOG.replace("052.249713", "052.239713");
    fs::write(scene.path("drive.log"), longer).unwrap();
    scene.run("lab run", "two.toml --out after --only *a* --set gateway.delay=36us --set count=2");
    scene.run("lab compare", "before after");
}

fn run_vm(scene: &mut Scene) {
    const RELEASE: &str = "6.12.1-made";
    fs::write(scene.path("bzImage"), fabricated::image(RELEASE)).unwrap();
    fabricated::tree(&scene.path("modules"), RELEASE, fabricated::NEEDED);
    scene.run("vm fetch", "--kernel bzImage --modules modules");
    scene.run("vm kernels", "");
    scene.run("vm cache", "");
    scene.run("vm clean", "--kernels");
}

#[test]
fn every_line_fits_the_schema() {
    let mut scene = Scene::new();
    scene.run("frame", "123#DEADBEEF 123##1AABB 12345678#R");
    scene.run("doctor", "");
    scene.run("log info", "drive.log --bitrate 500k");
    scene.run("log info", "drive.log");
    scene.run("log info", "ethernet.pcap");
    scene.run("log decode", "drive.log --dbc car.dbc");
    fs::write(scene.path("other.log"), LOG.replace("12345678#", "12345679#")).unwrap();
    scene.run("log diff", "drive.log other.log");
    scene.run("log diff", "drive.log ethernet.pcap");
    run_bus(&mut scene);
    run_route(&mut scene);
    run_ping(&mut scene);
    run_signals(&mut scene);
    run_tte(&mut scene);
    run_lab(&mut scene);
    run_vm(&mut scene);

    let mut all = BTreeSet::new();
    for object in &scene.objects {
        let (name, commands) = name_and_commands(object);
        all.extend(commands.into_iter().map(|command| (command.to_owned(), name.to_owned())));
    }
    for (command, name, _) in UNSEEN {
        let key = ((*command).to_owned(), (*name).to_owned());
        assert!(all.remove(&key), "candor {command} prints no {name}");
    }
    let missing: Vec<_> = all.difference(&scene.seen).collect();
    assert!(missing.is_empty(), "no line was seen of {missing:?}; run them, or say why not");
}

/// A field of which a program should know every word.
#[test]
fn words_are_listed_in_the_schema() {
    let (_, stdout, _) = printed(&["help", "json", "--schema"]);
    let schema: Value = serde_json::from_str(&stdout).unwrap();
    for (title, field, words) in [
        ("result of candor lab run", "testbed", &["sim", "vm", "host", "live"][..]),
        (
            "claim of candor lab claims",
            "agreement",
            &["yes", "no", "depends", "too_few_seeds", "missing"],
        ),
        (
            "figure of candor lab compare",
            "figure",
            &["min", "p50", "mean", "path", "instructions", "lost"],
        ),
        (
            "range of candor lab compare",
            "unit",
            &["ns", "frames", "percent", "count", "bit/s", "instructions", "bytes"],
        ),
        ("verdict of candor route explain", "verdict", &["forwarded", "refused", "ignored"]),
        ("finding of candor route check", "severity", &["error", "warning"]),
        (
            "cache of candor vm cache",
            "kind",
            &["kernel", "machine", "results", "headers", "compiler", "driver", "package lists"],
        ),
    ] {
        let objects = schema["oneOf"].as_array().unwrap();
        let is_meant = |object: &&Value| {
            let commands = object["title"].as_str().unwrap();
            commands == title || commands.starts_with(&format!("{title},"))
        };
        let object = objects.iter().find(is_meant).unwrap();
        let field = &object["properties"]["data"]["properties"][field];
        assert_eq!(field["enum"], serde_json::json!(words), "{title}");
    }
}

/// `candor WORDS`; what it prints.
fn printed(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_candor")).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// With `UPDATE_EXPECT=1` the file is written anew.
#[track_caller]
fn is_as_in_file(words: &[&str], name: &str) {
    let (code, stdout, stderr) = printed(words);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    expect_file![path].assert_eq(&stdout);
}

#[test]
fn objects_are_listed_and_described() {
    is_as_in_file(&["help", "json"], "help-json.txt");
    is_as_in_file(&["help", "json", "result"], "help-json-result.txt");
    is_as_in_file(&["help", "json", "lab", "claims"], "help-json-claims.txt");
}

#[test]
fn objects_are_found_by_type_and_by_command() {
    let heads = |words: &[&str]| {
        let (code, stdout, _) = printed(&[&["help", "json"], words].concat());
        assert_eq!(code, Some(0));
        let heads = stdout.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_owned()));
        heads.filter(|name| !name.contains(' ')).collect::<Vec<_>>()
    };
    for (words, found) in [
        (&["result"][..], &["result"][..]),
        (&["lab", "run"], &["result"]),
        (&["lab run"], &["result"]),
        (&["candor lab run"], &["result"]),
        (&["frame"], &["frame", "frame", "frame", "frame"]),
        (&["bus dump frame"], &["frame"]),
        (&["log"], &["frame", "only", "diff", "log", "id", "stream"]),
        (&["log", "diff"], &["only", "diff"]),
        (&["route", "load"], &["finding", "loaded", "rejected"]),
    ] {
        assert_eq!(heads(words), found, "{words:?}");
    }
    for (words, hint) in [
        (&["reslut"][..], "did you mean `result`?"),
        (&["lab", "rnu"], "did you mean `lab run`?"),
        (&["everything"], "`candor help json` lists all of them"),
    ] {
        let (code, stdout, stderr) = printed(&[&["help", "json"], words].concat());
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(stderr.ends_with(&format!("; {hint}\n")), "{stderr}");
    }
}

//! `candor bus` as its user sees it. Buses are recordings and simulated ones of this test alone.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use candor_linux::clock;
use candor_linux::poll::{self, Interest};
use candor_time::{Monotonic, Nanos, Realtime};

/// One interface, four kinds of frames, an error report.
const LOG: &str = "\
(1436509052.249713) can0 123#DEADBEEF
(1436509052.249913) can0 12345678#1122334455667788
(1436509052.259713) can0 123#R2
(1436509052.269713) can0 20000004#0020000000009000
(1436509052.269913) can0 1F0##1AABBCCDD
";

/// Two interfaces.
const TWO: &str = "\
(0000000001.000000) can0 100#01
(0000000001.001000) can1 200#02
(0000000001.002000) can0 20000004#00
(0000000001.004000) can0 101#03
";

const DBC: &str = "\
BU_: Engine

BO_ 291 EngineData: 8 Engine
 SG_ EngineSpeed : 7|16@0+ (0.25,0) [0|16000] \"rpm\" Vector__XXX
 SG_ Gear : 16|4@1+ (1,0) [0|15] \"\" Vector__XXX

VAL_ 291 Gear 0 \"neutral\" 1 \"first\" ;
";

/// A folder with these files.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, contents) in files {
            fs::write(folder.path().join(name), contents).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// `candor bus` with the words of a line. In words a `+` stands for a blank.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        command
            .arg("bus")
            .args(line.split(' ').map(|word| word.replace('+', " ")))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it.
    fn start(&self, line: &str) -> Child {
        self.command(line).spawn().unwrap()
    }

    /// Runs it to its end: exit code, standard output, standard error.
    fn run(&self, line: &str) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.start(line).wait_with_output().unwrap();
        (status.code(), text(&stdout), text(&stderr))
    }

    /// Runs it; what it says on standard output.
    fn success(&self, line: &str) -> String {
        let (code, stdout, stderr) = self.run(line);
        assert_eq!(code, Some(0), "{stderr}");
        stdout
    }

    /// The frames of a log, without times, interfaces and directions.
    fn frames(&self, name: &str) -> Vec<String> {
        frames(&self.read(name))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn frames(log: &str) -> Vec<String> {
    log.lines().map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect()
}

fn counted(frames: usize) -> String {
    if frames == 1 { "1 frame".into() } else { format!("{frames} frames") }
}

fn json(lines: &str) -> Vec<serde_json::Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends SIGINT, as Ctrl-C does; what it says on standard output and error until it ends.
fn interrupt(mut child: Child) -> (Option<i32>, String, String) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let (mut stdout, mut stderr) = (String::new(), String::new());
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut stdout).unwrap();
    }
    if let Some(mut err) = child.stderr.take() {
        err.read_to_string(&mut stderr).unwrap();
    }
    (child.wait().unwrap().code(), stdout, stderr)
}

/// Sends SIGTERM as soon as that is caught, and waits for the end without reading anything before: exit code, standard error.
fn terminate(mut child: Child) -> (Option<i32>, String) {
    // The thread that takes signals begins when they are caught.
    let takes_signals = |thread: io::Result<fs::DirEntry>| {
        let name = thread.and_then(|thread| fs::read_to_string(thread.path().join("comm")));
        name.is_ok_and(|name| name.trim() == "ctrl-c")
    };
    let threads = format!("/proc/{}/task", child.id());
    while !fs::read_dir(&threads).unwrap().any(takes_signals) {
        std::thread::yield_now();
    }
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let latest = clock::now::<Monotonic>() + Nanos::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        let now = clock::now::<Monotonic>();
        if now >= latest {
            child.kill().unwrap();
            panic!("it does not end");
        }
        clock::sleep_until(now + Nanos::from_millis(1)).unwrap();
    }
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}

/// Interrupts a generator, which reports all the same. Whether frames were lost depends on whose
/// process the bus was in, and when that ended.
fn end(generator: Child) {
    let (code, _, stderr) = interrupt(generator);
    assert!(matches!(code, Some(0 | 1)), "{stderr}");
    assert!(stderr.contains(" sent, 0 refused") && stderr.ends_with("seed 1\n"), "{stderr}");
}

/// A simulated bus of this test alone.
fn bench(name: &str) -> String {
    format!("sim:test-{}-{name}", std::process::id())
}

#[test]
fn dump_shows_the_columns_of_candump() {
    let scene = Scene::new(&[("drive.log", LOG)]);
    let (code, stdout, stderr) = scene.run("dump can0=file:drive.log?speed=max --errors");
    let expected = " \
(1436509052.249713)  can0  123   [4]  DE AD BE EF
 (1436509052.249913)  can0  12345678   [8]  11 22 33 44 55 66 77 88
 (1436509052.259713)  can0       123   [2]  remote request
 (1436509052.269713)  can0  20000004   [8]  00 20 00 00 00 00 90 00   ERRORFRAME  \
controller: error passive in sending; error counters: 144 sending, 0 receiving
 (1436509052.269913)  can0       1F0  [04]  AA BB CC DD
";
    assert_eq!((code, stdout.as_str()), (Some(0), expected));
    assert_eq!(stderr, "can0: 4 frames, 0 lost, 1 error report\n");

    let stdout = scene.success("dump can0=file:drive.log?speed=max -t z --count 2");
    let expected = " \
(000.000000)  can0  123   [4]  DE AD BE EF
 (000.000200)  can0  12345678   [8]  11 22 33 44 55 66 77 88
";
    assert_eq!(stdout, expected);
}

#[test]
fn dump_writes_a_log_as_it_was() {
    let scene = Scene::new(&[("drive.log", LOG)]);
    let stdout = scene.success("dump can0=file:drive.log?speed=max -L -e --log copy.log");
    assert_eq!(stdout, LOG);
    assert_eq!(scene.read("copy.log"), LOG);

    // Older programs of can-utils take what follows the point for microseconds.
    let fine = "(0000000001.123456789) can0 123#\n";
    let scene = Scene::new(&[("fine.log", fine)]);
    let line = "can0=file:fine.log?speed=max";
    assert_eq!(scene.success(&format!("dump {line} -L")), "(0000000001.123456) can0 123#\n");
    assert_eq!(scene.success(&format!("dump {line} -L -N")), fine);
    scene.success(&format!("record {line} -o cut.log"));
    assert_eq!(scene.read("cut.log"), "(0000000001.123456) can0 123#\n");
    scene.success(&format!("record {line} -o kept.pcapng"));
    assert_eq!(scene.success("dump can0=file:kept.pcapng?speed=max -L -N"), fine);
}

#[test]
fn dump_says_once_that_the_dbc_file_is_of_another_bus() {
    let log = "(1.000) c 125#00\n(1.001) c 124#00\n(1.002) c 20000004#0020000000009000\n";
    let scene = Scene::new(&[("a.log", log), ("car.dbc", DBC)]);
    let words = "(identifiers 0x125, 0x124); give the DBC file of this bus\n";
    for arguments in ["", " --errors", " --id 0x124", " --message EngineData", " --json"] {
        let (code, _, stderr) =
            scene.run(&format!("dump c=file:a.log?speed=max --dbc car.dbc{arguments}"));
        assert_eq!(code, Some(1), "{stderr}");
        let expected = format!("car.dbc describes none of the 2 frames of c {words}");
        assert!(stderr.ends_with(&expected), "{stderr}");
    }
    // Of two ports, one fits.
    let both = "dump c=file:a.log?speed=max d=file:b.log?speed=max --dbc car.dbc";
    fs::write(scene.path("b.log"), "(1.0) c 123#00\n").unwrap();
    let (code, _, stderr) = scene.run(both);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("give the DBC file"), "{stderr}");
    // What does not end says it before its end.
    let mut child = scene.start("dump c=file:a.log?loop=true --dbc car.dbc --message EngineData");
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("car.dbc describes none of the ") && line.ends_with(words), "{line}");
    let (code, ..) = interrupt(child);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(1), "{rest}");
    assert!(!rest.contains("give the DBC file"), "{rest}");
}

#[test]
fn the_time_of_a_recording_is_that_of_its_stamps() {
    let log: String = (0..30).map(|n| format!("({n}.000000) can0 123#00\n")).collect();
    // Its stamps are others, and so is its first one.
    let late: String = (0..30).map(|n| format!("({}.500000) can0 124#00\n", 500 + n)).collect();
    let rare = "(0.000000) can0 123#00\n(60.000000) can0 123#00\n";
    let scene = Scene::new(&[("a.log", &log), ("late.log", &late), ("rare.log", rare)]);
    let one = "file:a.log?speed=max";
    let two = "a=file:a.log?speed=max b=file:late.log?speed=max";
    for (ports, time, expected) in [
        (one, "10s", 10),
        (one, "10001ms", 11),
        (one, "1min", 30),
        ("file:a.log?speed=1000", "10s", 10),
        ("file:a.log?speed=max&loop=true", "100s", 100),
        (two, "10s", 20),
    ] {
        scene.success(&format!("record {ports} --time {time} --output out.log --force"));
        assert_eq!(scene.frames("out.log").len(), expected, "{ports} --time {time}");
        let stdout = scene.success(&format!("dump {ports} --time {time} -L"));
        assert_eq!(stdout.lines().count(), expected, "{ports} --time {time}");
        let stdout = scene.success(&format!("load {ports} --time {time} --json"));
        let totals = json(&stdout).into_iter().filter(|object| object["type"] == "total");
        let frames: u64 = totals.map(|total| total["data"]["frames"].as_u64().unwrap()).sum();
        assert_eq!(frames, expected as u64, "{ports} --time {time}");
    }
    // A bus ends by the clock of this machine, and the recording beside it, too: long after its first frame, though the
    // machine may be busy, and long before the second one.
    let simulated = bench("recorded");
    scene.success(&format!("record {simulated} file:rare.log --time 2s --output out.log --force"));
    assert_eq!(scene.frames("out.log").len(), 1);
}

#[test]
fn dump_selects_by_pattern_and_by_name() {
    let log = "(1.000000) c 123#0FA0010000000000\n(1.000000) c 124#00\n(1.000000) c 00000123#\n";
    let scene = Scene::new(&[("a.log", log), ("car.dbc", DBC)]);
    for (arguments, expected) in [
        ("--id 0x120/0x7F0", "123 124"),
        ("--id 0x120/0x7F0,!0x124", "123"),
        ("--id !0x123", "124 00000123"),
        ("--id 123:7FF", "123 00000123"),
        ("--id 0x123x", "00000123"),
        ("--dbc car.dbc --message EngineData", "123"),
        ("--dbc car.dbc --signal Gear", "123"),
        ("--dbc car.dbc", "123 124 00000123"),
    ] {
        let (code, stdout, stderr) =
            scene.run(&format!("dump file:a.log?speed=max -L {arguments}"));
        let ids: Vec<_> = frames(&stdout);
        let ids: Vec<_> = ids.iter().map(|frame| frame.split('#').next().unwrap()).collect();
        assert_eq!((code, ids.join(" ")), (Some(0), expected.to_owned()), "{arguments}");
        let is_everything = arguments == "--dbc car.dbc";
        let shown = format!("shown: {}\n", counted(ids.len()));
        let shown = if is_everything { String::new() } else { shown };
        assert_eq!(stderr, format!("file:a.log: 3 frames, 0 lost\n{shown}"));
    }
    let stdout = scene.success("dump can0=file:a.log?speed=max -t none --dbc car.dbc");
    let expected = "  can0  123   [8]  0F A0 01 00 00 00 00 00  EngineData: EngineSpeed 1000 rpm, \
                    Gear first\n  can0  124   [1]  00\n  can0  00000123   [0] \n";
    assert_eq!(stdout, expected);
    let stdout =
        scene.success("dump file:a.log?speed=max -t none --dbc car.dbc --signal EngineSpeed");
    assert!(stdout.ends_with("  EngineData: EngineSpeed 1000 rpm\n"), "{stdout}");

    let (code, _, stderr) = scene.run("dump file:a.log --dbc car.dbc --signal EngineSped");
    let expected =
        "candor: no signal of car.dbc is called `EngineSped`; did you mean `EngineSpeed`?\n";
    assert_eq!((code, stderr.as_str()), (Some(2), expected));
}

#[test]
fn dump_prints_json_lines() {
    let log = "(1.000000) c 123#0FA0010000000000\n(2.000000) c 20000040#0000000000000000\n";
    let scene = Scene::new(&[("a.log", log), ("car.dbc", DBC)]);
    let stdout = scene.success("dump can0=file:a.log?speed=max -e --dbc car.dbc --json");
    assert_eq!(
        json(&stdout),
        [
            serde_json::json!({"type": "frame", "data": {
                "port": "can0",
                "time_ns": 1_000_000_000,
                "hardware_ns": null,
                "origin": "bus",
                "frame": "123#0FA0010000000000",
                "id": "123",
                "kind": "data",
                "message": "EngineData",
                "signals": [
                    {"name": "EngineSpeed", "value": 1000.0, "unit": "rpm", "text": null},
                    {"name": "Gear", "value": 1.0, "unit": "", "text": "first"},
                ],
                "report": null,
            }}),
            serde_json::json!({"type": "frame", "data": {
                "port": "can0",
                "time_ns": 2_000_000_000,
                "hardware_ns": null,
                "origin": "bus",
                "frame": "20000040#0000000000000000",
                "id": "00000040",
                "kind": "error",
                "message": null,
                "signals": [],
                "report": "bus off: the controller has left the bus",
            }}),
            serde_json::json!({"type": "port", "data": {
                "port": "can0",
                "frames": 1,
                "error_reports": 1,
                "malformed": 0,
                "overflow": 0,
                "missing": 0,
                "out_of_order": 0,
                "unwritten": 0,
            }}),
        ]
    );
}

#[test]
fn dump_ends_when_nobody_reads_it() {
    let line = "(1.000000) can0 123#\n";
    let scene = Scene::new(&[("long.log", &line.repeat(200_000))]);
    let mut child = scene.start("dump file:long.log?speed=max");
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, " (0000000001.000000)  file:long.log  123   [0] \n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_silent_port_does_not_keep_dump_from_ending() {
    let scene = Scene::new(&[]);
    let bus = bench("silent");
    let generator = scene.start(&format!("generate {bus} --time 60s --rate 200/s --id 0x123"));
    let mut dump = scene.start(&format!("dump bench={bus} silent={}", bench("never")));
    // The first line tells that it is at work.
    let mut out = BufReader::new(dump.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    assert!(first.contains("bench  123   [8] "), "{first}");
    drop(out);
    let (code, _, stderr) = interrupt(dump);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("frames, 0 lost\n"), "{stderr}");
    assert!(stderr.ends_with("silent: 0 frames, 0 lost\n"), "{stderr}");
    end(generator);
}

/// Waits until nothing more goes into the pipe and the bus has brought more frames than would have.
fn fill(scene: &Scene, bus: &str, writer: &io::PipeWriter) {
    while poll::wait(writer, Interest::Write, Some(Nanos::ZERO)).unwrap() {
        std::thread::yield_now();
    }
    scene.success(&format!("dump {bus} --count 200"));
}

#[test]
fn dump_ends_while_nobody_reads_it_and_counts_what_it_could_not_print() {
    let scene = Scene::new(&[]);
    let bus = bench("unread");
    let generator = scene.start(&format!("generate {bus} --time 60s --rate 2000/s --id 0x123"));
    for how in ["--json", "--json --id 0x123", "-L"] {
        let (mut reader, writer) = io::pipe().unwrap();
        let line = format!("dump bench={bus} {how}");
        // Whoever made the process must not keep the pipe open.
        let dump = scene.command(&line).stdout(writer.try_clone().unwrap()).spawn().unwrap();
        fill(&scene, &bus, &writer);
        let (code, stderr) = terminate(dump);
        drop(writer);
        let mut stdout = String::new();
        reader.read_to_string(&mut stdout).unwrap();
        assert_eq!(code, Some(1), "{stderr}");
        let number = |before: &str| -> usize {
            let (_, rest) = stderr.split_once(before).unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        let printed = stdout.matches('\n').count();
        let unprinted = number("standard output: nobody read it; not printed: ");
        assert_eq!(number("bench: "), printed + unprinted, "{stderr}");
        if how.contains("--id") {
            assert_eq!(number("shown: "), printed, "{stderr}");
        }
    }
    end(generator);
}

#[test]
fn load_ends_while_nobody_reads_it() {
    let scene = Scene::new(&[]);
    let bus = bench("load-unread");
    let generator = scene.start(&format!("generate {bus} --time 60s --rate 2000/s"));
    let (_reader, writer) = io::pipe().unwrap();
    let line = format!("load {bus}@1M --interval 1ms --json");
    let load = scene.command(&line).stdout(writer.try_clone().unwrap()).spawn().unwrap();
    fill(&scene, &bus, &writer);
    let (code, stderr) = terminate(load);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(" frames, "), "{stderr}");
    assert!(stderr.ends_with(" lines, with the totals\n"), "{stderr}");
    end(generator);
}

/// A pipe without a writer, with a quiet one, and standard input.
#[test]
fn replay_ends_while_its_input_is_silent() {
    let scene = Scene::new(&[]);
    let bus = bench("silent-input");
    let pipe = scene.path("pipe.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let none = format!("{bus}: 0 sent, 0 refused\n");
    let (code, stderr) = terminate(scene.start(&format!("replay pipe.log {bus}")));
    assert_eq!((code, stderr), (Some(0), none.clone()));
    let (input, writer) = io::pipe().unwrap();
    let line = format!("replay - {bus} --speed max --json");
    let mut replay = scene.command(&line).stdin(input).spawn().unwrap();
    let mut stdout = replay.stdout.take().unwrap();
    assert_eq!(terminate(replay), (Some(0), none));
    drop(writer);
    let mut delivery = String::new();
    stdout.read_to_string(&mut delivery).unwrap();
    let delivery = &json(&delivery)[0]["data"];
    assert_eq!((delivery["port"].as_str(), delivery["sent"].as_u64()), (Some(&*bus), Some(0)));
    // A recording that stands still behind a frame.
    let mut dump = scene.start(&format!("dump bench={bus} -t none"));
    let mut out = BufReader::new(dump.stdout.take().unwrap());
    let mut line = String::new();
    loop {
        // Until the dump is on the bus.
        let replay = scene.start(&format!("replay pipe.log {bus}"));
        let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        writer.write_all(b"(1.000000) can0 123#11\n").unwrap();
        let is_there =
            poll::wait(out.get_ref(), Interest::Read, Some(Nanos::from_secs(2))).unwrap();
        let (code, stderr) = terminate(replay);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(!stderr.contains("no CAN frames"), "{stderr}");
        if is_there {
            assert!(stderr.starts_with(&format!("{bus}: 1 sent, 0 refused\n")), "{stderr}");
            break;
        }
    }
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "  bench  123   [1]  11\n");
    drop(out);
    interrupt(dump);
}

#[test]
fn send_takes_frames_and_names() {
    let scene = Scene::new(&[("car.dbc", DBC)]);
    let (code, stdout, stderr) = scene.run("send file:out.log 123#DE 124#R2 12345678##1AABB");
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert_eq!(stderr, "file:out.log: 3 sent, 0 refused\n");
    assert_eq!(scene.frames("out.log"), ["123#DE", "124#R2", "12345678##1AABB"]);

    scene.success("send file:names.log --dbc car.dbc EngineData EngineSpeed=1000 Gear=first -n 2");
    assert_eq!(scene.frames("names.log"), ["123#0FA0010000000000"; 2]);

    for (arguments, reason) in [
        ("12#", "`12#` is not a frame: an identifier has 3 hex digits"),
        ("EngineData", "`EngineData` is not a frame; write 123#DEADBEEF, or add --dbc FILE"),
        ("--dbc car.dbc EngineDate", "no message of car.dbc is called `EngineDate`; did you mean"),
        ("--dbc car.dbc EngineData Gear=99", "`Gear` is 99, but must be 0 to 15"),
    ] {
        let (code, _, stderr) = scene.run(&format!("send file:no.log {arguments}"));
        assert_eq!(code, Some(2));
        assert!(stderr.starts_with(&format!("candor: {reason}")), "{stderr}");
        assert!(!scene.path("no.log").exists());
    }
}

#[test]
fn what_cannot_be_sent_is_reported() {
    let scene = Scene::new(&[]);
    let port = format!("{}?bitrate=1k&queue=1", bench("slow"));
    // An error report is never on the wire.
    let (code, _, stderr) = scene.run(&format!("send {port} 20000004#00 123#"));
    assert_eq!(code, Some(1));
    let reason =
        format!("{port}: 20000004#00 was not sent: the port does not support this kind of frame; ");
    assert!(stderr.starts_with(&reason), "{stderr}");
    assert!(stderr.ends_with(": 1 sent, 1 refused (1 not supported)\n"), "{stderr}");

    // A frame takes more than 100 ms: without patience the second one finds no room.
    let flood = format!("generate {port} --flood --count 2 --json");
    let (code, stdout, stderr) = scene.run(&format!("{flood} --wait 1ms"));
    assert_eq!(code, Some(1), "{stderr}");
    let report = &json(&stdout)[0]["data"];
    assert_eq!((&report["sent"], &report["full"]), (&1.into(), &1.into()));
    assert!(stderr.contains(": 1 sent, 1 refused (1 no room)"), "{stderr}");
    // With patience it waits.
    let (code, stdout, _) = scene.run(&flood);
    let report = &json(&stdout)[0]["data"];
    assert_eq!(code, Some(0));
    assert_eq!((&report["sent"], &report["waited"]), (&2.into(), &1.into()));
    assert!(report["waiting_ns"].as_u64().unwrap() > 1_000_000);
}

#[test]
fn generate_repeats_itself_with_the_same_seed() {
    let scene = Scene::new(&[]);
    for (file, arguments) in
        [("a", "--seed 7 --flood"), ("b", "--seed 7 --rate 20k/s"), ("c", "--seed 8 --flood")]
    {
        let line = format!("generate file:{file}.log -l 0-8 {arguments}");
        let (code, _, stderr) = scene.run(&line);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stderr.contains("1000 sent, 0 refused"), "{stderr}");
        let seed = arguments.split(' ').nth(1).unwrap();
        assert!(stderr.ends_with(&format!("seed {seed}\n")), "{stderr}");
    }
    assert_eq!(scene.frames("a.log").len(), 1_000);
    assert_eq!(scene.frames("a.log"), scene.frames("b.log"));
    assert_ne!(scene.frames("a.log"), scene.frames("c.log"));

    scene.success("generate file:d.log --flood -n 3 -i 0x7FFx-0x800x -l 2 -d increment");
    assert_eq!(scene.frames("d.log"), ["000007FF#0000", "00000800#0100", "000007FF#0200"]);
    scene.success("generate file:e.log --flood -n 1 -i 0x1 --fd -l 12 -d AB");
    assert_eq!(scene.frames("e.log"), [format!("001##1{}", "AB".repeat(12))]);

    for (arguments, reason) in [
        ("--load 50%", "file:no.log: a load needs the bit rate of the bus"),
        ("-l 12", "12 bytes of data, but a classical CAN frame has at most 8; add --fd"),
    ] {
        let (code, _, stderr) = scene.run(&format!("generate file:no.log {arguments}"));
        assert_eq!(code, Some(2));
        assert!(stderr.starts_with(&format!("candor: {reason}")), "{stderr}");
    }
}

#[test]
fn generate_keeps_to_its_time() {
    let scene = Scene::new(&[]);
    // 200 frames of 112 bits at 1 Mbit/s, at half load: one each 224 us.
    let data = "-i 0x123 -d 1122334455667788";
    let stdout =
        scene.success(&format!("generate file:a.log@1M --load 50% {data} --time 44800us --json"));
    let report = &json(&stdout)[0]["data"];
    assert_eq!(report["sent"], 200);
    assert_eq!(report["planned_ns"], 199 * 224_000);
    let (took, drift) = (report["took_ns"].as_i64().unwrap(), report["drift_ns"].as_i64().unwrap());
    assert_eq!(took - drift, 199 * 224_000);
    let late = |key: &str| report[key].as_u64().unwrap();
    assert!(
        late("late_ns_p50") <= late("late_ns_p99") && late("late_ns_p99") <= late("late_ns_max")
    );
}

#[test]
fn replay_sends_what_was_recorded() {
    let scene = Scene::new(&[("two.log", TWO)]);
    let (code, _, stderr) = scene.run("replay two.log file:all.log");
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(scene.frames("all.log"), ["100#01", "200#02", "101#03"]);
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!(lines[0], "file:all.log: 3 sent, 0 refused");
    assert!(lines[1].starts_with("took ") && lines[1].contains(" of 4.00 ms planned (drift "));
    assert_eq!(lines[2], "two.log: 1 error report skipped: they cannot be sent");

    let (_, _, stderr) = scene.run("replay two.log --map can1=file:one.log --loop 2 --speed max");
    assert_eq!(scene.frames("one.log"), ["200#02", "200#02"]);
    let left_out = "two.log: 4 records skipped because of --id, or because no port takes them\n";
    assert!(stderr.contains(left_out), "{stderr}");

    scene.success("replay two.log file:x.log --map can1=file:y.log --speed 4 --id 0x100-0x2FF");
    assert_eq!(scene.frames("x.log"), ["100#01", "101#03"]);
    assert_eq!(scene.frames("y.log"), ["200#02"]);

    let (code, _, stderr) = scene.run("replay two.log --map can7=file:z.log --speed max");
    assert_eq!(code, Some(1));
    assert!(stderr.contains("no frame is of interface `can7`; "), "{stderr}");

    let (code, _, stderr) = scene.run("replay none.log file:no.log");
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("candor: none.log: cannot be read"), "{stderr}");
}

/// A capture of Ethernet in which each line of a log is a datagram of can2udp to this UDP port: of version 2 if the frame
/// has flags, else of version 1.
fn can2udp(log: &str, port: u16) -> Vec<u8> {
    let numbers = |numbers: &[u32]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    let hex = |digits: &str| -> Vec<u8> {
        let bytes = digits.as_bytes().chunks(2).map(|two| str::from_utf8(two).unwrap());
        bytes.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
    };
    let mut out = numbers(&[0xA1B2_3C4D, 0x0004_0002, 0, 0, 65_535, 1]);
    for line in log.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let (seconds, fraction) = words[0].trim_matches(['(', ')']).split_once('.').unwrap();
        let nanos = format!("{fraction:0<9}").parse().unwrap();
        let (id, data) = words[2].split_once('#').unwrap();
        let extended = if id.len() == 8 { 0x8000_0000 } else { 0 };
        let id = u32::from_str_radix(id, 16).unwrap() | extended;
        let mut datagram = vec![1, 0, 0, 0];
        let (remote, data, flags) = match data.strip_prefix(['R', '#']) {
            None => (0, hex(data), None),
            Some(_) if data.starts_with('R') => (0x4000_0000, vec![0; 2], None),
            Some(rest) => (0, hex(&rest[1..]), Some(rest.as_bytes()[0] - b'0')),
        };
        datagram.extend((id | remote).to_le_bytes());
        datagram.extend([data.len() as u8, flags.map_or(0, |flags| flags | 4), 0, 0]);
        datagram.extend(data);
        datagram[0] = if flags.is_some() { 2 } else { 1 };
        datagram.resize(if flags.is_some() { 84 } else { 20 }, 0);
        let mut frame = hex("FFFFFFFFFFFF02000000000108004500");
        frame.extend((28 + datagram.len() as u16).to_be_bytes());
        // A check sum is not there: the network card was to add it.
        frame.extend(hex("00000000401100000A2F00020A2F0001C000"));
        frame.extend(port.to_be_bytes());
        frame.extend((8 + datagram.len() as u16).to_be_bytes());
        frame.extend([0; 2]);
        frame.extend(datagram);
        let len = frame.len() as u32;
        out.extend(numbers(&[seconds.parse().unwrap(), nanos, len, len]));
        out.extend(frame);
    }
    out
}

#[test]
fn can_frames_in_captures_of_ethernet_are_replayed() {
    let log: String =
        LOG.split_inclusive('\n').filter(|line| !line.contains("20000004#")).collect();
    let lines = log.replace("can0", "udp4858.0");
    let scene = Scene::new(&[("drive.log", &log)]);
    fs::write(scene.path("run.pcap"), can2udp(&log, 4858)).unwrap();
    fs::write(scene.path("other.pcap"), can2udp(&log, 5000)).unwrap();

    // As a port: the same frames at the same times.
    for name in [
        "run.pcap?",
        "run.pcap?interface=udp4858.0&",
        "run.pcap?can_udp=4858&",
        "other.pcap?can_udp=5000&",
    ] {
        let stdout = scene.success(&format!("dump can0=file:{name}speed=max -L"));
        assert_eq!(stdout, log, "{name}");
    }
    for name in ["other.pcap?", "run.pcap?can_udp=none&"] {
        assert_eq!(scene.success(&format!("dump file:{name}speed=max -L")), "", "{name}");
    }
    let (code, _, stderr) = scene.run("dump file:run.pcap?can_udp=0");
    assert_eq!(code, Some(2));
    assert!(stderr.contains("`can_udp=0` is not a valid value; write for example can_udp=5000"));
    let (_, _, stderr) = scene.run("dump file:run.pcap?interface=can0&speed=max");
    assert!(stderr.contains("its interfaces are udp4858.0"), "{stderr}");

    // Replayed: in their order, as late as they were.
    let begin = clock::now::<Realtime>().as_nanos() / 1_000;
    let (code, _, stderr) = scene.run("replay run.pcap file:all.log");
    assert_eq!((code, stderr.contains("4 sent, 0 refused")), (Some(0), true), "{stderr}");
    assert_eq!(scene.frames("all.log"), frames(&log));
    let all = scene.read("all.log");
    let micros = |line: &str| line[1..18].replace('.', "").parse::<u64>().unwrap();
    let times: Vec<_> = all.lines().map(micros).collect();
    // The first one may be late; then the others are not.
    assert!(times[3] - begin >= 20_000, "{all}");
    scene.success("replay run.pcap --map udp4858.0=file:mapped.log --speed max");
    scene.success("replay other.pcap file:other.log --can-udp 5000 --speed max");
    assert_eq!(
        (scene.frames("mapped.log"), scene.frames("other.log")),
        (frames(&log), frames(&log))
    );
    let (code, _, stderr) = scene.run("replay other.pcap file:no.log");
    let hint = "other.pcap: the recording has no CAN frames, but 4 Ethernet frames: name the UDP port with --can-udp if \
                they contain CAN frames\n";
    assert_eq!((code, stderr.ends_with(hint)), (Some(0), true), "{stderr}");

    // Converted, and what is no datagram of can2udp said or counted.
    let convert = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_candor"))
            .args(["log", "convert"])
            .args(arguments)
            .current_dir(scene.folder.path())
            .output();
        let Output { status, stdout, stderr } = output.unwrap();
        (status.code(), text(&stdout), text(&stderr))
    };
    let (code, stdout, stderr) = convert(&["run.pcap", "-"]);
    assert_eq!(
        (code, stdout, stderr.as_str()),
        (Some(0), lines.clone(), "4 records: pcap -> candump\n")
    );
    // Candor writes such captures, too; interfaces come back as numbers.
    let two = log.replace("can0 123#R2", "can1 123#R2");
    fs::write(scene.path("two.log"), &two).unwrap();
    let (code, _, stderr) = convert(&["two.log", "written.pcap", "--to", "can2udp"]);
    assert_eq!((code, stderr.as_str()), (Some(0), "4 records: candump -> can2udp\n"));
    let (_, stdout, _) = convert(&["written.pcap", "-"]);
    assert_eq!(stdout, two.replace("can", "udp4858."));
    assert_eq!(scene.success("dump can0=file:written.pcap?speed=max -L"), log);
    let (code, _, stderr) = convert(&["two.log", "x.pcap", "--to", "x"]);
    assert_eq!(
        (code, stderr.contains("candump, pcap, pcapng, asc, blf, trc, can2udp")),
        (Some(2), true)
    );

    let mut bad = can2udp(&log, 4858);
    bad[24 + 78 + 16 + 42] = 7;
    fs::write(scene.path("bad.pcap"), bad).unwrap();
    let message = "bad.pcap: byte 102 (record 2): the datagram to UDP port 4858 is not of can2udp: byte 0: unknown version \
                   7; set --can-udp (can_udp= of a file port) to the UDP port of the CAN frames, or to none";
    let (code, _, stderr) = convert(&["bad.pcap", "-"]);
    assert_eq!(code, Some(2));
    assert!(
        stderr.ends_with(&format!("{message}; or skip such records with --skip-malformed\n")),
        "{stderr}"
    );
    let (code, stdout, stderr) = convert(&["bad.pcap", "-", "--skip-malformed"]);
    let rest: String =
        lines.split_inclusive('\n').filter(|line| !line.contains("12345678#")).collect();
    assert_eq!((code, stdout), (Some(0), rest));
    assert!(
        stderr.contains(&format!("malformed records skipped: 1; the first: {message}\n")),
        "{stderr}"
    );
    let (_, _, stderr) = scene.run("dump file:bad.pcap?speed=max");
    assert!(stderr.contains("3 frames, 0 lost, 1 malformed"), "{stderr}");
    let (code, _, stderr) = convert(&["run.pcap", "-", "--can-udp", "x"]);
    assert_eq!(
        (code, stderr.contains("write a UDP port from 1 to 65535, or none")),
        (Some(2), true),
        "{stderr}"
    );
}

#[test]
fn replay_of_a_damaged_recording_sends_what_is_whole() {
    let damaged = TWO.replace("(0000000001.004000) can0 101#03", "(0000000001.004000) can0 1");
    let scene = Scene::new(&[("bad.log", &damaged)]);
    let (code, _, stderr) = scene.run("replay bad.log file:a.log");
    assert_eq!(code, Some(2));
    assert!(stderr.contains("candor: bad.log:4:27: an identifier has 3 hex digits"), "{stderr}");
    assert_eq!(scene.frames("a.log"), ["100#01", "200#02"]);
    let (code, _, stderr) = scene.run("replay bad.log file:b.log --skip-malformed");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.ends_with("bad.log: 1 malformed record skipped\n"), "{stderr}");
}

#[test]
fn load_is_exact_for_classical_frames_and_can_fd() {
    // 112 bits each 10 ms at 100 kbit/s.
    let frame = |number: u64| {
        format!("({}.{:06}) c 123#1122334455667788\n", 1 + number / 100, number % 100 * 10_000)
    };
    let log: String = (0..250).map(frame).collect();
    let scene = Scene::new(&[("a.log", &log), ("fd.log", "(1.000000) c 123##1AABB\n")]);
    let stdout = scene.success("load can0=file:a.log?speed=max@100k --top 1");
    // What is measured begins with the first frame, 1120 us before its end.
    let expected = "\
(0000000000.998880)  can0       100 frames/s   11.20 %  peak  11.20 %
(0000000001.998880)  can0       100 frames/s   11.20 %  peak  11.20 %
(0000000002.998880)  can0       102 frames/s   11.40 %  peak  11.20 %  in the last 491 ms

port     time  frames  frames/s     load     peak  error reports
----  -------  ------  --------  -------  -------  -------------
can0  2.491 s     250     100.4  11.24 %  11.20 %              0

port  busiest  frames  frames/s     load
----  -------  ------  --------  -------
can0      123     250     100.4  11.24 %
";
    assert_eq!(stdout, expected);

    let stdout = scene.success("load file:fd.log@500k,2M --json");
    let lines = json(&stdout);
    let [interval, total] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&interval["type"], &total["type"]), (&"interval".into(), &"total".into()));
    let data = &interval["data"];
    // The same bits as `candor frame` tells: 29 and 49.
    assert_eq!((&data["nominal_bits"], &data["data_bits"]), (&29.into(), &49.into()));
    let percent = data["load_percent"].as_f64().unwrap();
    // One frame alone: the bus was busy from its beginning to its end.
    assert_eq!((&data["time_ns"], percent), (&82_500.into(), 100.0));
    assert_eq!(total["data"]["data_bitrate"], 2_000_000);
    assert_eq!(total["data"]["ids"][0]["id"], "123");

    let (_, stdout, stderr) = scene.run("load file:fd.log");
    assert!(stdout.contains("        78 bit/s"), "{stdout}");
    assert!(stderr.starts_with("file:fd.log: the load needs the bit rate of the bus"), "{stderr}");
}

#[test]
fn record_keeps_everything_and_its_order() {
    let scene = Scene::new(&[]);
    let bus = bench("record");
    let generator =
        scene.start(&format!("generate {bus} --time 60s --rate 50/s -i 0x123 -d increment"));
    // A bus keeps 128 frames for a recorder that has no processor: those of 2.6 s.
    let (code, stdout, stderr) =
        scene.run(&format!("record can0={bus} -o drive.log -n 100 --json"));
    assert_eq!(code, Some(0), "{stderr}");
    end(generator);
    let lines = json(&stdout);
    assert_eq!((&lines[0]["type"], &lines[0]["data"]["frames"]), (&"file".into(), &100.into()));
    assert_eq!(lines[1]["data"]["overflow"], 0);
    let log = scene.read("drive.log");
    assert!(log.lines().all(|line| line.split(' ').nth(1) == Some("can0")));
    let numbers: Vec<_> = frames(&log)
        .iter()
        .map(|frame| u64::from_str_radix(&frame[4..], 16).unwrap().swap_bytes())
        .collect();
    assert_eq!(numbers.len(), 100);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
}

#[test]
fn record_ends_in_order_when_interrupted() {
    let scene = Scene::new(&[("old.pcapng", "something older")]);
    let bus = bench("interrupted");
    let generator = scene.start(&format!("generate {bus} --time 60s --rate 100/s"));
    let recorder = scene.start(&format!("record can0={bus} -o old.pcapng --force"));
    // It is at work when its file grows: twice a second.
    let grows = |entry: &Path| {
        entry.extension().is_some_and(|ending| ending == "part")
            && fs::metadata(entry).is_ok_and(|file| file.len() > 2_000)
    };
    while !fs::read_dir(scene.folder.path()).unwrap().any(|entry| grows(&entry.unwrap().path())) {
        std::thread::yield_now();
    }
    assert_eq!(scene.read("old.pcapng"), "something older");
    let (code, _, stderr) = interrupt(recorder);
    assert_eq!(code, Some(0), "{stderr}");
    end(generator);
    let frames: u64 = stderr.split(' ').nth(1).unwrap().replace(',', "").parse().unwrap();
    let stdout = scene.success("dump file:old.pcapng?speed=max -L");
    assert_eq!(stdout.lines().count() as u64, frames);
    assert_eq!(fs::read_dir(scene.folder.path()).unwrap().count(), 1, "nothing is left over");
}

#[test]
fn recordings_can_be_split_and_bounded() {
    let log: String = (0..100).map(|n| format!("(1.{n:06}) can0 123#{n:02X}\n")).collect();
    let scene = Scene::new(&[("in.log", &log)]);
    // 32 bytes a line.
    scene.success("record can0=file:in.log?speed=max -o a.log --split 1k");
    let parts = [1, 2, 3, 4].map(|number| scene.read(&format!("a-{number:04}.log")));
    assert_eq!(parts.each_ref().map(|part| part.lines().count()), [32, 32, 32, 4]);
    assert_eq!(frames(&parts.concat()), frames(&log));
    assert!(!scene.path("a.log").exists() && !scene.path("a-0005.log").exists());

    scene.success("record can0=file:in.log?speed=max -o b.log --size 320");
    assert_eq!(scene.frames("b.log").len(), 10);

    for (arguments, reason) in [
        ("file:in.log -o c.txt", "c.txt: the format candump-console is read, but not written"),
        (
            "a=file:in.log b=file:in.log -o c.pcap",
            "c.pcap: a pcap capture holds only one interface",
        ),
        ("nothing:at-all -o c.log", "nothing:at-all: unknown driver `nothing`"),
        ("file:in.log -o none/c.log", "none/c.log: cannot be written: "),
    ] {
        let (code, _, stderr) = scene.run(&format!("record {arguments}"));
        assert_eq!(code, Some(2));
        assert!(stderr.starts_with(&format!("candor: {reason}")), "{stderr}");
        assert!(!scene.path("c.log").exists());
    }
}

#[test]
fn list_tells_the_kinds_of_ports() {
    let scene = Scene::new(&[]);
    let stdout = scene.success("list");
    assert!(stdout.contains("\nsocketcan ") && stdout.contains("\ndriver "), "{stdout}");
    let stdout = scene.success("list --json");
    let drivers: Vec<_> =
        json(&stdout).into_iter().filter(|line| line["type"] == "driver").collect();
    for name in ["socketcan", "file"] {
        let driver = drivers.iter().find(|driver| driver["data"]["name"] == name).unwrap();
        assert!(!driver["data"]["options"].as_array().unwrap().is_empty());
        assert!(driver["data"]["example"].is_string());
    }
}

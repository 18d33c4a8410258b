//! `candor log` as its user sees it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

/// Two buses, one malformed line, an error report and a step back in time.
const LOG: &str = "\
# two buses
(1000000000.000000) can0 123#1122334455667788
(1000000000.000000) can1 12345678#DEADBEEF00000000
(1000000000.010000) can0 123#1122334455667788
(1000000000.010100) can0 20000004#0001000000000000
(1000000000.022000) can0 123#1122334455667788
(1000000000.021000) can1 12345678#R4
(1000000000.023
(1000000000.030000) can0 7FF#
";

fn candor(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_candor"))
        .arg("log")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        // It may refuse its input before reading all of it, and write before that.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().unwrap()
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs it; what it says on standard output and on standard error.
fn success(arguments: &[&str], input: &str) -> (String, String) {
    let output = candor(arguments, input);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// Runs it; what it says on standard error.
fn failure(arguments: &[&str], input: &str) -> String {
    let output = candor(arguments, input);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

#[test]
fn info_shows_tables() {
    let (stdout, stderr) = success(&["info", "-", "--bitrate", "500k", "--skip-malformed"], LOG);
    let expected = "\
-: candump log
frames                                       6
ids                                          3
from                       1000000000.000000 s
to                         1000000000.030000 s
duration                            0.030000 s
longest pause                       0.011900 s
  it began at              1000000000.010100 s
error reports                                1
records out of order                         1
malformed records skipped                    1

bus   frames  frames/s  load at 500k  peak 10 ms  peak 100 ms  peak 1 s
can0       4     100.0        1.83 %      3.24 %            -         -
can1       2      47.6        0.64 %      2.80 %            -         -

bus   id        frames  bytes  period ms  min ms  max ms  stddev ms     share
can0  123            3      8     11.000  10.000  12.000      1.000   87.05 %
can0  7FF            1      0          -       -       -          -   12.95 %
can1  12345678       2    4-8     21.000  21.000  21.000      0.000  100.00 %
";
    assert_eq!(stdout, expected);
    assert_eq!(
        stderr,
        "note: malformed records skipped: 1; the first: standard input:8:16: this is not a \
         time; expected seconds with 1 to 9 decimals in parentheses, for example \
         `(1436509052.249713)`\n"
    );
}

/// Names of files are bytes on Linux.
#[test]
fn a_file_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.log"));
    fs::write(&path, LOG).unwrap();
    let info = Command::new(env!("CARGO_BIN_EXE_candor"))
        .args(["log", "info", "--skip-malformed"])
        .arg(path)
        .output();
    let info = info.unwrap();
    assert!(info.status.success(), "{}", text(&info.stderr));
}

/// A pcap file with three Ethernet frames of 60 bytes, 1 ms apart, tagged for VLAN 7; the last one is cut.
fn ethernet() -> Vec<u8> {
    const HEADER: [u8; 18] = [3, 4, 5, 6, 0, 1, 2, 0, 0, 0, 0, 1, 0x81, 0x00, 0xE0, 7, 0x88, 0xD7];
    let bytes =
        |numbers: &[u32]| numbers.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
    let mut out = bytes(&[0xA1B2_3C4D, 0x0004_0002, 0, 0, 65_535, 1]);
    for (time_ns, len) in [(0, 60), (1_000_000, 60), (2_000_000, 18)] {
        out.extend(bytes(&[1_000_000_000, time_ns, len, 60]));
        let mut frame = HEADER.to_vec();
        frame.resize(len as usize, 0);
        out.extend(frame);
    }
    out
}

#[test]
fn ethernet_frames_have_links_and_streams() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [capture, copy, log] = ["a.pcap", "a.pcapng", "a.log"].map(path);
    fs::write(&capture, ethernet()).unwrap();
    let (stdout, stderr) = success(&["info", &capture], "");
    let expected = format!(
        "\
{capture}: pcap capture
frames                                   0
ids                                      0
from                   1000000000.000000 s
to                     1000000000.002000 s
duration                        0.002000 s
longest pause                   0.001000 s
  it began at          1000000000.000000 s
Ethernet frames                          3
  cut by the recorder                    1

link  frames  frames/s  bytes  Mbit/s
eth0       3    1000.0    180   0.672

link  destination        vlan  type    frames  bytes  period ms  min ms  max ms  stddev ms
eth0  03:04:05:06:00:01  7     0x88d7       3     60      1.000   1.000   1.000      0.000
"
    );
    assert_eq!((stdout, stderr.as_str()), (expected, ""));

    let (_, stderr) = success(&["convert", &capture, &copy], "");
    assert_eq!(stderr, "3 records: pcap -> pcapng\n");
    let objects = |file: &str| {
        let (stdout, _) = success(&["info", file, "--json"], "");
        let lines = stdout.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    let (of_capture, of_copy) = (objects(&capture), objects(&copy));
    assert_eq!(of_capture[0]["data"]["links"], of_copy[0]["data"]["links"]);
    let stream = serde_json::json!({"type": "stream", "data": {
        "interface": "eth0",
        "destination": "03:04:05:06:00:01",
        "vlan": 7,
        "ether_type": "0x88d7",
        "frames": 3,
        "len_min": 60,
        "len_max": 60,
        "period_ns_mean": 1_000_000.0,
        "period_ns_min": 1_000_000,
        "period_ns_max": 1_000_000,
        "period_ns_stddev": 0.0,
    }});
    assert_eq!((&of_capture[1..], &of_copy[1..]), (&[stream.clone()][..], &[stream][..]));

    let (_, stderr) = success(&["convert", &copy, &log], "");
    assert_eq!(
        stderr,
        "note: a candump log cannot store Ethernet frames; frames left out: 3; use pcapng to keep \
         them\n0 records: pcapng -> candump\n"
    );
    let dbc = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/small-car.dbc");
    let (stdout, stderr) = success(&["decode", &copy, "--dbc", dbc], "");
    assert_eq!(stdout, "");
    assert_eq!(
        stderr,
        "note: Ethernet frames passed over: 3\n0 frames: 0 described by the DBC file, 0 shown\n"
    );
}

#[test]
fn info_prints_json_lines() {
    let log = "(1.000000) can0 123##1AABB\n(1.250000) can0 123##1AABBCC\n";
    let (stdout, _) = success(&["info", "-", "--json", "--bitrate=500k", "--data-bitrate=2M"], log);
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            serde_json::json!({"type": "log", "data": {
                "file": "-",
                "format": "candump",
                "compression": null,
                "frames": 2,
                "error_reports": 0,
                "ids": 1,
                "first_ns": 1_000_000_000,
                "last_ns": 1_250_000_000,
                "duration_ns": 250_000_000,
                "pause_ns_max": 250_000_000,
                "pause_from_ns": 1_000_000_000,
                "rate_per_s": 4.0,
                "out_of_order": 0,
                "skipped": 0,
                "unverified": 0,
                "lost_frames": 0,
                "ethernet_frames": 0,
                "cut_frames": 0,
                "short_frames": 0,
                "unlisted_stream_frames": 0,
                "other_packets": 0,
                "start_ns": null,
                "unlisted_frames": 0,
                "bitrate": 500_000,
                "data_bitrate": 2_000_000,
                "buses": [{
                    "interface": "can0",
                    "frames": 2,
                    "error_reports": 0,
                    "rate_per_s": 4.0,
                    // The second frame in 250 ms: 29 bits at 500 kbit/s, 57 bits at 2 Mbit/s.
                    "load_percent": 0.0346,
                    // The second frame takes 86.5 us, which is more than the first one.
                    "peak_10ms_percent": 0.865,
                    "peak_100ms_percent": 0.0865,
                    "peak_1s_percent": null,
                }],
                "links": [],
            }}),
            serde_json::json!({"type": "id", "data": {
                "interface": "can0",
                "id": "123",
                "frames": 2,
                "remote_frames": 0,
                "fd_frames": 2,
                "len_min": 2,
                "len_max": 3,
                "period_ns_mean": 250_000_000.0,
                "period_ns_min": 250_000_000,
                "period_ns_max": 250_000_000,
                "period_ns_stddev": 0.0,
                "share_percent": 100.0,
            }}),
        ]
    );
}

#[test]
fn an_empty_log_is_a_log() {
    let (stdout, stderr) = success(&["info", "-", "--from", "candump"], "");
    assert_eq!(stdout, "-: candump log\nframes  0\nids     0\n");
    assert_eq!(stderr, "note: -: the recording has no frames\n");
}

#[test]
fn convert_keeps_everything_the_format_holds() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let log = "\
(0000000001.000000) can0 123#DEADBEEF
(0000000001.000000500) body 12345678#R4 T
(0000000002.000000) can0 123##3AABB R
(0000000003.000000) can0 20000088#0000000000000000
(0000000003.000001) can0 7FF#1122334455667788_C
";
    let (_, stderr) = success(&["convert", "-", &file("a.pcapng")], log);
    assert_eq!(stderr, "5 records: candump -> pcapng\n");
    let (back, stderr) = success(&["convert", &file("a.pcapng"), "-"], "");
    assert_eq!((back.as_str(), stderr.as_str()), (log, "5 records: pcapng -> candump\n"));

    let one_bus = log.replace("body", "can0");
    let (_, stderr) = success(&["convert", "-", &file("a.pcap")], &one_bus);
    assert_eq!(
        stderr,
        "note: a pcap capture cannot store directions; records that lost their direction: 2\n\
         5 records: candump -> pcap\n"
    );
    let (back, _) = success(&["convert", &file("a.pcap"), "-"], "");
    assert_eq!(back, one_bus.replace(" R\n", "\n").replace(" T\n", "\n"));
}

#[test]
fn a_failed_convert_leaves_the_good_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good.pcap");
    fs::write(&path, "good").unwrap();
    let path = path.to_str().unwrap();

    let malformed = failure(&["convert", "-", path, "--to", "candump", "--force"], LOG);
    assert!(
        malformed.contains("standard input:8:16: this is not a time")
            && malformed.ends_with("; or skip such records with --skip-malformed\n"),
        "{malformed}"
    );
    let two_buses = failure(&["convert", "-", path, "--skip-malformed", "--force"], LOG);
    assert!(two_buses.contains("good.pcap: the format holds only one interface"), "{two_buses}");
    assert_eq!(fs::read_to_string(path).unwrap(), "good");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_came_before_damage_without_end_is_kept_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let log: String = (0..100).map(|at| format!("({at}.5) can0 123#11\n")).collect();
    success(&["convert", "-", &path("a.pcapng"), "--from", "candump"], &log);
    let mut bytes = fs::read(path("a.pcapng")).unwrap();
    let half = bytes.len() / 2;
    bytes[half..half + 200].fill(0);
    fs::write(path("a.pcapng"), bytes).unwrap();
    let stderr = failure(&["convert", &path("a.pcapng"), &path("b.log")], "");
    assert!(stderr.ends_with("; or keep what comes before it with --skip-malformed\n"), "{stderr}");
    assert!(!folder.path().join("b.log").exists());
    let output = candor(&["convert", &path("a.pcapng"), &path("b.log"), "--skip-malformed"], "");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("; what comes before it was read, and nothing behind it\n"),
        "{stderr}"
    );
    let kept = fs::read_to_string(path("b.log")).unwrap();
    assert!((40..60).contains(&kept.lines().count()), "{kept}");
    let (whole, _) = success(&["convert", "-", "-", "--from", "candump"], &log);
    assert!(whole.starts_with(&kept), "{kept}");
}

#[test]
fn what_cannot_be_done_is_said_in_one_sentence() {
    for (arguments, message) in [
        (&["info", "no-such.log"][..], "no-such.log: cannot be read: No such file"),
        (&["info", "."], ".: cannot be read: Is a directory"),
        (&["cut", "no-such.log", "-"], "no-such.log: cannot be read: No such file"),
        (&["merge", "-", "no-such.log", "-", "--from", "candump"], "no-such.log: cannot be read:"),
        (&["diff", "no-such.log", "-"], "no-such.log: cannot be read:"),
        (&["diff", "-", "-"], "only one recording can be standard input"),
        (&["merge", "-", "-", "a.log"], "only one recording can be standard input"),
        (
            &["merge", "a.log", "b.log", "c.log", "--offset", "d.log=1s"],
            "`d.log` in --offset is none of IN; did you mean `a.log`?",
        ),
        (
            &["merge", "a.log", "b.log", "c.log", "--offset", "a.log=1s", "--offset", "a.log=-1s"],
            "--offset names `a.log` twice",
        ),
        (&["cut", "-", "-", "--id", "1800"], "`1800` is not a selection"),
        (&["cut", "-", "-", "--after", "2s", "--before", "1s"], "--after must be the earlier"),
        (
            &["info", "-"],
            "standard input: not a recording in one of the formats candump, pcap, pcapng, asc, blf, trc, gvret,",
        ),
        (&["convert", "-", "x.xyz", "--from", "candump"], "x.xyz: unknown file extension"),
        (
            &["convert", "-", "no/x.log", "--from", "candump"],
            "no/x.log: cannot be written: No such",
        ),
    ] {
        let stderr = failure(arguments, "");
        assert!(stderr.contains(message), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    for (arguments, message) in [
        (
            &["info", "-", "--from", "mf5"][..],
            "[possible values: candump, pcap, pcapng, asc, blf, trc, gvret,",
        ),
        (&["info", "-", "--bitrate=-1"], "expected a bit rate"),
        (&["info", "-", "--data-bitrate", "2M"], "--bitrate"),
        (&["diff", "a.log", "b.log", "--within", "5"], "the unit of a duration is"),
        (&["merge", "a.log", "b.log"], "2 values required by '<IN> <IN>...'"),
        (
            &["merge", "a.log", "b.log", "-", "--offset", "1s"],
            "expected IN=DURATION, such as b.log=-250ms",
        ),
        (
            &["merge", "a.log", "b.log", "-", "--offset", "a.log=1"],
            "the unit of a duration is ns, us, ms, s, min or h",
        ),
        (&["cut", "-", "-", "--after", "5"], "write 5s for a time after the first frame, or 5.0"),
        (&["cut", "-", "-", "--pgn", "0xEF12"], "write 0xEF00"),
        (&["cut", "-", "-", "--message", "Motor"], "--dbc <FILE>"),
    ] {
        let stderr = failure(arguments, "");
        assert!(stderr.contains(message), "{stderr}");
    }
}

#[test]
fn nobody_reading_is_no_failure() {
    let log = LOG.lines().nth(1).unwrap().to_owned() + "\n";
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.log").display().to_string();
    fs::write(&empty, "").unwrap();
    for (arguments, code) in [
        (&["convert", "-", "-"][..], 0),
        (&["cut", "-", "-", "--id", "0x123"], 0),
        (&["merge", "-", &empty, "-"], 0),
        // What was shown differs, and that is an answer.
        (&["diff", "-", &empty, "--all"], 1),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_candor"))
            .arg("log")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        // More than any buffer on the way; it stops reading when nobody listens.
        let _ = child.stdin.take().unwrap().write_all(log.repeat(100_000).as_bytes());
        let output = child.wait_with_output().unwrap();
        let ended = (output.status.code(), text(&output.stderr));
        assert_eq!(ended, (Some(code), String::new()), "{arguments:?}");
    }
}

#[test]
#[ignore = "needs ../shared/data; `./test --only replay` runs it"]
fn recorded_buses_survive_conversion() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = tempfile::tempdir().unwrap();
    let convert = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        success(&["convert", from.to_str().unwrap(), to.to_str().unwrap(), "--force"], "");
        to
    };
    for log in
        ["ford-focus/lights.log", "ford-focus/accel.log", "j1939/j1939.log", "savvycan/candump.log"]
    {
        let original = data.join(log);
        let back = convert(&convert(&original, "a.pcapng"), "b.log");
        // Hex in any case and any number of leading zeros mean the same.
        let normal = |path: &Path| -> Vec<String> {
            let lines = fs::read_to_string(path).unwrap().to_uppercase();
            lines.lines().map(|line| line.trim_start_matches(['(', '0']).to_owned()).collect()
        };
        assert_eq!(normal(&original), normal(&back), "{log}");
    }
    let log = convert(&data.join("n2k/can0-1.pcap"), "n2k.log");
    let again = convert(&convert(&log, "n2k.pcap"), "again.log");
    assert!(fs::read(&log).unwrap().len() > 49_000 * 40);
    assert_eq!(fs::read(&log).unwrap(), fs::read(&again).unwrap());
}

const DBC: &str = "\
BU_: Engine

BO_ 291 Motor: 8 Engine
 SG_ Speed : 7|16@0+ (0.25,0) [0|16000] \"rpm\" Vector__XXX
 SG_ Gear : 16|4@1- (1,0) [-8|7] \"\" Vector__XXX
 SG_ Torque : 24|32@1- (1,0) [0|0] \"Nm\" Vector__XXX

VAL_ 291 Gear 0 \"neutral\" 1 \"first\" -1 \"unknown\" ;
SIG_VALTYPE_ 291 Torque : 1;
";

const DRIVE: &str = "\
(1.000000) can0 123#0FA1010000C84200 R
(1.010000) can1 124#00
(1.020000) can0 123#0000020000C07F00
(1.030000) can0 123#00000F
";

fn dbc() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("car.dbc");
    fs::write(&path, DBC).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn decode_shows_the_signals_of_each_frame() {
    let (_folder, dbc) = dbc();
    let (stdout, stderr) = success(&["decode", "-", "--dbc", &dbc], DRIVE);
    let expected = "\
(0000000001.000000) can0 123#0FA1010000C84200 R
  Speed 1000.25 rpm
  Gear first (1)
  Torque 100 Nm
(0000000001.010000) can1 124#00
(0000000001.020000) can0 123#0000020000C07F00
  Speed 0 rpm
  Gear 2
  Torque NaN Nm
(0000000001.030000) can0 123#00000F
  Speed 0 rpm
  Gear unknown (-1)
";
    assert_eq!(stdout, expected);
    assert_eq!(stderr, "4 frames: 3 described by the DBC file, 4 shown\n");
    let (stdout, stderr) = success(&["decode", "-", "--dbc", &dbc, "--signal", "Torque"], DRIVE);
    assert_eq!(stdout.lines().count(), 4, "{stdout}");
    assert_eq!(stderr, "4 frames: 3 described by the DBC file, 2 shown\n");
}

#[test]
fn a_dbc_file_of_another_bus_is_told_and_the_answer_is_no() {
    let (_folder, dbc) = dbc();
    for (recording, words) in [
        ("(1.0) can0 124#00\n", "does not describe the 1 frame of - (identifier 0x124)"),
        (
            "(1.0) can0 00000123#00\n(1.1) can0 124#00\n(1.2) can0 20000004#0020000000009000\n(1.3) can0 124#01\n",
            "describes none of the 4 frames of - (identifiers 0x00000123, 0x124)",
        ),
    ] {
        let output = candor(&["decode", "-", "--dbc", &dbc], recording);
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expected = format!("{dbc} {words}; give the DBC file of this bus\n");
        assert!(stderr.ends_with(&expected), "{stderr}");
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        // The frames themselves are shown all the same.
        assert!(String::from_utf8(output.stdout).unwrap().contains("124#00"));
    }
}

#[test]
fn decode_prints_json_lines() {
    let (_folder, dbc) = dbc();
    let (stdout, _) = success(&["decode", "-", "--dbc", &dbc, "--json"], DRIVE);
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let signal = |name: &str, raw: i64, value: Option<f64>, unit: &str, text: Option<&str>| {
        let mut signal = serde_json::json!({"name": name, "raw": raw, "value": value});
        signal["unit"] = unit.into();
        signal["text"] = text.into();
        signal
    };
    let torque = |bits: u32| i64::from(bits.cast_signed());
    assert_eq!(
        lines[0],
        serde_json::json!({"type": "frame", "data": {
            "time_ns": 1_000_000_000,
            "interface": "can0",
            "direction": "received",
            "frame": "123#0FA1010000C84200",
            "message": "Motor",
            "signals": [
                signal("Speed", 4_001, Some(1_000.25), "rpm", None),
                signal("Gear", 1, Some(1.0), "", Some("first")),
                signal("Torque", torque(100_f32.to_bits()), Some(100.0), "Nm", None),
            ],
        }})
    );
    assert_eq!(
        lines[1],
        serde_json::json!({"type": "frame", "data": {
            "time_ns": 1_010_000_000,
            "interface": "can1",
            "direction": null,
            "frame": "124#00",
            "message": null,
            "signals": [],
        }})
    );
    // JSON has no value for what is no number.
    assert_eq!(
        lines[2]["data"]["signals"][2],
        signal("Torque", torque(0x7FC0_0000), None, "Nm", None)
    );
}

#[test]
fn decode_writes_a_row_of_csv_per_value() {
    let (folder, dbc) = dbc();
    let dbc_text = DBC.replace("\"rpm\"", "\"1/min, \u{b0}\"");
    fs::write(&dbc, dbc_text).unwrap();
    let second = folder.path().join("second.log").display().to_string();
    let log = "(2.5) vcan0 123#0FA0\n(2.6) can0 123#R\n(2.7) can0 20000004#0020000000009000\n";
    fs::write(&second, log).unwrap();
    let decode = |arguments: &[&str]| {
        let command = ["decode", "-", &second, "--dbc", &dbc, "--format", "csv"];
        success(&[&command, arguments].concat(), DRIVE)
    };
    let (stdout, stderr) = decode(&[]);
    let expected = "\
time,bus,message,signal,value,unit
1.000000000,can0,Motor,Speed,1000.25,\"1/min, \u{b0}\"
1.000000000,can0,Motor,Gear,1,
1.000000000,can0,Motor,Torque,100,Nm
1.020000000,can0,Motor,Speed,0,\"1/min, \u{b0}\"
1.020000000,can0,Motor,Gear,2,
1.020000000,can0,Motor,Torque,NaN,Nm
1.030000000,can0,Motor,Speed,0,\"1/min, \u{b0}\"
1.030000000,can0,Motor,Gear,-1,
2.500000000,vcan0,Motor,Speed,1000,\"1/min, \u{b0}\"
";
    assert_eq!(stdout, expected);
    let expected = "7 frames of 2 recordings: 5 described by the DBC file, 9 values\n";
    assert_eq!(stderr, expected);
    for (arguments, kept) in [
        (&["--signal", "*e?r"][..], &["Gear"][..]),
        (&["--signal", "M*.Torque", "--signal", "Gear"], &["Gear", "Torque"]),
        (&["--message", "?otor", "--signal", "Gear"], &["Speed", "Gear", "Torque"]),
    ] {
        let is_kept = |line: &&str| kept.iter().any(|name| line.contains(&format!(",{name},")));
        let expected: Vec<_> = stdout.lines().filter(is_kept).collect();
        let (rows, _) = decode(arguments);
        assert_eq!(rows.lines().skip(1).collect::<Vec<_>>(), expected, "{arguments:?}");
    }
}

#[test]
fn decode_takes_several_files_and_patterns() {
    let (folder, dbc) = dbc();
    let second = folder.path().join("second.log").display().to_string();
    fs::write(&second, "(2.5) can0 123#0FA0\n").unwrap();
    let (stdout, stderr) = success(
        &["decode", "-", &second, "--dbc", &dbc, "--signal", "Sp*", "--format", "table"],
        DRIVE,
    );
    let expected = "\
(0000000001.000000) can0 123#0FA1010000C84200 R
  Speed 1000.25 rpm
(0000000001.020000) can0 123#0000020000C07F00
  Speed 0 rpm
(0000000001.030000) can0 123#00000F
  Speed 0 rpm
(0000000002.500000) can0 123#0FA0
  Speed 1000 rpm
";
    assert_eq!(stdout, expected);
    assert_eq!(stderr, "5 frames of 2 recordings: 4 described by the DBC file, 4 shown\n");
    let decode = |format| success(&["decode", "-", "--dbc", &dbc, format], DRIVE);
    assert_eq!(decode("--json"), decode("--format=json"));
    // What comes before an error is shown.
    fs::write(&second, "(2.5) can0 nothing\n").unwrap();
    let output = candor(&["decode", "-", &second, "--dbc", &dbc, "--format", "csv"], DRIVE);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout).lines().count(), 9);
    // No frame of any.
    fs::write(&second, "(2.5) can0 124#\n").unwrap();
    let output = candor(&["decode", &second, &second, "--dbc", &dbc, "--format", "csv"], "");
    let expected = format!(
        "2 frames of 2 recordings: 0 described by the DBC file, 0 values\n\
         {dbc} describes none of the 2 frames of 2 recordings (identifier 0x124); give the DBC file of this bus\n"
    );
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), expected));
    assert_eq!(text(&output.stdout), "time,bus,message,signal,value,unit\n");
}

#[test]
fn a_closed_pipe_does_not_stop_decode_with_an_error() {
    let (folder, dbc) = dbc();
    let file = folder.path().join("long.log");
    fs::write(&file, DRIVE.repeat(5_000)).unwrap();
    for format in ["table", "json", "csv"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_candor"))
            .args(["log", "decode"])
            .arg(&file)
            .args(["--dbc", &dbc, "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
}

#[test]
fn decode_tells_what_is_wrong() {
    let (folder, dbc) = dbc();
    let stderr = failure(&["decode", "-", "--dbc", "no.dbc"], DRIVE);
    assert!(stderr.starts_with("no.dbc: error: the file cannot be read: "), "{stderr}");
    let stderr = failure(&["decode", "-", "--dbc", &dbc, "--message", "Moter"], DRIVE);
    assert_eq!(
        stderr,
        format!("candor: no message of {dbc} is called `Moter`; did you mean `Motor`?\n")
    );
    for (arguments, expected) in [
        (
            &["--json", "--format", "csv"][..],
            "--json and --format name two formats; leave one of them out",
        ),
        (&["-"], "only one recording can be standard input (-); name files for the others"),
        #[cfg(not(feature = "arrow"))]
        (
            &["--format", "arrow"],
            "--format arrow: this build has no Arrow; build it with the feature `arrow`: cargo build --release --features \
             arrow",
        ),
    ] {
        let stderr = failure(&[&["decode", "-", "--dbc", &dbc], arguments].concat(), DRIVE);
        assert_eq!(stderr, format!("candor: {expected}\n"));
    }
    let stderr = failure(&["decode", "-", "--dbc", &dbc, "--signal", "Motor.Torq*e?"], DRIVE);
    assert!(stderr.contains("no signal of `Motor` is called `Torq*e?`"), "{stderr}");
    let broken = folder.path().join("broken.dbc").display().to_string();
    fs::write(&broken, DBC.replace(": 8", " 8")).unwrap();
    let stderr = failure(&["decode", "-", "--dbc", &broken], DRIVE);
    assert!(
        stderr.starts_with(&format!("{broken}:3:15: error: this is not a DBC file: ")),
        "{stderr}"
    );
    // A warning does not stop it.
    fs::write(&broken, DBC.replace("VAL_ 291 Gear", "VAL_ 291 Gaer")).unwrap();
    let (_, stderr) = success(&["decode", "-", "--dbc", &broken], DRIVE);
    assert!(stderr.contains("hint: did you mean `Gear`?"), "{stderr}");
}

/// What a command prints for [`LOG`] without its malformed line.
fn cut(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = candor(&[&["cut", "-", "-", "--skip-malformed"], arguments].concat(), LOG);
    let stderr = text(&output.stderr);
    let stderr = stderr.lines().filter(|line| !line.contains("malformed")).collect::<Vec<_>>();
    (output.status.code(), text(&output.stdout), stderr.join("\n"))
}

#[test]
fn cut_keeps_what_meets_all_criteria() {
    let lines = |numbers: &[usize]| {
        let lines: Vec<_> = LOG.lines().collect();
        numbers.iter().map(|&number| format!("{}\n", lines[number - 1])).collect::<String>()
    };
    for (arguments, kept) in [
        (&[][..], &[2, 3, 4, 5, 6, 7, 9][..]),
        (&["--after", "10ms"], &[4, 5, 6, 7, 9]),
        (&["--after", "10ms", "--before", "21ms"], &[4, 5]),
        (&["--before", "1000000000.021"], &[2, 3, 4, 5]),
        (&["--bus", "can1"], &[3, 7]),
        (&["--bus", "can1", "--bus", "can0"], &[2, 3, 4, 5, 6, 7, 9]),
        (&["--id", "0x123,0x12345678x"], &[2, 3, 4, 6]),
        (&["--id", "any 0x12345678x", "--id", "0x7F0/0x7F0"], &[3, 7, 9]),
        (&["--id", "!0x100-0x1FF", "--bus", "can0"], &[5, 9]),
        (&["--pgn", "0x3400"], &[]),
        (&["--pgn", "0x23400"], &[3, 7]),
        (&["--pgn", "144384", "--id", "extended", "--after", "0.0"], &[3]),
    ] {
        let (code, stdout, stderr) = cut(arguments);
        assert_eq!(stdout, lines(kept), "{arguments:?}");
        let expected = format!("{} of 7 frames kept: candump -> candump", kept.len());
        assert_eq!((code, stderr), (Some(i32::from(kept.is_empty())), expected), "{arguments:?}");
    }
}

#[test]
fn cut_keeps_messages_by_name() {
    let (_folder, dbc) = dbc();
    let by_name = |name| ["cut", "-", "-", "--dbc", &dbc, "--message", name].map(str::to_owned);
    let words = by_name("Motor");
    let (stdout, stderr) = success(&words.each_ref().map(String::as_str), DRIVE);
    assert_eq!((stdout.lines().count(), stdout.contains("124#")), (3, false));
    assert_eq!(stderr, "3 of 4 frames kept: candump -> candump\n");
    let words = by_name("Moter");
    assert_eq!(
        failure(&words.each_ref().map(String::as_str), DRIVE),
        format!("candor: no message of {dbc} is called `Moter`; did you mean `Motor`?\n")
    );
}

#[test]
fn a_cut_with_nothing_in_it_is_a_recording_and_the_answer_is_no() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.pcapng").display().to_string();
    let output = candor(&["cut", "-", &path, "--bus", "can3", "--bus", "lin"], DRIVE);
    let stderr = text(&output.stderr);
    let expected = "\
note: no frame is of interface `can3`; did you mean `can0`?
note: no frame is of interface `lin`; there are those of `can0` and `can1`
0 of 4 frames kept: candump -> pcapng
";
    assert_eq!((output.status.code(), stderr.as_str()), (Some(1), expected));
    let (_, stderr) = success(&["info", &path], "");
    assert_eq!(stderr, format!("note: {path}: the recording has no frames\n"));
}

#[test]
fn ethernet_frames_are_cut_by_time_and_interface_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [capture, part] = ["a.pcap", "a.pcapng"].map(path);
    fs::write(&capture, ethernet()).unwrap();
    for (arguments, kept) in [
        (&[][..], 3),
        (&["--bus", "eth0", "--after", "1ms"], 2),
        (&["--bus", "can0"], 0),
        (&["--id", "!0x123"], 0),
        (&["--pgn", "61444"], 0),
    ] {
        let words = [&["cut", &capture, &part, "--force"], arguments].concat();
        let output = candor(&words, "");
        let stderr = text(&output.stderr);
        let expected = format!("{kept} of 3 frames kept: pcap -> pcapng\n");
        assert!(stderr.ends_with(&expected), "{arguments:?}: {stderr}");
        assert_eq!(output.status.code(), Some(i32::from(kept == 0)), "{arguments:?}");
    }
}

#[test]
fn merge_is_by_time_and_shifts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [a, b, blf] = ["a.log", "b.log", "b.blf"].map(path);
    fs::write(&a, "(5.000000) can0 111#\n(7.000000) can0 112#\n(6.000000) can0 113#\n").unwrap();
    fs::write(&b, "(1.000000) can0 221#\n(2.000000) can1 222#\n(9.500000) can1 223# T\n").unwrap();
    success(&["convert", &b, &blf], "");
    let later = format!("{blf}=+4s");
    let (stdout, stderr) = success(&["merge", &a, &blf, "-", "--offset", &later], "");
    let expected = "\
(0000000005.000000) can0 111#
(0000000005.000000) can0 221# R
(0000000006.000000) can1 222# R
(0000000007.000000) can0 112#
(0000000006.000000) can0 113#
(0000000013.500000) can1 223# T
";
    assert_eq!(stdout, expected);
    let expected = format!(
        "note: {a}: 1 record stamped earlier than the one before; they stay behind it, so OUT goes \
         back in time there, too; put them in order with --sort\n\
         6 records of 2 recordings: candump, blf -> candump\n"
    );
    assert_eq!(stderr, expected);
    // The order of IN is that of records with one time; a recording may be standard input.
    let log = fs::read_to_string(&a).unwrap();
    let (stdout, _) = success(&["merge", &b, "-", "-", "--offset", "-=-4s"], &log);
    assert!(stdout.starts_with("(0000000001.000000) can0 221#\n(0000000001.000000) can0 111#\n"));

    let earlier = format!("{b}=-1500ms");
    let stderr = failure(&["merge", &a, &b, "-", "--offset", &earlier], "");
    assert_eq!(
        stderr,
        format!(
            "candor: {b}: record 1, stamped 1.000000000 s, would be before 0 if shifted by \
             -1.500000000 s; shift it by less\n"
        )
    );
}

#[test]
fn merged_ethernet_frames_are_kept_where_they_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [capture, log, merged] = ["a.pcap", "a.log", "a.pcapng"].map(path);
    fs::write(&capture, ethernet()).unwrap();
    fs::write(&log, "(1000000000.0015) can0 123#\n").unwrap();
    let (_, stderr) = success(&["merge", &capture, &log, &merged], "");
    assert_eq!(stderr, "4 records of 2 recordings: pcap, candump -> pcapng\n");
    let (stdout, _) = success(&["info", &merged, "--json"], "");
    let line: serde_json::Value = serde_json::from_str(stdout.lines().next().unwrap()).unwrap();
    let counts =
        ["frames", "ethernet_frames", "out_of_order"].map(|key| line["data"][key].as_u64());
    assert_eq!(counts, [Some(1), Some(3), Some(0)]);
    let (stdout, stderr) = success(&["merge", &capture, &log, "-"], "");
    assert_eq!(stdout, "(1000000000.001500) can0 123#\n");
    assert!(
        stderr.contains("frames left out: 3; use pcapng to keep them\n1 record of 2"),
        "{stderr}"
    );
}

/// Two hundred frames of two interfaces, 10 ms apart.
fn even() -> Vec<String> {
    let frame = |n: u32| {
        let data = if n.is_multiple_of(2) { n } else { 0 };
        format!("({}.{:02}0000) can{} 12{}#{data:08X}", 100 + n / 100, n % 100, n % 2, n % 4)
    };
    (0..200).map(frame).collect()
}

#[test]
fn diff_finds_what_is_missing_and_how_clocks_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [a, b, same] = ["a.log", "b.log", "same.blf"].map(path);
    let lines = even();
    fs::write(&a, lines.join("\n") + "\n").unwrap();
    // The clock of B is 7 s ahead and gains 1 ms per second.
    let stamped = |(n, line): (usize, &String)| {
        let time_us = 107_000_000 + n * 10_010;
        let (_, rest) = line.split_once(' ').unwrap();
        format!("({}.{:06}) {rest}\n", time_us / 1_000_000, time_us % 1_000_000)
    };
    let is_kept = |(n, _): &(usize, &String)| ![3, 50, 51].contains(n);
    let other: String = lines.iter().enumerate().filter(is_kept).map(stamped).collect();
    fs::write(&b, other + "(110.0) can0 7FF#\n").unwrap();

    let output = candor(&["diff", &a, &b], "");
    let expected = format!(
        "\
only in      frame
A                4  (0000000100.030000) can1 123#00000000
A               51  (0000000100.500000) can0 122#00000032
A               52  (0000000100.510000) can1 123#00000000
B              198  (0000000110.000000) can0 7FF#

frames in both                                  197
only in A, {a} 3
only in B, {b} 1
offset of B at the first common frame   7.000000000 s
offset of B at the last common frame    7.001990000 s
drift of B                               1000.000 ppm
largest deviation from that line                 0 ns
"
    );
    let squeezed = |text: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let stdout = text(&output.stdout);
    assert_eq!(squeezed(&stdout), squeezed(&expected), "{stdout}");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));

    success(&["convert", &a, &same], "");
    let (stdout, stderr) = success(&["diff", &a, &same], "");
    assert!(stdout.starts_with("frames in both "), "{stdout}");
    assert_eq!(
        stderr,
        "note: candump and blf do not name interfaces alike; they are not compared\n"
    );
}

#[test]
fn diff_shows_the_first_frames_or_all() {
    let folder = tempfile::tempdir().unwrap();
    let a = folder.path().join("a.log").display().to_string();
    fs::write(&a, even().join("\n") + "\n").unwrap();
    for (arguments, lines) in [(&[][..], 1 + 10 + 1 + 1 + 3), (&["--all"], 1 + 200 + 1 + 3)] {
        let output = candor(&[&["diff", &a, "-", "--from", "candump"], arguments].concat(), "");
        assert_eq!(output.status.code(), Some(1));
        let stdout = text(&output.stdout);
        assert_eq!(stdout.lines().count(), lines, "{stdout}");
        assert_eq!(stdout.contains("\n(--all shows 190 more)\n"), arguments.is_empty());
        assert!(text(&output.stderr).contains("--offset says otherwise"));
    }
    let output = candor(&["diff", &a, "-", "--from", "candump", "--json"], "");
    let stdout = text(&output.stdout);
    let last: serde_json::Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!((stdout.lines().count(), &last["type"]), (11, &"diff".into()));
    let facts = ["both", "only_a", "only_b", "drift_ppm"].map(|key| last["data"][key].clone());
    assert_eq!(facts, [0.into(), 200.into(), 0.into(), serde_json::Value::Null]);
}

#[test]
fn diff_compares_interfaces_unless_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.log", "b.log"].map(|name| folder.path().join(name).display().to_string());
    fs::write(&a, "(1.0) can0 123#11 R\n(2.0) can0 124#\n").unwrap();
    fs::write(&b, "(1.0) can1 123#11 T\n(2.2) can1 124#\n").unwrap();
    for (arguments, code) in [
        (&["--any-bus"][..], 0),
        (&["--any-bus", "--offset", "-50ms", "--within", "250ms"], 0),
        (&["--any-bus", "--offset", "0", "--within", "100ms"], 1),
        (&[], 1),
    ] {
        let output = candor(&[&["diff", &a, &b], arguments].concat(), "");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stdout));
        assert_eq!(text(&output.stderr).contains("--any-bus"), arguments.is_empty());
        let is_late = text(&output.stdout).contains("late by more than 100 ms");
        assert_eq!(is_late, arguments.contains(&"100ms"), "{}", text(&output.stdout));
    }
}

/// Delays, a stall and a clock that goes back change no frame; one that was overtaken is in another order.
#[test]
fn diff_goes_by_the_order_of_frames() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.log", "b.log"].map(|name| folder.path().join(name).display().to_string());
    let lines = |stamp: fn(u64) -> u64| {
        let line = |n: u64| {
            format!("({}.{:03}) can0 {:03X}#11\n", stamp(n) / 1_000, stamp(n) % 1_000, n % 50)
        };
        (0..2_000).map(line).collect::<Vec<_>>()
    };
    fs::write(&a, lines(|n| 9_000 + n).concat()).unwrap();
    for stamp in [
        |n: u64| 9_000 + n + 300 * u64::from(n == 700),
        |n: u64| 9_000 + if n < 500 { n } else { n.max(1_400) },
        |n: u64| 9_000 + n - 400 * (n / 500),
    ] {
        fs::write(&b, lines(stamp).concat()).unwrap();
        let (stdout, _) = success(&["diff", &a, &b], "");
        assert!(stdout.starts_with("frames in both ") && stdout.contains(" 2000\n"), "{stdout}");
    }
    let mut swapped = lines(|n| 9_000 + n);
    swapped.swap(1_000, 1_003);
    fs::write(&b, swapped.concat()).unwrap();
    let (stdout, _) = success(&["diff", &a, &b], "");
    assert!(stdout.contains("of those in both, in another order"), "{stdout}");
}

/// What no checksum confirms is shown, counted, and no success; the same file with its checksum is one.
#[test]
fn what_a_compressed_recording_does_not_confirm_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let dbc = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/small-car.dbc");
    let log = "(1.000000) can0 0C0#0000D00C00000000\n(2.000000) can0 0C0#0000D40C00000001\n";
    let plain = path("plain.log");
    fs::write(&plain, log).unwrap();
    let (whole, wrong, cut) = (path("whole.log.gz"), path("wrong.log.gz"), path("cut.log.gz"));
    success(&["convert", &plain, &whole], "");
    let mut bytes = fs::read(&whole).unwrap();
    let checksum = bytes.len() - 8;
    fs::write(&cut, &bytes[..checksum]).unwrap();
    bytes[checksum] ^= 1;
    fs::write(&wrong, &bytes).unwrap();
    let out = path("out.log");
    for (file, code, said) in [
        (&whole, 0, ""),
        (&wrong, 1, "has a wrong checksum; nothing behind it was read"),
        (&cut, 1, "ends inside what is compressed with gzip"),
    ] {
        let commands: [&[&str]; 5] = [
            &["info", file, "--json"],
            &["convert", file, &out, "--force"],
            &["cut", file, &out, "--id", "0x0C0", "--force"],
            &["merge", &plain, file, &out, "--force"],
            &["decode", file, "--dbc", dbc],
        ];
        for command in commands {
            let output = candor(command, "");
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
            let unverified =
                "records before it that are unverified, since no checksum confirms them: 2";
            assert_eq!(stderr.contains(unverified), code == 1, "{command:?}: {stderr}");
            assert!(stderr.contains(said), "{command:?}: {stderr}");
            match command[0] {
                "info" => {
                    let json = format!(r#""unverified":{}"#, 2 * code);
                    assert!(text(&output.stdout).contains(&json), "{}", text(&output.stdout));
                }
                "decode" => assert!(text(&output.stdout).contains("0000D40C"), "{command:?}"),
                "merge" => {}
                _ => assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 2),
            }
        }
    }
}

/// The last of them is 70,000 records late, two are nearer to their place.
fn out_of_order() -> String {
    let line = |time: u64| format!("({time}.000000) can0 123#{time:08X}\n");
    let mut lines: Vec<_> = (100..70_100).map(line).collect();
    lines.swap(0, 5);
    lines.push(line(99));
    lines.concat()
}

#[test]
fn records_are_sorted_within_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, blf) = (path("a.log"), path("a.blf"));
    let all = out_of_order();
    let near: String = all.split_inclusive('\n').take(70_000).collect();
    let in_order = |text: &str| {
        let seconds = |line: &str| line[1..].split('.').next().unwrap().parse::<u64>().unwrap();
        text.lines().map(seconds).collect::<Vec<_>>().is_sorted()
    };
    fs::write(&log, &near).unwrap();
    // A format with a start refuses what is stamped before the first record.
    let stderr = failure(&["convert", &log, &blf], "");
    assert!(stderr.contains("a.blf: "), "{stderr}");
    let moved = "note: 5 records stamped earlier than one before moved to their places\n";
    let (_, stderr) = success(&["convert", &log, &blf, "--sort"], "");
    assert!(stderr.contains(moved), "{stderr}");
    for words in [
        &["convert", &log, "-", "--sort"][..],
        &["cut", &log, "-", "--sort", "--after", "0s"],
        &["merge", &log, &blf, "-", "--sort"],
    ] {
        let (stdout, stderr) = success(words, "");
        assert!(in_order(&stdout) && stdout.starts_with("(0000000100.0"), "{words:?}");
        assert!(stderr.contains(moved), "{words:?}: {stderr}");
    }
    let (stdout, _) = success(&["convert", &log, "-"], "");
    assert!(!in_order(&stdout));
    // What is too late is told, and is no success.
    fs::write(&log, &all).unwrap();
    let output = candor(&["convert", &log, "-", "--sort"], "");
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    let late = "note: 1 record more than 65,536 records late, too far to be moved: OUT goes back in time there; sort it \
                once more\n";
    assert!(stderr.contains(late) && stderr.contains(moved), "{stderr}");
    // Once more it is at its place.
    let (stdout, _) = success(&["convert", "-", "-", "--sort"], &text(&output.stdout));
    assert!(in_order(&stdout) && stdout.starts_with("(0000000099.0"));
    assert_eq!(stdout.lines().count(), 70_001);
}

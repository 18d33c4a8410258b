//! `candor log` as its user sees it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
    // It may refuse its input before reading all of it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
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
                "lost_frames": 0,
                "ethernet_frames": 0,
                "cut_frames": 0,
                "short_frames": 0,
                "unlisted_stream_frames": 0,
                "other_packets": 0,
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
fn what_cannot_be_done_is_said_in_one_sentence() {
    for (arguments, message) in [
        (&["info", "no-such.log"][..], "no-such.log: cannot be read: No such file"),
        (&["info", "."], ".: cannot be read: Is a directory"),
        (
            &["info", "-"],
            "standard input: not a recording in one of the formats candump, pcap, pcapng;",
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
        (&["info", "-", "--from", "mf5"][..], "the formats are candump, pcap, pcapng"),
        (&["info", "-", "--bitrate=-1"], "expected a bit rate"),
        (&["info", "-", "--data-bitrate", "2M"], "--bitrate"),
    ] {
        let stderr = failure(arguments, "");
        assert!(stderr.contains(message), "{stderr}");
    }
}

#[test]
fn nobody_reading_is_no_failure() {
    let log = LOG.lines().nth(1).unwrap().to_owned() + "\n";
    let mut child = Command::new(env!("CARGO_BIN_EXE_candor"))
        .args(["log", "convert", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    // More than any buffer on the way; it stops reading when nobody listens.
    let _ = child.stdin.take().unwrap().write_all(log.repeat(100_000).as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
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
fn decode_tells_what_is_wrong() {
    let (folder, dbc) = dbc();
    let stderr = failure(&["decode", "-", "--dbc", "no.dbc"], DRIVE);
    assert!(stderr.starts_with("no.dbc: error: the file cannot be read: "), "{stderr}");
    let stderr = failure(&["decode", "-", "--dbc", &dbc, "--message", "Moter"], DRIVE);
    assert_eq!(
        stderr,
        format!("candor: no message of {dbc} is called `Moter`; did you mean `Motor`?\n")
    );
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

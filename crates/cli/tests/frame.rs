//! `candor frame` as its user sees it.

use std::process::Command;

/// Runs it: exit code, standard output, standard error.
fn frame(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    let output = command.arg("frame").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn success(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = frame(arguments);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    stdout
}

#[test]
fn frames_are_shown_in_a_table() {
    let expected = "\
frame         bits  of which stuff  at worst  duration  at worst
------------  ----  --------------  --------  --------  --------
123#DEADBEEF    81               2        95   81.0 us   95.0 us
12345678#       69               2        80   69.0 us   80.0 us
123#R2          47               0        55   47.0 us   55.0 us
123##1AABB      78               6        87   53.5 us   60.0 us
";
    assert_eq!(success(&["123#DEADBEEF", "12345678#", "123#R2", "123##1AABB"]), expected);
}

#[test]
fn a_bit_rate_that_no_bus_has_is_noted() {
    for (rate, note) in [
        (
            "500",
            "note: a bit rate of 500 bit/s is not usual for CAN: CAN buses use 5 kbit/s to 1 Mbit/s; did you mean 500k?\n",
        ),
        ("500k", ""),
    ] {
        let (code, stdout, stderr) = frame(&["--bitrate", rate, "123#"]);
        assert_eq!((code, stderr.as_str()), (Some(0), note));
        assert!(stdout.contains("123#"), "{stdout}");
    }
}

#[test]
fn json_has_an_object_per_frame() {
    let stdout = success(&["--json", "--bitrate", "500k", "123#DEADBEEF", "123##1AABB"]);
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            serde_json::json!({
                "frame": "123#DEADBEEF",
                "bits": 81,
                "stuff_bits": 2,
                "bits_worst": 95,
                "duration_ns": 162_000,
                "duration_ns_worst": 190_000,
            }),
            // 29 bits at 500 kbit/s, 49 at 2 Mbit/s.
            serde_json::json!({
                "frame": "123##1AABB",
                "bits": 78,
                "stuff_bits": 6,
                "bits_worst": 87,
                "duration_ns": 82_500,
                "duration_ns_worst": 93_000,
                "bits_nominal": 29,
                "bits_data": 49,
            }),
        ]
    );
}

#[test]
fn every_bit_can_be_shown() {
    let expected = "\
123#11

  SOF          0
  arbitration  0010010001100
  control      000[1]01
  data         00010001
  CRC          000100001101001
  ACK          101
  EOF          1111111
  intermission 111

  [ ] stuff bits; 0 dominant, 1 recessive
";
    assert_eq!(success(&["--bits", "123#11"]), expected);
}

#[test]
fn a_bad_frame_is_reported_with_the_place() {
    for (text, part) in [
        ("12#", "hex digits (standard) or 8 (extended), as in 123#DEADBEEF (at character 3)"),
        ("123", "`#` is missing after the identifier (at character 4)"),
        ("123#1", "a data byte needs two hex digits (at character 6)"),
        ("800#", "standard identifier 0x800 is greater than 0x7ff"),
        ("123#112233445566778899", "a classical CAN frame has at most 8 (at character 5)"),
        ("123##", "CAN FD needs one hex digit of flags after `##` (at character 6)"),
        ("20000004#0000000000000000", "is not a frame on the wire"),
        ("\u{fc}23#", "(at character 1)"),
        ("", "(at character 1)"),
    ] {
        // A good frame before it is not shown either.
        let (code, stdout, stderr) = frame(&["123#", text]);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{text}");
        assert!(stderr.contains(part), "{text}: {stderr}");
    }
}

#[test]
fn an_absurd_bit_rate_is_refused() {
    for rate in ["0", "21M", "-1", "x", "", "1e6", "99999999999999999999"] {
        for option in ["--bitrate", "--data-bitrate"] {
            let (code, stdout, stderr) = frame(&["123#", &format!("{option}={rate}")]);
            assert_eq!((code, stdout.as_str()), (Some(2), ""), "{option}={rate}");
            let part = "expected a bit rate in bit/s from 1 to 20M";
            assert!(stderr.contains(part), "{option}={rate}: {stderr}");
        }
    }
    let (code, stdout, _) = frame(&["123#", "--bitrate=1"]);
    assert!(code == Some(0) && stdout.contains("48.0 s"), "{stdout}");
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let (code, _, stderr) = frame(&["--bits", "--json", "123#"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("cannot be used with"), "{stderr}");
}

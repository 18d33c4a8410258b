//! `candor log decode --format arrow`, read back.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int32Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayAccessor, StringArray};
use arrow_ipc::reader::StreamReader;

const DBC: &str = "\
BO_ 1 Motor: 8 A
 SG_ Page M : 0|8@1+ (1,0) [0|0] \"\" B
 SG_ Speed m0 : 8|16@1+ (0.1,0) [0|0] \"rpm\" B
 SG_ Temp m1 : 8|8@1+ (1,-40) [0|0] \"C\" B
";

/// Two recordings in a folder: the first with so many frames, the second on another bus.
fn folder(frames: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut log = String::new();
    for time in 0..frames {
        writeln!(log, "({time}.000000001) can0 001#00E703").unwrap();
    }
    fs::write(folder.path().join("a.log"), log).unwrap();
    let log = "(5.0) can1 001#0132\n(6.0) can1 001#R\n(7.0) can1 20000004#0020000000009000\n(8.0) can1 002#00\n";
    fs::write(folder.path().join("b.log"), log).unwrap();
    fs::write(folder.path().join("car.dbc"), DBC).unwrap();
    folder
}

fn candor(folder: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command
        .current_dir(folder.path())
        .args(["log", "decode", "a.log", "b.log", "--dbc", "car.dbc"]);
    command.args(["--format", "arrow"]).args(arguments);
    command
}

#[test]
fn the_stream_is_read_back() {
    let frames = 40_000;
    let folder = folder(frames);
    let output = candor(&folder, &[]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = "40004 frames of 2 recordings: 40002 described by the DBC file, 80002 values\n";
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), expected));
    let reader = StreamReader::try_new(&output.stdout[..], None).unwrap();
    let schema = reader.schema();
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| format!("{}: {}", field.name(), field.data_type()))
        .collect();
    assert_eq!(
        columns,
        [
            "time: Timestamp(ns, \"UTC\")",
            "bus: Dictionary(Int16, Utf8)",
            "message: Dictionary(Int32, Utf8)",
            "signal: Dictionary(Int32, Utf8)",
            "value: Float64",
        ]
    );
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    let rows: Vec<_> = batches.iter().map(|batch| batch.num_rows()).collect();
    assert_eq!(rows, [65_536, 80_002 - 65_536]);
    let mut found = Vec::new();
    for batch in &batches {
        assert!(batch.columns().iter().all(|column| column.null_count() == 0));
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let buses = batch.column(1).as_dictionary::<Int16Type>();
        let buses = buses.downcast_dict::<StringArray>().unwrap();
        let signals = batch.column(3).as_dictionary::<Int32Type>();
        let signals = signals.downcast_dict::<StringArray>().unwrap();
        let values = batch.column(4).as_primitive::<Float64Type>();
        // The ends of each batch.
        for row in [0, 1, batch.num_rows() - 1] {
            found.push((times.value(row), buses.value(row), signals.value(row), values.value(row)));
        }
    }
    let second = |row: i64| row / 2 * 1_000_000_000 + 1;
    assert_eq!(
        found,
        [
            (1, "can0", "Page", 0.0),
            (1, "can0", "Speed", 99.9),
            (second(65_535), "can0", "Speed", 99.9),
            (second(65_536), "can0", "Page", 0.0),
            (second(65_536), "can0", "Speed", 99.9),
            (5_000_000_000, "can1", "Temp", 10.0),
        ]
    );
}

#[test]
fn a_stream_without_rows_has_its_columns() {
    let folder = folder(0);
    let output = candor(&folder, &["--signal", "Speed"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let reader = StreamReader::try_new(&output.stdout[..], None).unwrap();
    assert_eq!((reader.schema().fields().len(), reader.count()), (5, 0));
}

#[test]
fn what_was_read_before_an_error_is_there() {
    let folder = folder(3);
    fs::write(folder.path().join("b.log"), "(1.0) can0 nothing\n").unwrap();
    let output = candor(&folder, &["--signal", "Speed"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let reader = StreamReader::try_new(&output.stdout[..], None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = folder(100_000);
    let mut child =
        candor(&folder, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
}

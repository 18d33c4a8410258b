//! How fast recordings are read, against python-can in the same run.
//!
//! `cargo bench -p candor-recording --bench log_read [-- FILE]`; the files are `ford-focus/lights.log` of the shared
//! data, the same in other formats, and `j1939/truck.mf4` if none is given. Both sides open the file, make one value of
//! each frame and count them, several times; the best time counts. python-can is taken from `tests/.venv`
//! (`python3 -m venv tests/.venv && tests/.venv/bin/pip install -r tests/requirements.txt`).
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use candor_output::Existing;
use candor_recording::{create, open};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const ROUNDS: u32 = 50;
/// What the drive is converted to.
const ENDINGS: [&str; 3] = ["blf", "asc", "trc"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` runs this too: once is enough then.
    let rounds = if arguments.iter().any(|argument| argument == "--bench") { ROUNDS } else { 1 };
    let repository = Path::new(REPOSITORY);
    let folder = tempfile::tempdir().expect("a folder for copies");
    let files = match arguments.iter().find(|argument| !argument.starts_with("--")) {
        Some(file) => vec![PathBuf::from(file)],
        None => {
            let data = repository.join("../shared/data");
            let (drive, truck) = (data.join("ford-focus/lights.log"), data.join("j1939/truck.mf4"));
            if !drive.exists() || !truck.exists() {
                println!("skipped: {} is absent", data.display());
                return ExitCode::SUCCESS;
            }
            let copies = ENDINGS.map(|ending| copy(&drive, folder.path(), ending));
            [drive].into_iter().chain(copies).chain([truck]).collect()
        }
    };
    println!(
        "| file | format | frames per second | of the file | times python-can |\n|---|---|---|---|---|"
    );
    let mut is_complete = true;
    for file in &files {
        let ours = (0..rounds).map(|_| frames_per_second(file)).max_by(|a, b| a.1.total_cmp(&b.1));
        let (format, rate, bytes) = ours.expect("a round");
        let ratio = python_can(repository, file, rounds).map(|peer| rate / peer);
        let ratio = ratio.map(|ratio| format!("{ratio:.1}")).unwrap_or_else(|reason| {
            is_complete = false;
            eprintln!("python-can: not measured: {reason}");
            "-".to_owned()
        });
        let name = file.file_name().unwrap_or_default().display();
        let (millions, megabytes) = (rate / 1e6, rate * bytes / 1e6);
        println!("| {name} | {format} | {millions:.2} M | {megabytes:.0} MB/s | {ratio} |");
    }
    if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The drive in the format of this ending.
fn copy(drive: &Path, folder: &Path, ending: &str) -> PathBuf {
    let path = folder.join(format!("lights.{ending}"));
    let mut recording = open(drive, None).expect("the log opens");
    let mut writer = create(&path, None, Existing::Keep).expect("the copy opens");
    while let Some(entry) = recording.next_any() {
        let entry = entry.expect("a frame");
        writer.write_any(&entry.record, entry.interface).expect("the copy is written");
    }
    writer.finish().expect("the copy is finished");
    path
}

/// The format, the frames per second, and the bytes of the file for each of them.
fn frames_per_second(file: &Path) -> (&'static str, f64, f64) {
    let start = Instant::now();
    let mut recording = open(file, None).expect("the recording opens");
    let frames =
        recording.by_ref().inspect(|record| assert!(record.is_ok(), "it is malformed")).count()
            as f64;
    let seconds = start.elapsed().as_secs_f64();
    let len = std::fs::metadata(file).expect("its length").len();
    (recording.format().name, frames / seconds, len as f64 / frames)
}

fn python_can(repository: &Path, file: &Path, rounds: u32) -> Result<f64, String> {
    let python = repository.join("tests/.venv/bin/python");
    let output = Command::new(&python)
        .arg(repository.join("benches/log_read.py"))
        .arg(file)
        .arg(rounds.min(3).to_string())
        .output()
        .map_err(|error| format!("{}: {error}", python.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

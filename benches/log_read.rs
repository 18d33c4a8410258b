//! How fast candump logs are read, against python-can in the same run.
//!
//! `cargo bench -p candor-recording --bench log_read [-- FILE]`; the file is `ford-focus/lights.log` of
//! the shared data if not given. Both sides open the file, make one value of each line and count
//! them, several times; the best time counts. python-can is taken from `tests/.venv`
//! (`python3 -m venv tests/.venv && tests/.venv/bin/pip install python-can`).
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const ROUNDS: u32 = 50;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` runs this too: once is enough then.
    let rounds = if arguments.iter().any(|argument| argument == "--bench") { ROUNDS } else { 1 };
    let repository = Path::new(REPOSITORY);
    let file = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"))
        .map_or_else(|| repository.join("../shared/data/ford-focus/lights.log"), PathBuf::from);
    if !file.exists() {
        println!("skipped: {} is absent", file.display());
        return ExitCode::SUCCESS;
    }
    let ours = (0..rounds).map(|_| lines_per_second(&file)).fold(0.0, f64::max);
    let bytes_per_line = bytes_per_line(&file);
    let show = |reader: &str, rate: f64, ratio: f64| {
        let bytes = rate * bytes_per_line / 1e6;
        println!("| {reader} | {:.2} M | {bytes:.0} MB/s | {ratio:.1} |", rate / 1e6);
    };
    println!("| reader | lines per second | of the file | times python-can |\n|---|---|---|---|");
    match python_can(repository, &file) {
        Ok(peer) => {
            show("candor", ours, ours / peer);
            show("python-can", peer, 1.0);
            ExitCode::SUCCESS
        }
        Err(reason) => {
            println!("| candor | {:.2} M | - | - |", ours / 1e6);
            eprintln!("python-can: not measured: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn bytes_per_line(file: &Path) -> f64 {
    let text = std::fs::read(file).expect("the log opens");
    text.len() as f64 / text.iter().filter(|&&byte| byte == b'\n').count() as f64
}

fn lines_per_second(file: &Path) -> f64 {
    let start = Instant::now();
    let recording = candor_recording::open(file, None).expect("the log opens");
    let count = recording.inspect(|record| assert!(record.is_ok(), "the log is malformed")).count();
    count as f64 / start.elapsed().as_secs_f64()
}

fn python_can(repository: &Path, file: &Path) -> Result<f64, String> {
    let python = repository.join("tests/.venv/bin/python");
    let output = Command::new(&python)
        .arg(repository.join("benches/log_read.py"))
        .arg(file)
        .output()
        .map_err(|error| format!("{}: {error}", python.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

//! How fast frames are decoded into signals, against cantools in the same run.
//!
//! `cargo bench -p candor-signals --bench signal_decode [-- FILE.dbc]`; the files are some of the
//! shared data if none is given. Both sides decode the same frames, one of each message with the same
//! data in turn, by identifier: they look up the message and make the physical value of each signal.
//! cantools gives numbers too, without names of values. Rounds of both take turns; the best of each
//! counts. cantools is taken from `tests/.venv`
//! (`python3 -m venv tests/.venv && tests/.venv/bin/pip install -r tests/requirements.txt`).
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use candor_diagnostics::Findings;
use candor_signals::Database;
use candor_wire::can::Frame;
use candor_wire::can::frame::{FD_LENGTHS, id_word};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const FILES: [&str; 4] = [
    "dbc/cadillac_ct6_object.dbc",
    "dbc/ford_lincoln_base_pt.dbc",
    "dbc/hyundai_canfd.dbc",
    "savvycan/ThinkCity.dbc",
];
const ROUNDS: usize = 5;
/// How many frames a round decodes at least.
const FRAMES: usize = 500_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` runs this too: a little is enough then.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let (rounds, frames) = if is_bench { (ROUNDS, FRAMES) } else { (1, 1) };
    let given = arguments.iter().find(|argument| !argument.starts_with("--"));
    let files: Vec<PathBuf> = match given {
        Some(file) => [file.into()].into(),
        None => FILES.map(|file| Path::new(REPOSITORY).join("../shared/data").join(file)).into(),
    };
    println!(
        "| file | messages | signals per frame | candor frames/s | ns per signal | cantools | ratio |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut is_complete = true;
    for file in &files {
        if !file.exists() {
            println!("skipped: {} is absent", file.display());
            continue;
        }
        let scene = Scene::new(file);
        let (mut ours, mut peers) = (0_f64, Ok(0_f64));
        for _ in 0..rounds {
            ours = ours.max(scene.frames_per_second(frames));
            let peer = scene.peer_frames_per_second(file);
            peers = peers.and_then(|best: f64| peer.map(|peer| best.max(peer)));
        }
        let (peer, ratio) = match &peers {
            Ok(peer) => (format!("{peer:.0}"), format!("{:.1}", ours / peer)),
            Err(reason) => {
                eprintln!("cantools: not measured: {reason}");
                is_complete = false;
                ("-".to_owned(), "-".to_owned())
            }
        };
        println!(
            "| {} | {} | {:.1} | {ours:.0} | {:.2} | {peer} | {ratio} |",
            file.file_name().unwrap_or_default().display(),
            scene.frames.len(),
            scene.signals_per_frame,
            1e9 / ours / scene.signals_per_frame,
        );
    }
    if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A database and a frame for each of its messages.
struct Scene {
    database: Database,
    frames: Vec<Frame>,
    signals_per_frame: f64,
}

impl Scene {
    fn new(file: &Path) -> Self {
        let findings = Findings::new();
        let database = Database::load(file, &findings).expect("a DBC file");
        // The data is that of the peer: bytes that count on.
        let data: Vec<u8> = (0..64).map(|byte: u8| byte.wrapping_mul(37)).collect();
        let with_signals = database.messages().iter().filter(|message| !message.signals.is_empty());
        let frames: Vec<Frame> = with_signals
            .filter_map(|message| {
                let length = FD_LENGTHS.into_iter().map(usize::from);
                let length = length.filter(|&length| length >= message.length).min()?;
                let fd_flags = (length > 8).then_some(0);
                Frame::from_parts(id_word(message.id), &data[..length], fd_flags).ok()
            })
            .collect();
        let signals: usize =
            frames.iter().filter_map(|frame| Some(database.decode(frame)?.1.count())).sum();
        let signals_per_frame = signals as f64 / frames.len() as f64;
        Self { database, frames, signals_per_frame }
    }

    fn frames_per_second(&self, at_least: usize) -> f64 {
        let passes = at_least.div_ceil(self.frames.len());
        let start = Instant::now();
        for _ in 0..passes {
            for frame in &self.frames {
                let frame = black_box(frame);
                let decoded = self.database.decode(frame);
                let (_, values) = decoded.expect("a frame of the database");
                for value in values {
                    black_box(value.physical);
                }
            }
        }
        (passes * self.frames.len()) as f64 / start.elapsed().as_secs_f64()
    }

    /// cantools decodes the frames that it is given, one per line, for a second.
    fn peer_frames_per_second(&self, file: &Path) -> Result<f64, String> {
        let repository = Path::new(REPOSITORY);
        let python = repository.join("tests/.venv/bin/python");
        let frames = self.frames.iter().map(|frame| {
            let data = frame.data().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            format!("{} {data}", frame.can_id() & candor_wire::can::frame::EFF_MASK)
        });
        let output = Command::new(&python)
            .arg(repository.join("benches/signal_decode.py"))
            .arg(file)
            .args(frames)
            .output()
            .map_err(|error| format!("{}: {error}", python.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

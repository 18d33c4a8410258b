//! `candor bus record`: frames into a file.
//!
//! The file grows beside its place, under a name that begins with a dot, and takes it when it is
//! complete. What was received is written twice a second, so that little is lost if the machine
//! stops. `candor help json bus record` describes what `--json` prints.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use candor_bus::capture::{Captured, Totals};
use candor_bus::named::{self, NamedPort};
use candor_bus::select::Selection;
use candor_diagnostics::counted;
use candor_output::{messages, say};
use candor_time::Nanos;
use clap::Args;

use super::dump::WhichArgs;
use super::file::LogFile;
use super::json::Recording;
use super::live::{self, End, Follower, read_size};
use crate::Answer;
use crate::json::lines;
use crate::output::print;
use crate::overwrite::Overwriting;

#[derive(Args)]
pub(crate) struct RecordArgs {
    /// The ports, such as can0; name=PORT sets the name to write
    #[arg(required = true, value_name = "PORT")]
    ports: Vec<NamedPort>,
    /// The file; its extension selects the format: .log (candump), .pcap or .pcapng
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    which: WhichArgs,
    /// Stop after this many frames
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time, such as 10min; of a recording (file:), by its stamps
    #[arg(long)]
    time: Option<Nanos>,
    /// Stop after this many bytes, such as 100M
    #[arg(long, value_parser = read_size)]
    size: Option<u64>,
    /// Start a new file after this many bytes: drive-0001.log, drive-0002.log, ...
    #[arg(long, value_name = "SIZE", value_parser = read_size)]
    split: Option<u64>,
    /// Write nanoseconds in candump logs; default: microseconds, for older programs. The other
    /// formats always have nanoseconds
    #[arg(short = 'N', long)]
    nanoseconds: bool,
    #[command(flatten)]
    overwriting: Overwriting,
    /// Print JSON Lines: an object of type "file" per file, then one of type "port" per port
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &RecordArgs) -> Answer {
    let stop = live::catch_signals();
    // Who does not read what is said must not stop a recording.
    messages::in_background().map_err(|error| format!("no thread can be started: {error}"))?;
    let (selection, errors) = args.which.read()?;
    let titles = named::titles(&args.ports);
    let mut files = Files {
        base: args.output.clone(),
        split: args.split,
        begun: 0,
        ports: titles.len(),
        nanoseconds: args.nanoseconds,
        overwriting: args.overwriting,
    };
    let file = files.next()?;
    let mut capture = live::capture(&args.ports, errors, args.time)?;
    let mut recorder = PortRecorder {
        titles,
        selection,
        file: Some(file),
        files,
        done: Vec::new(),
        unwanted: vec![0; args.ports.len()],
        taken: vec![0; args.ports.len()],
        written: vec![0; args.ports.len()],
        is_failing: false,
        frames_left: args.count.unwrap_or(u64::MAX),
        bytes_left: args.size.unwrap_or(u64::MAX),
    };
    let followed =
        live::follow(&mut capture, End::after(args.time, &args.ports), stop, &mut recorder);
    // What came up to a failure is kept.
    let finished = recorder.finish_file();
    let mut totals = live::totals(&capture);
    for (port, totals) in totals.iter_mut().enumerate() {
        let (taken, unwanted) = (recorder.taken[port], recorder.unwanted[port]);
        totals.unwritten = taken - recorder.written[port];
        if recorder.is_failing {
            // And what came behind them.
            let came = totals.frames + totals.error_reports;
            totals.unwritten += came.saturating_sub(taken + unwanted);
        }
    }
    if args.json {
        let ports = capture.names().zip(&totals);
        print(&format!("{}{}", lines(&recorder.done)?, lines(ports)?))?;
    }
    for file in &recorder.done {
        let (frames, bytes) = (counted(file.frames, "frame"), counted(file.bytes, "byte"));
        say!("{}: {frames}, {bytes}", file.file);
    }
    live::tell_totals(&capture, &totals);
    followed.and(finished)?;
    Ok(totals.iter().all(Totals::is_complete))
}

struct PortRecorder {
    titles: Vec<String>,
    selection: Selection,
    /// The file that grows; `None` only after a failure.
    file: Option<LogFile>,
    files: Files,
    done: Vec<Recording>,
    /// Frames of each port that were not selected, those that were, and those in files that are done.
    unwanted: Vec<u64>,
    taken: Vec<u64>,
    written: Vec<u64>,
    /// Whether it ended since a file could not be written.
    is_failing: bool,
    frames_left: u64,
    bytes_left: u64,
}

impl Follower for PortRecorder {
    fn take(&mut self, captured: &Captured) -> Result<ControlFlow<()>, String> {
        if !self.selection.takes(&captured.received.frame) {
            self.unwanted[captured.port] += 1;
            return Ok(ControlFlow::Continue(()));
        }
        self.taken[captured.port] += 1;
        let written = self.write(captured);
        self.is_failing |= written.is_err();
        self.bytes_left = self.bytes_left.saturating_sub(written?);
        self.frames_left -= 1;
        let is_full = self.frames_left == 0 || self.bytes_left == 0;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn pause(&mut self) -> Result<ControlFlow<()>, String> {
        if let Some(file) = &mut self.file {
            let written = file.pause();
            self.is_failing |= written.is_err();
            written?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl PortRecorder {
    /// Writes a frame, into a new file if that is due. How many bytes it has.
    fn write(&mut self, captured: &Captured) -> Result<u64, String> {
        let is_full = self.file.as_ref().is_none_or(|file| self.files.is_full(file));
        if is_full {
            self.finish_file()?;
            self.file = Some(self.files.next()?);
        }
        let Some(file) = &mut self.file else { return Ok(0) };
        let before = file.bytes();
        file.write(captured, &self.titles[captured.port])?;
        Ok(file.bytes() - before)
    }

    /// Puts the file in its place, with as much as could be written.
    fn finish_file(&mut self) -> Result<(), String> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let flushed = file.flush();
        let frames = file.frames().to_vec();
        let finished = file.finish();
        self.done.push(finished?);
        for (written, frames) in self.written.iter_mut().zip(frames) {
            *written += frames;
        }
        flushed
    }
}

/// The names of the files of a recording.
struct Files {
    base: PathBuf,
    split: Option<u64>,
    begun: u32,
    ports: usize,
    nanoseconds: bool,
    overwriting: Overwriting,
}

impl Files {
    fn next(&mut self) -> Result<LogFile, String> {
        self.begun += 1;
        let path = match self.split {
            Some(_) => numbered(&self.base, self.begun),
            None => self.base.clone(),
        };
        LogFile::create(&path, self.ports, self.nanoseconds, self.overwriting)
    }

    fn is_full(&self, file: &LogFile) -> bool {
        self.split.is_some_and(|split| file.bytes() >= split)
    }
}

/// `drive-0001.log` of `drive.log`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let part = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let (stem, ending) = (part(path.file_stem()), part(path.extension()));
    path.with_file_name(format!("{stem}-{number:04}.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_before_their_ending() {
        for (path, expected) in
            [("drive.log", "drive-0001.log"), ("a.b/drive.old.pcapng", "a.b/drive.old-0001.pcapng")]
        {
            assert_eq!(numbered(Path::new(path), 1), Path::new(expected));
        }
    }

    #[test]
    fn a_format_that_does_not_fit_is_refused_at_once() {
        let error = |name: &str, ports| {
            LogFile::create(Path::new(name), ports, false, Overwriting::default()).err().unwrap()
        };
        assert!(error("drive.xyz", 1).starts_with("drive.xyz: unknown file extension"));
        assert!(error("drive.pcap", 2).contains("use .log or .pcapng for several ports"));
    }
}

//! `candor log decode`: the signals in recordings.

#[cfg(feature = "arrow")]
mod arrow;
mod csv;
mod frames;

use std::io::{self, BufWriter, StdoutLock};
use std::path::{Path, PathBuf};

use candor_bus::words::View;
use candor_diagnostics::counted;
use candor_output::say;
use candor_recording::{Interfaces, Record};
use candor_signals::Fit;
use candor_wire::can::Kind;
use clap::{Args, ValueEnum};

use crate::Answer;
use crate::bus::view;
use crate::reading::is_confirmed;

use super::{InputArgs, Stop, at_most_one_stdin, explain_malformed, report_skipped};

#[derive(Args)]
pub(crate) struct DecodeArgs {
    /// The recordings, one after the other; one of them may be - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The DBC file that describes the frames
    #[arg(long, value_name = "DBC")]
    dbc: PathBuf,
    /// Show only messages of this name or pattern (`*`, `?`; may be repeated)
    #[arg(long, value_name = "NAME")]
    message: Vec<String>,
    /// Show only this signal (Signal or Message.Signal, with `*` and `?` as patterns) and the messages that contain it
    /// (may be repeated)
    #[arg(long, value_name = "NAME")]
    signal: Vec<String>,
    /// What to print; default: table
    #[arg(long, value_name = "FORMAT")]
    format: Option<Shape>,
    /// Print JSON Lines: one object of type "frame" for each frame (as --format json)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArgs,
}

/// What is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Each frame as in a candump log, with a line per signal below
    Table,
    /// JSON Lines: one object of type "frame" for each frame
    Json,
    /// A row per value, with a header
    Csv,
    /// The same rows as an Arrow IPC stream. Needs a build with the feature `arrow`
    Arrow,
}

impl DecodeArgs {
    fn shape(&self) -> Result<Shape, String> {
        match (self.json, self.format) {
            (false, format) => Ok(format.unwrap_or(Shape::Table)),
            (true, None | Some(Shape::Json)) => Ok(Shape::Json),
            (true, Some(_)) => {
                Err("--json and --format name two formats; leave one of them out".to_owned())
            }
        }
    }
}

/// Where frames are shown. Nothing is written before the first one, or the end.
trait Sheet {
    /// Shows what is of interest of a frame; how many frames or values that is.
    fn show(&mut self, view: &View, record: &Record, interfaces: &Interfaces) -> Result<u64, Stop>;

    /// Writes what is not yet written.
    fn finish(self: Box<Self>) -> Result<(), Stop>;

    /// So many of them in words.
    fn words(&self, shown: u64) -> String {
        counted(shown, "value")
    }
}

/// Standard output.
type Out = BufWriter<StdoutLock<'static>>;

fn sheet(shape: Shape, view: &View) -> Result<Box<dyn Sheet>, String> {
    let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    Ok(match shape {
        Shape::Table => Box::new(frames::Text::new(out)?),
        Shape::Json => Box::new(frames::Json::new(out)),
        Shape::Csv => Box::new(csv::Csv::new(out)),
        Shape::Arrow => arrow_sheet(out, view)?,
    })
}

#[cfg(feature = "arrow")]
use self::arrow::sheet as arrow_sheet;

#[cfg(not(feature = "arrow"))]
fn arrow_sheet(_: Out, _: &View) -> Result<Box<dyn Sheet>, String> {
    Err("--format arrow: this build has no Arrow; build it with the feature `arrow`: cargo build --release --features \
         arrow"
        .to_owned())
}

/// How many of the frames there were.
#[derive(Default)]
struct Counts {
    frames: u64,
    shown: u64,
    known: u64,
    ethernet_frames: u64,
    /// Recordings whose end no checksum confirms.
    unconfirmed: u64,
    fit: Fit,
}

/// True unless the DBC file describes none of the frames, or no checksum confirms some of them.
pub(super) fn run(args: &DecodeArgs) -> Answer {
    let shape = args.shape()?;
    at_most_one_stdin(&args.files)?;
    let view = view(&args.dbc, &args.message, &args.signal)?;
    let mut sheet = sheet(shape, &view)?;
    let mut counts = Counts::default();
    let read = |file: &PathBuf| read(args, file, &view, sheet.as_mut(), &mut counts);
    let read = args.files.iter().try_for_each(read);
    let shown = sheet.words(counts.shown);
    // What was read before an error is shown.
    let is_any = read.is_ok() || counts.frames > 0;
    let finished = if is_any { sheet.finish() } else { Ok(()) };
    match read.and(finished) {
        Ok(()) => Ok(report(args, &view, &counts, &shown)),
        Err(Stop::Reader) => Ok(true),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// Says what came; true unless the DBC file describes none of the frames, or no checksum confirms some of them.
fn report(args: &DecodeArgs, view: &View, counts: &Counts, shown: &str) -> bool {
    let Counts { frames, known, ethernet_frames, fit, .. } = counts;
    if *ethernet_frames > 0 {
        say!("note: Ethernet frames passed over: {ethernet_frames}");
    }
    let (place, of) = match &args.files[..] {
        [file] => (file.display().to_string(), String::new()),
        files => {
            let files = counted(files.len() as u64, "recording");
            (files.clone(), format!(" of {files}"))
        }
    };
    say!("{}{of}: {known} described by the DBC file, {shown}", counted(*frames, "frame"));
    if fit.is_none() {
        say!("{}", fit.words(view.database(), *frames, &place));
    }
    !fit.is_none() && counts.unconfirmed == 0
}

fn read(
    args: &DecodeArgs,
    file: &Path,
    view: &View,
    sheet: &mut dyn Sheet,
    counts: &mut Counts,
) -> Result<(), Stop> {
    let mut recording = args.input.open(file).map_err(Stop::Error)?;
    let before = counts.frames;
    while let Some(record) = recording.next() {
        let record = record
            .map_err(|error| Stop::Error(explain_malformed(error, counts.frames - before, file)))?;
        let frame = &record.frame;
        counts.frames += 1;
        let is_known = view.message(frame).is_some();
        counts.known += u64::from(is_known);
        if frame.kind() != Kind::Error {
            counts.fit.see(frame.id(), is_known);
        }
        counts.shown += sheet.show(view, &record, recording.interfaces())?;
    }
    report_skipped(&recording);
    counts.unconfirmed += u64::from(!is_confirmed(&recording));
    counts.ethernet_frames += recording.passed_over().ethernet_frames;
    Ok(())
}

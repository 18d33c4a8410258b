//! `candor log decode`: the signals in a recording.
//!
//! Each frame is shown as in a candump log, with a line per signal below.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use candor_bus::words::{View, number};
use candor_diagnostics::counted;
use candor_output::say;
use candor_recording::{Encoder, Format, Record, Recording};
use candor_signals::Fit;
use candor_wire::can::Kind;
use clap::Args;

use crate::Answer;
use crate::bus::database;
use crate::json;

use super::{InputArgs, Progress, Stop, explain_malformed, report_skipped};

#[derive(Args)]
pub(crate) struct DecodeArgs {
    /// The recording, or - for standard input
    file: PathBuf,
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
    /// Print JSON Lines: one object of type "frame" for each frame
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArgs,
}

/// How many of the frames there were.
#[derive(Default)]
struct Counts {
    frames: u64,
    shown: u64,
    known: u64,
    fit: Fit,
}

/// True unless the DBC file describes none of the frames.
pub(super) fn run(args: &DecodeArgs) -> Answer {
    let database = database(&args.dbc)?;
    let view = View::new(database, &args.message, &args.signal);
    let view = view.map_err(|error| error.to_string())?;
    let mut recording = args.input.open(&args.file)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match decode(args, &view, &mut recording, &mut out) {
        Ok(counts) => {
            report_skipped(&recording);
            let ethernet_frames = recording.passed_over().ethernet_frames;
            if ethernet_frames > 0 {
                say!("note: Ethernet frames passed over: {ethernet_frames}");
            }
            let Counts { frames, shown, known, fit } = counts;
            let counted = counted(frames, "frame");
            say!("{counted}: {known} described by the DBC file, {shown} shown");
            if fit.is_none() {
                let place = args.file.display().to_string();
                say!("{}", fit.words(view.database(), frames, &place));
            }
            Ok(!fit.is_none())
        }
        Err(Stop::Reader) => Ok(true),
        Err(Stop::Error(error)) => Err(error),
    }
}

fn decode(
    args: &DecodeArgs,
    view: &View,
    recording: &mut Recording,
    out: &mut impl Write,
) -> Result<Counts, Stop> {
    let progress = Progress::new(recording, false);
    let mut counts = Counts::default();
    // Every list of formats has candump's.
    let format = Format::by_name("candump");
    let format = format.ok_or_else(|| Stop::Error("there is no format candump".to_owned()))?;
    let mut line = Vec::new();
    let mut encoder = format.encoder(&mut line);
    while let Some(record) = recording.next() {
        let record = record
            .map_err(|error| Stop::Error(explain_malformed(error, counts.frames, &args.file)))?;
        let frame = &record.frame;
        counts.frames += 1;
        let is_known = view.message(frame).is_some();
        counts.known += u64::from(is_known);
        if frame.kind() != Kind::Error {
            counts.fit.see(frame.id(), is_known);
        }
        progress.show(recording, counts.frames);
        if !view.takes(frame) {
            continue;
        }
        counts.shown += 1;
        let interface = recording.interfaces().name(record.interface);
        line.clear();
        if args.json {
            json::write(&(&record, interface, view), &mut line)
                .map_err(|error| Stop::Error(format!("a frame cannot be shown: {error}")))?;
        } else {
            write_text(view, &record, interface, encoder.as_mut(), &mut line)?;
        }
        out.write_all(&line)?;
    }
    out.flush()?;
    progress.clear();
    Ok(counts)
}

fn write_text(
    view: &View,
    record: &Record,
    interface: &str,
    encoder: &mut dyn Encoder,
    line: &mut Vec<u8>,
) -> Result<(), Stop> {
    encoder
        .encode(record, interface, line)
        .map_err(|error| Stop::Error(format!("a frame cannot be shown: {error}")))?;
    for decoded in view.decode(&record.frame) {
        let signal = decoded.signal;
        let value = number(decoded.physical);
        match decoded.value_name() {
            Some(name) => writeln!(line, "  {} {name} ({value})", signal.name)?,
            None if signal.unit.is_empty() => writeln!(line, "  {} {value}", signal.name)?,
            None => writeln!(line, "  {} {value} {}", signal.name, signal.unit)?,
        }
    }
    Ok(())
}

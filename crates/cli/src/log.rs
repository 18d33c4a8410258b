//! `candor log`: what a recording holds, recordings in another format and parts of them, several as one, what differs
//! between two, and signals decoded.
//!
//! `candor help json log` describes what `--json` prints.

mod cut;
mod decode;
mod diff;
mod info;
pub(crate) mod json;
mod merge;

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

use candor_diagnostics::counted;
use candor_output::say;
use candor_recording::{
    AnyRecord, CAN2UDP, Entry, FORMATS, Format, Recording, RecordingError, SORT_WINDOW, Sorted,
    Writer,
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Answer;
use crate::file_kind::FileKind;
use crate::output::{thousands, unwritable};
use crate::overwrite::{Overwriting, refusal};
use crate::reading::{ReadingArgs, is_sound};

/// Examine, convert, cut, merge and compare recordings of CAN and Ethernet traffic
#[derive(Subcommand)]
pub(crate) enum LogCommand {
    /// Show what a recording contains: frames, rates, bus load, and the period of each identifier and Ethernet stream
    ///
    /// Exits with 1 if what it is compressed with is cut, or its checksum is wrong.
    ///
    /// Example: candor log info drive.log --bitrate 500k
    Info(info::InfoArgs),
    /// Convert a recording to another format
    ///
    /// Exits with 1 if what it is compressed with is cut, or its checksum is wrong, or if --sort could not mend the order; OUT is written
    /// all the same.
    ///
    /// Example: candor log convert drive.log drive.pcapng
    Convert(ConvertArgs),
    /// Cut a part out of a recording: by time, identifier, group number (PGN), message and interface
    ///
    /// A frame is kept if it meets all criteria; of several of one kind, one suffices. Ethernet frames have no identifier, PGN and
    /// message. Exits with 1 if no frame was kept, if what IN is compressed with is cut or has a wrong checksum, or if --sort could not
    /// mend the order; OUT is written all the same.
    ///
    /// Example: candor log cut drive.log braking.log --after 10s --before 12.5s --id 0x120-0x12F
    Cut(cut::CutArgs),
    /// Merge recordings into one, by time
    ///
    /// Records with the same time come in the order of IN. Interfaces of the same name become the same interface. Exits with 1 if what a
    /// recording is compressed with is cut, or its checksum is wrong, or if --sort could not mend the order; OUT is written all the same.
    ///
    /// Example: candor log merge engine.blf body.log drive.pcapng --offset body.log=-1.25s
    Merge(merge::MergeArgs),
    /// Compare two recordings: which frames only one of them has, and how far their clocks run apart
    ///
    /// Frames are the same if interface, identifier, kind, flags and data are; their times may differ, and directions are not
    /// compared. Exits with 1 if one has frames that the other has not.
    ///
    /// Example: candor log diff gateway.blf tester.log
    Diff(diff::DiffArgs),
    /// Decode the signals in recordings with a DBC file
    ///
    /// Exits with 1 if the DBC file describes none of the frames, or if what a recording is compressed with is cut or has a wrong checksum.
    ///
    /// Example: candor log decode drive.log --dbc car.dbc --signal '*Temp*' --format csv
    Decode(decode::DecodeArgs),
}

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// The recording to read, or - for standard input
    #[arg(value_name = "IN")]
    input_file: PathBuf,
    /// The file to write, or - for standard output
    #[arg(value_name = "OUT")]
    output_file: PathBuf,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    sorting: SortArgs,
    #[command(flatten)]
    input: InputArgs,
}

/// How a recording is written.
#[derive(Args)]
pub(crate) struct Output {
    /// The format to write; can2udp is a pcap of Ethernet with CAN frames in UDP datagrams. Default: by the extension of OUT
    /// (candump on standard output)
    #[arg(long, value_name = "FORMAT", value_parser = written_formats())]
    to: Option<&'static Format>,
    #[command(flatten)]
    overwriting: Overwriting,
}

impl Output {
    /// Creates a recording.
    pub(crate) fn create(&self, file: &Path) -> Result<Writer, String> {
        let refuse = |error: RecordingError| match error.is_existing() {
            true => refusal(file),
            false => explain(error),
        };
        let existing = self.overwriting.existing();
        candor_recording::create(file, self.to, existing).map_err(refuse)
    }
}

/// Says what the format of a recording that was written does not keep.
pub(crate) fn report_losses(writer: &Writer) {
    let losses: Vec<_> = writer.losses().collect();
    if !losses.is_empty() {
        let (name, losses) = (writer.format().name, losses.join(", nor "));
        say!("note: a recording in the format {name} does not keep {losses}");
    }
}

/// Whether records are put in order of time.
#[derive(Args)]
pub(crate) struct SortArgs {
    /// Put records in order of time, each past 65,536 others at most: of the same time, they stay in their order
    #[arg(long)]
    sort: bool,
}

impl SortArgs {
    /// A recording that is read in this order.
    pub(crate) fn sort(&self, recording: Recording) -> Recording {
        recording.sort(self.sort.then_some(SORT_WINDOW))
    }
}

#[derive(Args)]
pub(crate) struct InputArgs {
    /// The format to read; default: detected from the contents
    #[arg(long, value_name = "FORMAT", value_parser = read_formats())]
    from: Option<&'static Format>,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// The names of formats as values of an argument.
fn formats(
    formats: impl Iterator<Item = &'static Format>,
) -> impl TypedValueParser<Value = &'static Format> {
    let formats: Vec<_> = formats.collect();
    let names: Vec<_> = formats.iter().map(|format| format.name).collect();
    PossibleValuesParser::new(names).map(move |name| {
        // The parser has refused all other names.
        formats.iter().copied().find(|format| format.name == name).unwrap_or(FORMATS[0])
    })
}

fn read_formats() -> impl TypedValueParser<Value = &'static Format> {
    formats(FORMATS.iter().copied())
}

fn written_formats() -> impl TypedValueParser<Value = &'static Format> {
    formats(Format::written().chain([CAN2UDP]))
}

/// Runs `candor log`. The answer is no if a DBC file describes none of the frames that are to be decoded, if none is
/// kept, if two recordings differ, or if no checksum confirms what was read at last.
///
/// # Errors
/// One sentence that names the file, the place in it, the reason and the remedy.
pub(crate) fn run(command: LogCommand) -> Answer {
    match command {
        LogCommand::Info(args) => info::run(&args),
        LogCommand::Convert(args) => convert(&args),
        LogCommand::Cut(args) => cut::run(&args),
        LogCommand::Merge(args) => merge::run(&args),
        LogCommand::Diff(args) => diff::run(&args),
        LogCommand::Decode(args) => decode::run(&args),
    }
}

fn convert(args: &ConvertArgs) -> Answer {
    let mut recording = args.sorting.sort(args.input.open(&args.input_file)?);
    let writer = args.output.create(&args.output_file)?;
    let format = writer.format();
    let files = Files { input: &args.input_file, output: &args.output_file };
    if let Some(copied) = write_copy(&mut recording, writer, files, |_| true)? {
        let records = counted(copied.records, "record");
        say!("{records}: {} -> {}", recording.format().name, format.name);
    }
    Ok(is_sound(&recording))
}

/// What is copied to where.
#[derive(Clone, Copy)]
struct Files<'a> {
    input: &'a Path,
    output: &'a Path,
}

/// What was read and written, and what was not.
#[derive(Default)]
struct CopySummary {
    /// The records that were read, wanted or not.
    read: u64,
    /// The records that were written.
    records: u64,
    /// Those of them that had a direction.
    directions: u64,
    /// The frames that the format cannot hold.
    ethernet_frames: u64,
}

impl CopySummary {
    /// Says what the format does not keep.
    fn report(&self, format: &Format) {
        let title = format.title;
        if self.directions > 0 && !format.keeps_directions {
            let directions = self.directions;
            say!(
                "note: a {title} cannot store directions; records that lost their direction: {directions}"
            );
        }
        if self.ethernet_frames > 0 {
            let frames = self.ethernet_frames;
            say!(
                "note: a {title} cannot store Ethernet frames; frames left out: {frames}; use pcapng to keep them"
            );
        }
    }

    /// Writes a record, if the format can hold it.
    fn write(&mut self, writer: &mut Writer, entry: &Entry<'_>) -> Result<(), RecordingError> {
        let Entry { record, interface, start_ns } = entry;
        if let Some(start_ns) = start_ns.filter(|_| self.records == 0) {
            writer.start(start_ns);
        }
        if matches!(record, AnyRecord::Ethernet(_)) && !writer.format().keeps_ethernet {
            self.ethernet_frames += 1;
            return Ok(());
        }
        writer.write_any(record, interface)?;
        self.records += 1;
        self.directions += u64::from(record.direction().is_some());
        Ok(())
    }
}

/// Writes the wanted records of a recording, and says what was lost; `None` if nobody reads on.
fn write_copy(
    recording: &mut Recording,
    mut writer: Writer,
    files: Files<'_>,
    is_wanted: impl FnMut(&Entry<'_>) -> bool,
) -> Result<Option<CopySummary>, String> {
    let format = writer.format();
    let progress = Progress::new(recording, files.output.as_os_str() != "-");
    let Some(copied) = copy_records(recording, &mut writer, &progress, files.input, is_wanted)?
    else {
        return Ok(None);
    };
    progress.clear();
    report_losses(&writer);
    match writer.finish() {
        Err(error) if error.is_broken_pipe() => return Ok(None),
        finished => finished.map_err(explain)?,
    }
    report_skipped(recording);
    copied.report(format);
    let other = recording.passed_over().other_packets;
    if other > 0 {
        say!("note: what is no frame of CAN or Ethernet was skipped: {other}");
    }
    Ok(Some(copied))
}

/// Copies what is wanted and the format can hold; `None` if nobody reads on.
fn copy_records(
    recording: &mut Recording,
    writer: &mut Writer,
    progress: &Progress,
    file: &Path,
    mut is_wanted: impl FnMut(&Entry<'_>) -> bool,
) -> Result<Option<CopySummary>, String> {
    let mut done = CopySummary::default();
    while let Some(entry) = recording.next_any() {
        let entry = entry.map_err(|error| explain_malformed(error, done.read, file))?;
        done.read += 1;
        if is_wanted(&entry) {
            match done.write(writer, &entry) {
                Err(error) if error.is_broken_pipe() => return Ok(None),
                written => written.map_err(explain)?,
            }
        }
        progress.show(recording, done.read);
    }
    Ok(Some(done))
}

impl InputArgs {
    pub(crate) fn open(&self, file: &Path) -> Result<Recording, String> {
        self.reading.open(file, self.from)
    }
}

/// Refuses to read standard input twice.
fn at_most_one_stdin(files: &[PathBuf]) -> Result<(), String> {
    match files.iter().filter(|file| file.as_os_str() == "-").count() {
        0 | 1 => Ok(()),
        _ => Err("only one recording can be standard input (-); name files for the others".into()),
    }
}

/// Why not all was shown.
enum Stop {
    /// Nobody reads it any more.
    Reader,
    Error(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::Reader,
            _ => Self::Error(unwritable(&error)),
        }
    }
}

fn unshown(error: impl Display) -> Stop {
    Stop::Error(format!("a frame cannot be shown: {error}"))
}

fn explain(error: RecordingError) -> String {
    error.to_string()
}

/// Explains an error that came after so many good records. If there were none, the file is perhaps
/// no recording at all.
pub(crate) fn explain_malformed(error: RecordingError, records: u64, file: &Path) -> String {
    if records > 0 && error.is_malformed() {
        let helps = match error.can_be_skipped() {
            true => "skip such records",
            false => "keep what comes before it",
        };
        return format!("{error}; or {helps} with --skip-malformed");
    }
    FileKind::Recording.mix_up(file).unwrap_or_else(|| explain(error))
}

pub(crate) fn report_skipped(recording: &Recording) {
    if let Some(cut) = recording.cut() {
        say!("note: {cut}; what comes before it was read");
    }
    let skipped = recording.skipped();
    if let Some(first) = &skipped.first {
        say!("note: malformed records skipped: {}; the first: {first}", skipped.count);
    }
    if let Some(end) = &skipped.end {
        say!("note: {end}; what comes before it was read, and nothing behind it");
    }
    let Sorted { moved, late } = recording.sorted().unwrap_or_default();
    if moved > 0 {
        let whose = if moved == 1 { "its place" } else { "their places" };
        let records = counted(moved, "record");
        say!("note: {records} stamped earlier than one before moved to {whose}");
    }
    if late > 0 {
        say!(
            "note: {} more than {} records late, too far to be moved: OUT goes back in time there; sort it once more",
            counted(late, "record"),
            thousands(SORT_WINDOW as u64)
        );
    }
}

/// A bar with the time left, for work of a second or more on a terminal.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    const MIN_BYTES: u64 = 64 << 20;
    const RECORDS_PER_UPDATE: u64 = 1 << 16;

    pub(crate) fn new(recording: &Recording, may_use_terminal: bool) -> Self {
        Self::of(recording.len_bytes(), may_use_terminal)
    }

    /// Of so many bytes in all.
    fn of(len_bytes: Option<u64>, may_use_terminal: bool) -> Self {
        let len = len_bytes.filter(|&len| {
            len >= Self::MIN_BYTES && io::stderr().is_terminal() && may_use_terminal
        });
        let style = ProgressStyle::with_template("{bar:40} {percent} %, {eta} left");
        Self(len.zip(style.ok()).map(|(len, style)| ProgressBar::new(len).with_style(style)))
    }

    pub(crate) fn show(&self, recording: &Recording, records: u64) {
        self.show_bytes(records, || recording.consumed_bytes());
    }

    fn show_bytes(&self, records: u64, consumed_bytes: impl FnOnce() -> u64) {
        if let Some(bar) = &self.0
            && records.is_multiple_of(Self::RECORDS_PER_UPDATE)
        {
            bar.set_position(consumed_bytes());
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

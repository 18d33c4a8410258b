//! `candor log`: what a recording holds, recordings in another format, and signals decoded.
//!
//! `candor help json log` describes what `--json` prints.

mod decode;
mod info;
pub(crate) mod json;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use candor_diagnostics::counted;
use candor_output::say;
use candor_recording::{
    AnyRecord, CAN2UDP, Entry, FORMATS, Format, Recording, RecordingError, Writer,
};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Answer;
use crate::can_udp::CanUdpArgs;
use crate::file_kind::FileKind;
use crate::overwrite::{Overwriting, refusal};

/// Examine and convert recordings of CAN and Ethernet traffic
#[derive(Subcommand)]
pub(crate) enum LogCommand {
    /// Show what a recording contains: frames, rates, bus load, and the period of each identifier and Ethernet stream
    ///
    /// Example: candor log info drive.log --bitrate 500k
    Info(info::InfoArgs),
    /// Convert a recording to another format
    ///
    /// Example: candor log convert drive.log drive.pcapng
    Convert(ConvertArgs),
    /// Decode the signals in a recording with a DBC file
    ///
    /// Exits with 1 if the DBC file describes none of the frames.
    ///
    /// Example: candor log decode drive.log --dbc car.dbc
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
    /// The format to write: candump, pcap, pcapng, or can2udp (a pcap of Ethernet with CAN frames in UDP datagrams);
    /// default: by the extension of OUT (candump on standard output)
    #[arg(long, value_name = "FORMAT", value_parser = parse_written)]
    to: Option<&'static Format>,
    #[command(flatten)]
    overwriting: Overwriting,
    #[command(flatten)]
    input: InputArgs,
}

#[derive(Args)]
struct InputArgs {
    /// The format to read: candump, pcap or pcapng; default: detected from the contents
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    from: Option<&'static Format>,
    /// Skip malformed records and report how many there were
    #[arg(long)]
    skip_malformed: bool,
    #[command(flatten)]
    can_udp: CanUdpArgs,
}

fn parse_format(name: &str) -> Result<&'static Format, String> {
    Format::by_name(name).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        format!("the formats are {}", names.join(", "))
    })
}

fn parse_written(name: &str) -> Result<&'static Format, String> {
    if name == CAN2UDP.name {
        return Ok(CAN2UDP);
    }
    parse_format(name).map_err(|error| format!("{error}, {}", CAN2UDP.name))
}

/// Runs `candor log`. The answer is no if a DBC file describes none of the frames that are to be decoded.
///
/// # Errors
/// One sentence that names the file, the place in it, the reason and the remedy.
pub(crate) fn run(command: LogCommand) -> Answer {
    match command {
        LogCommand::Info(args) => info::run(&args).map(|()| true),
        LogCommand::Convert(args) => convert(&args).map(|()| true),
        LogCommand::Decode(args) => decode::run(&args),
    }
}

fn convert(args: &ConvertArgs) -> Result<(), String> {
    let mut recording = args.input.open(&args.input_file)?;
    let existing = args.overwriting.existing();
    let refuse = |error: RecordingError| match error.is_existing() {
        true => refusal(&args.output_file),
        false => explain(error),
    };
    let mut writer =
        candor_recording::create(&args.output_file, args.to, existing).map_err(refuse)?;
    let format = writer.format();
    let to_stdout = args.output_file.as_os_str() == "-";
    let progress = Progress::new(&recording, !to_stdout);
    let Some(Converted { records, directions, ethernet_frames }) =
        copy_records(&mut recording, &mut writer, &progress, &args.input_file)?
    else {
        return Ok(());
    };
    match writer.finish() {
        Err(error) if error.is_broken_pipe() => return Ok(()),
        finished => finished.map_err(explain)?,
    }
    progress.clear();
    report_skipped(&recording);
    if directions > 0 && !format.keeps_directions {
        say!(
            "note: a {} cannot store directions; records that lost their direction: {directions}",
            format.title
        );
    }
    if ethernet_frames > 0 {
        say!(
            "note: a {} cannot store Ethernet frames; frames left out: {ethernet_frames}; use pcapng to keep them",
            format.title
        );
    }
    let other = recording.passed_over().other_packets;
    if other > 0 {
        say!("note: packets of other protocols skipped: {other}");
    }
    let records = counted(records, "record");
    say!("{records}: {} -> {}", recording.format().name, format.name);
    Ok(())
}

/// What was written, and what was not.
struct Converted {
    records: u64,
    /// The records that had a direction.
    directions: u64,
    /// The frames that the format cannot hold.
    ethernet_frames: u64,
}

/// Copies what the format can hold; `None` if nobody reads on.
fn copy_records(
    recording: &mut Recording,
    writer: &mut Writer,
    progress: &Progress,
    file: &Path,
) -> Result<Option<Converted>, String> {
    let mut done = Converted { records: 0, directions: 0, ethernet_frames: 0 };
    let keeps_ethernet = writer.format().keeps_ethernet;
    while let Some(entry) = recording.next_any() {
        let Entry { record, interface } =
            entry.map_err(|error| explain_malformed(error, done.records, file))?;
        if matches!(record, AnyRecord::Ethernet(_)) && !keeps_ethernet {
            done.ethernet_frames += 1;
            continue;
        }
        match writer.write_any(&record, interface) {
            Err(error) if error.is_broken_pipe() => return Ok(None),
            written => written.map_err(explain)?,
        }
        done.records += 1;
        done.directions += u64::from(record.direction().is_some());
        progress.show(recording, done.records);
    }
    Ok(Some(done))
}

impl InputArgs {
    fn open(&self, file: &Path) -> Result<Recording, String> {
        let recording = candor_recording::open(file, self.from)
            .map_err(|error| FileKind::Recording.mix_up(file).unwrap_or_else(|| explain(error)))?;
        Ok(recording.skip_malformed(self.skip_malformed).can_udp(self.can_udp.can_udp))
    }
}

fn explain(error: RecordingError) -> String {
    error.to_string()
}

/// Explains an error that came after so many good records. If there were none, the file is perhaps
/// no recording at all.
fn explain_malformed(error: RecordingError, records: u64, file: &Path) -> String {
    if records > 0 && error.can_be_skipped() {
        return format!("{error}; or skip such records with --skip-malformed");
    }
    FileKind::Recording.mix_up(file).unwrap_or_else(|| explain(error))
}

fn report_skipped(recording: &Recording) {
    if let Some(cut) = recording.cut() {
        say!("note: {cut}; what comes before it was read");
    }
    let skipped = recording.skipped();
    if let Some(first) = &skipped.first {
        say!("note: malformed records skipped: {}; the first: {first}", skipped.count);
    }
}

/// A bar with the time left, for work of a second or more on a terminal.
struct Progress(Option<ProgressBar>);

impl Progress {
    const MIN_BYTES: u64 = 64 << 20;
    const RECORDS_PER_UPDATE: u64 = 1 << 16;

    fn new(recording: &Recording, may_use_terminal: bool) -> Self {
        let len = recording.len_bytes().filter(|&len| {
            len >= Self::MIN_BYTES && io::stderr().is_terminal() && may_use_terminal
        });
        let style = ProgressStyle::with_template("{bar:40} {percent} %, {eta} left");
        Self(len.zip(style.ok()).map(|(len, style)| ProgressBar::new(len).with_style(style)))
    }

    fn show(&self, recording: &Recording, records: u64) {
        if let Some(bar) = &self.0
            && records.is_multiple_of(Self::RECORDS_PER_UPDATE)
        {
            bar.set_position(recording.consumed_bytes());
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

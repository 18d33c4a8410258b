//! `candor log`: what a recording holds, recordings in another format, and signals decoded.
//!
//! `candor log info --json` prints one object per line. The first has the type `log`, each further
//! one the type `id`, for one identifier on one interface; a field that cannot be told is null:
//!
//! | field of `log` | |
//! |---|---|
//! | `file`, `format` | as given, and `candump`, `pcap`, ... |
//! | `frames`, `error_reports`, `ids` | how many; error reports of drivers are no frames |
//! | `first_ns`, `last_ns`, `duration_ns` | the earliest and the latest time, and what lies between |
//! | `pause_ns_max`, `pause_from_ns` | the longest time between two records, and when it began |
//! | `rate_per_s` | frames per second |
//! | `out_of_order` | records that are earlier than the one before |
//! | `skipped` | malformed records passed over |
//! | `lost_frames` | frames the recorder says it lost |
//! | `other_packets` | packets of other protocols in the capture |
//! | `unlisted_frames` | frames beyond the 65,536 different identifiers that are listed |
//! | `bitrate`, `data_bitrate` | in bit/s, as given |
//! | `buses` | of each interface: `interface`, `frames`, `error_reports`, `rate_per_s`, `load_percent`, and the highest load within so long a time: `peak_10ms_percent`, `peak_100ms_percent`, `peak_1s_percent` |
//!
//! | field of `id` | |
//! |---|---|
//! | `interface`, `id` | the identifier in hex, 3 digits standard, 8 extended |
//! | `frames`, `remote_frames`, `fd_frames` | how many, and of those the remote and CAN FD ones |
//! | `len_min`, `len_max` | data length in bytes |
//! | `period_ns_mean`, `period_ns_min`, `period_ns_max` | from one frame to the next |
//! | `jitter_ns` | standard deviation of the period |
//! | `share_percent` | the part of the bus's busy time |

mod decode;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use candor_lab::kind::Kind;
use candor_lab::recording::{self, IdStatistics, LogStatistics, Recording, RecordingError};
use candor_wire::log::{FORMATS, Format, InterfaceIndex};
use candor_wire::{Bitrate, Id, Timing};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::overwrite::{Overwriting, refusal};

/// A bus cannot carry more: a second may hold the stamp of one frame more than fits into it.
const FULL_PERCENT: f64 = 101.0;

/// Examine and convert recordings of CAN traffic
#[derive(Subcommand)]
pub(crate) enum LogCommand {
    /// Show what a recording contains: frames, rates, bus load, and the period of each identifier
    ///
    /// Example: candor log info drive.log --bitrate 500k
    Info(InfoArgs),
    /// Convert a recording to another format
    ///
    /// Example: candor log convert drive.log drive.pcapng
    Convert(ConvertArgs),
    /// Decode the signals in a recording with a DBC file
    ///
    /// Example: candor log decode drive.log --dbc car.dbc
    Decode(decode::DecodeArgs),
}

#[derive(Args)]
pub(crate) struct InfoArgs {
    /// The recording, or - for standard input
    file: PathBuf,
    /// The bit rate of the bus, such as 500k, to show its load
    #[arg(long, value_name = "RATE")]
    bitrate: Option<Bitrate>,
    /// The bit rate of the data phase of CAN FD, such as 2M; default: the same as --bitrate
    #[arg(long, value_name = "RATE", requires = "bitrate")]
    data_bitrate: Option<Bitrate>,
    /// Print JSON Lines: one object of type "log", then one of type "id" per identifier
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArgs,
}

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// The recording to read, or - for standard input
    #[arg(value_name = "IN")]
    input_file: PathBuf,
    /// The file to write, or - for standard output
    #[arg(value_name = "OUT")]
    output_file: PathBuf,
    /// The format to write; default: by the extension of OUT (candump on standard output)
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
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
}

fn parse_format(name: &str) -> Result<&'static Format, String> {
    Format::by_name(name).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        format!("the formats are {}", names.join(", "))
    })
}

/// Runs `candor log`; there is no question to which it could answer no.
///
/// # Errors
/// One sentence that names the file, the place in it, the reason and the remedy.
pub(crate) fn run(command: LogCommand) -> Result<bool, String> {
    match command {
        LogCommand::Info(args) => info(&args)?,
        LogCommand::Convert(args) => convert(&args)?,
        LogCommand::Decode(args) => decode::run(&args)?,
    }
    Ok(true)
}

fn info(args: &InfoArgs) -> Result<(), String> {
    let mut recording = args.input.open(&args.file)?;
    let progress = Progress::of(&recording, true);
    let timing =
        args.bitrate.map(|nominal| Timing { nominal, data: args.data_bitrate.unwrap_or(nominal) });
    let mut statistics = LogStatistics::with_timing(timing);
    while let Some(record) = recording.next() {
        let record =
            record.map_err(|error| explain_malformed(error, statistics.frames(), &args.file))?;
        statistics.add(&record);
        progress.show(&recording, statistics.frames());
    }
    progress.clear();
    let info = Info { file: &args.file, recording: &recording, statistics: &statistics, timing };

    let mut text = Vec::new();
    if args.json { info.write_json(&mut text) } else { info.write_text(&mut text) }
        .map_err(|error| format!("cannot render the statistics: {error}"))?;
    report_skipped(&recording);
    if statistics.frames() == 0 {
        eprintln!("note: {}: the recording has no frames", args.file.display());
    }
    info.report_doubts();
    match io::stdout().write_all(&text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output: cannot be written: {error}; check where it goes"))
        }
        _ => Ok(()),
    }
}

fn convert(args: &ConvertArgs) -> Result<(), String> {
    let mut recording = args.input.open(&args.input_file)?;
    let existing = args.overwriting.existing();
    let refuse = |error: RecordingError| match error.is_existing() {
        true => refusal(&args.output_file),
        false => explain(error),
    };
    let mut writer = recording::create(&args.output_file, args.to, existing).map_err(refuse)?;
    let format = writer.format();
    let to_stdout = args.output_file.as_os_str() == "-";
    let progress = Progress::of(&recording, !to_stdout);
    let (mut records, mut directions) = (0, 0);
    while let Some(record) = recording.next() {
        let record = record.map_err(|error| explain_malformed(error, records, &args.input_file))?;
        let name = recording.interfaces().name(record.interface);
        match writer.write(&record, name) {
            Err(error) if error.is_broken_pipe() => return Ok(()),
            written => written.map_err(explain)?,
        }
        records += 1;
        directions += u64::from(record.direction.is_some());
        progress.show(&recording, records);
    }
    match writer.finish() {
        Err(error) if error.is_broken_pipe() => return Ok(()),
        finished => finished.map_err(explain)?,
    }
    progress.clear();
    report_skipped(&recording);
    if directions > 0 && !format.keeps_directions {
        eprintln!(
            "note: a {} cannot store directions; records that lost their direction: {directions}",
            format.title
        );
    }
    let other = recording.passed_over().other_packets;
    if other > 0 {
        eprintln!("note: packets of other protocols skipped: {other}");
    }
    eprintln!("{records} records: {} -> {}", recording.format().name, format.name);
    Ok(())
}

impl InputArgs {
    fn open(&self, file: &Path) -> Result<Recording, String> {
        let recording = recording::open(file, self.from)
            .map_err(|error| Kind::Recording.mix_up(file).unwrap_or_else(|| explain(error)))?;
        Ok(recording.skip_malformed(self.skip_malformed))
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
    Kind::Recording.mix_up(file).unwrap_or_else(|| explain(error))
}

fn report_skipped(recording: &Recording) {
    if let Some(cut) = recording.cut() {
        eprintln!("note: {cut}; what comes before it was read");
    }
    let skipped = recording.skipped();
    if let Some(first) = &skipped.first {
        eprintln!("note: malformed records skipped: {}; the first: {first}", skipped.count);
    }
}

/// A bar with the time left, for work of a second or more on a terminal.
struct Progress(Option<ProgressBar>);

impl Progress {
    const MIN_BYTES: u64 = 64 << 20;
    const RECORDS_PER_UPDATE: u64 = 1 << 16;

    fn of(recording: &Recording, may_use_terminal: bool) -> Self {
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

/// Everything `candor log info` shows.
struct Info<'a> {
    file: &'a Path,
    recording: &'a Recording,
    statistics: &'a LogStatistics,
    timing: Option<Timing>,
}

impl Info<'_> {
    fn interface(&self, index: InterfaceIndex) -> &str {
        self.recording.interfaces().name(index)
    }

    fn share_percent(&self, index: InterfaceIndex, id: &IdStatistics) -> Option<f64> {
        // Without CAN FD the bit rate does not matter for a share.
        let timing = self.timing.unwrap_or(Timing::classical(Bitrate::MAX));
        self.statistics.share_percent(index, id, timing)
    }

    /// Says what is wrong with the bit rate.
    fn report_doubts(&self) {
        let Some(timing) = self.timing else { return };
        if let Some(unusual) = timing.unusual() {
            let meant =
                unusual.meant().map_or(String::new(), |rate| format!("; did you mean {rate}?"));
            eprintln!("note: {unusual}{meant}");
        }
        for (index, bus) in self.statistics.buses() {
            let [_, _, second] = bus.peaks_percent();
            let highest = second.or_else(|| bus.load_percent(timing)).unwrap_or(0.0);
            if highest > FULL_PERCENT {
                let within = if second.is_some() { "within a second" } else { "in all" };
                eprintln!(
                    "note: {}: a load of {highest:.0} % {within} at {}bit/s, more than any bus \
                     can carry: check the bit rate, and whether these frames are all from one bus",
                    self.interface(index),
                    timing.nominal
                );
            }
        }
    }

    fn write_text(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let statistics = self.statistics;
        writeln!(out, "{}: {}", self.file.display(), self.recording.format().title)?;
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: String| facts.push(vec![name.to_owned(), value]);
        fact("frames", statistics.frames().to_string());
        fact("ids", statistics.ids().count().to_string());
        if let Some((first_ns, last_ns)) = statistics.span_ns() {
            fact("from", format!("{} s", seconds(first_ns)));
            fact("to", format!("{} s", seconds(last_ns)));
            fact("duration", format!("{} s", seconds(statistics.duration_ns())));
        }
        if let Some(pause) = statistics.longest_pause() {
            fact("longest pause", format!("{} s", seconds(pause.duration_ns)));
            fact("  it began at", format!("{} s", seconds(pause.from_ns)));
        }
        let passed_over = self.recording.passed_over();
        for (name, count) in [
            ("error reports", statistics.error_reports()),
            ("records out of order", statistics.out_of_order()),
            ("malformed records skipped", self.recording.skipped().count),
            ("frames lost by the recorder", passed_over.lost_frames),
            ("packets of other protocols", passed_over.other_packets),
            ("frames of ids not listed", statistics.unlisted_frames()),
        ] {
            if count > 0 {
                fact(name, count.to_string());
            }
        }
        write_table(out, 1, &facts)?;
        if statistics.frames() == 0 {
            return Ok(());
        }
        writeln!(out)?;
        write_table(out, 1, &self.bus_rows())?;
        if self.timing.is_none() {
            writeln!(out, "(to see the load, give the bit rate: --bitrate 500k)")?;
        }
        writeln!(out)?;
        write_table(out, 2, &self.id_rows())
    }

    fn bus_rows(&self) -> Vec<Vec<String>> {
        let load = match self.timing {
            Some(Timing { nominal, data }) if nominal != data => {
                format!("load at {nominal}/{data}")
            }
            Some(Timing { nominal, .. }) => format!("load at {nominal}"),
            None => "load".to_owned(),
        };
        let mut rows = vec![row(["bus", "frames", "frames/s", &load])];
        let has_peaks = self.timing.is_some();
        if has_peaks {
            rows[0].extend(["peak 10 ms", "peak 100 ms", "peak 1 s"].map(str::to_owned));
        }
        rows.extend(self.statistics.buses().map(|(index, bus)| {
            let load = self.timing.and_then(|timing| bus.load_percent(timing));
            let mut cells = row([
                self.interface(index),
                &bus.frames().to_string(),
                &decimals(bus.rate(), 1, ""),
                &decimals(load, 2, " %"),
            ]);
            if has_peaks {
                cells.extend(bus.peaks_percent().map(|peak| decimals(peak, 2, " %")));
            }
            cells
        }));
        rows
    }

    fn id_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![row([
            "bus",
            "id",
            "frames",
            "bytes",
            "period ms",
            "min ms",
            "max ms",
            "jitter ms",
            "share",
        ])];
        rows.extend(self.statistics.ids().map(|(index, id, of_id)| {
            let millis = |ns: Option<f64>| decimals(ns.map(|ns| ns / 1e6), 3, "");
            let bytes = if of_id.len_min == of_id.len_max {
                of_id.len_min.to_string()
            } else {
                format!("{}-{}", of_id.len_min, of_id.len_max)
            };
            row([
                self.interface(index),
                &hex(id),
                &of_id.frames.to_string(),
                &bytes,
                &millis(of_id.period.mean_ns()),
                &millis(of_id.period.min_ns().map(|ns| ns as f64)),
                &millis(of_id.period.max_ns().map(|ns| ns as f64)),
                &millis(of_id.period.jitter_ns()),
                &decimals(self.share_percent(index, of_id), 2, " %"),
            ])
        }));
        rows
    }

    fn write_json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let statistics = self.statistics;
        let passed_over = self.recording.passed_over();
        let buses = statistics.buses().map(|(index, bus)| {
            let [peak_10ms_percent, peak_100ms_percent, peak_1s_percent] = bus.peaks_percent();
            BusLine {
                interface: self.interface(index),
                frames: bus.frames(),
                error_reports: bus.error_reports(),
                rate_per_s: bus.rate(),
                load_percent: self.timing.and_then(|timing| bus.load_percent(timing)),
                peak_10ms_percent,
                peak_100ms_percent,
                peak_1s_percent,
            }
        });
        let log = Line::Log(LogLine {
            file: self.file.display().to_string(),
            format: self.recording.format().name,
            frames: statistics.frames(),
            error_reports: statistics.error_reports(),
            ids: statistics.ids().count(),
            first_ns: statistics.span_ns().map(|(first_ns, _)| first_ns),
            last_ns: statistics.span_ns().map(|(_, last_ns)| last_ns),
            duration_ns: statistics.duration_ns(),
            pause_ns_max: statistics.longest_pause().map(|pause| pause.duration_ns),
            pause_from_ns: statistics.longest_pause().map(|pause| pause.from_ns),
            rate_per_s: statistics.rate(),
            out_of_order: statistics.out_of_order(),
            skipped: self.recording.skipped().count,
            lost_frames: passed_over.lost_frames,
            other_packets: passed_over.other_packets,
            unlisted_frames: statistics.unlisted_frames(),
            bitrate: self.timing.map(|timing| timing.nominal.bits_per_second()),
            data_bitrate: self.timing.map(|timing| timing.data.bits_per_second()),
            buses: buses.collect(),
        });
        let ids = statistics.ids().map(|(index, id, of_id)| {
            Line::Id(IdLine {
                interface: self.interface(index),
                id: hex(id),
                frames: of_id.frames,
                remote_frames: of_id.remote_frames,
                fd_frames: of_id.fd_frames,
                len_min: of_id.len_min,
                len_max: of_id.len_max,
                period_ns_mean: of_id.period.mean_ns(),
                period_ns_min: of_id.period.min_ns(),
                period_ns_max: of_id.period.max_ns(),
                jitter_ns: of_id.period.jitter_ns(),
                share_percent: self.share_percent(index, of_id),
            })
        });
        for line in std::iter::once(log).chain(ids) {
            serde_json::to_writer(&mut *out, &line)?;
            writeln!(out)?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
#[serde(tag = "type", content = "data", rename_all = "lowercase")]
enum Line<'a> {
    Log(LogLine<'a>),
    Id(IdLine<'a>),
}

#[derive(Serialize)]
struct LogLine<'a> {
    file: String,
    format: &'static str,
    frames: u64,
    error_reports: u64,
    ids: usize,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    duration_ns: u64,
    pause_ns_max: Option<u64>,
    pause_from_ns: Option<u64>,
    rate_per_s: Option<f64>,
    out_of_order: u64,
    skipped: u64,
    lost_frames: u64,
    other_packets: u64,
    unlisted_frames: u64,
    bitrate: Option<u32>,
    data_bitrate: Option<u32>,
    buses: Vec<BusLine<'a>>,
}

#[derive(Serialize)]
struct BusLine<'a> {
    interface: &'a str,
    frames: u64,
    error_reports: u64,
    rate_per_s: Option<f64>,
    load_percent: Option<f64>,
    peak_10ms_percent: Option<f64>,
    peak_100ms_percent: Option<f64>,
    peak_1s_percent: Option<f64>,
}

#[derive(Serialize)]
struct IdLine<'a> {
    interface: &'a str,
    id: String,
    frames: u64,
    remote_frames: u64,
    fd_frames: u64,
    len_min: usize,
    len_max: usize,
    period_ns_mean: Option<f64>,
    period_ns_min: Option<u64>,
    period_ns_max: Option<u64>,
    jitter_ns: Option<f64>,
    share_percent: Option<f64>,
}

/// As candump writes it: 3 digits standard, 8 extended.
fn hex(id: Id) -> String {
    match id {
        Id::Standard(id) => format!("{:03X}", id.as_raw()),
        Id::Extended(id) => format!("{:08X}", id.as_raw()),
    }
}

/// Microseconds if that is exact, else nanoseconds.
fn seconds(time_ns: u64) -> String {
    let (whole, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
    if rest.is_multiple_of(1_000) {
        format!("{whole}.{:06}", rest / 1_000)
    } else {
        format!("{whole}.{rest:09}")
    }
}

fn decimals(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}{unit}"))
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Writes rows of the same number of cells; the first `left` columns are aligned left, the others
/// right.
fn write_table(out: &mut Vec<u8>, left: usize, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    for row in rows {
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            if column < left {
                write!(out, "{gap}{cell:<width$}")?;
            } else {
                write!(out, "{gap}{cell:>width$}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

//! `candor log info`: frames, rates, bus load and the identifiers of a recording.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use candor_output::say;
use candor_recording::{
    BusStatistics, IdStatistics, InterfaceIndex, LinkStatistics, PeriodStatistics, Recording,
    Statistics, Stream,
};
use candor_wire::can::{Bitrate, Id, Timing};
use clap::Args;

use super::{InputArgs, Progress, explain_malformed, report_skipped};
use crate::json;
use crate::output::{note_unusual, unwritable};

/// A bus cannot carry more: a second may hold the stamp of one frame more than fits into it.
const FULL_PERCENT: f64 = 101.0;

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
    /// Print JSON Lines: one object of type "log", then one of type "id" per identifier and one of type "stream" per
    /// Ethernet stream
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArgs,
}

pub(super) fn run(args: &InfoArgs) -> Result<(), String> {
    let mut recording = args.input.open(&args.file)?;
    let progress = Progress::new(&recording, true);
    let timing =
        args.bitrate.map(|nominal| Timing { nominal, data: args.data_bitrate.unwrap_or(nominal) });
    let mut statistics = Statistics::with_timing(timing);
    let mut records = 0;
    while let Some(entry) = recording.next_any() {
        let entry = entry.map_err(|error| explain_malformed(error, records, &args.file))?;
        statistics.add_any(&entry.record);
        records += 1;
        progress.show(&recording, records);
    }
    progress.clear();
    let info = Info { file: &args.file, recording: &recording, statistics: &statistics, timing };

    let mut text = Vec::new();
    if args.json { info.write_json(&mut text) } else { info.write_text(&mut text) }
        .map_err(|error| format!("cannot render the statistics: {error}"))?;
    report_skipped(&recording);
    if records == 0 {
        say!("note: {}: the recording has no frames", args.file.display());
    }
    info.report_doubts();
    match io::stdout().write_all(&text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritable(&error)),
        _ => Ok(()),
    }
}

/// Everything `candor log info` shows.
pub(crate) struct Info<'a> {
    pub(crate) file: &'a Path,
    pub(crate) recording: &'a Recording,
    pub(crate) statistics: &'a Statistics,
    pub(crate) timing: Option<Timing>,
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
        note_unusual(timing);
        for (index, bus) in self.statistics.buses() {
            let [_, _, second] = bus.peaks_percent();
            let highest = second.or_else(|| bus.load_percent(timing)).unwrap_or(0.0);
            if highest > FULL_PERCENT {
                let within = if second.is_some() { "within a second" } else { "in all" };
                say!(
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
        write!(out, "{}: {}", self.file.display(), self.recording.format().title)?;
        if let Some(compression) = self.recording.compression() {
            write!(out, ", compressed with {compression}")?;
        }
        writeln!(out)?;
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: String| facts.push(vec![name.to_owned(), value]);
        fact("frames", statistics.frames().to_string());
        fact("ids", statistics.ids().count().to_string());
        if let Some(start_ns) = self.recording.start_ns() {
            fact("start of the measurement", format!("{} s", seconds(start_ns)));
        }
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
        let ethernet = statistics.ethernet();
        for (name, count) in [
            ("error reports", statistics.error_reports()),
            ("records out of order", statistics.out_of_order()),
            ("malformed records skipped", self.recording.skipped().count),
            ("frames lost by the recorder", passed_over.lost_frames),
            ("frames of ids not listed", statistics.unlisted_frames()),
            ("Ethernet frames", ethernet.frames()),
            ("  cut by the recorder", ethernet.cut_frames()),
            ("  shorter than a header", ethernet.short_frames()),
            ("  of streams not listed", ethernet.unlisted_frames()),
            ("other packets, objects and events", passed_over.other_packets),
        ] {
            if count > 0 {
                fact(name, count.to_string());
            }
        }
        write_table(out, 1, &facts)?;
        if statistics.frames() > 0 {
            writeln!(out)?;
            write_table(out, 1, &self.bus_rows())?;
            if self.timing.is_none() {
                writeln!(out, "(to see the load, give the bit rate: --bitrate 500k)")?;
            }
            writeln!(out)?;
            write_table(out, 2, &self.id_rows())?;
        }
        if ethernet.frames() > 0 {
            writeln!(out)?;
            write_table(out, 1, &self.link_rows())?;
            writeln!(out)?;
            write_table(out, 4, &self.stream_rows())?;
        }
        Ok(())
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
            "stddev ms",
            "share",
        ])];
        rows.extend(self.statistics.ids().map(|(index, id, of_id)| {
            let mut cells = row([
                self.interface(index),
                &hex(id),
                &of_id.frames.to_string(),
                &least_to_most(of_id.len_min, of_id.len_max),
            ]);
            cells.extend(period_cells(&of_id.period));
            cells.push(decimals(self.share_percent(index, of_id), 2, " %"));
            cells
        }));
        rows
    }

    fn link_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![row(["link", "frames", "frames/s", "bytes", "Mbit/s"])];
        rows.extend(self.statistics.ethernet().links().map(|(index, link)| {
            row([
                self.interface(index),
                &link.frames().to_string(),
                &decimals(link.rate(), 1, ""),
                &link.bytes().to_string(),
                &decimals(link.bits_per_second().map(|bits| bits / 1e6), 3, ""),
            ])
        }));
        rows
    }

    fn stream_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![row([
            "link",
            "destination",
            "vlan",
            "type",
            "frames",
            "bytes",
            "period ms",
            "min ms",
            "max ms",
            "stddev ms",
        ])];
        rows.extend(self.statistics.ethernet().streams().map(|(index, stream, of_stream)| {
            let vlan = stream.vlan.map_or_else(|| "-".to_owned(), |vlan| vlan.to_string());
            let mut cells = row([
                self.interface(index),
                &stream.destination.to_string(),
                &vlan,
                &ether_type(stream).unwrap_or_else(|| "length".to_owned()),
                &of_stream.frames.to_string(),
                &least_to_most(of_stream.len_min, of_stream.len_max),
            ]);
            cells.extend(period_cells(&of_stream.period));
            cells
        }));
        rows
    }

    fn write_json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        json::write(self, out)?;
        for (index, id, of_id) in self.statistics.ids() {
            let share_percent = self.share_percent(index, of_id);
            json::write(&(self.interface(index), id, of_id, share_percent), out)?;
        }
        for (index, stream, of_stream) in self.statistics.ethernet().streams() {
            json::write(&(self.interface(index), stream, of_stream), out)?;
        }
        Ok(())
    }

    pub(crate) fn buses(&self) -> Vec<(&str, &BusStatistics, Option<Timing>)> {
        let buses = self.statistics.buses();
        buses.map(|(index, bus)| (self.interface(index), bus, self.timing)).collect()
    }

    pub(crate) fn links(&self) -> Vec<(&str, &LinkStatistics)> {
        let links = self.statistics.ethernet().links();
        links.map(|(index, link)| (self.interface(index), link)).collect()
    }
}

/// As tcpdump and Wireshark write it: `0x88d7`; `None` if the header has a length instead.
pub(crate) fn ether_type(stream: Stream) -> Option<String> {
    stream.ether_type.map(|ether_type| format!("0x{ether_type:04x}"))
}

fn least_to_most(least: usize, most: usize) -> String {
    if least == most { least.to_string() } else { format!("{least}-{most}") }
}

/// Mean, minimum, maximum and standard deviation in milliseconds.
fn period_cells(period: &PeriodStatistics) -> [String; 4] {
    let millis = |ns: Option<f64>| decimals(ns.map(|ns| ns / 1e6), 3, "");
    [
        millis(period.mean_ns()),
        millis(period.min_ns().map(|ns| ns as f64)),
        millis(period.max_ns().map(|ns| ns as f64)),
        millis(period.stddev_ns()),
    ]
}

/// As candump writes it: 3 digits standard, 8 extended.
pub(crate) fn hex(id: Id) -> String {
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
pub(super) fn write_table(out: &mut Vec<u8>, left: usize, rows: &[Vec<String>]) -> io::Result<()> {
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

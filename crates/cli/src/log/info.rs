//! `candor log info`: frames, rates, bus load and the identifiers of a recording.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use candor_output::say;
use candor_recording::{
    BusStatistics, IdStatistics, InterfaceIndex, LinkStatistics, PeriodStatistics, Recording,
    Statistics, Stream,
};
use candor_wire::can::frame::id_word;
use candor_wire::can::notation::Identifier;
use candor_wire::can::{Bitrate, Id, Timing};
use clap::Args;

use super::{InputArgs, Progress, explain_malformed, report_skipped};
use crate::Answer;
use crate::json;
use crate::output::{Table, note_unusual, print};
use crate::reading::is_confirmed;

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

pub(super) fn run(args: &InfoArgs) -> Answer {
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
    print(&String::from_utf8_lossy(&text))?;
    Ok(is_confirmed(&recording))
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
        fact("frames", statistics.frames.to_string());
        fact("ids", statistics.ids().count().to_string());
        if let Some(start_ns) = self.recording.start_ns() {
            fact("start of the measurement", format!("{} s", seconds(start_ns)));
        }
        if let Some((first_ns, last_ns)) = statistics.span_ns() {
            fact("from", format!("{} s", seconds(first_ns)));
            fact("to", format!("{} s", seconds(last_ns)));
            fact("duration", format!("{} s", seconds(statistics.duration_ns())));
        }
        if let Some(pause) = statistics.longest_pause {
            fact("longest pause", format!("{} s", seconds(pause.duration_ns)));
            fact("  it began at", format!("{} s", seconds(pause.from_ns)));
        }
        let passed_over = self.recording.passed_over();
        let ethernet = &statistics.ethernet;
        for (name, count) in [
            ("error reports", statistics.error_reports),
            ("records out of order", statistics.out_of_order),
            ("malformed records skipped", self.recording.skipped().count),
            ("unverified records", self.recording.unverified().unwrap_or(0)),
            ("frames lost by the recorder", passed_over.lost_frames),
            ("frames of ids not listed", statistics.unlisted_frames),
            ("Ethernet frames", ethernet.frames),
            ("  cut by the recorder", ethernet.cut_frames),
            ("  shorter than a header", ethernet.short_frames),
            ("  of streams not listed", ethernet.unlisted_frames),
            ("other packets, objects and events", passed_over.other_packets),
        ] {
            if count > 0 {
                fact(name, count.to_string());
            }
        }
        write_table(out, 1, &facts)?;
        if statistics.frames > 0 {
            writeln!(out)?;
            write_table(out, 1, &self.bus_rows())?;
            if self.timing.is_none() {
                writeln!(out, "(to see the load, give the bit rate: --bitrate 500k)")?;
            }
            writeln!(out)?;
            write_table(out, 2, &self.id_rows())?;
        }
        if ethernet.frames > 0 {
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
        let mut table = Table::of(self.statistics.buses())
            .column("bus", |(index, _)| self.interface(*index).to_owned())
            .column("frames", |(_, bus)| bus.frames.to_string())
            .column("frames/s", |(_, bus)| decimals(bus.rate(), 1, ""))
            .column(load, |(_, bus)| {
                decimals(self.timing.and_then(|timing| bus.load_percent(timing)), 2, " %")
            });
        for (place, name) in ["peak 10 ms", "peak 100 ms", "peak 1 s"].into_iter().enumerate() {
            let peak = |bus: &BusStatistics| decimals(bus.peaks_percent()[place], 2, " %");
            table = table.column_if(self.timing.is_some(), name, |(_, bus)| peak(bus));
        }
        table.lines()
    }

    fn id_rows(&self) -> Vec<Vec<String>> {
        let ids = Table::of(self.statistics.ids())
            .column("bus", |(index, ..)| self.interface(*index).to_owned())
            .column("id", |(_, id, _)| hex(*id))
            .column("frames", |(.., it)| it.frames.to_string())
            .column("bytes", |(.., it)| least_to_most(it.len_min, it.len_max));
        with_periods(ids, |(.., it)| &it.period)
            .column("share", |(index, _, it)| decimals(self.share_percent(*index, it), 2, " %"))
            .lines()
    }

    fn link_rows(&self) -> Vec<Vec<String>> {
        let megabits = |link: &LinkStatistics| link.bits_per_second().map(|bits| bits / 1e6);
        Table::of(self.statistics.ethernet.links())
            .column("link", |(index, _)| self.interface(*index).to_owned())
            .column("frames", |(_, link)| link.frames.to_string())
            .column("frames/s", |(_, link)| decimals(link.rate(), 1, ""))
            .column("bytes", |(_, link)| link.bytes.to_string())
            .column("Mbit/s", |(_, link)| decimals(megabits(link), 3, ""))
            .lines()
    }

    fn stream_rows(&self) -> Vec<Vec<String>> {
        let vlan = |stream: &Stream| stream.vlan.map_or_else(|| "-".into(), |it| it.to_string());
        let kind = |stream: Stream| ether_type(stream).unwrap_or_else(|| "length".to_owned());
        let streams = Table::of(self.statistics.ethernet.streams())
            .column("link", |(index, ..)| self.interface(*index).to_owned())
            .column("destination", |(_, stream, _)| stream.destination.to_string())
            .column("vlan", |(_, stream, _)| vlan(stream))
            .column("type", |(_, stream, _)| kind(*stream))
            .column("frames", |(.., it)| it.frames.to_string())
            .column("bytes", |(.., it)| least_to_most(it.len_min, it.len_max));
        with_periods(streams, |(.., it)| &it.period).lines()
    }

    fn write_json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        json::write(self, out)?;
        for (index, id, of_id) in self.statistics.ids() {
            let share_percent = self.share_percent(index, of_id);
            json::write(&(self.interface(index), id, of_id, share_percent), out)?;
        }
        for (index, stream, of_stream) in self.statistics.ethernet.streams() {
            json::write(&(self.interface(index), stream, of_stream), out)?;
        }
        Ok(())
    }

    pub(crate) fn buses(&self) -> Vec<(&str, &BusStatistics, Option<Timing>)> {
        let buses = self.statistics.buses();
        buses.map(|(index, bus)| (self.interface(index), bus, self.timing)).collect()
    }

    pub(crate) fn links(&self) -> Vec<(&str, &LinkStatistics)> {
        let links = self.statistics.ethernet.links();
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

/// Adds mean, minimum, maximum and standard deviation in milliseconds.
fn with_periods<T>(table: Table<T>, period: impl Fn(&T) -> &PeriodStatistics) -> Table<T> {
    let millis = |ns: Option<f64>| decimals(ns.map(|ns| ns / 1e6), 3, "");
    table
        .column("period ms", |it| millis(period(it).mean_ns()))
        .column("min ms", |it| millis(period(it).min_ns().map(|ns| ns as f64)))
        .column("max ms", |it| millis(period(it).max_ns().map(|ns| ns as f64)))
        .column("stddev ms", |it| millis(period(it).stddev_ns()))
}

/// As candump writes it: 3 digits standard, 8 extended.
pub(crate) fn hex(id: Id) -> String {
    Identifier(id_word(id)).to_string()
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

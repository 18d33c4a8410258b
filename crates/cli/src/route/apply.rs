//! `candor route apply`: what a gateway with these rules would have sent for a recording.
//!
//! `candor help json route apply` describes what `--json` prints.

use std::collections::BTreeMap;
use std::path::PathBuf;

use candor_diagnostics::{counted, did_you_mean};
use candor_engine::{Bus, BusIndex, Table};
use candor_gateway::offline::Offline;
use candor_output::say;
use candor_recording::{AnyRecord, Entry, InterfaceIndex, Recording, RecordingError, Writer};
use clap::Args;

use super::run::summary;
use super::{Rules, read_rules, stats};
use crate::Answer;
use crate::color;
use crate::log::{
    InputArgs, Output, Progress, SortArgs, explain_malformed, report_losses, report_skipped,
};
use crate::output::{pair, print};
use crate::reading::is_sound;

#[derive(Args)]
pub(crate) struct ApplyArgs {
    /// The rule file or output of `cangw -L`
    rules: PathBuf,
    /// The recording to read, or - for standard input
    #[arg(value_name = "IN")]
    input_file: PathBuf,
    /// The file to write, or - for standard output
    #[arg(value_name = "OUT")]
    output_file: PathBuf,
    /// An interface of the recording is this bus of the rules (may be repeated); default: the bus with its name, as the rules
    /// or the machine call it
    #[arg(long, value_name = "INTERFACE=BUS", value_parser = read_mapping)]
    map: Vec<(String, String)>,
    /// Print JSON Lines: objects of type "port" and "rule", then one of type "summary"
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    sorting: SortArgs,
    #[command(flatten)]
    input: InputArgs,
}

/// An interface and its bus.
fn read_mapping(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| "expected INTERFACE=BUS, such as can0=powertrain".into())
}

/// False if the rules have errors, if no frame of the recording is on one of their buses, or if no checksum confirms some of them or not all could be sorted.
pub(super) fn run(args: &ApplyArgs) -> Answer {
    let Rules { name, table, findings, .. } = read_rules(&args.rules)?;
    color::eprint_findings(&findings);
    let Some(table) = table else { return Ok(false) };
    let buses =
        BusesOfRecording::new(&table, &args.map).map_err(|reason| format!("{name}: {reason}"))?;
    let to_stdout = args.output_file.as_os_str() == "-";
    if args.json && to_stdout {
        return Err("--json and OUT both are standard output; write the frames into a file".into());
    }
    let mut recording = args.sorting.sort(args.input.open(&args.input_file)?);
    let writer = args.output.create(&args.output_file)?;
    let mut work = Work { offline: Offline::new(table), writer, buses, done: Done::default() };
    if !work.through(args, &mut recording)? {
        return Ok(true);
    }
    let Work { offline, writer, buses, done } = work;
    report_losses(&writer);
    match writer.finish() {
        Err(error) if error.is_broken_pipe() => return Ok(true),
        finished => finished.map_err(|error| error.to_string())?,
    }
    report_skipped(&recording);
    done.report(&buses, &offline, recording.sorted().is_some());
    let snapshot = offline.snapshot(&name);
    match (args.json, to_stdout) {
        (true, _) => print(&stats::json::lines(&snapshot, None)?)?,
        (false, true) => say!("{}", summary(&snapshot).trim_end()),
        (false, false) => print(&summary(&snapshot))?,
    }
    let (frames, copies) = (counted(done.frames, "frame"), counted(done.copies, "frame"));
    say!("{frames} of {} -> {copies}", counted(recording.interfaces().len() as u64, "interface"));
    let is_applied = done.frames == 0 || done.foreign.values().sum::<u64>() < done.frames;
    Ok(is_applied && is_sound(&recording))
}

/// What of a recording is which bus.
struct BusesOfRecording {
    table: Table,
    map: Vec<(String, BusIndex)>,
    /// By the interface of the recording; nothing if no bus is it.
    known: Vec<Option<BusIndex>>,
    /// How the recording that is written calls each bus.
    names: Vec<String>,
}

impl BusesOfRecording {
    fn new(table: &Table, map: &[(String, String)]) -> Result<Self, String> {
        let resolve = |(interface, bus): &(String, String)| {
            let index = table.bus(bus).ok_or_else(|| unknown(table, bus))?;
            Ok((interface.clone(), index))
        };
        let map: Vec<_> = map.iter().map(resolve).collect::<Result<_, String>>()?;
        for (place, (interface, bus)) in map.iter().enumerate() {
            if map[..place].iter().any(|(known, other)| known == interface && other != bus) {
                return Err(format!("--map gives {interface} two buses; name one"));
            }
        }
        let name = |(index, bus): (usize, &Bus)| {
            let mapped = map.iter().find(|(_, known)| usize::from(known.0) == index);
            let is_interface = !bus.interface().contains(':');
            match mapped {
                Some((interface, _)) => interface.clone(),
                None if is_interface => bus.interface().to_owned(),
                None => bus.name.clone(),
            }
        };
        let names = table.buses.iter().enumerate().map(name).collect();
        Ok(Self { table: table.clone(), map, known: Vec::new(), names })
    }

    /// The bus that an interface of the recording is.
    fn of(&mut self, interface: InterfaceIndex, name: &str) -> Option<BusIndex> {
        let place = usize::from(interface.0);
        while self.known.len() <= place {
            self.known.push(None);
            if self.known.len() == place + 1 {
                self.known[place] = self.named(name);
            }
        }
        self.known[place]
    }

    fn named(&self, name: &str) -> Option<BusIndex> {
        let mapped = self.map.iter().find(|(interface, _)| interface == name);
        mapped.map(|(_, bus)| *bus).or_else(|| self.table.bus_or_interface(name))
    }
}

fn unknown(table: &Table, bus: &str) -> String {
    let names: Vec<_> = table.buses.iter().map(|bus| bus.name.as_str()).collect();
    match did_you_mean(bus, names.iter().copied()) {
        Some(meant) => format!("unknown bus `{bus}` in --map; did you mean `{meant}`?"),
        None => format!("unknown bus `{bus}` in --map; there are {}", names.join(", ")),
    }
}

/// What was read and written, and what was not.
#[derive(Default)]
struct Done {
    /// CAN frames that were read.
    frames: u64,
    copies: u64,
    /// Frames of interfaces that are no bus of the rules.
    foreign: BTreeMap<String, u64>,
    /// Ethernet frames that passed through.
    ethernet_frames: u64,
    /// Ethernet frames that the format cannot hold.
    ethernet_left_out: u64,
}

impl Done {
    fn report(&self, buses: &BusesOfRecording, offline: &Offline, is_sorted: bool) {
        for (interface, count) in &self.foreign {
            let names: Vec<_> = buses.table.buses.iter().map(|bus| bus.name.as_str()).collect();
            say!(
                "note: {} on {interface}, which is no bus of the rules; say which with --map {interface}=BUS (one of {})",
                counted(*count, "frame"),
                names.join(", ")
            );
        }
        if offline.backwards() > 0 {
            let remedy = if is_sorted { "" } else { "; put them in order with --sort" };
            say!(
                "note: {} stamped earlier than one before; rules saw them at the time of that one{remedy}",
                counted(offline.backwards(), "frame")
            );
        }
        if self.ethernet_frames > 0 {
            say!("note: {} passed through", counted(self.ethernet_frames, "Ethernet frame"));
        }
        if self.ethernet_left_out > 0 {
            say!(
                "note: {} left out, which the format cannot store; use pcapng to keep them",
                counted(self.ethernet_left_out, "Ethernet frame")
            );
        }
    }
}

struct Work {
    offline: Offline,
    writer: Writer,
    buses: BusesOfRecording,
    done: Done,
}

impl Work {
    /// Applies the rules to all of the recording; false if nobody reads on.
    fn through(&mut self, args: &ApplyArgs, recording: &mut Recording) -> Answer {
        let progress = Progress::new(recording, args.output_file.as_os_str() != "-");
        let mut records = 0;
        while let Some(entry) = recording.next_any() {
            let entry =
                entry.map_err(|error| explain_malformed(error, records, &args.input_file))?;
            records += 1;
            match self.apply(&entry) {
                Err(error) if error.is_broken_pipe() => return Ok(false),
                applied => applied.map_err(|error| error.to_string())?,
            }
            progress.show(recording, records);
        }
        progress.clear();
        Ok(true)
    }

    fn apply(&mut self, entry: &Entry<'_>) -> Result<(), RecordingError> {
        let Self { offline, writer, buses, done } = self;
        if let Some(start_ns) = entry.start_ns.filter(|_| done.copies == 0) {
            writer.start(start_ns);
        }
        let record = match &entry.record {
            AnyRecord::Can(record) => record,
            AnyRecord::Ethernet(_) if !writer.format().keeps_ethernet => {
                done.ethernet_left_out += 1;
                return Ok(());
            }
            AnyRecord::Ethernet(_) => {
                done.ethernet_frames += 1;
                return writer.write_any(&entry.record, entry.interface);
            }
        };
        done.frames += 1;
        let Some(bus) = buses.of(record.interface, entry.interface) else {
            *done.foreign.entry(entry.interface.to_owned()).or_default() += 1;
            return Ok(());
        };
        let mut failure = None;
        offline.apply(record.time_ns, bus, &record.frame, |to, frame| {
            done.copies += 1;
            let copy = candor_recording::Record { direction: None, frame: *frame, ..*record };
            let name = buses.names.get(usize::from(to.0)).map_or("", String::as_str);
            if let Err(error) = writer.write(&copy, name) {
                failure.get_or_insert(error);
            }
        });
        failure.map_or(Ok(()), Err)
    }
}

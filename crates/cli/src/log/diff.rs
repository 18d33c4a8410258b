//! `candor log diff`: what one of two recordings has and the other has not, and how far their clocks run apart.
//!
//! `candor help json log diff` describes what `--json` prints.

use std::cell::Cell;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use candor_diagnostics::counted;
use candor_output::say;
use candor_recording::{
    Comparison, Differences, Encoder, Format, InterfaceIndex, Labels, Record, Recording, Side,
    Sighting,
};
use candor_time::Nanos;
use clap::Args;

use super::info::write_table;
use super::{InputArgs, Stop, explain_malformed, report_skipped, unshown};
use crate::Answer;
use crate::duration;
use crate::json;
use crate::output::duration as shown;
use crate::reading::{candump_lines, is_confirmed};

/// So many frames are shown unless all are asked for.
const SHOWN: u64 = 10;

#[derive(Args)]
pub(crate) struct DiffArgs {
    /// The first recording, whose clock is the reference; one of both may be - for standard input
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second recording
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Call frames late whose times are farther apart, besides what the clocks differ by; then the answer is no; default: times are not judged
    #[arg(long, value_name = "DURATION", value_parser = duration::read)]
    within: Option<Nanos>,
    /// By how much the clock of B is ahead, such as 0, 2.5s or -250ms; default: found by frames that both have at their starts
    #[arg(
        long,
        value_name = "DURATION",
        allow_hyphen_values = true,
        value_parser = duration::read_signed
    )]
    offset: Option<i64>,
    /// Frames of different interfaces may be the same; default: only if one of the formats keeps no names or other ones
    #[arg(long)]
    any_bus: bool,
    /// Show all frames that only one has; default: the first 10
    #[arg(long)]
    all: bool,
    /// Print JSON Lines: objects of type "only", then one of type "diff"
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArgs,
}

/// False unless both have the same frames, and none is late.
pub(super) fn run(args: &DiffArgs) -> Answer {
    if args.a.as_os_str() == "-" && args.b.as_os_str() == "-" {
        return Err(
            "only one recording can be standard input (-); name a file for the other".into()
        );
    }
    let (mut a, mut b) = (args.input.open(&args.a)?, args.input.open(&args.b)?);
    let comparison = args.comparison(a.format(), b.format());
    let names = Names::default();
    let mut printer = Printer::new(args, &names)?;
    let found = candor_recording::diff(
        sightings(&mut a, &args.a, &names),
        sightings(&mut b, &args.b, &names),
        comparison,
        |side, sighting| printer.show(side, sighting),
    );
    let finished = found.and_then(|found| printer.finish(&found).map(|()| found));
    match finished {
        Ok(found) => {
            for recording in [&a, &b] {
                report_skipped(recording);
            }
            args.report(&found, [&a, &b]);
            Ok(found.is_none() && is_confirmed(&a) && is_confirmed(&b))
        }
        // Nobody reads on; what was shown differs.
        Err(Stop::Reader) => Ok(printer.shown.get() == 0),
        Err(Stop::Error(error)) => Err(error),
    }
}

impl DiffArgs {
    fn comparison(&self, a: &Format, b: &Format) -> Comparison {
        let has_other_names = a.labels != b.labels || a.labels == Labels::None;
        if has_other_names && !self.any_bus {
            say!(
                "note: {} and {} do not name interfaces alike; they are not compared",
                a.name,
                b.name
            );
        }
        Comparison {
            within_ns: self.within.map(Nanos::as_nanos),
            offset_ns: self.offset,
            any_interface: self.any_bus || has_other_names,
            any_report: !a.keeps_error_reports || !b.keeps_error_reports,
        }
    }

    /// Says what may be wrong with the answer.
    fn report(&self, found: &Differences, recordings: [&Recording; 2]) {
        let is_other = found.only != [0, 0];
        if found.has_other_names && found.both == 0 {
            say!(
                "note: A and B have the same frames, but on interfaces of other names; --any-bus compares frames of any interfaces"
            );
        } else if found.is_unsynchronised && is_other {
            say!(
                "note: the starts of A and B have not enough frames in common to tell how their clocks differ; they were taken to \
                 show the same time, --offset says otherwise"
            );
        }
        for (side, file) in Side::ALL.into_iter().zip([&self.a, &self.b]) {
            let (place, file) = (side as usize, file.display());
            if found.backwards[place] > 0 {
                say!(
                    "note: {file}: {} stamped earlier than the one before; the order in the file counts",
                    counted(found.backwards[place], "frame")
                );
            }
            if found.crowded_out[place] > 0 {
                say!(
                    "note: {file}: {} given up as only there, because more than {} waited for the other recording",
                    counted(found.crowded_out[place], "frame"),
                    candor_recording::MAX_PENDING
                );
            }
            let ethernet_frames = recordings[place].passed_over().ethernet_frames;
            if ethernet_frames > 0 {
                say!("note: {file}: Ethernet frames passed over: {ethernet_frames}");
            }
        }
    }
}

/// The names of the interfaces of both recordings. Each recording has [`candor_recording::MAX_INTERFACES`] at most.
#[derive(Default)]
struct Names(std::cell::RefCell<Vec<String>>);

impl Names {
    fn index(&self, name: &str) -> InterfaceIndex {
        let mut names = self.0.borrow_mut();
        let known = names.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        InterfaceIndex(place as u16)
    }

    fn name(&self, index: InterfaceIndex) -> String {
        self.0.borrow().get(usize::from(index.0)).cloned().unwrap_or_default()
    }
}

/// The CAN frames of a recording.
fn sightings(
    recording: &mut Recording,
    file: &Path,
    names: &Names,
) -> impl Iterator<Item = Result<Sighting, Stop>> {
    let mut number = 0;
    let mut indices: Vec<InterfaceIndex> = Vec::new();
    std::iter::from_fn(move || {
        let record = match recording.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(Stop::Error(explain_malformed(error, number, file)))),
        };
        number += 1;
        // They are numbered as they appear.
        let new = recording.interfaces().iter().skip(indices.len());
        indices.extend(new.map(|(_, name)| names.index(name)));
        let interface = indices.get(usize::from(record.interface.0)).copied();
        let Record { time_ns, direction, frame, .. } = record;
        let interface = interface.unwrap_or(InterfaceIndex(0));
        Some(Ok(Sighting { number, time_ns, interface, direction, frame }))
    })
}

/// Writes what only one recording has, as it is found, and then the rest.
struct Printer<'a> {
    args: &'a DiffArgs,
    names: &'a Names,
    out: BufWriter<io::StdoutLock<'static>>,
    encoder: Box<dyn Encoder>,
    line: Vec<u8>,
    shown: Cell<u64>,
}

impl<'a> Printer<'a> {
    fn new(args: &'a DiffArgs, names: &'a Names) -> Result<Self, String> {
        let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let (encoder, line) = (candump_lines()?, Vec::new());
        Ok(Self { args, names, out, encoder, line, shown: Cell::new(0) })
    }

    fn show(&mut self, side: Side, sighting: &Sighting) -> Result<(), Stop> {
        if self.shown.get() == SHOWN && !self.args.all {
            return Ok(());
        }
        self.line.clear();
        let name = self.names.name(sighting.interface);
        if self.args.json {
            json::write(&(side, sighting, name.as_str()), &mut self.line).map_err(unshown)?;
        } else {
            if self.shown.get() == 0 {
                writeln!(self.out, "only in      frame")?;
            }
            let &Sighting { number, time_ns, interface, direction, frame } = sighting;
            let record = Record { time_ns, interface, direction, frame };
            write!(self.line, "{:<7} {number:>10}  ", side.name())?;
            self.encoder.encode(&record, &name, &mut self.line).map_err(unshown)?;
        }
        self.shown.set(self.shown.get() + 1);
        Ok(self.out.write_all(&self.line)?)
    }

    fn finish(&mut self, found: &Differences) -> Result<(), Stop> {
        let mut text = Vec::new();
        if self.args.json {
            json::write(&(self.args, found), &mut text)?;
        } else {
            let rest = found.only[0] + found.only[1] - self.shown.get();
            if rest > 0 {
                writeln!(text, "(--all shows {rest} more)")?;
            }
            if self.shown.get() > 0 {
                writeln!(text)?;
            }
            write_table(&mut text, 1, &facts(self.args, found))?;
        }
        self.out.write_all(&text)?;
        Ok(self.out.flush()?)
    }
}

fn facts(args: &DiffArgs, found: &Differences) -> Vec<Vec<String>> {
    let mut facts = vec![
        vec!["frames in both".to_owned(), found.both.to_string()],
        vec![format!("only in A, {}", args.a.display()), found.only[0].to_string()],
        vec![format!("only in B, {}", args.b.display()), found.only[1].to_string()],
    ];
    if found.displaced > 0 {
        facts.push(vec![
            "of those in both, in another order".to_owned(),
            found.displaced.to_string(),
        ]);
    }
    if let Some(within) = args.within {
        facts.push(vec![
            format!("of those in both, late by more than {}", shown(within.as_nanos() as f64)),
            found.late.to_string(),
        ]);
    }
    let clocks = &found.clocks;
    let mut fact = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| vec![name.to_owned(), value]));
    };
    fact("offset of B at the first common frame", clocks.first_offset_ns().map(seconds));
    fact("offset of B at the last common frame", clocks.last_offset_ns().map(seconds));
    fact("drift of B", clocks.drift_ppm().map(|drift| format!("{:.3} ppm", whole_zero(drift))));
    fact("largest deviation from that line", clocks.deviation_ns_max().map(shown));
    facts
}

/// Not -0.
fn whole_zero(value: f64) -> f64 {
    if value.abs() < 0.0005 { 0.0 } else { value }
}

fn seconds(ns: i128) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    format!("{sign}{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

impl DiffArgs {
    /// From when on a frame is late, if that is asked for.
    pub(crate) const fn within(&self) -> Option<Nanos> {
        self.within
    }

    /// The files as they were given.
    pub(crate) fn files(&self) -> [String; 2] {
        [&self.a, &self.b].map(|file| file.display().to_string())
    }
}

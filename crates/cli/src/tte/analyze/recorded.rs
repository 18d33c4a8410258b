//! `candor tte analyze NETWORK CAPTURE`: the frames of a capture against the schedule.

use std::ops::ControlFlow;
use std::path::Path;

use candor_bus::outlet::Stop;
use candor_diagnostics::{list_of_names, meant_or};
use candor_recording::{AnyRecord, Direction, Packet, Record, Recording};
use candor_time::{Instant, Nanos};
use candor_tte::Network;
use candor_tte_live::analysis::{Analysis, Fate, Flow, Place, Stand};
use candor_tte_live::analyzer::Heard;
use candor_tte_live::recorded::Recorded;

use super::{AnalysisSummary, AnalyzeArgs, Wanted, note};
use crate::Answer;
use crate::bus::out::Out;
use crate::csv::Csv;
use crate::file_kind::FileKind;
use crate::log::{explain_malformed, report_skipped};
use crate::output::thousands;
use crate::reading::is_confirmed;

/// No signal is caught: each ends the program.
static NEVER: Stop = Stop::new(false);

/// False if frames were lost, late or came twice, outside of their windows or at one interface only, or are not as the schedule says.
pub(super) fn run(args: &AnalyzeArgs, wanted: &Wanted, capture: &Path) -> Answer {
    let recording = candor_recording::open(capture, None);
    let mut recording = recording.map_err(|error| {
        FileKind::Recording.mix_up(capture).unwrap_or_else(|| error.to_string())
    })?;
    let reader = read(args, wanted, capture, &mut recording)?;
    report_skipped(&recording);
    let Some(reader) = reader else {
        return Err(format!(
            "{}: a {} without Ethernet frames; give a capture of them, such as `candor tte capture` and `tcpdump -w` write",
            capture.display(),
            recording.format().title
        ));
    };
    let is_as_planned = reader.finish(&recording)?;
    Ok(is_as_planned && is_confirmed(&recording))
}

/// Reads a capture up to its end, or as far as is wanted; `None` if it has no Ethernet frames.
fn read<'a>(
    args: &'a AnalyzeArgs,
    wanted: &'a Wanted,
    capture: &'a Path,
    recording: &mut Recording,
) -> Result<Option<Reader<'a>>, String> {
    let mut csv = args.csv()?;
    let mut reader: Option<Reader<'_>> = None;
    while let Some(entry) = recording.next_any() {
        // It has no option that passes over malformed records.
        let entry = entry.map_err(|error| explain_malformed(error, 0, capture))?;
        let AnyRecord::Ethernet(record) = &entry.record else { continue };
        let reader = reader.get_or_insert_with(|| {
            let interface = args.interface.as_deref().unwrap_or(entry.interface);
            Reader::new(args, wanted, (capture, interface), csv.take())
        });
        if reader.take(entry.interface, record)?.is_break() {
            break;
        }
    }
    Ok(reader)
}

/// Where an interface of a capture is: those of `candor tte capture` say so, others are as interfaces of this machine.
fn stand(network: &Network, name: &str, otherwise: Stand) -> Stand {
    let known = name.rsplit_once('/').and_then(|(link, node)| {
        let link = network.links.iter().position(|it| it.name == link)?;
        let from = network.node(node)?;
        network.links[link].ends.contains(&from).then_some(Stand::Sender { link, from })
    });
    known.unwrap_or(otherwise)
}

struct Reader<'a> {
    args: &'a AnalyzeArgs,
    network: &'a Network,
    capture: &'a Path,
    /// The interface behind the network.
    interface: String,
    frames: Recorded<'a>,
    analysis: Analysis<'a>,
    csv: Option<Csv>,
    /// The stamps of the first frame and of the latest one.
    span: Option<[u64; 2]>,
    /// An interface that is neither, although none was named.
    other: Option<String>,
}

impl<'a> Reader<'a> {
    fn new(
        args: &'a AnalyzeArgs,
        wanted: &'a Wanted,
        (capture, interface): (&'a Path, &str),
        csv: Option<Csv>,
    ) -> Self {
        let network = &wanted.network;
        let behind = stand(network, interface, Stand::Receiver(wanted.receiver));
        let before = args.from.as_deref().map(|name| stand(network, name, Stand::FirstLink));
        Self {
            args,
            network,
            capture,
            interface: interface.to_owned(),
            frames: Recorded::new(network, before.unwrap_or(Stand::FirstLink), behind),
            analysis: Analysis::new(network, wanted.flow, behind, before),
            csv,
            span: None,
            other: None,
        }
    }

    /// Takes a frame; break if it is enough.
    fn take(
        &mut self,
        interface: &str,
        record: &Record<Packet<'_>>,
    ) -> Result<ControlFlow<()>, String> {
        let place = match interface {
            _ if self.args.from.as_deref() == Some(interface) => Place::Before,
            _ if self.interface == interface => Place::Behind,
            _ => {
                if self.args.interface.is_none() {
                    self.other.get_or_insert_with(|| interface.to_owned());
                }
                return Ok(ControlFlow::Continue(()));
            }
        };
        let [first_ns, latest_ns] = self.span.get_or_insert([record.time_ns; 2]);
        *latest_ns = record.time_ns.max(*latest_ns);
        let time = Nanos::from_nanos(latest_ns.saturating_sub(*first_ns));
        let now = Instant::from_nanos(*latest_ns);
        let is_enough = self.args.time.is_some_and(|limit| time >= limit)
            || self.args.count.is_some_and(|most| self.analysis.count() >= most);
        if is_enough {
            // Those under way are still looked at.
            self.analysis.close();
            if self.analysis.waiting() == 0 {
                return Ok(ControlFlow::Break(()));
            }
        }
        let Packet { bytes, original_len } = record.frame;
        let is_outgoing = record.direction == Some(Direction::Transmitted);
        let stamp = Instant::from_nanos(record.time_ns);
        let len = original_len as usize;
        let heard = self.frames.heard(place, (bytes, len), stamp, is_outgoing);
        for (place, heard) in [
            (place, heard),
            (Place::Before, Heard::Looked(now)),
            (Place::Behind, Heard::Looked(now)),
        ] {
            self.tell(|analysis, tell| analysis.take(place, heard, tell))?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Lets the analysis go on, and writes down what became of frames.
    fn tell(
        &mut self,
        go_on: impl FnOnce(&mut Analysis<'a>, &mut dyn FnMut(Fate)),
    ) -> Result<(), String> {
        let Self { network, analysis, csv, .. } = self;
        let mut failure = Ok(());
        go_on(analysis, &mut |fate| {
            note(network, &fate, &mut Vec::new(), csv, &mut failure);
        });
        failure
    }

    fn finish(mut self, recording: &Recording) -> Answer {
        self.tell(|analysis, tell| analysis.finish(tell))?;
        self.check(recording)?;
        if let Some(csv) = self.csv.take() {
            csv.finish()?;
        }
        let [first_ns, latest_ns] = self.span.unwrap_or_default();
        let told = AnalysisSummary {
            args: self.args,
            interface: &format!("{}: {}", self.capture.display(), self.interface),
            duration_ns: latest_ns.saturating_sub(first_ns),
            note: None,
        };
        let is_whole = told.tell(&self.analysis, &mut Out::new(&NEVER)?)?;
        let wrong = |flow: &Flow| {
            let copies = flow.totals().duplicated;
            flow.outside + flow.misshapen + flow.unmatched + flow.late().unwrap_or(0) + copies
        };
        let is_as_planned = self.analysis.flows().all(|(_, flow)| wrong(flow) == 0);
        Ok(is_whole && is_as_planned && self.analysis.unplanned == 0)
    }

    /// Whether the interfaces are those that were meant, and a frame of the network was there.
    fn check(&self, recording: &Recording) -> Result<(), String> {
        let capture = self.capture.display();
        let names = || recording.interfaces().iter().map(|(_, name)| name);
        let there_are = || format!("its interfaces are {}", list_of_names(names(), "and"));
        if self.args.from.as_deref() == Some(&self.interface) {
            return Err(format!(
                "{capture}: --from names the interface behind the network, {}; name the one before it",
                self.interface
            ));
        }
        let named = [Some(self.interface.as_str()), self.args.from.as_deref()];
        let absent = named.into_iter().flatten().find(|name| !names().any(|it| it == *name));
        if let Some(name) = absent {
            let remedy = meant_or(name, names(), there_are);
            return Err(format!("{capture}: there is no interface `{name}`; {remedy}"));
        }
        if self.other.is_some() {
            return Err(format!(
                "{capture}: it has frames of several interfaces; name the one behind the network with --interface, and with \
                 --from the one before it, if there is one: {}",
                there_are()
            ));
        }
        if self.analysis.flows().next().is_some() {
            return Ok(());
        }
        Err(format!(
            "{capture}: no frame of {} at {} ({} of others); look whether the file describes this network, its marker and \
             its numbers of virtual links",
            self.args.file.display(),
            self.interface,
            thousands(self.analysis.strangers + self.analysis.unplanned)
        ))
    }
}

//! `candor tte analyze`: latencies of the frames of a network.
//!
//! `candor help json tte analyze` describes what `--json` prints.

mod recorded;

pub(crate) use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use candor_bus::outlet::Stop;
use candor_config::quoted;
use candor_lat::result::{PROFILE_POINTS, ResultFile};
use candor_lat::section::{Cell, Sections};
use candor_lat::sections::{ANALYSIS, FLOW};
use candor_lat::{Figures, Metric, TapPath, quantile};
use candor_linux::clock;
use candor_linux::ethernet::{EthernetSocket, Options};
use candor_output::say;
use candor_time::{Instant, Monotonic, Nanos};
use candor_tte::Network;
use candor_tte_live::analysis::{Analysis, Fate, Flow, Place, Stand, Totals};
use candor_tte_live::analyzer::{Heard, listen};
use candor_tte_live::join::Key;
use clap::Args;

use super::live::{self, Kind, StopOnDrop};
use crate::Answer;
use crate::bus::live::catch_signals;
use crate::bus::out::Out;
use crate::csv::{Csv, cell};
use crate::output::{duration_or_dash, interval_line, thousands};
use crate::overwrite::Overwriting;
use crate::result::{self, Aim, Saving, stopped};

/// How often it is looked whether to end.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How long frames that are under way at the end are waited for.
const LINGER: Nanos = Nanos::from_millis(500);
/// Where latencies are from without a port before the network.
const THE_SCHEDULE: &str = "the schedule";

#[derive(Args)]
pub(crate) struct AnalyzeArgs {
    /// The network file
    file: PathBuf,
    /// A capture (pcap or pcapng, may be compressed) whose frames are looked at instead of those that come, or - for standard
    /// input
    #[arg(conflicts_with_all = ["wait", "interval"])]
    capture: Option<PathBuf>,
    /// The interface behind the network, of this machine or of the capture
    #[arg(long, value_name = "INTERFACE", required_unless_present = "capture")]
    interface: Option<String>,
    /// The interface before the network, such as that of `candor tte generate`: latencies are from there, and not from the
    /// instants of the schedule
    #[arg(long, value_name = "INTERFACE")]
    from: Option<String>,
    /// Look at this flow only
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// The end system on whose link the interface is, if flows have several receivers
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Stop after so many frames, those that are lost included
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time, such as 10s; of a capture, by its stamps
    #[arg(long)]
    time: Option<Nanos>,
    /// How long the first frame is waited for
    #[arg(long, value_name = "TIME", default_value = "1s")]
    wait: Nanos,
    /// The time between two lines
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = live::read_interval)]
    interval: Nanos,
    /// Write each frame to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    overwriting: Overwriting,
    #[command(flatten)]
    saving: Saving,
    /// Print JSON Lines: objects of type "interval", then one of type "result" for each flow
    #[arg(long)]
    json: bool,
}

/// What is looked for.
struct Wanted {
    network: Network,
    /// The only flow that counts.
    flow: Option<usize>,
    /// The receiver, if it is named.
    receiver: Option<usize>,
}

impl AnalyzeArgs {
    fn wanted(&self) -> Result<Wanted, String> {
        let network = live::network(&self.file)?;
        let flow = self.flow.as_deref().map(|name| flow(&network, self, name)).transpose()?;
        let receiver = match &self.node {
            Some(name) => Some(live::node(&network, &self.file, name, Kind::EndSystem)?),
            None => None,
        };
        let flows = network.flows.iter().enumerate();
        let flows = flows.filter(|(index, _)| flow.is_none_or(|wanted| wanted == *index));
        self.saving.prepare(self.overwriting, flows.map(|(_, flow)| flow.name.as_str()))?;
        Ok(Wanted { network, flow, receiver })
    }

    /// The file for each frame, if there is to be one.
    fn csv(&self) -> Result<Option<Csv>, String> {
        let head = "flow,run,number,outcome,before_ns,behind_ns,latency_ns";
        self.csv.as_deref().map(|path| Csv::create(path, self.overwriting, head)).transpose()
    }
}

pub(super) fn run(args: &AnalyzeArgs) -> Answer {
    let wanted = args.wanted()?;
    match (&args.capture, &args.interface) {
        (Some(capture), _) => recorded::run(args, &wanted, capture),
        (None, Some(interface)) => run_live(args, &wanted, interface),
        // The arguments have one of them.
        (None, None) => Err("name a capture, or an interface with --interface".into()),
    }
}

fn run_live(args: &AnalyzeArgs, wanted: &Wanted, interface: &str) -> Answer {
    let stop = catch_signals();
    let network = &wanted.network;
    let options = Options { has_transmit_stamps: false, ..Options::default() };
    // The one behind first: what the other sees has yet to come to it.
    let behind = live::open(interface, options)?;
    let outgoing = Options { hears_outgoing: true, ..options };
    let before = args.from.as_deref().map(|name| live::open(name, outgoing)).transpose()?;
    let begin = clock::now();
    let stands = (Stand::Receiver(wanted.receiver), before.as_ref().map(|_| Stand::FirstLink));
    let mut view = View {
        args,
        interface,
        network,
        analysis: Analysis::new(network, wanted.flow, stands.0, stands.1),
        begin,
        next: begin + args.interval,
        last: Totals::default(),
        recent: Vec::new(),
        closing: None,
        csv: args.csv()?,
        failure: Ok(()),
        out: Out::new(stop)?,
        has_head: false,
        note: None,
    };
    if !args.json {
        let from = args.from.as_deref().unwrap_or(THE_SCHEDULE);
        say!("analyze {interface}: latencies from {from}; Ctrl-C ends it");
    }
    let (unheard, ended) = hear(&mut view, before.as_ref(), &behind, stop)?;
    let answer = view.finish(unheard)?;
    ended?;
    Ok(answer)
}

/// Hands what both ports hear to the analysis until it is over: frames that found no room, and why a port ended.
fn hear(
    view: &mut View<'_>,
    before: Option<&EthernetSocket>,
    behind: &EthernetSocket,
    stop: &Stop,
) -> Result<(u64, Result<(), String>), String> {
    let network = view.network;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ending = StopOnDrop(&over);
        let (tell, heard) = channel();
        let ports = [(Place::Before, before), (Place::Behind, Some(behind))];
        let ports = ports.into_iter().filter_map(|(place, socket)| Some((place, socket?)));
        let threads: Vec<_> = ports
            .map(|(place, socket)| {
                let (tell, over) = (tell.clone(), &over);
                scope.spawn(move || {
                    // If one port is gone, the other one has nothing to be joined with.
                    let _ending = StopOnDrop(over);
                    listen(socket, network, over, &mut |it| tell.send((place, it)).is_ok())
                })
            })
            .collect();
        drop(tell);
        loop {
            match heard.recv_timeout(STOP_CHECK_INTERVAL) {
                Ok((place, heard)) => view.take(place, heard)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if view.tick(clock::now(), stop.load(Ordering::Relaxed))? {
                break;
            }
        }
        drop(heard);
        over.store(true, Ordering::Relaxed);
        let (mut unheard, mut ended) = (0, Ok(()));
        for thread in threads {
            match thread.join().map_err(|_| "a thread that receives has failed")? {
                Ok(frames) => unheard += u64::from(frames),
                Err(error) => ended = Err(error.to_string()),
            }
        }
        Ok((unheard, ended))
    })
}

/// The flow that is asked for.
fn flow(network: &Network, args: &AnalyzeArgs, name: &str) -> Result<usize, String> {
    network.flow(name).ok_or_else(|| {
        let names: Vec<_> = network.flows.iter().map(|it| format!("`{}`", it.name)).collect();
        let path = args.file.display();
        format!("{path}: there is no flow `{name}`; its flows are {}", names.join(", "))
    })
}

/// What is shown of an analysis.
struct View<'a> {
    args: &'a AnalyzeArgs,
    interface: &'a str,
    network: &'a Network,
    analysis: Analysis<'a>,
    begin: Instant<Monotonic>,
    next: Instant<Monotonic>,
    last: Totals,
    /// Latencies of the interval, in ns.
    recent: Vec<i64>,
    /// Since when only frames count that are under way.
    closing: Option<Instant<Monotonic>>,
    csv: Option<Csv>,
    /// Why the file cannot be written.
    failure: Result<(), String>,
    out: Out,
    has_head: bool,
    /// How far it came, if it was interrupted.
    note: Option<String>,
}

impl View<'_> {
    fn take(&mut self, place: Place, heard: Heard) -> Result<(), String> {
        let Self { network, analysis, recent, csv, failure, .. } = self;
        analysis.take(place, heard, &mut |fate| note(network, &fate, recent, csv, failure));
        core::mem::replace(failure, Ok(()))
    }

    /// Whether it is over.
    fn tick(&mut self, now: Instant<Monotonic>, is_stopped: bool) -> Result<bool, String> {
        let time = now.since(self.begin);
        if let Some(closing) = self.closing {
            return Ok(self.analysis.waiting() == 0 || now.since(closing) >= LINGER);
        }
        let count = self.analysis.count();
        if count == 0 && time >= self.args.wait {
            return Err(self.nothing_came());
        }
        if now >= self.next {
            self.next += self.args.interval;
            let totals = self.analysis.totals();
            self.recent.sort_unstable();
            let interval = Interval { time, totals, last: self.last, latencies_ns: &self.recent };
            let text = match self.args.json {
                true => crate::json::line(&interval)?,
                false => interval.line(!std::mem::replace(&mut self.has_head, true)),
            };
            self.out.write(&text)?;
            self.out.flush()?;
            self.recent.clear();
            self.last = totals;
        }
        let is_over = self.args.count.is_some_and(|most| count >= most)
            || self.args.time.is_some_and(|limit| time >= limit);
        let is_interrupted = is_stopped || !self.out.is_open();
        if is_over || is_interrupted {
            let aim = Aim { count: self.args.count, time: self.args.time };
            self.note = is_interrupted.then(|| aim.missed(count, "frame", time)).flatten();
            self.closing = Some(now);
            self.analysis.close();
        }
        Ok(self.closing.is_some() && self.analysis.waiting() == 0)
    }

    fn nothing_came(&self) -> String {
        let (interface, wait) = (self.interface, self.args.wait);
        let which = match &self.args.flow {
            Some(name) => format!("of flow `{name}`"),
            None => format!("of {}", self.args.file.display()),
        };
        let others = match self.analysis.strangers {
            0 => String::new(),
            count => format!(" ({} of others)", thousands(count)),
        };
        format!(
            "{interface}: no frame {which} within {wait}{others}; start `candor tte generate` with the same file, look whether \
             the switch relays, or wait longer with --wait"
        )
    }

    fn finish(mut self, unheard: u64) -> Answer {
        let Self { network, analysis, recent, csv, failure, .. } = &mut self;
        analysis.finish(&mut |fate| note(network, &fate, recent, csv, failure));
        core::mem::replace(failure, Ok(()))?;
        if let Some(csv) = self.csv.take() {
            csv.finish()?;
        }
        let told = AnalysisSummary {
            args: self.args,
            interface: self.interface,
            duration_ns: clock::now().since(self.begin).as_nanos(),
            note: self.note.clone(),
        };
        let is_whole = told.tell(&self.analysis, &mut self.out)?;
        live::say_counts(&[(
            unheard,
            "frames found no room in a socket, and count as lost; use a longer cycle, or shorter frames",
        )]);
        Ok(is_whole)
    }
}

/// What is told of an analysis.
struct AnalysisSummary<'a> {
    args: &'a AnalyzeArgs,
    /// Behind the network.
    interface: &'a str,
    duration_ns: u64,
    note: Option<String>,
}

impl AnalysisSummary<'_> {
    /// Prints and keeps the results; whether frames came and none was lost.
    fn tell(&self, analysis: &Analysis<'_>, out: &mut Out) -> Answer {
        let AnalyzeArgs { saving, overwriting, json, .. } = self.args;
        let results: Vec<_> =
            analysis.flows().map(|(index, flow)| self.result(analysis, index, flow)).collect();
        let text = match json {
            true => result::json_lines(&results, saving)?,
            false => result::text(&results),
        };
        out.write(&text)?;
        out.flush()?;
        live::say_counts(&[
            (analysis.strangers, "frames of other programs or protocols"),
            (analysis.unplanned, "frames of virtual links that the schedule does not have"),
            (
                analysis.unstamped,
                "frames without a stamp of the kernel; their latency is not known",
            ),
        ]);
        saving.save(*overwriting, &results)?;
        let totals = analysis.totals();
        Ok(totals.lost == 0 && totals.received > 0)
    }

    /// What was measured of a flow.
    fn result(&self, analysis: &Analysis<'_>, index: usize, flow: &Flow) -> ResultFile {
        let AnalyzeArgs { file, from, node, .. } = self.args;
        let (interface, network) = (self.interface, analysis.network());
        let it = &network.flows[index];
        let metrics = flow.metrics(PROFILE_POINTS);
        let ns = |ns: i64| u64::try_from(ns).ok();
        let jitter_ns = metrics.get(Metric::NetworkLatency.key()).map(Figures::jitter_ns);
        let row = FLOW.row([
            it.name.as_str().into(),
            node.as_deref().into(),
            u32::from(it.size).into(),
            flow.period_ns.and_then(ns).into(),
            Cell::Empty,
            flow.model_ns.and_then(ns).into(),
            Cell::Empty,
            "frame".into(),
            Cell::Empty,
            jitter_ns.into(),
            flow.variation().into(),
            network.cycle.as_nanos().into(),
        ]);
        let seen = ANALYSIS.row([
            interface.into(),
            from.as_deref().into(),
            flow.unmatched.into(),
            flow.positions().into(),
            flow.outside.into(),
            flow.misshapen.into(),
        ]);
        let from = from.as_deref().unwrap_or(THE_SCHEDULE);
        let conditions = format!("frames of `{}` at {interface}, latencies from {from}", it.name);
        let config = [
            ("kind", quoted("time-triggered")),
            ("network", quoted(&file.display().to_string())),
            ("interface", quoted(interface)),
            ("from", quoted(from)),
            ("flow", quoted(&it.name)),
        ];
        ResultFile {
            duration_ns: self.duration_ns,
            notes: self.note.clone().into_iter().collect(),
            counts: flow.counts(),
            stopped: stopped(flow.counts().lost),
            metrics,
            sections: Sections::default().with_one(&FLOW, row).with_one(&ANALYSIS, seen),
            ..self.args.saving.result(TapPath::TIME_TRIGGERED, &it.name, conditions, &config)
        }
    }
}

/// What an interval has brought.
pub(crate) struct Interval<'a> {
    /// Its end, since the begin.
    pub(crate) time: Nanos,
    pub(crate) totals: Totals,
    /// At its begin.
    pub(crate) last: Totals,
    /// Sorted.
    pub(crate) latencies_ns: &'a [i64],
}

impl Interval<'_> {
    pub(crate) fn quantile(&self, hundredths: u64) -> Option<i64> {
        quantile(self.latencies_ns, hundredths, 100)
    }

    pub(crate) fn lost(&self) -> i64 {
        self.totals.lost.wrapping_sub(self.last.lost).cast_signed()
    }

    pub(crate) fn line(&self, with_head: bool) -> String {
        let names = ["time", "received", "lost", "twice", "reordered", "min", "p50", "p99", "max"];
        let head = match with_head {
            true => interval_line(&names.map(str::to_owned)),
            false => String::new(),
        };
        let (totals, last) = (self.totals, self.last);
        head + &interval_line(&[
            format!("{:.0} s", self.time.as_secs_f64()),
            thousands(totals.received - last.received),
            self.lost().to_string(),
            thousands(totals.duplicated - last.duplicated),
            thousands(totals.reordered - last.reordered),
            duration_or_dash(self.latencies_ns.first().copied()),
            duration_or_dash(self.quantile(50)),
            duration_or_dash(self.quantile(99)),
            duration_or_dash(self.latencies_ns.last().copied()),
        ])
    }
}

/// A frame has ended.
fn note(
    network: &Network,
    fate: &Fate,
    recent: &mut Vec<i64>,
    csv: &mut Option<Csv>,
    failure: &mut Result<(), String>,
) {
    recent.extend(fate.latency_ns());
    let Some(csv) = csv else { return };
    let Key { run, sequence, stream } = fate.key;
    let written = csv.line(format_args!(
        "{},{run},{sequence},{},{},{},{}",
        network.flows[usize::from(stream)].name,
        fate.outcome,
        cell(fate.before_ns),
        cell(fate.behind_ns),
        cell(fate.latency_ns()),
    ));
    if failure.is_ok() {
        *failure = written;
    }
}

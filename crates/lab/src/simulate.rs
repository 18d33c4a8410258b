//! The `sim` testbed: an experiment in virtual time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use candor_causes::{Cause, Ending, Endings};
use candor_diagnostics::{by_count, counted};
use candor_engine::counters::JobCounters;
use candor_lat::{Histogram, Metric, Tap};
use candor_sim::{
    BusId, Discipline, Drive, Fate, HostId, Observer, Random, Record, SenderConfig, SenderId, Time,
    World,
};
use candor_time::Nanos;

use crate::doubt::{self, Demand, Metered, Waits};
use crate::error::Error;
use crate::experiment::Sim;
use crate::experiment::{Experiment, Pace, Testbed, Traffic, World as ExperimentWorld};
use crate::result::{Bus, Counts, Figures, LATENCIES, ResultFile, RuleCounts, Stopped};
use crate::rules::Rules;
use crate::runner::{Ran, Runner, Task};
pub use crate::runner::{Unwatched, Watch};
use crate::traffic::{Allowance, Periodic, Replay};
use candor_recording::RecordingError;

/// The depth of the transmit queue of a node; what a tester needs to flood (the papers set
/// `txqueuelen` to 200).
const SENDER_QUEUE: usize = 200;
/// Recordings with coarse time stamps come in bursts; each was on a bus, so none is refused lightly.
const REPLAY_QUEUE: usize = 1 << 16;
/// A flooding sender needs one frame on the wire and one behind it.
const FLOOD_QUEUE: usize = 2;

/// The testbed `sim`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulation;

impl Runner for Simulation {
    fn run(
        &self,
        task: Task<'_>,
        frames: Option<&mut dyn Write>,
        watch: &dyn Watch,
    ) -> Result<Ran, Error> {
        let frames = frames.map(|frames| frames as &mut dyn Write);
        let result = run(task.experiment, task.command, frames, watch)?;
        Ok(Ran { result, is_cached: false })
    }
}

/// Runs `experiment`; `frames` takes a line of CSV per frame, if lines are wanted.
///
/// # Errors
/// An input ends in an error, `frames` cannot be written, or the run was interrupted.
pub fn run<'a>(
    experiment: &Experiment,
    command: String,
    frames: Option<&'a mut dyn Write>,
    watch: &'a dyn Watch,
) -> Result<ResultFile, Error> {
    let mut scene = Scene::new(experiment)?;
    let jobs = scene.jobs(experiment);
    let (way, waits) = (scene.way(experiment), Waits::new(experiment));
    let mut collector = Collector::new(frames, jobs, way, waits, watch);
    collector.head().map_err(Error::lines)?;
    let finished = scene.world.run(&mut collector);
    if let Some(error) = collector.failure.take() {
        return Err(Error::lines(error));
    }
    if let Some(error) = scene.replay_failure.as_ref().and_then(|failure| failure.take()) {
        return Err(Error::Other(error.to_string()));
    }
    if !finished {
        return Err(Error::Interrupted);
    }
    Ok(scene.result(experiment, command, collector))
}

/// The world of an experiment.
struct Scene {
    world: World<Rules>,
    buses: Vec<BusId>,
    senders: Vec<SenderId>,
    gateway: Option<HostId>,
    replay_failure: Option<Rc<RefCell<Option<RecordingError>>>>,
    error_reports: Rc<Cell<u64>>,
    /// What each bus is to carry.
    demands: Vec<Rc<RefCell<Demand>>>,
}

impl Scene {
    fn new(experiment: &Experiment) -> Result<Self, Error> {
        let ExperimentWorld::Sim(settings) = &experiment.world else {
            return Err(Error::elsewhere(experiment, Testbed::Sim));
        };
        let mut world = World::new(experiment.seed);
        let buses: Vec<_> = settings.buses.iter().map(|bus| world.add_bus(bus.clone())).collect();
        let gateway =
            settings.model.as_ref().zip(experiment.rules.as_ref()).map(|(model, rules)| {
                let host = world.add_host(model.clone(), Rules::new(rules));
                for bus in &rules.buses {
                    let named = experiment.buses.iter().position(|config| config.name == bus.name);
                    match named.filter(|_| !bus.is_virtual) {
                        Some(index) => world.connect(host, buses[index]),
                        None => world.add_virtual_port(host),
                    };
                }
                host
            });
        // Somebody acknowledges on every bus.
        for &bus in &buses {
            world.add_listener(bus);
        }
        if let Some(instrument) = settings.instrument {
            world.set_instrument(instrument);
        }
        let mut scene = Self {
            world,
            buses,
            senders: Vec::new(),
            gateway,
            replay_failure: None,
            error_reports: Rc::default(),
            demands: experiment.buses.iter().map(|_| Rc::default()).collect(),
        };
        scene.add_senders(experiment, settings)?;
        Ok(scene)
    }

    fn add_senders(&mut self, experiment: &Experiment, settings: &Sim) -> Result<(), Error> {
        let allowance: Allowance = Rc::new(Cell::new(experiment.count));
        // The papers' tester has one transmit buffer: its driver loads the next frame only after
        // the interrupt.
        let reload = settings.instrument.map_or(Nanos::ZERO, |instrument| {
            instrument.interrupt + instrument.transmit_done + instrument.reload
        });
        let config = |drive, discipline, depth| SenderConfig {
            drive,
            discipline,
            depth,
            reload,
            fault_rate: 0.0,
        };
        match &experiment.traffic {
            Traffic::Numbered { frames, pace, timeout } => {
                let (drive, depth) = match *pace {
                    Pace::OneAtATime { turnaround } => {
                        (Drive::OneAtATime { turnaround, timeout: *timeout }, SENDER_QUEUE)
                    }
                    Pace::Half => (Drive::Paced { period_percent: 200 }, SENDER_QUEUE),
                    Pace::Flood => (Drive::Flood, FLOOD_QUEUE),
                };
                let source = frames.clone().source(allowance);
                let config = config(drive, Discipline::Fifo, depth);
                self.senders.push(self.world.add_sender(self.buses[0], config, source));
            }
            Traffic::Periodic { nodes, discipline } => {
                for (stream, (bus, _, messages)) in (0_u64..).zip(nodes) {
                    let random = Random::new(experiment.seed, (4 << 32) + stream);
                    let source = Periodic::new(messages.clone(), random, Rc::clone(&allowance));
                    let timing = settings.buses[*bus].timing;
                    let source = Metered::new(source, timing, &self.demands[*bus]);
                    let config = config(Drive::Timed, *discipline, SENDER_QUEUE);
                    let sender = self.world.add_sender(self.buses[*bus], config, Box::new(source));
                    self.senders.push(sender);
                }
            }
            Traffic::Replay { log, interface, speed, bus } => {
                let recording = candor_recording::open(log, None)
                    .map_err(|error| Error::Other(error.to_string()))?;
                let source = Replay::new(recording, interface.clone(), *speed, allowance);
                self.replay_failure = Some(source.failure());
                self.error_reports = source.reports();
                let timing = settings.buses[*bus].timing;
                let source = Metered::new(source, timing, &self.demands[*bus]);
                // The order on the bus was decided when it was recorded.
                let config = config(Drive::Timed, Discipline::Fifo, REPLAY_QUEUE);
                let sender = self.world.add_sender(self.buses[*bus], config, Box::new(source));
                self.senders.push(sender);
            }
        }
        Ok(())
    }

    /// Names of the gateway's jobs: rule and destination.
    fn jobs(&self, experiment: &Experiment) -> Vec<(String, String)> {
        let Some(rules) = &experiment.rules else { return Vec::new() };
        let Some(host) = self.gateway else { return Vec::new() };
        let program = self.world.gateway(host).engine().program();
        let name = |job: &candor_engine::program::Job| {
            let to = rules.buses.get(usize::from(job.to.0));
            (job.rule.clone(), to.map_or(String::new(), |bus| bus.name.clone()))
        };
        program.jobs().iter().map(name).collect()
    }

    /// What the rules are to the frames.
    fn way(&self, experiment: &Experiment) -> Way {
        Way {
            has_gateway: self.gateway.is_some(),
            is_allow_list: experiment.rules.as_ref().is_some_and(|rules| rules.refuses_others),
        }
    }

    fn result(
        self,
        experiment: &Experiment,
        command: String,
        collected: Collector<'_>,
    ) -> ResultFile {
        let elapsed = self.world.now() - Time::ZERO;
        let sent: u64 = self.senders.iter().map(|&sender| self.world.released(sender)).sum();
        let Accounts { endings, unexplained, extra } = collected.ledger.close(sent);
        let counts =
            Counts { duplicated: extra, reordered: collected.reordered, ..Counts::of(&endings) };
        let mut by_cause: Vec<_> = collected.stopped.iter().collect();
        by_cause.sort_by_key(|((job, cause), _)| (*job, cause.name()));
        let mut stopped: Vec<_> = by_cause
            .into_iter()
            .map(|(&(job, cause), &frames)| {
                let rule = job.and_then(|job| collected.jobs.get(job as usize));
                Stopped::new(place_of(job, cause), rule.map_or("", |(rule, _)| rule), cause, frames)
            })
            .collect();
        if unexplained > 0 {
            stopped.push(Stopped::new("gateway", "", Cause::Unexplained, unexplained));
        }
        let mut notes = Vec::new();
        match self.error_reports.get() {
            0 => {}
            reports => notes.push(format!(
                "the recording has {}, which {} not sent: error reports are not frames on the bus",
                counted(reports, "error report"),
                by_count(reports, "is", "are")
            )),
        }
        let statistics: Vec<_> =
            self.buses.iter().map(|&bus| self.world.bus_statistics(bus)).collect();
        notes.extend(doubt::notes(experiment, &self.demands, &collected.waits, &statistics));
        let buses = experiment.buses.iter().zip(&self.buses).map(|(config, &bus)| {
            let statistics = self.world.bus_statistics(bus);
            let load = match elapsed {
                Nanos::ZERO => 0.0,
                elapsed => statistics.busy.as_nanos() as f64 / elapsed.as_nanos() as f64 * 100.0,
            };
            Bus {
                name: config.name.clone(),
                bitrate: config.timing.nominal.bits_per_second(),
                data_bitrate: config.timing.data.bits_per_second(),
                frames: statistics.frames,
                load_percent: (load * 1_000.0).round() / 1_000.0,
                error_frames: statistics.error_frames,
                bus_offs: statistics.bus_offs,
                id_collisions: statistics.id_collisions,
            }
        });
        let rules = self.gateway.map_or(Vec::new(), |host| {
            let counters = self.world.gateway(host).engine().counters();
            let counted = counters.jobs().into_iter().zip(&collected.jobs);
            counted
                .map(|(counters, (name, to))| RuleCounts {
                    name: name.clone(),
                    to: to.clone(),
                    handled: counters.handled,
                    refused: stopped_by(&counters).of(Ending::Refused),
                    lost: stopped_by(&counters).of(Ending::Lost),
                })
                .collect()
        });
        let metrics = Metric::ALL
            .iter()
            .zip(&collected.histograms)
            .filter_map(|(metric, histogram)| {
                Some((metric.key().to_owned(), Figures::of(histogram)?))
            })
            .collect();
        ResultFile {
            duration_ns: elapsed.as_nanos(),
            counts,
            stopped,
            buses: buses.collect(),
            rules,
            metrics,
            notes,
            ..ResultFile::of(experiment, command)
        }
    }
}

fn place_of(job: Option<u32>, cause: Cause) -> &'static str {
    match (job, cause) {
        (Some(_), _) => "rule",
        (None, Cause::SenderQueueFull | Cause::Merged | Cause::Unsupported | Cause::Unfinished) => {
            "sender"
        }
        (None, _) => "gateway",
    }
}

/// What a rule and its destination stopped, by ending.
fn stopped_by(counters: &JobCounters) -> Endings {
    counters.refusals().collect()
}

/// What the rules are to the frames of an experiment.
#[derive(Clone, Copy)]
struct Way {
    has_gateway: bool,
    /// What no rule takes is refused.
    is_allow_list: bool,
}

/// How each frame ended: a byte per frame, since a copy may end long after the others.
#[derive(Default)]
struct Ledger {
    endings: Vec<Option<Ending>>,
    extra: u64,
}

/// The sums of a [`Ledger`].
struct Accounts {
    endings: Endings,
    /// Frames, counted as lost, that ended without a record.
    unexplained: u64,
    /// Further copies of frames that arrived.
    extra: u64,
}

impl Ledger {
    /// One more copy of a frame has ended.
    fn note(&mut self, identity: u64, ending: Ending) {
        let index = identity as usize;
        if index >= self.endings.len() {
            self.endings.resize(index + 1, None);
        }
        let before = self.endings[index];
        if (before, ending) == (Some(Ending::Received), Ending::Received) {
            self.extra += 1;
        }
        self.endings[index] = Ending::of_frame(before.into_iter().chain([ending]));
    }

    /// The sums over all frames sent.
    fn close(mut self, sent: u64) -> Accounts {
        self.endings.resize(sent.max(self.endings.len() as u64) as usize, None);
        let mut endings = Endings::default();
        let mut unexplained = 0;
        for ending in self.endings {
            unexplained += u64::from(ending.is_none());
            endings.add(ending.unwrap_or(Ending::Lost), 1);
        }
        Accounts { endings, unexplained, extra: self.extra }
    }
}

/// Takes what became of each frame.
struct Collector<'a> {
    frames: Option<&'a mut dyn Write>,
    failure: Option<io::Error>,
    jobs: Vec<(String, String)>,
    waits: Waits,
    watch: &'a dyn Watch,
    histograms: Vec<Histogram>,
    way: Way,
    stopped: BTreeMap<(Option<u32>, Cause), u64>,
    ledger: Ledger,
    reordered: u64,
    /// The latest frame that arrived, per job.
    latest: Vec<Option<u64>>,
    line: String,
}

impl<'a> Collector<'a> {
    fn new(
        frames: Option<&'a mut dyn Write>,
        jobs: Vec<(String, String)>,
        way: Way,
        waits: Waits,
        watch: &'a dyn Watch,
    ) -> Self {
        Self {
            frames,
            failure: None,
            waits,
            watch,
            histograms: Metric::ALL.iter().map(|_| Histogram::new()).collect(),
            way,
            stopped: BTreeMap::new(),
            ledger: Ledger::default(),
            reordered: 0,
            latest: vec![None; jobs.len()],
            jobs,
            line: String::new(),
        }
    }

    /// The names of the columns.
    fn head(&mut self) -> io::Result<()> {
        let Some(frames) = &mut self.frames else { return Ok(()) };
        let taps: Vec<_> = Tap::ALL.iter().map(|tap| format!("{}_ns", tap.name())).collect();
        let [total, gateway] = LATENCIES.map(Metric::key);
        writeln!(
            frames,
            "number,sent,received,outcome,rule,{},{total}_ns,{gateway}_ns",
            taps.join(",")
        )
    }

    fn write_line(&mut self, record: &Record<'_>, outcome: &str, ending: Ending) {
        use std::fmt::Write as _;
        let Some(frames) = &mut self.frames else { return };
        let line = &mut self.line;
        line.clear();
        let _ = write!(line, "{},{},", record.identity, record.sent);
        if ending == Ending::Received {
            let _ = write!(line, "{}", record.frame);
        }
        let rule = record.job.and_then(|job| self.jobs.get(job as usize));
        let _ = write!(line, ",{outcome},{}", quoted(rule.map_or("", |(rule, _)| rule)));
        for tap in Tap::ALL {
            line.push(',');
            if let Some(at) = record.taps.at(tap) {
                let _ = write!(line, "{at}");
            }
        }
        for metric in LATENCIES {
            line.push(',');
            if let Some(value) = metric.value(record.taps, record.transmission_ns) {
                let _ = write!(line, "{value}");
            }
        }
        line.push('\n');
        if let Err(error) = frames.write_all(line.as_bytes()) {
            self.failure.get_or_insert(error);
        }
    }
}

/// A text in a CSV file.
pub(crate) fn quoted(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

impl Collector<'_> {
    /// Takes the order and the latencies of a copy that arrived.
    fn arrived(&mut self, record: &Record<'_>) {
        let latest = record.job.and_then(|job| self.latest.get_mut(job as usize));
        if let Some(latest) = latest {
            self.reordered += u64::from(latest.is_some_and(|seen| seen > record.identity));
            *latest = (*latest).max(Some(record.identity));
        }
        for (metric, histogram) in Metric::ALL.iter().zip(&mut self.histograms) {
            if let Some(value) = metric.value(record.taps, record.transmission_ns) {
                histogram.record(value);
            }
        }
    }
}

impl Observer for Collector<'_> {
    fn record(&mut self, record: &Record<'_>) {
        let stopped_by = match record.fate {
            Fate::Forwarded => None,
            Fate::Delivered => self.way.has_gateway.then_some(Cause::NoGateway),
            Fate::Refused(Cause::NoRule) if self.way.is_allow_list => Some(Cause::NotAllowed),
            Fate::Refused(cause) => Some(cause),
        };
        let ending = stopped_by.map_or(Ending::Received, Cause::ending);
        self.ledger.note(record.identity, ending);
        let outcome = match stopped_by {
            Some(cause) => {
                *self.stopped.entry((record.job, cause)).or_default() += 1;
                cause.name()
            }
            None => {
                self.arrived(record);
                if record.fate == Fate::Forwarded { "forwarded" } else { "delivered" }
            }
        };
        let waited = record.taps.at(Tap::SourceStart).zip(record.taps.at(Tap::Queued));
        if let Some((start, queued)) = waited {
            let wait = Nanos::from_nanos(start.saturating_sub(queued));
            self.waits.add(record.sender, record.sent.can_id(), wait);
        }
        self.write_line(record, outcome, ending);
    }

    fn proceed(&mut self, now: Time, sent: u64) -> bool {
        self.failure.is_none() && self.watch.proceed(now - Time::ZERO, sent)
    }
}

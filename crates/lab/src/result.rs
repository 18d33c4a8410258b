//! The result of an experiment: what `DIR/results/<experiment>.json` holds.
//!
//! The same in every world: `sim` and `vm` today, this machine and real buses later. There is no
//! wall clock in it, so that the same experiment gives the same bytes.

mod time_triggered;

use std::collections::BTreeMap;

use candor_causes::{Cause, Ending, Endings};
use candor_config::Table;
use candor_diagnostics::{Findings, Source};
use candor_lat::{Metric, TapPath};

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;

pub use candor_lat::{Counts, Figures};
pub use time_triggered::{
    Instrument, LinkLoad, LinkSchedule, SCHEDULE_MOST, ScheduledFrame, TimeTriggeredFigures,
};

/// The name of this layout.
pub const SCHEMA: &str = "candor-result/2";
/// Points of a latency profile at most.
pub(crate) const PROFILE_POINTS: usize = 2_000;

/// Everything about one experiment. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultFile {
    /// [`SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub experiment: String,
    /// The name of the experiment of which this is a run, if it runs with several seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What it is about.
    pub title: String,
    /// The version that made it.
    pub candor: String,
    /// The command that makes it again.
    pub command: String,
    /// The world: `sim` or `vm`.
    pub testbed: String,
    /// World and conditions, for people.
    pub conditions: String,
    /// The path of its frames, by the name of a [`TapPath`].
    #[serde(default = "can_gateway")]
    pub path: String,
    /// The machine it ran on, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The seed.
    pub seed: u64,
    /// Its place in the matrix.
    pub axes: BTreeMap<String, String>,
    /// Every setting, as TOML.
    pub config: String,
    /// Files it read.
    pub inputs: Vec<InputFile>,
    /// How long it lasted in its own time.
    pub duration_ns: u64,
    /// What became of the frames.
    pub counts: Counts,
    /// Frames and copies that got no further, by cause.
    pub stopped: Vec<Stopped>,
    /// What happened on the buses.
    pub buses: Vec<Bus>,
    /// What the rules did.
    pub rules: Vec<RuleCounts>,
    /// Latencies by metric.
    pub metrics: BTreeMap<String, Figures>,
    /// The messages of periodic traffic, as the experiment lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageFigures>,
    /// What the testbed wants people to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What it took, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// What the signal service took, if that is examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceFigures>,
    /// The schedule and what became of it, if time-triggered Ethernet is examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_triggered: Option<TimeTriggeredFigures>,
}

/// What the signal service took, and the machine that it ran on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceFigures {
    /// The processes by what they are for.
    pub processes: Vec<ProcessCost>,
    /// Frames that became events.
    pub events: u64,
    /// Bytes of UDP that were sent.
    pub datagram_bytes: u64,
    /// Bytes that a subscriber got for each event, headers of the WebSocket included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_bytes: Option<f64>,
    /// Subscribers.
    pub subscribers: u64,
    /// The machine.
    pub host: HostMachine,
}

/// CPU time of processes with one purpose, as the kernel accounts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessCost {
    /// Their purpose: `server`, `subscriber`.
    pub name: String,
    /// How many there are.
    pub processes: u64,
    /// CPU time of all of them together in ns.
    pub cpu_ns: u64,
    /// The same in percent of all processors while frames were sent.
    pub cpu_percent: f64,
}

impl ServiceFigures {
    /// CPU time of the processes of that purpose for each event, in ns; `all` for those of every purpose.
    #[must_use]
    pub fn cpu_ns_per_event(&self, name: &str) -> Option<f64> {
        let cpu_ns: u64 = self.of(name)?.map(|process| process.cpu_ns).sum();
        (self.events > 0).then(|| cpu_ns as f64 / self.events as f64)
    }

    /// The same in percent of all processors.
    #[must_use]
    pub fn cpu_percent(&self, name: &str) -> Option<f64> {
        Some(self.of(name)?.map(|process| process.cpu_percent).sum())
    }

    /// The processes of that purpose; `None` if there are none.
    fn of(&self, name: &str) -> Option<impl Iterator<Item = &ProcessCost>> {
        let is_meant = move |process: &&ProcessCost| name == "all" || process.name == name;
        self.processes
            .iter()
            .any(|process| is_meant(&process))
            .then(|| self.processes.iter().filter(is_meant))
    }
}

/// The machine that an experiment ran on: everything about it that may change a figure.
pub use candor_vm::Identity as Machine;

pub use crate::machine::HostMachine;

/// What an experiment took, and how well its tester worked. Times are CPU time, interrupts that hit
/// the process included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Of a user-space gateway.
    pub gateway_cpu_ns: u64,
    /// Instructions of a user-space gateway for each frame that arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_instructions_per_frame: Option<f64>,
    /// How often a user-space gateway gave up the CPU.
    pub gateway_waits: u64,
    /// How often the CPU was taken from it.
    pub gateway_preemptions: u64,
    /// Of the tester's sender.
    pub sender_cpu_ns: u64,
    /// The longest delay of a departure.
    pub latest_departure_ns: u64,
    /// Replies that the flood ping got.
    pub ping_replies: u64,
    /// Messages that hackbench passed.
    pub hackbench_messages: u64,
    /// The station that loaded the guest over Ethernet, where it is outside of the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub station: Option<Station>,
    /// Frames that arrived although nobody had sent them, or too late.
    pub unknown: u64,
}

/// What a station counted that loads a guest over Ethernet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Station {
    /// Datagrams that it sent.
    pub datagrams: u64,
    /// Whole answers that it got.
    pub answers: u64,
    /// Frames that arrived at the guest's card.
    pub frames: u64,
    /// Those of them for which the card had no room.
    pub refused: u64,
    /// Frames of the guest.
    pub received: u64,
    /// How long answers took, from the begin of the request to the end of the answer: 50 of 100 took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns_p50: Option<u64>,
    /// See `round_trip_ns_p50`: 99 of 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns_p99: Option<u64>,
    /// See `round_trip_ns_p50`: the longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns_max: Option<u64>,
}

/// A file that was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputFile {
    /// As it was written.
    pub path: String,
    /// Of its contents.
    pub sha256: String,
}

/// Frames and copies that one cause stopped at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// `sender`, `gateway` or `rule`.
    #[serde(rename = "where")]
    pub place: String,
    /// The rule, if one was at work.
    pub rule: String,
    /// One of [`Cause`].
    pub cause: String,
    /// How the cause ends a frame: `not_routed`, `refused` or `lost`.
    pub ending: String,
    /// How many.
    pub frames: u64,
}

impl Stopped {
    pub(crate) fn new(place: &str, rule: &str, cause: Cause, frames: u64) -> Self {
        Self {
            place: place.into(),
            rule: rule.into(),
            cause: cause.name().into(),
            ending: cause.ending().key().into(),
            frames,
        }
    }
}

/// The path of results that do not name one.
fn can_gateway() -> String {
    TapPath::CAN_GATEWAY.name().into()
}

/// A bus.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bus {
    /// Its name.
    pub name: String,
    /// Nominal bit rate in bit/s.
    pub bitrate: u32,
    /// Data bit rate in bit/s.
    pub data_bitrate: u32,
    /// Frames that got through.
    pub frames: u64,
    /// How much of the time it was occupied, intermission and error frames included.
    pub load_percent: f64,
    /// Frames destroyed by errors.
    pub error_frames: u64,
    /// How often a controller went bus-off.
    pub bus_offs: u64,
    /// How often nodes began frames with the same identifier at once, which CAN forbids.
    #[serde(default)]
    pub id_collisions: u64,
}

impl Bus {
    /// A bus that was occupied for `busy_ns` of `duration_ns`, by so many frames.
    pub(crate) fn new(
        settings: &candor_network::Bus,
        frames: u64,
        busy_ns: u64,
        duration_ns: u64,
    ) -> Self {
        let load = match duration_ns {
            0 => 0.0,
            duration_ns => busy_ns as f64 / duration_ns as f64 * 100.0,
        };
        Self {
            name: settings.name.clone(),
            bitrate: settings.timing.nominal.bits_per_second(),
            data_bitrate: settings.timing.data.bits_per_second(),
            frames,
            load_percent: (load * 1_000.0).round() / 1_000.0,
            error_frames: 0,
            bus_offs: 0,
            id_collisions: 0,
        }
    }
}

/// A rule and one of its destinations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleCounts {
    /// The rule's name.
    pub name: String,
    /// The destination.
    pub to: String,
    /// Copies its queue took.
    pub handled: u64,
    /// Copies that the rule refused.
    pub refused: u64,
    /// Copies that were lost.
    pub lost: u64,
}

impl RuleCounts {
    /// A rule and a destination: copies that it took, and those that ended otherwise.
    pub(crate) fn new(name: &str, to: &str, handled: u64, stopped: &Endings) -> Self {
        Self {
            name: name.to_owned(),
            to: to.to_owned(),
            handled,
            refused: stopped.count(Ending::Refused),
            lost: stopped.count(Ending::Lost),
        }
    }
}

/// A message of periodic traffic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageFigures {
    /// Its name.
    pub name: String,
    /// The node that sends it.
    pub node: String,
    /// The bus of the node.
    pub bus: String,
    /// Its identifier, such as `0x123`, or `0x18FEF100x` for an extended one.
    pub id: String,
    /// Frames that ended in some way.
    pub sent: u64,
    /// Frames of which a copy arrived.
    pub received: u64,
    /// Latencies by metric, without their profiles.
    pub metrics: BTreeMap<String, Figures>,
}

/// The name of the layout of [`ProfileFile`].
pub const PROFILE_SCHEMA: &str = "candor-profile/1";

/// Where the instructions of one experiment went: what `DIR/profiles/<experiment>.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProfileFile {
    /// [`PROFILE_SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub experiment: String,
    /// The version that made it.
    pub candor: String,
    /// The machine it ran on.
    pub machine: Machine,
    /// The seed.
    pub seed: u64,
    /// Every setting, as TOML.
    pub config: String,
    /// Frames that arrived.
    pub frames: u64,
    /// Instructions between the first frame and the last.
    pub instructions: u64,
    /// The same by function, most first.
    pub functions: Vec<FunctionCount>,
}

/// Instructions in one function, without those that it calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCount {
    /// Its name; the address where none is known.
    pub name: String,
    /// `kernel`, the name of a module, `program` or `library`.
    pub place: String,
    /// How many.
    pub instructions: u64,
}

impl ProfileFile {
    /// So many instructions, per frame.
    #[must_use]
    pub fn per_frame(&self, instructions: u64) -> f64 {
        instructions as f64 / self.frames.max(1) as f64
    }
}

/// Every setting of a resolved experiment by its path, such as `traffic.kind`, as TOML.
pub(crate) fn settings(config: &str) -> BTreeMap<String, String> {
    let table = candor_config::parse(&Source::new("config", config), &Findings::new());
    let mut settings = BTreeMap::new();
    if let Some(table) = table {
        flatten(&table, "", &mut settings);
    }
    settings
}

/// The values of a table by their paths.
fn flatten(table: &Table, path: &str, settings: &mut BTreeMap<String, String>) {
    for entry in table.entries() {
        let path =
            if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        match entry.value.as_table() {
            Some(table) => flatten(table, &path, settings),
            None => drop(settings.insert(path, entry.value.to_toml_string())),
        }
    }
}

impl ResultFile {
    /// A result that says of which experiment it is, and nothing yet of what happened.
    pub(crate) fn new(experiment: &Experiment, command: String) -> Self {
        let input = |input: &crate::experiment::Input| InputFile {
            path: input.path.clone(),
            sha256: input.sha256.clone(),
        };
        Self {
            schema: SCHEMA.into(),
            experiment: experiment.name.clone(),
            group: (experiment.group != experiment.name).then(|| experiment.group.clone()),
            title: experiment.title.clone(),
            candor: env!("CARGO_PKG_VERSION").into(),
            command,
            testbed: experiment.testbed().name().into(),
            conditions: experiment.conditions.clone(),
            path: experiment.path().name().into(),
            machine: None,
            seed: experiment.seed,
            axes: experiment.axes.iter().cloned().collect(),
            config: experiment.config.clone(),
            inputs: experiment.inputs.iter().map(input).collect(),
            duration_ns: 0,
            counts: Counts::default(),
            stopped: Vec::new(),
            buses: Vec::new(),
            rules: Vec::new(),
            metrics: BTreeMap::new(),
            messages: Vec::new(),
            notes: Vec::new(),
            effort: None,
            service: None,
            time_triggered: None,
        }
    }

    /// The name of the experiment, without the seed if it runs with several.
    #[must_use]
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or(&self.experiment)
    }

    /// Every setting by its path, such as `traffic.kind`, as TOML.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<String, String> {
        settings(&self.config)
    }

    /// Frames lost, in percent of those sent; `None` if none was sent.
    #[must_use]
    pub fn lost_percent(&self) -> Option<f64> {
        let Counts { sent, lost, .. } = self.counts;
        (sent > 0).then(|| lost as f64 / sent as f64 * 100.0)
    }

    /// The latency that is shown where there is room for one.
    #[must_use]
    pub fn main_metric(&self) -> Option<&Figures> {
        self.metric(TapPath::by_name(&self.path)?.main_metric()?)
    }

    /// Whether the gateway's host had something else to do.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.settings().get("load.kind").is_some_and(|kind| kind != "\"none\"")
    }

    /// The message of that name; with several buses, also `BUS.NAME`.
    #[must_use]
    pub fn message(&self, name: &str) -> Option<&MessageFigures> {
        let is_meant = |message: &&MessageFigures| {
            message.name == name
                || name
                    .strip_prefix(&message.bus)
                    .is_some_and(|rest| rest.strip_prefix('.') == Some(&message.name))
        };
        self.messages.iter().find(is_meant)
    }

    /// The figures of a metric.
    #[must_use]
    pub fn metric(&self, metric: Metric) -> Option<&Figures> {
        self.metrics.get(metric.key())
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPERIMENTS: &str = include_str!("../../../docs/experiments.md");
    const GATEWAY: &str = include_str!("../../../docs/gateway.md");

    #[test]
    fn every_cause_is_documented_with_its_ending() {
        for cause in Cause::ALL {
            let name = format!("`{}`", cause.name());
            let ending = cause.ending().label();
            let row = EXPERIMENTS.lines().find(|line| {
                let cells: Vec<_> = line.split(" | ").collect();
                matches!(cells[..], [names, of, _] if names.contains(&name) && of == ending)
            });
            assert!(row.is_some(), "docs/experiments.md has no row for {name}, {ending}");
        }
    }

    #[test]
    fn every_cause_that_an_engine_counts_is_documented() {
        for cause in candor_engine::counters::CAUSES {
            let row = format!("| `{}` | {} | ", cause.name(), cause.ending().label());
            assert!(GATEWAY.contains(&row), "docs/gateway.md has no row {row}");
        }
    }
}

//! The results of a run in the terminal: a row per experiment, and of a single one the details.

use candor_causes::Ending;
use candor_diagnostics::noun;
use candor_lab::experiment::Testbed;
use candor_lab::group::{Group, groups};
use candor_lab::result::{ResultFile, Stopped};
use candor_lab::runner::Ran;
use candor_lat::{Metric, TapPath};
use candor_vm::BusTime;

use super::ranges::{duration_range, number_range};
use super::{round_trips, service, time_triggered};
use crate::output::{duration, table, thousands};

/// Of how many buses the table shows the load.
const MOST_LOADS: usize = 2;

/// Makes a table of results.
type Table = fn(&[&Ran]) -> String;

/// The figures of all results, and of a few the details. The runs of one experiment with several seeds
/// share a row, and each kind of experiments has a table.
pub(crate) fn overview(finished: &[Ran]) -> String {
    let of = |path: &TapPath| -> Vec<_> {
        finished.iter().filter(|ran| ran.result.path == path.name()).collect()
    };
    let tables: [(_, Table); 4] = [
        (of(TapPath::CAN_GATEWAY), of_can_gateways),
        (of(TapPath::SIGNAL_SERVICE), service::overview),
        (of(TapPath::ROUND_TRIP), round_trips::overview),
        (of(TapPath::TIME_TRIGGERED), time_triggered::overview),
    ];
    let tables = tables.iter().filter(|(finished, _)| !finished.is_empty());
    let tables: Vec<_> = tables.map(|(finished, table)| table(finished)).collect();
    let mut out = tables.join("\n");
    match finished {
        [ran] => out.push_str(&details(&ran.result)),
        _ => out.push_str(&notes(finished)),
    }
    out
}

/// The table of experiments with CAN buses.
fn of_can_gateways(finished: &[&Ran]) -> String {
    let groups = groups(finished.iter().map(|ran| &ran.result));
    let columns = Columns {
        has_runs: groups.iter().any(|group| group.runs.len() > 1),
        has_load: groups.iter().any(is_loaded_vm),
        has_instructions: groups.iter().any(|group| group.range(instructions).is_some()),
        has_cached: finished.iter().any(|ran| ran.is_cached),
    };
    let is_cached = |group: &Group<'_>| {
        let mut runs = finished.iter().filter(|ran| ran.result.group() == group.name);
        runs.all(|ran| ran.is_cached)
    };
    let buses = finished.iter().map(|ran| ran.result.buses.len()).max().unwrap_or(0);
    let loads: Vec<_> =
        (0..buses.min(MOST_LOADS)).map(|index| load_head(finished, index)).collect();
    let head = columns.head(&loads);
    let row = |group| columns.row(group, loads.len(), is_cached(group));
    let rows: Vec<_> = groups.iter().map(row).collect();
    let mut out = table(&head, &rows);
    let is_of = |testbed: Testbed| finished.iter().any(|ran| ran.result.testbed == testbed.name());
    out.push('\n');
    if is_of(Testbed::Sim) {
        out.push_str("gateway latency: total latency without the transmission on the target bus\n");
    }
    let machines = || finished.iter().filter_map(|ran| ran.result.machine.as_ref());
    for (bus, says) in [
        (BusTime::Instant, "buses take no time"),
        (BusTime::Timed, "buses take their time, the tester is outside"),
    ] {
        if machines().any(|machine| machine.bus == bus) {
            out.push_str(&format!(
                "vm: counted instructions; {says}; path lengths, not a forecast for a board\n"
            ));
        }
    }
    if columns.has_instructions {
        out.push_str("instructions: of the gateway's process, for each frame that arrived\n");
    }
    if columns.has_load {
        out.push_str(
            "e2e: end to end, from when a frame was due; under load the gateway latency alone misses \
             the frames that left late\n",
        );
    }
    if columns.has_runs {
        out.push_str("a..b: the smallest and the largest value over the seeds\n");
    }
    out
}

/// The notes of simulations and of processes: what makes their figures doubtful. Those of machines are in their results.
fn notes(finished: &[Ran]) -> String {
    const MOST: usize = 10;
    let results = finished.iter().map(|ran| &ran.result);
    let doubtful = results.filter(|result| result.testbed != Testbed::Vm.name());
    let lines: Vec<_> = doubtful
        .flat_map(|result| {
            result.notes.iter().map(|note| format!("note: {}: {note}\n", result.experiment))
        })
        .collect();
    let mut out = lines.iter().take(MOST).fold(String::new(), |out, line| out + line);
    if lines.len() > MOST {
        let more = lines.len() - MOST;
        let more = format!("{more} more {}", noun(more, "note"));
        out.push_str(&format!("note: {more}; see the report and the results\n"));
    }
    out
}

/// The head of a column of bus loads: the name of the bus, if it has the same name everywhere.
fn load_head(finished: &[&Ran], index: usize) -> String {
    let mut names = finished.iter().filter_map(|ran| ran.result.buses.get(index));
    let first = names.next().map(|bus| bus.name.as_str());
    match first.filter(|first| names.all(|bus| bus.name == *first)) {
        Some(name) => format!(">load of {name}"),
        None => format!(">load of bus {}", index + 1),
    }
}

/// In `vm` the sender shares the processor with the load, so it may be late.
fn is_loaded_vm(group: &Group<'_>) -> bool {
    let is = |run: &&ResultFile| run.testbed == Testbed::Vm.name() && run.is_loaded();
    group.runs.iter().any(is)
}

/// The columns of [`overview`] that are not always there.
struct Columns {
    has_runs: bool,
    has_load: bool,
    has_instructions: bool,
    has_cached: bool,
}

/// Instructions of the gateway's process per frame that arrived.
fn instructions(result: &ResultFile) -> Option<f64> {
    result.effort?.gateway_instructions_per_frame
}

impl Columns {
    /// `loads` are the heads of the columns with the loads of the buses.
    fn head<'a>(&self, loads: &'a [String]) -> Vec<&'a str> {
        let mut head = vec!["experiment"];
        head.extend(self.has_runs.then_some(">runs"));
        head.extend([">sent", ">received", ">not routed", ">refused", ">lost"]);
        head.extend([">p50", ">p99", ">p99.9", ">max"]);
        if self.has_load {
            head.extend([">e2e p50", ">e2e p99", ">e2e max"]);
        }
        head.extend(self.has_instructions.then_some(">instructions"));
        head.extend(loads.iter().map(String::as_str));
        head.extend(self.has_cached.then_some(""));
        head
    }

    fn row(&self, group: &Group<'_>, loads: usize, is_cached: bool) -> Vec<String> {
        let latency = |metric: Metric, figure: &str| {
            let range = group.range(|run| run.metric(metric)?.figure_ns(figure));
            range.map_or("-".into(), |range| duration_range(range.least, range.most))
        };
        let load = |index: usize| {
            let range = group.range(|run| Some(run.buses.get(index)?.load_percent));
            range.map_or("-".into(), |range| {
                format!("{} %", number_range(range.least, range.most, 1))
            })
        };
        let mut row = vec![group.name.to_owned()];
        row.extend(self.has_runs.then(|| group.runs.len().to_string()));
        row.push(thousands(group.sum(|run| run.counts.sent)));
        row.push(thousands(group.sum(|run| run.counts.received)));
        row.push(thousands(group.sum(|run| run.counts.not_routed)));
        row.push(thousands(group.sum(|run| run.counts.refused)));
        row.push(thousands(group.sum(|run| run.counts.lost)));
        let figures = ["p50", "p99", "p999", "max"];
        row.extend(figures.map(|figure| latency(Metric::GatewayLatency, figure)));
        if self.has_load {
            let is_loaded = is_loaded_vm(group);
            let end_to_end = |figure| match is_loaded {
                true => latency(Metric::EndToEnd, figure),
                false => String::new(),
            };
            row.extend(["p50", "p99", "max"].map(end_to_end));
        }
        if self.has_instructions {
            let range = group.range(instructions);
            row.push(range.map_or("-".into(), |range| number_range(range.least, range.most, 0)));
        }
        row.extend((0..loads).map(load));
        row.extend(self.has_cached.then(|| if is_cached { "cached" } else { "" }.to_owned()));
        row
    }
}

/// What became of the frames, bus by bus and cause by cause.
pub(crate) fn details(result: &ResultFile) -> String {
    let counts = &result.counts;
    let mut out = format!("\n{}\n", result.conditions);
    out.push_str(&format!(
        "{} {} sent in {} = {} received + {} not routed + {} refused + {} lost\n\n",
        thousands(counts.sent),
        noun(counts.sent, "frame"),
        duration(result.duration_ns as f64),
        thousands(counts.received),
        thousands(counts.not_routed),
        thousands(counts.refused),
        thousands(counts.lost),
    ));
    let buses: Vec<_> = result
        .buses
        .iter()
        .map(|bus| {
            vec![
                bus.name.clone(),
                format!("{} bit/s", thousands(u64::from(bus.bitrate))),
                thousands(bus.frames),
                format!("{:.2} %", bus.load_percent),
                thousands(bus.error_frames),
            ]
        })
        .collect();
    if !buses.is_empty() {
        out.push_str(&table(&["bus", ">bit rate", ">frames", ">load", ">error frames"], &buses));
    }
    out.push_str(&service::details(result));
    out.push_str(&time_triggered::details(result));
    if !result.stopped.is_empty() {
        out.push('\n');
        out.push_str(&stopped(&result.stopped));
    }
    for note in &result.notes {
        out.push_str(&format!("\nnote: {note}\n"));
    }
    let instructions = result.effort.and_then(|effort| effort.gateway_instructions_per_frame);
    if let Some(instructions) = instructions {
        let instructions = instructions.round() as u64;
        let (whose, each) = match result.path == TapPath::ROUND_TRIP.name() {
            true => ("the slave's", "answer"),
            false => ("the gateway's", "frame that arrived"),
        };
        out.push_str(&format!(
            "\n{} {} of {whose} process for each {each}\n",
            thousands(instructions),
            noun(instructions, "instruction")
        ));
    }
    out
}

/// What stopped frames, in the order of the columns above: not routed, refused, lost.
fn stopped(all: &[Stopped]) -> String {
    let of = |ending: Ending| all.iter().filter(move |stopped| stopped.ending == ending.key());
    let row = |ending: Ending, stopped: &Stopped| {
        vec![
            ending.label().to_owned(),
            stopped.cause.clone(),
            stopped.place.clone(),
            stopped.rule.clone(),
            thousands(stopped.frames),
        ]
    };
    let rows: Vec<_> = Ending::ALL
        .into_iter()
        .flat_map(|ending| of(ending).map(move |stopped| row(ending, stopped)))
        .collect();
    table(&["stopped", "cause", "where", "rule", ">frames"], &rows)
}

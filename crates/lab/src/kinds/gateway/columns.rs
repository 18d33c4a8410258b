//! CAN buses, with a gateway or without.

use candor_causes::Ending;
use candor_lat::{Metric, TapPath};
use candor_vm::BusTime;

use crate::columns::{Column, Columns, Shown};
use crate::experiment::Testbed;
use crate::group::groups;
use crate::quantity::Quantity;
use crate::result::{ResultFile, is_loaded, machine};
use crate::sections::BUSES;

/// Of how many buses the table shows the load.
const MOST_LOADS: usize = 2;
const FIGURES: [(&str, &str); 4] =
    [("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"), ("max", "max")];

pub(super) fn columns(results: &[&ResultFile]) -> Columns {
    let has_load = results.iter().any(|run| is_loaded_vm(run));
    let has_instructions =
        results.iter().any(|run| Quantity::GATEWAY_INSTRUCTIONS.of(run).is_some());
    let has_runs = groups(results.iter().copied()).iter().any(|group| group.runs.len() > 1);
    let mut columns = vec![Column::total("sent", |run| run.counts.sent)];
    columns
        .extend(Ending::ALL.map(|it| Column::total(it.label(), move |run| run.counts.ended(it))));
    // A program that reads has the latency of its path.
    let path = results.first().and_then(|run| TapPath::by_name(&run.path));
    let metric = path.and_then(TapPath::main_metric).unwrap_or(Metric::GatewayLatency);
    columns.extend(FIGURES.map(|(head, figure)| {
        Column::quantity(head, Shown::Duration, Quantity::Latency(metric, figure))
    }));
    if results.iter().any(|run| cold_max(run).is_some()) {
        columns.push(Column::range("cold max", Shown::DurationIfAny, cold_max));
    }
    if has_load {
        columns.extend(["p50", "p99", "max"].map(|figure| {
            let quantity = Quantity::Latency(Metric::EndToEnd, figure);
            let of = move |run: &ResultFile| quantity.of(run).filter(|_| is_loaded_vm(run));
            Column::range(format!("e2e {figure}"), Shown::DurationIfAny, of)
        }));
    }
    if has_instructions {
        let shown = Shown::Number(0, "");
        columns.push(Column::quantity("instructions", shown, Quantity::GATEWAY_INSTRUCTIONS));
    }
    let buses = results.iter().map(|run| run.sections.rows(&BUSES).len()).max().unwrap_or(0);
    columns.extend((0..buses.min(MOST_LOADS)).map(|index| {
        let of = move |run: &ResultFile| {
            run.sections.numbers(&BUSES, "load_percent").get(index).copied()
        };
        Column::range(load_head(results, index), Shown::Number(1, " %"), of)
    }));
    Columns { has_runs, columns, legend: legend(results, has_instructions, has_load, has_runs) }
}

/// The largest latency of the warm-up.
fn cold_max(run: &ResultFile) -> Option<f64> {
    Quantity::of_words(&["cold_latency", "max"])?.of(run)
}

/// In `vm` the sender shares the processor with the load, so it may be late.
fn is_loaded_vm(run: &ResultFile) -> bool {
    run.testbed == Testbed::Vm.name() && is_loaded(run)
}

/// The head of a column of bus loads: the name of the bus, if it has the same name everywhere.
fn load_head(results: &[&ResultFile], index: usize) -> String {
    let mut names =
        results.iter().filter_map(|run| run.sections.rows(&BUSES).get(index)?.get("name")?.text());
    let first = names.next();
    match first.filter(|first| names.all(|name| name == *first)) {
        Some(name) => format!("load of {name}"),
        None => format!("load of bus {}", index + 1),
    }
}

fn legend(
    results: &[&ResultFile],
    has_instructions: bool,
    has_load: bool,
    has_runs: bool,
) -> String {
    let mut legend = String::new();
    if results.iter().any(|run| run.testbed == Testbed::Sim.name()) {
        legend += "gateway latency: total latency without the transmission on the target bus\n";
    }
    let machines = || results.iter().filter_map(|run| machine(run));
    for (bus, says) in [
        (BusTime::Instant, "buses take no time"),
        (BusTime::Timed, "buses take their time, the tester is outside"),
    ] {
        if machines().any(|machine| machine.bus == bus) {
            legend += &format!(
                "vm: counted instructions; {says}; path lengths, not a forecast for a board\n"
            );
        }
    }
    if has_instructions {
        legend += "instructions: of the gateway's process, for each frame that arrived\n";
    }
    if results.iter().any(|run| cold_max(run).is_some()) {
        legend += "cold: the frames before those that count, one at a time, which need memory for the first time\n";
    }
    if has_load {
        legend += "e2e: end to end, from when a frame was due; under load the gateway latency alone misses \
                   the frames that left late\n";
    }
    if has_runs {
        legend += "a..b: the smallest and the largest value over the seeds\n";
    }
    legend
}

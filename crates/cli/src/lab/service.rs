//! The results of experiments with the signal service in the terminal.

use candor_lab::group::{Group, groups};
use candor_lab::result::ResultFile;
use candor_lab::runner::Ran;

use super::ranges::{duration_range, number_range};
use crate::output::{table, thousands};

/// The processes that have a column.
const PROCESSES: [&str; 3] = ["server", "subscriber", "dbus-daemon"];

/// A row for each experiment.
pub(super) fn overview(finished: &[&Ran]) -> String {
    let groups = groups(finished.iter().map(|ran| &ran.result));
    let head = [
        "experiment",
        ">runs",
        ">sent",
        ">lost",
        ">p50",
        ">p99",
        ">max",
        ">server",
        ">subscriber",
        ">dbus-daemon",
        ">event",
        ">stolen",
    ];
    let rows: Vec<_> = groups.iter().map(row).collect();
    let mut out = table(&head, &rows);
    out.push_str(
        "\np50, p99, max: from when a frame is sent to when a subscriber has its event decoded\n\
         server, subscriber, dbus-daemon: CPU time per event, of all subscribers together\n\
         event: bytes on the WebSocket; stolen: time that the hypervisor gave to others\n\
         a..b: the smallest and the largest value over the runs\n",
    );
    out
}

fn row(group: &Group<'_>) -> Vec<String> {
    let dash = || "-".to_owned();
    let latency = |figure: &str| {
        let range = group.range(|run| run.main_metric()?.figure_ns(figure));
        range.map_or_else(dash, |range| duration_range(range.least, range.most))
    };
    let number = |digits: usize, unit: &str, of: &dyn Fn(&ResultFile) -> Option<f64>| {
        let range = group.range(|run| of(run));
        range.map_or_else(dash, |range| {
            format!("{}{unit}", number_range(range.least, range.most, digits))
        })
    };
    let mut row = vec![group.name.to_owned(), group.runs.len().to_string()];
    row.push(thousands(group.sum(|run| run.counts.sent)));
    row.push(thousands(group.sum(|run| run.counts.lost)));
    row.extend(["p50", "p99", "max"].map(latency));
    row.extend(
        PROCESSES.map(|name| number(2, "us", &|run| run.service.as_ref()?.cpu_us_per_event(name))),
    );
    row.push(number(1, "", &|run| run.service.as_ref()?.event_bytes));
    row.push(number(1, " %", &|run| Some(run.service.as_ref()?.host.stolen_percent)));
    row
}

/// What the processes of an experiment used; nothing of other experiments.
pub(super) fn details(result: &ResultFile) -> String {
    let Some(service) = &result.service else { return String::new() };
    let row = |process: &candor_lab::result::ProcessCost| {
        let per_event = service.cpu_us_per_event(&process.name).unwrap_or_default();
        vec![
            process.name.clone(),
            process.processes.to_string(),
            format!("{per_event:.2}us"),
            format!("{:.2} %", process.cpu_percent),
        ]
    };
    let rows: Vec<_> = service.processes.iter().map(row).collect();
    let mut out = table(&["process", ">processes", ">per event", ">of all processors"], &rows);
    let host = &service.host;
    out.push_str(&format!(
        "\n{}, {} processors, Linux {}, clock {}; busy {} %, stolen {} %\n",
        host.cpu, host.cpus, host.kernel, host.clock, host.busy_percent, host.stolen_percent
    ));
    out
}

//! The results of experiments with time-triggered Ethernet in the terminal.

use candor_lab::group::{Group, groups};
use candor_lab::result::{Figures, Instrument, ResultFile, TimeTriggeredFigures};
use candor_lab::runner::Ran;
use candor_lat::Metric;

use super::ranges::number_range;
use crate::output::{duration, table, thousands};

/// A row for each experiment: what was measured, what was published, what follows from the schedule, and what is left.
pub(super) fn overview(finished: &[&Ran]) -> String {
    let groups = groups(finished.iter().map(|ran| &ran.result));
    let figures = || finished.iter().filter_map(|ran| ran.result.time_triggered.as_ref());
    let has_published = figures().any(|it| it.published_ns.is_some());
    let has_equation = figures().any(|it| it.equation_3_ns != it.model_ns);
    let has_clocks = figures().any(|it| it.clock_difference.is_some());
    let has_runs = groups.iter().any(|group| group.runs.len() > 1);
    let mut head = vec!["experiment"];
    head.extend(has_runs.then_some(">runs"));
    head.extend([">bytes", ">sent", ">lost", ">late", ">min", ">p50", ">max", ">jitter"]);
    head.extend(has_published.then_some(">published"));
    head.push(">model");
    head.extend(has_equation.then_some(">equation 3"));
    head.push(">residual p50");
    head.extend(has_clocks.then_some(">clocks apart"));
    let row = |group: &Group<'_>| {
        let us = |of: &dyn Fn(&ResultFile) -> Option<f64>| {
            let range = group.range(|run| of(run).map(|ns| ns / 1_000.0));
            range.map_or_else(|| "-".to_owned(), |range| number_range(range.least, range.most, 3))
        };
        let latency =
            |figure: &str| us(&|run| run.metric(Metric::NetworkLatency)?.figure_ns(figure));
        let figure = |of: &dyn Fn(&TimeTriggeredFigures) -> Option<u64>| {
            us(&|run| of(run.time_triggered.as_ref()?).map(|ns| ns as f64))
        };
        let first = group.runs.first().and_then(|run| run.time_triggered.as_ref());
        let late = group.sum(|run| run.time_triggered.as_ref().map_or(0, |it| it.late_cycle));
        let mut row = vec![group.name.to_owned()];
        row.extend(has_runs.then(|| group.runs.len().to_string()));
        row.push(first.map_or_else(String::new, |it| it.size.to_string()));
        row.push(thousands(group.sum(|run| run.counts.sent)));
        row.push(thousands(group.sum(|run| run.counts.lost + run.counts.refused)));
        row.push(thousands(late));
        row.extend(["min", "p50", "max"].map(latency));
        row.push(figure(&|it| it.jitter_ns));
        row.extend(has_published.then(|| figure(&|it| it.published_ns)));
        row.push(figure(&|it| Some(it.model_ns)));
        row.extend(has_equation.then(|| figure(&|it| Some(it.equation_3_ns))));
        row.push(us(&|run| run.metric(Metric::Residual)?.figure_ns("p50")));
        row.extend(has_clocks.then(|| us(&|run| clock_difference(run)?.figure_ns("max"))));
        row
    };
    let rows: Vec<_> = groups.iter().map(row).collect();
    let mut out = table(&head, &rows);
    out.push_str(
        "\nin us, from the first bit out of the sender to the last bit in the receiver; jitter: max - min\n\
         late: a period late or more than half of one; model: wires + transmission + relay delays\n\
         residual: measured - model\n",
    );
    if has_clocks {
        out.push_str(
            "clocks apart: the largest difference of two clocks in any integration cycle\n",
        );
    }
    if has_runs {
        out.push_str("a..b: the smallest and the largest value over the runs\n");
    }
    out
}

fn clock_difference(run: &ResultFile) -> Option<&Figures> {
    run.time_triggered.as_ref()?.clock_difference.as_ref()
}

/// What else is known of one experiment; nothing of other kinds.
pub(super) fn details(result: &ResultFile) -> String {
    let Some(figures) = &result.time_triggered else { return String::new() };
    let rows: Vec<_> = figures
        .links
        .iter()
        .map(|it| vec![it.link.clone(), it.from.clone(), format!("{:.2} %", it.load_percent)])
        .collect();
    let mut out = String::new();
    if !rows.is_empty() {
        out.push_str(&table(&["link", "from", ">load"], &rows));
    }
    if let Some(it) = &figures.clock_difference {
        out.push_str(&format!(
            "clocks differ by {} at most in half of {} cycles, by {} in the worst; stated precision {}\n",
            duration(it.p50_ns as f64),
            thousands(it.count),
            duration(it.max_ns as f64),
            duration(figures.precision_ns as f64),
        ));
    }
    if let Some(instrument) = &figures.instrument {
        out.push_str(&of_instrument(instrument));
    }
    out
}

/// What measured it, and how well it could.
fn of_instrument(instrument: &Instrument) -> String {
    let row = |name: &str, figures: Option<&Figures>| {
        let us = |ns: i64| format!("{:.3}", ns as f64 / 1_000.0);
        let cells = figures.map(|it| [it.min_ns, it.p50_ns, it.p90_ns, it.p99_ns, it.max_ns]);
        let cells = cells.map_or([const { String::new() }; 5], |cells| cells.map(us));
        [vec![name.to_owned()], cells.to_vec()].concat()
    };
    let unmarked = |metric: Metric| instrument.unmarked.get(metric.key());
    let rows = [
        row("network latency", unmarked(Metric::NetworkLatency)),
        row("residual", unmarked(Metric::Residual)),
    ];
    let mut out =
        table(&["frames that are not marked", ">min", ">p50", ">p90", ">p99", ">max"], &rows);
    let host = &instrument.host;
    out.push_str(&format!(
        "\n{} marked: the thread that sends was stopped {} times, for {} at most, those that relay {} times, for {} at most\n\
         {} frames of other flows relayed\n\
         {} taken off each latency: what the stamps at both ends of a pair of interfaces differ by without a switch\n\
         {}, {} processors, Linux {}, clock {}; busy {} %, stolen {} %\n",
        thousands(instrument.marked),
        thousands(instrument.send_stops),
        duration(instrument.send_longest_stop_ns as f64),
        thousands(instrument.relay_stops),
        duration(instrument.relay_longest_stop_ns as f64),
        thousands(instrument.others),
        duration(instrument.bias_ns as f64),
        host.cpu,
        host.cpus,
        host.kernel,
        host.clock,
        host.busy_percent,
        host.stolen_percent
    ));
    out
}

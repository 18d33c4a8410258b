//! Time-triggered Ethernet: what was measured, what was published, what follows from the schedule, and what is left.

use candor_lat::Metric;

use super::RANGES;
use crate::columns::{Column, Columns, Shown};
use crate::group::groups;
use crate::quantity::Quantity;
use crate::result::{ResultFile, TimeTriggeredFigures};

/// Microseconds, to the nanosecond.
const US: Shown = Shown::Number(3, "");

pub(super) fn columns(results: &[&ResultFile]) -> Columns {
    let figures = || results.iter().filter_map(|run| run.time_triggered.as_ref());
    let has_clocks = figures().any(|it| it.clock_difference.is_some());
    let has_runs = groups(results.iter().copied()).iter().any(|group| group.runs.len() > 1);
    let size = |run: &ResultFile| Some(f64::from(run.time_triggered.as_ref()?.size));
    let mut columns = vec![
        Column::range("bytes", Shown::Number(0, ""), size),
        Column::total("sent", |run| run.counts.sent),
        Column::total("lost", |run| run.counts.lost + run.counts.refused),
        Column::total("late", |run| run.counts.late),
    ];
    columns.extend(["min", "p50", "max"].map(|figure| us(figure, Metric::NetworkLatency, figure)));
    columns.push(scheduled("jitter", |it| it.jitter_ns));
    if figures().any(|it| it.published_ns.is_some()) {
        columns.push(scheduled("published", |it| it.published_ns));
    }
    columns.push(scheduled("model", |it| Some(it.model_ns)));
    if figures().any(|it| it.equation_3_ns != it.model_ns) {
        columns.push(scheduled("equation 3", |it| Some(it.equation_3_ns)));
    }
    columns.push(us("residual p50", Metric::Residual, "p50"));
    let mut legend = String::from(
        "in us, from the first bit out of the sender to the last bit in the receiver; jitter: max - min\n\
         late: a period late or more than half of one; model: wires + transmission + relay delays\n\
         residual: measured - model\n",
    );
    if has_clocks {
        let apart = |run: &ResultFile| Some(Quantity::ClockDifference("max").of(run)? / 1_000.0);
        columns.push(Column::range("clocks apart", US, apart));
        legend += "clocks apart: the largest difference of two clocks in any integration cycle\n";
    }
    if has_runs {
        legend += RANGES;
    }
    Columns { has_runs, columns, legend }
}

fn us(head: &str, metric: Metric, figure: &'static str) -> Column {
    let quantity = Quantity::Latency(metric, figure);
    Column::range(head, US, move |run| Some(quantity.of(run)? / 1_000.0))
}

fn scheduled(head: &str, of: fn(&TimeTriggeredFigures) -> Option<u64>) -> Column {
    Column::range(head, US, move |run| Some(of(run.time_triggered.as_ref()?)? as f64 / 1_000.0))
}

//! Time-triggered Ethernet: what was measured, what was published, what follows from the schedule, and what is left.

use candor_lat::Metric;

use super::super::RANGES;
use crate::columns::{Column, Columns, Shown};
use crate::group::groups;
use crate::result::ResultFile;
use crate::sections::{CLOCKS, FLOW};

pub(super) fn columns(results: &[&ResultFile]) -> Columns {
    let value = |run: &ResultFile, key| run.sections.number(&FLOW, key);
    let has_clocks =
        results.iter().any(|run| run.sections.cell(&CLOCKS, "clock_difference").is_some());
    let has_runs = groups(results.iter().copied()).iter().any(|group| group.runs.len() > 1);
    let mut columns = vec![
        Column::words("bytes", Shown::Number(0, ""), &["size"]),
        Column::total("sent", |run| run.counts.sent),
    ];
    if results.iter().any(|run| run.counts.refused > 0) {
        columns.push(Column::total("refused", |run| run.counts.refused));
    }
    columns.push(Column::total("lost", |run| run.counts.lost));
    columns.push(Column::total("late", |run| run.counts.late));
    let us = |head: &str, words: &[&str]| Column::micros(head, Shown::Number(3, ""), words);
    let metric = |head: &str, metric: Metric, figure| us(head, &[metric.key(), figure]);
    columns.extend(["min", "p50", "max"].map(|it| metric(it, Metric::NetworkLatency, it)));
    columns.push(us("jitter", &["jitter"]));
    if results.iter().any(|run| value(run, "published_ns").is_some()) {
        columns.push(us("published", &["published"]));
    }
    columns.push(us("model", &["model"]));
    if results.iter().any(|run| value(run, "equation_3_ns") != value(run, "model_ns")) {
        columns.push(us("equation 3", &["equation_3"]));
    }
    columns.push(metric("residual p50", Metric::Residual, "p50"));
    let mut legend = String::from(
        "in us, from the first bit out of the sender to the last bit in the receiver; jitter: max - min\n\
         late: by more than half a period; model: wires + transmission + relay delays\n\
         residual: measured - model\n",
    );
    if has_clocks {
        columns.push(us("clocks apart", &["clock_difference", "max"]));
        legend += "clocks apart: the largest difference of two clocks in any integration cycle\n";
    }
    if has_runs {
        legend += RANGES;
    }
    Columns { has_runs, columns, legend }
}

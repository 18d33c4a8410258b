//! Round trips.

use candor_lat::Metric;

use super::super::RANGES;
use crate::columns::{Column, Columns, Shown};
use crate::quantity::Quantity;
use crate::result::ResultFile;

const FIGURES: [(&str, &str); 5] =
    [("min", "min"), ("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"), ("max", "max")];

pub(super) fn columns(_: &[&ResultFile]) -> Columns {
    let mut columns = vec![
        Column::total("sent", |run| run.counts.sent),
        Column::total("lost", |run| run.counts.lost),
    ];
    columns.extend(FIGURES.map(|(head, figure)| {
        Column::quantity(head, Shown::Duration, Quantity::Latency(Metric::RoundTrip, figure))
    }));
    let says = "round trips, from when a request is sent to its answer at the same application\n";
    Columns { has_runs: true, columns, legend: format!("{says}{RANGES}") }
}

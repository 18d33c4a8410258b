//! The results of experiments with round trips in the terminal.

use candor_lab::group::{Group, groups};
use candor_lab::runner::Ran;

use super::ranges::duration_range;
use crate::output::{table, thousands};

/// A row for each experiment.
pub(super) fn overview(finished: &[&Ran]) -> String {
    let groups = groups(finished.iter().map(|ran| &ran.result));
    let head = ["experiment", ">runs", ">sent", ">lost", ">min", ">p50", ">p99", ">p99.9", ">max"];
    let rows: Vec<_> = groups.iter().map(row).collect();
    let mut out = table(&head, &rows);
    out.push_str(
        "\nround trips, from when a request is sent to its answer at the same application\n\
         a..b: the smallest and the largest value over the runs\n",
    );
    out
}

fn row(group: &Group<'_>) -> Vec<String> {
    let time = |figure: &str| {
        let range = group.range(|run| run.main_metric()?.figure_ns(figure));
        range.map_or_else(|| "-".to_owned(), |range| duration_range(range.least, range.most))
    };
    let mut row = vec![group.name.to_owned(), group.runs.len().to_string()];
    row.push(thousands(group.sum(|run| run.counts.sent)));
    row.push(thousands(group.sum(|run| run.counts.lost)));
    row.extend(["min", "p50", "p99", "p999", "max"].map(time));
    row
}

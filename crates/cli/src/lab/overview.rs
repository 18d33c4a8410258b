//! The results of a run in the terminal: a row per experiment, and of a single one the details.

use candor_causes::Ending;
use candor_diagnostics::noun;
use candor_lab::columns::{Column, Columns, Shown};
use candor_lab::experiment::Testbed;
use candor_lab::group::{Group, Range, groups};
use candor_lab::kinds;
use candor_lab::result::{ResultFile, Stopped};
use candor_lab::runner::Ran;

use super::ranges::{duration_range, number_range};
use crate::output::{Table, thousands};
use crate::result::{sections, sum};

/// The figures of all results, and of a few the details. The runs of one experiment with several seeds
/// share a row, and each kind of experiments has a table.
pub(super) fn overview(finished: &[Ran]) -> String {
    overview_as(finished, |table| table.text())
}

/// The same with a column for each experiment: it fits into a terminal of 80 columns, if there are few.
pub(crate) fn narrow_overview(finished: &[Ran]) -> String {
    overview_as(finished, |table| table.turned())
}

fn overview_as(finished: &[Ran], text: fn(Table<Group<'_>>) -> String) -> String {
    let results: Vec<_> = finished.iter().map(|ran| &ran.result).collect();
    let tables = kinds::tables(&results).into_iter().map(|(path, columns)| {
        let of_path: Vec<_> = finished.iter().filter(|ran| ran.result.path == path).collect();
        tabulated(&of_path, &columns, text)
    });
    let mut out = tables.collect::<Vec<_>>().join("\n");
    match finished {
        [ran] => out.push_str(&details(&ran.result)),
        _ => out.push_str(&notes(finished)),
    }
    out
}

/// The table of one kind, with what its heads mean.
fn tabulated(finished: &[&Ran], columns: &Columns, text: fn(Table<Group<'_>>) -> String) -> String {
    let groups = groups(finished.iter().map(|ran| &ran.result));
    let has_cached = finished.iter().any(|ran| ran.is_cached);
    let is_cached = |group: &Group<'_>| {
        let mut runs = finished.iter().filter(|ran| ran.result.group() == group.name);
        runs.all(|ran| ran.is_cached)
    };
    let cached = |group: &Group<'_>| if is_cached(group) { "cached" } else { "" }.to_owned();
    let mut table = Table::of(groups).column("experiment", |it| it.name.to_owned()).column_if(
        columns.has_runs,
        ">runs",
        |it| it.runs.len().to_string(),
    );
    for column in &columns.columns {
        table = table.column(format!(">{}", column.head), |it| cell(column, it));
    }
    let table = text(table.column_if(has_cached, "", cached));
    let has_maxima = columns.columns.iter().any(|column| column.head.ends_with("max"));
    let maxima = has_maxima.then(|| about_maxima(finished.iter().map(|ran| &ran.result))).flatten();
    format!("{table}\n{}{}", columns.legend, maxima.unwrap_or_default())
}

/// What the largest values of these results are worth: a line for below their table, if there is a result.
pub(super) fn about_maxima<'a>(
    results: impl Iterator<Item = &'a ResultFile> + Clone,
) -> Option<String> {
    let span = |least: u64, most: u64| match least == most {
        true => thousands(most),
        false => format!("{} to {}", thousands(least), thousands(most)),
    };
    let frames = results.clone().map(|run| run.counts.received);
    let (fewest, most) = (frames.clone().min()?, frames.max()?);
    let runs = groups(results);
    let runs = runs.iter().map(|group| group.runs.len() as u64);
    let (least_runs, most_runs) = (runs.clone().min()?, runs.max()?);
    Some(format!(
        "max: the largest of {} {} with {} {}, and no bound\n",
        span(fewest, most),
        noun(most as usize, "frame"),
        span(least_runs, most_runs),
        noun(most_runs as usize, "seed"),
    ))
}

fn cell(column: &Column, group: &Group<'_>) -> String {
    let Some(Range { least, most, .. }) = column.of(group) else {
        return if column.shown == Shown::DurationIfAny { String::new() } else { "-".into() };
    };
    match column.shown {
        Shown::Count => thousands(most as u64),
        Shown::Duration | Shown::DurationIfAny => duration_range(least, most),
        Shown::Number(digits, unit) => format!("{}{unit}", number_range(least, most, digits)),
    }
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

/// What became of the frames, bus by bus and cause by cause.
pub(crate) fn details(result: &ResultFile) -> String {
    let mut out = format!("\n{}\n{}", result.conditions, sum(result));
    out.push_str(&sections(result));
    if !result.stopped.is_empty() {
        out.push('\n');
        out.push_str(&stopped(&result.stopped));
    }
    for note in &result.notes {
        out.push_str(&format!("\nnote: {note}\n"));
    }
    out
}

/// What stopped frames, in the order of the columns above: not routed, refused, lost.
fn stopped(all: &[Stopped]) -> String {
    let of = |ending: Ending| all.iter().filter(move |stopped| stopped.ending == ending.key());
    let ordered = Ending::ALL.into_iter().flat_map(|ending| of(ending).map(move |it| (ending, it)));
    Table::of(ordered)
        .column("stopped", |(ending, _)| ending.label().to_owned())
        .column("cause", |(_, it)| it.cause.clone())
        .column("where", |(_, it)| it.place.clone())
        .column("rule", |(_, it)| it.rule.clone())
        .column(">frames", |(_, it)| thousands(it.frames))
        .text()
}

//! `candor.results`, `candor.profiles`: results of the laboratory as columns.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use candor_lat::Figures;
use candor_lat::figures::FIGURES;
use candor_lat::result::{ResultFile, SCHEMA};
use pyo3::prelude::*;

use crate::errors::{Error, os_error};
use crate::table::Table;

/// A latency metric of a result.
struct Row<'a> {
    result: &'a ResultFile,
    metric: &'a str,
    figures: &'a Figures,
}

/// The results in a folder that `candor lab run --out` wrote: a row for each experiment and latency metric.
///
/// The columns are `experiment`, `metric`, `testbed`, `seed`, the axes of the matrix by their names (`count` as `axis.count`), `count`, which
/// is the number of values, and `min_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `max_ns`, `mean_ns`, `stddev_ns`.
#[pyfunction]
pub(crate) fn results(folder: PathBuf) -> PyResult<Table> {
    let results = read(&folder)?;
    let rows = rows(&results);
    let mut columns = names(&rows);
    let text = |of: &dyn Fn(&Row<'_>) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
    };
    columns.push(("testbed".to_owned(), text(&|row| row.result.testbed.clone())));
    let seeds = UInt64Array::from_iter_values(rows.iter().map(|row| row.result.seed));
    columns.push(("seed".to_owned(), Arc::new(seeds)));
    let axes: BTreeSet<_> = results.iter().flat_map(|result| result.axes.keys()).collect();
    // These have a column already, with the same values.
    for axis in axes.into_iter().filter(|axis| !["testbed", "seed"].contains(&axis.as_str())) {
        let values = rows.iter().map(|row| row.result.axes.get(axis));
        // `count` is how many values a metric has; the axis is how many frames were to be sent.
        let name = if axis == "count" { "axis.count" } else { axis };
        columns.push((name.to_owned(), Arc::new(StringArray::from_iter(values))));
    }
    let counts = UInt64Array::from_iter_values(rows.iter().map(|row| row.figures.count));
    columns.push(("count".to_owned(), Arc::new(counts)));
    for figure in FIGURES {
        let values = rows.iter().map(|row| row.figures.figure_ns(figure));
        columns.push((format!("{figure}_ns"), Arc::new(Float64Array::from_iter(values))));
    }
    table("results", columns)
}

/// The latency profiles of the results in a folder: `experiment`, `metric`, `latency_ns`, and `frames`, how many took at least so long.
#[pyfunction]
pub(crate) fn profiles(folder: PathBuf) -> PyResult<Table> {
    let results = read(&folder)?;
    let points = rows(&results).into_iter().flat_map(|Row { result, metric, figures }| {
        let points = figures.profile.iter();
        points.map(move |&point| (Row { result, metric, figures }, point))
    });
    let (rows, points): (Vec<_>, Vec<_>) = points.unzip();
    let mut columns = names(&rows);
    let latencies = Int64Array::from_iter_values(points.iter().map(|point| point.0));
    columns.push(("latency_ns".to_owned(), Arc::new(latencies)));
    let frames = UInt64Array::from_iter_values(points.iter().map(|point| point.1));
    columns.push(("frames".to_owned(), Arc::new(frames)));
    table("profiles", columns)
}

fn rows(results: &[ResultFile]) -> Vec<Row<'_>> {
    let rows = results.iter().flat_map(|result| {
        let metrics = result.metrics.iter();
        metrics.map(move |(metric, figures)| Row { result, metric, figures })
    });
    rows.collect()
}

/// The columns that say what a row is of.
fn names(rows: &[Row<'_>]) -> Vec<(String, ArrayRef)> {
    let experiments = rows.iter().map(|row| row.result.experiment.as_str());
    let metrics = rows.iter().map(|row| row.metric);
    vec![
        ("experiment".to_owned(), Arc::new(StringArray::from_iter_values(experiments))),
        ("metric".to_owned(), Arc::new(StringArray::from_iter_values(metrics))),
    ]
}

fn table(name: &str, columns: Vec<(String, ArrayRef)>) -> PyResult<Table> {
    let batch = RecordBatch::try_from_iter(columns);
    let batch = batch.map_err(|error| Error::new_err(error.to_string()))?;
    Ok(candor_columns::Table { name: name.to_owned(), batch }.into())
}

/// All results in a folder, in the order of their file names.
fn read(folder: &Path) -> PyResult<Vec<ResultFile>> {
    let inner = folder.join("results");
    let folder = if inner.is_dir() { &inner } else { folder };
    let entries = fs::read_dir(folder).map_err(|error| os_error(folder, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| os_error(folder, &error))?.path();
        if path.extension().is_some_and(|it| it == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        let text = format!(
            "{}: the folder contains no results; run `candor lab run FILE --out DIR` first",
            folder.display()
        );
        return Err(Error::new_err(text));
    }
    let results = paths.into_iter().map(|path| {
        let text = fs::read(&path).map_err(|error| os_error(&path, &error))?;
        let result: ResultFile = serde_json::from_slice(&text).map_err(|error| {
            let place = path.display();
            Error::new_err(format!("{place}: this is not a complete result: {error}; run the experiment again"))
        })?;
        if result.schema != SCHEMA {
            let (place, schema) = (path.display(), &result.schema);
            let text = format!(
                "{place}: the schema is {schema:?}, but this version reads {SCHEMA:?}; run the experiment again"
            );
            return Err(Error::new_err(text));
        }
        Ok(result)
    });
    results.collect()
}

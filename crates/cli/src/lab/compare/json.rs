//! A comparison as JSON Lines.

use candor_lab::compare::{Allowance, Comparison, Figure};
use candor_lat::Metric;

use crate::json;
use crate::json::lab::figure::ComparedFigure;

pub(super) fn lines(comparison: &Comparison, allow: Allowance) -> Result<String, String> {
    let unpaired =
        |side, names| json::lines(<[String]>::iter(names).map(|experiment| (side, experiment)));
    let parts = [
        json::lines(&comparison.changed)?,
        json::lines(comparison.figures.iter().map(|it| figure(it, allow)))?,
        json::lines(&comparison.ranges)?,
        json::lines(&comparison.functions)?,
        unpaired("before", &comparison.only_before)?,
        unpaired("after", &comparison.only_after)?,
        json::lines(comparison.notes.iter().map(|text| (text,)))?,
        json::line(&(comparison, allow))?,
    ];
    Ok(parts.concat())
}

fn figure(figure: &Figure, allow: Allowance) -> ComparedFigure<'_> {
    ComparedFigure {
        after: figure.after,
        before: figure.before,
        difference: figure.difference(),
        difference_instructions: figure.difference_instructions(),
        difference_percent: figure.difference_percent(),
        experiment: &figure.experiment,
        figure: figure.figure,
        is_allowed: figure.is_allowed(allow),
        metric: figure.metric.map(Metric::key),
        resolution: figure.resolution(),
        seed: figure.seed,
        unit: figure.unit.into(),
        verdict: figure.verdict().into(),
    }
}

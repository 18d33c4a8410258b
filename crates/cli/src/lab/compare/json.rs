//! A comparison as JSON Lines.

use candor_lab::compare::{Allowance, Comparison};

use crate::json;

pub(super) fn lines(comparison: &Comparison, allow: Allowance) -> Result<String, String> {
    let unpaired =
        |side, names| json::lines(<[String]>::iter(names).map(|experiment| (side, experiment)));
    let parts = [
        json::lines(&comparison.changed)?,
        json::lines(comparison.figures.iter().map(|it| (it, allow)))?,
        json::lines(&comparison.ranges)?,
        json::lines(&comparison.counts)?,
        json::lines(&comparison.functions)?,
        unpaired("before", &comparison.only_before)?,
        unpaired("after", &comparison.only_after)?,
        json::lines(comparison.gone.iter().chain(&comparison.notes).map(|text| (text,)))?,
        json::line(&(comparison, allow))?,
    ];
    Ok(parts.concat())
}

//! A comparison as JSON Lines.

use candor_lab::compare::{
    Allowance, Changed, Comparison, Figure, FunctionChange, Ranges, Verdict,
};
use candor_lab::group::Range;
use candor_lat::Metric;

use super::agrees;
use crate::json::lab::compare_verdict::CompareVerdict;
use crate::json::lab::compared_function::ComparedFunction;
use crate::json::lab::figure::ComparedFigure;
use crate::json::lab::note::Note;
use crate::json::lab::range::{ComparedRange, Seeds};
use crate::json::lab::unpaired::{Side, Unpaired};
use crate::json::{self, line};

pub(super) fn lines(comparison: &Comparison, allow: Allowance) -> Result<String, String> {
    let unpaired = |side: Side, names| {
        let object = move |experiment: &'_ String| line(&Unpaired { experiment, side });
        <[String]>::iter(names).map(object).collect::<Result<String, String>>()
    };
    let parts = [
        json::lines(comparison.changed.iter().map(changed))?,
        json::lines(comparison.figures.iter().map(|it| figure(it, allow)))?,
        json::lines(comparison.ranges.iter().map(range))?,
        json::lines(comparison.functions.iter().map(function))?,
        unpaired(Side::Before, &comparison.only_before)?,
        unpaired(Side::After, &comparison.only_after)?,
        json::lines(comparison.notes.iter().map(|text| Note { text }))?,
        line(&verdict(comparison, allow))?,
    ];
    Ok(parts.concat())
}

fn changed(changed: &Changed) -> json::lab::changed::Changed<'_> {
    let Changed { setting, before, after } = changed;
    json::lab::changed::Changed { after, before, setting }
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

fn range(ranges: &Ranges) -> ComparedRange<'_> {
    ComparedRange {
        after: seeds(&ranges.after),
        before: seeds(&ranges.before),
        experiment: &ranges.experiment,
        figure: ranges.figure,
        metric: ranges.metric.map(Metric::key),
        unit: ranges.unit.into(),
        verdict: ranges.trend.into(),
    }
}

fn seeds(range: &Range) -> Seeds {
    Seeds { least: range.least, most: range.most, seeds: range.count }
}

fn function(change: &FunctionChange) -> ComparedFunction<'_> {
    ComparedFunction {
        after: change.after,
        before: change.before,
        difference: change.difference(),
        experiment: &change.experiment,
        function: &change.function,
        place: &change.place,
    }
}

fn verdict(comparison: &Comparison, allow: Allowance) -> CompareVerdict {
    CompareVerdict {
        agrees: agrees(comparison, allow),
        allow: allow.to_string(),
        faster: comparison.count(Verdict::Faster),
        not_allowed: comparison.not_allowed(allow).count(),
        pairs: comparison.pairs,
        same: comparison.count(Verdict::Same),
        slower: comparison.count(Verdict::Slower),
    }
}

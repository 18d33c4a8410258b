//! `[[figure]]`: charts that the report links to.

use std::collections::BTreeSet;

use candor_config::{Section, Value};
use candor_diagnostics::{Findings, Origin};
use candor_lat::Metric;
use serde::{Deserialize, Serialize};

use super::Alternative;
use super::matrix::Draft;
use crate::claims::{EACH, Replacement};
use crate::glob;

/// Latency profiles over one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// Patterns of the names of its experiments, without the seed.
    pub only: Vec<String>,
    /// The key of the metric.
    pub metric: String,
}

impl Figure {
    /// Whether it shows the experiment of this name.
    #[must_use]
    pub fn shows(&self, group: &str) -> bool {
        self.only.iter().any(|glob| glob::matches(glob, group))
    }
}

/// Reads `[[figure]]` tables: the figures, and where they stand.
pub(super) fn read(
    value: Option<&Value>,
    replacement: &Replacement,
    findings: &Findings,
) -> Vec<(Figure, Origin)> {
    let mut figures = Vec::new();
    for table in value.into_iter().flat_map(|value| value.tables("figure", findings)) {
        let mut section = Section::new(table, findings);
        section.require(&["title", "only"]);
        section.refuse_empty("only", "write patterns of names, such as only = [\"simple-*\"]");
        let metrics = Metric::ALL.map(|metric| (metric.key(), metric));
        let metric = section.one_of("metric", &metrics).unwrap_or(Metric::GatewayLatency);
        section.refuse_empty("each", "remove `each` to make one figure");
        let each: Vec<_> = section.strings("each").into_iter().map(|(each, _)| each).collect();
        let title = section.string("title").unwrap_or_default();
        let only = section.strings("only");
        section.finish();
        if title.is_empty() || only.is_empty() {
            continue;
        }
        let figure = |filled: &dyn Fn(&str) -> String| {
            let only = only.iter().map(|(glob, _)| filled(glob)).collect();
            let metric = metric.key().to_owned();
            (Figure { title: filled(title), only, metric }, table.origin().clone())
        };
        match each.is_empty() {
            true => figures.push(figure(&str::to_owned)),
            false => figures.extend(
                replacement.of(&each).iter().map(|one| figure(&|text| text.replace(EACH, one))),
            ),
        }
    }
    figures
}

/// Reports figures that show nothing. One of a kernel may, if the command line has replaced it. A pattern that begins with the
/// name of an alternative is about its experiments.
pub(super) fn require_matches(
    figures: &[(Figure, Origin)],
    drafts: &[Draft],
    alternatives: &[Alternative],
    kernels: &[Value],
    findings: &Findings,
) {
    let prefixes = || alternatives.iter().map(Alternative::prefix).chain([String::new()]);
    let is_shown = |figure: &Figure, draft: &Draft| {
        prefixes().any(|prefix| figure.shows(&format!("{prefix}{}", draft.group)))
    };
    for (figure, origin) in figures {
        if kernels.is_empty() && !drafts.iter().any(|draft| is_shown(figure, draft)) {
            let message = format!("the figure `{}` matches no experiment", figure.title);
            let hint = "`candor lab list` shows their names; leave out the seed";
            findings.error_with_hint(origin, message, hint);
        }
    }
}

/// Puts the names of experiments in place of patterns, so that a folder with others shows none of those.
pub(super) fn resolve(figures: Vec<(Figure, Origin)>, drafts: &[Draft]) -> Vec<Figure> {
    let is_of = |glob: &str, draft: &Draft| {
        let group = draft.group.strip_prefix(&draft.prefix).unwrap_or(&draft.group);
        glob.strip_prefix(&draft.prefix).is_some_and(|glob| glob::matches(glob, group))
    };
    let resolved = |(figure, _): (Figure, Origin)| {
        let is_shown = |draft: &&Draft| figure.only.iter().any(|glob| is_of(glob, draft));
        let only: BTreeSet<_> = drafts.iter().filter(is_shown).map(|it| it.group.clone()).collect();
        Figure { only: only.into_iter().collect(), ..figure }
    };
    figures.into_iter().map(resolved).filter(|figure| !figure.only.is_empty()).collect()
}

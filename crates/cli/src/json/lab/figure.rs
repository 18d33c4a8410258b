//! The object `figure` of `candor lab compare`.

use candor_lab::compare;
use schemars::JsonSchema;
use serde::Serialize;

use super::words;
use crate::json::Object;

/// An exact figure before and after the change.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ComparedFigure<'a> {
    /// The experiment, as it is called after the change
    pub(crate) experiment: &'a str,
    /// The metric of a latency; null for other figures
    #[schemars(extend("enum" = words::metrics()))]
    pub(crate) metric: Option<&'static str>,
    /// Which figure
    #[schemars(extend("enum" = compare::exact_figures()))]
    pub(crate) figure: &'static str,
    /// What it counts
    pub(crate) unit: words::Unit,
    /// The seed; of several, the one with the largest increase
    pub(crate) seed: u64,
    /// The figure before the change
    pub(crate) before: f64,
    /// The figure after the change
    pub(crate) after: f64,
    /// After without before
    pub(crate) difference: f64,
    /// The difference in percent of before; null if before is 0
    pub(crate) difference_percent: Option<f64>,
    /// The difference in instructions; null if they are not counted, as in sim
    pub(crate) difference_instructions: Option<f64>,
    /// Differences up to this are taken for none
    pub(crate) resolution: f64,
    /// What became of it
    pub(crate) verdict: Verdict,
    /// Whether it is not worse than --allow permits
    pub(crate) is_allowed: bool,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Same,
    Faster,
    Slower,
}

impl From<compare::Verdict> for Verdict {
    fn from(verdict: compare::Verdict) -> Self {
        match verdict {
            compare::Verdict::Same => Self::Same,
            compare::Verdict::Faster => Self::Faster,
            compare::Verdict::Slower => Self::Slower,
        }
    }
}

impl Object for ComparedFigure<'_> {
    const TYPE: &'static str = "figure";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}

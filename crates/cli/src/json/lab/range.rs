//! The object `range` of `candor lab compare`.

use candor_lab::compare;
use schemars::JsonSchema;
use serde::Serialize;

use super::words;
use crate::json::Object;

/// A figure over several seeds before and after the change.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ComparedRange<'a> {
    /// The experiment, as it is called after the change
    pub(crate) experiment: &'a str,
    /// The metric of a latency; null for other figures
    #[schemars(extend("enum" = words::metrics()))]
    pub(crate) metric: Option<&'static str>,
    /// Which figure
    #[schemars(extend("enum" = compare::seed_figures()))]
    pub(crate) figure: &'static str,
    /// What it counts
    pub(crate) unit: words::Unit,
    /// The figure before the change
    pub(crate) before: Seeds,
    /// The figure after the change
    pub(crate) after: Seeds,
    /// Where the values after the change are
    pub(crate) verdict: Trend,
}

/// A figure over several seeds.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Seeds {
    /// The number of seeds
    pub(crate) seeds: usize,
    /// The smallest value
    pub(crate) least: f64,
    /// The largest value
    pub(crate) most: f64,
}

/// Where values are against those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trend {
    /// some are among those before: no difference shows
    Overlap,
    /// all are higher than all before
    Higher,
    /// all are lower than all before
    Lower,
    /// nothing can be said
    TooFewSeeds,
}

impl From<compare::Trend> for Trend {
    fn from(trend: compare::Trend) -> Self {
        match trend {
            compare::Trend::Overlap => Self::Overlap,
            compare::Trend::Higher => Self::Higher,
            compare::Trend::Lower => Self::Lower,
            compare::Trend::TooFewSeeds => Self::TooFewSeeds,
        }
    }
}

impl Object for ComparedRange<'_> {
    const TYPE: &'static str = "range";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}

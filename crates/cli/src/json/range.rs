//! The object `range` of `candor lab compare`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A figure over several seeds before and after the change.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ComparedRange<'a> {
    /// The experiment, as it is called after the change
    pub(crate) experiment: &'a str,
    /// The metric of a latency; null for other figures
    pub(crate) metric: Option<&'static str>,
    /// p50, p99, max or lost_percent
    pub(crate) figure: &'static str,
    /// ns or percent
    pub(crate) unit: &'static str,
    /// The figure before the change
    pub(crate) before: Seeds,
    /// The figure after the change
    pub(crate) after: Seeds,
    /// overlap, higher, lower or too_few_seeds
    pub(crate) verdict: String,
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

impl Object for ComparedRange<'_> {
    const TYPE: &'static str = "range";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}

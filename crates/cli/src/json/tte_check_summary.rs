//! The object `summary` of `candor tte check`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// How many findings there are; it comes last.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TteCheckSummary<'a> {
    /// The network file
    pub(crate) file: &'a str,
    /// The cycle in ns; null if the file describes no network
    pub(crate) cycle_ns: Option<u64>,
    /// The number of time-triggered flows; null if the file describes no network
    pub(crate) flows: Option<usize>,
    /// The number of errors
    pub(crate) errors: usize,
    /// The number of warnings
    pub(crate) warnings: usize,
}

impl Object for TteCheckSummary<'_> {
    const TYPE: &'static str = "summary";
    const COMMANDS: &'static [&'static str] = &["tte check"];
}

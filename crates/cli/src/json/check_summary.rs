//! The object `summary` of `candor route check`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// How many findings there are; it comes last.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CheckSummary<'a> {
    /// The rule file
    pub(crate) file: &'a str,
    /// The number of rules; null if there are errors
    pub(crate) rules: Option<usize>,
    /// The number of errors
    pub(crate) errors: usize,
    /// The number of warnings
    pub(crate) warnings: usize,
}

impl Object for CheckSummary<'_> {
    const TYPE: &'static str = "summary";
    const COMMANDS: &'static [&'static str] = &["route check"];
}

//! The object `finding` of `candor route check`, `candor route load` and `candor tte check`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use super::words::Severity;

/// An error or warning in a file of rules or of a network.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Finding<'a> {
    /// How bad it is
    pub(crate) severity: Severity,
    /// The file
    pub(crate) file: &'a str,
    /// The line, from 1; 0 if it has no place
    pub(crate) line: u32,
    /// The column, from 1; 0 if it has no place
    pub(crate) column: u32,
    /// What is wrong
    pub(crate) message: &'a str,
    /// What to do about it; null if nothing is known
    pub(crate) hint: Option<&'a str>,
}

impl Object for Finding<'_> {
    const TYPE: &'static str = "finding";
    const COMMANDS: &'static [&'static str] = &["route check", "route load", "tte check"];
}

impl<'a> From<&'a candor_diagnostics::Finding> for Finding<'a> {
    fn from(finding: &'a candor_diagnostics::Finding) -> Self {
        let (line, column) = finding.origin.line_column();
        Self {
            severity: finding.severity.into(),
            file: finding.origin.source().name(),
            line,
            column,
            message: &finding.message,
            hint: finding.hint.as_deref(),
        }
    }
}

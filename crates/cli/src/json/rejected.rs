//! The object `rejected` of `candor route load`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// Rules that were refused; it comes after the findings.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Rejected<'a> {
    /// Why, in one sentence
    pub(crate) message: &'a str,
}

impl Object for Rejected<'_> {
    const TYPE: &'static str = "rejected";
    const COMMANDS: &'static [&'static str] = &["route load"];
}

//! The object `plan` of `candor route check --plan`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use super::words::planes;

/// Who runs a rule with --plane auto; only with --plan.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Plan<'a> {
    /// The name of the rule
    pub(crate) rule: &'a str,
    /// Who runs it
    #[schemars(extend("enum" = planes()))]
    pub(crate) plane: &'static str,
    /// Why
    pub(crate) reason: String,
}

impl Object for Plan<'_> {
    const TYPE: &'static str = "plan";
    const COMMANDS: &'static [&'static str] = &["route check"];
}

//! The object `unpaired` of `candor lab compare`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// An experiment that only one side has.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Unpaired<'a> {
    /// before or after
    pub(crate) side: &'static str,
    /// The experiment
    pub(crate) experiment: &'a str,
}

impl Object for Unpaired<'_> {
    const TYPE: &'static str = "unpaired";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}

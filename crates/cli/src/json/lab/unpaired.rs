//! The object `unpaired` of `candor lab compare`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// An experiment that only one side has.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Unpaired<'a> {
    /// The side that has it
    pub(crate) side: Side,
    /// The experiment
    pub(crate) experiment: &'a str,
}

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    Before,
    After,
}

impl Object for Unpaired<'_> {
    const TYPE: &'static str = "unpaired";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}

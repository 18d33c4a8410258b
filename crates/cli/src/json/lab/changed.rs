//! The object `changed` of `candor lab compare`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// A setting that not all experiments of the two sides have in common.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Changed<'a> {
    /// The setting
    pub(crate) setting: &'a str,
    /// Its value before the change; empty if it has none
    pub(crate) before: &'a str,
    /// Its value after the change; empty if it has none
    pub(crate) after: &'a str,
}

impl Object for Changed<'_> {
    const TYPE: &'static str = "changed";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}

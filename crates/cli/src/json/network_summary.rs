//! The object `network` of `candor network show`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// The network as a whole.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NetworkSummary<'a> {
    /// Its title; empty if the file has none
    pub(crate) title: &'a str,
    /// How many buses it has
    pub(crate) buses: usize,
    /// How many nodes send messages in it
    pub(crate) nodes: usize,
    /// How many gateways it has
    pub(crate) gateways: usize,
}

impl Object for NetworkSummary<'_> {
    const TYPE: &'static str = "network";
    const COMMANDS: &'static [&'static str] = &["network show"];
}

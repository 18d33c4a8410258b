//! The object `node` of `candor network show`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use super::words::QueueOrder;

/// A node of a bus.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NetworkNode<'a> {
    /// The name
    pub(crate) node: &'a str,
    /// Its bus
    pub(crate) bus: &'a str,
    /// The order of its transmit queue
    pub(crate) queue: QueueOrder,
    /// How many frames its transmit queue holds
    pub(crate) queue_depth: usize,
    /// How many messages it sends
    pub(crate) messages: usize,
}

impl Object for NetworkNode<'_> {
    const TYPE: &'static str = "node";
    const COMMANDS: &'static [&'static str] = &["network show"];
}

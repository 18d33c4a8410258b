//! The object `message` of `candor lab messages`.

use schemars::JsonSchema;
use serde::Serialize;

use super::result::Figures;
use crate::json::Object;

/// A message of periodic traffic.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MessageResult<'a> {
    /// The name of the experiment, with its seed if it has several
    pub(crate) experiment: &'a str,
    /// The name of the message
    pub(crate) message: &'a str,
    /// Its identifier, such as 0x123, or 0x18FEF100x for an extended one
    pub(crate) id: &'a str,
    /// The node that sends it
    pub(crate) node: &'a str,
    /// The bus of the node
    pub(crate) bus: &'a str,
    /// Frames sent
    pub(crate) sent: u64,
    /// Frames of which a copy arrived
    pub(crate) received: u64,
    /// The latency from when a frame was queued at its node to its end on the bus of the node; null if
    /// none got there
    pub(crate) response_time: Option<Figures>,
    /// The latency from when a frame was queued at its node to its end at the receiver, behind the
    /// gateway; null if none arrived
    pub(crate) end_to_end: Option<Figures>,
}

impl Object for MessageResult<'_> {
    const TYPE: &'static str = "message";
    const COMMANDS: &'static [&'static str] = &["lab messages"];
}

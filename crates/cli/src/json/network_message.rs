//! The object `message` of `candor network show`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A message on a bus: where it is sent, or where gateways forward it to.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NetworkMessage<'a> {
    /// The name of the message
    pub(crate) message: &'a str,
    /// The node that sends it
    pub(crate) node: &'a str,
    /// The bus that it is sent on
    pub(crate) from: &'a str,
    /// The bus that this object is about
    pub(crate) bus: &'a str,
    /// The identifier on this bus in hex; an extended one ends in x
    pub(crate) id: String,
    /// Bytes of data on this bus
    pub(crate) length: usize,
    /// Whether it is a CAN FD frame on this bus
    pub(crate) fd: bool,
    /// The time from one frame to the next in ns
    pub(crate) period_ns: u64,
    /// When the first frame is sent in ns; null if the file does not say it
    pub(crate) offset_ns: Option<u64>,
    /// How late a frame may be sent in ns
    pub(crate) jitter_ns: u64,
    /// The longest time on this bus in ns, intermission included; null if the bus cannot carry it, so that
    /// it is lost
    pub(crate) longest_ns: Option<u64>,
    /// The gateways that it has passed, in order; empty on the bus that it is sent on
    pub(crate) gateways: Vec<&'a str>,
}

impl Object for NetworkMessage<'_> {
    const TYPE: &'static str = "message";
    const COMMANDS: &'static [&'static str] = &["network show"];
}

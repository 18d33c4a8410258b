//! The object `tte_instant` of `candor tte check`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// When the frames of a time-triggered flow leave a node.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TteInstant<'a> {
    /// The flow
    pub(crate) flow: &'a str,
    /// The distance of two frames in ns
    pub(crate) period_ns: u64,
    /// The link
    pub(crate) link: &'a str,
    /// The node that sends
    pub(crate) from: &'a str,
    /// The node that receives
    pub(crate) to: &'a str,
    /// The instant of the first bit in ns, from the begin of the period in which the frame was sent; null behind
    /// an ordinary switch, where no instant holds
    pub(crate) at_ns: Option<u64>,
}

impl Object for TteInstant<'_> {
    const TYPE: &'static str = "tte_instant";
    const COMMANDS: &'static [&'static str] = &["tte check"];
}

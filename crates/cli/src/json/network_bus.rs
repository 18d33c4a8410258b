//! The object `bus` of `candor network show`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A bus of the network.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NetworkBus<'a> {
    /// The name
    pub(crate) bus: &'a str,
    /// The bit rate in bit/s
    pub(crate) bitrate: u32,
    /// The bit rate of the data of CAN FD frames in bit/s; that of the others if there is none
    pub(crate) data_bitrate: u32,
    /// Whether it carries CAN FD frames
    pub(crate) fd: bool,
    /// How many frames it carries in a second
    pub(crate) frames_per_second: f64,
    /// How busy it is in percent, if every frame has as many stuff bits as it may have
    pub(crate) longest_percent: f64,
}

impl Object for NetworkBus<'_> {
    const TYPE: &'static str = "bus";
    const COMMANDS: &'static [&'static str] = &["network show"];
}

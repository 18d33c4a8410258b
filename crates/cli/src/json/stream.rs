//! The object `stream` of `candor log info`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A stream of a recorded Ethernet link: the frames with one destination, one VLAN and one type.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LogStream<'a> {
    /// The interface that it was recorded on
    pub(crate) interface: &'a str,
    /// The destination address, such as 03:04:05:06:00:01
    pub(crate) destination: String,
    /// The VLAN of the tag, 0 to 4095; null if there is no tag
    pub(crate) vlan: Option<u16>,
    /// The type in hex, such as 0x88d7; null if the header has the length instead
    pub(crate) ether_type: Option<String>,
    /// Frames
    pub(crate) frames: u64,
    /// The shortest frame in bytes, without its check sequence
    pub(crate) len_min: usize,
    /// The longest frame in bytes, without its check sequence
    pub(crate) len_max: usize,
    /// The mean time from one frame to the next, in ns; null if there are no two
    pub(crate) period_ns_mean: Option<f64>,
    /// The shortest such time, in ns
    pub(crate) period_ns_min: Option<u64>,
    /// The longest such time, in ns
    pub(crate) period_ns_max: Option<u64>,
    /// The standard deviation of these times, in ns
    pub(crate) period_ns_stddev: Option<f64>,
}

impl Object for LogStream<'_> {
    const TYPE: &'static str = "stream";
    const COMMANDS: &'static [&'static str] = &["log info"];
}

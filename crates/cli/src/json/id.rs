//! The object `id` of `candor log info`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// The frames of an identifier on one interface.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LogId<'a> {
    /// The interface
    pub(crate) interface: &'a str,
    /// The identifier in hex: 3 digits standard, 8 extended
    pub(crate) id: String,
    /// Frames with this identifier
    pub(crate) frames: u64,
    /// The remote frames of them
    pub(crate) remote_frames: u64,
    /// The CAN FD frames of them
    pub(crate) fd_frames: u64,
    /// The shortest data length in bytes
    pub(crate) len_min: usize,
    /// The longest data length in bytes
    pub(crate) len_max: usize,
    /// The mean time from one frame to the next, in ns; null if it is not known
    pub(crate) period_ns_mean: Option<f64>,
    /// The shortest time from one frame to the next, in ns; null if it is not known
    pub(crate) period_ns_min: Option<u64>,
    /// The longest time from one frame to the next, in ns; null if it is not known
    pub(crate) period_ns_max: Option<u64>,
    /// The standard deviation of these times, in ns; null if it is not known
    pub(crate) period_ns_stddev: Option<f64>,
    /// The part of the busy time of the bus, in percent; null if it is not known
    pub(crate) share_percent: Option<f64>,
}

impl Object for LogId<'_> {
    const TYPE: &'static str = "id";
    const COMMANDS: &'static [&'static str] = &["log info"];
}

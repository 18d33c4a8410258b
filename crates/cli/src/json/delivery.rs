//! The object `delivery` of `candor bus send`, `generate` and `replay`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// How the frames of a port fared; times are those of all ports together.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Delivery<'a> {
    /// The port
    pub(crate) port: &'a str,
    /// Frames that the port took and did not lose, as far as it knows
    pub(crate) sent: u64,
    /// Frames refused because the port carries no such frames
    pub(crate) unsupported: u64,
    /// Frames refused because there was no room in time
    pub(crate) full: u64,
    /// Frames refused because the port was away
    pub(crate) down: u64,
    /// Frames refused because the port could not go on: a recording on a full disk
    pub(crate) failed: u64,
    /// Frames lost after the port took them
    pub(crate) lost: u64,
    /// Frames that waited for room
    pub(crate) waited: u64,
    /// How long frames waited in all, in ns
    pub(crate) waiting_ns: u64,
    /// Half of the frames left at most so late, in ns; null if frames have no times
    pub(crate) late_ns_p50: Option<u64>,
    /// 99 of 100 frames left at most so late, in ns; null if frames have no times
    pub(crate) late_ns_p99: Option<u64>,
    /// How late the latest frame left, in ns; null if frames have no times
    pub(crate) late_ns_max: Option<u64>,
    /// The planned time from the first frame to the last, in ns; null if frames have no times
    pub(crate) planned_ns: Option<u64>,
    /// The time from the first frame to the last, in ns; null if there is none
    pub(crate) took_ns: Option<u64>,
    /// By how much that is longer than planned, in ns; null if frames have no times
    pub(crate) drift_ns: Option<i64>,
}

impl Object for Delivery<'_> {
    const TYPE: &'static str = "delivery";
    const COMMANDS: &'static [&'static str] = &["bus generate", "bus replay", "bus send"];
}

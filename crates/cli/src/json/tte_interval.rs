//! The object `interval` of `candor tte analyze`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// What was seen in an interval, of all flows together.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TteInterval {
    /// When the interval ended, in ns since the begin
    pub(crate) time_ns: u64,
    /// Frames that arrived, duplicates left out
    pub(crate) received: u64,
    /// Frames that were lost, less those that came behind a later one
    pub(crate) lost: i64,
    /// Frames that arrived once more
    pub(crate) duplicated: u64,
    /// Frames that arrived behind a later one
    pub(crate) reordered: u64,
    /// The shortest latency, in ns; null if there is none
    pub(crate) latency_ns_min: Option<i64>,
    /// Half of them are at most this, in ns
    pub(crate) latency_ns_p50: Option<i64>,
    /// 99 of 100 are at most this, in ns
    pub(crate) latency_ns_p99: Option<i64>,
    /// The longest of them, in ns
    pub(crate) latency_ns_max: Option<i64>,
}

impl Object for TteInterval {
    const TYPE: &'static str = "interval";
    const COMMANDS: &'static [&'static str] = &["tte analyze"];
}

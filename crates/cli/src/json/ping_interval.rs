//! The object `interval` of `candor ping`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// Round trips of an interval.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PingInterval {
    /// When the interval ended, in ns since the first request could be sent
    pub(crate) time_ns: u64,
    /// Requests sent in the interval
    pub(crate) sent: u64,
    /// Answers that came in the interval, within the timeout
    pub(crate) answered: u64,
    /// Answers that came in the interval, later than that
    pub(crate) late: u64,
    /// Requests whose timeout ended in the interval without an answer, less those answered late
    pub(crate) lost: i64,
    /// The shortest round trip that ended in the interval, in ns; null if there is none
    pub(crate) round_trip_ns_min: Option<i64>,
    /// Half of them are at most this, in ns
    pub(crate) round_trip_ns_p50: Option<i64>,
    /// 99 of 100 are at most this, in ns
    pub(crate) round_trip_ns_p99: Option<i64>,
    /// The longest of them, in ns
    pub(crate) round_trip_ns_max: Option<i64>,
}

impl Object for PingInterval {
    const TYPE: &'static str = "interval";
    const COMMANDS: &'static [&'static str] = &["ping"];
}

//! The object `tte_measured` of `candor tte analyze`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// What was measured of a flow.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TteMeasured<'a> {
    /// The flow
    pub(crate) flow: &'a str,
    /// The port behind the network
    pub(crate) interface: &'a str,
    /// The port before it; null if latencies count from the instants of the schedule
    pub(crate) from: Option<&'a str>,
    /// Frames that arrived, duplicates left out
    pub(crate) received: u64,
    /// Frames that did not
    pub(crate) lost: u64,
    /// Frames that arrived once more
    pub(crate) duplicated: u64,
    /// Frames that arrived behind a later one
    pub(crate) reordered: u64,
    /// Frames that the port before the network did not see
    pub(crate) unmatched: u64,
    /// The shortest latency, in ns; null if there is none
    pub(crate) latency_ns_min: Option<i64>,
    /// The mean, in ns
    pub(crate) latency_ns_mean: Option<f64>,
    /// Half of them are at most this, in ns
    pub(crate) latency_ns_p50: Option<i64>,
    /// 90 of 100 are at most this, in ns
    pub(crate) latency_ns_p90: Option<i64>,
    /// 99 of 100 are at most this, in ns
    pub(crate) latency_ns_p99: Option<i64>,
    /// 999 of 1000 are at most this, in ns
    pub(crate) latency_ns_p999: Option<i64>,
    /// The longest, in ns
    pub(crate) latency_ns_max: Option<i64>,
    /// The longest less the shortest, in ns
    pub(crate) jitter_ns: Option<i64>,
    /// By how much the latencies of two frames in a row differ: half of the differences are at most this, in ns
    pub(crate) ipdv_ns_p50: Option<i64>,
    /// 99 of 100 are at most this, in ns
    pub(crate) ipdv_ns_p99: Option<i64>,
    /// The largest of them, in ns
    pub(crate) ipdv_ns_max: Option<i64>,
    /// The latency that follows from the schedule, in ns; null if the flow is not time-triggered, or has several
    /// receivers and none was named
    pub(crate) model_ns: Option<i64>,
    /// By how much the median exceeds that, in ns
    pub(crate) residual_ns_p50: Option<i64>,
    /// Frames that came half a period late or more, so with the next cycle; null where there is no model
    pub(crate) late: Option<u64>,
}

impl Object for TteMeasured<'_> {
    const TYPE: &'static str = "tte_measured";
    const COMMANDS: &'static [&'static str] = &["tte analyze"];
}

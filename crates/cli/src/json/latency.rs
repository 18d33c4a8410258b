//! The object `latency` of `candor route stats`.

use candor_gateway::snapshot::{LATENCY, LatencySnapshot};
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// How long frames take from one port of a gateway to another.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Latency<'a> {
    /// The bus that they came from
    pub(crate) from: &'a str,
    /// The bus that they went to
    pub(crate) to: &'a str,
    /// The metric, by its name in experiments
    #[schemars(extend("enum" = [LATENCY.key()]))]
    pub(crate) metric: &'a str,
    /// Frames that were measured; if there are none, the times are 0
    pub(crate) count: u64,
    /// The sum of all latencies, in ns
    pub(crate) sum_ns: u64,
    /// The shortest latency, in ns
    pub(crate) min_ns: u64,
    /// Half of the latencies are at most this, in ns
    pub(crate) p50_ns: u64,
    /// 99 of 100 latencies are at most this, in ns
    pub(crate) p99_ns: u64,
    /// 999 of 1,000 latencies are at most this, in ns
    pub(crate) p999_ns: u64,
    /// The longest latency, in ns
    pub(crate) max_ns: u64,
    /// Frames that were measured in the last whole second
    pub(crate) recent_count: u64,
    /// Half of the latencies of that second are at most this, in ns
    pub(crate) recent_p50_ns: u64,
    /// 99 of 100 latencies of that second are at most this, in ns
    pub(crate) recent_p99_ns: u64,
    /// Frames whose time stamp could not be used, because the clock was set
    pub(crate) unusable: u64,
}

impl<'a> From<&'a LatencySnapshot> for Latency<'a> {
    fn from(latency: &'a LatencySnapshot) -> Self {
        Self {
            from: &latency.from,
            to: &latency.to,
            metric: &latency.metric,
            count: latency.count,
            sum_ns: latency.sum_ns,
            min_ns: latency.min_ns,
            p50_ns: latency.p50_ns,
            p99_ns: latency.p99_ns,
            p999_ns: latency.p999_ns,
            max_ns: latency.max_ns,
            recent_count: latency.recent_count,
            recent_p50_ns: latency.recent_p50_ns,
            recent_p99_ns: latency.recent_p99_ns,
            unusable: latency.unusable,
        }
    }
}

impl Object for Latency<'_> {
    const TYPE: &'static str = "latency";
    const COMMANDS: &'static [&'static str] = &["route stats"];
}

//! The object `result` of `candor lab run`.

use std::collections::BTreeMap;

use candor_lat::section::Sections;
use schemars::JsonSchema;
use serde::Serialize;

use super::words::Testbed;
use crate::json::Object;

/// The result of an experiment; `sent` is the sum of `received`, `not_routed`, `refused` and `lost`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ExperimentResult<'a> {
    /// The name of the experiment, with its seed if it has several
    pub(crate) experiment: &'a str,
    /// The name of the experiment, without the seed
    pub(crate) group: &'a str,
    /// The seed
    pub(crate) seed: u64,
    /// Where it ran
    #[schemars(with = "Testbed")]
    pub(crate) testbed: &'a str,
    /// Whether the result was in the cache
    pub(crate) cached: bool,
    /// Frames sent
    pub(crate) sent: u64,
    /// Frames of which a copy arrived
    pub(crate) received: u64,
    /// Frames that no rule took
    pub(crate) not_routed: u64,
    /// Frames that the rules refused
    pub(crate) refused: u64,
    /// Frames that a rule took, or that never got to the rules, and that did not arrive
    pub(crate) lost: u64,
    /// The latencies that it has, by metric, as docs/experiments.md lists them; a metric is absent if no frame has it
    pub(crate) metrics: BTreeMap<&'a str, Figures>,
    /// What is known besides, such as the loads of buses: tables, as docs/experiments.md lists them
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) sections: &'a Sections,
    /// The file with everything about the result
    pub(crate) file: String,
}

/// The figures of a latency.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Figures {
    /// Frames that were measured
    pub(crate) count: u64,
    /// The shortest latency, in ns
    pub(crate) min_ns: i64,
    /// Half of the latencies are at most this, in ns
    pub(crate) p50_ns: i64,
    /// 90 of 100 latencies are at most this, in ns
    pub(crate) p90_ns: i64,
    /// 99 of 100 latencies are at most this, in ns
    pub(crate) p99_ns: i64,
    /// 999 of 1,000 latencies are at most this, in ns
    pub(crate) p999_ns: i64,
    /// The longest latency, in ns
    pub(crate) max_ns: i64,
}

impl From<&candor_lab::result::Figures> for Figures {
    fn from(figures: &candor_lab::result::Figures) -> Self {
        Self {
            count: figures.count,
            min_ns: figures.min_ns,
            p50_ns: figures.p50_ns,
            p90_ns: figures.p90_ns,
            p99_ns: figures.p99_ns,
            p999_ns: figures.p999_ns,
            max_ns: figures.max_ns,
        }
    }
}

impl Object for ExperimentResult<'_> {
    const TYPE: &'static str = "result";
    const COMMANDS: &'static [&'static str] = &["lab run", "tte run"];
}

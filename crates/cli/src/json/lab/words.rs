//! Words that several objects of the laboratory have.

use candor_lab::experiment;
use candor_lab::quantity;
use candor_lat::Metric;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::json::derived::or_null;

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Testbed {
    Sim,
    Vm,
    Host,
}

impl From<experiment::Testbed> for Testbed {
    fn from(testbed: experiment::Testbed) -> Self {
        match testbed {
            experiment::Testbed::Sim => Self::Sim,
            experiment::Testbed::Vm => Self::Vm,
            experiment::Testbed::Host => Self::Host,
        }
    }
}

/// What a figure of a comparison counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    #[serde(rename = "ns")]
    Nanoseconds,
    /// per frame
    Instructions,
    Frames,
    Percent,
    /// per event
    Bytes,
    Count,
    #[serde(rename = "bit/s")]
    BitsPerSecond,
}

impl From<quantity::Unit> for Unit {
    fn from(unit: quantity::Unit) -> Self {
        match unit {
            quantity::Unit::Nanoseconds => Self::Nanoseconds,
            quantity::Unit::Instructions => Self::Instructions,
            quantity::Unit::Frames => Self::Frames,
            quantity::Unit::Percent => Self::Percent,
            quantity::Unit::Bytes => Self::Bytes,
            quantity::Unit::BitsPerSecond => Self::BitsPerSecond,
            quantity::Unit::Count | quantity::Unit::Text => Self::Count,
        }
    }
}

/// The names of metrics, or null.
pub(crate) fn metrics() -> Vec<Value> {
    or_null(Metric::ALL.into_iter().map(Metric::key))
}

//! Words that several objects of the laboratory have.

use candor_lab::experiment;
use candor_lab::quantity;
use candor_lat::Metric;
use candor_vm::clean;
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

/// What a folder of the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FolderKind {
    Kernel,
    Machine,
    Results,
    Headers,
    Compiler,
    Driver,
    #[serde(rename = "package lists")]
    PackageLists,
}

impl From<clean::Kind> for FolderKind {
    fn from(kind: clean::Kind) -> Self {
        match kind {
            clean::Kind::Kernel => Self::Kernel,
            clean::Kind::Machine => Self::Machine,
            clean::Kind::Reports => Self::Results,
            clean::Kind::Headers => Self::Headers,
            clean::Kind::Compiler => Self::Compiler,
            clean::Kind::Driver => Self::Driver,
            clean::Kind::Lists => Self::PackageLists,
        }
    }
}

/// Why a folder of the cache cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum Stale {
    #[serde(rename = "another QEMU")]
    Qemu,
    #[serde(rename = "kernel not here")]
    Kernel,
    #[serde(rename = "another Candor")]
    Candor,
    #[serde(rename = "unfinished")]
    Unfinished,
}

impl From<clean::Stale> for Stale {
    fn from(stale: clean::Stale) -> Self {
        match stale {
            clean::Stale::Qemu => Self::Qemu,
            clean::Stale::Kernel => Self::Kernel,
            clean::Stale::Candor => Self::Candor,
            clean::Stale::Unfinished => Self::Unfinished,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// In JSON and in tables the same has the same name.
    #[test]
    fn words_are_those_of_tables() {
        #[track_caller]
        fn is_word(word: impl Serialize, name: &str) {
            assert_eq!(serde_json::to_value(word).unwrap(), name);
        }
        for testbed in experiment::Testbed::ALL {
            is_word(Testbed::from(testbed), testbed.name());
        }
        use clean::Kind::{Compiler, Driver, Headers, Kernel, Lists, Machine, Reports};
        for kind in [Kernel, Machine, Reports, Headers, Compiler, Driver, Lists] {
            is_word(FolderKind::from(kind), kind.name());
        }
        use clean::Stale;
        for stale in [Stale::Qemu, Stale::Kernel, Stale::Candor, Stale::Unfinished] {
            is_word(super::Stale::from(stale), stale.name());
        }
    }
}

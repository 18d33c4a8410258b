//! Words that several objects have: fields in which a program finds one of a few words are enums, so that
//! `candor help json` and the JSON Schema list the words.
//!
//! Words that another crate lists, such as the names of metrics, come from its list.

use candor_diagnostics as diagnostics;
use candor_gateway::plane::PLANES;
use candor_recording::FORMATS;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The order in which frames leave a transmit queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueueOrder {
    /// the oldest first
    Fifo,
    /// the most urgent first
    Priority,
}

impl From<candor_network::Discipline> for QueueOrder {
    fn from(discipline: candor_network::Discipline) -> Self {
        match discipline {
            candor_network::Discipline::Fifo => Self::Fifo,
            candor_network::Discipline::Priority => Self::Priority,
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// the file cannot be used
    Error,
    /// it probably does not do what was meant
    Warning,
}

impl From<diagnostics::Severity> for Severity {
    fn from(severity: diagnostics::Severity) -> Self {
        match severity {
            diagnostics::Severity::Error => Self::Error,
            diagnostics::Severity::Warning => Self::Warning,
        }
    }
}

/// The data planes, by name.
pub(crate) fn planes() -> Vec<&'static str> {
    PLANES.iter().rev().map(|plane| plane.name).collect()
}

/// The names of formats of recordings.
pub(crate) fn formats() -> Vec<&'static str> {
    FORMATS.iter().map(|format| format.name).collect()
}

/// These words, or null.
pub(crate) fn or_null(words: impl IntoIterator<Item = &'static str>) -> Vec<Value> {
    words.into_iter().map(Value::from).chain([Value::Null]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In JSON and in tables the same has the same name.
    #[test]
    fn words_are_those_of_tables() {
        for severity in [diagnostics::Severity::Error, diagnostics::Severity::Warning] {
            let word = serde_json::to_value(Severity::from(severity)).unwrap();
            assert_eq!(word, severity.name());
        }
    }
}

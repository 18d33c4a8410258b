//! The object `verdict` of `candor route explain`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use super::signal::Signal;

/// What becomes of the frame; it comes first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ExplainVerdict<'a> {
    /// The bus that receives the frame
    pub(crate) bus: &'a str,
    /// The frame in the notation of candump, such as 123#DEADBEEF
    pub(crate) frame: String,
    /// What becomes of it
    pub(crate) verdict: Fate,
    /// The same as a sentence
    pub(crate) text: String,
    /// The name of the message by the DBC file of the bus; null if it is not known
    pub(crate) message: Option<String>,
    /// The signals of the message; empty if it is not known
    pub(crate) signals: Vec<Signal<String>>,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    Forwarded,
    Refused,
    /// no rule takes it; the port counts it as not_routed
    Ignored,
}

impl Object for ExplainVerdict<'_> {
    const TYPE: &'static str = "verdict";
    const COMMANDS: &'static [&'static str] = &["route explain"];
}

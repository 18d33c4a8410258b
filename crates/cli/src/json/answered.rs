//! The object `answered` of `candor pong`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// What a slave has done.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Answered<'a> {
    /// The port
    pub(crate) port: &'a str,
    /// Requests answered
    pub(crate) answered: u64,
    /// Answers that the port did not take
    pub(crate) dropped: u64,
}

impl Object for Answered<'_> {
    const TYPE: &'static str = "answered";
    const COMMANDS: &'static [&'static str] = &["pong"];
}

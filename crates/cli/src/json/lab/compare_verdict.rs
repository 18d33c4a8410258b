//! The object `verdict` of `candor lab compare`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// All exact figures together; it comes last.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CompareVerdict {
    /// Experiments that were compared
    pub(crate) pairs: usize,
    /// Exact figures that are slower
    pub(crate) slower: usize,
    /// Exact figures that are faster
    pub(crate) faster: usize,
    /// Exact figures that are the same
    pub(crate) same: usize,
    /// Exact figures that are worse than --allow permits
    pub(crate) not_allowed: usize,
    /// What --allow permits
    pub(crate) allow: String,
    /// Whether nothing is worse than --allow permits; the exit code is 0 then
    pub(crate) agrees: bool,
}

impl Object for CompareVerdict {
    const TYPE: &'static str = "verdict";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}

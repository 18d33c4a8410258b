//! The object `summary` of `candor route stats`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// The gateway as a whole; it comes last, and with --watch last of each interval.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StatsSummary<'a> {
    /// The rule file
    pub(crate) file: &'a str,
    /// The process
    pub(crate) pid: u32,
    /// How long it has been running, in ns
    pub(crate) uptime_ns: u64,
    /// How often the rules were changed since the start
    pub(crate) generation: u64,
    /// Why the rules on disk are not those in use; null if they are
    pub(crate) rejected: Option<&'a str>,
    /// Messages that standard error did not take
    pub(crate) messages_dropped: u64,
}

impl Object for StatsSummary<'_> {
    const TYPE: &'static str = "summary";
    const COMMANDS: &'static [&'static str] = &["route stats"];
}

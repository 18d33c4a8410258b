//! The object `removed` of `candor vm clean`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A folder that was removed from the cache, or with --dry-run would be.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RemovedFolder<'a> {
    /// kernel, machine, results or package lists
    pub(crate) kind: &'static str,
    /// The kernel that it belongs to, as far as that is known
    pub(crate) of: &'a str,
    /// Its size in bytes
    pub(crate) bytes: u64,
    /// Why it could not be used any more; null if it could
    pub(crate) stale: Option<&'static str>,
    /// The folder
    pub(crate) folder: String,
}

impl Object for RemovedFolder<'_> {
    const TYPE: &'static str = "removed";
    const COMMANDS: &'static [&'static str] = &["vm clean"];
}

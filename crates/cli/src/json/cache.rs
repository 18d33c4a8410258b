//! The object `cache` of `candor vm cache`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A folder of the cache.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CacheFolder<'a> {
    /// kernel, machine, results or package lists
    pub(crate) kind: &'static str,
    /// The kernel that it belongs to, as far as that is known
    pub(crate) of: &'a str,
    /// Its size in bytes
    pub(crate) bytes: u64,
    /// Why it cannot be used any more; null if it can
    pub(crate) stale: Option<&'static str>,
    /// The folder
    pub(crate) folder: String,
}

impl Object for CacheFolder<'_> {
    const TYPE: &'static str = "cache";
    const COMMANDS: &'static [&'static str] = &["vm cache"];
}

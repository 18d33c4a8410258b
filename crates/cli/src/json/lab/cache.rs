//! The object `cache` of `candor vm cache`.

use schemars::JsonSchema;
use serde::Serialize;

use super::words::{FolderKind, Stale};
use crate::json::Object;

/// A folder of the cache.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CacheFolder<'a> {
    /// What it holds
    pub(crate) kind: FolderKind,
    /// The kernel that it belongs to, as far as that is known
    pub(crate) of: &'a str,
    /// Its size in bytes
    pub(crate) bytes: u64,
    /// Why it cannot be used any more; null if it can
    pub(crate) stale: Option<Stale>,
    /// The folder
    pub(crate) folder: String,
}

impl Object for CacheFolder<'_> {
    const TYPE: &'static str = "cache";
    const COMMANDS: &'static [&'static str] = &["vm cache"];
}

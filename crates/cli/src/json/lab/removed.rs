//! The object `removed` of `candor vm clean`.

use schemars::JsonSchema;
use serde::Serialize;

use super::words::{FolderKind, Stale};
use crate::json::Object;

/// A folder that was removed from the cache, or with --dry-run would be.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RemovedFolder<'a> {
    /// What it holds
    pub(crate) kind: FolderKind,
    /// The kernel that it belongs to, as far as that is known
    pub(crate) of: &'a str,
    /// Its size in bytes
    pub(crate) bytes: u64,
    /// Why it could not be used any more; null if it could
    pub(crate) stale: Option<Stale>,
    /// The folder
    pub(crate) folder: String,
}

impl Object for RemovedFolder<'_> {
    const TYPE: &'static str = "removed";
    const COMMANDS: &'static [&'static str] = &["vm clean"];
}

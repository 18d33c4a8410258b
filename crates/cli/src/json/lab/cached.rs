//! The object `cached` of `candor vm kernels`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// A kernel in the cache.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CachedKernel<'a> {
    /// What asks for it, such as 6.12-rt
    pub(crate) kernel: &'a str,
    /// The release, such as 6.12.117+deb13-rt-amd64; null if it is damaged
    pub(crate) release: Option<&'a str>,
    /// Debian's packages and their version; null for an own build, or if it is damaged
    pub(crate) package: Option<&'a str>,
    /// The suite of Debian that it came from; null for an own build, or if it is damaged
    pub(crate) suite: Option<&'a str>,
    /// Its size in bytes
    pub(crate) bytes: u64,
    /// The checksum of its image and modules; null if it is damaged
    pub(crate) sha256: Option<&'a str>,
    /// The folder of the kernel
    pub(crate) folder: String,
    /// What is wrong with it; null if it is sound
    pub(crate) damage: Option<String>,
}

impl Object for CachedKernel<'_> {
    const TYPE: &'static str = "cached";
    const COMMANDS: &'static [&'static str] = &["vm kernels"];
}

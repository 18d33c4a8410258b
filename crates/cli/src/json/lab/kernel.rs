//! The object `kernel` of `candor vm fetch`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// A kernel that is in the cache now.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FetchedKernel<'a> {
    /// What asks for it, such as 6.12-rt
    pub(crate) kernel: &'a str,
    /// The release, such as 6.12.117+deb13-rt-amd64
    pub(crate) release: &'a str,
    /// Debian's packages and their version; null for an own build
    pub(crate) package: Option<&'a str>,
    /// The suite of Debian that it came from; null for an own build
    pub(crate) suite: Option<&'a str>,
    /// The file with the image
    pub(crate) image: String,
    /// The folder with the modules
    pub(crate) modules: String,
    /// The file with the addresses of its functions; null if there is none
    pub(crate) system_map: Option<String>,
    /// The checksum of its image and modules
    pub(crate) sha256: &'a str,
}

impl Object for FetchedKernel<'_> {
    const TYPE: &'static str = "kernel";
    const COMMANDS: &'static [&'static str] = &["vm fetch"];
}

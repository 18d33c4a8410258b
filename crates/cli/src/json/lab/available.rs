//! The object `available` of `candor vm kernels`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// The newest kernel of a series and flavour that Debian has.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AvailableKernel<'a> {
    /// What asks for it, such as 6.12-rt
    pub(crate) kernel: String,
    /// The series, such as 6.12
    pub(crate) series: &'a str,
    /// Whether it is built with PREEMPT_RT
    pub(crate) is_rt: bool,
    /// The release, such as 6.12.117+deb13-rt-amd64
    pub(crate) release: &'a str,
    /// The version of its packages, such as 6.12.117-1
    pub(crate) version: &'a str,
    /// The suite of Debian, such as trixie-security
    pub(crate) suite: &'a str,
    /// The size of its packages in bytes
    pub(crate) download_bytes: u64,
}

impl Object for AvailableKernel<'_> {
    const TYPE: &'static str = "available";
    const COMMANDS: &'static [&'static str] = &["vm kernels"];
}

//! The object `file` of `candor bus record`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A recording that is complete.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Recording {
    /// The path of the file
    pub(crate) file: String,
    /// candump, pcap or pcapng
    pub(crate) format: &'static str,
    /// Frames in it
    pub(crate) frames: u64,
    /// Its size in bytes
    pub(crate) bytes: u64,
}

impl Object for Recording {
    const TYPE: &'static str = "file";
    const COMMANDS: &'static [&'static str] = &["bus record"];
}

//! The object `file` of `candor bus record`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Object, words};

/// A recording that is complete.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Recording {
    /// The path of the file
    pub(crate) file: String,
    /// Its format
    #[schemars(extend("enum" = words::formats()))]
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

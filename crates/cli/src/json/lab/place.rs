//! The object `place` of `candor lab profile`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// The instructions in the kernel, a module or a program; the most first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Place<'a> {
    /// The experiment
    pub(crate) experiment: &'a str,
    /// kernel, or the name of a module or program
    pub(crate) place: &'a str,
    /// Instructions in all
    pub(crate) instructions: u64,
    /// Frames that arrived at the receiver
    pub(crate) frames: u64,
    /// Instructions per frame
    pub(crate) instructions_per_frame: f64,
}

impl Object for Place<'_> {
    const TYPE: &'static str = "place";
    const COMMANDS: &'static [&'static str] = &["lab profile"];
}

//! The object `function` of `candor lab profile`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// The instructions in a function; the most first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ProfiledFunction<'a> {
    /// The experiment
    pub(crate) experiment: &'a str,
    /// kernel, or the name of a module or program
    pub(crate) place: &'a str,
    /// The function
    pub(crate) function: &'a str,
    /// Instructions in all
    pub(crate) instructions: u64,
    /// Frames that arrived at the receiver
    pub(crate) frames: u64,
    /// Instructions per frame
    pub(crate) instructions_per_frame: f64,
}

impl Object for ProfiledFunction<'_> {
    const TYPE: &'static str = "function";
    const COMMANDS: &'static [&'static str] = &["lab profile"];
}

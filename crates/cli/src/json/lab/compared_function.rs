//! The object `function` of `candor lab compare`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// The instructions per frame in a function before and after the change; the largest difference
/// first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ComparedFunction<'a> {
    /// The experiment, as it is called after the change
    pub(crate) experiment: &'a str,
    /// kernel, or the name of a module or program
    pub(crate) place: &'a str,
    /// The function, without what compilers append to its name
    pub(crate) function: &'a str,
    /// Instructions per frame before the change
    pub(crate) before: f64,
    /// Instructions per frame after the change
    pub(crate) after: f64,
    /// After without before
    pub(crate) difference: f64,
}

impl Object for ComparedFunction<'_> {
    const TYPE: &'static str = "function";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}

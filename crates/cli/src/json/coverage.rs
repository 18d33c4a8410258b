//! The object `coverage` of `candor lab list --coverage`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// Which experiments of the papers a file has for a kernel and a gateway; only with --coverage.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Covered<'a> {
    /// The kernel
    pub(crate) kernel: &'a str,
    /// The gateway
    pub(crate) gateway: &'static str,
    /// Combinations of traffic and load that the file has
    pub(crate) covered: usize,
    /// Combinations of traffic and load
    pub(crate) of: usize,
    /// The combinations that the file lacks: traffic and load
    pub(crate) missing: Vec<[&'static str; 2]>,
}

impl Object for Covered<'_> {
    const TYPE: &'static str = "coverage";
    const COMMANDS: &'static [&'static str] = &["lab list"];
}

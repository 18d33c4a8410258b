//! The object `driver` of `candor bus list`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A kind of port.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Driver {
    /// What stands before the colon in the name of a port
    pub(crate) name: &'static str,
    /// What it is
    pub(crate) summary: &'static str,
    /// The name of such a port
    pub(crate) example: &'static str,
    /// What may be set in the name of such a port
    pub(crate) options: Vec<DriverOption>,
}

/// What may be set in the name of a port.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DriverOption {
    /// The name of the option
    pub(crate) name: &'static str,
    /// What it does
    pub(crate) summary: &'static str,
}

impl Object for Driver {
    const TYPE: &'static str = "driver";
    const COMMANDS: &'static [&'static str] = &["bus list"];
}

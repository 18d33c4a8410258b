//! The object `loaded` of `candor route load`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// Rules that are in use now.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Loaded {
    /// How often the rules were changed since the start of the gateway, this time included
    pub(crate) generation: u64,
    /// The number of rules
    pub(crate) rules: u64,
    /// How long it took to read, check and change them, in us
    pub(crate) took_us: u64,
}

impl Object for Loaded {
    const TYPE: &'static str = "loaded";
    const COMMANDS: &'static [&'static str] = &["route load"];
}

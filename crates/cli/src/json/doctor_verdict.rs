//! The object `verdict` of `candor doctor`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// All checks of this machine together; it comes last.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DoctorVerdict {
    /// Whether a gateway on CAN interfaces can run here
    pub(crate) can_run: bool,
    /// The number of checks that are ok
    pub(crate) ok: usize,
    /// The number of checks that are limited
    pub(crate) limited: usize,
    /// The number of checks where something is missing
    pub(crate) missing: usize,
}

impl Object for DoctorVerdict {
    const TYPE: &'static str = "verdict";
    const COMMANDS: &'static [&'static str] = &["doctor"];
}

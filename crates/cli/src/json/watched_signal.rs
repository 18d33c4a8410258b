//! The object `signal` of `candor signals watch`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A value of a signal.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WatchedSignal<'a> {
    /// The name: message and signal, and the bus if there are several
    pub(crate) name: &'a str,
    /// The value in the unit of the signal; null if it is no number
    pub(crate) value: Option<f64>,
    /// What the value is called, if it has a name
    pub(crate) text: Option<&'a str>,
    /// When its frame was received, in us since 1970
    pub(crate) timestamp_us: u64,
}

impl Object for WatchedSignal<'_> {
    const TYPE: &'static str = "signal";
    const COMMANDS: &'static [&'static str] = &["signals watch"];
}

//! The object `frame` of `candor signals watch`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A frame of a service without signals.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WatchedFrame<'a> {
    /// The bus and the identifier in decimal, such as car/291
    pub(crate) name: &'a str,
    /// The data in hex
    pub(crate) data: &'a str,
}

impl Object for WatchedFrame<'_> {
    const TYPE: &'static str = "frame";
    const COMMANDS: &'static [&'static str] = &["signals watch"];
}

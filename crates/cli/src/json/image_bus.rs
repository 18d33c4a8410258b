//! The object `bus` of `candor route image`.

use candor_engine::Bus;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A bus of a program image, in the order of the image.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ImageBus<'a> {
    /// What the rules call it
    pub(crate) bus: &'a str,
    /// The port, such as can0
    pub(crate) port: &'a str,
    /// Whether frames sent there come back as received
    #[serde(rename = "virtual")]
    pub(crate) is_virtual: bool,
}

impl<'a> ImageBus<'a> {
    pub(crate) fn new(bus: &'a Bus) -> Self {
        Self { bus: &bus.name, port: &bus.port, is_virtual: bus.is_virtual }
    }
}

impl Object for ImageBus<'_> {
    const TYPE: &'static str = "bus";
    const COMMANDS: &'static [&'static str] = &["route image"];
}

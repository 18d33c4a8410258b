//! The object `tte_latency` of `candor tte model`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// The latency that the schedule gives to the frames of a flow at a receiver.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TteLatency<'a> {
    /// The flow
    pub(crate) flow: &'a str,
    /// The receiver
    pub(crate) receiver: &'a str,
    /// The size of a frame in bytes, with header and check sequence
    pub(crate) size: u16,
    /// Switches on the way
    pub(crate) switches: u32,
    /// On wires, in ns
    pub(crate) wires_ns: u64,
    /// The transmission on the last link, in ns
    pub(crate) transmission_ns: u64,
    /// In switches, each from the first bit in to the first bit out, in ns
    pub(crate) relays_ns: u64,
    /// The sum, in ns
    pub(crate) latency_ns: u64,
    /// The same with a transmission for each switch, as equation 3 of Bartols and others (2011) is printed, in ns
    pub(crate) equation_3_ns: u64,
    /// At how many switches some frames are not ready at their instant: then they are a period later than this
    pub(crate) misses: u32,
}

impl Object for TteLatency<'_> {
    const TYPE: &'static str = "tte_latency";
    const COMMANDS: &'static [&'static str] = &["tte model"];
}

//! The object `port` of `candor bus dump` and `candor bus record`.

use candor_bus::capture::Totals;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// What a port received, shown or not; it comes after the frames.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PortTotals<'a> {
    /// The port
    pub(crate) port: &'a str,
    /// Frames, without error reports
    pub(crate) frames: u64,
    /// Error reports of the controller
    pub(crate) error_reports: u64,
    /// What was received and is no frame
    pub(crate) malformed: u64,
    /// Frames that the kernel dropped because they were not fetched in time
    pub(crate) overflow: u64,
    /// Datagrams that never came, by their sequence numbers
    pub(crate) missing: u64,
    /// Datagrams that came late or twice, by their sequence numbers
    pub(crate) out_of_order: u64,
    /// Frames that came and are not in the recording of `record`, which could not be written any more
    pub(crate) unwritten: u64,
}

impl<'a> PortTotals<'a> {
    pub(crate) const fn new(port: &'a str, totals: &Totals) -> Self {
        let Totals { frames, error_reports, malformed, overflow, missing, out_of_order, unwritten } =
            *totals;
        Self { port, frames, error_reports, malformed, overflow, missing, out_of_order, unwritten }
    }
}

impl Object for PortTotals<'_> {
    const TYPE: &'static str = "port";
    const COMMANDS: &'static [&'static str] = &["bus dump", "bus record"];
}

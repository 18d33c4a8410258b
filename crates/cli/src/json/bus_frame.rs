//! The object `frame` of `candor bus dump`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use super::signal::Signal;

/// A frame that a port received.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BusFrame<'a> {
    /// The port that it came from
    pub(crate) port: &'a str,
    /// When it came, in ns since 1970: the stamp of the kernel or of the recording, or when it
    /// was handed over
    pub(crate) time_ns: u64,
    /// The stamp of the controller in ns, by a clock of its own; null if there is none
    pub(crate) hardware_ns: Option<u64>,
    /// Who sent it: bus (another node), machine (another program of this machine) or own (this
    /// program)
    pub(crate) origin: &'static str,
    /// The frame in the notation of candump, such as 123#DEADBEEF
    pub(crate) frame: String,
    /// The identifier in hex: 3 digits standard, 8 extended
    pub(crate) id: String,
    /// data, remote, fd or error
    pub(crate) kind: &'static str,
    /// The name of the message by the DBC file; null if it is not known
    pub(crate) message: Option<&'a str>,
    /// The signals of the message by the DBC file; empty if it is not known
    pub(crate) signals: Vec<Signal<&'a str>>,
    /// What an error report says; null for other frames
    pub(crate) report: Option<String>,
}

impl Object for BusFrame<'_> {
    const TYPE: &'static str = "frame";
    const COMMANDS: &'static [&'static str] = &["bus dump"];
}

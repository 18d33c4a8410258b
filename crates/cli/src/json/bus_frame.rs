//! The object `frame` of `candor bus dump`.

use candor_port::Origin;
use candor_wire::can::frame::Kind;
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
    /// Who sent it
    pub(crate) origin: Sender,
    /// The frame in the notation of candump, such as 123#DEADBEEF
    pub(crate) frame: String,
    /// The identifier in hex: 3 digits standard, 8 extended
    pub(crate) id: String,
    /// What it is
    pub(crate) kind: FrameKind,
    /// The name of the message by the DBC file; null if it is not known
    pub(crate) message: Option<&'a str>,
    /// The signals of the message by the DBC file; empty if it is not known
    pub(crate) signals: Vec<Signal<&'a str>>,
    /// What an error report says; null for other frames
    pub(crate) report: Option<String>,
}

/// Who sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sender {
    /// another node
    Bus,
    /// another program of this machine
    Machine,
    /// this program
    Own,
}

impl From<Origin> for Sender {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Bus => Self::Bus,
            Origin::Machine => Self::Machine,
            Origin::Own => Self::Own,
        }
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FrameKind {
    Data,
    Remote,
    Fd,
    /// an error report
    Error,
}

impl From<Kind> for FrameKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Data => Self::Data,
            Kind::Remote => Self::Remote,
            Kind::Fd => Self::Fd,
            Kind::Error => Self::Error,
        }
    }
}

impl Object for BusFrame<'_> {
    const TYPE: &'static str = "frame";
    const COMMANDS: &'static [&'static str] = &["bus dump"];
}

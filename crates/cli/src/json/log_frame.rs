//! The object `frame` of `candor log decode`.

use candor_recording as recording;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A frame of a recording with its signals.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LogFrame<'a> {
    /// When it was recorded, in ns since 1970
    pub(crate) time_ns: u64,
    /// The interface that it was recorded on
    pub(crate) interface: &'a str,
    /// Which way it went; null if the recording does not say
    pub(crate) direction: Option<Direction>,
    /// The frame in the notation of candump, such as 123#DEADBEEF
    pub(crate) frame: String,
    /// The name of the message by the DBC file; null if it is not known
    pub(crate) message: Option<&'a str>,
    /// The signals of the message; empty if it is not known or the frame is too short for them
    pub(crate) signals: Vec<LogSignal<'a>>,
}

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    Received,
    Transmitted,
}

impl From<recording::Direction> for Direction {
    fn from(direction: recording::Direction) -> Self {
        match direction {
            recording::Direction::Received => Self::Received,
            recording::Direction::Transmitted => Self::Transmitted,
        }
    }
}

/// A signal of a recorded frame.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LogSignal<'a> {
    /// Its name in the DBC file
    pub(crate) name: &'a str,
    /// The whole number in the frame, exact, up to 64 bits
    pub(crate) raw: i128,
    /// The physical value; null if it is infinite or no number
    #[schemars(with = "Option<f64>")]
    pub(crate) value: f64,
    /// The unit in the DBC file; empty if there is none
    pub(crate) unit: &'a str,
    /// The name that the DBC file gives to the value; null if it gives none
    pub(crate) text: Option<&'a str>,
}

impl Object for LogFrame<'_> {
    const TYPE: &'static str = "frame";
    const COMMANDS: &'static [&'static str] = &["log decode"];
}

//! The object `interface` of `candor bus list`.

use candor_bus::interface;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A CAN interface of this machine.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Interface<'a> {
    /// Its name, such as can0
    pub(crate) name: &'a str,
    /// can for a controller; vcan, vxcan for virtual interfaces
    pub(crate) kind: &'a str,
    /// Whether frames come and go
    pub(crate) state: State,
    /// The (nominal) bit rate in bit/s; null if there is none
    pub(crate) bitrate: Option<u32>,
    /// The bit rate of the data phase in bit/s; null if it is the nominal one or there is none
    pub(crate) data_bitrate: Option<u32>,
    /// The most that it takes
    pub(crate) frames: Frames,
    /// The number of frames that may wait in front of it
    pub(crate) queue_length: u32,
    /// The driver of the controller; null if there is none
    pub(crate) driver: Option<&'a str>,
    /// Frames received, as the kernel counted
    pub(crate) received: u64,
    /// Frames transmitted, as the kernel counted
    pub(crate) transmitted: u64,
    /// Frames dropped, as the kernel counted
    pub(crate) dropped: u64,
    /// Errors, as the kernel counted
    pub(crate) errors: u64,
}

/// Whether frames come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum State {
    #[serde(rename = "down")]
    Down,
    #[serde(rename = "up")]
    Up,
    #[serde(rename = "up, not connected")]
    Unconnected,
    #[serde(rename = "error active")]
    ErrorActive,
    #[serde(rename = "error warning")]
    ErrorWarning,
    #[serde(rename = "error passive")]
    ErrorPassive,
    #[serde(rename = "bus off")]
    BusOff,
    #[serde(rename = "stopped")]
    Stopped,
    #[serde(rename = "sleeping")]
    Sleeping,
}

impl From<interface::State> for State {
    fn from(state: interface::State) -> Self {
        match state {
            interface::State::Down => Self::Down,
            interface::State::Up => Self::Up,
            interface::State::Unconnected => Self::Unconnected,
            interface::State::ErrorActive => Self::ErrorActive,
            interface::State::ErrorWarning => Self::ErrorWarning,
            interface::State::ErrorPassive => Self::ErrorPassive,
            interface::State::BusOff => Self::BusOff,
            interface::State::Stopped => Self::Stopped,
            interface::State::Sleeping => Self::Sleeping,
        }
    }
}

/// Which frames an interface takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum Frames {
    #[serde(rename = "classical")]
    Classical,
    #[serde(rename = "CAN FD")]
    Fd,
    #[serde(rename = "CAN XL")]
    Xl,
}

impl From<interface::Frames> for Frames {
    fn from(frames: interface::Frames) -> Self {
        match frames {
            interface::Frames::Classical => Self::Classical,
            interface::Frames::Fd => Self::Fd,
            interface::Frames::Xl => Self::Xl,
        }
    }
}

impl Object for Interface<'_> {
    const TYPE: &'static str = "interface";
    const COMMANDS: &'static [&'static str] = &["bus list"];
}

//! The object `interface` of `candor bus list`.

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
    /// down; up; up, not connected; of a controller also error active, bus off and the like
    pub(crate) state: &'static str,
    /// The (nominal) bit rate in bit/s; null if there is none
    pub(crate) bitrate: Option<u32>,
    /// The bit rate of the data phase in bit/s; null if it is the nominal one or there is none
    pub(crate) data_bitrate: Option<u32>,
    /// The most that it takes: classical, CAN FD or CAN XL
    pub(crate) frames: &'static str,
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

impl Object for Interface<'_> {
    const TYPE: &'static str = "interface";
    const COMMANDS: &'static [&'static str] = &["bus list"];
}

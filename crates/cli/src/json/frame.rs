//! The object of `candor frame`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A frame on the wire: its bits and how long they take, with the 3 bits of intermission.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WireFrame {
    /// The frame in the notation of candump, such as 123#DEADBEEF
    pub(crate) frame: String,
    /// All its bits, stuff bits included
    pub(crate) bits: u32,
    /// The stuff bits of them
    pub(crate) stuff_bits: u32,
    /// The bits that a frame of this kind and length has at most
    pub(crate) bits_worst: u32,
    /// How long it takes, in ns
    pub(crate) duration_ns: u64,
    /// How long a frame of this kind and length takes at most, in ns
    pub(crate) duration_ns_worst: u64,
    /// The bits at the nominal bit rate; only of CAN FD frames
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub(crate) bits_nominal: Option<u32>,
    /// The bits at the bit rate of the data phase; only of CAN FD frames
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub(crate) bits_data: Option<u32>,
}

impl Object for WireFrame {
    const TYPE: &'static str = "frame";
    const COMMANDS: &'static [&'static str] = &["frame"];
    const IS_PLAIN: bool = true;
}

//! The object `image` of `candor route image`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A program image as a whole; it comes first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Image<'a> {
    /// The image
    pub(crate) file: &'a str,
    /// The version of the format
    pub(crate) version: u32,
    /// The CRC-32 of everything from byte 16 on, as 8 hexadecimal digits
    pub(crate) crc32: String,
    /// The length of the image in bytes
    pub(crate) bytes: u64,
    /// How often a frame may pass the gateway
    pub(crate) max_hops: u8,
}

impl Object for Image<'_> {
    const TYPE: &'static str = "image";
    const COMMANDS: &'static [&'static str] = &["route image"];
}

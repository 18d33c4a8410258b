//! The object `section` of `candor route image`.

use candor_engine::image::Extent;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A section of a program image, in the order of the image.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ImageSection {
    /// Its name, as in docs/program-image.md
    pub(crate) section: &'static str,
    /// The number that stands for it in the image
    pub(crate) kind: u32,
    /// Where it begins, in bytes from the begin of the image
    pub(crate) offset: u64,
    /// The size of a record in bytes
    pub(crate) record_bytes: u64,
    /// The number of records
    pub(crate) records: u32,
}

impl ImageSection {
    pub(crate) const fn new(extent: &Extent) -> Self {
        Self {
            section: extent.section.name(),
            kind: extent.section.kind(),
            offset: extent.offset as u64,
            record_bytes: extent.section.record_bytes() as u64,
            records: extent.count,
        }
    }
}

impl Object for ImageSection {
    const TYPE: &'static str = "section";
    const COMMANDS: &'static [&'static str] = &["route image"];
}

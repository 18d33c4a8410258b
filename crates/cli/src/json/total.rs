//! The object `total` of `candor bus load`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use super::interval::Interval;

/// The load of a bus over the whole time, as one interval; it comes last.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Total<'a> {
    #[serde(flatten)]
    pub(crate) interval: Interval<'a>,
    /// The (nominal) bit rate in bit/s; null if it is not known
    pub(crate) bitrate: Option<u32>,
    /// The bit rate of the data phase in bit/s; null if it is not known
    pub(crate) data_bitrate: Option<u32>,
    /// The identifiers with the most bits, the busiest first
    pub(crate) ids: Vec<IdLoad>,
}

/// The load by an identifier.
#[derive(Serialize, JsonSchema)]
pub(crate) struct IdLoad {
    /// The identifier in hex: 3 digits standard, 8 extended
    pub(crate) id: String,
    /// Frames with this identifier
    pub(crate) frames: u64,
    /// The part of the time that they took, in percent; null if no bit rate is known
    pub(crate) load_percent: Option<f64>,
}

impl Object for Total<'_> {
    const TYPE: &'static str = "total";
    const COMMANDS: &'static [&'static str] = &["bus load"];
}

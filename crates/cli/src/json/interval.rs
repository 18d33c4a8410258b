//! The object `interval` of `candor bus load`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// The load of a bus in an interval.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Interval<'a> {
    /// The port
    pub(crate) port: &'a str,
    /// When the interval began, in ns since 1970
    pub(crate) from_ns: u64,
    /// How long the interval was, in ns
    pub(crate) time_ns: u64,
    /// Frames, without error reports
    pub(crate) frames: u64,
    /// Error reports of the controller
    pub(crate) error_reports: u64,
    /// Frames per second
    pub(crate) frames_per_s: f64,
    /// Bits of the frames at the nominal bit rate, intermission included
    pub(crate) nominal_bits: u64,
    /// Bits of the frames at the bit rate of the data phase
    pub(crate) data_bits: u64,
    /// The part of the time in which the bus was busy, in percent; null if no bit rate is known
    pub(crate) load_percent: Option<f64>,
    /// The highest load of an interval until now, in percent; null if no bit rate is known
    pub(crate) peak_percent: Option<f64>,
}

impl Object for Interval<'_> {
    const TYPE: &'static str = "interval";
    const COMMANDS: &'static [&'static str] = &["bus load"];
}

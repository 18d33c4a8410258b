//! The object `tte_direction` of `candor tte check`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// What the schedule makes of a direction of a link.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TteDirection<'a> {
    /// The link
    pub(crate) link: &'a str,
    /// The node that sends
    pub(crate) from: &'a str,
    /// The node that receives
    pub(crate) to: &'a str,
    /// Time-triggered frames in a cycle, those behind ordinary switches left out
    pub(crate) tt_frames: u64,
    /// How much of the time is occupied by time-triggered frames, in percent
    pub(crate) tt_percent: f64,
    /// The same for rate-constrained frames that come as often as they may
    pub(crate) rc_percent: f64,
    /// The same for best-effort frames
    pub(crate) be_percent: f64,
    /// The longest time that no time-triggered frame can occupy, in ns; null if there are too many frames
    pub(crate) longest_gap_ns: Option<u64>,
}

impl Object for TteDirection<'_> {
    const TYPE: &'static str = "tte_direction";
    const COMMANDS: &'static [&'static str] = &["tte check"];
}

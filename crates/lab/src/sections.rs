//! Rows of sections, from what testbeds count.

use candor_causes::{Ending, Endings};
use candor_lat::section::{Cell, Row};

pub use candor_lat::sections::*;

/// What was counted of a CAN bus.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BusCounts {
    pub(crate) frames: u64,
    pub(crate) busy_ns: u64,
    pub(crate) error_frames: u64,
    pub(crate) bus_offs: u64,
    pub(crate) id_collisions: u64,
}

impl BusCounts {
    /// The load over so much time, in percent, to three digits behind the point.
    pub(crate) fn load_percent(&self, duration_ns: u64) -> f64 {
        let load = match duration_ns {
            0 => 0.0,
            duration_ns => self.busy_ns as f64 / duration_ns as f64 * 100.0,
        };
        (load * 1_000.0).round() / 1_000.0
    }
}

/// A row of [`BUSES`].
pub(crate) fn bus(settings: &candor_network::Bus, counts: &BusCounts, duration_ns: u64) -> Row {
    BUSES.row([
        settings.name.as_str().into(),
        settings.timing.nominal.bits_per_second().into(),
        settings.timing.data.bits_per_second().into(),
        counts.frames.into(),
        counts.load_percent(duration_ns).into(),
        counts.error_frames.into(),
        counts.bus_offs.into(),
        counts.id_collisions.into(),
    ])
}

/// A row of [`RULES`]: copies that it took, and those that ended otherwise.
pub(crate) fn rule(name: &str, to: &str, handled: u64, stopped: &Endings) -> Row {
    let stopped = |ending| stopped.count(ending).into();
    RULES.row([
        name.into(),
        to.into(),
        handled.into(),
        stopped(Ending::Refused),
        stopped(Ending::Lost),
    ])
}

/// What a message of [`MESSAGES`] is.
pub(crate) fn message(
    [name, id, node, bus]: [&str; 4],
    counts: [u64; 2],
    latencies: [Cell; 2],
) -> Row {
    let [sent, received] = counts;
    let [response_time, end_to_end] = latencies;
    let (name, id, node, bus) = (name.into(), id.into(), node.into(), bus.into());
    MESSAGES.row([name, id, node, bus, sent.into(), received.into(), response_time, end_to_end])
}

//! The object `port` of `candor route stats`.

use candor_gateway::control::rates::PortRates;
use candor_gateway::snapshot::PortSnapshot;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A port of a gateway; counts are since the start, and `received` is the sum of `routed`,
/// `not_routed` and `refused`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StatsPort<'a> {
    /// What the rules call it
    pub(crate) bus: &'a str,
    /// The port, such as can0
    pub(crate) port: &'a str,
    /// Why it does not work; null if it works
    pub(crate) trouble: Option<&'a str>,
    /// Frames received
    pub(crate) received: u64,
    /// Frames received that no rule took
    pub(crate) unmatched: u64,
    /// Whether those are refused, because the rules are a list of what is allowed
    pub(crate) refuses_unmatched: bool,
    /// Error reports of the controller
    pub(crate) error_reports: u64,
    /// What was received and is no frame
    pub(crate) malformed_frames: u64,
    /// Frames that the kernel dropped before they could be received
    pub(crate) overflow_frames: u64,
    /// Datagrams received; 0 for ports without datagrams, as the further counts of datagrams
    pub(crate) received_datagrams: u64,
    /// Datagrams that are not of the format
    pub(crate) malformed_datagrams: u64,
    /// Datagrams that the kernel dropped before they could be received
    pub(crate) overflow_datagrams: u64,
    /// Datagrams that never came, by their sequence numbers
    pub(crate) missing_datagrams: u64,
    /// Datagrams that came late or twice
    pub(crate) out_of_order_datagrams: u64,
    /// Datagrams or connections of others than the peer
    pub(crate) foreign: u64,
    /// Frames that were received again and again in one second, as in a loop of gateways
    pub(crate) looping: u64,
    /// Frames that the port took for transmission
    pub(crate) transmitted: u64,
    /// Datagrams sent with them
    pub(crate) transmitted_datagrams: u64,
    /// How often the port had no room for a frame
    pub(crate) full: u64,
    /// Frames that the port took and then lost
    pub(crate) lost: u64,
    /// Frames that wait in its egress queue now
    pub(crate) queued: u64,
    /// The most frames that ever waited in it
    pub(crate) most_queued: u64,
    /// The number of frames that the queue has room for
    pub(crate) queue_depth: u64,
    /// How often the port was opened again
    pub(crate) reopened: u64,
    /// The load of the bus in the last second without stuff bits, in percent; null if it is not
    /// known
    pub(crate) least_load_percent: Option<f64>,
    /// Frames received that a rule took
    pub(crate) routed: u64,
    /// Frames received that no rule took, where that is no refusal
    pub(crate) not_routed: u64,
    /// Frames received that no rule took, where the rules are a list of what is allowed
    pub(crate) refused: u64,
    /// Frames received per second since the object before; null the first time
    pub(crate) received_per_s: Option<f64>,
    /// Frames transmitted per second since the object before; null the first time
    pub(crate) transmitted_per_s: Option<f64>,
}

impl<'a> StatsPort<'a> {
    pub(crate) fn new(port: &'a PortSnapshot, rates: Option<&PortRates>) -> Self {
        Self {
            bus: &port.bus,
            port: &port.port,
            trouble: port.trouble.as_deref(),
            received: port.received,
            unmatched: port.unmatched,
            refuses_unmatched: port.refuses_unmatched,
            error_reports: port.error_reports,
            malformed_frames: port.malformed_frames,
            overflow_frames: port.overflow_frames,
            received_datagrams: port.received_datagrams,
            malformed_datagrams: port.malformed_datagrams,
            overflow_datagrams: port.overflow_datagrams,
            missing_datagrams: port.missing_datagrams,
            out_of_order_datagrams: port.out_of_order_datagrams,
            foreign: port.foreign,
            looping: port.looping,
            transmitted: port.transmitted,
            transmitted_datagrams: port.transmitted_datagrams,
            full: port.full,
            lost: port.lost,
            queued: port.queued,
            most_queued: port.most_queued,
            queue_depth: port.queue_depth,
            reopened: port.reopened,
            least_load_percent: port.least_load_percent,
            routed: port.routed(),
            not_routed: port.not_routed(),
            refused: port.refused(),
            received_per_s: rates.map(|rates| rates.received),
            transmitted_per_s: rates.map(|rates| rates.transmitted),
        }
    }
}

impl Object for StatsPort<'_> {
    const TYPE: &'static str = "port";
    const COMMANDS: &'static [&'static str] = &["route stats"];
}

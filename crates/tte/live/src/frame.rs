//! The frames of a network: their addresses, and the flow that a frame belongs to.

use std::collections::BTreeMap;

use candor_tte::{Network, Traffic};
use candor_wire::eth::tte::{CriticalTraffic, Layout, Measurement, TypeField};
use candor_wire::eth::{Address, Frame, ether_type};

/// The first four bytes of the addresses of best-effort flows: a group, locally administered (IEEE 802, clause 8).
const BEST_EFFORT: [u8; 4] = [0x03, b'B', b'E', 0];

/// The destination of the frames of a flow.
#[must_use]
pub fn address_of(network: &Network, flow: usize) -> Address {
    match network.flows[flow].traffic {
        Traffic::TimeTriggered { .. } | Traffic::RateConstrained { .. } => {
            CriticalTraffic::default().address(network.flows[flow].id)
        }
        Traffic::BestEffort { .. } => {
            let [a, b, c, d] = BEST_EFFORT;
            let [e, f] = (flow as u16).to_be_bytes();
            Address([a, b, c, d, e, f])
        }
    }
}

/// The flows by the destinations of their frames.
pub(crate) struct Destinations(BTreeMap<[u8; 6], usize>);

impl Destinations {
    pub(crate) fn new(network: &Network) -> Self {
        let flow = |flow: usize| (address_of(network, flow).0, flow);
        Self((0..network.flows.len()).map(flow).collect())
    }

    /// The flow of a frame, and its measurement, if it has one.
    pub(crate) fn flow_of(&self, bytes: &[u8]) -> Option<(usize, Option<Measurement>)> {
        let frame = Frame::parse(bytes).ok()?;
        let flow = *self.0.get(&frame.header.destination.0)?;
        Some((flow, Measurement::parse(frame.payload).ok()))
    }
}

/// Writes a frame of a flow. How many bytes it has.
pub(crate) fn write(
    network: &Network,
    source: Address,
    measurement: &Measurement,
    bytes: &mut [u8],
) -> usize {
    let flow = usize::from(measurement.stream);
    let type_field = match network.flows[flow].traffic {
        Traffic::TimeTriggered { .. } => TypeField::default(),
        Traffic::RateConstrained { .. } => TypeField::EtherType(ether_type::TTETHERNET),
        Traffic::BestEffort { .. } => TypeField::EtherType(ether_type::EXPERIMENTAL),
    };
    let size = usize::from(network.flows[flow].size);
    let layout = Layout { destination: address_of(network, flow), source, type_field, size };
    let mut payload = [0; Measurement::LEN];
    measurement.write(&mut payload);
    // A frame of a network has a size that fits, and the caller has room for the longest.
    layout.write(&payload, bytes).unwrap_or(0)
}

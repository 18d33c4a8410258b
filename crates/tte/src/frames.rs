//! [`Frames`]: what the frames of a network look like; their bytes, and the flow that a frame belongs to.

use std::collections::BTreeMap;

use candor_time::Nanos;
use candor_wire::eth::tte::{CriticalTraffic, Layout, Measurement, Pcf, PcfKind, TypeField};
use candor_wire::eth::{Address, FCS_LEN, Frame, ether_type};

use crate::{Network, Traffic};

/// The first four bytes of the addresses of best-effort flows: a group, locally administered (IEEE 802, clause 8).
const BEST_EFFORT: [u8; 4] = [0x03, b'B', b'E', 0];
/// The size of a protocol control frame in bytes, with header and check sequence.
pub const PCF_SIZE: u16 = 64;

/// The virtual link of protocol control frames, unless another is asked for.
pub const PCF_ID: u16 = 0xFFFF;

/// What the frames of a network look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// The destinations of time-triggered, rate-constrained and protocol control frames.
    pub critical: CriticalTraffic,
    /// What is behind the addresses of time-triggered and rate-constrained frames.
    pub type_field: TypeField,
}

impl Frames {
    /// A protocol control frame of the virtual link `id`, without its check sequence.
    #[must_use]
    pub fn pcf(&self, source: Address, id: u16, pcf: &Pcf) -> [u8; PCF_SIZE as usize - FCS_LEN] {
        let mut payload = [0; Pcf::LEN];
        pcf.write(&mut payload);
        let layout = Layout {
            destination: self.critical.address(id),
            source,
            type_field: TypeField::EtherType(ether_type::TTETHERNET_PCF),
            size: usize::from(PCF_SIZE),
        };
        let mut bytes = [0; PCF_SIZE as usize - FCS_LEN];
        // The size is one of a frame, and the payload fits.
        let _ = layout.write(&payload, &mut bytes);
        bytes
    }
}

/// A protocol control frame that says when a cycle begins (integration, IN). A delay that does not fit is left out.
#[must_use]
pub fn integration(cycle: u32, delay: Nanos) -> Pcf {
    Pcf {
        integration_cycle: cycle,
        membership_new: 1,
        sync_priority: 0,
        sync_domain: 0,
        kind: PcfKind::Integration,
        transparent_clock: Pcf::transparent_clock_from_ns(delay.as_nanos()).unwrap_or(0),
    }
}

impl Network {
    /// The destination of the frames of a flow.
    #[must_use]
    pub fn address_of(&self, flow: usize) -> Address {
        match self.flows[flow].traffic {
            Traffic::TimeTriggered { .. } | Traffic::RateConstrained { .. } => {
                self.frames.critical.address(self.flows[flow].id)
            }
            Traffic::BestEffort { .. } => {
                let [a, b, c, d] = BEST_EFFORT;
                let [e, f] = (flow as u16).to_be_bytes();
                Address([a, b, c, d, e, f])
            }
        }
    }

    /// Writes a frame of a flow, that of the stream of `measurement`, without its check sequence. How many bytes it has.
    pub fn write_frame(
        &self,
        source: Address,
        measurement: &Measurement,
        bytes: &mut [u8],
    ) -> usize {
        let flow = usize::from(measurement.stream);
        let type_field = match self.flows[flow].traffic {
            Traffic::TimeTriggered { .. } | Traffic::RateConstrained { .. } => {
                self.frames.type_field
            }
            Traffic::BestEffort { .. } => TypeField::EtherType(ether_type::EXPERIMENTAL),
        };
        let size = usize::from(self.flows[flow].size);
        let layout = Layout { destination: self.address_of(flow), source, type_field, size };
        let mut payload = [0; Measurement::LEN];
        measurement.write(&mut payload);
        // A frame of a network has a size that fits, and the caller has room for the longest.
        layout.write(&payload, bytes).unwrap_or(0)
    }
}

/// The flows by the destinations of their frames.
#[derive(Debug)]
pub struct Destinations {
    critical: CriticalTraffic,
    by_id: BTreeMap<u16, usize>,
    best_effort: BTreeMap<[u8; 6], usize>,
}

impl Destinations {
    #[must_use]
    pub fn new(network: &Network) -> Self {
        let mut it = Self {
            critical: network.frames.critical,
            by_id: BTreeMap::new(),
            best_effort: BTreeMap::new(),
        };
        for (index, flow) in network.flows.iter().enumerate() {
            match flow.traffic {
                Traffic::BestEffort { .. } => {
                    it.best_effort.insert(network.address_of(index).0, index);
                }
                _ => {
                    it.by_id.insert(flow.id, index);
                }
            }
        }
        it
    }

    /// The flow of a frame, and its measurement, if it has one.
    #[must_use]
    pub fn flow_of(&self, bytes: &[u8]) -> Option<(usize, Option<Measurement>)> {
        let frame = Frame::parse(bytes).ok()?;
        let destination = &frame.header.destination;
        let of_id = || self.by_id.get(&self.critical.id_of(destination)?);
        let flow = self.best_effort.get(&destination.0).or_else(of_id)?;
        Some((*flow, Measurement::parse(frame.payload).ok()))
    }

    /// Whether it is a frame of a virtual link that no flow has.
    #[must_use]
    pub fn is_unplanned(&self, frame: &Frame<'_>) -> bool {
        let id = self.critical.id_of(&frame.header.destination);
        id.is_some_and(|id| !self.by_id.contains_key(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_belong_to_the_flow_that_they_were_written_for() {
        let text = r#"
            cycle = "1ms"
            frames = { marker = 0xab000000, mask = 0xff000000, type = "length" }
            end_system = { a = {}, b = {} }
            link.one = { between = ["a", "b"] }
            [flow]
            tt = { class = "tt", id = 1, from = "a", to = "b", send = "0s" }
            rc = { class = "rc", id = 2, from = "a", to = "b", gap = "1ms", size = 100 }
            be = { class = "be", from = "a", to = "b", load = 1 }
        "#;
        let (network, findings) = crate::file::parse("network", text);
        let network = network.unwrap_or_else(|| panic!("{findings}"));
        let destinations = Destinations::new(&network);
        let source = Address([2, 0, 0, 0, 0, 1]);
        for (flow, head) in [
            (0, [0xAB, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 46]),
            (1, [0xAB, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0, 82]),
            (2, [0x03, b'B', b'E', 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5]),
        ] {
            let measurement =
                Measurement { run: 7, stream: flow, sequence: 3, scheduled_ns: 1, sent_ns: 2 };
            let mut bytes = [0; 1_514];
            let len = network.write_frame(source, &measurement, &mut bytes);
            let flow = usize::from(flow);
            assert_eq!(len, network.flows[flow].byte_len());
            assert_eq!(bytes[..14], head);
            assert_eq!(destinations.flow_of(&bytes[..len]), Some((flow, Some(measurement))));
            // Bits outside the mask do not count.
            bytes[1] ^= 0x55;
            let found = destinations.flow_of(&bytes[..len]).map(|(flow, _)| flow);
            assert_eq!(found, (flow < 2).then_some(flow));
        }
        // No flow has this number.
        let pcf = network.frames.pcf(source, 0xFFFF, &integration(5, Nanos::ZERO));
        assert_eq!(pcf[..14], [0xAB, 0, 0, 0, 0xFF, 0xFF, 2, 0, 0, 0, 0, 1, 0x89, 0x1D]);
        assert_eq!(destinations.flow_of(&pcf), None);
    }
}

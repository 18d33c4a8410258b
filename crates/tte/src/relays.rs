//! [`Relays`]: where time-triggered frames wait in a switch for their instants.

use std::collections::{BTreeMap, VecDeque};

use candor_causes::Cause;

use crate::{Network, RelayBuffer, Relaying, Role};

/// Frames that a relay buffer that keeps several holds at most.
const DEPTH: usize = 64;

/// The relay buffers of a node, by flow and hop.
pub(crate) struct Relays {
    policy: RelayBuffer,
    buffers: BTreeMap<(usize, usize), VecDeque<u32>>,
}

impl Relays {
    /// A buffer in front of each hop on which the node, a switch with a schedule, sends time-triggered frames.
    pub(crate) fn new(network: &Network, node: usize) -> Self {
        let mut relays = Self { policy: RelayBuffer::Overwrite, buffers: BTreeMap::new() };
        let Role::Switch(switch) = &network.nodes[node].role else { return relays };
        let Relaying::TimeTriggered(policy) = switch.relaying else { return relays };
        relays.policy = policy;
        for (index, flow) in network.flows.iter().enumerate() {
            for (number, hop) in flow.hops.iter().enumerate() {
                if flow.is_time_triggered() && hop.from == node {
                    relays.buffers.insert((index, number), VecDeque::new());
                }
            }
        }
        relays
    }

    /// The flows and hops with a buffer.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.buffers.keys().copied()
    }

    /// Whether there is a buffer.
    pub(crate) fn has(&self, flow: usize, hop: usize) -> bool {
        self.buffers.contains_key(&(flow, hop))
    }

    /// A frame waits for its instant. The one that is lost for it, if one is, and why.
    pub(crate) fn put(&mut self, flow: usize, hop: usize, id: u32) -> Option<(u32, Cause)> {
        let waiting = self.buffers.get_mut(&(flow, hop))?;
        let lost = match self.policy {
            RelayBuffer::Overwrite => waiting.pop_front().map(|old| (old, Cause::Overwritten)),
            RelayBuffer::Queue if waiting.len() == DEPTH => return Some((id, Cause::QueueFull)),
            RelayBuffer::Queue => None,
        };
        waiting.push_back(id);
        lost
    }

    /// The frame whose instant it is, if one waits.
    pub(crate) fn take(&mut self, flow: usize, hop: usize) -> Option<u32> {
        self.buffers.get_mut(&(flow, hop))?.pop_front()
    }
}

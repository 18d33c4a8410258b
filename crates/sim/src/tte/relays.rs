//! [`Relays`]: where time-triggered frames wait in switches for their instants.

use std::collections::VecDeque;

use candor_causes::Cause;
use candor_tte::{Network, RelayBuffer, Relaying, Role};

/// Frames that a relay buffer that keeps several holds at most.
const DEPTH: usize = 64;

/// The relay buffers, by flow and hop.
pub(super) struct Relays(Vec<Vec<Option<Buffer>>>);

/// The relay buffer of a flow in front of a hop.
struct Buffer {
    policy: RelayBuffer,
    waiting: VecDeque<u32>,
}

impl Relays {
    /// A buffer in front of each hop on which a switch with a schedule sends time-triggered frames.
    pub(super) fn new(network: &Network) -> Self {
        let flows = network.flows.iter().map(|flow| {
            let buffer = |hop: &candor_tte::Hop| match &network.nodes[hop.from].role {
                Role::Switch(switch) if flow.is_time_triggered() => match switch.relaying {
                    Relaying::TimeTriggered(policy) => {
                        Some(Buffer { policy, waiting: VecDeque::new() })
                    }
                    Relaying::StoreAndForward | Relaying::CutThrough => None,
                },
                Role::Switch(_) | Role::EndSystem(_) => None,
            };
            flow.hops.iter().map(buffer).collect()
        });
        Self(flows.collect())
    }

    /// Whether there is a buffer.
    pub(super) fn has(&self, flow: usize, hop: usize) -> bool {
        self.0[flow][hop].is_some()
    }

    /// A frame waits for its instant. The one that is lost for it, if one is, and why.
    pub(super) fn put(&mut self, flow: usize, hop: usize, id: u32) -> Option<(u32, Cause)> {
        let Buffer { policy, waiting } = self.0[flow][hop].as_mut()?;
        let lost = match policy {
            RelayBuffer::Overwrite => waiting.pop_front().map(|old| (old, Cause::Overwritten)),
            RelayBuffer::Queue if waiting.len() == DEPTH => return Some((id, Cause::QueueFull)),
            RelayBuffer::Queue => None,
        };
        waiting.push_back(id);
        lost
    }

    /// The frame whose instant it is, if one waits.
    pub(super) fn take(&mut self, flow: usize, hop: usize) -> Option<u32> {
        self.0[flow][hop].as_mut()?.waiting.pop_front()
    }
}

//! [`Bus`]: the CAN bus of a guest, in memory of a fixed size.

use candor_can::{Node, NodeId, Options, TimedFaults};
use candor_wire::can::Timing;

/// How many nodes a bus can have: controllers of the guest and of the tester.
pub const MOST_NODES: usize = 24;

/// Nodes of a bus, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Nodes {
    nodes: [Node; MOST_NODES],
    count: u8,
}

impl AsRef<[Node]> for Nodes {
    fn as_ref(&self) -> &[Node] {
        self.nodes.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

impl AsMut<[Node]> for Nodes {
    fn as_mut(&mut self) -> &mut [Node] {
        self.nodes.get_mut(..usize::from(self.count)).unwrap_or(&mut [])
    }
}

impl Nodes {
    /// Adds a node, which takes no part yet; `None` if there are [`MOST_NODES`].
    pub fn add(&mut self) -> Option<NodeId> {
        let id = NodeId(self.count.into());
        *self.nodes.get_mut(usize::from(self.count))? = Node::ABSENT;
        self.count += 1;
        Some(id)
    }
}

/// A bus of a guest.
pub type Bus = candor_can::Bus<Nodes, TimedFaults>;

/// A bus of these bit rates, without nodes. Frames are acknowledged by nodes only, and those that lose arbitration learn
/// it, as the registers of their controllers have it.
#[must_use]
pub fn new(timing: Timing) -> Bus {
    let nodes = Nodes { nodes: [Node::ABSENT; MOST_NODES], count: 0 };
    Bus::new(timing, nodes, TimedFaults::NONE, Options::default())
}

//! [`Flow`]: where each message goes, through gateways that forward it, and what that makes of the buses'
//! load.
//!
//! The rules are carried out by the engine itself, on a frame of each message, each as it forwards the most
//! (`forwarder`). So a bus never carries more than its load says.

mod forwarder;
#[cfg(test)]
mod tests;

use candor_wire::can::Frame;

use self::forwarder::{Copy, FlowForwarder};
use crate::Network;
use crate::message::{Message, Payload, longest_transmission};

/// How many copies gateways may make of one message.
pub const MOST_COPIES: usize = 1_000;
/// How many copies they may make of all messages.
pub const MOST_COPIES_IN_ALL: usize = 100_000;

/// A message on one bus: where it is sent, or where a gateway forwards it to.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The index of the node that sends the message.
    pub node: usize,
    /// The index of the message in that node.
    pub message: usize,
    /// The index of the bus.
    pub bus: usize,
    /// A frame of it, as it is on that bus.
    pub frame: Frame,
    /// The index of the flow that it is a copy of, in the list of [`flows`].
    pub parent: Option<usize>,
    /// The indices of the gateways that it has passed, in order; none on the bus where it is sent.
    pub gateways: Vec<usize>,
    /// The index of the rule of the last of them that sends it.
    pub rule: Option<usize>,
    /// Whether the bus cannot carry it: a CAN FD frame on a classical bus. Then it is lost.
    pub is_refused: bool,
}

impl Flow {
    /// The index of the gateway that sends it on its bus; `None` if its node does.
    #[must_use]
    pub fn sent_by(&self) -> Option<usize> {
        self.gateways.last().copied()
    }

    /// Whether the gateways forward both alike: data do not count.
    fn is_like(&self, other: &Self) -> bool {
        let shape = |it: &Frame| (it.can_id(), it.len(), it.raw_dlc(), it.is_fd(), it.fd_flags());
        (self.bus, self.sent_by(), shape(&self.frame))
            == (other.bus, other.sent_by(), shape(&other.frame))
    }
}

/// The share of its time that a bus is occupied, and by how many frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Frames per second.
    pub frames_per_second: f64,
    /// The share of time, 1 for all of it, if every frame has as many stuff bits as it may have.
    pub longest_share: f64,
}

/// A message whose copies cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbounded {
    /// The index of the node that sends it.
    pub node: usize,
    /// The index of the message in that node.
    pub message: usize,
    /// The index of the gateway that makes one copy more.
    pub gateway: usize,
    /// The index of its rule.
    pub rule: usize,
    /// Why they cannot be listed.
    pub reason: Reason,
}

/// Why the copies of a message cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Gateways send it round for ever: the indices of each gateway and of the bus that it sends to. The
    /// last two are the first again.
    Endless(Vec<(usize, usize)>),
    /// There are more than so many: [`MOST_COPIES`], or [`MOST_COPIES_IN_ALL`] of all messages.
    TooMany(usize),
}

/// Every message on every bus that it reaches, in the order of nodes and messages, and each from where it is
/// sent. Each copy is listed, also if another one is the same.
///
/// # Errors
/// Gateways send a message round for ever, or make too many copies of it.
pub fn flows(network: &Network) -> Result<Vec<Flow>, Unbounded> {
    let mut forwarders: Vec<_> =
        network.gateways.iter().map(|gateway| FlowForwarder::new(network, gateway)).collect();
    let mut flows = Vec::new();
    let mut left = MOST_COPIES_IN_ALL;
    for (node, message, bus, frame) in sent(network) {
        let is_refused = is_refused(network, bus, &frame);
        let gateways = Vec::new();
        let (parent, rule) = (None, None);
        let first = Flow { node, message, bus, frame, parent, gateways, rule, is_refused };
        let before = flows.len();
        let mut found = follow(network, &mut forwarders, first, &mut left)?;
        found.iter_mut().for_each(|flow| flow.parent = flow.parent.map(|it| it + before));
        flows.append(&mut found);
    }
    Ok(flows)
}

/// One message on every bus that it reaches, beginning with `first`. `left` copies may still be made.
fn follow(
    network: &Network,
    forwarders: &mut [FlowForwarder],
    first: Flow,
    left: &mut usize,
) -> Result<Vec<Flow>, Unbounded> {
    let (node, message) = (first.node, first.message);
    let unbounded = |gateway, rule, reason| Unbounded { node, message, gateway, rule, reason };
    let most = if *left < MOST_COPIES { MOST_COPIES_IN_ALL } else { MOST_COPIES };
    let mut budget = MOST_COPIES.min(*left);
    *left -= budget;
    let mut flows = vec![first];
    let mut next = 0;
    while let Some(flow) = flows.get(next).cloned() {
        for (gateway, forwarder) in forwarders.iter_mut().enumerate() {
            // A controller does not receive what it sends, and nobody what is refused.
            if flow.sent_by() == Some(gateway) || flow.is_refused {
                continue;
            }
            let copies = forwarder.copies(flow.bus, &flow.frame, &mut budget);
            let copies = copies.map_err(|rule| unbounded(gateway, rule, Reason::TooMany(most)))?;
            for Copy { bus, frame, rule } in copies {
                let gateways = flow.gateways.iter().copied().chain([gateway]).collect();
                let is_refused = is_refused(network, bus, &frame);
                let (parent, rule_of) = (Some(next), Some(rule));
                let copy = Flow { bus, frame, parent, gateways, rule: rule_of, is_refused, ..flow };
                if let Some(circle) = circle(&flows, &copy) {
                    return Err(unbounded(gateway, rule, Reason::Endless(circle)));
                }
                flows.push(copy);
            }
        }
        next += 1;
    }
    *left += budget;
    Ok(flows)
}

/// If one of the flows that `copy` comes from is like it: the gateways and buses from there to the copy.
fn circle(flows: &[Flow], copy: &Flow) -> Option<Vec<(usize, usize)>> {
    let step = |flow: &Flow| Some((flow.sent_by()?, flow.bus));
    let mut steps = vec![step(copy)?];
    let mut at = copy.parent;
    while let Some(index) = at {
        let flow = flows.get(index)?;
        steps.push(step(flow)?);
        if flow.is_like(copy) {
            steps.reverse();
            return Some(steps);
        }
        at = flow.parent;
    }
    None
}

/// Whether a bus cannot carry a frame.
fn is_refused(network: &Network, bus: usize, frame: &Frame) -> bool {
    network.buses.get(bus).is_none_or(|bus| {
        frame.is_fd() && !bus.is_fd || longest_transmission(frame, bus.timing).is_none()
    })
}

/// The messages of all nodes with a frame of each.
fn sent(network: &Network) -> impl Iterator<Item = (usize, usize, usize, Frame)> + '_ {
    network.nodes.iter().enumerate().flat_map(|(node, sender)| {
        let frames = sender.messages.iter().map(example).enumerate();
        frames.filter_map(move |(message, frame)| Some((node, message, sender.bus, frame?)))
    })
}

/// A frame of a message; data that nobody knows are zero.
fn example(message: &Message) -> Option<Frame> {
    let mut data = [0; 64];
    if let Payload::Bytes(bytes) = &message.payload {
        data.iter_mut().zip(bytes).for_each(|(byte, &given)| *byte = given);
    }
    message.frame(&data)
}

/// The load of each bus.
#[must_use]
pub fn loads(network: &Network, flows: &[Flow]) -> Vec<Load> {
    let mut loads = vec![Load::default(); network.buses.len()];
    for flow in flows.iter().filter(|flow| !flow.is_refused) {
        let message = network.nodes.get(flow.node).and_then(|it| it.messages.get(flow.message));
        let (Some(message), Some(bus), Some(load)) =
            (message, network.buses.get(flow.bus), loads.get_mut(flow.bus))
        else {
            continue;
        };
        let period_ns = message.period.as_nanos().max(1) as f64;
        let longest = longest_transmission(&flow.frame, bus.timing).unwrap_or_default();
        load.frames_per_second += 1e9 / period_ns;
        load.longest_share += longest.as_nanos() as f64 / period_ns;
    }
    loads
}

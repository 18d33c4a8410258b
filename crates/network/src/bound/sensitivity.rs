//! By how much a network may change for the worse until a frame can be late or lost.
//!
//! All bounds grow if a bus becomes slower or a message longer, so the last change that holds is found by halving.

use candor_wire::can::{Bitrate, Timing};

use super::network::{Bounds, Longer, bounds_with};
use crate::Network;
use crate::flow::Flow;

/// What does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Frames of this flow can be later than their deadline, or have no bound.
    Late(usize),
    /// This queue can lose frames: its index in [`Bounds::queues`].
    Overflow(usize),
}

impl Bounds {
    /// The first thing that does not hold: a queue, or the flow that is the latest beyond its deadline.
    #[must_use]
    pub fn trouble(&self, network: &Network, flows: &[Flow]) -> Option<Trouble> {
        if let Some(queue) = self.queues.iter().position(|it| it.overflows()) {
            return Some(Trouble::Overflow(queue));
        }
        let late = |(index, (flow, bound)): (usize, (&Flow, &Result<_, _>))| {
            let message = network.nodes.get(flow.node)?.messages.get(flow.message)?;
            let deadline_ns = message.deadline().as_nanos();
            match bound {
                Ok(super::Bound { worst_ns, .. }) if *worst_ns <= deadline_ns => None,
                Ok(super::Bound { worst_ns, .. }) => Some((worst_ns - deadline_ns, index)),
                Err(_) => Some((u64::MAX, index)),
            }
        };
        let all = flows.iter().zip(&self.flows).enumerate().filter_map(late);
        all.max_by_key(|&(late_ns, index)| (late_ns, usize::MAX - index))
            .map(|(_, index)| Trouble::Late(index))
    }
}

/// The lowest bit rate of a bus, in thousandths of what it has, with which all holds; and what breaks with a thousandth less.
/// `None` if it does not hold as it is.
#[must_use]
pub fn slowest(network: &Network, flows: &[Flow], bus: usize) -> Option<(Timing, Trouble)> {
    let slower = |thousandths: u64| {
        let mut network = network.clone();
        let timing = &mut network.buses.get_mut(bus)?.timing;
        let part = |rate: Bitrate| {
            let rate = u64::from(rate.bits_per_second()) * thousandths / 1_000;
            Bitrate::new(u32::try_from(rate).ok()?.max(1))
        };
        *timing = Timing { nominal: part(timing.nominal)?, data: part(timing.data)? };
        let timing = *timing;
        let bounds = bounds_with(&network, flows, None);
        Some((timing, bounds.trouble(&network, flows)))
    };
    let (mut timing, None) = slower(1_000)? else { return None };
    let (mut holds, mut breaks) = (1_000, 0);
    let mut trouble = slower(1)?.1?;
    while holds - breaks > 1 {
        let middle = (holds + breaks) / 2;
        match slower(middle)? {
            (slow, None) => (holds, timing) = (middle, slow),
            (_, Some(found)) => (breaks, trouble) = (middle, found),
        }
    }
    Some((timing, trouble))
}

/// So many bits a message may become longer at most.
pub const MOST_BITS: u32 = 100_000;

/// By how many bits a message may become longer, at the nominal bit rate of each bus that it reaches, so that all holds; and
/// what breaks with one more. `None` if it does not hold as it is, or with [`MOST_BITS`] more.
#[must_use]
pub fn longest(
    network: &Network,
    flows: &[Flow],
    (node, message): (usize, usize),
) -> Option<(u32, Trouble)> {
    let trouble_with = |bits: u32| {
        let bounds = bounds_with(network, flows, Some(Longer { node, message, bits }));
        bounds.trouble(network, flows)
    };
    let (mut holds, mut breaks) = (0, MOST_BITS);
    let mut trouble = trouble_with(breaks)?;
    if trouble_with(0).is_some() {
        return None;
    }
    while breaks - holds > 1 {
        let middle = holds.midpoint(breaks);
        match trouble_with(middle) {
            None => holds = middle,
            Some(found) => (breaks, trouble) = (middle, found),
        }
    }
    Some((holds, trouble))
}

//! The way of a flow over the links: the shortest path to each receiver, all together a tree.

use std::collections::VecDeque;

use candor_time::Nanos;

use crate::{Hop, Network, Role};

/// Why there is no way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No links lead to this node.
    Unreachable(usize),
    /// This node is reached over two paths of equal length.
    Ambiguous(usize),
}

/// Finds the tree from `from` to all of `to`. Frames pass switches only. `relay_delay` says how long a switch keeps
/// them.
///
/// # Errors
/// A node cannot be reached, or two paths are equally short.
pub fn route(
    network: &Network,
    from: usize,
    to: &[usize],
    send: Nanos,
    relay_delay: &dyn Fn(usize) -> Nanos,
) -> Result<Vec<Hop>, NoRoute> {
    let (over, is_ambiguous) = shortest(network, from);
    let mut hops: Vec<Hop> = Vec::new();
    for &receiver in to {
        let mut way = Vec::new();
        let mut node = receiver;
        while node != from {
            if is_ambiguous[node] {
                return Err(NoRoute::Ambiguous(node));
            }
            let (link, before) = over[node].ok_or(NoRoute::Unreachable(receiver))?;
            way.push((link, before, node));
            node = before;
        }
        let mut before = None;
        for &(link, node, next) in way.iter().rev() {
            let known = hops.iter().position(|hop| (hop.link, hop.from) == (link, node));
            before = Some(known.unwrap_or_else(|| {
                let (relay_delay, at) = match before.map(|index: usize| hops[index]) {
                    None => (Nanos::ZERO, send),
                    Some(hop) => {
                        let delay = relay_delay(node);
                        (delay, hop.at + network.links[hop.link].delay + delay)
                    }
                };
                hops.push(Hop { from: node, link, to: next, before, relay_delay, at });
                hops.len() - 1
            }));
        }
    }
    Ok(hops)
}

/// For each node the link over which it is reached first, and from which node; and whether another way is as short.
fn shortest(network: &Network, from: usize) -> (Vec<Option<(usize, usize)>>, Vec<bool>) {
    let count = network.nodes.len();
    let (mut over, mut is_ambiguous) = (vec![None; count], vec![false; count]);
    let mut distance = vec![usize::MAX; count];
    distance[from] = 0;
    let mut next = VecDeque::from([from]);
    while let Some(node) = next.pop_front() {
        // End systems pass nothing on.
        if node != from && !matches!(network.nodes[node].role, Role::Switch(_)) {
            continue;
        }
        for link in network.links_of(node) {
            let Some(other) = network.links[link].other_end(node) else { continue };
            if distance[other] == usize::MAX {
                distance[other] = distance[node] + 1;
                over[other] = Some((link, node));
                is_ambiguous[other] = is_ambiguous[node];
                next.push_back(other);
            } else if distance[other] == distance[node] + 1 {
                is_ambiguous[other] = true;
            }
        }
    }
    (over, is_ambiguous)
}

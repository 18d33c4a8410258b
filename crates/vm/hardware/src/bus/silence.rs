//! Recessive bits: what nodes count that take no part yet, or no more.

use super::{Bus, NodeId, Notice, Sink};
use crate::node::Node;

/// The recessive bits that a node counts while it takes no part.
const SEQUENCE_BITS: u32 = 11;
/// A bit that is cut short behind this point counts, in thousandths of a bit.
const SAMPLE_POINT_PERMILLE: u64 = 800;

impl Bus {
    /// Since when a node that waits for recessive bits has seen nothing else.
    pub(super) fn silent_since(&self, node: &Node) -> Option<u64> {
        let from = node.away?.watches_from_ns?;
        self.on_wire.is_none().then(|| self.recessive_since_ns.max(from))
    }

    /// How many sequences of recessive bits fit between two instants.
    pub(super) fn sequences(&self, now_ns: u64, since_ns: u64) -> u32 {
        let rate = u128::from(self.timing.nominal.bits_per_second());
        let thousandths = u128::from(now_ns.saturating_sub(since_ns)) * rate / 1_000_000;
        let bits = (thousandths + u128::from(1_000 - SAMPLE_POINT_PERMILLE)) / 1_000;
        (bits / u128::from(SEQUENCE_BITS)) as u32
    }

    /// When a node takes part, if the present silence lasts.
    pub(super) fn back_at(&self, node: &Node) -> Option<u64> {
        let missing = node.away?.missing;
        Some(self.silent_since(node)? + self.bits(missing * SEQUENCE_BITS))
    }

    /// A frame begins: whoever counts recessive bits begins a new sequence.
    pub(super) fn end_silence(&mut self, at: u64, sink: Sink<'_>) {
        for index in 0..self.count {
            let id = NodeId(index);
            let Some(since) = self.node(id).and_then(|it| self.silent_since(it)) else { continue };
            let seen = self.sequences(at, since);
            let Some(it) = self.node_mut(id) else { continue };
            let Some(away) = &mut it.away else { continue };
            away.missing = away.missing.saturating_sub(seen);
            if away.missing == 0 {
                it.come_back();
                sink(id, at, Notice::TakesPart);
            }
        }
    }
}

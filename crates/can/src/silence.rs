//! Recessive bits: what nodes count that take no part yet, or no more (ISO 11898-1, bus integration and recovery from
//! bus-off).
//!
//! An idle bus gives a sequence every 11 bits. On a busy one the end of a frame and its intermission are 11 recessive
//! bits, and the next frame breaks the silence: one sequence per frame.

use crate::bus::{Bus, Notice, Sink};
use crate::faults::Faults;
use crate::node::Node;

/// The recessive bits that a node counts while it takes no part.
const SEQUENCE_BITS: u32 = 11;
/// A bit that is cut short behind this point counts, in thousandths of a bit. CiA 301 recommends 87.5 %, Linux aims at
/// that or at 80 % (`can_calc_bittiming`).
const SAMPLE_POINT_PERMILLE: u64 = 800;

impl<N: AsRef<[Node]> + AsMut<[Node]>, F: Faults> Bus<N, F> {
    /// Since when a node that waits for recessive bits has seen nothing else.
    pub(crate) fn silent_since(&self, node: &Node) -> Option<u64> {
        let from = node.away?.watches_from_ns?;
        self.on_wire.is_none().then(|| self.recessive_since_ns.max(from))
    }

    /// How many sequences of recessive bits fit between two instants.
    pub(crate) fn sequences(&self, now_ns: u64, since_ns: u64) -> u32 {
        let rate = u128::from(self.timing.nominal.bits_per_second());
        let thousandths = u128::from(now_ns.saturating_sub(since_ns)) * rate / 1_000_000;
        let bits = (thousandths + u128::from(1_000 - SAMPLE_POINT_PERMILLE)) / 1_000;
        (bits / u128::from(SEQUENCE_BITS)) as u32
    }

    /// When a node takes part, if the present silence lasts.
    fn back_at(&self, node: &Node) -> Option<u64> {
        let missing = node.away?.missing;
        Some(self.silent_since(node)? + self.bits(missing * SEQUENCE_BITS))
    }

    /// Silence begins, or a node begins or ceases to count.
    #[inline]
    pub(crate) fn update_back(&mut self) {
        if self.nodes.as_ref().iter().all(|it| it.away.is_none()) {
            self.back_at_ns = u64::MAX;
        } else {
            let back = self.nodes.as_ref().iter().filter_map(|it| self.back_at(it));
            self.back_at_ns = back.min().unwrap_or(u64::MAX);
        }
    }

    /// Nodes that have seen what they waited for take part.
    pub(crate) fn bring_back(&mut self, at: u64, sink: &mut impl Sink) {
        for id in self.ids() {
            let due = self.node(id).and_then(|it| self.back_at(it)).is_some_and(|due| due <= at);
            if due && let Some(it) = self.node_mut(id) {
                it.come_back();
                sink.learn(id, at, Notice::TakesPart);
            }
        }
        self.update_back();
        self.update_ready();
    }

    /// A frame begins: whoever counts recessive bits begins a new sequence.
    pub(crate) fn end_silence(&mut self, at: u64, sink: &mut impl Sink) {
        for id in self.ids() {
            let Some(since) = self.node(id).and_then(|it| self.silent_since(it)) else { continue };
            let seen = self.sequences(at, since);
            let Some(it) = self.node_mut(id) else { continue };
            let Some(away) = &mut it.away else { continue };
            away.missing = away.missing.saturating_sub(seen);
            if away.missing == 0 {
                it.come_back();
                sink.learn(id, at, Notice::TakesPart);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candor_wire::can::Timing;

    use crate::{Bus, Node, Options};

    #[test]
    fn sequences_of_recessive_bits_are_counted_as_they_are_sampled() {
        let timing = Timing::classical("1M".parse().unwrap());
        let bus = Bus::new(timing, [Node::ABSENT], (), Options::default());
        for (nanos, sequences) in [
            (0, 0),
            (10_799, 0),
            (10_800, 1),
            (11_000, 1),
            (21_799, 1),
            (21_800, 2),
            (1_408_000, 128),
        ] {
            assert_eq!(bus.sequences(nanos, 0), sequences, "{nanos} ns");
        }
    }
}

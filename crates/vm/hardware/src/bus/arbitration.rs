//! Who sends, of those that want to.

use candor_wire::can::bits::{Length, TAIL_BITS, length, stream};
use candor_wire::can::{ErrorState, Frame};

use super::{Bus, NodeId, Nodes, Notice, OnWire, Sink, members, set, wire_bits};
use crate::error::{self, ErrorKind, Segment};
use crate::node::Node;

impl Bus {
    /// The most urgent frame goes on the wire.
    pub(super) fn arbitrate(&mut self, at: u64, sink: Sink<'_>) {
        let ready = |it: &Node| it.ready_at_ns().is_some_and(|ready| ready <= at);
        let candidates = || {
            let ready = self.all().filter(move |(_, it)| ready(it));
            ready.filter_map(|(id, it)| Some((id, it.request?.frame)))
        };
        let first = candidates().min_by_key(|(id, frame)| (frame.arbitration_key(), *id));
        let Some((_, frame)) = first else { return };
        let key = frame.arbitration_key();
        let (mut senders, mut losers) = (0, 0);
        for (id, other) in candidates() {
            *(if other.arbitration_key() == key { &mut senders } else { &mut losers }) |= set(id);
        }
        self.end_silence(at, sink);
        for id in members(senders | losers) {
            sink(id, at, Notice::Started);
        }
        let number = self.begun;
        self.begun += 1;
        let (senders, collision) = self.collide(senders, at, sink);
        let frame = members(senders)
            .next()
            .and_then(|id| Some(self.node(id)?.request?.frame))
            .unwrap_or(frame);
        // Error reports are never requested.
        let length =
            length(&frame).unwrap_or(Length { nominal: TAIL_BITS, data: 0, stuff_bits: 0 });
        let mut on_wire = OnWire {
            frame,
            length,
            start_ns: at,
            senders,
            losers,
            is_received: false,
            destroyed: None,
            is_flagged: false,
        };
        let mut fault = self.bit_errors.as_mut().and_then(|it| it.draw(wire_bits(length)));
        for slot in &mut self.faults {
            if let Some(told) =
                slot.take_if(|it| it.frame <= number).filter(|it| it.frame == number)
            {
                fault = Some(fault.map_or(told.bit, |bit: u32| bit.min(told.bit)));
            }
        }
        on_wire.destroyed = self.destroyed(&on_wire, fault, collision);
        self.on_wire = Some(on_wire);
    }

    /// Nodes that send frames with one identifier: those that go on together, and the first bit at which they destroy
    /// their frames.
    pub(super) fn collide(
        &mut self,
        mut senders: Nodes,
        at: u64,
        sink: Sink<'_>,
    ) -> (Nodes, Option<u32>) {
        loop {
            let frame = |id: NodeId| Some(self.node(id)?.request?.frame);
            let mut frames = members(senders).filter_map(|id| Some((id, frame(id)?)));
            let Some((_, first)) = frames.next() else { return (senders, None) };
            let differences = frames.filter_map(|(_, other)| first_difference(&first, &other));
            let Some(bit) = differences.min() else { return (senders, None) };
            let is_refuted = |id: &NodeId| {
                frame(*id).and_then(|frame| error::bit(&frame, bit)).is_some_and(|seen| seen.value)
            };
            let refuted = members(senders).filter(is_refuted).fold(0, |all, id| all | set(id));
            let is_active = |id: NodeId| self.state(id) == ErrorState::Active;
            if refuted == 0 || refuted == senders || members(refuted).any(is_active) {
                return (senders, Some(bit));
            }
            let segment = error::bit(&first, bit).map_or(Segment::DataField, |seen| seen.segment);
            for id in members(refuted) {
                self.fail(id, at, ErrorKind::Bit, segment, false, sink);
            }
            senders &= !refuted;
        }
    }

    /// The node that learns next that it has lost arbitration: which, when, and at which bit.
    pub(super) fn next_loser(&self, on_wire: &OnWire) -> Option<(NodeId, u64, u8)> {
        members(on_wire.losers).map(|id| self.loss(on_wire, id)).min_by_key(|&(id, at, _)| (at, id))
    }

    pub(super) fn loss(&self, on_wire: &OnWire, id: NodeId) -> (NodeId, u64, u8) {
        let node = self.node(id);
        let key = node.and_then(|it| it.request).map_or(u32::MAX, |it| it.frame.arbitration_key());
        let bit = (key ^ on_wire.frame.arbitration_key()).leading_zeros().min(31);
        let before = self.bits(place_on_wire(&on_wire.frame, bit + 1));
        let sample_point = u64::from(node.map_or(0, |it| it.sample_point_permille));
        let at = on_wire.start_ns + before + self.bits(1) * sample_point / 1_000;
        (id, at, bit as u8)
    }
}

/// How many bits of a frame, stuff bits counted, are before its bit `at`, stuff bits not counted.
fn place_on_wire(frame: &Frame, at: u32) -> u32 {
    let (mut index, mut place, mut found) = (0, 0, None);
    let _ = stream::encode(frame, |bit| {
        if !bit.is_stuff {
            if place == at {
                found = Some(index);
            }
            place += 1;
        }
        index += 1;
    });
    found.unwrap_or(index)
}

/// The first bit on the wire in which two frames differ.
fn first_difference(first: &Frame, other: &Frame) -> Option<u32> {
    let bits = |frame: &Frame| {
        // Of the longest frame: 64 bytes, stuff bits, CRC of 21 bits.
        let (mut levels, mut count) = ([0_u64; 12], 0_usize);
        let _ = stream::encode(frame, |bit| {
            if let Some(word) = levels.get_mut(count / 64) {
                *word |= u64::from(bit.value) << (count % 64);
            }
            count += 1;
        });
        (levels, count)
    };
    let ((first, length), (other, others)) = (bits(first), bits(other));
    let at =
        (0..length.min(others)).find(|at| (first[at / 64] ^ other[at / 64]) >> (at % 64) & 1 != 0);
    at.map(|at| at as u32)
}

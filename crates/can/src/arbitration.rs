//! Who sends, of those that want to.
//!
//! Two nodes with one identifier: CAN forbids it, for arbitration cannot tell such frames apart, so both nodes go on
//! sending. If their frames are equal to the last bit, nobody notices: on the bus they are one frame. Otherwise there is
//! a first bit in which they differ. Who sends it recessive reads it dominant, which is a bit error. An error-active node
//! destroys the frame for everybody with its flag; all begin again at the same time, collide again, and after 16 times are
//! error-passive. The flag of an error-passive node is recessive and disturbs nobody: then the frame with the dominant
//! bit gets through, and the other one follows.

use candor_wire::can::bits::{Length, stream};
use candor_wire::can::{ErrorState, Frame};

use crate::bus::{Bus, Notice, OnWire, Sink, after, wire_bits};
use crate::error::{self, ErrorKind, Segment};
use crate::faults::Faults;
use crate::node::{Node, NodeId, Role};

impl<N: AsRef<[Node]> + AsMut<[Node]>, F: Faults> Bus<N, F> {
    /// The most urgent frame goes on the wire.
    #[inline]
    pub(crate) fn arbitrate(&mut self, at: u64, sink: &mut impl Sink) {
        let mut first: Option<(u32, NodeId, Length)> = None;
        let (mut rivals, mut others) = (0_u32, 0_u32);
        for (id, node) in (0..).map(NodeId).zip(self.nodes.as_ref()) {
            let Some(request) = node.request.as_ref().filter(|_| node.ready_at_ns <= at) else {
                continue;
            };
            let key = request.frame.arbitration_key();
            match first {
                Some((best, ..)) if best < key => others += 1,
                Some((best, ..)) if best == key => rivals += 1,
                _ => {
                    others += rivals + u32::from(first.is_some());
                    (first, rivals) = (Some((key, id, request.length)), 0);
                }
            }
        }
        let Some((key, sender, length)) = first else { return };
        if self.back_at_ns != u64::MAX {
            self.end_silence(at, sink);
        }
        let fault = self.faults.draw(self.begun, sender, wire_bits(length));
        self.begun += 1;
        if let Some(node) = self.node_mut(sender) {
            node.role = Role::Sends;
        }
        if rivals == 0 && (others == 0 || self.options.is_arbitration_silent) {
            sink.learn(sender, at, Notice::Started);
            self.occupy(at, (sender, length));
            if fault.is_some() || !self.options.is_acknowledged {
                self.disturb(fault, None);
            }
            return;
        }
        self.mark_rivals(at, key, sink);
        let (sender, collision) = match rivals {
            0 => (sender, None),
            _ => self.collide(at, sender, fault),
        };
        let request = self.node(sender).and_then(|it| it.request.as_ref());
        let length = request.map_or(length, |it| it.length);
        self.occupy(at, (sender, length));
        self.mark_losers();
        self.disturb(fault, collision);
        self.update_gives_way();
    }

    /// All that begin: those with this key send, the others lose. In the order of nodes, so that each learns its begin in
    /// turn.
    #[cold]
    fn mark_rivals(&mut self, at: u64, key: u32, sink: &mut impl Sink) {
        let is_silent = self.options.is_arbitration_silent;
        for (id, node) in (0..).map(NodeId).zip(self.nodes.as_mut()) {
            let Some(request) = node.request.as_ref().filter(|_| node.ready_at_ns <= at) else {
                continue;
            };
            if request.frame.arbitration_key() == key {
                node.role = Role::Sends;
            } else if is_silent {
                continue;
            } else {
                // When it learns that is calculated when it is known what is on the wire.
                node.role = Role::Loses { at_ns: u64::MAX, bit: 0 };
            }
            sink.learn(id, at, Notice::Started);
        }
    }

    /// Nodes that send frames with one identifier: the first of those that go on together, and the bit at which they
    /// destroy their frames.
    fn collide(&mut self, at: u64, first: NodeId, fault: Option<u32>) -> (NodeId, Option<u32>) {
        self.statistics.id_collisions += 1;
        let can_id = self.frame_of(first).map(|it| it.can_id());
        self.statistics.collision_id = self.statistics.collision_id.or(can_id);
        let mut sender = first;
        loop {
            let Some(frame) = self.frame_of(sender) else { return (sender, None) };
            let others =
                self.senders().filter_map(|id| first_difference(&frame, &self.frame_of(id)?));
            let Some(bit) = others.min() else { return (sender, None) };
            // Destroyed by something else before they differ, or there: all that send have failed.
            if fault.is_some_and(|fault| fault <= bit) {
                return (sender, None);
            }
            let is_overridden = |id: &NodeId| {
                let seen = self.frame_of(*id).and_then(|frame| error::bit(&frame, bit));
                seen.is_some_and(|seen| seen.value)
            };
            let is_active = |id: NodeId| self.state(id) == ErrorState::Active;
            if self.senders().filter(is_overridden).any(is_active) {
                return (sender, Some(bit));
            }
            let segment = error::bit(&frame, bit).map_or(Segment::DataField, |seen| seen.segment);
            for id in self.ids() {
                let Some(frame) = self.frame_of(id).filter(|_| self.sends(id)) else { continue };
                let length = self.node(id).and_then(|it| it.request).map(|it| it.length);
                let (Some(seen), Some(length)) = (error::bit(&frame, bit), length) else {
                    continue;
                };
                let at_ns = at + after(self.timing, length, bit + 1);
                if let Some(node) = self.node_mut(id).filter(|_| seen.value) {
                    node.role = Role::Overridden { at_ns, segment };
                }
            }
            let Some(next) = self.senders().next() else { return (sender, Some(bit)) };
            sender = next;
        }
    }

    /// The frame that a node wants to send is on the wire, until its end or until an error.
    #[inline(always)]
    fn occupy(&mut self, at: u64, (sender, length): (NodeId, Length)) {
        let received_at_ns = match self.options.receives_at_end {
            true => u64::MAX,
            false => at + after(self.timing, length, wire_bits(length) - 1),
        };
        (self.abandoned, self.destroyed) = (None, None);
        self.on_wire = Some(OnWire {
            sender,
            length,
            start_ns: at,
            received_at_ns,
            ends_at_ns: at + self.timing.duration_ns(length.without_intermission()),
            gives_way_at_ns: u64::MAX,
            is_received: false,
        });
    }

    /// Those that lose arbitration against what is on the wire: when they learn it, and at which bit.
    fn mark_losers(&mut self) {
        let (Some(start_ns), Some(frame)) =
            (self.on_wire.as_ref().map(|it| it.start_ns), self.frame().copied())
        else {
            return;
        };
        for id in self.ids() {
            let Some(node) = self.node(id) else { continue };
            let (Role::Loses { .. }, Some(request)) = (node.role, node.request) else { continue };
            let difference = request.frame.arbitration_key() ^ frame.arbitration_key();
            let bit = difference.leading_zeros().min(31);
            let before = self.bits(place_on_wire(&frame, bit + 1));
            let sample_point = u64::from(node.sample_point_permille);
            let at_ns = start_ns + before + self.bits(1) * sample_point / 1_000;
            if let Some(node) = self.node_mut(id) {
                node.role = Role::Loses { at_ns, bit: bit as u8 };
            }
        }
    }

    /// The nodes that send what is on the wire.
    pub(crate) fn senders(&self) -> impl Iterator<Item = NodeId> {
        self.ids().filter(|&id| self.sends(id))
    }

    fn sends(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|it| it.role == Role::Sends)
    }

    fn frame_of(&self, id: NodeId) -> Option<Frame> {
        Some(self.node(id)?.request?.frame)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<N, F> {
        (0..self.nodes.as_ref().len() as u32).map(NodeId)
    }

    /// The roles of nodes have changed.
    pub(crate) fn update_gives_way(&mut self) {
        let at = self.nodes.as_ref().iter().filter_map(|it| match it.role {
            Role::Loses { at_ns, .. } | Role::Overridden { at_ns, .. } => Some(at_ns),
            Role::Reads | Role::Sends => None,
        });
        let at = at.min().unwrap_or(u64::MAX);
        if let Some(on_wire) = &mut self.on_wire {
            on_wire.gives_way_at_ns = at;
        }
    }

    /// The first of those whose time it is learns that its frame gave way to the one on the wire.
    pub(crate) fn give_way(&mut self, at: u64, sink: &mut impl Sink) {
        for id in self.ids() {
            let Some(node) = self.node_mut(id) else { continue };
            match node.role {
                Role::Loses { at_ns, bit } if at_ns <= at => {
                    node.role = Role::Reads;
                    node.give_up_single_shot();
                    sink.learn(id, at, Notice::LostArbitration { bit });
                    break;
                }
                Role::Overridden { at_ns, segment } if at_ns <= at => {
                    node.role = Role::Reads;
                    self.fail(id, at, ErrorKind::Bit, segment, false, sink);
                    break;
                }
                _ => {}
            }
        }
        self.update_gives_way();
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

//! How frames end: they get through, or an error destroys them (ISO 11898-1, error signalling and fault confinement).

use candor_wire::can::ErrorState;
use candor_wire::can::bits::{INTERMISSION_BITS, TAIL_BITS};

use crate::bus::{
    Bus, Destroyed, ERROR_TAIL_BITS, FLAG_BITS, FRAME_TAIL_BITS, Notice, OnWire, after, wire_bits,
};
use crate::error::{self, ErrorKind, Segment};
use crate::faults::Faults;
use crate::node::{Node, NodeId, Role};

/// A node that was error-passive when it sent waits this long after the intermission, in bits.
const SUSPEND_BITS: u32 = 8;

impl<N: AsRef<[Node]> + AsMut<[Node]>, F: Faults> Bus<N, F> {
    /// How a frame ends early, if it does: at a wrong bit (inverted, or where senders differ), or because nobody
    /// acknowledges it.
    pub(crate) fn destroyed(&self, on_wire: &OnWire, wrong: Option<u32>) -> Option<Destroyed> {
        let total = wire_bits(on_wire.length);
        let slot = total - FRAME_TAIL_BITS - 1;
        let acknowledges = |it: &Node| it.role != Role::Sends && it.acknowledges();
        let is_acknowledged =
            self.options.is_acknowledged || self.nodes.as_ref().iter().any(acknowledges);
        let wrong = wrong.filter(|&bit| bit < total);
        // An inverted slot looks like an acknowledgement where there is none. Where there is one, nodes that send it see a
        // bit error, and their flags tell the sender that it is not alone.
        let is_inverted = wrong == Some(slot);
        let unacknowledged = (is_acknowledged == is_inverted).then_some(slot);
        let wrong = wrong.filter(|_| !is_inverted);
        let bit = wrong.into_iter().chain(unacknowledged).min()?;
        let is_unacknowledged = bit == slot && !is_acknowledged;
        let seen = error::bit(&on_wire.frame, self.real_bit(on_wire, bit))?;
        let run = seen.opposite_before + 1;
        let is_dominant = seen.value;
        // Six equal bits, or a wrong bit where the form is fixed, are seen by all at the same time. Else the others notice
        // six equal bits, some of them of the first flag, and add a flag of their own.
        let is_form = !seen.is_stuffed && bit != slot;
        let is_seen_by_all = is_form || seen.is_stuffed && run > 5;
        let is_passive = self.senders().all(|id| self.state(id) == ErrorState::Passive);
        let equal = if is_dominant != is_passive { run.min(5) } else { 0 };
        let flags = match is_seen_by_all || bit == slot {
            true => FLAG_BITS,
            false => 2 * FLAG_BITS - equal,
        };
        let kind = match (bit == slot, is_form) {
            (true, _) => ErrorKind::Other,
            (false, true) => ErrorKind::Form,
            (false, false) => ErrorKind::Bit,
        };
        let flag_ns = on_wire.start_ns + after(self.timing, on_wire.length, bit + 1);
        let over_ns = flag_ns + self.bits(flags + ERROR_TAIL_BITS);
        Some(Destroyed {
            kind,
            others: match is_form {
                true => ErrorKind::Form,
                false if bit == slot => ErrorKind::Bit,
                false => ErrorKind::Stuff,
            },
            segment: seen.segment,
            flag_ns,
            recessive_ns: over_ns - self.bits(ERROR_TAIL_BITS),
            over_ns,
            is_unacknowledged,
            is_last_bit: bit + 1 == total,
        })
    }

    /// The bit that a frame has there, if its length is not its own but that of a worst case: those that it does not have
    /// count as its last ones before the CRC delimiter.
    fn real_bit(&self, on_wire: &OnWire, bit: u32) -> u32 {
        let real = candor_wire::can::bits::length(&on_wire.frame).unwrap_or(on_wire.length);
        let (real, assumed) = (real.total() - TAIL_BITS, on_wire.length.total() - TAIL_BITS);
        if bit >= assumed { real + (bit - assumed) } else { bit.min(real - 1) }
    }

    /// The only sender of the frame on the wire is gone: the others see six equal bits, unless all bits that are left are
    /// recessive.
    pub(crate) fn break_off(&mut self, now_ns: u64) {
        let (flag_ns, recessive_ns) = (self.bits(FLAG_BITS), self.bits(2 * FLAG_BITS));
        let over_ns = self.bits(FLAG_BITS + FLAG_BITS + ERROR_TAIL_BITS);
        let timing = self.timing;
        let Some(on_wire) = &mut self.on_wire else { return };
        let head = wire_bits(on_wire.length) - FRAME_TAIL_BITS;
        let recessive_from_ns = on_wire.start_ns + after(timing, on_wire.length, head);
        if on_wire.destroyed.is_none() && now_ns < recessive_from_ns {
            on_wire.destroy(Destroyed {
                kind: ErrorKind::Stuff,
                others: ErrorKind::Stuff,
                segment: Segment::DataField,
                flag_ns: now_ns + flag_ns,
                recessive_ns: now_ns + recessive_ns,
                over_ns: now_ns + over_ns,
                is_unacknowledged: false,
                is_last_bit: false,
            });
        }
    }

    /// The frame on the wire comes to its next stage.
    #[inline]
    pub(crate) fn go_on(&mut self, at: u64, sink: &mut impl FnMut(NodeId, u64, Notice)) {
        let Some(on_wire) = &self.on_wire else { return };
        if on_wire.gives_way_at_ns <= at {
            return self.give_way(at, sink);
        }
        if on_wire.received_at_ns <= at {
            return self.receive(at, sink);
        }
        if on_wire.destroyed.is_some() {
            self.flag(at, sink);
        } else {
            self.send(at, sink);
        }
    }

    /// Receivers have the frame.
    #[inline]
    fn receive(&mut self, at: u64, sink: &mut impl FnMut(NodeId, u64, Notice)) {
        let Some(on_wire) = &mut self.on_wire else { return };
        on_wire.received_at_ns = u64::MAX;
        on_wire.is_received = true;
        for (id, node) in (0..).map(NodeId).zip(self.nodes.as_mut()) {
            if node.role == Role::Sends {
                continue;
            }
            if node.reads() {
                node.receive_success();
                sink(id, at, Notice::Received(on_wire.frame));
            } else if node.is_bus_off() {
                sink(id, at, Notice::Missed);
            }
        }
    }

    /// The sender knows that its frame got through.
    #[inline]
    fn send(&mut self, at: u64, sink: &mut impl FnMut(NodeId, u64, Notice)) {
        if self.on_wire.as_ref().is_some_and(|it| !it.is_received) {
            self.receive(at, sink);
        }
        let Some(on_wire) = self.on_wire.take() else { return };
        let idle_at_ns = at + self.bits(INTERMISSION_BITS);
        self.statistics.frames += 1;
        self.end(on_wire.start_ns, at - self.bits(FRAME_TAIL_BITS), idle_at_ns);
        let mut ready_at_ns = u64::MAX;
        for (id, node) in (0..).map(NodeId).zip(self.nodes.as_mut()) {
            if node.role == Role::Sends {
                node.role = Role::Reads;
                node.errors.transmit_success();
                let requested_ns = node.request.take().map(|it| it.at_ns);
                if node.state() == ErrorState::Passive {
                    let suspended_ns = self.timing.nominal.duration_ns(SUSPEND_BITS);
                    node.suspended_until_ns = idle_at_ns + suspended_ns;
                }
                node.ready_at_ns = u64::MAX;
                sink(id, at, Notice::Sent(on_wire.passage(requested_ns)));
            }
            ready_at_ns = ready_at_ns.min(node.ready_at_ns);
        }
        self.ready_at_ns = ready_at_ns;
        self.update_back();
    }

    /// The first error flag begins.
    fn flag(&mut self, at: u64, sink: &mut impl FnMut(NodeId, u64, Notice)) {
        let last_bit = |it: &OnWire| it.destroyed.is_some_and(|destroyed| destroyed.is_last_bit);
        if self.on_wire.as_ref().is_some_and(|it| last_bit(it) && !it.is_received) {
            self.receive(at, sink);
        }
        let Some(on_wire) = self.on_wire.take() else { return };
        let Some(destroyed) = on_wire.destroyed else { return };
        let Destroyed { kind, others, segment, is_unacknowledged, over_ns, .. } = destroyed;
        self.statistics.error_frames += 1;
        self.end(on_wire.start_ns, destroyed.recessive_ns, over_ns);
        for id in self.ids() {
            if self.node(id).is_none_or(|it| it.role != Role::Sends) {
                continue;
            }
            if on_wire.is_received {
                let requested_ns = self.node(id).and_then(|it| it.request).map(|it| it.at_ns);
                sink(id, at, Notice::SentToOthers(on_wire.passage(requested_ns)));
            }
            self.fail(id, at, kind, segment, is_unacknowledged, sink);
            let until_ns = over_ns + self.bits(SUSPEND_BITS);
            if let Some(it) = self.node_mut(id).filter(|it| it.state() == ErrorState::Passive) {
                it.suspended_until_ns = until_ns;
                it.update_ready();
            }
        }
        // Without an acknowledgement nobody else takes part; else others have signalled an error, unless they have the
        // frame already.
        let is_noticed = !is_unacknowledged && !on_wire.is_received;
        for (id, node) in (0..).map(NodeId).zip(self.nodes.as_mut()) {
            let is_reader = node.role != Role::Sends && node.reads();
            node.role = Role::Reads;
            if is_noticed && is_reader {
                node.receive_error();
                sink(id, at, Notice::Failed { is_sender: false, kind: others, segment });
            }
        }
        self.update_ready();
        self.update_back();
    }

    /// A frame or an error frame was on the wire until the intermission after it is over.
    #[inline]
    fn end(&mut self, start_ns: u64, recessive_since_ns: u64, idle_at_ns: u64) {
        self.idle_at_ns = idle_at_ns;
        self.recessive_since_ns = recessive_since_ns;
        if self.statistics.last_ns == 0 {
            self.statistics.first_ns = start_ns;
        }
        self.statistics.last_ns = idle_at_ns;
        self.statistics.busy_ns += idle_at_ns - start_ns;
    }

    /// A node signals an error in its own frame.
    pub(crate) fn fail(
        &mut self,
        id: NodeId,
        at: u64,
        kind: ErrorKind,
        segment: Segment,
        is_unacknowledged: bool,
        sink: &mut impl FnMut(NodeId, u64, Notice),
    ) {
        let Some(it) = self.node_mut(id) else { return };
        // An error-passive node that nobody acknowledges counts no further (ISO 11898-1, exception 1).
        let is_counted = !is_unacknowledged || it.state() == ErrorState::Active;
        let is_off = is_counted && it.transmit_error();
        it.give_up_single_shot();
        sink(id, at, Notice::Failed { is_sender: true, kind, segment });
        if is_off {
            self.statistics.bus_offs += 1;
            sink(id, at, Notice::BusOff);
        }
    }
}

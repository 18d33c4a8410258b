//! How frames end: they get through, or an error destroys them (ISO 11898-1, error signalling and fault confinement).

use candor_wire::can::bits::{INTERMISSION_BITS, Length, TAIL_BITS, length};
use candor_wire::can::{ErrorState, Frame, Timing};

use crate::bus::{
    Bus, Destroyed, ERROR_TAIL_BITS, FLAG_BITS, FRAME_TAIL_BITS, Notice, OnWire, Passage, Sink,
    after, wire_bits,
};
use crate::error::{self, ErrorKind, Seen, Segment};
use crate::faults::Faults;
use crate::node::{Node, NodeId, Request, Role};

/// A node that was error-passive when it sent waits this long after the intermission, in bits.
const SUSPEND_BITS: u32 = 8;

impl<N: AsRef<[Node]> + AsMut<[Node]>, F: Faults> Bus<N, F> {
    /// What becomes of the frame on the wire with a bit that is inverted, and one where its senders differ.
    pub(crate) fn disturb(&mut self, fault: Option<u32>, collision: Option<u32>) {
        let Some(OnWire { start_ns, length, .. }) = self.on_wire else { return };
        let wrong = fault.into_iter().chain(collision).min();
        let bit = |bit| Some((bit, error::bit(self.frame()?, bit)?));
        let overridden = wrong.filter(|_| wrong == fault).and_then(bit);
        match overridden.filter(|(_, seen)| seen.value) {
            Some((bit, Seen { arbitration: Some(place), segment, .. })) => {
                self.lose_to_nobody(bit, place, segment);
            }
            _ => {
                if let Some(destroyed) = self.destroyed(start_ns, length, wrong) {
                    self.destroy(destroyed);
                }
            }
        }
    }

    /// A recessive bit of the arbitration field is inverted: its senders take it for lost arbitration, and nobody sends any more.
    /// All of them see six equal bits then (ISO 11898-1: a bit error is no error where arbitration decides).
    fn lose_to_nobody(&mut self, bit: u32, place: u8, segment: Segment) {
        let Some(OnWire { start_ns, length, .. }) = self.on_wire else { return };
        let Some(noticed) = self.frame().map(|frame| error::noticed_after(frame, bit, true)) else {
            return;
        };
        let (begin_ns, bit_ns) = (start_ns + self.bits(bit), self.bits(1));
        for node in self.nodes.as_mut() {
            let at_ns = begin_ns + bit_ns * u64::from(node.sample_point_permille) / 1_000;
            let is_later = matches!(node.role, Role::Loses { at_ns: later, .. } if later > at_ns);
            if node.role == Role::Sends || is_later {
                node.role = Role::Loses { at_ns, bit: place };
            }
        }
        let flag_ns = start_ns + after(self.timing, length, bit + 1) + self.bits(noticed);
        self.destroy(Destroyed {
            kind: ErrorKind::Stuff,
            others: ErrorKind::Stuff,
            segment,
            flag_ns,
            recessive_ns: flag_ns + self.bits(FLAG_BITS),
            over_ns: flag_ns + self.bits(FLAG_BITS + ERROR_TAIL_BITS),
            is_unacknowledged: false,
            is_last_bit: false,
        });
        self.update_gives_way();
    }

    /// How a frame ends early, if it does: at a wrong bit (inverted, or where senders differ), or because nobody
    /// acknowledges it.
    fn destroyed(&self, start_ns: u64, length: Length, wrong: Option<u32>) -> Option<Destroyed> {
        let total = wire_bits(length);
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
        let frame = self.frame()?;
        let seen = error::bit(frame, real_bit(frame, length, bit))?;
        // A wrong bit where the form is fixed is seen by all at the same time. Else the others may notice it some bits of the flag
        // later, and add a flag of their own.
        let is_form = !seen.is_stuffed && bit != slot;
        let is_passive = self.senders().all(|id| self.state(id) == ErrorState::Passive);
        let flags = match is_form || bit == slot {
            true => FLAG_BITS,
            false => {
                FLAG_BITS + error::noticed_after(frame, real_bit(frame, length, bit), is_passive)
            }
        };
        let kind = match (bit == slot, is_form) {
            (true, _) => ErrorKind::Other,
            (false, true) => ErrorKind::Form,
            (false, false) => ErrorKind::Bit,
        };
        let flag_ns = start_ns + after(self.timing, length, bit + 1);
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

    /// The frame on the wire ends so.
    #[cold]
    fn destroy(&mut self, destroyed: Destroyed) {
        if let Some(on_wire) = &mut self.on_wire {
            on_wire.ends_at_ns = destroyed.flag_ns;
            if !destroyed.is_last_bit {
                on_wire.received_at_ns = u64::MAX;
            }
        }
        self.destroyed = Some(destroyed);
    }

    /// The only sender of the frame on the wire is gone: the others see six equal bits, unless all bits that are left are
    /// recessive.
    pub(crate) fn break_off(&mut self, now_ns: u64) {
        let Some(OnWire { length, start_ns, .. }) = self.on_wire else { return };
        let head = wire_bits(length) - FRAME_TAIL_BITS;
        if self.destroyed.is_some() || now_ns >= start_ns + after(self.timing, length, head) {
            return;
        }
        self.destroy(Destroyed {
            kind: ErrorKind::Stuff,
            others: ErrorKind::Stuff,
            segment: Segment::DataField,
            flag_ns: now_ns + self.bits(FLAG_BITS),
            recessive_ns: now_ns + self.bits(2 * FLAG_BITS),
            over_ns: now_ns + self.bits(FLAG_BITS) + self.bits(FLAG_BITS + ERROR_TAIL_BITS),
            is_unacknowledged: false,
            is_last_bit: false,
        });
    }

    /// The frame on the wire comes to its next stage.
    #[inline]
    pub(crate) fn go_on(&mut self, at: u64, sink: &mut impl Sink) {
        let Some(on_wire) = &self.on_wire else { return };
        if on_wire.gives_way_at_ns <= at {
            return self.give_way(at, sink);
        }
        if on_wire.received_at_ns <= at {
            return self.receive(at, sink);
        }
        if self.destroyed.is_some() {
            self.flag(at, sink);
        } else {
            self.send(at, sink);
        }
    }

    /// Receivers have the frame.
    #[inline]
    fn receive(&mut self, at: u64, sink: &mut impl Sink) {
        let Some(frame) = self.frame().copied() else { return };
        if let Some(on_wire) = &mut self.on_wire {
            on_wire.received_at_ns = u64::MAX;
            on_wire.is_received = true;
        }
        for (id, node) in (0..).map(NodeId).zip(self.nodes.as_mut()) {
            if node.role == Role::Sends {
                continue;
            }
            if node.reads() {
                node.receive_success();
                sink.learn(id, at, Notice::Received(frame));
            } else if node.is_bus_off() {
                sink.learn(id, at, Notice::Missed);
            }
        }
    }

    /// The sender knows that its frame got through.
    #[inline]
    fn send(&mut self, at: u64, sink: &mut impl Sink) {
        let Some(OnWire { start_ns: started_ns, is_received, .. }) = self.on_wire else { return };
        if !is_received {
            self.receive(at, sink);
        }
        let timing = self.timing;
        let idle_at_ns = at + self.bits(INTERMISSION_BITS);
        self.statistics.frames += 1;
        self.end(started_ns, at - self.bits(FRAME_TAIL_BITS), idle_at_ns);
        let (mut ready_at_ns, mut is_away) = (u64::MAX, false);
        for (id, node) in (0..).map(NodeId).zip(self.nodes.as_mut()) {
            if node.role == Role::Sends {
                node.role = Role::Reads;
                node.ready_at_ns = u64::MAX;
                node.errors.transmit_success();
                if node.state() == ErrorState::Passive {
                    node.suspended_until_ns = idle_at_ns + suspension_ns(timing);
                }
                if let Some(Request { frame, at_ns: requested_ns, .. }) = node.request.take() {
                    let passage = Passage { frame, requested_ns, started_ns };
                    sink.learn(id, at, Notice::Sent(passage));
                }
            }
            ready_at_ns = ready_at_ns.min(node.ready_at_ns);
            is_away |= node.away.is_some();
        }
        self.ready_at_ns = ready_at_ns;
        if is_away {
            self.update_back();
        }
    }

    /// The first error flag begins.
    #[cold]
    fn flag(&mut self, at: u64, sink: &mut impl Sink) {
        let (Some(OnWire { start_ns: started_ns, is_received, .. }), Some(destroyed)) =
            (self.on_wire, self.destroyed)
        else {
            return;
        };
        if destroyed.is_last_bit && !is_received {
            self.receive(at, sink);
        }
        let Destroyed { kind, others, segment, is_unacknowledged, over_ns, .. } = destroyed;
        self.statistics.error_frames += 1;
        self.end(started_ns, destroyed.recessive_ns, over_ns);
        for id in self.ids() {
            let Some(node) = self.node(id).filter(|it| it.role == Role::Sends) else { continue };
            if destroyed.is_last_bit
                && let Some(Request { frame, at_ns: requested_ns, .. }) = node.request
            {
                let passage = Passage { frame, requested_ns, started_ns };
                sink.learn(id, at, Notice::SentToOthers(passage));
            }
            self.fail(id, at, kind, segment, is_unacknowledged, sink);
            let until_ns = over_ns + suspension_ns(self.timing);
            if let Some(it) = self.node_mut(id).filter(|it| it.state() == ErrorState::Passive) {
                it.suspended_until_ns = until_ns;
                it.update_ready();
            }
        }
        // Without an acknowledgement nobody else takes part; else others have signalled an error, unless they have the
        // frame already.
        let is_noticed = !is_unacknowledged && !destroyed.is_last_bit;
        for (id, node) in (0..).map(NodeId).zip(self.nodes.as_mut()) {
            let is_reader = node.role != Role::Sends && node.reads();
            node.role = Role::Reads;
            if is_noticed && is_reader {
                node.receive_error();
                sink.learn(id, at, Notice::Failed { is_sender: false, kind: others, segment });
            }
        }
        self.update_ready();
        self.update_back();
    }

    /// A frame or an error frame was on the wire until the intermission after it is over.
    #[inline]
    fn end(&mut self, start_ns: u64, recessive_since_ns: u64, idle_at_ns: u64) {
        self.on_wire = None;
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
        sink: &mut impl Sink,
    ) {
        let Some(it) = self.node_mut(id) else { return };
        // An error-passive node that nobody acknowledges counts no further (ISO 11898-1, exception 1).
        let is_counted = !is_unacknowledged || it.state() == ErrorState::Active;
        let is_off = is_counted && it.transmit_error();
        it.give_up_single_shot();
        sink.learn(id, at, Notice::Failed { is_sender: true, kind, segment });
        if is_off {
            self.statistics.bus_offs += 1;
            sink.learn(id, at, Notice::BusOff);
        }
    }
}

/// How long a node waits after an intermission that was error-passive when it sent.
fn suspension_ns(timing: Timing) -> u64 {
    timing.nominal.duration_ns(SUSPEND_BITS)
}

/// The bit that a frame has there, if its length is not its own but that of a worst case: bits that it does not have count
/// as its last one before the CRC delimiter.
fn real_bit(frame: &Frame, assumed: Length, bit: u32) -> u32 {
    let real = length(frame).unwrap_or(assumed).total() - TAIL_BITS;
    let assumed = assumed.total() - TAIL_BITS;
    if bit >= assumed { real + (bit - assumed) } else { bit.min(real - 1) }
}

//! How frames end: they get through, or an error destroys them.

use candor_wire::can::ErrorState;
use candor_wire::can::bits::INTERMISSION_BITS;

use super::{
    Bus, Destroyed, ERROR_TAIL_BITS, FLAG_BITS, FRAME_TAIL_BITS, NodeId, Notice, OnWire, Sink,
    after, members, set, wire_bits,
};
use crate::error::{self, ErrorKind, Segment};
use crate::node::Node;

/// A node that was error-passive when it sent waits this long after the intermission, in bits.
const SUSPEND_BITS: u32 = 8;

impl Bus {
    /// How a frame ends early, if it does: at an inverted bit, where senders differ, or because nobody acknowledges it.
    pub(super) fn destroyed(
        &self,
        on_wire: &OnWire,
        fault: Option<u32>,
        collision: Option<u32>,
    ) -> Option<Destroyed> {
        let total = wire_bits(on_wire.length);
        let acknowledges =
            |(id, it): (NodeId, &Node)| on_wire.senders & set(id) == 0 && it.acknowledges();
        let slot = total - FRAME_TAIL_BITS - 1;
        let is_acknowledged = self.all().any(acknowledges);
        let wrong = [fault, collision].into_iter().flatten().filter(|&bit| bit < total).min();
        // An inverted slot looks like an acknowledgement where there is none. Where there is one, nodes that send it see a
        // bit error, and their flags tell the sender that it is not alone.
        let is_inverted = wrong == Some(slot);
        let unacknowledged = (is_acknowledged == is_inverted).then_some(slot);
        let wrong = wrong.filter(|_| !is_inverted);
        let bit = wrong.into_iter().chain(unacknowledged).min()?;
        let is_unacknowledged = bit == slot && !is_acknowledged;
        let seen = error::bit(&on_wire.frame, bit)?;
        let run = seen.opposite_before + 1;
        let is_dominant = seen.value;
        // Six equal bits, or a wrong bit where the form is fixed, are seen by all at the same time. Else the others notice
        // six equal bits, some of them of the first flag, and add a flag of their own.
        let is_form = !seen.is_stuffed && bit != slot;
        let is_seen_by_all = is_form || seen.is_stuffed && run > 5;
        let is_passive = members(on_wire.senders).all(|id| self.state(id) == ErrorState::Passive);
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
        Some(Destroyed {
            kind,
            others: match is_form {
                true => ErrorKind::Form,
                false if bit == slot => ErrorKind::Bit,
                false => ErrorKind::Stuff,
            },
            segment: seen.segment,
            flag_ns,
            over_ns: flag_ns + self.bits(flags + ERROR_TAIL_BITS),
            is_unacknowledged,
        })
    }

    /// When the frame on the wire comes to its next stage.
    pub(super) fn next_stage(&self, on_wire: &OnWire) -> u64 {
        let total = wire_bits(on_wire.length);
        let received = on_wire.start_ns + after(self.timing, on_wire.length, total - 1);
        match on_wire.destroyed {
            Some(destroyed) if on_wire.is_flagged => destroyed.over_ns,
            Some(destroyed) if on_wire.is_received || destroyed.flag_ns <= received => {
                destroyed.flag_ns
            }
            _ if !on_wire.is_received => received,
            _ => on_wire.start_ns + after(self.timing, on_wire.length, total),
        }
    }

    pub(super) fn go_on(&mut self, on_wire: OnWire, at: u64, sink: Sink<'_>) {
        if let Some((id, lost_ns, bit)) =
            self.next_loser(&on_wire).filter(|(_, lost_ns, _)| *lost_ns <= at)
        {
            let _ = lost_ns;
            if let Some(it) = &mut self.on_wire {
                it.losers &= !set(id);
            }
            if let Some(it) = self.node_mut(id) {
                it.request = it.request.filter(|request| !request.is_single_shot);
            }
            return sink(id, at, Notice::LostArbitration { bit });
        }
        match on_wire.destroyed {
            Some(destroyed) if on_wire.is_flagged => self.end(&on_wire, destroyed.over_ns, true),
            Some(destroyed) if at == destroyed.flag_ns => self.flag(&on_wire, destroyed, at, sink),
            _ if !on_wire.is_received => self.receive(&on_wire, at, sink),
            _ => self.send(&on_wire, at, sink),
        }
    }

    /// Receivers have the frame.
    pub(super) fn receive(&mut self, on_wire: &OnWire, at: u64, sink: Sink<'_>) {
        if let Some(it) = &mut self.on_wire {
            it.is_received = true;
        }
        for id in self.readers(on_wire) {
            if let Some(it) = self.node_mut(id) {
                it.receive_success();
            }
            sink(id, at, Notice::Received(on_wire.frame));
        }
    }

    /// Those that read a frame that they do not send.
    pub(super) fn readers(&self, on_wire: &OnWire) -> impl Iterator<Item = NodeId> + use<> {
        let reads = |(id, it): &(NodeId, &Node)| on_wire.senders & set(*id) == 0 && it.reads();
        members(self.all().filter(reads).fold(0, |all, (id, _)| all | set(id)))
    }

    /// The sender knows that its frame got through.
    pub(super) fn send(&mut self, on_wire: &OnWire, at: u64, sink: Sink<'_>) {
        self.statistics.frames += 1;
        self.end(on_wire, at + self.bits(INTERMISSION_BITS), false);
        for id in members(on_wire.senders) {
            let Some(it) = self.node_mut(id) else { continue };
            it.transmit_success();
            let requested_ns = it.request.take().map(|it| it.at_ns);
            sink(id, at, Notice::Sent(on_wire.passage(requested_ns)));
        }
    }

    /// The wire is free from `idle_at_ns` on.
    pub(super) fn end(&mut self, on_wire: &OnWire, idle_at_ns: u64, is_error: bool) {
        self.on_wire = None;
        self.idle_at_ns = idle_at_ns;
        let recessive =
            if is_error { ERROR_TAIL_BITS } else { FRAME_TAIL_BITS + INTERMISSION_BITS };
        self.recessive_since_ns = idle_at_ns - self.bits(recessive);
        if self.statistics.last_ns == 0 {
            self.statistics.first_ns = on_wire.start_ns;
        }
        self.statistics.last_ns = idle_at_ns;
        self.statistics.busy_ns += idle_at_ns - on_wire.start_ns;
        self.statistics.error_frames += u64::from(is_error);
        let until = idle_at_ns + self.bits(SUSPEND_BITS);
        for id in members(on_wire.senders) {
            if let Some(it) = self.node_mut(id).filter(|it| it.state() == ErrorState::Passive) {
                it.suspended_until_ns = until;
            }
        }
    }

    /// The first error flag begins.
    pub(super) fn flag(&mut self, on_wire: &OnWire, destroyed: Destroyed, at: u64, sink: Sink<'_>) {
        if let Some(it) = &mut self.on_wire {
            it.is_flagged = true;
            it.losers = 0;
        }
        let Destroyed { kind, others, segment, is_unacknowledged, .. } = destroyed;
        for id in members(on_wire.senders) {
            if on_wire.is_received {
                let requested_ns = self.node(id).and_then(|it| it.request).map(|it| it.at_ns);
                sink(id, at, Notice::SentToOthers(on_wire.passage(requested_ns)));
            }
            self.fail(id, at, kind, segment, is_unacknowledged, sink);
        }
        if is_unacknowledged || on_wire.is_received {
            // Nobody else takes part, or has the frame already.
            return;
        }
        for id in self.readers(on_wire) {
            if let Some(it) = self.node_mut(id) {
                it.receive_error();
            }
            sink(id, at, Notice::Failed { is_sender: false, kind: others, segment });
        }
    }

    /// A node signals an error in its own frame.
    pub(super) fn fail(
        &mut self,
        id: NodeId,
        at: u64,
        kind: ErrorKind,
        segment: Segment,
        is_unacknowledged: bool,
        sink: Sink<'_>,
    ) {
        let Some(it) = self.node_mut(id) else { return };
        // An error-passive node that nobody acknowledges counts no further (ISO 11898-1, exception 1).
        let is_counted = !is_unacknowledged || it.state() == ErrorState::Active;
        let is_off = is_counted && it.transmit_error();
        it.request = it.request.filter(|request| !request.is_single_shot);
        sink(id, at, Notice::Failed { is_sender: true, kind, segment });
        if is_off {
            self.statistics.bus_offs += 1;
            sink(id, at, Notice::BusOff);
        }
    }
}

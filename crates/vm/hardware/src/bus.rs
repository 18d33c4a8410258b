//! [`Bus`]: a bus with its nodes, exact to the bit.
//!
//! What is exact: when a frame begins and ends, stuff bits included; who loses arbitration, and at which bit; when
//! receivers have a frame (at the last bit but one of its end) and when its sender knows (at the last one); how long an
//! error frame takes, from the level of the bits around the error; suspend transmission; the way back from
//! bus-off, counted in recessive bits.
//!
//! What is simpler than on a wire: all nodes see the same levels, without delay; a node that wants to send while the bus
//! is idle begins at once, without waiting for a bit boundary; two error-passive nodes that send different frames with
//! one identifier learn of it at the start of the frame; there are no overload frames.

use candor_wire::can::bits::{INTERMISSION_BITS, Length, TAIL_BITS, length, stream};
use candor_wire::can::{Frame, Timing};

use crate::error::{self, ErrorKind, Segment};
use crate::node::{Away, ErrorState, Node, Request, Taking};

/// How many nodes a bus can have: controllers of the guest and of the tester.
pub const MOST_NODES: usize = 24;
/// How many faults a bus can be given at a time.
pub const MOST_FAULTS: usize = 32;

/// Acknowledge delimiter (1) and end of frame (7): recessive, in bits.
const FRAME_TAIL_BITS: u32 = 1 + 7;
/// An error flag of one node, in bits.
const FLAG_BITS: u32 = 6;
/// Error delimiter (8) and intermission (3) after the flags, in bits: all recessive.
const ERROR_TAIL_BITS: u32 = 8 + INTERMISSION_BITS;
/// A node that was error-passive when it sent waits this long after the intermission, in bits.
const SUSPEND_BITS: u32 = 8;
/// The recessive bits that a node counts while it takes no part.
const SEQUENCE_BITS: u32 = 11;
/// A bit that is cut short behind this point counts, in thousandths of a bit.
const SAMPLE_POINT_PERMILLE: u64 = 800;

/// A node of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u8);

/// A set of nodes.
type Nodes = u32;

/// What a node learns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Notice {
    /// Its frame begins; also if it loses arbitration.
    Started,
    /// Another frame was more urgent: at this bit of the arbitration field, from 0, stuff bits not counted.
    LostArbitration {
        /// 0 to 10: the base identifier; 11: RTR or SRR; 12: IDE; 13 to 30: the identifier extension; 31: RTR.
        bit: u8,
    },
    /// Its frame got through.
    Sent,
    /// A frame of somebody else got through.
    Received(Frame),
    /// An error flag begins.
    Failed {
        /// Whether it is in a frame of its own.
        is_sender: bool,
        /// What was wrong.
        kind: ErrorKind,
        /// Where in the frame.
        segment: Segment,
    },
    /// Its error counter took it off the bus.
    BusOff,
    /// It takes part, for the first time or again.
    TakesPart,
}

/// A bit that is inverted on the bus, for all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In which frame that begins on the bus, counted from 0.
    pub frame: u64,
    /// At which of its bits, from 0, stuff bits counted. A frame that ends before has none.
    pub bit: u32,
}

/// What happened on a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that got through.
    pub frames: u64,
    /// Frames that were destroyed, each with an error frame.
    pub error_frames: u64,
    /// How often a node went bus-off.
    pub bus_offs: u64,
    /// How long it was occupied, intermissions and error frames included, in ns.
    pub busy_ns: u64,
}

/// What is on the wire.
#[derive(Clone, Copy, Debug)]
struct OnWire {
    frame: Frame,
    length: Length,
    start_ns: u64,
    /// Those that send these bits.
    senders: Nodes,
    /// Those that have lost arbitration and do not know yet.
    losers: Nodes,
    is_received: bool,
    destroyed: Option<Destroyed>,
    is_flagged: bool,
}

/// How a frame ends early.
#[derive(Clone, Copy, Debug)]
struct Destroyed {
    kind: ErrorKind,
    /// What those notice that do not send.
    others: ErrorKind,
    segment: Segment,
    /// When the first error flag begins.
    flag_ns: u64,
    /// When the intermission after it is over.
    over_ns: u64,
    /// Nobody acknowledged it.
    is_unacknowledged: bool,
}

/// A CAN bus with its nodes.
#[derive(Clone, Copy, Debug)]
pub struct Bus {
    timing: Timing,
    nodes: [Node; MOST_NODES],
    count: u8,
    on_wire: Option<OnWire>,
    now_ns: u64,
    idle_at_ns: u64,
    recessive_since_ns: u64,
    begun: u64,
    faults: [Option<Fault>; MOST_FAULTS],
    statistics: Statistics,
}

/// Gets what nodes learn: which node, when in ns, what.
pub type Sink<'a> = &'a mut dyn FnMut(NodeId, u64, Notice);

impl Bus {
    /// A bus of these bit rates, without nodes. It is idle since time 0.
    #[must_use]
    pub const fn new(timing: Timing) -> Self {
        Self {
            timing,
            nodes: [Node::NEW; MOST_NODES],
            count: 0,
            on_wire: None,
            now_ns: 0,
            idle_at_ns: 0,
            recessive_since_ns: 0,
            begun: 0,
            faults: [None; MOST_FAULTS],
            statistics: Statistics { frames: 0, error_frames: 0, bus_offs: 0, busy_ns: 0 },
        }
    }

    /// Its bit rates.
    #[must_use]
    pub const fn timing(&self) -> Timing {
        self.timing
    }

    /// Adds a node, which takes no part yet; `None` if there are [`MOST_NODES`].
    pub fn add(&mut self) -> Option<NodeId> {
        let id = NodeId(self.count);
        *self.nodes.get_mut(usize::from(id.0))? = Node::NEW;
        self.count += 1;
        Some(id)
    }

    /// A bit of a frame to come is inverted. Whether there is room for so many faults.
    pub fn add_fault(&mut self, fault: Fault) -> bool {
        let free = self.faults.iter_mut().find(|it| it.is_none());
        free.map(|free| *free = Some(fault)).is_some()
    }

    /// What happened so far; of what is on the wire, nothing.
    #[must_use]
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// How many frames have begun.
    #[must_use]
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// The error state of a node.
    #[must_use]
    pub fn state(&self, node: NodeId) -> ErrorState {
        self.node(node).map_or(ErrorState::BusOff, Node::state)
    }

    /// The transmit and the receive error counter of a node. While a bus-off node comes back, the first one counts
    /// the sequences of recessive bits down that are missing.
    #[must_use]
    pub fn error_counters(&self, node: NodeId, now_ns: u64) -> (u32, u32) {
        let Some(it) = self.node(node) else { return (0, 0) };
        match it.away.filter(|away| away.is_bus_off) {
            None => (it.transmit_errors, it.receive_errors),
            Some(away) => {
                let seen = self.silent_since(it).map_or(0, |since| self.sequences(now_ns, since));
                (away.missing.saturating_sub(seen).saturating_sub(1), 0)
            }
        }
    }

    /// Sets the error counters, as software can while a controller is in reset.
    pub fn set_error_counters(&mut self, node: NodeId, transmit: u32, receive: u32) {
        if let Some(it) = self.node_mut(node) {
            (it.transmit_errors, it.receive_errors) = (transmit, receive);
        }
    }

    /// Whether a node has a frame that is not sent yet.
    #[must_use]
    pub fn has_request(&self, node: NodeId) -> bool {
        self.node(node).is_some_and(|it| it.request.is_some())
    }

    /// Whether a node sends the bits that are on the wire.
    #[must_use]
    pub fn is_sending(&self, node: NodeId) -> bool {
        self.on_wire.is_some_and(|it| it.senders & set(node) != 0 && !it.is_flagged)
    }

    /// Whether a node reads a frame that somebody else sends.
    #[must_use]
    pub fn is_receiving(&self, node: NodeId) -> bool {
        let is_foreign = self.on_wire.is_some_and(|it| it.senders & set(node) == 0);
        is_foreign && self.node(node).is_some_and(Node::reads)
    }

    /// A node wants to take part: it does after 11 recessive bits, a bus-off one after 128 times as many. One that
    /// listens reads only. Where in a bit it samples is in thousandths.
    pub fn join(
        &mut self,
        node: NodeId,
        is_listening: bool,
        sample_point_permille: u16,
        now_ns: u64,
    ) {
        let Some(it) = self.node_mut(node) else { return };
        it.taking = if is_listening { Taking::Listening } else { Taking::Part };
        it.sample_point_permille = sample_point_permille;
        let new = Away { watches_from_ns: None, missing: 1, is_bus_off: false };
        it.away = Some(Away { watches_from_ns: Some(now_ns), ..it.away.unwrap_or(new) });
    }

    /// A node takes no part any more, and gives up what it wants to send. A frame that only it sends breaks off; the
    /// others see six equal bits.
    pub fn leave(&mut self, node: NodeId, now_ns: u64) {
        let Some(it) = self.node_mut(node) else { return };
        it.taking = Taking::None;
        it.request = None;
        it.away = it
            .away
            .filter(|away| away.is_bus_off)
            .map(|away| Away { watches_from_ns: None, ..away });
        let (timing, bits) = (self.timing, |bits| self.bits(bits));
        let (flag, tail) = (bits(FLAG_BITS), bits(FLAG_BITS + ERROR_TAIL_BITS));
        let Some(on_wire) = &mut self.on_wire else { return };
        on_wire.losers &= !set(node);
        if on_wire.senders & set(node) == 0 {
            return;
        }
        on_wire.senders &= !set(node);
        let recessive_from = on_wire.start_ns
            + after(timing, on_wire.length, wire_bits(on_wire.length) - FRAME_TAIL_BITS);
        if on_wire.senders == 0 && on_wire.destroyed.is_none() && now_ns < recessive_from {
            on_wire.destroyed = Some(Destroyed {
                kind: ErrorKind::Stuff,
                others: ErrorKind::Stuff,
                segment: Segment::DataField,
                flag_ns: now_ns + flag,
                over_ns: now_ns + flag + tail,
                is_unacknowledged: false,
            });
        }
    }

    /// A node wants to send a frame. One that it wanted to send before is forgotten. Nothing happens before
    /// [`Bus::advance`].
    pub fn request(&mut self, node: NodeId, request: Request) {
        if let Some(it) = self.node_mut(node) {
            it.request = Some(request);
        }
    }

    /// A node no longer wants to send its frame. Whether it is given up at once: what is on the wire stays there, but
    /// is not repeated.
    pub fn withdraw(&mut self, node: NodeId) -> bool {
        let is_sending = self.is_sending(node);
        let Some(it) = self.node_mut(node) else { return true };
        match &mut it.request {
            Some(request) if is_sending => request.is_single_shot = true,
            request => *request = None,
        }
        !is_sending
    }

    /// When something happens next, in ns; `None` if nothing does before somebody wants to send.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let next =
            match &self.on_wire {
                Some(on_wire) => {
                    let lost = self.next_loser(on_wire).map(|(_, at, _)| at);
                    Some(lost.map_or(self.next_stage(on_wire), |lost| {
                        lost.min(self.next_stage(on_wire))
                    }))
                }
                None => {
                    let ready = self.all().filter_map(|(_, it)| it.ready_at_ns());
                    let begin = ready.min().map(|at| at.max(self.idle_at_ns));
                    let back = self.all().filter_map(|(_, it)| self.back_at(it)).min();
                    begin.into_iter().chain(back).min()
                }
            };
        next.map(|at| at.max(self.now_ns))
    }

    /// Brings the bus to `now_ns`: everything that happens until then, and at that instant.
    pub fn advance(&mut self, now_ns: u64, sink: Sink<'_>) {
        while let Some(at) = self.deadline().filter(|&at| at <= now_ns) {
            self.now_ns = at;
            match self.on_wire {
                None => self.begin(at, sink),
                Some(on_wire) => self.go_on(on_wire, at, sink),
            }
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::from(id.0))
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(usize::from(id.0))
    }

    fn all(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..self.count).map(NodeId).zip(&self.nodes)
    }

    fn bits(&self, bits: u32) -> u64 {
        self.timing.nominal.duration_ns(bits)
    }

    /// Since when a node that waits for recessive bits has seen nothing else.
    fn silent_since(&self, node: &Node) -> Option<u64> {
        let from = node.away?.watches_from_ns?;
        self.on_wire.is_none().then(|| self.recessive_since_ns.max(from))
    }

    /// How many sequences of recessive bits fit between two instants.
    fn sequences(&self, now_ns: u64, since_ns: u64) -> u32 {
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

    /// The bus is silent: nodes come back, or frames begin.
    fn begin(&mut self, at: u64, sink: Sink<'_>) {
        let mut is_back = false;
        for index in 0..self.count {
            let id = NodeId(index);
            let due = self.node(id).and_then(|it| self.back_at(it)).is_some_and(|due| due <= at);
            if due && let Some(it) = self.node_mut(id) {
                it.come_back();
                sink(id, at, Notice::TakesPart);
                is_back = true;
            }
        }
        if !is_back {
            self.arbitrate(at, sink);
        }
    }

    /// The most urgent frame goes on the wire.
    fn arbitrate(&mut self, at: u64, sink: Sink<'_>) {
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
        let mut fault = None;
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

    /// A frame begins: whoever counts recessive bits begins a new sequence.
    fn end_silence(&mut self, at: u64, sink: Sink<'_>) {
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

    /// Nodes that send frames with one identifier: those that go on together, and the first bit at which they destroy
    /// their frames.
    fn collide(&mut self, mut senders: Nodes, at: u64, sink: Sink<'_>) -> (Nodes, Option<u32>) {
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

    /// How a frame ends early, if it does: at an inverted bit, where senders differ, or because nobody acknowledges it.
    fn destroyed(
        &self,
        on_wire: &OnWire,
        fault: Option<u32>,
        collision: Option<u32>,
    ) -> Option<Destroyed> {
        let total = wire_bits(on_wire.length);
        let acknowledges =
            |(id, it): (NodeId, &Node)| on_wire.senders & set(id) == 0 && it.acknowledges();
        let slot = total - FRAME_TAIL_BITS - 1;
        let unacknowledged = (!self.all().any(acknowledges)).then_some(slot);
        let wrong = [fault, collision].into_iter().flatten().filter(|&bit| bit < total).min();
        let bit = wrong.into_iter().chain(unacknowledged).min()?;
        let is_unacknowledged = wrong.is_none_or(|wrong| wrong > bit) || bit == slot;
        let seen = error::bit(&on_wire.frame, bit)?;
        let run = seen.opposite_before + 1;
        let is_dominant = seen.value;
        // Six equal bits, or a wrong bit where the form is fixed, are seen by all at the same time. Else the others notice
        // six equal bits, some of them of the first flag, and add a flag of their own.
        let is_form = !seen.is_stuffed && bit != slot;
        let is_seen_by_all = is_form || seen.is_stuffed && run > 5;
        let is_passive = members(on_wire.senders).all(|id| self.state(id) == ErrorState::Passive);
        let equal = if is_dominant != is_passive { run.min(5) } else { 0 };
        let flags = match is_seen_by_all || is_unacknowledged {
            true => FLAG_BITS,
            false => 2 * FLAG_BITS - equal,
        };
        let kind = match (is_unacknowledged, is_form) {
            (true, _) => ErrorKind::Other,
            (false, true) => ErrorKind::Form,
            (false, false) => ErrorKind::Bit,
        };
        let flag_ns = on_wire.start_ns + after(self.timing, on_wire.length, bit + 1);
        Some(Destroyed {
            kind,
            others: if is_form { ErrorKind::Form } else { ErrorKind::Stuff },
            segment: seen.segment,
            flag_ns,
            over_ns: flag_ns + self.bits(flags + ERROR_TAIL_BITS),
            is_unacknowledged,
        })
    }

    /// The node that learns next that it has lost arbitration: which, when, and at which bit.
    fn next_loser(&self, on_wire: &OnWire) -> Option<(NodeId, u64, u8)> {
        members(on_wire.losers).map(|id| self.loss(on_wire, id)).min_by_key(|&(id, at, _)| (at, id))
    }

    fn loss(&self, on_wire: &OnWire, id: NodeId) -> (NodeId, u64, u8) {
        let node = self.node(id);
        let key = node.and_then(|it| it.request).map_or(u32::MAX, |it| it.frame.arbitration_key());
        let bit = (key ^ on_wire.frame.arbitration_key()).leading_zeros().min(31);
        let before = self.bits(place_on_wire(&on_wire.frame, bit + 1));
        let sample_point = u64::from(node.map_or(0, |it| it.sample_point_permille));
        let at = on_wire.start_ns + before + self.bits(1) * sample_point / 1_000;
        (id, at, bit as u8)
    }

    /// When the frame on the wire comes to its next stage.
    fn next_stage(&self, on_wire: &OnWire) -> u64 {
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

    fn go_on(&mut self, on_wire: OnWire, at: u64, sink: Sink<'_>) {
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
    fn receive(&mut self, on_wire: &OnWire, at: u64, sink: Sink<'_>) {
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
    fn readers(&self, on_wire: &OnWire) -> impl Iterator<Item = NodeId> + use<> {
        let reads = |(id, it): &(NodeId, &Node)| on_wire.senders & set(*id) == 0 && it.reads();
        members(self.all().filter(reads).fold(0, |all, (id, _)| all | set(id)))
    }

    /// The sender knows that its frame got through.
    fn send(&mut self, on_wire: &OnWire, at: u64, sink: Sink<'_>) {
        self.statistics.frames += 1;
        self.end(on_wire, at + self.bits(INTERMISSION_BITS), false);
        for id in members(on_wire.senders) {
            if let Some(it) = self.node_mut(id) {
                it.transmit_success();
                it.request = None;
            }
            sink(id, at, Notice::Sent);
        }
    }

    /// The wire is free from `idle_at_ns` on.
    fn end(&mut self, on_wire: &OnWire, idle_at_ns: u64, is_error: bool) {
        self.on_wire = None;
        self.idle_at_ns = idle_at_ns;
        let recessive =
            if is_error { ERROR_TAIL_BITS } else { FRAME_TAIL_BITS + INTERMISSION_BITS };
        self.recessive_since_ns = idle_at_ns - self.bits(recessive);
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
    fn flag(&mut self, on_wire: &OnWire, destroyed: Destroyed, at: u64, sink: Sink<'_>) {
        if let Some(it) = &mut self.on_wire {
            it.is_flagged = true;
            it.losers = 0;
        }
        let Destroyed { kind, others, segment, is_unacknowledged, .. } = destroyed;
        for id in members(on_wire.senders) {
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
    fn fail(
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

/// The set that has this node only.
const fn set(id: NodeId) -> Nodes {
    1 << id.0
}

/// The nodes of a set, in their order.
fn members(nodes: Nodes) -> impl Iterator<Item = NodeId> {
    (0..MOST_NODES as u8).map(NodeId).filter(move |&id| nodes & set(id) != 0)
}

/// The bits of a frame from its start to its end, without intermission.
const fn wire_bits(length: Length) -> u32 {
    length.total() - INTERMISSION_BITS
}

/// How long so many first bits of a frame take, in ns. An error in the data phase of CAN FD switches the rate back at the
/// sample point of the wrong bit, as the CRC delimiter does.
fn after(timing: Timing, length: Length, bits: u32) -> u64 {
    // The CRC delimiter is the last data bit, if there are data bits.
    let head = length.nominal.saturating_sub(TAIL_BITS - 1);
    let data = bits.saturating_sub(head).min(length.data);
    timing.duration_ns(Length { nominal: bits - data, data, stuff_bits: 0 })
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

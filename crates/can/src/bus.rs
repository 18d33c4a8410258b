//! [`Bus`]: a bus with its nodes, exact to the bit.
//!
//! What is exact: when a frame begins and ends, stuff bits included; who loses arbitration, and at which bit; when
//! receivers have a frame (at the last bit but one of its end) and when its sender knows (at the last one); how long an
//! error frame takes, from the level of the bits around the error; suspend transmission; the way back from
//! bus-off, counted in recessive bits.
//!
//! What is simpler than on a wire: all nodes see the same levels, without delay; a node that wants to send while the bus
//! is idle begins at once, without waiting for a bit boundary; there are no overload frames.

use candor_wire::can::bits::{INTERMISSION_BITS, Length, TAIL_BITS};
use candor_wire::can::{ErrorCounters, ErrorState, Frame, Timing};

use crate::error::{ErrorKind, Segment};
use crate::faults::Faults;
use crate::node::{Away, Node, NodeId, Participation, Request, Role};

/// Acknowledge delimiter (1) and end of frame (7): recessive, in bits. The acknowledge slot before them is dominant.
pub(crate) const FRAME_TAIL_BITS: u32 = 1 + 7;
/// An error flag of one node, in bits.
pub(crate) const FLAG_BITS: u32 = 6;
/// Error delimiter (8) and intermission (3) after the flags, in bits: all recessive.
pub(crate) const ERROR_TAIL_BITS: u32 = 8 + INTERMISSION_BITS;

/// What a node learns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Notice {
    /// Its frame begins; also if it loses arbitration.
    Started,
    /// Another frame was more urgent, or a bit error looks like it: at this bit of the arbitration field, from 0, stuff bits not counted.
    LostArbitration {
        /// 0 to 10: the base identifier; 11: RTR or SRR; 12: IDE; 13 to 30: the identifier extension; 31: RTR.
        bit: u8,
    },
    /// Its frame got through.
    Sent(Passage),
    /// Others have its frame, but an error hits the last bit: it sends the frame again, which they have twice then (ISO
    /// 11898-1: a frame is valid for receivers before the last bit of its end of frame, for its sender after it).
    SentToOthers(Passage),
    /// A frame of somebody else got through.
    Received(Frame),
    /// A frame of somebody else got through, which it could not read since it is bus-off.
    Missed,
    /// An error flag begins.
    Failed {
        /// Whether it is in a frame of its own.
        is_sender: bool,
        kind: ErrorKind,
        /// Where in the frame.
        segment: Segment,
    },
    /// Its error counter took it off the bus.
    BusOff,
    /// It takes part, for the first time or again.
    TakesPart,
}

/// Takes what nodes learn. A function of node, time in ns and notice is one.
pub trait Sink {
    /// A node learns something, at this time in ns.
    fn learn(&mut self, node: NodeId, at_ns: u64, notice: Notice);
}

impl<S: FnMut(NodeId, u64, Notice)> Sink for S {
    #[inline]
    fn learn(&mut self, node: NodeId, at_ns: u64, notice: Notice) {
        self(node, at_ns, notice);
    }
}

/// The way of a frame onto the wire; it ends when its sender knows, at the end of its end-of-frame field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    pub frame: Frame,
    /// Since when its sender wanted to send it, in ns.
    pub requested_ns: u64,
    /// When its start of frame began, in ns.
    pub started_ns: u64,
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
    /// How often nodes began a frame with the same identifier at once, which CAN forbids.
    pub id_collisions: u64,
    /// The identifier word of the first of these frames.
    pub collision_id: Option<u32>,
    /// How long it was occupied, intermissions and error frames included, in ns.
    pub busy_ns: u64,
    /// When its first frame began, in ns.
    pub first_ns: u64,
    /// When the intermission after its last frame or error frame was over, in ns; 0 if there was none.
    pub last_ns: u64,
}

impl Statistics {
    const NONE: Self = Self {
        frames: 0,
        error_frames: 0,
        bus_offs: 0,
        id_collisions: 0,
        collision_id: None,
        busy_ns: 0,
        first_ns: 0,
        last_ns: 0,
    };
}

/// How much of a bus there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Each frame is acknowledged by somebody who is no node of it.
    pub is_acknowledged: bool,
    /// Receivers have a frame at the end of its last bit, together with its sender, and not one bit before.
    pub receives_at_end: bool,
    /// Nodes that lose arbitration against another frame learn nothing of it: neither that theirs began nor that it lost.
    pub is_arbitration_silent: bool,
}

/// What comes next on a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireStage {
    /// Nobody sends: the most urgent frame begins, or a node takes part again.
    Begins,
    /// The frame on the wire goes on or ends.
    GoesOn,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OnWire {
    /// The first of those that send it; its request has the frame.
    pub(crate) sender: NodeId,
    pub(crate) length: Length,
    pub(crate) start_ns: u64,
    /// When receivers have it, if nothing destroys it before; `u64::MAX` if they have it, or get it when it ends.
    pub(crate) received_at_ns: u64,
    /// When its sender knows that it got through, or when the first error flag begins.
    pub(crate) ends_at_ns: u64,
    /// When the next of those learns its fate that gave way to it; `u64::MAX` if there is none.
    pub(crate) gives_way_at_ns: u64,
    pub(crate) is_received: bool,
}

/// How a frame ends early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destroyed {
    pub(crate) kind: ErrorKind,
    /// What those notice that do not send.
    pub(crate) others: ErrorKind,
    pub(crate) segment: Segment,
    /// When the first error flag begins.
    pub(crate) flag_ns: u64,
    /// When the last one is over.
    pub(crate) recessive_ns: u64,
    /// When the intermission after it is over.
    pub(crate) over_ns: u64,
    /// Nobody acknowledged it.
    pub(crate) is_unacknowledged: bool,
    /// Its last bit is the wrong one: receivers have it by then.
    pub(crate) is_last_bit: bool,
}

/// A CAN bus: `N` has its nodes, `F` says which bits are inverted.
#[derive(Clone, Copy, Debug)]
pub struct Bus<N, F> {
    pub(crate) timing: Timing,
    pub(crate) options: Options,
    pub(crate) nodes: N,
    pub(crate) faults: F,
    pub(crate) on_wire: Option<OnWire>,
    /// How it ends early, if it does.
    pub(crate) destroyed: Option<Destroyed>,
    /// The frame on the wire, if its first sender has left meanwhile.
    pub(crate) abandoned: Option<Frame>,
    now_ns: u64,
    /// When the intermission after the last frame or error frame is over.
    pub(crate) idle_at_ns: u64,
    /// Since when the wire is recessive; means nothing while a frame is on it.
    pub(crate) recessive_since_ns: u64,
    /// The earliest of the nodes' `ready_at_ns`; means nothing while a frame is on the wire.
    pub(crate) ready_at_ns: u64,
    /// When the first of the nodes that are away takes part if the present silence lasts; `u64::MAX` if none does.
    pub(crate) back_at_ns: u64,
    pub(crate) begun: u64,
    pub(crate) statistics: Statistics,
}

impl<N: AsRef<[Node]> + AsMut<[Node]>, F: Faults> Bus<N, F> {
    /// A bus of these bit rates. It is idle since time 0.
    pub fn new(timing: Timing, nodes: N, faults: F, options: Options) -> Self {
        Self {
            timing,
            options,
            nodes,
            faults,
            on_wire: None,
            destroyed: None,
            abandoned: None,
            now_ns: 0,
            idle_at_ns: 0,
            recessive_since_ns: 0,
            ready_at_ns: u64::MAX,
            back_at_ns: u64::MAX,
            begun: 0,
            statistics: Statistics::NONE,
        }
    }

    /// Its bit rates.
    #[must_use]
    pub const fn timing(&self) -> Timing {
        self.timing
    }

    /// Its nodes, to add some: new ones come behind the others.
    pub const fn nodes_mut(&mut self) -> &mut N {
        &mut self.nodes
    }

    /// What inverts its bits.
    pub const fn faults_mut(&mut self) -> &mut F {
        &mut self.faults
    }

    /// Counts from here on, and numbers frames for faults from 0.
    pub const fn count_anew(&mut self) {
        (self.statistics, self.begun) = (Statistics::NONE, 0);
    }

    /// What happened so far; of what is on the wire, nothing.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// How many frames have begun.
    #[must_use]
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// When the intermission after the last frame or error frame is over, in ns.
    #[must_use]
    pub const fn idle_at_ns(&self) -> u64 {
        self.idle_at_ns
    }

    #[must_use]
    pub fn state(&self, node: NodeId) -> ErrorState {
        self.node(node).map_or(ErrorState::BusOff, Node::state)
    }

    /// The error counters of a node. While a bus-off node comes back, that of transmission counts the sequences of recessive bits down that are missing.
    #[must_use]
    pub fn error_counters(&self, node: NodeId, now_ns: u64) -> ErrorCounters {
        let Some(it) = self.node(node) else { return ErrorCounters::default() };
        match it.away.filter(|away| away.is_bus_off) {
            None => it.errors,
            Some(away) => {
                let seen = self.silent_since(it).map_or(0, |since| self.sequences(now_ns, since));
                let missing = away.missing.saturating_sub(seen).saturating_sub(1);
                ErrorCounters { transmit: missing, receive: 0 }
            }
        }
    }

    /// Sets the error counters, as software can while a controller is in reset.
    pub fn set_error_counters(&mut self, node: NodeId, errors: ErrorCounters) {
        if let Some(it) = self.node_mut(node) {
            it.errors = errors;
        }
    }

    /// A node goes bus-off, as after its 32nd error in a row: for tests of what is around it.
    pub fn take_off(&mut self, node: NodeId) {
        if let Some(it) = self.node_mut(node) {
            it.go_off();
            self.statistics.bus_offs += 1;
            self.update_ready();
        }
    }

    /// Whether a node has a frame that is not sent yet.
    #[must_use]
    pub fn has_request(&self, node: NodeId) -> bool {
        self.node(node).is_some_and(|it| it.request.is_some())
    }

    /// Whether a node sends the bits that are on the wire.
    #[inline]
    #[must_use]
    pub fn is_sending(&self, node: NodeId) -> bool {
        self.on_wire.is_some() && self.node(node).is_some_and(|it| it.role == Role::Sends)
    }

    /// Whether a node reads a frame that somebody else sends.
    #[must_use]
    pub fn is_receiving(&self, node: NodeId) -> bool {
        let reads = |it: &Node| it.role != Role::Sends && it.reads();
        self.on_wire.is_some() && self.node(node).is_some_and(reads)
    }

    /// A node wants to take part: it does after 11 recessive bits, a bus-off one after 128 times as many, counted from
    /// `from_ns` on. One that listens reads only. Where in a bit it samples is in thousandths.
    pub fn join(
        &mut self,
        node: NodeId,
        is_listening: bool,
        sample_point_permille: u16,
        from_ns: u64,
    ) {
        let Some(it) = self.node_mut(node) else { return };
        it.taking = if is_listening { Participation::Listening } else { Participation::Part };
        it.sample_point_permille = sample_point_permille;
        let new = Away { watches_from_ns: None, missing: 1, is_bus_off: false };
        it.away = Some(Away { watches_from_ns: Some(from_ns), ..it.away.unwrap_or(new) });
        it.update_ready();
        self.update_back();
    }

    /// A node takes no part any more, and gives up what it wants to send. A frame that only it sends breaks off; the
    /// others see six equal bits.
    pub fn leave(&mut self, node: NodeId, now_ns: u64) {
        let is_sending = self.is_sending(node);
        if is_sending {
            let frame = self.node(node).and_then(|it| it.request).map(|it| it.frame);
            if self.on_wire.as_ref().is_some_and(|it| it.sender == node) {
                self.abandoned = frame;
            }
        }
        let Some(it) = self.node_mut(node) else { return };
        it.taking = Participation::None;
        it.request = None;
        it.suspended_until_ns = 0;
        it.role = Role::Reads;
        it.away = it
            .away
            .filter(|away| away.is_bus_off)
            .map(|away| Away { watches_from_ns: None, ..away });
        it.update_ready();
        self.update_back();
        if self.on_wire.is_none() {
            return self.update_ready();
        }
        self.update_gives_way();
        let is_carried = self.nodes.as_ref().iter().any(|it| it.role == Role::Sends);
        if is_sending && !is_carried {
            self.break_off(now_ns);
        }
    }

    /// A node wants to send a frame. One that it wanted to send before is forgotten; while that is on the wire, nothing
    /// changes. Nothing happens before [`Bus::advance`].
    #[inline]
    pub fn request(&mut self, node: NodeId, request: Request) {
        let Some(it) = self.node_mut(node).filter(|it| it.role != Role::Sends) else { return };
        let before = it.ready_at_ns;
        it.request = Some(request);
        it.update_ready();
        let ready_at_ns = it.ready_at_ns;
        if ready_at_ns <= before {
            self.ready_at_ns = self.ready_at_ns.min(ready_at_ns);
        } else {
            self.update_ready();
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
        it.update_ready();
        self.update_ready();
        !is_sending
    }

    /// What comes next, and when in ns; `None` if nothing does before somebody wants to send.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Option<(u64, WireStage)> {
        let (at, stage) = match &self.on_wire {
            Some(OnWire { received_at_ns, ends_at_ns, gives_way_at_ns, .. }) => {
                (*received_at_ns.min(ends_at_ns).min(gives_way_at_ns), WireStage::GoesOn)
            }
            None => (self.ready_at_ns.max(self.idle_at_ns).min(self.back_at_ns), WireStage::Begins),
        };
        (at != u64::MAX).then(|| (at.max(self.now_ns), stage))
    }

    /// When something happens next, in ns; `None` if nothing does before somebody wants to send.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.next().map(|(at, _)| at)
    }

    /// What is next happens, at this time. `sink` gets what nodes learn.
    #[inline(always)]
    pub fn step(&mut self, (at, stage): (u64, WireStage), sink: &mut impl Sink) {
        self.now_ns = at;
        match stage {
            WireStage::Begins => self.begin(at, sink),
            WireStage::GoesOn => self.go_on(at, sink),
        }
    }

    /// Brings the bus to `now_ns`: everything that happens until then, and at that instant. `sink` gets what nodes
    /// learn.
    pub fn advance(&mut self, now_ns: u64, sink: &mut impl FnMut(NodeId, u64, Notice)) {
        while let Some(next) = self.next().filter(|&(at, _)| at <= now_ns) {
            self.step(next, sink);
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.as_ref().get(id.0 as usize)
    }

    #[inline]
    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.as_mut().get_mut(id.0 as usize)
    }

    /// The frame on the wire.
    #[inline]
    pub(crate) fn frame(&self) -> Option<&Frame> {
        let sender = self.on_wire.as_ref()?.sender;
        self.abandoned.as_ref().or_else(|| Some(&self.node(sender)?.request.as_ref()?.frame))
    }

    #[inline]
    pub(crate) fn bits(&self, bits: u32) -> u64 {
        self.timing.nominal.duration_ns(bits)
    }

    /// Requests or suspensions have changed.
    #[inline]
    pub(crate) fn update_ready(&mut self) {
        let ready = self.nodes.as_ref().iter().map(|it| it.ready_at_ns);
        self.ready_at_ns = ready.min().unwrap_or(u64::MAX);
    }

    /// The bus is silent: nodes come back, or frames begin.
    #[inline]
    fn begin(&mut self, at: u64, sink: &mut impl Sink) {
        if self.back_at_ns <= at {
            self.bring_back(at, sink);
        } else {
            self.arbitrate(at, sink);
        }
    }
}

/// The bits of a frame from its start to its end, without intermission.
#[inline]
pub(crate) const fn wire_bits(length: Length) -> u32 {
    length.total() - INTERMISSION_BITS
}

/// How long so many first bits of a frame take, in ns. An error in the data phase of CAN FD switches the rate back at the
/// sample point of the wrong bit, as the CRC delimiter does.
pub(crate) fn after(timing: Timing, length: Length, bits: u32) -> u64 {
    // The CRC delimiter is the last data bit, if there are data bits.
    let head = length.nominal.saturating_sub(TAIL_BITS - 1);
    let data = bits.saturating_sub(head).min(length.data);
    timing.duration_ns(Length { nominal: bits - data, data, stuff_bits: 0 })
}

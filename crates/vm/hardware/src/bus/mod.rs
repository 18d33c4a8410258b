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

mod arbitration;
mod ending;
mod silence;

use candor_random::BitErrors;
use candor_wire::can::bits::{INTERMISSION_BITS, Length, TAIL_BITS};
use candor_wire::can::{ErrorCounters, ErrorState, Frame, Timing};

use crate::error::{ErrorKind, Segment};
use crate::node::{Away, Node, Request, Taking};

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
    Sent(Passage),
    /// Others have its frame, but an error hits the last bit: it sends the frame again, which they have twice then (ISO
    /// 11898-1: a frame is valid for receivers before the last bit of its end of frame, for its sender after it).
    SentToOthers(Passage),
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

/// The way of a frame onto the wire; it ends when its sender knows, at the end of its end-of-frame field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// The frame.
    pub frame: Frame,
    /// Since when its sender wanted to send it, in ns.
    pub requested_ns: u64,
    /// When its start of frame began, in ns.
    pub started_ns: u64,
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
    /// When its first frame began, in ns.
    pub first_ns: u64,
    /// When the intermission after its last frame or error frame was over, in ns; 0 if there was none.
    pub last_ns: u64,
}

impl Statistics {
    const NONE: Self =
        Self { frames: 0, error_frames: 0, bus_offs: 0, busy_ns: 0, first_ns: 0, last_ns: 0 };
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

impl OnWire {
    /// Its way, for one that wanted to send it since then.
    fn passage(&self, requested_ns: Option<u64>) -> Passage {
        let (frame, started_ns) = (self.frame, self.start_ns);
        Passage { frame, requested_ns: requested_ns.unwrap_or(started_ns), started_ns }
    }
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
    bit_errors: Option<BitErrors>,
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
            bit_errors: None,
            statistics: Statistics::NONE,
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

    /// Bits are destroyed by this law from now on, beside single faults.
    pub const fn set_bit_errors(&mut self, bit_errors: BitErrors) {
        self.bit_errors = Some(bit_errors);
    }

    /// Counts from here on, and numbers frames for bit errors from 0.
    pub const fn count_anew(&mut self) {
        (self.statistics, self.begun) = (Statistics::NONE, 0);
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

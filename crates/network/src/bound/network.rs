//! How late the frames of a network can be on each bus that they reach: the laws of buses, gateways and queues together.
//!
//! # From bus to bus
//!
//! A frame arrives on its bus at least the shortest transmission `S`, and at most the bound `R` after its nominal release. A
//! gateway has its copy in the transmit queue at least `d` and at most `D` later. So copies are queued as if released `S + d`
//! after the message, with a jitter of `R + D - S - d`, which may well be above the period: the frames stay in their order. Such a
//! jitter makes others later, and theirs may come back to this bus. All jitters begin with none, and are computed again until none
//! grows: that is the least fixed point. (K. Tindell, J. Clark, "Holistic schedulability analysis for distributed hard real-time
//! systems", Microprocessing and Microprogramming 40 (1994), pages 117 to 134.) From the release of the message to the end of the
//! copy, there pass at least all `S` and `d` of its way, and at most those before the last bus, and the bound there.
//!
//! `S` is a frame without a stuff bit and without intermission, its parts rounded down; if the data of a message are given, the
//! frame that they make, on the bus where it is sent. Of a message whose frames differ in length it is the shortest one; a rule
//! that changes the length may leave a copy of it nothing.
//!
//! # What a queue holds
//!
//! A frame is in its queue from when it is queued until its transmission has ended, `Q + C` later at most, with `Q` the longest
//! wait. At any time all frames of a message in the queue were queued within the time `Q + C` before: at most
//! `ceil((Q + C + J) / T)`. The sum of all messages is enough, and need not be the least depth that is. The frame that is being
//! sent counts. A queue that may need more than it has loses frames: then those that it sends have no bound.

use candor_wire::can::bits::{least_length, length, worst_length};
use candor_wire::can::{Bitrate, Frame, Timing};

use super::bus::{self, LONGEST_NS, Response, Stream, interference, responses};
use super::{Arrivals, Limit, processor};
use crate::flow::Flow;
use crate::{Delay, Discipline, Message, Network, Payload, Queue};

/// How late frames can be, by flow of the network.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// In the order of the flows.
    pub flows: Vec<Result<Bound, NoBound>>,
    /// The transmit queues that frames pass: of nodes, then of gateways on each bus.
    pub queues: Vec<QueueBound>,
    /// By gateway: the least and the greatest time from when it has a frame to when the copy is queued, in ns; `None` if
    /// there is no bound.
    pub delays_ns: Vec<Option<(u64, u64)>>,
    buses: Vec<OnBus>,
}

/// How late the frames of a flow can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The longest transmission on this bus, intermission included, in ns.
    pub longest_ns: u64,
    /// For how long a frame may be queued after its nominal release, in ns: the jitter of the message, or what its way adds.
    /// None where times count from when a frame is queued.
    pub jitter_ns: u64,
    /// On this bus.
    pub response: Response,
    /// The flow whose frame blocks it the longest.
    pub blocked_by: Option<usize>,
    /// From the release of the message to the end of the frame on this bus at least, in ns.
    pub best_ns: u64,
    /// From the release of the message to the end of the frame and its intermission on this bus at most, in ns.
    pub worst_ns: u64,
}

/// Why the frames of a flow have no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoBound {
    /// Its bus cannot carry it: a CAN FD frame on a classical bus.
    Lost,
    /// The frames that it has to wait for, and its own, take so much of the time of the bus, in millionths.
    Overloaded(u64),
    /// The bus does not rest for longer than [`LONGEST_NS`].
    TooLong,
    /// Jitters of these flows make each other grow without an end, or beyond [`LONGEST_NS`].
    Growing(Vec<usize>),
    /// It waits for the frames of this flow, and nobody knows how densely they come.
    WaitsFor(usize),
    /// It is a copy of this flow, which has no bound.
    Behind(usize),
    /// The processor of this gateway needs more time for all frames than there is.
    Processor(usize, bus::NoBound),
    /// This queue may lose frames: the index in [`Bounds::queues`].
    Overflow(usize),
}

/// Who a transmit queue belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The node of this index.
    Node(usize),
    /// The gateway of the first index, on the bus of the second one.
    Gateway(usize, usize),
}

/// How many frames a transmit queue holds at worst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueBound {
    /// Whose it is.
    pub sender: Sender,
    /// Its order and depth.
    pub queue: Queue,
    /// The flows that pass it.
    pub flows: Vec<usize>,
    /// So many frames are in it at most, that on the bus included; `None` if there is no bound.
    pub frames: Option<u64>,
}

impl QueueBound {
    /// Whether frames can be lost.
    #[must_use]
    pub fn overflows(&self) -> bool {
        self.frames.is_none_or(|frames| frames > self.queue.depth as u64)
    }
}

/// The streams of a bus.
#[derive(Clone, Debug)]
struct OnBus {
    bit_ns: u64,
    /// The flow of each stream.
    flows: Vec<usize>,
    streams: Vec<Stream>,
    responses: Vec<Result<Response, bus::NoBound>>,
    is_new: bool,
}

/// After so many rounds jitters that still grow are believed to grow for ever. Fewer where many messages share a bus, since a
/// round looks at each pair of them: so many pairs in all, but for the least rounds.
const MOST_ROUNDS: usize = 200;
const LEAST_ROUNDS: usize = 20;
const MOST_PAIRS: usize = 50_000_000;

/// How late the frames of each flow can be; `flows` are those of the network ([`flows`](crate::flow::flows)). A gateway whose
/// delay nobody knows takes no time.
#[must_use]
pub fn bounds(network: &Network, flows: &[Flow]) -> Bounds {
    bounds_with(network, flows, None)
}

/// A message that is longer than it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Longer {
    pub(super) node: usize,
    pub(super) message: usize,
    /// By so many bits at the nominal bit rate.
    pub(super) bits: u32,
}

/// The bounds if a message is longer.
pub(super) fn bounds_with(network: &Network, flows: &[Flow], longer: Option<Longer>) -> Bounds {
    let mut analysis = NetworkAnalysis::new(network, flows, longer);
    let pairs: usize = analysis.buses.iter().map(|it| it.streams.len().pow(2)).sum();
    let most_rounds = (MOST_PAIRS / pairs.max(1)).clamp(LEAST_ROUNDS, MOST_ROUNDS);
    let mut round = 0;
    loop {
        analysis.buses.iter_mut().for_each(OnBus::respond);
        let grown = analysis.hand_on(round >= most_rounds);
        if grown.is_empty() {
            return analysis.bounds();
        }
        if round == most_rounds {
            analysis.growing.extend(grown);
        }
        round += 1;
    }
}

struct NetworkAnalysis<'a> {
    network: &'a Network,
    flows: &'a [Flow],
    queues: Vec<QueueBound>,
    /// By flow: its queue.
    queue_of: Vec<usize>,
    /// By flow: the shortest and the longest transmission, in ns.
    transmission_ns: Vec<(u64, u64)>,
    /// By flow: the bus and the index there; `None` if the bus cannot carry it.
    place: Vec<Option<(usize, usize)>>,
    buses: Vec<OnBus>,
    /// By gateway.
    delays: Vec<Result<u64, NoBound>>,
    growing: Vec<usize>,
    /// By flow.
    trust: Vec<Trust>,
}

/// What is believed of when the frames of a flow are queued. It is never more than before, so the analysis ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// All that its way says.
    Full,
    /// Only what a rule lets pass: how late a frame is nobody knows.
    Limit,
    /// Nothing.
    None,
}

impl<'a> NetworkAnalysis<'a> {
    fn new(network: &'a Network, flows: &'a [Flow], longer: Option<Longer>) -> Self {
        let bus = |bus: &crate::Bus| OnBus {
            bit_ns: up_ns(bus.timing.nominal, 1),
            flows: Vec::new(),
            streams: Vec::new(),
            responses: Vec::new(),
            is_new: true,
        };
        let mut analysis = Self {
            network,
            flows,
            queues: Vec::new(),
            queue_of: Vec::new(),
            transmission_ns: Vec::new(),
            place: Vec::new(),
            buses: network.buses.iter().map(bus).collect(),
            delays: vec![Ok(0); network.gateways.len()],
            growing: Vec::new(),
            trust: vec![Trust::Full; flows.len()],
        };
        analysis.queues = queues(network, flows);
        analysis.queue_of = vec![0; flows.len()];
        for (index, queue) in analysis.queues.iter().enumerate() {
            queue.flows.iter().for_each(|&flow| analysis.queue_of[flow] = index);
        }
        for (index, flow) in flows.iter().enumerate() {
            let is_longer = |it: &Longer| (it.node, it.message) == (flow.node, flow.message);
            analysis.add(index, flow, longer.filter(is_longer).map_or(0, |it| it.bits));
        }
        analysis
    }

    fn message(&self, flow: &Flow) -> Option<&'a Message> {
        self.network.nodes.get(flow.node)?.messages.get(flow.message)
    }

    fn add(&mut self, index: usize, flow: &Flow, more_bits: u32) {
        let message = self.message(flow);
        let timing = self.network.buses.get(flow.bus).map(|bus| bus.timing);
        let transmission_ns = message.zip(timing).and_then(|(message, timing)| {
            let is_known = flow.parent.is_none() && matches!(message.payload, Payload::Bytes(_));
            let (shortest_ns, longest_ns) = transmission_ns(&flow.frame, timing, is_known)?;
            let shorter =
                shortest(message, &flow.frame).and_then(|it| transmission_ns(&it, timing, false));
            let shortest_ns = shorter.map_or(shortest_ns, |(it, _)| it);
            Some((shortest_ns, longest_ns + up_ns(timing.nominal, more_bits)))
        });
        self.transmission_ns.push(transmission_ns.unwrap_or((0, 0)));
        let (Some(message), Some((_, longest_ns)), false) =
            (message, transmission_ns, flow.is_refused)
        else {
            return self.place.push(None);
        };
        let bus = &mut self.buses[flow.bus];
        let jitter_ns = if flow.parent.is_none() { message.jitter.as_nanos() } else { 0 };
        let period_ns = message.period.as_nanos().max(1);
        let arrivals = match message.distances.is_empty() {
            true => Arrivals::new(period_ns, jitter_ns),
            false => Arrivals::of_curve(message.distances.iter().map(|it| it.as_nanos()).collect()),
        };
        let queue = self.queue_of[index];
        // A queue with one message has no order to speak of.
        let is_fifo = self.queues[queue].queue.discipline == Discipline::Fifo
            && self.queues[queue].flows.len() > 1;
        self.place.push(Some((flow.bus, bus.streams.len())));
        bus.flows.push(index);
        bus.streams.push(Stream {
            key: flow.frame.arbitration_key(),
            transmission_ns: longest_ns,
            arrivals: Some(arrivals),
            held_ns: Some(0),
            fifo: is_fifo.then_some(queue),
        });
    }

    fn response(&self, flow: usize) -> Option<Response> {
        let (bus, at) = self.place[flow]?;
        self.buses[bus].responses.get(at)?.ok()
    }

    /// Whether the response times of a flow are too long to be looked at, and not unknown.
    fn has_grown(&self, flow: usize) -> bool {
        let response = self.place[flow].and_then(|(bus, at)| self.buses[bus].responses.get(at));
        matches!(response, Some(Ok(_) | Err(bus::NoBound::TooLong)))
    }

    fn stream(&self, flow: usize) -> Option<&Stream> {
        let (bus, at) = self.place[flow]?;
        self.buses[bus].streams.get(at)
    }

    /// Lets what one bus does reach the others; the flows that have grown. If they should have settled, nobody knows these any
    /// more, so that each of them can grow only once.
    fn hand_on(&mut self, should_be_settled: bool) -> Vec<usize> {
        for gateway in 0..self.delays.len() {
            // That it is overloaded does not end, and it is the reason of what follows.
            if !matches!(self.delays[gateway], Err(NoBound::Processor(..))) {
                self.delays[gateway] = self.delay_ns(gateway);
            }
        }
        let mut grown = Vec::new();
        for index in 0..self.flows.len() {
            let Some((bus, at)) = self.place[index] else { continue };
            let mut stream = self.buses[bus].streams[at].clone();
            if stream.fifo.is_some() {
                stream.held_ns = self.response(index).map(|it| it.waiting_ns);
            }
            stream.arrivals = match (self.trust[index], self.flows[index].parent) {
                (Trust::None, _) => None,
                (Trust::Full, None) => self.sent(index, stream.arrivals),
                (Trust::Full, Some(parent)) if stream.arrivals.is_some() => {
                    let inherited = self.inherited(index, parent);
                    if inherited.is_none() {
                        self.trust[index] = Trust::Limit;
                        if self.has_grown(parent) && self.delay_spread_ns(index).is_some() {
                            self.growing.push(index);
                        }
                    }
                    inherited.or_else(|| self.limited(index))
                }
                (Trust::Full | Trust::Limit, _) => self.limited(index),
            };
            if stream == self.buses[bus].streams[at] {
                continue;
            }
            if should_be_settled {
                let is_limited = self.trust[index] == Trust::Full && self.limit(index).is_some();
                self.trust[index] = if is_limited { Trust::Limit } else { Trust::None };
                stream.arrivals = if is_limited { self.limited(index) } else { None };
            }
            let bus = &mut self.buses[bus];
            (bus.streams[at], bus.is_new) = (stream, true);
            grown.push(index);
        }
        grown
    }

    /// How densely frames are queued where they are sent: what was seen is the ends of frames, which are late by what the bus
    /// adds.
    fn sent(&self, flow: usize, arrivals: Option<Arrivals>) -> Option<Arrivals> {
        let arrivals = arrivals?;
        if arrivals.curve.is_none() {
            return Some(arrivals);
        }
        let (shortest_ns, _) = self.transmission_ns[flow];
        let (bus, at) = self.place[flow]?;
        let response = match self.buses[bus].responses.get(at)? {
            Ok(response) => response,
            // More of it changes nothing: all that wait for it are told so, too.
            Err(bus::NoBound::Overloaded(_)) => return Some(arrivals),
            Err(_) => return None,
        };
        let jitter_ns = response.response_ns - shortest_ns;
        (jitter_ns <= LONGEST_NS).then_some(Arrivals { jitter_ns, ..arrivals })
    }

    /// How densely copies are queued; `None` if nobody knows how late they can be.
    fn inherited(&self, flow: usize, parent: usize) -> Option<Arrivals> {
        let (response, sent) = (self.response(parent)?, self.stream(parent)?);
        let (shortest_ns, longest_ns) = self.transmission_ns[parent];
        let of_delay_ns = self.delay_spread_ns(flow)?;
        let jitter_ns = (response.response_ns - shortest_ns).saturating_add(of_delay_ns);
        // From when a frame of the parent is queued.
        let late_ns = (response.waiting_ns + longest_ns - shortest_ns).saturating_add(of_delay_ns);
        let arrivals = sent.arrivals.clone()?;
        let own = self.limit(flow).map(|limit| limit.delayed(of_delay_ns));
        let limit = own.or_else(|| Some(arrivals.limit?.delayed(late_ns)));
        // Without nominal releases, what two frames were apart when they were queued counts.
        let is_watched = arrivals.curve.is_some();
        let jitter_ns = match is_watched {
            true => arrivals.jitter_ns.saturating_add(late_ns),
            false => jitter_ns,
        };
        (jitter_ns <= LONGEST_NS).then_some(Arrivals { jitter_ns, limit, ..arrivals })
    }

    /// How densely copies of a flow that has no bound are queued, if a rule limits them.
    fn limited(&self, flow: usize) -> Option<Arrivals> {
        let of_delay_ns = self.delay_spread_ns(flow)?;
        let Limit { interval_ns, tolerance_ns } = self.limit(flow)?.delayed(of_delay_ns);
        (tolerance_ns <= LONGEST_NS).then_some(Arrivals::new(interval_ns, tolerance_ns))
    }

    /// What the rule that sends a copy lets pass.
    fn limit(&self, flow: usize) -> Option<Limit> {
        let flow = &self.flows[flow];
        let rules = &self.network.gateways.get(flow.sent_by()?)?.rules;
        let pace = &rules.rules.get(flow.rule?)?.extension.pace;
        let (interval_ns, tolerance_ns) = (pace.interval_ns, pace.tolerance_ns);
        (interval_ns > 0).then_some(Limit { interval_ns, tolerance_ns })
    }

    /// By how much the time in the gateway that sends a copy differs.
    fn delay_spread_ns(&self, flow: usize) -> Option<u64> {
        let gateway = self.flows[flow].sent_by()?;
        let most_ns = *self.delays.get(gateway)?.as_ref().ok()?;
        Some(most_ns.saturating_sub(self.least_delay_ns(gateway)))
    }

    fn least_delay_ns(&self, gateway: usize) -> u64 {
        match self.network.gateways.get(gateway).and_then(|it| it.delay) {
            Some(Delay::Between(least, _) | Delay::PerFrame(least, _)) => least.as_nanos(),
            None => 0,
        }
    }

    /// The longest time that a gateway takes.
    fn delay_ns(&self, gateway: usize) -> Result<u64, NoBound> {
        let time_ns = match self.network.gateways.get(gateway).and_then(|it| it.delay) {
            None => return Ok(0),
            Some(Delay::Between(_, most)) => return Ok(most.as_nanos()),
            Some(Delay::PerFrame(_, most)) => most.as_nanos(),
        };
        // It receives all frames of its buses but those that it sends.
        let rules = &self.network.gateways[gateway].rules;
        let is_of_it = |bus: usize| {
            let name = self.network.buses.get(bus).map(|bus| bus.name.as_str());
            rules.buses.iter().any(|it| !it.is_virtual && Some(it.name.as_str()) == name)
        };
        let received = (0..self.flows.len()).filter(|&it| {
            let flow = &self.flows[it];
            is_of_it(flow.bus) && flow.sent_by() != Some(gateway) && self.place[it].is_some()
        });
        let received: Vec<_> = received.collect();
        let arrivals = received.iter().map(|&flow| {
            let (response, stream) = (self.response(flow)?, self.stream(flow)?);
            let jitter_ns = response.response_ns - self.transmission_ns[flow].0;
            let arrivals = stream.arrivals.clone()?;
            let is_watched = arrivals.curve.is_some();
            let before_ns = if is_watched { arrivals.jitter_ns } else { 0 };
            Some(Arrivals { jitter_ns: jitter_ns.saturating_add(before_ns), ..arrivals })
        });
        let arrivals: Vec<_> = arrivals.collect();
        processor::served_ns(&arrivals, time_ns).map_err(|reason| match reason {
            bus::NoBound::Unknown(at) => NoBound::WaitsFor(received[at]),
            reason => NoBound::Processor(gateway, reason),
        })
    }

    fn bounds(mut self) -> Bounds {
        for index in 0..self.queues.len() {
            self.queues[index].frames = self.held(&self.queues[index].flows);
        }
        let mut found: Vec<Result<Bound, NoBound>> = Vec::new();
        for index in 0..self.flows.len() {
            let bound = self.bound(index, &found);
            found.push(bound);
        }
        let delay = |(gateway, most): (usize, &Result<u64, NoBound>)| {
            most.as_ref().ok().map(|&most_ns| (self.least_delay_ns(gateway), most_ns))
        };
        let delays_ns = self.delays.iter().enumerate().map(delay).collect();
        Bounds { flows: found, queues: self.queues, delays_ns, buses: self.buses }
    }

    /// How many frames of these flows, which share a queue, are in it at most.
    fn held(&self, flows: &[usize]) -> Option<u64> {
        let of = |&flow: &usize| {
            let (response, stream) = (self.response(flow)?, self.stream(flow)?);
            Some(stream.arrivals.as_ref()?.within(response.waiting_ns + stream.transmission_ns))
        };
        flows.iter().map(of).sum()
    }

    /// The bound of a flow; those before it are `found` already.
    fn bound(&self, index: usize, found: &[Result<Bound, NoBound>]) -> Result<Bound, NoBound> {
        let flow = &self.flows[index];
        let (bus, at) = self.place[index].ok_or(NoBound::Lost)?;
        let bus = &self.buses[bus];
        if self.growing.contains(&index) {
            return Err(NoBound::Growing(self.growing.clone()));
        }
        let parent = match flow.parent {
            None => None,
            Some(parent) => match found.get(parent) {
                Some(Ok(bound)) => Some((parent, bound)),
                _ => return Err(NoBound::Behind(parent)),
            },
        };
        if let Some(gateway) = flow.sent_by() {
            self.delays[gateway].clone()?;
        }
        let response = bus.responses[at].map_err(|reason| match reason {
            bus::NoBound::Overloaded(share) => NoBound::Overloaded(share),
            bus::NoBound::TooLong => NoBound::TooLong,
            // Its own jitter is beyond what is looked at.
            bus::NoBound::Unknown(own) if own == at => NoBound::TooLong,
            bus::NoBound::Unknown(other) => NoBound::WaitsFor(bus.flows[other]),
        })?;
        let queue = self.queue_of[index];
        if self.queues[queue].overflows() {
            return Err(NoBound::Overflow(queue));
        }
        let (shortest_ns, longest_ns) = self.transmission_ns[index];
        let arrivals = bus.streams[at].arrivals.as_ref();
        // When the copy is released after the message; one that was watched is released when it is queued.
        let (earliest_ns, latest_ns) = match (parent, flow.sent_by()) {
            (Some((_, bound)), Some(gateway)) => {
                let earliest_ns = bound.best_ns.saturating_add(self.least_delay_ns(gateway));
                let most_ns = self.delays[gateway].clone()?;
                let is_watched = arrivals.is_some_and(|it| it.curve.is_some());
                let latest_ns = bound.worst_ns.saturating_add(most_ns);
                (earliest_ns, if is_watched { latest_ns } else { earliest_ns })
            }
            _ => (0, 0),
        };
        Ok(Bound {
            longest_ns,
            jitter_ns: arrivals.map_or(0, Arrivals::lateness_ns),
            response,
            blocked_by: response.blocked_by.map(|it| bus.flows[it]),
            best_ns: earliest_ns.saturating_add(shortest_ns),
            worst_ns: latest_ns.saturating_add(response.response_ns),
        })
    }
}

impl OnBus {
    /// Computes the response times again if a stream has changed.
    fn respond(&mut self) {
        if self.is_new {
            self.responses = responses(&self.streams, self.bit_ns);
            self.is_new = false;
        }
    }
}

impl Bounds {
    /// The flows on a bus, each with its stream.
    pub fn streams(&self, bus: usize) -> impl Iterator<Item = (usize, &Stream)> + Clone {
        let on_bus = self.buses.get(bus).into_iter();
        on_bus.flat_map(|it| it.flows.iter().copied().zip(&it.streams))
    }

    /// How long a bit takes on a bus, in ns, rounded up.
    #[must_use]
    pub fn bit_ns(&self, bus: usize) -> u64 {
        self.buses.get(bus).map_or(1, |it| it.bit_ns)
    }

    /// The flows whose frames the latest frame of `flow` waits for on its bus, but for the blocking one, and how many of each.
    #[must_use]
    pub fn interference(&self, flow: usize) -> Vec<(usize, u64)> {
        let Some(Ok(bound)) = self.flows.get(flow) else { return Vec::new() };
        let place = |bus: &OnBus| bus.flows.iter().position(|&it| it == flow);
        let place = self.buses.iter().find_map(|bus| Some((bus, place(bus)?)));
        let Some((bus, at)) = place else { return Vec::new() };
        let found = interference(&bus.streams, at, &bound.response, bus.bit_ns);
        found.into_iter().map(|(index, frames)| (bus.flows[index], frames)).collect()
    }
}

/// The queues that flows pass.
fn queues(network: &Network, flows: &[Flow]) -> Vec<QueueBound> {
    let mut queues: Vec<QueueBound> = Vec::new();
    let mut add = |sender: Sender, queue: Queue, flows: Vec<usize>| {
        if !flows.is_empty() {
            queues.push(QueueBound { sender, queue, flows, frames: None });
        }
    };
    let of = |is_of: &dyn Fn(&Flow) -> bool| {
        let is_of =
            |(index, flow): (usize, &Flow)| (is_of(flow) && !flow.is_refused).then_some(index);
        flows.iter().enumerate().filter_map(is_of).collect::<Vec<_>>()
    };
    for (index, node) in network.nodes.iter().enumerate() {
        let own = of(&|flow| flow.node == index && flow.sent_by().is_none());
        add(Sender::Node(index), node.queue, own);
    }
    for (index, gateway) in network.gateways.iter().enumerate() {
        for bus in 0..network.buses.len() {
            let own = of(&|flow| flow.sent_by() == Some(index) && flow.bus == bus);
            add(Sender::Gateway(index, bus), gateway.queue, own);
        }
    }
    queues
}

/// The shortest frame of a message whose frames differ in length, as it comes out of its way as `frame`; `None` if that is it.
fn shortest(message: &Message, frame: &Frame) -> Option<Frame> {
    let least = message.min_length?;
    let has_same_length = frame.data().len() == message.length;
    let data = frame.data().get(..if has_same_length { least } else { 0 })?;
    Frame::from_parts(frame.can_id(), data, frame.is_fd().then(|| frame.fd_flags())).ok()
}

/// How long bits take, in ns, rounded up.
fn up_ns(rate: Bitrate, bits: u32) -> u64 {
    (u64::from(bits) * 1_000_000_000).div_ceil(u64::from(rate.bits_per_second()))
}

/// How long bits take, in ns, rounded down.
fn down_ns(rate: Bitrate, bits: u32) -> u64 {
    u64::from(bits) * 1_000_000_000 / u64::from(rate.bits_per_second())
}

/// The shortest time of a frame without intermission, and the longest one with it, in ns; `None` for an error report. With
/// other data of the same length, unless these are known.
fn transmission_ns(frame: &Frame, timing: Timing, is_known: bool) -> Option<(u64, u64)> {
    let [shortest, longest] = match is_known {
        true => [length(frame).ok()?; 2],
        false => [least_length(frame).ok()?, worst_length(frame).ok()?],
    };
    let received = longest.without_intermission();
    let intermission = longest.nominal - received.nominal;
    let longest_ns = up_ns(timing.nominal, received.nominal)
        + up_ns(timing.data, received.data)
        + up_ns(timing.nominal, intermission);
    let shortest = shortest.without_intermission();
    let shortest_ns =
        down_ns(timing.nominal, shortest.nominal) + down_ns(timing.data, shortest.data);
    Some((shortest_ns, longest_ns))
}

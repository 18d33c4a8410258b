//! Time-triggered Ethernet: end systems and switches on the links of [`eth`](crate::eth), as SAE AS6802 has them.
//!
//! ```text
//!  end system --> Port ==link==> switch: relay buffer of each flow --instant--> Port ==link==> end system
//!                                        (or straight into the queue of the port)
//! ```
//!
//! End systems send time-triggered frames at the instants of the schedule, within their jitter; rate-constrained
//! frames with their distance; best-effort frames at random. A switch with a schedule keeps a time-triggered frame
//! in the relay buffer of its flow until its instant; other frames leave in between, and only if they are gone
//! before the next instant (*timely block*). A switch without one sends the frames of a port in their order.
//!
//! What is exact: the transmission of every frame, and the order at every port. What is a model: that a switch
//! needs a constant time until a frame can leave, and that jitter is uniform.
//!
//! Every frame ends in one [`Record`] for each of its receivers.

mod port;
mod relays;

use candor_causes::Cause;
use candor_time::Nanos;
use candor_tte::{Flow, Network, Relaying, Role, Traffic};

use self::port::{Busy, Port};
use self::relays::Relays;
use crate::eth::{self, Ethernet, LinkConfig, Offer};
use crate::event::{Core, Phase, Random, Rank, Ranked, Time};
use crate::medium::{ControllerId, FrameId, Medium, Outcome};
use crate::slab::Slab;

/// The number of these streams of randomness among those of a seed.
const RANDOM: u32 = 8;
/// How many cycles a frame may be under way after the last one was sent.
const LAST_CYCLES: u64 = 3;

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// On the links.
    Link(eth::Event),
    /// An end system sends the next frame of a flow.
    Dispatch(u32),
    /// A frame can leave a switch.
    Ready(u32),
    /// The instant at which a switch relays: flow and hop.
    Relay(u32, u32),
    /// A port may no longer be blocked.
    Unblock(u32),
}

impl From<eth::Event> for Event {
    fn from(event: eth::Event) -> Self {
        Self::Link(event)
    }
}

impl Ranked for Event {
    fn rank(self) -> Rank {
        match self {
            Self::Link(event) => event.rank(),
            Self::Dispatch(_) | Self::Ready(_) => Rank::HAPPENS,
            Self::Relay(flow, _) => Rank::new(Phase::Serves, flow),
            Self::Unblock(port) => Rank::new(Phase::Serves, port),
        }
    }
}

/// How a frame ended at one of its receivers, or on the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The index of its flow.
    pub flow: usize,
    /// Its number, from 0.
    pub number: u64,
    /// The receiver, by its index.
    pub receiver: usize,
    /// When its first bit was to leave the sender; when it was sent, if it is not time-triggered.
    pub due: Time,
    /// When its first bit left the sender.
    pub started: Option<Time>,
    /// When its last bit arrived, or why it did not.
    pub fate: Result<Time, Cause>,
}

/// Takes what became of each frame.
pub trait Observer {
    /// A frame has ended at a receiver, or on the way to it.
    fn record(&mut self, record: &Record);
    /// So many frames of the flow that counts were sent. `false` ends the run.
    fn proceed(&mut self, now: Time, sent: u64) -> bool {
        let _ = (now, sent);
        true
    }
}

/// A frame on one hop, or in the switch at its end.
#[derive(Clone, Copy, Debug)]
struct Copy {
    flow: u32,
    hop: u32,
    number: u64,
    due: Time,
    started: Option<Time>,
}

/// A flow at work.
struct Sender {
    random: Random,
    /// Frames sent.
    sent: u64,
    /// When the next one is due.
    due: Time,
    /// When each hop brought the last frame, for the distance of rate-constrained ones.
    last: Vec<Option<Time>>,
}

/// A network in virtual time.
pub struct World {
    network: Network,
    core: Core<Event>,
    links: Ethernet,
    /// By the controllers of the links.
    ports: Vec<Port>,
    copies: Slab<Copy>,
    senders: Vec<Sender>,
    relays: Relays,
    /// The receivers behind each hop of each flow.
    behind: Vec<Vec<Vec<usize>>>,
}

impl World {
    /// A network at the start of time. The first cycle begins one cycle later.
    #[must_use]
    pub fn new(network: Network, seed: u64) -> Self {
        let core = Core::new(seed);
        let mut links = Ethernet::default();
        let mut ports = Vec::new();
        for (index, link) in network.links.iter().enumerate() {
            // The queues of a port are its own: a controller has one frame at a time.
            links.add_link(LinkConfig { speed: link.speed, delay: link.delay, depth: 2 });
            for &node in &link.ends {
                ports.push(Port::new(&network, node, index));
            }
        }
        let random = |index: usize| core.random(RANDOM, index as u32);
        let sender = |(index, flow): (usize, &Flow)| Sender {
            random: random(index),
            sent: 0,
            due: Time::ZERO,
            last: vec![None; flow.hops.len()],
        };
        let senders = network.flows.iter().enumerate().map(sender).collect();
        let behind = network.flows.iter().map(behind).collect();
        let relays = Relays::new(&network);
        let copies = Slab::default();
        Self { network, core, links, ports, copies, senders, relays, behind }
    }

    /// The time reached.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.core.now()
    }

    /// The part of the time that a link was occupied, 0 to 1, from the node `from` to the other end.
    #[must_use]
    pub fn occupation(&self, link: usize, from: usize) -> f64 {
        let busy = self.links.statistics(self.controller(link, from), self.core.now()).busy;
        busy.as_nanos() as f64 / (self.core.now() - Time::ZERO).as_nanos().max(1) as f64
    }

    /// Sends `count` frames of the flow `flow`, and those of the other flows meanwhile. Whether it came to an end.
    pub fn run(&mut self, flow: usize, count: u64, observer: &mut dyn Observer) -> bool {
        self.plan_all();
        let cycle = self.network.cycle.as_nanos();
        let relay_ns: u64 =
            self.network.flows[flow].hops.iter().map(|hop| hop.relay_delay.as_nanos()).sum();
        let mut end = None;
        let mut outcomes = Vec::new();
        while let Some(at) = self.core.next_at() {
            if end.is_some_and(|end| at > end) {
                break;
            }
            let Some(event) = self.core.next() else { break };
            match event {
                Event::Link(event) => {
                    self.links.happen(&mut self.core, event, &mut outcomes);
                    for outcome in outcomes.drain(..) {
                        self.follow(outcome, observer);
                    }
                }
                Event::Dispatch(index) if index as usize == flow => {
                    if self.senders[flow].sent < count {
                        self.dispatch(flow, observer);
                        if !observer.proceed(self.core.now(), self.senders[flow].sent) {
                            return false;
                        }
                    }
                    if self.senders[flow].sent == count && end.is_none() {
                        let after = Nanos::from_nanos(cycle * LAST_CYCLES + relay_ns);
                        end = Some(self.core.now() + after);
                    }
                }
                Event::Dispatch(index) => self.dispatch(index as usize, observer),
                Event::Ready(copy) => self.ready(copy, observer),
                Event::Relay(flow, hop) => self.relay(flow, hop),
                Event::Unblock(port) => {
                    self.ports[port as usize].unblock = None;
                    self.choose(port as usize);
                }
            }
        }
        for id in self.copies.ids().collect::<Vec<_>>() {
            self.lose(id, Cause::Unfinished, observer);
        }
        true
    }

    /// Plans the first frame of each flow, and the first instant of each relay.
    fn plan_all(&mut self) {
        let start = Time::ZERO + self.network.cycle;
        for index in 0..self.network.flows.len() {
            let Flow { traffic, size, ref hops, .. } = self.network.flows[index];
            let sender = &mut self.senders[index];
            match traffic {
                Traffic::TimeTriggered { period, send, .. } => {
                    sender.due = start + send;
                    for (number, hop) in hops.iter().enumerate() {
                        if self.relays.has(index, number) {
                            let preamble = self.network.links[hop.link].preamble();
                            let into_period = hop.at.as_nanos() % period.as_nanos();
                            let at = earlier(start + Nanos::from_nanos(into_period), preamble);
                            self.core.plan(at, Event::Relay(index as u32, number as u32));
                        }
                    }
                }
                Traffic::RateConstrained { gap, .. } => {
                    sender.due = Time::ZERO + sender.random.nanos(Nanos::ZERO, gap);
                }
                Traffic::BestEffort { load } if load > 0.0 => {
                    let first = self.network.links[hops[0].link].occupation(size);
                    sender.due = Time::ZERO + sender.random.nanos(Nanos::ZERO, first);
                }
                Traffic::BestEffort { .. } => continue,
            }
            self.plan_dispatch(index);
        }
    }

    /// Plans when the next frame of a flow is handed to its port: when it is due, but for the preamble and the jitter.
    fn plan_dispatch(&mut self, index: usize) {
        let flow = &self.network.flows[index];
        let Sender { random, due, .. } = &mut self.senders[index];
        let at = match flow.traffic {
            Traffic::TimeTriggered { .. } => {
                let jitter = match self.network.nodes[flow.from].role {
                    Role::EndSystem(end_system) => end_system.jitter,
                    Role::Switch(_) => Nanos::ZERO,
                };
                let half = Nanos::from_nanos(jitter.as_nanos() / 2);
                let late =
                    if jitter == Nanos::ZERO { jitter } else { random.nanos(Nanos::ZERO, jitter) };
                earlier(*due + late, half + self.network.links[flow.hops[0].link].preamble())
            }
            _ => *due,
        };
        self.core.plan(at.max(self.core.now()), Event::Dispatch(index as u32));
    }

    /// An end system sends the next frame of a flow.
    fn dispatch(&mut self, index: usize, observer: &mut dyn Observer) {
        let Flow { traffic, size, ref hops, .. } = self.network.flows[index];
        let sender = &mut self.senders[index];
        let copy = Copy {
            flow: index as u32,
            hop: 0,
            number: sender.sent,
            due: sender.due,
            started: None,
        };
        sender.sent += 1;
        sender.due = match traffic {
            Traffic::TimeTriggered { period, .. } => sender.due + period,
            Traffic::RateConstrained { gap, .. } => sender.due + gap,
            Traffic::BestEffort { load } => {
                let link = &self.network.links[hops[0].link];
                let busy = link.occupation(size);
                let pause_ns = busy.as_nanos() as f64 * (1.0 - load) / load;
                sender.due + busy + sender.random.exponential(Nanos::from_nanos(pause_ns as u64))
            }
        };
        // The same frame leaves over each link of its sender.
        for hop in 0..self.network.flows[index].hops.len() {
            if self.network.flows[index].hops[hop].before.is_none() {
                let id = self.copies.insert(Copy { hop: hop as u32, ..copy });
                self.enqueue(id, observer);
            }
        }
        self.plan_dispatch(index);
    }

    /// A frame goes into the queue of the port of its hop.
    fn enqueue(&mut self, id: u32, observer: &mut dyn Observer) {
        let copy = self.copies[id];
        let flow = &self.network.flows[copy.flow as usize];
        let hop = flow.hops[copy.hop as usize];
        let port = self.controller(hop.link, hop.from).0 as usize;
        if self.ports[port].push(flow.traffic, id) {
            self.choose(port);
        } else {
            self.lose(id, Cause::QueueFull, observer);
        }
    }

    /// A port that is free takes the next frame that may leave.
    fn choose(&mut self, index: usize) {
        let port = &mut self.ports[index];
        let now = self.core.now();
        let copies = &self.copies;
        let flows = &self.network.flows;
        let link = &self.network.links[port.link];
        let size = |id: u32| flows[copies[id].flow as usize].size;
        match port.choose(now, self.network.cycle, &|id| link.occupation(size(id))) {
            Busy::Idle => {}
            Busy::Until(at) => {
                if port.unblock.is_none_or(|planned| planned > at) {
                    port.unblock = Some(at);
                    self.core.plan(at, Event::Unblock(index as u32));
                }
            }
            Busy::Sends { id, priority } => {
                let len = flows[copies[id].flow as usize].len();
                let offer = Offer { id: FrameId(id), len, priority };
                let taken = self.links.offer(&mut self.core, ControllerId(index as u32), offer);
                debug_assert!(taken.is_ok(), "a port offers one frame at a time");
            }
        }
    }

    /// What a link did with a frame.
    fn follow(&mut self, outcome: Outcome, observer: &mut dyn Observer) {
        match outcome {
            Outcome::Started { frame: FrameId(id), .. } => self.started(id),
            Outcome::Sent { at: ControllerId(at), .. } => {
                let port = &mut self.ports[at as usize];
                port.sent(self.core.now(), &self.network.links[port.link]);
                self.choose(at as usize);
            }
            Outcome::Received { frame: FrameId(id), .. } => self.received(id, observer),
            Outcome::Failed { .. } | Outcome::Missed { .. } | Outcome::Refused { .. } => {}
        }
    }

    /// The preamble of a frame begins.
    fn started(&mut self, id: u32) {
        let copy = &mut self.copies[id];
        let hop = self.network.flows[copy.flow as usize].hops[copy.hop as usize];
        let link = &self.network.links[hop.link];
        let first_bit = self.core.now() + link.preamble();
        copy.started.get_or_insert(first_bit);
        if let Role::Switch(switch) = &self.network.nodes[hop.to].role
            && switch.relaying == Relaying::CutThrough
        {
            // It leaves as a frame of its own, while this one still arrives.
            let copy = *copy;
            let inside = self.copies.insert(copy);
            let at = first_bit + link.delay + switch.processing;
            self.core.plan(at, Event::Ready(inside));
        }
    }

    /// The last bit of a frame has reached the end of its hop.
    fn received(&mut self, id: u32, observer: &mut dyn Observer) {
        let copy = self.copies[id];
        let flow = &self.network.flows[copy.flow as usize];
        let hop = flow.hops[copy.hop as usize];
        let now = self.core.now();
        let window = match flow.traffic {
            Traffic::TimeTriggered { window, period, .. } => window.zip(Some(period)),
            _ => None,
        };
        match self.network.nodes[hop.to].role {
            Role::EndSystem(_) => {
                let fate =
                    if self.is_outside(id, window) { Err(Cause::OutsideWindow) } else { Ok(now) };
                observer.record(&record(&copy, hop.to, fate));
                self.copies.remove(id);
            }
            Role::Switch(switch) => match switch.relaying {
                // It is in the switch already.
                Relaying::CutThrough => self.copies.remove(id),
                Relaying::StoreAndForward => {
                    self.core.plan(now + switch.processing, Event::Ready(id));
                }
                Relaying::TimeTriggered(_) if self.is_outside(id, window) => {
                    self.lose(id, Cause::OutsideWindow, observer);
                }
                Relaying::TimeTriggered(_) if self.is_too_soon(id) => {
                    self.lose(id, Cause::TooSoon, observer);
                }
                Relaying::TimeTriggered(_) => {
                    self.core.plan(now + switch.processing, Event::Ready(id));
                }
            },
        }
    }

    /// Whether a time-triggered frame came outside of its receive window, by its first bit.
    fn is_outside(&self, id: u32, window: Option<(Nanos, Nanos)>) -> bool {
        let Some((window, period)) = window else { return false };
        let copy = self.copies[id];
        let flow = &self.network.flows[copy.flow as usize];
        let hop = flow.hops[copy.hop as usize];
        let link = &self.network.links[hop.link];
        let first_bit = earlier(self.core.now(), link.transmission(flow.size));
        let wanted = self.network.cycle + hop.at + link.delay;
        // How far it is from the nearest of the instants, which repeat.
        let period = i128::from(period.as_nanos());
        let distance =
            (i128::from(first_bit.as_nanos()) - i128::from(wanted.as_nanos())).rem_euclid(period);
        distance.min(period - distance) * 2 > i128::from(window.as_nanos())
    }

    /// Whether a rate-constrained frame came sooner behind the one before than it may; if not, it is the last one
    /// from now on.
    fn is_too_soon(&mut self, id: u32) -> bool {
        let copy = self.copies[id];
        let Traffic::RateConstrained { gap, jitter } =
            self.network.flows[copy.flow as usize].traffic
        else {
            return false;
        };
        let now = self.core.now();
        let last = &mut self.senders[copy.flow as usize].last[copy.hop as usize];
        let is_too_soon = last.is_some_and(|last| now < last + (gap - jitter));
        if !is_too_soon {
            *last = Some(now);
        }
        is_too_soon
    }

    /// A frame can leave the switch at the end of its hop, over the hops that follow.
    fn ready(&mut self, id: u32, observer: &mut dyn Observer) {
        let copy = self.copies[id];
        self.copies.remove(id);
        let flow = copy.flow as usize;
        for number in 0..self.network.flows[flow].hops.len() {
            if self.network.flows[flow].hops[number].before != Some(copy.hop as usize) {
                continue;
            }
            let next = self.copies.insert(Copy { hop: number as u32, ..copy });
            if !self.relays.has(flow, number) {
                self.enqueue(next, observer);
            } else if let Some((lost, cause)) = self.relays.put(flow, number, next) {
                self.lose(lost, cause, observer);
            }
        }
    }

    /// The instant of a flow at a switch: what waits in its relay buffer leaves.
    fn relay(&mut self, flow: u32, number: u32) {
        let hop = self.network.flows[flow as usize].hops[number as usize];
        let port = self.controller(hop.link, hop.from).0 as usize;
        if let Traffic::TimeTriggered { period, .. } = self.network.flows[flow as usize].traffic {
            self.core.plan(self.core.now() + period, Event::Relay(flow, number));
        }
        if let Some(id) = self.relays.take(flow as usize, number as usize) {
            self.ports[port].push_scheduled(id);
        }
        self.choose(port);
    }

    /// A frame ends for all receivers behind its hop.
    fn lose(&mut self, id: u32, cause: Cause, observer: &mut dyn Observer) {
        let copy = self.copies[id];
        for &receiver in &self.behind[copy.flow as usize][copy.hop as usize] {
            observer.record(&record(&copy, receiver, Err(cause)));
        }
        self.copies.remove(id);
    }

    /// The controller at the end of a link where `node` is.
    fn controller(&self, link: usize, node: usize) -> ControllerId {
        let side = u32::from(self.network.links[link].ends[0] != node);
        ControllerId(2 * link as u32 + side)
    }
}

fn record(copy: &Copy, receiver: usize, fate: Result<Time, Cause>) -> Record {
    let Copy { flow, number, due, started, .. } = *copy;
    Record { flow: flow as usize, number, receiver, due, started, fate }
}

/// So long before an instant, and not before the start of time.
const fn earlier(at: Time, by: Nanos) -> Time {
    Time::from_nanos(at.as_nanos().saturating_sub(by.as_nanos()))
}

/// The receivers behind each hop of a flow.
fn behind(flow: &Flow) -> Vec<Vec<usize>> {
    let mut behind = vec![Vec::new(); flow.hops.len()];
    for &receiver in &flow.to {
        let mut next = flow.hops.iter().position(|hop| hop.to == receiver);
        while let Some(index) = next {
            behind[index].push(receiver);
            next = flow.hops[index].before;
        }
    }
    behind
}

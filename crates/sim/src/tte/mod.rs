//! Time-triggered Ethernet: end systems and switches on the links of [`eth`], as SAE AS6802 has them.
//!
//! ```text
//!  sender --> Station ==link==> Station of a switch ==link==> receiver
//! ```
//!
//! End systems send time-triggered frames at the instants of the schedule, within their jitter; rate-constrained
//! frames with their distance; best-effort frames at random. A switch with a schedule keeps a time-triggered frame
//! in the relay buffer of its flow until its instant; other frames leave in between, and only if they are gone
//! before the next instant (*timely block*). A switch without one sends the frames of a port in their order.
//!
//! Every node has a [`Clock`], and its schedule runs by it: end systems send and switches relay at instants of their own
//! time. Clocks drift as the network says, and protocol control frames keep them together if it says that. Where
//! nobody drifts all clocks show virtual time. The gaps of rate-constrained flows and the loads of best-effort ones
//! are those of virtual time, and links have their nominal rate.
//!
//! What is exact: the transmission of every frame, and the order at every port. What is a model: that a switch
//! needs a constant time until a frame can leave, and that jitter is uniform.
//!
//! Every frame ends in one [`Record`] for each of its receivers.

pub mod clock;
mod senders;
mod sync;

use candor_causes::Cause;
use candor_time::Nanos;
use candor_tte::station::{Action, Station};
use candor_tte::{Flow, Hop, Network, Relaying, Role, Traffic};
use candor_wire::eth::tte::Pcf;
use clock::Clock;
use senders::Sender;
use sync::{Agenda, Sync};

use crate::eth::{self, Ethernet, LinkConfig, Offer};
use crate::event::{Core, Phase, Random, Rank, Ranked, Time};
use crate::medium::{ControllerId, FrameId, Medium, Outcome};
use crate::slab::Slab;

/// The number of these streams of randomness among those of a seed.
const RANDOM: u32 = 8;
const RANDOM_OF_CLOCKS: u32 = 10;
/// How many cycles a frame may be under way after the last one was sent.
const LAST_CYCLES: u64 = 3;

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    Link(eth::Event),
    /// An end system sends the next frame of a flow.
    Dispatch(u32),
    /// The queues of a node have something to do.
    Station(u32),
    /// A node has something to do for the synchronisation of clocks.
    Agenda(u32),
    /// The rate of the clock of a node changes.
    Wander(u32),
    /// The difference of clocks is handed out.
    Measure,
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
            Self::Dispatch(_) | Self::Agenda(_) | Self::Wander(_) | Self::Measure => Rank::HAPPENS,
            Self::Station(node) => Rank::new(Phase::Serves, node),
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
    /// When its first bit was to leave the sender, by the sender's clock; when it was sent, if it is not time-triggered.
    pub due: Time,
    /// When its first bit left the sender.
    pub started: Option<Time>,
    /// When its last bit arrived, or why it did not.
    pub fate: Result<Time, Cause>,
}

/// A frame on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The index of its flow; for protocol control frames behind those of the network.
    pub flow: usize,
    /// Its number, from 0.
    pub number: u64,
    /// The link, by its index.
    pub link: usize,
    pub from: usize,
    /// Who sent it first, by its index: it keeps that source address over all hops.
    pub source: usize,
    /// When its first bit leaves.
    pub at: Time,
    /// As [`Record::due`].
    pub due: Time,
    /// When its first bit left the sender.
    pub started: Time,
    /// What it says, if it is a protocol control frame.
    pub pcf: Option<Pcf>,
}

/// Takes what became of each frame.
pub trait Observer {
    /// A frame has ended at a receiver, or on the way to it.
    fn record(&mut self, record: &Record);
    /// A frame leaves a node over a link.
    fn transmits(&mut self, transmission: &Transmission) {
        let _ = transmission;
    }
    /// In the integration cycle that ended at `now` two nodes with a schedule had clocks that differed by this, and no
    /// two differed by more. Without synchronisation it is the cycle of the network. It is not called if all
    /// clocks show virtual time, nor for the first cycle.
    fn precision(&mut self, now: Time, difference: Nanos) {
        let _ = (now, difference);
    }
    /// So many frames of the flow that counts were sent. `false` ends the run.
    fn proceed(&mut self, now: Time, sent: u64) -> bool {
        let _ = (now, sent);
        true
    }
}

/// A frame on one hop, or in the node at its end.
#[derive(Clone, Copy, Debug)]
struct Copy {
    flow: u32,
    hop: u32,
    number: u64,
    due: Time,
    started: Option<Time>,
    /// In a node: over how many hops it has yet to leave.
    left: u32,
    /// A protocol control frame: what it says, and since when it has been in the node.
    control: Option<(Pcf, Time)>,
}

/// A network in virtual time.
pub struct World {
    network: Network,
    core: Core<Event>,
    links: Ethernet,
    stations: Vec<Station>,
    /// When each station is asked next.
    asked: Vec<Option<Time>>,
    copies: Slab<Copy>,
    senders: Vec<Sender>,
    /// The receivers behind each hop of each flow.
    behind: Vec<Vec<Vec<usize>>>,
    /// What stations have done and nobody has followed yet.
    actions: Vec<Action>,
    /// The same of links.
    outcomes: Vec<Outcome>,
    /// Whether the first events are planned.
    is_planned: bool,
    /// By node.
    clocks: Vec<Clock>,
    random_of_clocks: Vec<Random>,
    agendas: Vec<Agenda>,
    /// Whether any clock can show anything but virtual time.
    has_clocks: bool,
    sync: Option<Sync>,
    /// The largest difference of clocks in this cycle.
    difference: Nanos,
    /// How long each controller's way of its link is occupied.
    occupied_until: Vec<Time>,
}

impl World {
    /// A network at the start of time. The first frames are those of the second cycle.
    #[must_use]
    pub fn new(mut network: Network, seed: u64) -> Self {
        let first_control = network.flows.len();
        let sync = network.synchronisation.clone().map(|it| Sync::new(it, first_control));
        if let Some(sync) = &sync {
            network.flows.extend(sync.settings.flows.iter().cloned());
        }
        let has_clocks = network.has_clocks();
        let (clocks, random_of_clocks) = sync::clocks(&network, seed);
        let core = Core::new(seed);
        let mut links = Ethernet::default();
        for link in &network.links {
            // Stations have the queues: a controller has one frame at a time.
            links.add_link(LinkConfig { speed: link.speed, delay: link.delay, depth: 2 });
        }
        let sender = |index: usize| {
            let random = core.random(RANDOM, index as u32);
            Sender { random, sent: 0, due: Time::ZERO, at: Nanos::ZERO, asked: None }
        };
        let senders = (0..network.flows.len()).map(sender).collect();
        let station = |node: usize| {
            let mut station = Station::new(&network, node, Nanos::ZERO);
            station.tolerate(network.nodes[node].oscillator.most_ppm());
            station
        };
        let stations = (0..network.nodes.len()).map(station).collect();
        let asked = vec![None; network.nodes.len()];
        let behind = network.flows.iter().map(behind).collect();
        let agendas = network.nodes.iter().map(|_| Agenda::default()).collect();
        let occupied_until = vec![Time::ZERO; 2 * network.links.len()];
        Self {
            network,
            core,
            links,
            stations,
            asked,
            copies: Slab::default(),
            senders,
            behind,
            actions: Vec::new(),
            outcomes: Vec::new(),
            is_planned: false,
            clocks,
            random_of_clocks,
            agendas,
            has_clocks,
            sync,
            difference: Nanos::ZERO,
            occupied_until,
        }
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
        self.plan();
        let cycle = self.network.cycle.as_nanos();
        let relay_ns: u64 =
            self.network.flows[flow].hops.iter().map(|hop| hop.relay_delay.as_nanos()).sum();
        let mut end = None;
        while let Some(at) = self.core.next_at() {
            if end.is_some_and(|end| at > end) {
                break;
            }
            let Some(event) = self.core.next() else { break };
            match event {
                Event::Dispatch(index) if index as usize == flow => {
                    if self.is_asked(flow) && self.senders[flow].sent < count {
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
                event => self.happen(event, observer),
            }
        }
        for id in self.copies.ids().collect::<Vec<_>>() {
            self.end_unfinished(id, observer);
        }
        true
    }

    /// Lets all flows send until `end`, from where an earlier call ended. Frames that are under way then are not told of.
    pub fn run_until(&mut self, end: Time, observer: &mut dyn Observer) {
        if !self.is_planned {
            self.plan();
        }
        while self.core.next_at().is_some_and(|at| at <= end) {
            let Some(event) = self.core.next() else { break };
            self.happen(event, observer);
        }
    }

    /// Plans the first event of each flow, station and clock.
    fn plan(&mut self) {
        self.is_planned = true;
        self.plan_flows();
        for node in 0..self.stations.len() {
            self.plan_station(node);
        }
        self.plan_clocks();
    }

    fn happen(&mut self, event: Event, observer: &mut dyn Observer) {
        match event {
            Event::Link(event) => {
                let mut outcomes = std::mem::take(&mut self.outcomes);
                self.links.happen(&mut self.core, event, &mut outcomes);
                for outcome in outcomes.drain(..) {
                    self.follow(outcome, observer);
                }
                self.outcomes = outcomes;
            }
            Event::Dispatch(index) => {
                if self.is_asked(index as usize) {
                    self.dispatch(index as usize, observer);
                }
            }
            Event::Station(node) => self.advance(node as usize, observer),
            Event::Agenda(node) => self.work(node as usize, observer),
            Event::Wander(node) => self.wander(node as usize),
            Event::Measure => self.measure(observer),
        }
    }

    /// A frame waits for each link on which its flow begins.
    fn submit(&mut self, index: usize, copy: Copy, observer: &mut dyn Observer) {
        let from = self.network.flows[index].from;
        let now = self.clocks[from].local(self.core.now());
        for hop in self.network.flows[index].first_hops() {
            let id = self.copies.insert(Copy { hop: hop as u32, ..copy });
            let act = &mut |action| self.actions.push(action);
            self.stations[from].submit(&self.network, (index, hop), id, now, act);
        }
        self.act(observer);
        self.plan_station(from);
    }

    /// Plans when the queues of a node have something to do, unless they are asked by then.
    fn plan_station(&mut self, node: usize) {
        let Some(at) = self.stations[node].next_at() else { return };
        let at = self.clocks[node].reaches(at).max(self.core.now());
        if self.asked[node].is_none_or(|asked| at < asked) {
            self.asked[node] = Some(at);
            self.core.plan(at, Event::Station(node as u32));
        }
    }

    fn advance(&mut self, node: usize, observer: &mut dyn Observer) {
        if self.asked[node] != Some(self.core.now()) {
            // One that came sooner took its place.
            return;
        }
        self.asked[node] = None;
        let now = self.clocks[node].local(self.core.now());
        // One instant at a time: between two of them the station is told how long links are occupied.
        while let Some(at) = self.stations[node].next_at().filter(|&at| at <= now) {
            let act = &mut |action| self.actions.push(action);
            self.stations[node].advance(&self.network, at, act);
            self.act(observer);
        }
        self.plan_station(node);
    }

    /// What stations have done becomes frames on links, or their ends.
    fn act(&mut self, observer: &mut dyn Observer) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Starts { id, flow, hop, .. } => {
                    let copy = self.leave(id);
                    let id = self.copies.insert(Copy { hop: hop as u32, ..copy });
                    let Flow { ref hops, .. } = self.network.flows[flow];
                    let at = self.controller(hops[hop].link, hops[hop].from);
                    let len = self.network.flows[flow].byte_len();
                    let offer = Offer { id: FrameId(id), len, priority: 0 };
                    let taken = self.links.offer(&mut self.core, at, offer);
                    debug_assert!(taken.is_ok(), "a station sends one frame at a time");
                    if self.has_clocks {
                        let Hop { link, from, .. } = hops[hop];
                        let occupation =
                            self.network.links[link].occupation(self.network.flows[flow].size);
                        let until = &mut self.occupied_until[at.0 as usize];
                        *until = self.core.now().max(*until) + occupation;
                        self.tell_occupation(from, link);
                    }
                }
                Action::Dropped { id, flow, hop, cause } if self.copies[id].hop == hop as u32 => {
                    self.lose(id, hop, cause, observer);
                    let copy = self.copies[id];
                    self.copies.remove(id);
                    let is_sent = copy.started.is_some() || copy.control.is_some();
                    let Flow { traffic, .. } = self.network.flows[flow];
                    if !is_sent && matches!(traffic, Traffic::RateConstrained { .. }) {
                        self.plan_dispatch(flow);
                    }
                }
                Action::Dropped { id, hop, cause, .. } => {
                    self.lose(id, hop, cause, observer);
                    self.leave(id);
                }
            }
        }
    }

    /// A frame has left a node over one more hop, or never will.
    fn leave(&mut self, id: u32) -> Copy {
        let copy = self.copies[id];
        match copy.left {
            0 | 1 => self.copies.remove(id),
            left => self.copies[id].left = left - 1,
        }
        copy
    }

    /// What a link did with a frame.
    fn follow(&mut self, outcome: Outcome, observer: &mut dyn Observer) {
        match outcome {
            Outcome::Started { frame: FrameId(id), .. } => self.started(id, observer),
            Outcome::Received { frame: FrameId(id), .. } => self.received(id, observer),
            Outcome::Sent { .. }
            | Outcome::Failed { .. }
            | Outcome::Missed { .. }
            | Outcome::Refused { .. } => {}
        }
    }

    /// The preamble of a frame begins.
    fn started(&mut self, id: u32, observer: &mut dyn Observer) {
        self.count_delay(id);
        let copy = &mut self.copies[id];
        let hop = self.network.flows[copy.flow as usize].hops[copy.hop as usize];
        let link = &self.network.links[hop.link];
        let first_bit = self.core.now() + link.preamble();
        let delay = link.delay;
        let is_first = copy.started.is_none();
        let started = *copy.started.get_or_insert(first_bit);
        let (flow, due) = (copy.flow as usize, copy.due);
        observer.transmits(&Transmission {
            flow: copy.flow as usize,
            number: copy.number,
            link: hop.link,
            from: hop.from,
            source: self.network.flows[copy.flow as usize].from,
            at: first_bit,
            due: copy.due,
            started,
            pcf: copy.control.map(|(pcf, _)| pcf),
        });
        let now = self.core.now();
        if is_first
            && copy.control.is_none()
            && let Some(next) =
                self.network.flows[flow].traffic.next_behind(due - Time::ZERO, now - Time::ZERO)
        {
            self.senders[flow].due = Time::ZERO + next;
            self.plan_dispatch(flow);
        }
        if self.relaying(hop.to) == Some(Relaying::CutThrough) {
            // It leaves while it still arrives.
            let at = first_bit + delay;
            self.arrive(self.copies[id], hop.to, at, observer);
        }
    }

    /// The last bit of a frame has reached the end of its hop.
    fn received(&mut self, id: u32, observer: &mut dyn Observer) {
        let mut copy = self.copies[id];
        self.copies.remove(id);
        let (flow, number) = (copy.flow as usize, copy.hop as usize);
        let hop = self.network.flows[flow].hops[number];
        let now = self.core.now();
        let transmission = self.network.links[hop.link].transmission(self.network.flows[flow].size);
        let first_bit = earlier(now, transmission);
        if copy.control.is_some() {
            self.receive_control(&mut copy, hop.to);
            if self.network.flows[flow].hops_behind(number).next().is_none() {
                return;
            }
        }
        match self.relaying(hop.to) {
            // It is in the switch already.
            Some(Relaying::CutThrough) => {}
            Some(_) => self.arrive(copy, hop.to, first_bit, observer),
            None => {
                let local = self.clocks[hop.to].local(first_bit);
                let is_outside = self.network.is_outside_window((flow, number), local);
                let fate = if is_outside { Err(Cause::OutsideWindow) } else { Ok(now) };
                observer.record(&record(&copy, hop.to, fate));
            }
        }
    }

    /// A frame whose first bit comes at `first_bit` is in a switch.
    fn arrive(&mut self, copy: Copy, node: usize, first_bit: Time, observer: &mut dyn Observer) {
        let (flow, hop) = (copy.flow as usize, copy.hop as usize);
        let left = self.network.flows[flow].hops_behind(hop).count() as u32;
        let id = self.copies.insert(Copy { left, ..copy });
        let act = &mut |action| self.actions.push(action);
        let first_bit = self.clocks[node].local(first_bit);
        self.stations[node].arrive(&self.network, (flow, hop), id, first_bit, act);
        self.act(observer);
        self.plan_station(node);
    }

    /// How a node relays; `None` for an end system.
    fn relaying(&self, node: usize) -> Option<Relaying> {
        match self.network.nodes[node].role {
            Role::EndSystem(_) => None,
            Role::Switch(switch) => Some(switch.relaying),
        }
    }

    /// A frame does not reach the receivers behind a hop.
    fn lose(&self, id: u32, hop: usize, cause: Cause, observer: &mut dyn Observer) {
        let copy = self.copies[id];
        if copy.control.is_some() {
            return;
        }
        for &receiver in &self.behind[copy.flow as usize][hop] {
            observer.record(&record(&copy, receiver, Err(cause)));
        }
    }

    /// The run is over, and a frame is still on its way.
    fn end_unfinished(&mut self, id: u32, observer: &mut dyn Observer) {
        self.lose(id, self.copies[id].hop as usize, Cause::Unfinished, observer);
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

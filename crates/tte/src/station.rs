//! [`Station`]: the queues of a node, and which frame leaves when. It has no links and no clock: the simulation and
//! the switch of this machine are two users of it.
//!
//! ```text
//!  arrive --> checked --processing--> relay buffer of the flow --instant--> port --> Action::Starts
//!  submit ----------------------------------------------------------------> port --> Action::Starts
//!                 \--> Action::Dropped                  \--> Action::Dropped
//! ```
//!
//! Times count from the begin of the first cycle, by the clock of the node. An instant is decided when everything that arrives up to it was
//! told: whoever drives a station tells arrivals first, then calls [`Station::advance`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use candor_causes::Cause;
use candor_time::Nanos;

use crate::port::{Next, Port, Waiting};
use crate::relays::Relays;
use crate::{Network, Relaying, Role, Traffic};

/// What a station does with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Its preamble begins on the link of a hop.
    Starts {
        /// The number by which whoever drives the station knows the frame.
        id: u32,
        flow: usize,
        /// The hop, of those of the flow.
        hop: usize,
        /// When; the first bit follows the preamble.
        at: Nanos,
    },
    /// It goes no further on a hop.
    Dropped {
        /// See [`Action::Starts`].
        id: u32,
        flow: usize,
        /// The hop on which it does not leave; if it was refused when it arrived, that by which it came.
        hop: usize,
        /// Why.
        cause: Cause,
    },
}

/// What is to happen, in the order of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A frame can leave: which, of which flow, and the hop by which it came.
    Ready(u32, usize, usize),
    /// The instant of a flow on a hop.
    Relay(usize, usize),
    /// The port of a link looks again.
    Choose(usize),
}

/// The queues of a node.
pub struct Station {
    node: usize,
    ports: BTreeMap<usize, Port>,
    relays: Relays,
    /// When each flow brought its last frame, if it is rate-constrained.
    last: BTreeMap<usize, Nanos>,
    planned: BinaryHeap<Reverse<(Nanos, Event)>>,
    /// By how much the clock of the node is fast or slow at most, in parts per million.
    tolerance_ppm: u32,
}

impl Station {
    /// The empty queues of a node. The first instants are those at or behind `from`.
    #[must_use]
    pub fn new(network: &Network, node: usize, from: Nanos) -> Self {
        let ports = network.links_of(node).map(|link| (link, Port::new(network, node, link)));
        let ports = ports.collect();
        let relays = Relays::new(network, node);
        let mut planned = BinaryHeap::new();
        for (flow, number) in relays.places() {
            let hop = &network.flows[flow].hops[number];
            let period = network.flows[flow].period().unwrap_or(network.cycle).as_nanos();
            let preamble = network.links[hop.link].preamble().as_nanos();
            let into = (hop.at.as_nanos() % period + period - preamble % period) % period;
            let first = from.as_nanos().saturating_sub(into).div_ceil(period) * period + into;
            planned.push(Reverse((Nanos::from_nanos(first), Event::Relay(flow, number))));
        }
        Self { node, ports, relays, last: BTreeMap::new(), planned, tolerance_ppm: 0 }
    }

    /// The clock of the node is fast or slow by so much at most: frames of other classes are taken to be that
    /// much longer, so that they are gone before a time-triggered one.
    pub fn tolerate(&mut self, ppm: u32) {
        self.tolerance_ppm = ppm;
    }

    /// A link is occupied until `until`, by the clock of the node. Links have a rate of their own: whoever drives a
    /// station whose clock differs from it, or was corrected, says so when a frame has started and when the clock was
    /// corrected.
    pub fn occupied(&mut self, link: usize, until: Nanos) {
        if self.ports.get_mut(&link).is_some_and(|port| port.occupied(until)) {
            self.look(link, until);
        }
    }

    /// The first bit of a frame came at `first_bit` by the hop `hop` of the flow `flow`.
    pub fn arrive(
        &mut self,
        network: &Network,
        (flow, hop): (usize, usize),
        id: u32,
        first_bit: Nanos,
        act: &mut dyn FnMut(Action),
    ) {
        let Role::Switch(switch) = network.nodes[self.node].role else { return };
        let link = &network.links[network.flows[flow].hops[hop].link];
        let complete = first_bit + link.transmission(network.flows[flow].size);
        let ready = match switch.relaying {
            Relaying::CutThrough => {
                // On a faster link the last bit would leave before it has come.
                let size = network.flows[flow].size;
                let next = network.flows[flow].hops_behind(hop);
                let out = next
                    .map(|it| network.links[network.flows[flow].hops[it].link].transmission(size));
                let out = out.min().unwrap_or(link.transmission(size));
                first_bit
                    + Nanos::from_nanos(
                        link.transmission(size).as_nanos().saturating_sub(out.as_nanos()),
                    )
            }
            Relaying::StoreAndForward => complete,
            Relaying::TimeTriggered(_) => {
                let refused = if network.is_outside_window((flow, hop), first_bit) {
                    Some(Cause::OutsideWindow)
                } else if self.is_too_soon(network, flow, complete) {
                    Some(Cause::TooSoon)
                } else {
                    None
                };
                if let Some(cause) = refused {
                    act(Action::Dropped { id, flow, hop, cause });
                    return;
                }
                complete
            }
        };
        self.planned.push(Reverse((ready + switch.processing, Event::Ready(id, flow, hop))));
    }

    /// A frame of the node itself waits for its port.
    pub fn submit(
        &mut self,
        network: &Network,
        (flow, hop): (usize, usize),
        id: u32,
        now: Nanos,
        act: &mut dyn FnMut(Action),
    ) {
        let link = network.flows[flow].hops[hop].link;
        let Some(port) = self.ports.get_mut(&link) else { return };
        if port.push(&network.flows[flow], Waiting { id, flow, hop }) {
            self.look(link, now);
        } else {
            act(Action::Dropped { id, flow, hop, cause: Cause::QueueFull });
        }
    }

    /// When something is to happen next.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.planned.peek().map(|Reverse((at, _))| *at)
    }

    /// Does what is to happen up to `until`, each at its own time.
    pub fn advance(&mut self, network: &Network, until: Nanos, act: &mut dyn FnMut(Action)) {
        while let Some(at) = self.next_at().filter(|&at| at <= until) {
            let Some(Reverse((_, event))) = self.planned.pop() else { return };
            match event {
                Event::Ready(id, flow, hop) => self.ready(network, (flow, hop), id, at, act),
                Event::Relay(flow, hop) => {
                    let link = network.flows[flow].hops[hop].link;
                    let period = network.flows[flow].period().unwrap_or(network.cycle);
                    self.planned.push(Reverse((at + period, event)));
                    if let (Some(id), Some(port)) =
                        (self.relays.take(flow, hop), self.ports.get_mut(&link))
                    {
                        port.push_scheduled(Waiting { id, flow, hop });
                    }
                    self.look(link, at);
                }
                Event::Choose(link) => self.choose(network, link, at, act),
            }
        }
    }

    /// A frame can leave, over the hops that follow the one by which it came.
    fn ready(
        &mut self,
        network: &Network,
        (flow, came): (usize, usize),
        id: u32,
        at: Nanos,
        act: &mut dyn FnMut(Action),
    ) {
        for hop in network.flows[flow].hops_behind(came) {
            if !self.relays.has(flow, hop) {
                self.submit(network, (flow, hop), id, at, act);
            } else if let Some((id, cause)) = self.relays.put(flow, hop, id) {
                act(Action::Dropped { id, flow, hop, cause });
            }
        }
    }

    /// A port that is free takes the next frame that may leave.
    fn choose(&mut self, network: &Network, index: usize, now: Nanos, act: &mut dyn FnMut(Action)) {
        let Some(port) = self.ports.get_mut(&index) else { return };
        if !port.has_come(now) {
            return;
        }
        let link = &network.links[index];
        let tolerance_ppm = u64::from(self.tolerance_ppm);
        let occupation = |it: Waiting| {
            let nominal = link.occupation(network.flows[it.flow].size);
            let more_ns = (nominal.as_nanos() * tolerance_ppm).div_ceil(1_000_000);
            nominal + Nanos::from_nanos(more_ns)
        };
        match port.choose(now, &occupation) {
            Next::Nothing => {}
            Next::Later(at) => self.look(index, at),
            Next::Sends(Waiting { id, flow, hop }) => {
                act(Action::Starts { id, flow, hop, at: now });
                // Another frame may wait; the port says when it can leave.
                self.look(index, now);
            }
        }
    }

    /// A port looks which frame leaves at `at`.
    fn look(&mut self, link: usize, at: Nanos) {
        if self.ports.get_mut(&link).is_some_and(|port| port.looks(at)) {
            self.planned.push(Reverse((at, Event::Choose(link))));
        }
    }

    /// Whether a rate-constrained frame came sooner behind the one before than it may; if not, it is the last one
    /// from now on.
    fn is_too_soon(&mut self, network: &Network, flow: usize, now: Nanos) -> bool {
        let Traffic::RateConstrained { gap, jitter } = network.flows[flow].traffic else {
            return false;
        };
        if network.flows[flow].is_control {
            return false;
        }
        let is_too_soon = self.last.get(&flow).is_some_and(|&last| now + jitter < last + gap);
        if !is_too_soon {
            self.last.insert(flow, now);
        }
        is_too_soon
    }
}

impl Network {
    /// Whether a time-triggered frame whose first bit came at `first_bit` at the end of a hop is outside of its receive
    /// window. Times count from the begin of a cycle.
    #[must_use]
    pub fn is_outside_window(&self, (flow, hop): (usize, usize), first_bit: Nanos) -> bool {
        let Traffic::TimeTriggered { window: Some(window), period, .. } = self.flows[flow].traffic
        else {
            return false;
        };
        let hop = &self.flows[flow].hops[hop];
        let wanted = hop.at + self.links[hop.link].delay;
        // How far it is from the nearest of the instants, which repeat.
        let period = i128::from(period.as_nanos());
        let distance = i128::from(first_bit.as_nanos()) - i128::from(wanted.as_nanos());
        let distance = distance.rem_euclid(period);
        distance.min(period - distance) * 2 > i128::from(window.as_nanos())
    }
}

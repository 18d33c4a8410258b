//! [`Switch`]: relays between interfaces as a node of the network does, over links that take their time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_causes::Cause;
use candor_linux::ethernet::EthernetSocket;
use candor_linux::{Error, Sent, poll};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::station::{Action, Station};
use candor_tte::{Network, Role};
use candor_wire::eth::tte::Measurement;

use crate::frame::Destinations;
use crate::pace::{AWAKE, Pace};
use crate::{Epoch, Stops};

/// How long it sleeps at most.
const ATTENTION: Nanos = Nanos::from_millis(50);
/// What happens within this is waited for, and no port is looked at meanwhile.
const IMMINENT: Nanos = Nanos::from_micros(10);
/// How long behind an instant at which a frame is to come it stays awake.
const PATIENCE: Nanos = Nanos::from_micros(100);

/// A switch.
pub struct Switch<'a> {
    /// The network.
    pub network: &'a Network,
    /// Which of its nodes this is.
    pub node: usize,
    /// Its interfaces, each with the link that it is on.
    pub ports: Vec<(usize, &'a EthernetSocket)>,
    /// When the first cycle begins.
    pub epoch: Epoch,
    /// How long the way of a frame from here to the interface takes: it is handed over that much earlier.
    pub advance: Nanos,
}

/// A frame that was relayed over a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// What it says.
    pub measurement: Measurement,
    /// When its last bit was to reach the other end.
    pub due: Instant<Realtime>,
    /// When the kernel handed it to the interface, or without a stamp, when the program was done with it.
    pub done: Instant<Realtime>,
    /// When the kernel had it.
    pub received: Instant<Realtime>,
    /// When the program had it.
    pub noticed: Instant<Realtime>,
}

/// What a switch has done.
#[derive(Debug, Default)]
pub struct Switched {
    /// Time-triggered frames that it relayed.
    pub relayed: Vec<Relayed>,
    /// Other frames that it relayed.
    pub others: u64,
    /// Frames that it dropped, by flow, number and cause; other than time-triggered ones by flow only.
    pub dropped: Vec<(usize, u64, Cause)>,
    /// Frames of no flow that comes by that port.
    pub strangers: u64,
    /// When the thread was stopped.
    pub stops: Stops,
}

/// A frame inside.
struct Inside {
    bytes: Vec<u8>,
    measurement: Option<Measurement>,
    received: Instant<Realtime>,
    noticed: Instant<Realtime>,
    left: usize,
}

/// A port at work.
struct Inlet {
    /// When the last frame had come as a whole, and the gap behind it was over.
    free_at: Nanos,
    /// Whether frames come from an end system, whose frames have yet to be transmitted.
    is_from_end_system: bool,
}

impl Switch<'_> {
    /// Relays until `stop`.
    ///
    /// # Errors
    /// An interface is down or gone.
    pub fn run(&self, stop: &AtomicBool) -> Result<Switched, Error> {
        let mut station = Station::new(self.network, self.node, Nanos::ZERO);
        let destinations = Destinations::new(self.network);
        let mut inlets = self.inlets();
        let arrivals = self.arrivals();
        let mut out = Switched::default();
        let mut pace = Pace::new(self.advance);
        let mut inside: BTreeMap<u32, Inside> = BTreeMap::new();
        let mut next_id = 0_u32;
        let mut departures: BinaryHeap<Reverse<(Nanos, u32, usize)>> = BinaryHeap::new();
        let mut actions = Vec::new();
        let mut bytes = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            for (index, (link, socket)) in self.ports.iter().enumerate() {
                while let Some(received) = socket.receive(&mut bytes)? {
                    let noticed = pace.now();
                    let found = destinations.flow_of(&bytes[..received.len]);
                    let came = found.and_then(|(flow, measurement)| {
                        let is_it =
                            |hop: &candor_tte::Hop| (hop.link, hop.to) == (*link, self.node);
                        let hop = self.network.flows[flow].hops.iter().position(is_it)?;
                        Some((flow, hop, measurement))
                    });
                    let Some((flow, hop, measurement)) = came else {
                        out.strangers += 1;
                        continue;
                    };
                    let stamp = received.stamp.unwrap_or(noticed);
                    let first_bit =
                        self.first_bit(&mut inlets[index], *link, flow, self.epoch.since(stamp));
                    let left = self.network.flows[flow].hops_behind(hop).count();
                    let id = next_id;
                    next_id = next_id.wrapping_add(1);
                    inside.insert(
                        id,
                        Inside {
                            bytes: bytes[..received.len].to_vec(),
                            measurement,
                            received: stamp,
                            noticed,
                            left,
                        },
                    );
                    let act = &mut |action| actions.push(action);
                    station.arrive(self.network, (flow, hop), id, first_bit, act);
                }
            }
            let next = loop {
                let time = self.epoch.since(pace.now());
                station.advance(self.network, time, &mut |action| actions.push(action));
                for action in actions.drain(..) {
                    match action {
                        Action::Starts { id, flow, hop, at } => {
                            let number = self.network.flows[flow].hops[hop].link;
                            let link = &self.network.links[number];
                            let size = self.network.flows[flow].size;
                            let last_bit =
                                at + link.preamble() + link.transmission(size) + link.delay;
                            departures.push(Reverse((last_bit, id, number)));
                        }
                        Action::Dropped { id, flow, cause, .. } => {
                            if let Some(frame) = leave(&mut inside, id) {
                                let number = frame.map_or(0, |it| u64::from(it.sequence));
                                out.dropped.push((flow, number, cause));
                            }
                        }
                    }
                }
                while let Some(&Reverse((at, id, link))) = departures.peek() {
                    let due = self.epoch.at(at);
                    if pace.now() < pace.earlier(due) {
                        break;
                    }
                    departures.pop();
                    self.depart(&mut inside, id, link, due, &mut pace, &mut out)?;
                }
                let departure = departures.peek().map(|it| self.epoch.at(it.0.0));
                let departure = departure.map(|due| pace.earlier(due));
                let next = station.next_at().map(|at| self.epoch.at(at));
                let next = [next, departure].into_iter().flatten().min();
                // Whoever looks for frames now may come too late for what is to happen.
                match next.filter(|&at| at < pace.now() + IMMINENT) {
                    Some(at) => pace.until(at),
                    None => break next,
                };
            };
            self.rest(next, &arrivals, &mut pace)?;
        }
        out.stops = pace.gaps;
        Ok(out)
    }

    fn inlets(&self) -> Vec<Inlet> {
        let inlet = |(link, _): &(usize, &EthernetSocket)| {
            let other = self.network.links[*link].other_end(self.node);
            let role = other.map(|node| &self.network.nodes[node].role);
            let is_from_end_system = matches!(role, Some(Role::EndSystem(_)));
            Inlet { free_at: Nanos::ZERO, is_from_end_system }
        };
        self.ports.iter().map(inlet).collect()
    }

    /// When time-triggered frames are to come: the first instant of each flow, and its period.
    fn arrivals(&self) -> Vec<(Nanos, Nanos)> {
        let flows = self.network.flows.iter().filter_map(|flow| Some((flow, flow.period()?)));
        let hops = flows.flat_map(|(flow, period)| flow.hops.iter().map(move |hop| (hop, period)));
        hops.filter(|(hop, _)| hop.to == self.node).map(|(hop, period)| (hop.at, period)).collect()
    }

    /// When the first bit of a frame came that the kernel has had at `stamp`.
    fn first_bit(&self, inlet: &mut Inlet, link: usize, flow: usize, stamp: Nanos) -> Nanos {
        let link = &self.network.links[link];
        let size = self.network.flows[flow].size;
        let transmission = link.transmission(size);
        if !inlet.is_from_end_system {
            // The switch at the other end has waited for the last bit.
            return Nanos::from_nanos(stamp.as_nanos().saturating_sub(transmission.as_nanos()));
        }
        // Frames that left too close together follow one another on the link.
        let first_bit = stamp.max(inlet.free_at);
        inlet.free_at = first_bit + link.occupation(size);
        first_bit + link.delay
    }

    /// A frame leaves by the port of a link.
    fn depart(
        &self,
        inside: &mut BTreeMap<u32, Inside>,
        id: u32,
        link: usize,
        due: Instant<Realtime>,
        pace: &mut Pace,
        out: &mut Switched,
    ) -> Result<(), Error> {
        let Some(frame) = inside.get(&id) else { return Ok(()) };
        let port = self.ports.iter().find(|(it, _)| *it == link);
        let Some((_, socket)) = port else { return Ok(()) };
        let sent = socket.send(&frame.bytes)?;
        let mut stamp = None;
        socket.transmit_stamps(&mut |_, it| stamp = Some(it))?;
        if let Some(stamp) = stamp {
            pace.stamped(stamp);
        }
        let done = stamp.unwrap_or_else(|| pace.now());
        if frame.measurement.is_some_and(|it| self.is_scheduled(it.stream)) {
            pace.learn(due, done);
        }
        match frame.measurement.filter(|it| self.is_scheduled(it.stream)) {
            Some(measurement) if sent == Sent::Taken => {
                let Inside { received, noticed, .. } = *frame;
                out.relayed.push(Relayed { measurement, due, done, received, noticed });
            }
            Some(measurement) => {
                let number = u64::from(measurement.sequence);
                out.dropped.push((usize::from(measurement.stream), number, Cause::QueueFull));
            }
            None => out.others += 1,
        }
        leave(inside, id);
        Ok(())
    }

    /// Whether the frames of a flow are time-triggered.
    fn is_scheduled(&self, flow: u16) -> bool {
        let flow = self.network.flows.get(usize::from(flow));
        flow.is_some_and(candor_tte::Flow::is_time_triggered)
    }

    /// Sleeps if nothing is to happen soon.
    fn rest(
        &self,
        next: Option<Instant<Realtime>>,
        arrivals: &[(Nanos, Nanos)],
        pace: &mut Pace,
    ) -> Result<(), Error> {
        let now = self.epoch.since(pace.now());
        let mut until = now + ATTENTION;
        if let Some(next) = next {
            until = until.min(self.epoch.since(next));
        }
        for &(at, period) in arrivals {
            // Awake until a frame of the last instant can no longer come.
            let into = i128::from(now.as_nanos()) - i128::from(at.as_nanos());
            let behind = into.rem_euclid(i128::from(period.as_nanos())) as u64;
            if behind < PATIENCE.as_nanos() {
                return Ok(());
            }
            until = until.min(now + Nanos::from_nanos(period.as_nanos() - behind));
        }
        if until > now + AWAKE + AWAKE {
            let files: Vec<_> = self.ports.iter().map(|(_, socket)| socket.as_fd()).collect();
            let wake_at = Nanos::from_nanos(until.as_nanos() - AWAKE.as_nanos());
            let timeout = Nanos::from_nanos(wake_at.as_nanos() - now.as_nanos());
            if poll::wait_any_or_signal(&files, Some(timeout))? {
                pace.gaps.pause();
            } else {
                pace.woken(self.epoch.at(wake_at));
            }
        }
        Ok(())
    }
}

/// A frame has left over one more hop, or never will: what it says, if it was inside.
fn leave(inside: &mut BTreeMap<u32, Inside>, id: u32) -> Option<Option<Measurement>> {
    let frame = inside.get_mut(&id)?;
    let measurement = frame.measurement;
    frame.left = frame.left.saturating_sub(1);
    if frame.left == 0 {
        inside.remove(&id);
    }
    Some(measurement)
}

//! [`EndSystem`]: sends the frames of the flows that begin at a node, in schedule.
//!
//! Frames of other nodes can be sent by the same thread, between its own. A thread that is awake before an instant
//! keeps others off its processor: frames that another thread there is to send at random would never come close to
//! that instant, and would be in nobody's way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::ethernet::EthernetSocket;
use candor_linux::{Error, Sent, clock};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::station::{Action, Station};
use candor_tte::{Network, Traffic};
use candor_wire::eth::tte::Measurement;
use rand_core::Rng;
use rand_pcg::Pcg32;

use crate::pace::{AWAKE, Pace};
use crate::{Epoch, Stops, Warmer};

/// The longest frame without its check sequence and without a tag.
pub(crate) const MAX_LEN: usize = 1_514;

/// Sends.
pub struct EndSystem<'a> {
    /// The network.
    pub network: &'a Network,
    /// Which of its nodes this is.
    pub node: usize,
    /// Its interface.
    pub socket: &'a EthernetSocket,
    /// Other nodes whose frames the same thread sends, with their interfaces.
    pub others: Vec<(usize, &'a EthernetSocket)>,
    /// When the first cycle begins.
    pub epoch: Epoch,
    /// The number of this run, in every frame.
    pub run: u32,
    /// Of what is random.
    pub seed: u64,
    /// How long the way of a frame from here to the interface takes: it is handed over that much earlier.
    pub advance: Nanos,
    /// What keeps the kernel warm.
    pub warmer: Option<Warmer<'a>>,
}

/// A frame that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The flow.
    pub flow: usize,
    /// Its number, from 0.
    pub number: u64,
    /// When its first bit was to leave.
    pub due: Instant<Realtime>,
    /// When the kernel handed it to the interface; `None` if it gave no stamp.
    pub stamp: Option<Instant<Realtime>>,
    /// Whether the interface took it.
    pub is_taken: bool,
}

/// What an end system has done.
#[derive(Debug, Default)]
pub struct Departures {
    /// Frames of the flow that counts, in their order.
    pub frames: Vec<Departure>,
    /// Frames of other flows.
    pub others: u64,
    /// When the thread was stopped.
    pub stops: Stops,
}

/// A flow that begins here.
pub(crate) struct Source {
    /// Which of the nodes of a thread sends it.
    place: usize,
    pub(crate) flow: usize,
    pub(crate) number: u64,
    /// When the first bit of the next frame is to leave.
    pub(crate) due: Nanos,
    random: Pcg32,
}

impl Source {
    /// The flows that begin at a node, from the second cycle on.
    pub(crate) fn of_node(network: &Network, node: usize, seed: u64) -> Vec<Self> {
        let flows = network.flows.iter().enumerate();
        flows
            .filter(|(_, flow)| flow.from == node)
            .filter(|(_, flow)| flow.traffic != (Traffic::BestEffort { load: 0.0 }))
            .map(|(index, flow)| {
                let due = match flow.traffic {
                    Traffic::TimeTriggered { send, .. } => network.cycle + send,
                    _ => network.cycle,
                };
                let random = Pcg32::new(seed, index as u64);
                Self { place: 0, flow: index, number: 0, due, random }
            })
            .collect()
    }

    /// When the frame goes to its port, so that the first bit leaves when it is due.
    pub(crate) fn submit_at(&self, network: &Network) -> Nanos {
        match (&network.flows[self.flow].traffic, network.flows[self.flow].hops.first()) {
            (Traffic::TimeTriggered { .. }, Some(hop)) => {
                let preamble = network.links[hop.link].preamble().as_nanos();
                Nanos::from_nanos(self.due.as_nanos().saturating_sub(preamble))
            }
            _ => self.due,
        }
    }

    pub(crate) fn advance(&mut self, network: &Network) {
        self.number += 1;
        let flow = &network.flows[self.flow];
        self.due += match flow.traffic {
            Traffic::TimeTriggered { period, .. } => period,
            Traffic::RateConstrained { gap, .. } => gap,
            Traffic::BestEffort { load } => {
                let link = flow.hops.first().map_or(0, |hop| hop.link);
                let busy = network.links[link].occupation(flow.size);
                let unit = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                let mean_ns = busy.as_nanos() as f64 * (1.0 - load) / load;
                busy + Nanos::from_nanos((mean_ns * -(1.0 - unit).ln()) as u64)
            }
        };
    }
}

impl EndSystem<'_> {
    /// The nodes with their interfaces.
    fn nodes(&self) -> impl Iterator<Item = (usize, &EthernetSocket)> {
        [(self.node, self.socket)].into_iter().chain(self.others.iter().copied())
    }

    /// The flows that begin here.
    fn sources(&self) -> Vec<Source> {
        let mut sources = Vec::new();
        for (place, (node, _)) in self.nodes().enumerate() {
            let own = Source::of_node(self.network, node, self.seed);
            sources.extend(own.into_iter().map(|source| Source { place, ..source }));
        }
        sources
    }

    /// Sends until `count` frames of the flow `counted` have been sent, or until `stop`. It is awake before frames of
    /// time-triggered flows; others may leave some 100 us late.
    ///
    /// # Errors
    /// An interface is down or gone.
    pub fn run(
        &self,
        counted: Option<(usize, u64)>,
        stop: &AtomicBool,
    ) -> Result<Departures, Error> {
        let stations = self.nodes().map(|(node, _)| Station::new(self.network, node, Nanos::ZERO));
        let mut stations: Vec<_> = stations.collect();
        let sockets: Vec<_> = self.nodes().map(|(_, socket)| socket).collect();
        let mut sources = self.sources();
        let mut out = Departures::default();
        if let Some((_, count)) = counted {
            out.frames.reserve(usize::try_from(count).unwrap_or(0).min(1 << 24));
        }
        let mut bytes = [0; MAX_LEN];
        let (mut pace, mut actions) = (Pace::new(self.advance, self.warmer), Vec::new());
        // Kernel numbers of frames that count, by their place.
        let mut first_id = Vec::new();
        // Frames that wait in the stations, by the numbers by which these know them.
        let mut waiting: BTreeMap<u32, Waiting> = BTreeMap::new();
        let mut next_id = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            let next = sources.iter_mut().min_by_key(|source| source.submit_at(self.network));
            let Some(source) = next else { break };
            let submit_at = source.submit_at(self.network);
            let planned = stations.iter().enumerate();
            let planned = planned.filter_map(|(place, it)| Some((it.next_at()?, place))).min();
            if let Some((at, place)) = planned.filter(|&(at, _)| at <= submit_at) {
                let act = &mut |action| actions.push((place, action));
                stations[place].advance(self.network, at, act);
            } else {
                let is_counted = counted.is_some_and(|(flow, _)| flow == source.flow);
                if let Some((_, count)) = counted.filter(|_| is_counted)
                    && source.number >= count
                {
                    break;
                }
                let place = source.place;
                for hop in self.network.flows[source.flow].first_hops() {
                    waiting.insert(next_id, Waiting { number: source.number, due: source.due });
                    let act = &mut |action| actions.push((place, action));
                    let station = &mut stations[place];
                    station.submit(self.network, (source.flow, hop), next_id, submit_at, act);
                    next_id = next_id.wrapping_add(1);
                }
                source.advance(self.network);
            }
            for (place, action) in actions.drain(..) {
                let (id, flow, hop, at) = match action {
                    Action::Starts { id, flow, hop, at } => (id, flow, hop, at),
                    Action::Dropped { id, .. } => {
                        waiting.remove(&id);
                        continue;
                    }
                };
                let Some(Waiting { number, due }) = waiting.remove(&id) else { continue };
                let link = &self.network.links[self.network.flows[flow].hops[hop].link];
                let first_bit = self.epoch.at(at + link.preamble());
                let is_near = next_instant(self.network, &sources)
                    .is_some_and(|instant| at + AWAKE >= instant);
                if self.network.flows[flow].is_time_triggered() || is_near {
                    if !pace.until_unless(pace.earlier(first_bit), stop) {
                        break;
                    }
                } else {
                    let _ = clock::sleep_until(first_bit);
                    pace.gaps.pause();
                }
                let measurement = Measurement {
                    run: self.run,
                    stream: flow as u16,
                    sequence: number as u32,
                    scheduled_ns: self.epoch.at(due).as_nanos(),
                    sent_ns: clock::now::<Realtime>().as_nanos(),
                };
                let socket = sockets[place];
                let len = self.network.write_frame(socket.address(), &measurement, &mut bytes);
                let kernel_id = socket.next_id();
                let sent = socket.send(&bytes[..len])?;
                if counted.is_some_and(|(it, _)| it == flow) {
                    first_id.push((kernel_id, out.frames.len()));
                    let is_taken = sent == Sent::Taken;
                    let due = self.epoch.at(due);
                    out.frames.push(Departure { flow, number, due, stamp: None, is_taken });
                } else {
                    out.others += 1;
                }
            }
            if let Some(stamp) = self.fetch_stamps(&mut first_id, &mut out.frames)? {
                pace.stamped(stamp);
                if let Some(frame) = out.frames.last().filter(|it| it.stamp == Some(stamp)) {
                    pace.learn(frame.due, stamp);
                }
            }
        }
        // The last stamps are there as soon as their frames have left.
        self.fetch_stamps(&mut first_id, &mut out.frames)?;
        out.stops = pace.gaps;
        Ok(out)
    }

    /// Joins the kernel's stamps with the frames that count. The last one.
    fn fetch_stamps(
        &self,
        ids: &mut Vec<(u32, usize)>,
        frames: &mut [Departure],
    ) -> Result<Option<Instant<Realtime>>, Error> {
        let mut last = None;
        // Nobody asks for those of other nodes, but they would fill the receive buffers.
        for (_, socket) in &self.others {
            socket.transmit_stamps(&mut |_, _| {})?;
        }
        self.socket.transmit_stamps(&mut |id, stamp| {
            last = Some(stamp);
            if let Some(place) = ids.iter().position(|&(it, _)| it == id) {
                frames[ids.swap_remove(place).1].stamp = Some(stamp);
            }
        })?;
        Ok(last)
    }
}

/// A frame that waits for its port.
struct Waiting {
    number: u64,
    due: Nanos,
}

/// When the next time-triggered frame goes to its port.
fn next_instant(network: &Network, sources: &[Source]) -> Option<Nanos> {
    let scheduled = sources.iter().filter(|it| network.flows[it.flow].is_time_triggered());
    scheduled.map(|source| source.submit_at(network)).min()
}

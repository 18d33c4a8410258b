//! [`EndSystem`]: sends the frames of the flows that begin at one node, in schedule.

use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::ethernet::EthernetSocket;
use candor_linux::{Error, Sent, clock};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::station::{Action, Station};
use candor_tte::{Network, Traffic};
use candor_wire::eth::tte::Measurement;
use rand_core::Rng;
use rand_pcg::Pcg32;

use crate::pace::Pace;
use crate::{Epoch, Stops, frame};

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
    /// When the first cycle begins.
    pub epoch: Epoch,
    /// The number of this run, in every frame.
    pub run: u32,
    /// Of what is random.
    pub seed: u64,
    /// How long the way of a frame from here to the interface takes: it is handed over that much earlier.
    pub advance: Nanos,
    /// Whether it is awake at each instant; else it sleeps, and frames may leave some 100 us late.
    pub is_precise: bool,
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
                Self { flow: index, number: 0, due, random }
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
    /// Sends until `count` frames of the flow `counted` have been sent, or until `stop`.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn run(
        &self,
        counted: Option<(usize, u64)>,
        stop: &AtomicBool,
    ) -> Result<Departures, Error> {
        let mut station = Station::new(self.network, self.node, Nanos::ZERO);
        let mut sources = Source::of_node(self.network, self.node, self.seed);
        let mut out = Departures::default();
        if let Some((_, count)) = counted {
            out.frames.reserve(usize::try_from(count).unwrap_or(0).min(1 << 24));
        }
        let mut bytes = [0; MAX_LEN];
        let (mut pace, mut actions) = (Pace::new(self.advance), Vec::new());
        // Kernel numbers of frames that count, by their place.
        let mut first_id = Vec::new();
        // Numbers of frames that wait in the station, by what it knows them by.
        let mut waiting: Vec<(usize, u64, Nanos)> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let next = sources.iter_mut().min_by_key(|source| source.submit_at(self.network));
            let Some(source) = next else { break };
            let submit_at = source.submit_at(self.network);
            if station.next_at().is_some_and(|at| at <= submit_at) {
                let at = station.next_at().unwrap_or(submit_at);
                station.advance(self.network, at, &mut |action| actions.push(action));
            } else {
                let is_counted = counted.is_some_and(|(flow, _)| flow == source.flow);
                if let Some((_, count)) = counted.filter(|_| is_counted)
                    && source.number >= count
                {
                    break;
                }
                waiting.push((source.flow, source.number, source.due));
                let id = (waiting.len() - 1) as u32;
                for hop in self.network.flows[source.flow].first_hops() {
                    let act = &mut |action| actions.push(action);
                    station.submit(self.network, (source.flow, hop), id, submit_at, act);
                }
                source.advance(self.network);
            }
            for action in actions.drain(..) {
                let Action::Starts { id, flow, hop, at } = action else { continue };
                let (_, number, due) = waiting[id as usize];
                let link = &self.network.links[self.network.flows[flow].hops[hop].link];
                let first_bit = self.epoch.at(at + link.preamble());
                if self.is_precise {
                    pace.until(pace.earlier(first_bit));
                } else {
                    let _ = clock::sleep_until(first_bit);
                }
                let measurement = Measurement {
                    run: self.run,
                    stream: flow as u16,
                    sequence: number as u32,
                    scheduled_ns: self.epoch.at(due).as_nanos(),
                    sent_ns: clock::now::<Realtime>().as_nanos(),
                };
                let len =
                    frame::write(self.network, self.socket.address(), &measurement, &mut bytes);
                let kernel_id = self.socket.next_id();
                let sent = self.socket.send(&bytes[..len])?;
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
            }
            if waiting.len() > 4_096 && station_is_idle(&station) {
                waiting.clear();
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
        self.socket.transmit_stamps(&mut |id, stamp| {
            last = Some(stamp);
            if let Some(place) = ids.iter().position(|&(it, _)| it == id) {
                frames[ids.swap_remove(place).1].stamp = Some(stamp);
            }
        })?;
        Ok(last)
    }
}

/// Whether no frame waits.
fn station_is_idle(station: &Station) -> bool {
    station.next_at().is_none()
}

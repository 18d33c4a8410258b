//! [`Generator`]: sends the frames of the flows that begin at one node, in the cycles of a switch that it listens to, or
//! in those of the clock of this machine.
//!
//! [`EndSystem`](crate::end_system::EndSystem) is for programs that know when the first cycle begins. Here it is found
//! out, again and again, by [`Synchronisation`]; while it is not known, frames are withheld.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::ethernet::EthernetSocket;
use candor_linux::{Error, Sent, clock};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::frames::PCF_SIZE;
use candor_tte::station::{Action, Station};
use candor_tte::{Network, Traffic};
use candor_wire::eth::tte::Measurement;

use crate::end_system::{Departure, MAX_LEN, Source};
use crate::pace::{ATTENTION, AWAKE, Pace};
use crate::synchronisation::{Change, Heard, Synchronisation};
use crate::{Epoch, Stops};

/// How long stamps of the last frames are waited for.
const LAST_STAMPS: Nanos = Nanos::from_millis(20);
/// How long a frame takes to the interface before that is found out.
const FIRST_ADVANCE: Nanos = Nanos::from_micros(2);
/// Frames that wait for their stamps at most.
const MOST_UNSTAMPED: usize = 1_024;

/// Where cycles come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cycles {
    /// The clock of this machine: see [`Epoch::of_the_clock`].
    FreeRunning,
    /// The protocol control frames of a virtual link.
    Pcfs {
        /// Its number.
        id: u16,
        /// Whether frames are sent, by the clock of this machine, while it is not synchronised.
        sends_unsynchronised: bool,
    },
}

/// Sends.
pub struct Generator<'a> {
    /// The network.
    pub network: &'a Network,
    /// Which of its nodes this is: an end system.
    pub node: usize,
    /// Its interface.
    pub socket: &'a EthernetSocket,
    /// Where cycles come from.
    pub cycles: Cycles,
    /// The number of this run, in every frame.
    pub run: u32,
    /// Of what is random.
    pub seed: u64,
    /// How long the way of a frame from here to the interface takes: it is handed over that much earlier. `None`: it is
    /// found out from the frames that were sent.
    pub advance: Option<Nanos>,
    /// So many frames of each time-triggered flow, or of each flow if none is; `None`: until it is stopped.
    pub count: Option<u64>,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A frame was sent.
    Sent {
        /// The frame.
        departure: Departure,
        /// Whether the thread was stopped while it sent it.
        is_marked: bool,
        /// Whether cycles were known. Always, if they are those of the clock of this machine.
        is_synchronised: bool,
    },
    /// A frame of a flow was not sent, since cycles were not known. It takes no number.
    Withheld(usize),
    /// A frame of a flow was not sent, since its instant had passed for more than a cycle. It takes no number.
    Missed(usize),
    /// A frame came that is no stranger, and how far the last ones are apart.
    Heard(Heard, Nanos),
    /// It is synchronised, or no longer.
    Changed(Change),
}

/// What is left at the end.
#[derive(Debug)]
pub struct Generated {
    /// When the thread was stopped.
    pub stops: Stops,
    /// The synchronisation, if there was one to be.
    pub synchronisation: Option<Synchronisation>,
    /// Frames that came and were no protocol control frames.
    pub strangers: u64,
}

/// A generator at work.
struct Work<'a> {
    generator: &'a Generator<'a>,
    pace: Pace<'a>,
    /// When the cycle 0 of the station began.
    epoch: Epoch,
    /// Whether that is by the present synchronisation.
    is_aligned: bool,
    synchronisation: Option<Synchronisation>,
    strangers: u64,
    /// Sent frames without a stamp yet: their number of the kernel, and whether they were synchronised.
    unstamped: VecDeque<(u32, Departure, bool)>,
    tell: &'a mut dyn FnMut(News),
}

impl Generator<'_> {
    /// Sends until all frames have been sent, or until `stop`, and tells what happens. Telling must not take long.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn run(&self, stop: &AtomicBool, tell: &mut dyn FnMut(News)) -> Result<Generated, Error> {
        let cycle = self.network.cycle;
        let way = self.network.links_of(self.node).next().map_or(Nanos::ZERO, |link| {
            let link = &self.network.links[link];
            link.transmission(PCF_SIZE) + link.delay
        });
        let synchronisation = match self.cycles {
            Cycles::FreeRunning => None,
            Cycles::Pcfs { id, .. } => {
                Some(Synchronisation::new(cycle, self.network.frames.critical, id, way))
            }
        };
        let epoch = Epoch::of_the_clock(clock::now::<Realtime>(), cycle);
        let mut work = Work {
            generator: self,
            pace: Pace::new(self.advance.unwrap_or(FIRST_ADVANCE), None),
            epoch,
            is_aligned: false,
            synchronisation,
            strangers: 0,
            unstamped: VecDeque::new(),
            tell,
        };
        work.send_all(stop)?;
        work.settle()?;
        let Work { pace, synchronisation, strangers, .. } = work;
        Ok(Generated { stops: pace.gaps, synchronisation, strangers })
    }

    /// Whether a flow has sent all of its frames.
    fn is_done(&self, flow: usize, number: u64) -> bool {
        self.count.is_some_and(|count| number >= count) && self.is_counted(flow)
    }

    /// Whether the frames of a flow count.
    fn is_counted(&self, flow: usize) -> bool {
        let flows = &self.network.flows;
        let has_scheduled =
            flows.iter().any(|flow| flow.from == self.node && flow.is_time_triggered());
        !has_scheduled || flows[flow].is_time_triggered()
    }
}

impl Work<'_> {
    fn send_all(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        let generator = self.generator;
        let network = generator.network;
        let mut station = Station::new(network, generator.node, Nanos::ZERO);
        let mut sources = Source::of_node(network, generator.node, generator.seed);
        let mut numbers = vec![0_u64; network.flows.len()];
        let mut actions = Vec::new();
        // Frames that wait in the station, by what it knows them by.
        let mut waiting: Vec<(usize, Nanos)> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            sources.retain(|source| !generator.is_done(source.flow, numbers[source.flow]));
            if !sources.iter().any(|source| generator.is_counted(source.flow)) {
                break;
            }
            let next = sources.iter_mut().min_by_key(|source| source.submit_at(network));
            let Some(source) = next else { break };
            let submit_at = source.submit_at(network);
            let act = &mut |action| actions.push(action);
            if let Some(at) = station.next_at().filter(|&at| at <= submit_at) {
                station.advance(network, at, act);
            } else {
                if waiting.len() > 4_096 && station.next_at().is_none() {
                    waiting.clear();
                }
                waiting.push((source.flow, source.due));
                let id = (waiting.len() - 1) as u32;
                for hop in network.flows[source.flow].first_hops() {
                    station.submit(network, (source.flow, hop), id, submit_at, act);
                }
                source.advance(network);
            }
            for action in actions.drain(..) {
                let Action::Starts { id, flow, hop, at } = action else { continue };
                let (_, due) = waiting[id as usize];
                if generator.is_done(flow, numbers[flow]) {
                    continue;
                }
                let preamble = network.links[network.flows[flow].hops[hop].link].preamble();
                if !self.wait(at + preamble, stop)? {
                    return Ok(());
                }
                numbers[flow] += u64::from(self.send(flow, numbers[flow], due, at + preamble)?);
            }
        }
        Ok(())
    }

    /// Waits until the first bit of a frame is to leave, and listens meanwhile. False: it is to stop.
    fn wait(&mut self, first_bit: Nanos, stop: &AtomicBool) -> Result<bool, Error> {
        loop {
            self.listen()?;
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let hand_over = self.pace.earlier(self.epoch.at(first_bit));
            let now = self.pace.now();
            if hand_over <= now + AWAKE {
                self.pace.until(hand_over);
                return Ok(true);
            }
            let wake_at = Instant::from_nanos(hand_over.as_nanos() - AWAKE.as_nanos());
            let wake_at = wake_at.min(now + ATTENTION);
            self.generator.socket.wait(wake_at)?;
            self.pace.roused(wake_at);
        }
    }

    /// Sends a frame that is due. Whether it took its number.
    fn send(
        &mut self,
        flow: usize,
        number: u64,
        due: Nanos,
        first_bit: Nanos,
    ) -> Result<bool, Error> {
        let is_synchronised =
            self.synchronisation.as_ref().is_none_or(Synchronisation::is_synchronised);
        let sends_unsynchronised =
            matches!(self.generator.cycles, Cycles::Pcfs { sends_unsynchronised: true, .. });
        if !is_synchronised && !sends_unsynchronised {
            (self.tell)(News::Withheld(flow));
            return Ok(false);
        }
        let now = clock::now::<Realtime>();
        let late = now.as_nanos().saturating_sub(self.epoch.at(first_bit).as_nanos());
        if late > self.generator.network.cycle.as_nanos() {
            (self.tell)(News::Missed(flow));
            return Ok(false);
        }
        // What is not time-triggered may have waited for its port.
        let is_scheduled =
            matches!(self.generator.network.flows[flow].traffic, Traffic::TimeTriggered { .. });
        let due = self.epoch.at(if is_scheduled { due } else { first_bit });
        let measurement = Measurement {
            run: self.generator.run,
            stream: flow as u16,
            sequence: number as u32,
            scheduled_ns: due.as_nanos(),
            sent_ns: now.as_nanos(),
        };
        let socket = self.generator.socket;
        let mut bytes = [0; MAX_LEN];
        let network = self.generator.network;
        let len = network.write_frame(socket.address(), &measurement, &mut bytes);
        let kernel_id = socket.next_id();
        let is_taken = socket.send(&bytes[..len])? == Sent::Taken;
        let departure = Departure { flow, number, due, stamp: None, is_taken };
        if is_taken {
            self.unstamped.push_back((kernel_id, departure, is_synchronised));
        } else {
            self.told(departure, is_synchronised);
        }
        if let Some(stamp) = self.fetch_stamps()? {
            self.pace.stamped(stamp);
            // Else it is the stamp of an earlier frame.
            if self.generator.advance.is_none() && stamp >= now {
                self.pace.learn(self.epoch.at(first_bit), stamp);
            }
        }
        // A frame that the kernel has dropped has none.
        while self.unstamped.len() > MOST_UNSTAMPED {
            let Some((_, departure, is_synchronised)) = self.unstamped.pop_front() else { break };
            self.told(departure, is_synchronised);
        }
        Ok(true)
    }

    fn told(&mut self, departure: Departure, is_synchronised: bool) {
        let stamp = departure.stamp.unwrap_or(departure.due);
        let is_marked = self.pace.gaps.delayed(departure.due, stamp);
        (self.tell)(News::Sent { departure, is_marked, is_synchronised });
    }

    /// Joins the kernel's stamps with their frames. The last one.
    fn fetch_stamps(&mut self) -> Result<Option<Instant<Realtime>>, Error> {
        let mut stamps = Vec::new();
        self.generator.socket.transmit_stamps(&mut |id, stamp| stamps.push((id, stamp)))?;
        let last = stamps.last().map(|&(_, stamp)| stamp);
        if let Some(last) = last {
            self.pace.gaps.tick(last);
        }
        for (id, stamp) in stamps {
            let place = self.unstamped.iter().position(|&(it, _, _)| it == id);
            let found = place.and_then(|place| self.unstamped.remove(place));
            let Some((_, departure, is_synchronised)) = found else { continue };
            self.told(Departure { stamp: Some(stamp), ..departure }, is_synchronised);
        }
        Ok(last)
    }

    /// Takes the frames that came.
    fn listen(&mut self) -> Result<(), Error> {
        self.fetch_stamps()?;
        let now = clock::now::<Realtime>();
        let mut bytes = [0; 2_048];
        while let Some(received) = self.generator.socket.receive(&mut bytes)? {
            let Some(synchronisation) = &mut self.synchronisation else {
                self.strangers += 1;
                continue;
            };
            match synchronisation.hear(&bytes[..received.len], received.stamp) {
                Heard::Stranger => self.strangers += 1,
                heard => (self.tell)(News::Heard(heard, synchronisation.precision())),
            }
        }
        let Some(synchronisation) = &mut self.synchronisation else { return Ok(()) };
        synchronisation.look(now);
        while let Some(change) = synchronisation.next_change() {
            (self.tell)(News::Changed(change));
            self.is_aligned &= change != Change::Lost;
        }
        if synchronisation.is_synchronised() {
            let cycle_ns = self.generator.network.cycle.as_nanos().cast_signed();
            let begin_ns = synchronisation.begin().0.as_nanos();
            let ahead = begin_ns.wrapping_sub(self.epoch.0.as_nanos()).cast_signed();
            let mut shift = ahead.rem_euclid(cycle_ns);
            // The first time it waits for the cycle; later the nearest one is the same one.
            if std::mem::replace(&mut self.is_aligned, true) && shift > cycle_ns / 2 {
                shift -= cycle_ns;
            }
            let epoch_ns = self.epoch.0.as_nanos().wrapping_add_signed(shift);
            self.epoch = Epoch(Instant::from_nanos(epoch_ns));
        }
        Ok(())
    }

    /// Waits for the stamps of the last frames.
    fn settle(&mut self) -> Result<(), Error> {
        let end = clock::now::<Realtime>() + LAST_STAMPS;
        loop {
            self.fetch_stamps()?;
            if self.unstamped.is_empty() || clock::now::<Realtime>() >= end {
                break;
            }
            self.generator.socket.wait(end)?;
        }
        while let Some((_, departure, is_synchronised)) = self.unstamped.pop_front() {
            self.told(departure, is_synchronised);
        }
        Ok(())
    }
}

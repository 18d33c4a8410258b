//! [`Generator`]: sends the frames of the flows that begin at end systems, in schedule: in cycles that begin at a known instant, or
//! when the frames of a switch say that it listens to.
//!
//! These instants are found out again and again, by [`Synchronisation`]; while they are not known, frames are withheld.
//!
//! One thread can send for several end systems. A thread that is awake before an instant keeps others off its
//! processor: best-effort frames that another thread there is to send at random would never come close to that instant,
//! and would be in nobody's way.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::ethernet::EthernetSocket;
use candor_linux::{Error, Sent, clock, poll};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::Network;
use candor_tte::frames::PCF_SIZE;
use candor_wire::eth::tte::Measurement;

use crate::feed::{Feed, Next};
use crate::pace::{AWAKE, Pace, STOP_CHECK_INTERVAL};
use crate::synchronisation::{Change, Heard, Synchronisation};
use crate::{Epoch, Stops, Warmer, unless_down};

/// The longest frame without its check sequence and without a tag.
const MAX_LEN: usize = 1_514;
/// How long stamps of the last frames are waited for.
const LAST_STAMPS: Nanos = Nanos::from_millis(20);
/// How long a frame takes to the interface before that is found out.
const FIRST_ADVANCE: Nanos = Nanos::from_micros(2);
/// Frames that wait for their stamps at most.
const MOST_UNSTAMPED: usize = 1_024;

/// Where cycles come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cycles {
    /// The first one begins then.
    From(Epoch),
    /// The protocol control frames of a virtual link, which come by the first interface.
    Pcfs {
        id: u16,
        /// Whether frames are sent, by the clock of this machine, while it is not synchronised.
        sends_unsynchronised: bool,
    },
}

/// How long the way of a frame from the program to the interface takes: it is handed over that much earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// So long.
    Fixed(Nanos),
    /// It is found out from the frames that were sent; until then, so long.
    Learned(Nanos),
}

/// It is found out.
impl Default for Advance {
    fn default() -> Self {
        Self::Learned(FIRST_ADVANCE)
    }
}

/// Sends.
pub struct Generator<'a> {
    pub network: &'a Network,
    /// The end systems whose frames it sends, at least one, each with its interface.
    pub nodes: Vec<(usize, &'a EthernetSocket)>,
    /// Where cycles come from.
    pub cycles: Cycles,
    /// The number of this run, in every frame.
    pub run: u32,
    /// Of what is random.
    pub seed: u64,
    /// How much earlier frames are handed over.
    pub advance: Advance,
    /// What keeps the kernel warm.
    pub warmer: Option<Warmer<'a>>,
    /// So many frames of each of these flows are sent, and those of others until then; `None`: all until it is stopped.
    pub count: Option<(Vec<usize>, u64)>,
    /// A frame is not sent if its instant has passed for longer.
    pub most_late: Option<Nanos>,
}

/// A frame that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
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
    /// A frame of a flow was not sent, since its instant had passed for too long. It takes no number.
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

struct Work<'a> {
    generator: &'a Generator<'a>,
    pace: Pace<'a>,
    /// When the first cycle began.
    epoch: Epoch,
    /// Whether that is by the present synchronisation.
    is_aligned: bool,
    synchronisation: Option<Synchronisation>,
    strangers: u64,
    /// Sent frames without a stamp yet: their end system, their number of the kernel, and whether they were
    /// synchronised.
    unstamped: VecDeque<(usize, u32, Departure, bool)>,
    tell: &'a mut dyn FnMut(News),
}

impl Generator<'_> {
    /// Sends until all frames have been sent, or until `stop`, and tells what happens. Telling must not take long. It is
    /// awake before time-triggered frames; others may leave some 100 us late. What is left is there however it ended.
    ///
    /// # Errors
    /// An interface is gone. What one does not take that is down is told as not taken.
    pub fn run(
        &self,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(News),
    ) -> (Generated, Result<(), Error>) {
        let cycle = self.network.cycle;
        let first = self.nodes.first().map_or(0, |&(node, _)| node);
        let way = self.network.links_of(first).next().map_or(Nanos::ZERO, |link| {
            let link = &self.network.links[link];
            link.transmission(PCF_SIZE) + link.delay
        });
        let (epoch, synchronisation) = match self.cycles {
            Cycles::From(epoch) => (epoch, None),
            Cycles::Pcfs { id, .. } => {
                let epoch = Epoch::of_the_clock(clock::now::<Realtime>(), cycle);
                let critical = self.network.frames.critical;
                (epoch, Some(Synchronisation::new(cycle, critical, id, way)))
            }
        };
        let (Advance::Fixed(advance) | Advance::Learned(advance)) = self.advance;
        let mut work = Work {
            generator: self,
            pace: Pace::new(advance, self.warmer),
            epoch,
            is_aligned: false,
            synchronisation,
            strangers: 0,
            unstamped: VecDeque::new(),
            tell,
        };
        let sent = work.send_all(stop);
        let settled = work.settle();
        let Work { pace, synchronisation, strangers, .. } = work;
        (Generated { stops: pace.gaps, synchronisation, strangers }, sent.and(settled))
    }
}

impl Work<'_> {
    fn send_all(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        let Generator { network, ref nodes, ref count, seed, .. } = *self.generator;
        let mut feed = Feed::new(network, nodes.iter().map(|&(node, _)| node), seed);
        let mut numbers = vec![0_u64; network.flows.len()];
        while let Some(next) = feed.next() {
            let Next { flow, first_bit, .. } = next;
            let is_near =
                || feed.next_instant().is_some_and(|instant| first_bit + AWAKE >= instant);
            let is_awake = network.flows[flow].is_time_triggered() || is_near();
            if !self.wait(first_bit, is_awake, stop)? {
                break;
            }
            numbers[flow] += u64::from(self.send(&next, numbers[flow], is_awake)?);
            if let Some((flows, count)) = count
                && flows.contains(&flow)
                && numbers[flow] >= *count
            {
                feed.end(flow);
                if flows.iter().all(|&flow| numbers[flow] >= *count) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits until the first bit of a frame is to leave, and listens meanwhile. Before a frame that is to leave in time it is
    /// awake. False: it is to stop.
    fn wait(&mut self, first_bit: Nanos, is_awake: bool, stop: &AtomicBool) -> Result<bool, Error> {
        let lead = if is_awake { AWAKE } else { Nanos::ZERO };
        loop {
            self.listen()?;
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let hand_over = self.pace.earlier(self.epoch.at(first_bit));
            let now = self.pace.now();
            if hand_over <= now + lead {
                self.pace.until(hand_over);
                return Ok(true);
            }
            let wake_at = Instant::from_nanos(hand_over.as_nanos() - lead.as_nanos());
            let wake_at = wake_at.min(now + STOP_CHECK_INTERVAL);
            if let Some((_, socket)) = self.generator.nodes.first() {
                socket.wait(wake_at)?;
            }
            match is_awake {
                true => self.pace.roused(wake_at),
                false => self.pace.gaps.pause(),
            }
        }
    }

    /// Sends a frame that is due. Whether it took its number.
    fn send(&mut self, next: &Next, number: u64, is_awake: bool) -> Result<bool, Error> {
        let Next { place, flow, due, first_bit } = *next;
        let Generator { network, ref nodes, cycles, run, advance, most_late, .. } = *self.generator;
        let is_synchronised =
            self.synchronisation.as_ref().is_none_or(Synchronisation::is_synchronised);
        let sends_unsynchronised =
            matches!(cycles, Cycles::Pcfs { sends_unsynchronised: true, .. });
        if !is_synchronised && !sends_unsynchronised {
            (self.tell)(News::Withheld(flow));
            return Ok(false);
        }
        let now = clock::now::<Realtime>();
        let first_bit = self.epoch.at(first_bit);
        let late_ns = now.as_nanos().saturating_sub(first_bit.as_nanos());
        if most_late.is_some_and(|most| late_ns > most.as_nanos()) {
            (self.tell)(News::Missed(flow));
            return Ok(false);
        }
        // What is not time-triggered may have waited for its port.
        let is_scheduled = network.flows[flow].is_time_triggered();
        let due = if is_scheduled { self.epoch.at(due) } else { first_bit };
        let measurement = Measurement {
            run,
            stream: flow as u16,
            sequence: number as u32,
            scheduled_ns: due.as_nanos(),
            sent_ns: now.as_nanos(),
        };
        let socket = nodes[place].1;
        let mut bytes = [0; MAX_LEN];
        let len = network.write_frame(socket.address(), &measurement, &mut bytes);
        let kernel_id = socket.next_id();
        let sent = unless_down(socket.send(&bytes[..len]), Sent::WouldBlock)?;
        let is_taken = sent == Sent::Taken;
        let departure = Departure { flow, number, due, stamp: None, is_taken };
        if is_taken {
            self.unstamped.push_back((place, kernel_id, departure, is_synchronised));
        } else {
            self.told(departure, is_synchronised);
        }
        if let Some(stamp) = self.fetch_stamps()? {
            self.pace.stamped(stamp);
            // Else it is the stamp of an earlier frame.
            if is_awake && matches!(advance, Advance::Learned(_)) && stamp >= now {
                self.pace.learn(first_bit, stamp);
            }
        }
        // A frame that the kernel has dropped has none.
        while self.unstamped.len() > MOST_UNSTAMPED {
            let Some((.., departure, is_synchronised)) = self.unstamped.pop_front() else { break };
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
        for (place, (_, socket)) in self.generator.nodes.iter().enumerate() {
            socket.transmit_stamps(&mut |id, stamp| stamps.push((place, id, stamp)))?;
        }
        let last = stamps.iter().map(|&(.., stamp)| stamp).max();
        if let Some(last) = last {
            self.pace.gaps.tick(last);
        }
        for (place, id, stamp) in stamps {
            let is_it = |it: &(usize, u32, Departure, bool)| (it.0, it.1) == (place, id);
            let found = self.unstamped.iter().position(is_it);
            let found = found.and_then(|place| self.unstamped.remove(place));
            let Some((.., departure, is_synchronised)) = found else { continue };
            self.told(Departure { stamp: Some(stamp), ..departure }, is_synchronised);
        }
        Ok(last)
    }

    /// Takes the frames that came.
    fn listen(&mut self) -> Result<(), Error> {
        self.fetch_stamps()?;
        let now = clock::now::<Realtime>();
        let mut bytes = [0; 2_048];
        let Some((_, socket)) = self.generator.nodes.first() else { return Ok(()) };
        while let Some(received) = unless_down(socket.receive(&mut bytes), None)? {
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

    /// Waits for the stamps of the last frames, and tells all.
    fn settle(&mut self) -> Result<(), Error> {
        let stamped = self.fetch_last_stamps();
        while let Some((.., departure, is_synchronised)) = self.unstamped.pop_front() {
            self.told(departure, is_synchronised);
        }
        stamped
    }

    fn fetch_last_stamps(&mut self) -> Result<(), Error> {
        let end = clock::now::<Realtime>() + LAST_STAMPS;
        loop {
            self.fetch_stamps()?;
            if self.unstamped.is_empty() || clock::now::<Realtime>() >= end {
                return Ok(());
            }
            let files: Vec<_> = self.generator.nodes.iter().map(|(_, it)| it.as_fd()).collect();
            poll::wait_any_or_signal(&files, Some(LAST_STAMPS))?;
        }
    }
}

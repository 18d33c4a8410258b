//! [`Switch`]: relays between interfaces as a node of the network does, over links that take their time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_causes::Cause;
use candor_linux::ethernet::EthernetSocket;
use candor_linux::{Error, Sent, poll};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::frames::{Destinations, PCF_SIZE, integration};
use candor_tte::station::{Action, Station};
use candor_tte::{Network, Relaying, Role};
use candor_wire::eth::tte::{Measurement, Pcf};

use crate::pace::{ATTENTION, AWAKE, Advance, Pace};
use crate::{Epoch, Stops, Warmer, unless_down};

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
    /// What keeps the kernel warm.
    pub warmer: Option<Warmer<'a>>,
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
    /// When it could leave at the earliest: until then it does not matter when the program has it.
    pub ready: Instant<Realtime>,
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

/// What a switch does besides relaying, and how it is watched.
pub struct Service<'a> {
    /// The virtual link of the protocol control frames that it sends at the begin of each cycle, on every port; `None`:
    /// it sends none.
    pub pcf_id: Option<u16>,
    /// Links with a cable of their own, on which bits take their time: there is no model of them. Frames that came over
    /// one have been transmitted, and frames are handed over when their preamble is to begin.
    pub cables: Vec<usize>,
    /// What it has done so far, never older than some 0.1 s.
    pub tally: &'a Mutex<Tally>,
}

/// How many frames a switch has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Time-triggered frames that it relayed: one for each port by which it left.
    pub relayed: u64,
    /// Other frames that it relayed.
    pub others: u64,
    /// Frames that it dropped, by cause.
    pub dropped: BTreeMap<Cause, u64>,
    /// Frames of no flow that comes by that port.
    pub strangers: u64,
    /// Protocol control frames that it sent.
    pub pcfs: u64,
    /// Protocol control frames that it did not send: their time had passed, or the interface had no room.
    pub pcfs_missed: u64,
    /// Frames for which sockets had no room.
    pub unheard: u64,
    /// How often the thread was stopped, and the longest time.
    pub stops: (u64, Nanos),
}

/// What is taken down.
#[derive(Default)]
struct Notes {
    /// `None`: figures only.
    frames: Option<Switched>,
    tally: Tally,
}

impl Notes {
    fn relayed(&mut self, relayed: Relayed) {
        self.tally.relayed += 1;
        if let Some(frames) = &mut self.frames {
            frames.relayed.push(relayed);
        }
    }

    /// Without what would tell which one it was, or of a class that is not looked at one by one.
    fn other(&mut self, is_scheduled: bool) {
        match is_scheduled {
            true => self.tally.relayed += 1,
            false => self.tally.others += 1,
        }
        if let Some(frames) = &mut self.frames {
            frames.others += 1;
        }
    }

    fn dropped(&mut self, flow: usize, number: u64, cause: Cause) {
        *self.tally.dropped.entry(cause).or_default() += 1;
        if let Some(frames) = &mut self.frames {
            frames.dropped.push((flow, number, cause));
        }
    }

    fn stranger(&mut self) {
        self.tally.strangers += 1;
        if let Some(frames) = &mut self.frames {
            frames.strangers += 1;
        }
    }
}

/// The protocol control frames of a port.
struct Beat {
    /// The port, by its place.
    port: usize,
    /// How far behind the begin of a cycle they are handed over.
    offset: i64,
    /// The number of the next cycle.
    cycle: u64,
    /// That of its own: the first port of several finds the kernel cold.
    advance: Advance,
}

impl Beat {
    fn at(&self, cycle: Nanos) -> Nanos {
        let begin = self.cycle.saturating_mul(cycle.as_nanos());
        Nanos::from_nanos(begin.saturating_add_signed(self.offset))
    }

    /// The frame to hand over at `now`, if its time has come, and when it leaves: it says itself how late it is. One
    /// that is late by more than half a cycle is missed.
    fn next(
        &mut self,
        epoch: Epoch,
        cycle: Nanos,
        now: Instant<Realtime>,
        tally: &mut Tally,
    ) -> Option<(Pcf, Instant<Realtime>)> {
        loop {
            let due = epoch.at(self.at(cycle));
            let hand_over = self.advance.earlier(due);
            if now < hand_over {
                return None;
            }
            let number = self.cycle;
            self.cycle += 1;
            let late = now - hand_over;
            if late <= Nanos::from_nanos(cycle.as_nanos() / 2) {
                return Some((integration(number as u32, late), due + late));
            }
            tally.pcfs_missed += 1;
        }
    }
}

/// A frame inside.
struct Inside {
    flow: usize,
    bytes: Vec<u8>,
    measurement: Option<Measurement>,
    received: Instant<Realtime>,
    noticed: Instant<Realtime>,
    ready: Instant<Realtime>,
    left: usize,
}

/// A port at work.
struct Inlet {
    /// When the last frame had come as a whole, and the gap behind it was over.
    free_at: Nanos,
    /// Whether frames come from an end system, whose frames have yet to be transmitted.
    is_from_end_system: bool,
    /// Whether it has a cable, on which frames take their time.
    has_cable: bool,
}

impl Switch<'_> {
    /// Relays until `stop`.
    ///
    /// # Errors
    /// An interface is gone. What was to leave by one that is down is dropped.
    pub fn run(&self, stop: &AtomicBool) -> Result<Switched, Error> {
        let mut notes = Notes { frames: Some(Switched::default()), ..Notes::default() };
        let mut pace = Pace::new(self.advance, self.warmer);
        self.relay(stop, None, &mut notes, &mut pace)?;
        Ok(Switched { stops: pace.gaps, ..notes.frames.unwrap_or_default() })
    }

    /// Relays until `stop`, sends protocol control frames, and counts: what it has counted up to its end, and how it
    /// ended. It keeps nothing of single frames.
    ///
    /// # Errors
    /// An interface is gone. What was to leave by one that is down is dropped.
    pub fn serve(&self, stop: &AtomicBool, service: &Service<'_>) -> (Tally, Result<(), Error>) {
        let mut notes = Notes::default();
        let mut pace = Pace::new(self.advance, self.warmer);
        let ended = self.relay(stop, Some(service), &mut notes, &mut pace);
        let counted = self.count(&pace.gaps, &mut notes.tally);
        (notes.tally, ended.and(counted))
    }

    /// What is counted elsewhere, if all interfaces are still there.
    fn count(&self, stops: &Stops, tally: &mut Tally) -> Result<(), Error> {
        tally.stops = (stops.count(), stops.longest());
        for (_, socket) in &self.ports {
            tally.unheard += u64::from(socket.drops()?);
        }
        self.ports.iter().try_for_each(|(_, socket)| socket.check_interface())
    }

    fn relay(
        &self,
        stop: &AtomicBool,
        service: Option<&Service<'_>>,
        notes: &mut Notes,
        pace: &mut Pace<'_>,
    ) -> Result<(), Error> {
        let mut station = Station::new(self.network, self.node, Nanos::ZERO);
        let destinations = Destinations::new(self.network);
        let has_cable = |link| service.is_some_and(|service| service.cables.contains(&link));
        let mut inlets = self.inlets(&has_cable);
        let mut beats = self.beats(service);
        let mut told_at = Instant::default();
        let arrivals = self.arrivals();
        let mut inside: BTreeMap<u32, Inside> = BTreeMap::new();
        let mut next_id = 0_u32;
        let mut departures: BinaryHeap<Reverse<(Nanos, u32, usize)>> = BinaryHeap::new();
        let mut actions = Vec::new();
        let mut bytes = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            for (index, (link, socket)) in self.ports.iter().enumerate() {
                while let Some(received) = unless_down(socket.receive(&mut bytes), None)? {
                    let noticed = pace.now();
                    let found = destinations.flow_of(&bytes[..received.len]);
                    let came = found.and_then(|(flow, measurement)| {
                        let is_it =
                            |hop: &candor_tte::Hop| (hop.link, hop.to) == (*link, self.node);
                        let hop = self.network.flows[flow].hops.iter().position(is_it)?;
                        Some((flow, hop, measurement))
                    });
                    let Some((flow, hop, measurement)) = came else {
                        notes.stranger();
                        continue;
                    };
                    if self.is_oversized(flow, received.len) {
                        let number = measurement.map_or(0, |it| u64::from(it.sequence));
                        notes.dropped(flow, number, Cause::Oversized);
                        continue;
                    }
                    let stamp = received.stamp.unwrap_or(noticed);
                    let first_bit =
                        self.first_bit(&mut inlets[index], *link, flow, self.epoch.since(stamp));
                    let left = self.network.flows[flow].hops_behind(hop).count();
                    let id = next_id;
                    next_id = next_id.wrapping_add(1);
                    inside.insert(
                        id,
                        Inside {
                            flow,
                            bytes: bytes[..received.len].to_vec(),
                            measurement,
                            received: stamp,
                            noticed,
                            ready: self.epoch.at(self.ready(*link, flow, first_bit)),
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
                            let on_link = match has_cable(number) {
                                true => Nanos::ZERO,
                                false => link.preamble() + link.transmission(size) + link.delay,
                            };
                            departures.push(Reverse((at + on_link, id, number)));
                        }
                        Action::Dropped { id, flow, hop, cause } => {
                            if self.network.flows[flow].hops[hop].to == self.node
                                && let Some(frame) = inside.get_mut(&id)
                            {
                                // Refused when it came: it leaves by none of its ports.
                                frame.left = 1;
                            }
                            if let Some(frame) = leave(&mut inside, id) {
                                let number = frame.map_or(0, |it| u64::from(it.sequence));
                                notes.dropped(flow, number, cause);
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
                    self.depart(&mut inside, id, link, due, pace, notes)?;
                }
                if let Some(service) = service {
                    self.beat(&mut beats, service, pace, &mut notes.tally)?;
                }
                let cycle = self.network.cycle;
                let beat =
                    beats.iter().map(|it| it.advance.earlier(self.epoch.at(it.at(cycle)))).min();
                let departure = departures.peek().map(|it| self.epoch.at(it.0.0));
                let departure = departure.map(|due| pace.earlier(due));
                let next = station.next_at().map(|at| self.epoch.at(at));
                let next = [next, departure, beat].into_iter().flatten().min();
                if let Some(next) = next {
                    let now = pace.now();
                    pace.warm(now, next);
                }
                // Whoever looks for frames now may come too late for what is to happen.
                match next.filter(|&at| at < pace.now() + IMMINENT) {
                    Some(at) => pace.until(at),
                    None => break next,
                };
            };
            if let Some(service) = service {
                let now = pace.now();
                if now.since(told_at) > ATTENTION {
                    told_at = now;
                    self.count(&pace.gaps, &mut notes.tally)?;
                    if let Ok(mut tally) = service.tally.try_lock() {
                        tally.clone_from(&notes.tally);
                    }
                }
            }
            self.rest(next, &arrivals, pace)?;
        }
        Ok(())
    }

    /// The protocol control frames to come: from the second cycle on.
    fn beats(&self, service: Option<&Service<'_>>) -> Vec<Beat> {
        let Some(service) = service.filter(|service| service.pcf_id.is_some()) else {
            return Vec::new();
        };
        let beat = |(port, (link, _)): (usize, &(usize, &EthernetSocket))| {
            let it = &self.network.links[*link];
            let offset = match service.cables.contains(link) {
                true => -it.preamble().as_nanos().cast_signed(),
                false => (it.transmission(PCF_SIZE) + it.delay).as_nanos().cast_signed(),
            };
            Beat { port, offset, cycle: 1, advance: Advance::new(self.advance) }
        };
        self.ports.iter().enumerate().map(beat).collect()
    }

    /// Sends the protocol control frames that are due.
    fn beat(
        &self,
        beats: &mut [Beat],
        service: &Service<'_>,
        pace: &mut Pace<'_>,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let Some(id) = service.pcf_id else { return Ok(()) };
        for beat in beats {
            let Some((_, socket)) = self.ports.get(beat.port) else { continue };
            let cycle = self.network.cycle;
            while let Some((pcf, leaves)) = beat.next(self.epoch, cycle, pace.now(), tally) {
                let frame = self.network.frames.pcf(socket.address(), id, &pcf);
                match unless_down(socket.send(&frame), Sent::WouldBlock)? {
                    Sent::Taken => tally.pcfs += 1,
                    _ => tally.pcfs_missed += 1,
                }
                let mut stamp = None;
                socket.transmit_stamps(&mut |_, it| stamp = Some(it))?;
                if let Some(stamp) = stamp {
                    beat.advance.learn(leaves, stamp);
                }
            }
        }
        Ok(())
    }

    fn inlets(&self, has_cable: &dyn Fn(usize) -> bool) -> Vec<Inlet> {
        let inlet = |(link, _): &(usize, &EthernetSocket)| {
            let other = self.network.links[*link].other_end(self.node);
            let role = other.map(|node| &self.network.nodes[node].role);
            let is_from_end_system = matches!(role, Some(Role::EndSystem(_)));
            Inlet { free_at: Nanos::ZERO, is_from_end_system, has_cable: has_cable(*link) }
        };
        self.ports.iter().map(inlet).collect()
    }

    /// When time-triggered frames are to come: the first instant of each flow, and its period.
    fn arrivals(&self) -> Vec<(Nanos, Nanos)> {
        let flows = self.network.flows.iter().filter_map(|flow| Some((flow, flow.period()?)));
        let hops = flows.flat_map(|(flow, period)| flow.hops.iter().map(move |hop| (hop, period)));
        hops.filter(|(hop, _)| hop.to == self.node).map(|(hop, period)| (hop.at, period)).collect()
    }

    /// Whether a frame is longer than those of its flow, for which a schedule has room: the filter by size of
    /// ARINC 664, part 7. An ordinary switch does not look.
    fn is_oversized(&self, flow: usize, len: usize) -> bool {
        self.network.has_schedule(self.node) && len > self.network.flows[flow].byte_len()
    }

    /// When the first bit of a frame came that the kernel has had at `stamp`.
    fn first_bit(&self, inlet: &mut Inlet, link: usize, flow: usize, stamp: Nanos) -> Nanos {
        let link = &self.network.links[link];
        let size = self.network.flows[flow].size;
        let transmission = link.transmission(size);
        if !inlet.is_from_end_system || inlet.has_cable {
            // The switch at the other end has waited for the last bit, or the cable has brought it.
            return Nanos::from_nanos(stamp.as_nanos().saturating_sub(transmission.as_nanos()));
        }
        // Frames that left too close together follow one another on the link.
        let first_bit = stamp.max(inlet.free_at);
        inlet.free_at = first_bit + link.occupation(size);
        first_bit + link.delay
    }

    /// When a frame can leave at the earliest whose first bit came at `first_bit`.
    fn ready(&self, link: usize, flow: usize, first_bit: Nanos) -> Nanos {
        let Role::Switch(switch) = self.network.nodes[self.node].role else { return first_bit };
        let size = self.network.flows[flow].size;
        match switch.relaying {
            Relaying::CutThrough => first_bit + switch.processing,
            Relaying::StoreAndForward | Relaying::TimeTriggered(_) => {
                first_bit + self.network.links[link].transmission(size) + switch.processing
            }
        }
    }

    /// A frame leaves by the port of a link.
    fn depart(
        &self,
        inside: &mut BTreeMap<u32, Inside>,
        id: u32,
        link: usize,
        due: Instant<Realtime>,
        pace: &mut Pace<'_>,
        notes: &mut Notes,
    ) -> Result<(), Error> {
        let Some(frame) = inside.get(&id) else { return Ok(()) };
        let port = self.ports.iter().find(|(it, _)| *it == link);
        let Some((_, socket)) = port else {
            // The link has no port.
            leave(inside, id);
            return Ok(());
        };
        let sent = match socket.send(&frame.bytes) {
            Err(error) if error.is_down() => Err(Cause::Down),
            sent => Ok(sent?),
        };
        let mut stamp = None;
        socket.transmit_stamps(&mut |_, it| stamp = Some(it))?;
        if let Some(stamp) = stamp {
            pace.stamped(stamp);
        }
        let done = stamp.unwrap_or_else(|| pace.now());
        let is_scheduled = self.network.flows[frame.flow].is_time_triggered();
        if let Some(stamp) = stamp.filter(|_| is_scheduled) {
            pace.learn(due, stamp);
        }
        let number = frame.measurement.map_or(0, |it| u64::from(it.sequence));
        match (sent, frame.measurement.filter(|_| is_scheduled)) {
            (Ok(Sent::Taken), Some(measurement)) => {
                let Inside { received, noticed, ready, .. } = *frame;
                notes.relayed(Relayed { measurement, due, done, received, noticed, ready });
            }
            (Ok(Sent::Taken), None) => notes.other(is_scheduled),
            (Ok(_), _) => notes.dropped(frame.flow, number, Cause::QueueFull),
            (Err(cause), _) => notes.dropped(frame.flow, number, cause),
        }
        leave(inside, id);
        Ok(())
    }

    /// Sleeps if nothing is to happen soon.
    fn rest(
        &self,
        next: Option<Instant<Realtime>>,
        arrivals: &[(Nanos, Nanos)],
        pace: &mut Pace<'_>,
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
            poll::wait_any_or_signal(&files, Some(timeout))?;
            pace.roused(self.epoch.at(wake_at));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_frame_says_how_late_it_is_and_is_missed_behind_half_a_cycle() {
        const CYCLE: Nanos = Nanos::from_millis(1);
        const OFFSET: u64 = 5_000;
        const ADVANCE: u64 = 2_000;
        let epoch = Epoch(Instant::from_nanos(1_000_000_000_000));
        let at = |ns: u64| epoch.at(Nanos::from_nanos(ns));
        // When it is looked at the clock, the number of the frame that is handed over and how late it is, and those missed.
        for (now_ns, expected, missed) in [
            (1_002_999, None, 0),
            (1_003_000, Some((1, 0)), 0),
            (1_003_001, Some((1, 1)), 0),
            (1_503_000, Some((1, 500_000)), 0),
            (1_503_001, None, 1),
            (2_002_999, None, 1),
            (2_003_000, Some((2, 0)), 1),
            (9_403_000, Some((9, 400_000)), 8),
            (9_503_001, None, 9),
        ] {
            let advance = Advance::new(Nanos::from_nanos(ADVANCE));
            let mut beat = Beat { port: 0, offset: OFFSET.cast_signed(), cycle: 1, advance };
            let mut tally = Tally::default();
            let next = beat.next(epoch, CYCLE, at(now_ns), &mut tally);
            let said = next.map(|(pcf, _)| (pcf.integration_cycle, pcf.transparent_clock_ns()));
            assert_eq!((said, tally.pcfs_missed), (expected, missed), "{now_ns}");
            // What was handed over at `now` is on the link after the advance.
            let leaves = next.map(|(_, leaves)| leaves);
            assert_eq!(leaves, said.map(|_| at(now_ns + ADVANCE)), "{now_ns}");
            assert_eq!(beat.next(epoch, CYCLE, at(now_ns), &mut tally), None, "{now_ns}");
        }
    }
}

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

use crate::pace::{AWAKE, Advance, Pace, STOP_CHECK_INTERVAL};
use crate::{Epoch, Stops, Warmer, unless_down};

/// What happens within this is waited for, and no port is looked at meanwhile.
const IMMINENT: Nanos = Nanos::from_micros(10);
/// How long behind an instant at which a frame is to come it stays awake.
const AWAKE_AFTER: Nanos = Nanos::from_micros(100);

pub struct Switch<'a> {
    pub network: &'a Network,
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

impl Service<'_> {
    fn has_cable(&self, link: usize) -> bool {
        self.cables.contains(&link)
    }
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

struct Work<'a> {
    switch: &'a Switch<'a>,
    service: Option<&'a Service<'a>>,
    notes: Notes,
    pace: Pace<'a>,
    station: Station,
    destinations: Destinations,
    /// By port.
    inlets: Vec<Inlet>,
    beats: Vec<Beat>,
    /// The frames that have yet to leave, by the number by which the station knows them.
    inside: BTreeMap<u32, Inside>,
    next_id: u32,
    /// What the station does with frames, until it is done.
    actions: Vec<Action>,
    /// What leaves: when its last bit is to reach the other end, which frame, and over which link.
    departures: BinaryHeap<Reverse<(Nanos, u32, usize)>>,
}

impl Switch<'_> {
    /// Relays until `stop`.
    ///
    /// # Errors
    /// An interface is gone. What was to leave by one that is down is dropped.
    pub fn run(&self, stop: &AtomicBool) -> Result<Switched, Error> {
        let notes = Notes { frames: Some(Switched::default()), ..Notes::default() };
        let mut work = Work::new(self, None, notes);
        work.relay(stop)?;
        Ok(Switched { stops: work.pace.gaps, ..work.notes.frames.unwrap_or_default() })
    }

    /// Relays until `stop`, sends protocol control frames, and counts: what it has counted up to its end, and how it
    /// ended. It keeps nothing of single frames.
    ///
    /// # Errors
    /// An interface is gone. What was to leave by one that is down is dropped.
    pub fn serve(&self, stop: &AtomicBool, service: &Service<'_>) -> (Tally, Result<(), Error>) {
        let mut work = Work::new(self, Some(service), Notes::default());
        let ended = work.relay(stop);
        let counted = work.count();
        (work.notes.tally, ended.and(counted))
    }

    /// The protocol control frames to come: from the second cycle on.
    fn beats(&self, service: Option<&Service<'_>>) -> Vec<Beat> {
        let Some(service) = service.filter(|service| service.pcf_id.is_some()) else {
            return Vec::new();
        };
        let beat = |(port, (link, _)): (usize, &(usize, &EthernetSocket))| {
            let it = &self.network.links[*link];
            let offset = match service.has_cable(*link) {
                true => -it.preamble().as_nanos().cast_signed(),
                false => (it.transmission(PCF_SIZE) + it.delay).as_nanos().cast_signed(),
            };
            Beat { port, offset, cycle: 1, advance: Advance::new(self.advance) }
        };
        self.ports.iter().enumerate().map(beat).collect()
    }

    fn inlets(&self, service: Option<&Service<'_>>) -> Vec<Inlet> {
        let inlet = |(link, _): &(usize, &EthernetSocket)| {
            let other = self.network.links[*link].other_end(self.node);
            let role = other.map(|node| &self.network.nodes[node].role);
            let is_from_end_system = matches!(role, Some(Role::EndSystem(_)));
            let has_cable = service.is_some_and(|service| service.has_cable(*link));
            Inlet { free_at: Nanos::ZERO, is_from_end_system, has_cable }
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
}

impl<'a> Work<'a> {
    fn new(switch: &'a Switch<'a>, service: Option<&'a Service<'a>>, notes: Notes) -> Self {
        Self {
            switch,
            service,
            notes,
            pace: Pace::new(switch.advance, switch.warmer),
            station: Station::new(switch.network, switch.node, Nanos::ZERO),
            destinations: Destinations::new(switch.network),
            inlets: switch.inlets(service),
            beats: switch.beats(service),
            inside: BTreeMap::new(),
            next_id: 0,
            actions: Vec::new(),
            departures: BinaryHeap::new(),
        }
    }

    fn relay(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        let switch = self.switch;
        let arrivals = switch.arrivals();
        let mut told_at = Instant::default();
        let mut bytes = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            for (port, (link, socket)) in switch.ports.iter().enumerate() {
                while let Some(received) = unless_down(socket.receive(&mut bytes), None)? {
                    self.arrive((port, *link), &bytes[..received.len], received.stamp);
                }
            }
            let next = self.catch_up()?;
            if let Some(service) = self.service {
                let now = self.pace.now();
                if now.since(told_at) > STOP_CHECK_INTERVAL {
                    told_at = now;
                    self.count()?;
                    if let Ok(mut tally) = service.tally.try_lock() {
                        tally.clone_from(&self.notes.tally);
                    }
                }
            }
            self.rest(next, &arrivals)?;
        }
        Ok(())
    }

    /// What is counted elsewhere, if all interfaces are still there.
    fn count(&mut self) -> Result<(), Error> {
        let (stops, tally) = (&self.pace.gaps, &mut self.notes.tally);
        tally.stops = (stops.count(), stops.longest());
        for (_, socket) in &self.switch.ports {
            tally.unheard += u64::from(socket.drops()?);
        }
        self.switch.ports.iter().try_for_each(|(_, socket)| socket.check_interface())
    }

    /// A frame has come by a port: it goes to the queues, if it may.
    fn arrive(
        &mut self,
        (port, link): (usize, usize),
        bytes: &[u8],
        stamp: Option<Instant<Realtime>>,
    ) {
        let Switch { network, node, epoch, .. } = *self.switch;
        let noticed = self.pace.now();
        let came = self.destinations.flow_of(bytes).and_then(|(flow, measurement)| {
            let is_it = |hop: &candor_tte::Hop| (hop.link, hop.to) == (link, node);
            Some((flow, network.flows[flow].hops.iter().position(is_it)?, measurement))
        });
        let Some((flow, hop, measurement)) = came else {
            self.notes.stranger();
            return;
        };
        if self.switch.is_oversized(flow, bytes.len()) {
            let number = measurement.map_or(0, |it| u64::from(it.sequence));
            self.notes.dropped(flow, number, Cause::Oversized);
            return;
        }
        let received = stamp.unwrap_or(noticed);
        let inlet = &mut self.inlets[port];
        let first_bit = self.switch.first_bit(inlet, link, flow, epoch.since(received));
        let ready = epoch.at(self.switch.ready(link, flow, first_bit));
        let left = network.flows[flow].hops_behind(hop).count();
        let bytes = bytes.to_vec();
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.inside.insert(id, Inside { flow, bytes, measurement, received, noticed, ready, left });
        let act = &mut |action| self.actions.push(action);
        self.station.arrive(network, (flow, hop), id, first_bit, act);
    }

    /// Does everything that is due or imminent. When something happens next.
    fn catch_up(&mut self) -> Result<Option<Instant<Realtime>>, Error> {
        loop {
            self.decide();
            while let Some(&Reverse((at, id, link))) = self.departures.peek() {
                let due = self.switch.epoch.at(at);
                if self.pace.now() < self.pace.earlier(due) {
                    break;
                }
                self.departures.pop();
                self.depart(id, link, due)?;
            }
            if let Some(service) = self.service {
                self.beat(service)?;
            }
            let next = self.next();
            if let Some(next) = next {
                let now = self.pace.now();
                self.pace.warm(now, next);
            }
            // Whoever looks for frames now may come too late for what is to happen.
            match next.filter(|&at| at < self.pace.now() + IMMINENT) {
                Some(at) => self.pace.until(at),
                None => return Ok(next),
            };
        }
    }

    /// The queues say which frames leave, and which go no further.
    fn decide(&mut self) {
        let network = self.switch.network;
        let time = self.switch.epoch.since(self.pace.now());
        self.station.advance(network, time, &mut |action| self.actions.push(action));
        for action in self.actions.drain(..) {
            match action {
                Action::Starts { id, flow, hop, at } => {
                    let number = network.flows[flow].hops[hop].link;
                    let link = &network.links[number];
                    let size = network.flows[flow].size;
                    let on_link = match self.service.is_some_and(|it| it.has_cable(number)) {
                        true => Nanos::ZERO,
                        false => link.preamble() + link.transmission(size) + link.delay,
                    };
                    self.departures.push(Reverse((at + on_link, id, number)));
                }
                Action::Dropped { id, flow, hop, cause } => {
                    if network.flows[flow].hops[hop].to == self.switch.node
                        && let Some(frame) = self.inside.get_mut(&id)
                    {
                        // Refused when it came: it leaves by none of its ports.
                        frame.left = 1;
                    }
                    if let Some(frame) = leave(&mut self.inside, id) {
                        let number = frame.map_or(0, |it| u64::from(it.sequence));
                        self.notes.dropped(flow, number, cause);
                    }
                }
            }
        }
    }

    /// When a frame is decided about or handed over next.
    fn next(&self) -> Option<Instant<Realtime>> {
        let Switch { network, epoch, .. } = *self.switch;
        let beat = |beat: &Beat| beat.advance.earlier(epoch.at(beat.at(network.cycle)));
        let departure = self.departures.peek().map(|it| self.pace.earlier(epoch.at(it.0.0)));
        let decision = self.station.next_at().map(|at| epoch.at(at));
        [decision, departure, self.beats.iter().map(beat).min()].into_iter().flatten().min()
    }

    /// Sends the protocol control frames that are due.
    fn beat(&mut self, service: &Service<'_>) -> Result<(), Error> {
        let Some(id) = service.pcf_id else { return Ok(()) };
        let Switch { network, epoch, ref ports, .. } = *self.switch;
        let tally = &mut self.notes.tally;
        for beat in &mut self.beats {
            let Some((_, socket)) = ports.get(beat.port) else { continue };
            while let Some((pcf, leaves)) = beat.next(epoch, network.cycle, self.pace.now(), tally)
            {
                let frame = network.frames.pcf(socket.address(), id, &pcf);
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

    /// A frame leaves by the port of a link.
    fn depart(&mut self, id: u32, link: usize, due: Instant<Realtime>) -> Result<(), Error> {
        let Self { pace, notes, inside, .. } = self;
        let Some(frame) = inside.get(&id) else { return Ok(()) };
        let port = self.switch.ports.iter().find(|(it, _)| *it == link);
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
        let is_scheduled = self.switch.network.flows[frame.flow].is_time_triggered();
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
        &mut self,
        next: Option<Instant<Realtime>>,
        arrivals: &[(Nanos, Nanos)],
    ) -> Result<(), Error> {
        let Switch { epoch, ref ports, .. } = *self.switch;
        let now = epoch.since(self.pace.now());
        let mut until = now + STOP_CHECK_INTERVAL;
        if let Some(next) = next {
            until = until.min(epoch.since(next));
        }
        for &(at, period) in arrivals {
            // Awake until a frame of the last instant can no longer come.
            let into = i128::from(now.as_nanos()) - i128::from(at.as_nanos());
            let behind = into.rem_euclid(i128::from(period.as_nanos())) as u64;
            if behind < AWAKE_AFTER.as_nanos() {
                return Ok(());
            }
            until = until.min(now + Nanos::from_nanos(period.as_nanos() - behind));
        }
        if until > now + AWAKE + AWAKE {
            let files: Vec<_> = ports.iter().map(|(_, socket)| socket.as_fd()).collect();
            let wake_at = Nanos::from_nanos(until.as_nanos() - AWAKE.as_nanos());
            let timeout = Nanos::from_nanos(wake_at.as_nanos() - now.as_nanos());
            poll::wait_any_or_signal(&files, Some(timeout))?;
            self.pace.roused(epoch.at(wake_at));
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

//! Clocks of nodes in a [`World`], and how protocol control frames keep them together
//! (SAE AS6802; the laws are in [`candor_tte::sync`]).
//!
//! ```text
//!  node: Integrate --------------------------------------------------> Correct
//!  master:   \--frame-->                     /--frame--> Permanent ---^
//!  compression master:  Permanent, Close, Compressed
//! ```
//!
//! Every node has an agenda in its own local time. What is waited for as a duration, such as the permanence of a frame,
//! goes on as it is when the clock is corrected; what the schedule says comes sooner or later. A correction that brings
//! an instant of the schedule nearer can bring it into a frame of another class that is on the link already: timely
//! block allows for the drift of a clock, not for its corrections. Then the time-triggered frame leaves behind
//! that frame, late by the correction at most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use candor_time::Nanos;
use candor_tte::sync::{Timing, compression_correction, permanence_delay};
use candor_tte::{Network, Synchronisation};
use candor_wire::eth::tte::{Pcf, PcfKind};

use super::clock::Clock;
use super::{Copy, Event, Observer, RANDOM_OF_CLOCKS, World};
use crate::event::{Random, Time};

/// What a node has to do at an instant of its own time, in the order of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SyncAction {
    /// The integration cycle of this number begins.
    Integrate(u32),
    /// A frame of this integration cycle, with these masters, is permanent.
    Permanent(u32, u32),
    /// An observation window of this integration cycle is over.
    Close(u32),
    /// The compressed frame of this integration cycle, with these masters, is dispatched.
    Compressed(u32, u32),
    /// The clock is corrected.
    Correct,
}

impl SyncAction {
    /// Whether it comes so long after something, and not at an instant of the schedule.
    const fn is_duration(self) -> bool {
        matches!(self, Self::Permanent(..) | Self::Close(_) | Self::Compressed(..))
    }
}

/// What a node has to do.
#[derive(Default)]
pub(super) struct Agenda {
    deeds: BinaryHeap<Reverse<(Nanos, SyncAction)>>,
    /// When it is looked at next.
    pub(super) asked: Option<Time>,
    /// The integration cycle.
    cycle: u32,
    /// The best frame of the integration cycle so far: how many masters it has, and how far the clock is ahead by it.
    best: Option<(u32, i64)>,
}

impl Agenda {
    fn add(&mut self, at: u64, deed: SyncAction) {
        self.deeds.push(Reverse((Nanos::from_nanos(at), deed)));
    }

    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.deeds.peek().map(|Reverse((at, _))| *at)
    }

    /// A frame is permanent in schedule, or not.
    fn judge(&mut self, membership: u32, correction: Option<i64>) {
        let masters = membership.count_ones();
        if let Some(ahead_ns) = correction
            && self.best.is_none_or(|(most, _)| masters > most)
        {
            self.best = Some((masters, ahead_ns));
        }
    }

    /// The clock shows `by_ns` more from now on.
    fn shift(&mut self, by_ns: i64) {
        let deeds = std::mem::take(&mut self.deeds).into_iter();
        self.deeds = deeds
            .map(|Reverse((at, deed))| match deed.is_duration() {
                true => Reverse((shifted(at, by_ns), deed)),
                false => Reverse((at, deed)),
            })
            .collect();
    }
}

fn shifted(at: Nanos, by_ns: i64) -> Nanos {
    Nanos::from_nanos(at.as_nanos().saturating_add_signed(by_ns))
}

/// What the compression master has of an integration cycle.
struct Collection {
    /// When each frame was permanent.
    permanent: Vec<u64>,
    membership: u32,
    /// How many observation windows have been opened.
    windows: u64,
    /// Whether a frame came in the window that is open.
    is_fresh: bool,
}

/// Synchronisation at work.
pub(super) struct Sync {
    pub(super) settings: Synchronisation,
    collections: BTreeMap<u32, Collection>,
    /// The index of the flow of the first master among the flows of the world.
    first_flow: usize,
}

impl Sync {
    pub(super) fn new(settings: Synchronisation, first_flow: usize) -> Self {
        Self { settings, collections: BTreeMap::new(), first_flow }
    }
}

/// The clocks of a network. With synchronisation the schedule begins on all of them within half of the
/// precision; without it, at once. None shows less than nothing at the start: a node that is not there yet would keep the first
/// frames until it is.
pub(super) fn clocks(network: &Network, seed: u64) -> (Vec<Clock>, Vec<Random>) {
    let new = |node: usize| {
        let mut random = Random::new(seed, (u64::from(RANDOM_OF_CLOCKS) << 32) + node as u64);
        let oscillator = network.nodes[node].oscillator;
        let ahead = match network.synchronisation {
            Some(_) if network.has_schedule(node) => {
                let half = Nanos::from_nanos(network.precision.as_nanos() / 2);
                half - random.nanos(Nanos::ZERO, half)
            }
            _ => Nanos::ZERO,
        };
        (Clock::new(oscillator, ahead.as_nanos().cast_signed()), random)
    };
    (0..network.nodes.len()).map(new).unzip()
}

impl World {
    /// The clock of a node, by its index.
    #[must_use]
    pub fn clock(&self, node: usize) -> &Clock {
        &self.clocks[node]
    }

    /// How often the difference of clocks is handed out.
    fn period(&self) -> Nanos {
        self.sync.as_ref().map_or(self.network.cycle, |sync| sync.settings.period)
    }

    /// Plans what clocks do first.
    pub(super) fn plan_clocks(&mut self) {
        if !self.has_clocks {
            return;
        }
        let (cycle, period) = (self.network.cycle, self.period());
        self.core.plan(self.core.now() + period, Event::Measure);
        for node in 0..self.clocks.len() {
            if self.clocks[node].wanders() {
                self.core.plan(self.core.now() + cycle, Event::Wander(node as u32));
            }
            if self.sync.is_some() && self.network.has_schedule(node) {
                self.agendas[node].add(0, SyncAction::Integrate(0));
                self.plan_agenda(node);
            }
        }
    }

    /// The rate of a clock changes.
    pub(super) fn wander(&mut self, node: usize) {
        self.compare();
        let now = self.core.now();
        self.clocks[node].wander(now, &mut self.random_of_clocks[node]);
        self.changed(node);
        self.core.plan(now + self.network.cycle, Event::Wander(node as u32));
    }

    /// The difference of clocks in the cycle that is over. In the first one clocks were not synchronised yet.
    pub(super) fn measure(&mut self, observer: &mut dyn Observer) {
        self.compare();
        let (now, period) = (self.core.now(), self.period());
        if now - Time::ZERO > period {
            observer.precision(now, self.difference);
        }
        self.difference = Nanos::ZERO;
        self.compare();
        self.core.plan(now + period, Event::Measure);
    }

    /// Takes the difference of clocks into account. Clocks run straight on between changes, so it is greatest
    /// before or behind one.
    fn compare(&mut self) {
        let now = self.core.now();
        let shown = || {
            let nodes = (0..self.clocks.len()).filter(|&node| self.network.has_schedule(node));
            nodes.map(|node| self.clocks[node].ahead_ns(now))
        };
        if let (Some(least), Some(most)) = (shown().min(), shown().max()) {
            self.difference = self.difference.max(Nanos::from_nanos(most.abs_diff(least)));
        }
    }

    /// A clock runs or shows differently from now on: what was planned by it is planned again.
    fn changed(&mut self, node: usize) {
        for link in self.network.links_of(node).collect::<Vec<_>>() {
            self.tell_occupation(node, link);
        }
        self.plan_station(node);
        self.plan_agenda(node);
        for index in 0..self.network.flows.len() {
            let flow = &self.network.flows[index];
            if flow.from == node && flow.is_time_triggered() {
                self.ask_sender(index);
            }
        }
    }

    /// A station is told how long the link is occupied, by its own clock.
    pub(super) fn tell_occupation(&mut self, node: usize, link: usize) {
        // One that became free long ago can be used from now on only.
        let until =
            self.occupied_until[self.controller(link, node).0 as usize].max(self.core.now());
        self.stations[node].occupied(link, self.clocks[node].local_behind(until));
    }

    /// Plans when a node looks at its agenda, unless it does by then.
    fn plan_agenda(&mut self, node: usize) {
        let Some(at) = self.agendas[node].next_at() else { return };
        let at = self.clocks[node].reaches(at).max(self.core.now());
        if self.agendas[node].asked.is_none_or(|asked| at < asked) {
            self.agendas[node].asked = Some(at);
            self.core.plan(at, Event::Agenda(node as u32));
        }
    }

    /// A node looks at its agenda.
    pub(super) fn work(&mut self, node: usize, observer: &mut dyn Observer) {
        if self.agendas[node].asked != Some(self.core.now()) {
            // One that came sooner took its place.
            return;
        }
        self.agendas[node].asked = None;
        // A correction changes what time it is.
        while let Some(at) = self.agendas[node].next_at()
            && at <= self.clocks[node].local(self.core.now())
            && let Some(Reverse((_, deed))) = self.agendas[node].deeds.pop()
        {
            self.deed(node, at.as_nanos(), deed, observer);
        }
        self.plan_agenda(node);
    }

    fn deed(&mut self, node: usize, at: u64, deed: SyncAction, observer: &mut dyn Observer) {
        let Some(sync) = &mut self.sync else { return };
        let Synchronisation { period, timing, compression_master, ref masters, .. } = sync.settings;
        let agenda = &mut self.agendas[node];
        let begin = |cycle: u32| u64::from(cycle) * period.as_nanos();
        let is_compression_master = node == compression_master;
        match deed {
            SyncAction::Integrate(cycle) => {
                (agenda.cycle, agenda.best) = (cycle, None);
                let scheduled = match is_compression_master {
                    true => timing.scheduled_compression(begin(cycle)),
                    false => timing.scheduled_receive(begin(cycle)),
                };
                agenda.add(timing.correction_at(scheduled), SyncAction::Correct);
                agenda.add(begin(cycle + 1), SyncAction::Integrate(cycle + 1));
                if let Some(master) = masters.iter().position(|&it| it == node) {
                    self.send(master, cycle, 1 << master, observer);
                }
            }
            SyncAction::Permanent(cycle, membership) if is_compression_master => {
                let collection = sync.collections.entry(cycle).or_insert_with(|| {
                    agenda.add(at + timing.observation_window(), SyncAction::Close(cycle));
                    Collection { permanent: Vec::new(), membership: 0, windows: 1, is_fresh: false }
                });
                collection.is_fresh = !collection.permanent.is_empty();
                collection.permanent.push(at);
                collection.membership |= membership;
            }
            SyncAction::Permanent(cycle, membership) if cycle == agenda.cycle => {
                let scheduled = timing.scheduled_receive(begin(cycle));
                agenda.judge(membership, timing.clock_correction(at, scheduled));
            }
            // Somebody is in another integration cycle.
            SyncAction::Permanent(..) => {}
            SyncAction::Close(cycle) => {
                let Some(collection) = sync.collections.get_mut(&cycle) else { return };
                if collection.is_fresh && collection.windows < timing.observation_windows() {
                    collection.windows += 1;
                    collection.is_fresh = false;
                    agenda.add(at + timing.observation_window(), deed);
                    return;
                }
                let Some((compressed, membership)) =
                    sync.collections.remove(&cycle).and_then(|it| it.compress(&timing))
                else {
                    return;
                };
                let dispatch = compressed + timing.dispatch_delay();
                agenda.add(dispatch, SyncAction::Compressed(cycle, membership));
                if cycle == agenda.cycle {
                    let scheduled = timing.scheduled_compression(begin(cycle));
                    agenda.judge(membership, timing.clock_correction(compressed, scheduled));
                }
            }
            SyncAction::Compressed(cycle, membership) => {
                let flow = sync.settings.flows.len() - 1;
                self.send(flow, cycle, membership, observer);
            }
            SyncAction::Correct => {
                if let Some((_, ahead_ns)) = agenda.best.take() {
                    self.correct(node, -ahead_ns);
                }
            }
        }
    }

    /// The clock of a node shows `by_ns` more from now on.
    fn correct(&mut self, node: usize, by_ns: i64) {
        self.compare();
        self.clocks[node].step(self.core.now(), by_ns);
        self.compare();
        self.agendas[node].shift(by_ns);
        if let Some(sync) = &mut self.sync
            && sync.settings.compression_master == node
        {
            let permanent = sync.collections.values_mut().flat_map(|it| &mut it.permanent);
            permanent.for_each(|at| *at = at.saturating_add_signed(by_ns));
        }
        self.changed(node);
    }

    /// A node sends a protocol control frame: the flow of that index among those of the synchronisation.
    fn send(&mut self, flow: usize, cycle: u32, membership: u32, observer: &mut dyn Observer) {
        let Some(sync) = &self.sync else { return };
        let index = sync.first_flow + flow;
        let pcf = Pcf {
            integration_cycle: cycle,
            membership_new: membership,
            sync_priority: sync.settings.priority,
            sync_domain: 0,
            kind: PcfKind::Integration,
            transparent_clock: 0,
        };
        let now = self.core.now();
        let copy = Copy {
            flow: index as u32,
            hop: 0,
            number: cycle.into(),
            due: now,
            started: None,
            left: 1,
            control: Some((pcf, now)),
        };
        self.submit(index, copy, observer);
    }

    /// A protocol control frame begins on a hop: what it waited for here, and what it needs for the hop, counts
    /// in its transparent clock, if this node has one.
    pub(super) fn count_delay(&mut self, id: u32) {
        let copy = &mut self.copies[id];
        let flow = &self.network.flows[copy.flow as usize];
        let hop = flow.hops[copy.hop as usize];
        let Some((pcf, entered)) = &mut copy.control else { return };
        if self.network.has_schedule(hop.from) {
            let link = &self.network.links[hop.link];
            let waited = self.clocks[hop.from].measures(*entered, self.core.now());
            let delay = waited + link.preamble() + link.transmission(flow.size) + link.delay;
            let units = Pcf::transparent_clock_from_ns(delay.as_nanos()).unwrap_or(u64::MAX);
            pcf.transparent_clock = pcf.transparent_clock.saturating_add(units);
        }
    }

    /// The last bit of a protocol control frame has reached a node.
    pub(super) fn receive_control(&mut self, copy: &mut Copy, node: usize) {
        let (Some(sync), Some((pcf, entered))) = (&self.sync, &mut copy.control) else { return };
        let now = self.core.now();
        *entered = now;
        if !self.network.flows[copy.flow as usize].to.contains(&node) {
            return;
        }
        let most = sync.settings.timing.max_transmission_delay;
        // One that took longer than is possible says nothing.
        if let Some(delay) = permanence_delay(most, pcf.transparent_clock_ns()) {
            let at = self.clocks[node].local(now).as_nanos() + delay;
            let deed = SyncAction::Permanent(pcf.integration_cycle, pcf.membership_new);
            self.agendas[node].add(at, deed);
            self.plan_agenda(node);
        }
    }
}

impl Collection {
    /// When its frames are compressed, and the masters that sent them.
    fn compress(self, timing: &Timing) -> Option<(u64, u32)> {
        let first = self.permanent.iter().min()?;
        let correction = compression_correction(&self.permanent, timing.faulty)?;
        Some((first + timing.compression() + correction, self.membership))
    }
}

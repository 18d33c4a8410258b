//! [`Analysis`]: latencies of the frames of a network, from what one port behind it has heard, or two ports. It has no
//! clock and no I/O.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use candor_causes::Cause;
use candor_lat::account::{Account, Counts, End, Terms};
use candor_lat::order::Order;
use candor_lat::{Figures, Histogram, Metric, Tap, TapPath, Taps};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::{Network, Traffic};

use crate::analyzer::{Arrival, Heard};
use crate::join::{Join, Key, Outcome};

/// Runs of generators whose frames are looked at, of each flow.
const MOST_RUNS: usize = 64;
/// How long a frame may be under way.
const TRANSIT_TIMEOUT: Nanos = Nanos::from_secs(1);

/// Which port has seen a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// That before the network.
    Before,
    Behind,
}

/// Where on the way of frames a port is, and which of their bits its stamps are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// On the first link: of frames that its machine sends the first bit, of others the last.
    FirstLink,
    /// At a node that sends over a link: the first bit.
    Sender {
        link: usize,
        /// The node.
        from: usize,
    },
    /// At a receiver, the only one of a flow if none is named: the last bit.
    Receiver(Option<usize>),
}

impl Stand {
    /// When the stamp of a time-triggered frame is due, from the begin of its period; `None` if it does not come here, or
    /// has no instant.
    #[must_use]
    pub fn due(self, network: &Network, flow: usize, is_outgoing: bool) -> Option<Nanos> {
        let flow = network.flows.get(flow).filter(|flow| flow.is_time_triggered())?;
        let (hop, is_first_bit) = match (self, &flow.to[..]) {
            (Self::FirstLink, _) => {
                (flow.hops.iter().find(|hop| hop.before.is_none())?, is_outgoing)
            }
            (Self::Sender { link, from }, _) => {
                (flow.hops.iter().find(|hop| (hop.link, hop.from) == (link, from))?, true)
            }
            (Self::Receiver(Some(node)), _) | (Self::Receiver(None), &[node]) => {
                (flow.hops.iter().find(|hop| hop.to == node)?, false)
            }
            (Self::Receiver(None), _) => return None,
        };
        let link = &network.links[hop.link];
        let rest =
            if is_first_bit { Nanos::ZERO } else { link.delay + link.transmission(flow.size) };
        Some(hop.at + rest)
    }
}

/// What became of a frame; instants in ns since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Which frame; its stream is its flow.
    pub key: Key,
    /// `arrived`, `duplicated`, `lost`, or `unmatched`: the port before the network did not see it.
    pub outcome: &'static str,
    /// When the port before the network had it, or when it was due.
    pub before_ns: Option<u64>,
    /// When the port behind the network had it.
    pub behind_ns: Option<u64>,
}

impl Fate {
    /// The latency, if it arrived and both instants are known.
    #[must_use]
    pub fn latency_ns(&self) -> Option<i64> {
        let (before_ns, behind_ns) = self.before_ns.zip(self.behind_ns)?;
        (self.outcome == "arrived").then(|| behind_ns.wrapping_sub(before_ns).cast_signed())
    }
}

/// Frames of all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that arrived, duplicates left out.
    pub received: u64,
    /// Frames that did not.
    pub lost: u64,
    /// Frames that arrived once more.
    pub duplicated: u64,
    /// Frames that arrived behind a later one (RFC 4737).
    pub reordered: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
    }
}

/// What was measured of a flow.
pub struct Flow {
    account: Account,
    /// The runs of generators, each a stream.
    runs: BTreeMap<u32, u32>,
    has_two_ports: bool,
    /// Frames that only the port behind the network has seen.
    pub unmatched: u64,
    /// Frames of another size than the flow's, or with a VLAN tag.
    pub misshapen: u64,
    /// Frames that came outside of the receive window, if the flow has one.
    pub outside: u64,
    /// When frames came, from the begin of their period; with one port.
    positions: Histogram,
    /// The latency that follows from the schedule, if there is one.
    pub model_ns: Option<i64>,
    /// The distance of two frames, if they are time-triggered.
    pub period_ns: Option<i64>,
}

impl Flow {
    fn new(period_ns: Option<i64>, has_two_ports: bool) -> Self {
        let terms = Terms { has_variation: true, ..Terms::new(TapPath::TIME_TRIGGERED) };
        let (account, runs) = (Account::new(terms), BTreeMap::new());
        Self {
            account,
            runs,
            has_two_ports,
            unmatched: 0,
            misshapen: 0,
            outside: 0,
            positions: Histogram::new(),
            model_ns: None,
            period_ns,
        }
    }

    /// The latency that follows from the schedule: what comes more than half a period later came with the next cycle.
    fn set_model(&mut self, model_ns: Option<i64>) {
        let bound_ns = |(model_ns, period_ns): (i64, i64)| model_ns.saturating_add(period_ns / 2);
        self.model_ns = model_ns;
        self.account.set_late_after(model_ns.zip(self.period_ns).map(bound_ns));
    }

    /// The end of a frame. It is of no stream if it is of one run too many.
    fn end<'a>(&mut self, key: Key, taps: &'a Taps, stopped_by: Option<Cause>) -> End<'a> {
        let next = self.runs.len() as u32;
        let is_full = self.runs.len() >= MOST_RUNS && !self.runs.contains_key(&key.run);
        let stream = (!is_full).then(|| *self.runs.entry(key.run).or_insert(next));
        let number = stream.map_or(0, |stream| self.account.count_on(stream, key.sequence));
        let known_ns = self.model_ns.and_then(|it| it.try_into().ok()).unwrap_or(0);
        End { stream, number, taps, known_ns, stopped_by }
    }

    /// A frame came; whether it had come before.
    fn came(&mut self, key: Key) -> bool {
        let taps = Taps::new(TapPath::TIME_TRIGGERED);
        let end = self.end(key, &taps, None);
        self.account.end(&end).order == Some(Order::Duplicate)
    }

    /// The latency of a frame that came is known.
    fn measured(&mut self, key: Key, before_ns: u64, behind_ns: u64) {
        let taps = Taps::new(TapPath::TIME_TRIGGERED).with(Tap::Dispatched, before_ns);
        let taps = taps.with(Tap::Arrived, behind_ns);
        let end = self.end(key, &taps, None);
        self.account.measure(&end);
    }

    /// A time-triggered frame came so long behind its instant.
    fn placed(&mut self, send: Nanos, window: Option<Nanos>, latency_ns: i64) {
        let since_ns = latency_ns.saturating_add_unsigned(send.as_nanos());
        // One that is later than its period, or stamped by another clock, came in a period, too.
        let is_period = |period_ns: &i64| *period_ns > 0;
        let position = self.period_ns.filter(is_period).map(|it| since_ns.rem_euclid(it));
        self.positions.record(position.unwrap_or(since_ns));
        // A window is open half before and half behind the instant.
        let is_outside = window.zip(self.model_ns).is_some_and(|(window, model_ns)| {
            latency_ns.abs_diff(model_ns) > window.as_nanos() / 2
        });
        self.outside += u64::from(is_outside);
    }

    /// The port before the network saw a frame, and that behind it did not.
    fn lost(&mut self, key: Key) {
        let taps = Taps::new(TapPath::TIME_TRIGGERED);
        let end = self.end(key, &taps, Some(Cause::Unexplained));
        self.account.end(&end);
    }

    /// Its frames. With one port, those are lost whose numbers are missing.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let Counts { received, lost, duplicated, reordered, .. } = self.account.counts();
        let lost = if self.has_two_ports { lost } else { self.account.missing() };
        Totals { received, lost, duplicated, reordered }
    }

    /// The same as the counts of a result.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let Totals { received, lost, .. } = self.totals();
        let late = self.late().unwrap_or(0);
        Counts { sent: received + lost, lost, late, ..self.account.counts() }
    }

    /// Whether anything is known of it.
    #[must_use]
    pub fn is_any(&self) -> bool {
        let Totals { received, lost, .. } = self.totals();
        received + lost + self.unmatched + self.misshapen > 0
    }

    /// The latencies, and by how much they exceed the model, if there is one; with profiles of so many points.
    #[must_use]
    pub fn metrics(&self, points: usize) -> BTreeMap<String, Figures> {
        let metrics = self.account.metrics().filter(|(metric, _)| match metric {
            Metric::Residual => self.model_ns.is_some(),
            metric => *metric == Metric::NetworkLatency,
        });
        let figures = metrics.filter_map(|(metric, latencies)| {
            Some((metric.key().to_owned(), latencies.with_profile(points)?))
        });
        figures.collect()
    }

    /// The delay variation (RFC 3393).
    #[must_use]
    pub fn variation(&self) -> Option<Figures> {
        self.account.variation()
    }

    /// When frames came, from the begin of their period.
    #[must_use]
    pub fn positions(&self) -> Option<Figures> {
        self.positions.figures()
    }

    /// Frames that came with the next cycle; `None` if there is no model.
    #[must_use]
    pub fn late(&self) -> Option<u64> {
        self.model_ns.zip(self.period_ns).map(|_| self.account.counts().late)
    }
}

/// An analysis at work.
pub struct Analysis<'a> {
    network: &'a Network,
    /// The flow that counts; all without one.
    wanted: Option<usize>,
    /// Where the port behind the network is, and the one before it, if there is one.
    behind: Stand,
    before: Option<Stand>,
    flows: BTreeMap<usize, Flow>,
    join: Join,
    /// Up to when all was told that the ports had: before, behind.
    looked: [Instant<Realtime>; 2],
    /// Whether only frames count that are under way.
    is_closing: bool,
    /// Frames of other programs or protocols.
    pub strangers: u64,
    /// Frames of virtual links that no flow has.
    pub unplanned: u64,
    /// Frames without a stamp of the kernel.
    pub unstamped: u64,
    /// Frames that the port before the network has seen.
    pub seen: u64,
}

impl<'a> Analysis<'a> {
    /// Of a flow or of all, by a port behind the network and perhaps one before it.
    #[must_use]
    pub fn new(
        network: &'a Network,
        wanted: Option<usize>,
        behind: Stand,
        before: Option<Stand>,
    ) -> Self {
        Self {
            network,
            wanted,
            behind,
            before,
            flows: BTreeMap::new(),
            join: Join::new(TRANSIT_TIMEOUT),
            looked: [Instant::default(); 2],
            is_closing: false,
            strangers: 0,
            unplanned: 0,
            unstamped: 0,
            seen: 0,
        }
    }

    /// The network whose frames they are.
    #[must_use]
    pub const fn network(&self) -> &'a Network {
        self.network
    }

    /// From now on only frames count that are under way.
    pub const fn close(&mut self) {
        self.is_closing = true;
    }

    /// How many frames are waited for.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.join.waiting()
    }

    /// Frames that have ended, or with two ports those that the first one has seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        let Totals { received, lost, .. } = self.totals();
        if self.before.is_some() { self.seen } else { received + lost }
    }

    /// The flows of which anything is known.
    pub fn flows(&self) -> impl Iterator<Item = (usize, &Flow)> {
        self.flows.iter().filter(|(_, flow)| flow.is_any()).map(|(index, flow)| (*index, flow))
    }

    /// Frames of all flows.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.flows.values().fold(Totals::default(), |mut totals, flow| {
            totals += flow.totals();
            totals
        })
    }

    /// What a port has heard; tells what became of frames.
    pub fn take(&mut self, place: Place, heard: Heard, tell: &mut dyn FnMut(Fate)) {
        match heard {
            Heard::Stranger => self.strangers += 1,
            Heard::Unplanned => self.unplanned += 1,
            Heard::Pcf => {}
            Heard::Looked(at) => {
                self.looked[place as usize] = at;
                let [before, behind] = self.looked;
                let mut outcomes = Vec::new();
                self.join.expire(before.min(behind), &mut |it| outcomes.push(it));
                outcomes.into_iter().for_each(|outcome| self.settle(outcome, tell));
            }
            Heard::Frame { flow, .. } if self.wanted.is_some_and(|wanted| wanted != flow) => {}
            Heard::Misshapen(flow) if self.wanted.is_some_and(|wanted| wanted != flow) => {}
            Heard::Misshapen(flow) => {
                self.flow(flow).misshapen += u64::from(!self.is_closing && place == Place::Behind);
            }
            Heard::Frame { flow, arrival, is_outgoing } => {
                let key = Key::from(&arrival.measurement);
                if self.is_closing && !self.join.is_known(&key) {
                    return;
                }
                match place {
                    Place::Before => self.came_before(flow, key, &arrival, is_outgoing, tell),
                    Place::Behind => self.came_behind(flow, key, &arrival, tell),
                }
            }
        }
    }

    /// No more is heard: what is under way is lost.
    pub fn finish(&mut self, tell: &mut dyn FnMut(Fate)) {
        let mut outcomes = Vec::new();
        self.join.finish(&mut |it| outcomes.push(it));
        outcomes.into_iter().for_each(|outcome| self.settle(outcome, tell));
    }

    fn came_before(
        &mut self,
        flow: usize,
        key: Key,
        arrival: &Arrival,
        is_outgoing: bool,
        tell: &mut dyn FnMut(Fate),
    ) {
        let Some(stamp) = arrival.stamp else {
            self.unstamped += 1;
            return;
        };
        if !self.join.was_before(&key) {
            self.seen += 1;
        }
        let model_ns = self.model_ns(flow, is_outgoing);
        self.flow(flow).set_model(model_ns);
        if let Some(outcome) = self.join.before(key, stamp) {
            self.settle(outcome, tell);
        }
    }

    /// With one port, the latency counts from the instant of the schedule.
    fn came_behind(
        &mut self,
        flow: usize,
        key: Key,
        arrival: &Arrival,
        tell: &mut dyn FnMut(Fate),
    ) {
        let is_again = self.flow(flow).came(key);
        let due_ns = self.before.is_none().then_some(arrival.measurement.scheduled_ns);
        let behind_ns = arrival.stamp.map(Instant::as_nanos);
        match (arrival.stamp, due_ns) {
            (stamp, _) if is_again && (stamp.is_some() || due_ns.is_some()) => {
                tell(Fate { key, outcome: "duplicated", before_ns: due_ns, behind_ns });
            }
            (None, _) => self.unstamped += 1,
            (Some(stamp), Some(due_ns)) => self.measured(key, due_ns, stamp.as_nanos(), tell),
            (Some(stamp), None) => {
                if let Some(outcome) = self.join.behind(key, stamp) {
                    self.settle(outcome, tell);
                }
            }
        }
    }

    fn settle(&mut self, outcome: Outcome, tell: &mut dyn FnMut(Fate)) {
        let ended = |key, outcome| Fate { key, outcome, before_ns: None, behind_ns: None };
        match outcome {
            Outcome::Arrived { key, before, behind } => {
                self.measured(key, before.as_nanos(), behind.as_nanos(), tell);
            }
            Outcome::Lost(key) => {
                self.flow(key.stream.into()).lost(key);
                tell(ended(key, "lost"));
            }
            Outcome::Unmatched(key) => {
                self.flow(key.stream.into()).unmatched += 1;
                tell(ended(key, "unmatched"));
            }
        }
    }

    fn measured(&mut self, key: Key, before_ns: u64, behind_ns: u64, tell: &mut dyn FnMut(Fate)) {
        let is_alone = self.before.is_none();
        let traffic = self.network.flows[usize::from(key.stream)].traffic;
        let flow = self.flow(key.stream.into());
        flow.measured(key, before_ns, behind_ns);
        if let Traffic::TimeTriggered { send, window, .. } = traffic
            && is_alone
        {
            let latency_ns = behind_ns.wrapping_sub(before_ns).cast_signed();
            flow.placed(send, window, latency_ns);
        }
        let (before_ns, behind_ns) = (Some(before_ns), Some(behind_ns));
        tell(Fate { key, outcome: "arrived", before_ns, behind_ns });
    }

    /// What is known of a flow.
    fn flow(&mut self, index: usize) -> &mut Flow {
        let model_ns = self.model_ns(index, true);
        self.flows.entry(index).or_insert_with(|| {
            let period = self.network.flows[index].period();
            let period_ns = period.map(|it| it.as_nanos().cast_signed());
            let mut flow = Flow::new(period_ns, self.before.is_some());
            flow.set_model(model_ns);
            flow
        })
    }

    /// The latency that follows from the schedule: without a port before the network, from the instant of the frame.
    fn model_ns(&self, index: usize, is_outgoing: bool) -> Option<i64> {
        let due_ns = |stand: Stand| {
            let due = stand.due(self.network, index, is_outgoing)?;
            Some(due.as_nanos().cast_signed())
        };
        let from = self.before.unwrap_or(Stand::FirstLink);
        Some(due_ns(self.behind)? - due_ns(from)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_across_the_end_of_the_numbers_are_told_from_lost_ones() {
        let mut it = Flow::new(Some(24), false);
        it.set_model(Some(90));
        let numbers = [u32::MAX - 1, u32::MAX, 0, 3, 1, 1];
        for (number, latency_ns) in numbers.into_iter().zip([100, 110, 90, 95, 100, 0]) {
            let key = Key { run: 1, stream: 0, sequence: number };
            if !it.came(key) {
                it.measured(key, 1_000, 1_000 + latency_ns);
            }
        }
        let Totals { received, lost, duplicated, reordered } = it.totals();
        assert_eq!([received, lost, duplicated, reordered], [5, 1, 1, 1]);
        assert_eq!((it.counts().sent, it.counts().late, it.late()), (6, 1, Some(1)));
        let metrics = it.metrics(0);
        let (latency, ipdv) = (&metrics["network_latency"], it.variation().unwrap());
        assert_eq!((latency.min_ns, latency.max_ns, latency.p50_ns), (90, 110, 100));
        assert_eq!(metrics["residual"].p50_ns, 10);
        // Of 0 and the one before it, of that and the one before, and of 0 and 1.
        assert_eq!((ipdv.count, ipdv.min_ns, ipdv.max_ns), (3, 10, 20));
        // Of another run, 1 is no duplicate.
        assert!(!it.came(Key { run: 2, stream: 0, sequence: 1 }));
    }
}

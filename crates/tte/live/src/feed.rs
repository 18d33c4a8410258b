//! [`Feed`]: the frames of end systems, in the order in which they go to their interfaces.

use std::collections::{BTreeMap, VecDeque};

use candor_time::Nanos;
use candor_tte::station::{Action, Station};
use candor_tte::{Network, Traffic};
use rand_core::Rng;
use rand_pcg::Pcg32;

/// A flow that begins at one of the end systems.
struct Source {
    /// Which of the end systems sends it.
    place: usize,
    flow: usize,
    /// When the first bit of the next frame is to leave.
    due: Nanos,
    /// A rate-constrained frame waits for its port: the gap begins when it leaves.
    is_waiting: bool,
    random: Pcg32,
}

impl Source {
    fn new(network: &Network, place: usize, flow: usize, seed: u64) -> Self {
        // From the second cycle on.
        let due = match network.flows[flow].traffic {
            Traffic::TimeTriggered { send, .. } => network.cycle + send,
            _ => network.cycle,
        };
        Self { place, flow, due, is_waiting: false, random: Pcg32::new(seed, flow as u64) }
    }

    /// When the frame goes to its port, so that the first bit leaves when it is due.
    fn submit_at(&self, network: &Network) -> Nanos {
        match (&network.flows[self.flow].traffic, network.flows[self.flow].hops.first()) {
            (Traffic::TimeTriggered { .. }, Some(hop)) => {
                let preamble = network.links[hop.link].preamble().as_nanos();
                Nanos::from_nanos(self.due.as_nanos().saturating_sub(preamble))
            }
            _ => self.due,
        }
    }

    fn advance(&mut self, network: &Network) {
        let flow = &network.flows[self.flow];
        self.is_waiting = matches!(flow.traffic, Traffic::RateConstrained { .. });
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

/// A frame that is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// Which of the end systems sends it.
    pub(crate) place: usize,
    pub(crate) flow: usize,
    /// When the first bit was to leave.
    pub(crate) due: Nanos,
    /// When it does: frames of other classes may have waited for their port.
    pub(crate) first_bit: Nanos,
}

/// The frames of end systems.
pub(crate) struct Feed<'a> {
    network: &'a Network,
    stations: Vec<Station>,
    sources: Vec<Source>,
    /// The instants of frames in the stations, by the numbers by which these know them.
    waiting: BTreeMap<u32, Nanos>,
    next_id: u32,
    ready: VecDeque<Next>,
}

impl<'a> Feed<'a> {
    /// The frames of these nodes, each a place.
    pub(crate) fn new(network: &'a Network, nodes: impl Iterator<Item = usize>, seed: u64) -> Self {
        let nodes: Vec<_> = nodes.collect();
        let station = |&node: &usize| Station::new(network, node, Nanos::ZERO);
        let stations = nodes.iter().map(station).collect();
        let flows = network.flows.iter().enumerate();
        let sources = flows.filter(|(_, flow)| flow.traffic != Traffic::BestEffort { load: 0.0 });
        let source = |(index, flow): (usize, &candor_tte::Flow)| {
            let place = nodes.iter().position(|&node| node == flow.from)?;
            Some(Source::new(network, place, index, seed))
        };
        let sources = sources.filter_map(source).collect();
        let (waiting, ready) = (BTreeMap::new(), VecDeque::new());
        Self { network, stations, sources, waiting, next_id: 0, ready }
    }

    /// No further frames of a flow are needed.
    pub(crate) fn end(&mut self, flow: usize) {
        self.sources.retain(|source| source.flow != flow);
        self.ready.retain(|next| next.flow != flow);
    }

    /// When the next time-triggered frame goes to its port.
    pub(crate) fn next_instant(&self) -> Option<Nanos> {
        let scheduled =
            self.sources.iter().filter(|it| self.network.flows[it.flow].is_time_triggered());
        scheduled.map(|source| source.submit_at(self.network)).min()
    }

    /// The next frame; `None` if no flow has any.
    pub(crate) fn next(&mut self) -> Option<Next> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            if self.sources.is_empty() {
                return None;
            }
            let sources = self.sources.iter_mut().filter(|source| !source.is_waiting);
            let source = sources.min_by_key(|it| it.submit_at(self.network));
            let planned = self.stations.iter().enumerate();
            let planned = planned.filter_map(|(place, it)| Some((it.next_at()?, place))).min();
            let mut actions = Vec::new();
            let act = &mut |action| actions.push(action);
            let submit_at = source.as_ref().map(|source| source.submit_at(self.network));
            let is_next = |&(at, _): &(Nanos, usize)| submit_at.is_none_or(|submit| at <= submit);
            let place = match (planned.filter(is_next), source.zip(submit_at)) {
                (Some((at, place)), _) => {
                    self.stations[place].advance(self.network, at, act);
                    place
                }
                (None, None) => return None,
                (None, Some((source, submit_at))) => {
                    for hop in self.network.flows[source.flow].first_hops() {
                        self.waiting.insert(self.next_id, source.due);
                        let (flow, id) = ((source.flow, hop), self.next_id);
                        self.stations[source.place].submit(self.network, flow, id, submit_at, act);
                        self.next_id = self.next_id.wrapping_add(1);
                    }
                    source.advance(self.network);
                    source.place
                }
            };
            for action in actions {
                let (Action::Starts { id, flow, .. } | Action::Dropped { id, flow, .. }) = action;
                let due = self.waiting.remove(&id);
                if let Some(source) = self.sources.iter_mut().find(|it| it.flow == flow) {
                    let traffic = self.network.flows[flow].traffic;
                    if let (Action::Starts { at, .. }, Some(due)) = (action, due)
                        && let Some(next) = traffic.next_behind(due, at)
                    {
                        source.due = next;
                    }
                    source.is_waiting = false;
                }
                if let (Action::Starts { hop, at, .. }, Some(due)) = (action, due) {
                    let preamble =
                        self.network.links[self.network.flows[flow].hops[hop].link].preamble();
                    self.ready.push_back(Next { place, flow, due, first_bit: at + preamble });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = r#"
        cycle = "1ms"
        end_system = { a = {}, b = {}, c = {} }
        switch.s = {}
        link = { a = { between = ["a", "s"] }, b = { between = ["b", "s"] }, c = { between = ["c", "s"] } }
        [flow]
        tt = { class = "tt", id = 1, from = "a", to = "c", period = "500us", send = "100us", relay_delay = "50us" }
        rc = { class = "rc", id = 2, from = "a", to = "c", gap = "1ms", size = 1518 }
        other = { class = "tt", id = 3, from = "b", to = "c", send = "200us", relay_delay = "50us" }
        load = { class = "be", from = "b", to = "c", size = 1518, load = 20 }
    "#;

    #[test]
    fn frames_come_in_the_order_of_time() {
        let (network, findings) = candor_tte::file::parse("n", NETWORK);
        let network = network.unwrap_or_else(|| panic!("{findings}"));
        let mut feed = Feed::new(&network, [0, 1].into_iter(), 1);
        assert_eq!(feed.next_instant(), Some(Nanos::from_nanos(1_100_000 - 640)));
        let frames: Vec<_> = std::iter::from_fn(|| feed.next()).take(1_000).collect();
        assert!(frames.windows(2).all(|two| {
            let places = [0, 1].map(|it| two[it].place);
            places[0] != places[1] || two[0].first_bit < two[1].first_bit
        }));
        let of = |flow: usize| frames.iter().filter(move |it| it.flow == flow);
        let instants =
            |flow: usize| of(flow).map(|it| it.due.as_nanos()).take(3).collect::<Vec<_>>();
        assert_eq!(instants(0), [1_100_000, 1_600_000, 2_100_000]);
        assert_eq!(instants(2), [1_200_000, 2_200_000, 3_200_000]);
        for flow in [0, 2] {
            assert!(of(flow).all(|it| it.first_bit == it.due), "timely block keeps the link free");
        }
        // The rate-constrained frame does not fit before the first instant.
        let first = of(1).next().map(|it| it.first_bit > it.due);
        assert_eq!((of(1).count() > 100, first), (true, Some(true)));
        let gaps = of(1).zip(of(1).skip(1)).map(|(one, next)| next.first_bit - one.first_bit);
        assert!(gaps.min() >= Some(Nanos::from_millis(1)), "the gap is that on the link");
        assert!(of(3).count() > 100 && of(3).all(|it| it.place == 1));
        // Flows that have ended send nothing; nothing is left in the end.
        feed.end(0);
        assert!((0..100).all(|_| feed.next().is_some_and(|it| it.flow != 0)));
        [1, 2, 3].into_iter().for_each(|flow| feed.end(flow));
        assert_eq!(feed.next(), None);
    }
}

//! [`Port`]: the queues in front of a link, and which frame leaves next.

use std::collections::{BTreeMap, VecDeque};

use candor_time::Nanos;

use crate::{Flow, Network, Relaying, Role, Traffic};

/// The classes by the order in which their frames leave: time-triggered, protocol control frames, rate-constrained,
/// best-effort.
const CLASSES: usize = 4;
const SCHEDULED: usize = 0;
/// Frames that an end system keeps for each class.
const DEPTH_OF_END_SYSTEM: usize = 64;

/// A frame that waits: which, and for which hop of which flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) id: u32,
    pub(crate) flow: usize,
    pub(crate) hop: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: it sends already, or no frame waits.
    Nothing,
    /// What waits would be in the way of a time-triggered frame, or the link is not free: look again then.
    Later(Nanos),
    /// It sends this frame now.
    Sends(Waiting),
}

/// The output of a node on a link. Times count from the begin of the first cycle.
pub(crate) struct Port {
    /// By class; one for all if the port knows no classes.
    waiting: Vec<VecDeque<Waiting>>,
    depth: usize,
    /// When the gap behind the last frame is over.
    free_at: Nanos,
    /// When it looks again, if that is planned.
    looks_at: Option<Nanos>,
    reserved: Reserved,
}

impl Port {
    pub(crate) fn new(network: &Network, node: usize, link: usize) -> Self {
        let (classes, depth, jitter) = match &network.nodes[node].role {
            Role::EndSystem(end_system) => (CLASSES, DEPTH_OF_END_SYSTEM, end_system.jitter),
            Role::Switch(switch) => match switch.relaying {
                Relaying::TimeTriggered(_) => (CLASSES, switch.depth, Nanos::ZERO),
                Relaying::StoreAndForward | Relaying::CutThrough => (1, switch.depth, Nanos::ZERO),
            },
        };
        let reserved = match classes {
            CLASSES => Reserved::new(network, node, link, jitter),
            _ => Reserved::default(),
        };
        let waiting = vec![VecDeque::new(); classes];
        Self { waiting, depth, free_at: Nanos::ZERO, looks_at: None, reserved }
    }

    /// Whether a look at `at` is to be planned: none that comes as soon is.
    pub(crate) fn looks(&mut self, at: Nanos) -> bool {
        let is_new = self.looks_at.is_none_or(|planned| at < planned);
        if is_new {
            self.looks_at = Some(at);
        }
        is_new
    }

    /// The look at `at` has come; false if an earlier one took its place.
    pub(crate) fn has_come(&mut self, at: Nanos) -> bool {
        self.looks_at.take_if(|planned| *planned == at).is_some()
    }

    /// A frame waits. False if there is no room.
    pub(crate) fn push(&mut self, flow: &Flow, frame: Waiting) -> bool {
        let class = match flow.traffic {
            _ if flow.is_control => 1,
            Traffic::TimeTriggered { .. } => SCHEDULED,
            Traffic::RateConstrained { .. } => 2,
            Traffic::BestEffort { .. } => 3,
        };
        let class = class.min(self.waiting.len() - 1);
        let has_room = self.waiting[class].len() < self.depth;
        if has_room {
            self.waiting[class].push_back(frame);
        }
        has_room
    }

    /// A time-triggered frame leaves as soon as the link is free.
    pub(crate) fn push_scheduled(&mut self, frame: Waiting) {
        self.waiting[SCHEDULED].push_back(frame);
    }

    /// The link is occupied until `until`, as its own end knows better than the schedule. Whether a frame waits for it.
    pub(crate) fn occupied(&mut self, until: Nanos) -> bool {
        self.free_at = until;
        self.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// Which frame leaves next; it is taken out of its queue, and the link is occupied by it from now on.
    /// `occupation` says for how long.
    pub(crate) fn choose(&mut self, now: Nanos, occupation: &dyn Fn(Waiting) -> Nanos) -> Next {
        let class = self.waiting.iter().position(|waiting| !waiting.is_empty());
        let Some(class) = class else { return Next::Nothing };
        if now < self.free_at {
            return Next::Later(self.free_at);
        }
        let Some(&frame) = self.waiting[class].front() else { return Next::Nothing };
        let occupation = occupation(frame);
        if class != SCHEDULED
            && let Some(end) = self.reserved.in_the_way(now, occupation)
        {
            return Next::Later(end);
        }
        self.waiting[class].pop_front();
        self.free_at = now + occupation;
        Next::Sends(frame)
    }
}

/// When time-triggered frames may leave a node over a link.
///
/// Frames are not listed: with a long cycle and short periods there are any number of them.
#[derive(Debug, Default)]
struct Reserved {
    /// For each period, when frames may leave in it, in ns, in order. Periods are whole parts of the cycle.
    begins: BTreeMap<u64, Vec<u64>>,
    /// For how long they may, in ns: the jitter.
    width: u64,
}

impl Reserved {
    fn new(network: &Network, node: usize, link: usize, jitter: Nanos) -> Self {
        let half = jitter.as_nanos() / 2;
        let lead = network.links[link].preamble().as_nanos() + half;
        let mut begins: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for flow in &network.flows {
            let Some(period) = flow.period().map(Nanos::as_nanos) else { continue };
            for hop in flow.hops.iter().filter(|hop| (hop.from, hop.link) == (node, link)) {
                let begin = (hop.at.as_nanos() % period + period - lead % period) % period;
                begins.entry(period).or_default().push(begin);
            }
        }
        begins.values_mut().for_each(|begins| begins.sort_unstable());
        // At the end itself the frame has left its buffer, if it was there.
        Self { begins, width: 2 * half + 1 }
    }

    /// Whether a frame that begins at `start` would still occupy the link when a time-triggered one may leave:
    /// until when that may be.
    fn in_the_way(&self, start: Nanos, occupation: Nanos) -> Option<Nanos> {
        let (mut since_last, mut until_next) = (u64::MAX, u64::MAX);
        for (period, begins) in &self.begins {
            let (Some(first), Some(last)) = (begins.first(), begins.last()) else { continue };
            let into = start.as_nanos() % period;
            let next = begins.partition_point(|&begin| begin <= into);
            // The last one may be of the period before, the next one of that behind.
            let before = next.checked_sub(1).map_or(into + period - last, |it| into - begins[it]);
            let behind = begins.get(next).map_or(first + period - into, |begin| begin - into);
            since_last = since_last.min(before);
            until_next = until_next.min(behind);
        }
        if since_last < self.width {
            return Some(start + Nanos::from_nanos(self.width - since_last));
        }
        (occupation.as_nanos() > until_next)
            .then(|| start + Nanos::from_nanos(until_next.saturating_add(self.width)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same with every frame of three cycles, of which the one in the middle counts.
    fn listed(reserved: &Reserved, cycle: u64, start: u64, occupation: u64) -> Option<u64> {
        let frames = reserved.begins.iter().flat_map(|(period, begins)| {
            let numbers = 0..3 * cycle / period;
            numbers.flat_map(move |number| begins.iter().map(move |it| it + number * period))
        });
        let mut frames: Vec<_> = frames.collect();
        frames.sort_unstable();
        let start = start + cycle;
        let last = frames.iter().rev().find(|&&begin| begin <= start)?;
        let next = frames.iter().find(|&&begin| begin > start)?;
        let end = if start < last + reserved.width {
            last + reserved.width
        } else if start + occupation > *next {
            next + reserved.width
        } else {
            return None;
        };
        Some(end - cycle)
    }

    proptest! {
        #[test]
        fn no_frame_of_the_cycle_is_forgotten(
            flows in prop::collection::vec((0_usize..6, 0_u64..60), 0..6),
            width in 1_u64..8,
            start in 0_u64..60,
            occupation in 0_u64..70,
        ) {
            let mut reserved = Reserved { width, ..Reserved::default() };
            for (period, begin) in flows {
                let period = [1, 5, 12, 20, 30, 60][period];
                reserved.begins.entry(period).or_default().push(begin % period);
            }
            reserved.begins.values_mut().for_each(|begins| begins.sort_unstable());
            let [at, long] = [start, occupation].map(Nanos::from_nanos);
            let found = reserved.in_the_way(at, long).map(Nanos::as_nanos);
            prop_assert_eq!(found, listed(&reserved, 60, start, occupation));
        }
    }

    /// 3,600,000,000 frames in a cycle take as much memory as one.
    #[test]
    fn a_long_cycle_may_have_a_short_period() {
        let text = r#"
            cycle = "3600s"
            end_system = { a = {}, b = {} }
            link.one = { between = ["a", "b"], speed = "1G" }
            [flow]
            tt = { class = "tt", id = 1, from = "a", to = "b", period = "1us", send = "0s" }
            be = { class = "be", from = "a", to = "b", load = 1 }
        "#;
        let (network, findings) = crate::file::parse("network", text);
        let network = network.unwrap_or_else(|| panic!("{findings}"));
        let port = Port::new(&network, 0, 0);
        // A preamble of 64 ns stands before each instant.
        let at = |ns| port.reserved.in_the_way(Nanos::from_nanos(ns), Nanos::from_nanos(672));
        assert_eq!(at(3_599_000_000_936), Some(Nanos::from_nanos(3_599_000_000_937)));
        assert_eq!(at(3_599_000_000_937), None);
        assert_eq!(at(3_599_000_001_265), Some(Nanos::from_nanos(3_599_000_001_937)));
    }
}

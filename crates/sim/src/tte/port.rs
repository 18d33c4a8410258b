//! [`Port`]: the queues in front of a link, and which frame leaves next.

use std::collections::VecDeque;

use candor_time::Nanos;
use candor_tte::{Link, Network, Relaying, Role, Traffic};
use candor_wire::eth::GAP_LEN;

use crate::event::Time;

/// The classes by the order in which their frames leave: time-triggered, rate-constrained, best-effort.
const CLASSES: usize = 3;
const SCHEDULED: usize = 0;
/// Frames that an end system keeps for each class.
const DEPTH_OF_END_SYSTEM: usize = 64;

/// What a port does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// Nothing: it sends already, or no frame waits.
    Idle,
    /// What waits would be in the way of a time-triggered frame: look again at this instant.
    Until(Time),
    /// It sends this frame, with this priority of the link.
    Sends { id: u32, priority: u8 },
}

/// The output of a node on a link.
pub(super) struct Port {
    /// The link.
    pub(super) link: usize,
    /// When it looks again, if that is planned.
    pub(super) unblock: Option<Time>,
    /// By class; one for all if the port knows no classes.
    waiting: Vec<VecDeque<u32>>,
    depth: usize,
    is_sending: bool,
    /// When the gap behind the last frame is over.
    free_at: Time,
    /// When time-triggered frames may leave, as the begin and the end of a span of the cycle, by their begin.
    reserved: Vec<(u64, u64)>,
}

impl Port {
    pub(super) fn new(network: &Network, node: usize, link: usize) -> Self {
        let (classes, depth, jitter) = match &network.nodes[node].role {
            Role::EndSystem(end_system) => (CLASSES, DEPTH_OF_END_SYSTEM, end_system.jitter),
            Role::Switch(switch) => match switch.relaying {
                Relaying::TimeTriggered(_) => (CLASSES, switch.depth, Nanos::ZERO),
                Relaying::StoreAndForward | Relaying::CutThrough => (1, switch.depth, Nanos::ZERO),
            },
        };
        let reserved =
            if classes == CLASSES { reserved(network, node, link, jitter) } else { Vec::new() };
        Self {
            link,
            unblock: None,
            waiting: vec![VecDeque::new(); classes],
            depth,
            is_sending: false,
            free_at: Time::ZERO,
            reserved,
        }
    }

    /// A frame waits. False if there is no room.
    pub(super) fn push(&mut self, traffic: Traffic, id: u32) -> bool {
        let class = match traffic {
            Traffic::TimeTriggered { .. } => SCHEDULED,
            Traffic::RateConstrained { .. } => 1,
            Traffic::BestEffort { .. } => 2,
        };
        let class = class.min(self.waiting.len() - 1);
        let has_room = self.waiting[class].len() < self.depth;
        if has_room {
            self.waiting[class].push_back(id);
        }
        has_room
    }

    /// A time-triggered frame leaves as soon as the link is free.
    pub(super) fn push_scheduled(&mut self, id: u32) {
        self.waiting[SCHEDULED].push_back(id);
    }

    /// The last bit of a frame has left.
    pub(super) fn sent(&mut self, now: Time, link: &Link) {
        self.is_sending = false;
        self.free_at = now + Nanos::from_nanos(link.speed.duration_ns(GAP_LEN));
    }

    /// Which frame leaves next; it is taken out of its queue. `occupation` says how long a frame occupies the link.
    pub(super) fn choose(
        &mut self,
        now: Time,
        cycle: Nanos,
        occupation: &dyn Fn(u32) -> Nanos,
    ) -> Busy {
        if self.is_sending {
            return Busy::Idle;
        }
        let class = self.waiting.iter().position(|waiting| !waiting.is_empty());
        let Some(class) = class else { return Busy::Idle };
        if class != SCHEDULED
            && let Some(&id) = self.waiting[class].front()
        {
            let start = now.max(self.free_at);
            if let Some(end) = self.in_the_way(start, occupation(id), cycle) {
                return Busy::Until(end);
            }
        }
        let Some(id) = self.waiting[class].pop_front() else { return Busy::Idle };
        self.is_sending = true;
        // Of priorities the greatest comes first.
        Busy::Sends { id, priority: 7 - class as u8 }
    }

    /// Whether a frame that begins at `start` would still occupy the link when a time-triggered one may leave:
    /// until when that may be.
    fn in_the_way(&self, start: Time, occupation: Nanos, cycle: Nanos) -> Option<Time> {
        if self.reserved.is_empty() {
            return None;
        }
        let (cycle, start_ns) = (cycle.as_nanos(), start.as_nanos());
        let into = start_ns % cycle;
        // A span may reach into the next cycle; and a frame, too.
        let first = self.reserved.partition_point(|&(begin, _)| begin <= into);
        let before = match first {
            0 => self.reserved.last().map(|&(begin, end)| (begin, end, true)),
            first => self.reserved.get(first - 1).map(|&(begin, end)| (begin, end, false)),
        };
        let end_ns = into + occupation.as_nanos();
        if let Some((_, end, is_of_last)) = before {
            let end = if is_of_last { end.saturating_sub(cycle) } else { end };
            if into < end {
                return Some(Time::from_nanos(start_ns + (end - into)));
            }
        }
        let next = match self.reserved.get(first) {
            Some(&(begin, end)) => (begin, end),
            None => self.reserved.first().map(|&(begin, end)| (begin + cycle, end + cycle))?,
        };
        (end_ns > next.0).then(|| Time::from_nanos(start_ns + (next.1 - into)))
    }
}

/// When time-triggered frames may leave a node over a link, as spans of the cycle.
fn reserved(network: &Network, node: usize, link: usize, jitter: Nanos) -> Vec<(u64, u64)> {
    let cycle = network.cycle.as_nanos();
    let preamble = network.links[link].preamble().as_nanos();
    let half = jitter.as_nanos() / 2;
    let mut spans = Vec::new();
    for flow in &network.flows {
        let Traffic::TimeTriggered { period, .. } = flow.traffic else { continue };
        for hop in flow.hops.iter().filter(|hop| (hop.from, hop.link) == (node, link)) {
            let at = hop.at.as_nanos() % period.as_nanos();
            for number in 0..cycle / period.as_nanos() {
                let begin = (at + number * period.as_nanos() + 2 * cycle - preamble - half) % cycle;
                // At the end itself the frame has left its buffer, if it was there.
                spans.push((begin, begin + 2 * half + 1));
            }
        }
    }
    spans.sort_unstable();
    spans
}

//! [`Port`]: the queues in front of a link, and which frame leaves next.

use std::collections::VecDeque;

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

/// What a port does next.
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
    /// When time-triggered frames may leave, as the begin and the end of a span of the cycle, by their begin.
    reserved: Vec<(u64, u64)>,
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
        let reserved =
            if classes == CLASSES { reserved(network, node, link, jitter) } else { Vec::new() };
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
    pub(crate) fn choose(
        &mut self,
        now: Nanos,
        cycle: Nanos,
        occupation: &dyn Fn(Waiting) -> Nanos,
    ) -> Next {
        let class = self.waiting.iter().position(|waiting| !waiting.is_empty());
        let Some(class) = class else { return Next::Nothing };
        if now < self.free_at {
            return Next::Later(self.free_at);
        }
        let Some(&frame) = self.waiting[class].front() else { return Next::Nothing };
        let occupation = occupation(frame);
        if class != SCHEDULED
            && let Some(end) = self.in_the_way(now, occupation, cycle)
        {
            return Next::Later(end);
        }
        self.waiting[class].pop_front();
        self.free_at = now + occupation;
        Next::Sends(frame)
    }

    /// Whether a frame that begins at `start` would still occupy the link when a time-triggered one may leave:
    /// until when that may be.
    fn in_the_way(&self, start: Nanos, occupation: Nanos, cycle: Nanos) -> Option<Nanos> {
        let (cycle, into) = (cycle.as_nanos(), start.as_nanos() % cycle.as_nanos());
        // A span may reach into the next cycle, and a frame, too.
        let first = self.reserved.partition_point(|&(begin, _)| begin <= into);
        let end_of_last = match first.checked_sub(1) {
            Some(last) => self.reserved[last].1,
            None => self.reserved.last()?.1.saturating_sub(cycle),
        };
        if into < end_of_last {
            return Some(start + Nanos::from_nanos(end_of_last - into));
        }
        let (begin, end) = match self.reserved.get(first) {
            Some(&span) => span,
            None => self.reserved.first().map(|&(begin, end)| (begin + cycle, end + cycle))?,
        };
        (into + occupation.as_nanos() > begin).then(|| start + Nanos::from_nanos(end - into))
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

//! What a schedule lets happen: when each frame leaves each node, and what that makes of each direction of a link.
//!
//! Everything is computed from what is given alone: the instant at which a flow is sent, wires, relay delays,
//! and sizes. [`Hop::at`](crate::Hop::at) is not used, so that it can be compared.

use candor_time::Nanos;

use crate::{Flow, Network, Relaying, Role, Traffic};

/// The frames of a direction in a cycle are listed up to this many.
pub const MOST_FRAMES: u64 = 1 << 18;

/// When the first bit of a time-triggered frame leaves a node over a hop, in ns from the begin of its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The instant of the schedule.
    pub at: i128,
    /// How far from it the frame leaves at the least; negative before it.
    pub least: i128,
    /// The same at the most; `None` behind an ordinary switch, where nothing bounds it.
    pub most: Option<i128>,
}

/// When the frames of a time-triggered flow leave over each of its hops, if relays are in time.
///
/// An end system sends within its jitter, a switch with a schedule at the instant. An ordinary switch sends as soon
/// as it can, and from there on the instant is a wish.
#[must_use]
pub fn departures(network: &Network, flow: &Flow) -> Vec<Departure> {
    let send = match flow.traffic {
        Traffic::TimeTriggered { send, .. } => ns(send),
        _ => 0,
    };
    let mut departures: Vec<Departure> = Vec::with_capacity(flow.hops.len());
    for hop in &flow.hops {
        let before = hop.before.map(|index| (&flow.hops[index], departures[index]));
        let at = before.map_or(send, |(before, departure)| {
            departure.at + ns(network.links[before.link].delay) + ns(hop.relay_delay)
        });
        let (least, most) = match (&network.nodes[hop.from].role, before) {
            (Role::EndSystem(end_system), _) => {
                let half = end_system.jitter.as_nanos() / 2;
                let rest = end_system.jitter.as_nanos() - half;
                (-i128::from(half), Some(i128::from(rest)))
            }
            (Role::Switch(switch), Some((before, departure))) => {
                let link = &network.links[before.link];
                let arrival = departure.at + departure.least + ns(link.delay);
                let preamble = ns(network.links[hop.link].preamble());
                let soonest = arrival + ns(switch.processing) + preamble;
                match switch.relaying {
                    Relaying::TimeTriggered(_) => (0, Some(0)),
                    Relaying::CutThrough => {
                        // On a faster link the last bit has to have come.
                        let out = network.links[hop.link].transmission(flow.size);
                        let wait = (ns(link.transmission(flow.size)) - ns(out)).max(0);
                        (soonest + wait - at, None)
                    }
                    Relaying::StoreAndForward => {
                        (soonest + ns(link.transmission(flow.size)) - at, None)
                    }
                }
            }
            (Role::Switch(_), None) => (0, None),
        };
        departures.push(Departure { at, least, most });
    }
    departures
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    pub link: usize,
    /// The node that sends.
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// The time-triggered flows whose instants hold here, in the order of the flows.
    pub slots: Vec<Slot>,
    /// How much of the time frames occupy it.
    pub load: Load,
}

/// A time-triggered flow on a direction: what it occupies in each period, from the preamble to the end of the gap, and
/// the jitter around that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub flow: usize,
    /// The distance of two frames.
    pub period: Nanos,
    /// The instant of the first bit, in the period.
    pub at: Nanos,
    /// How long before its instant the occupation begins: the preamble, and half of the jitter.
    pub lead: Nanos,
    /// How long it is occupied, jitter included.
    pub width: Nanos,
}

impl Slot {
    /// When the occupation begins, in the period.
    #[must_use]
    pub fn begin(&self) -> Nanos {
        let begin = (ns(self.at) - ns(self.lead)).rem_euclid(ns(self.period).max(1));
        Nanos::from_nanos(begin as u64)
    }
}

/// Parts of the time, 0 to 1 and above: what the frames of each class occupy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Time-triggered.
    pub tt: f64,
    /// Rate-constrained, if they come as often as they may.
    pub rc: f64,
    /// Best-effort.
    pub be: f64,
}

impl Load {
    /// All together.
    #[must_use]
    pub fn total(self) -> f64 {
        self.tt + self.rc + self.be
    }
}

/// A part of the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Its begin, in the cycle.
    pub begin: Nanos,
    /// Its end; it may be behind the end of the cycle.
    pub end: Nanos,
}

impl Direction {
    /// How many time-triggered frames are sent in a cycle.
    #[must_use]
    pub fn frames(&self, cycle: Nanos) -> u64 {
        let frames = |slot: &Slot| cycle.as_nanos() / slot.period.as_nanos().max(1);
        self.slots.iter().map(frames).fold(0, u64::saturating_add)
    }

    /// What each frame of the cycle occupies, by its begin; `None` if there are more than [`MOST_FRAMES`].
    #[must_use]
    pub fn occupied(&self, cycle: Nanos) -> Option<Vec<(Span, Slot)>> {
        if self.frames(cycle) > MOST_FRAMES {
            return None;
        }
        let mut spans = Vec::new();
        for &slot in &self.slots {
            for number in 0..cycle.as_nanos() / slot.period.as_nanos().max(1) {
                let begin = slot.begin() + slot.period * number;
                spans.push((Span { begin, end: begin + slot.width }, slot));
            }
        }
        spans.sort_by_key(|(span, _)| *span);
        Some(spans)
    }

    /// The longest part of the cycle that no time-triggered frame can occupy: the cycle if there is none, and
    /// `None` if there are more than [`MOST_FRAMES`].
    #[must_use]
    pub fn longest_gap(&self, cycle: Nanos) -> Option<Nanos> {
        let spans = self.occupied(cycle)?;
        let Some((first, _)) = spans.first() else { return Some(cycle) };
        // From the first begin, once around; what reaches over the end of the cycle covers its begin.
        let furthest = spans.iter().map(|(span, _)| span.end).max().unwrap_or_default();
        let mut free_from = furthest - cycle;
        let mut longest = Nanos::ZERO;
        for (span, _) in &spans[1..] {
            let before = free_from.max(first.end);
            longest = longest.max(span.begin - before);
            free_from = before.max(span.end);
        }
        Some(longest.max(first.begin + cycle - free_from.max(first.end)))
    }
}

/// All directions over which a flow goes, by link and sender.
#[must_use]
pub fn directions(network: &Network) -> Vec<Direction> {
    let mut index = vec![[usize::MAX; 2]; network.links.len()];
    let mut directions = Vec::new();
    for (number, flow) in network.flows.iter().enumerate() {
        let departures = flow.is_time_triggered().then(|| departures(network, flow));
        let first = flow.hops.first().map(|hop| network.links[hop.link].occupation(flow.size));
        for (hop_number, hop) in flow.hops.iter().enumerate() {
            let link = &network.links[hop.link];
            let place = &mut index[hop.link][usize::from(link.ends[0] != hop.from)];
            if *place == usize::MAX {
                *place = directions.len();
                let (link, from, to) = (hop.link, hop.from, hop.to);
                let load = Load::default();
                directions.push(Direction { link, from, to, slots: Vec::new(), load });
            }
            let direction = &mut directions[*place];
            let occupation = link.occupation(flow.size);
            let part = |of: Nanos| occupation.as_nanos() as f64 / of.as_nanos().max(1) as f64;
            match flow.traffic {
                Traffic::TimeTriggered { period, .. } => {
                    direction.load.tt += part(period);
                    let departure = departures.as_ref().map(|all| all[hop_number]);
                    direction.slots.extend(departure.and_then(|departure| {
                        let jitter = (departure.most? - departure.least) as u64;
                        let lead = link.preamble() + Nanos::from_nanos(-departure.least as u64);
                        let at = departure.at.rem_euclid(ns(period).max(1)) as u64;
                        Some(Slot {
                            flow: number,
                            period,
                            at: Nanos::from_nanos(at),
                            lead,
                            width: occupation + Nanos::from_nanos(jitter),
                        })
                    }));
                }
                Traffic::RateConstrained { gap, .. } => direction.load.rc += part(gap),
                Traffic::BestEffort { load } => {
                    direction.load.be += first.map_or(0.0, |first| load * part(first));
                }
            }
        }
    }
    directions.sort_by_key(|it| (it.link, network.links[it.link].ends[0] != it.from));
    directions
}

/// A duration for sums that may be negative.
pub(crate) fn ns(duration: Nanos) -> i128 {
    i128::from(duration.as_nanos())
}

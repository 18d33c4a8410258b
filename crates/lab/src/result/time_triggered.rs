//! What a result says of a flow of time-triggered frames.

use std::collections::BTreeMap;

use candor_tte::Network;
use candor_tte::schedule::{self, Slot, Span};
use serde::{Deserialize, Serialize};

use super::Figures;
use crate::machine::HostMachine;

/// A flow of time-triggered frames: what the schedule gives it, and what it got.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimeTriggeredFigures {
    /// The flow.
    pub flow: String,
    /// Who receives it.
    pub receiver: String,
    /// The size of its frames in bytes, with header and check sequence.
    pub size: u16,
    /// The distance of two frames.
    pub period_ns: u64,
    /// The sum of the relay delays, each from the first bit in to the first bit out.
    pub relay_delay_ns: u64,
    /// The latency that follows from the schedule.
    pub model_ns: u64,
    /// Equation 3 as it is printed; it differs from the model where there are several switches.
    pub equation_3_ns: u64,
    /// Where latencies begin: `frame` or `preamble`.
    pub framing: String,
    /// The precision that the network file states.
    pub precision_ns: u64,
    /// What was published for these conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_ns: Option<u64>,
    /// The largest latency less the smallest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
    /// Differences between the latencies of frames that follow one another, without their sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipdv: Option<Figures>,
    /// Frames that came half a period late or more: with the next cycle.
    pub late_cycle: u64,
    /// The largest difference between the clocks of two nodes in each integration cycle, over the cycles; absent if
    /// all clocks show the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_difference: Option<Figures>,
    /// How much of the time each link was occupied, in each direction; empty where nobody counts it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkLoad>,
    /// How long the schedule is.
    #[serde(default)]
    pub cycle_ns: u64,
    /// What time-triggered frames occupy in a cycle; empty if they are more than [`SCHEDULE_MOST`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<LinkSchedule>,
    /// What measured it, on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instrument: Option<Instrument>,
}

/// Frames of a schedule that a result lists at most.
pub const SCHEDULE_MOST: usize = 4_096;

/// One direction of a link in a cycle of the schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkSchedule {
    /// The link.
    pub link: String,
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Its time-triggered frames, in the order of time.
    pub frames: Vec<ScheduledFrame>,
}

/// A time-triggered frame in a cycle of the schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScheduledFrame {
    /// The flow.
    pub flow: String,
    /// When the link is occupied: from the preamble, and half of the jitter before it.
    pub begin_ns: u64,
    /// Until when: the gap behind the frame, and half of the jitter. It may be behind the end of the cycle.
    pub end_ns: u64,
}

impl LinkSchedule {
    /// The schedule of each direction that has one.
    #[must_use]
    pub fn of(network: &Network) -> Vec<Self> {
        let name = |node: usize| network.nodes[node].name.clone();
        let mut schedules = Vec::new();
        let mut count = 0;
        for direction in schedule::directions(network) {
            if direction.slots.is_empty() {
                continue;
            }
            count += direction.frames(network.cycle) as usize;
            let Some(occupied) =
                direction.occupied(network.cycle).filter(|_| count <= SCHEDULE_MOST)
            else {
                return Vec::new();
            };
            let frame = |(span, slot): (Span, Slot)| ScheduledFrame {
                flow: network.flows[slot.flow].name.clone(),
                begin_ns: span.begin.as_nanos(),
                end_ns: span.end.as_nanos(),
            };
            schedules.push(Self {
                link: network.links[direction.link].name.clone(),
                from: name(direction.from),
                to: name(direction.to),
                frames: occupied.into_iter().map(frame).collect(),
            });
        }
        schedules
    }
}

/// What measured time-triggered frames on this machine, and how well it could.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Instrument {
    /// By how much the stamps at both ends of a pair of interfaces differ without a switch: taken off each latency.
    pub bias_ns: u64,
    /// How long a frame takes from a program to its interface: by so much frames are handed over earlier.
    pub advance_ns: u64,
    /// Frames during which the thread that sent or relayed them was stopped for 20 us or more.
    pub marked: u64,
    /// Latencies of the others, by metric.
    pub unmarked: BTreeMap<String, Figures>,
    /// How often the thread that sends was stopped.
    pub send_stops: u64,
    /// For how long at most.
    pub send_longest_stop_ns: u64,
    /// How often a thread that relays was stopped.
    pub relay_stops: u64,
    /// For how long at most.
    pub relay_longest_stop_ns: u64,
    /// Frames without a stamp of the kernel at one end.
    pub unstamped: u64,
    /// Frames of other flows that switches relayed.
    pub others: u64,
    /// The machine.
    pub host: HostMachine,
}

/// How much of the time a link was occupied one way, preambles and gaps included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkLoad {
    /// Its name.
    pub link: String,
    /// The node that sends.
    pub from: String,
    /// In percent.
    pub load_percent: f64,
}

//! End systems in a [`World`]: when the frames of each flow go to their ports.

use candor_time::Nanos;
use candor_tte::{Flow, Traffic};

use super::{Copy, Event, Observer, World, earlier};
use crate::event::{Random, Time};

/// A flow at work.
pub(super) struct Sender {
    pub(super) random: Random,
    /// Frames sent.
    pub(super) sent: u64,
    /// When the next one is due; if it is time-triggered, by the clock of its sender.
    pub(super) due: Time,
    /// When it is handed to its port, by the same clock.
    pub(super) at: Nanos,
    /// When that is planned.
    pub(super) asked: Option<Time>,
}

impl World {
    /// Plans the first frame of each flow.
    pub(super) fn plan_flows(&mut self) {
        let start = Time::ZERO + self.network.cycle;
        for index in 0..self.network.flows.len() {
            let Flow { traffic, size, ref hops, is_control, .. } = self.network.flows[index];
            if is_control {
                continue;
            }
            let sender = &mut self.senders[index];
            sender.due = match traffic {
                Traffic::TimeTriggered { send, .. } => start + send,
                Traffic::RateConstrained { gap, .. } => {
                    Time::ZERO + sender.random.nanos(Nanos::ZERO, gap)
                }
                Traffic::BestEffort { load } if load > 0.0 => {
                    let first = self.network.links[hops[0].link].occupation(size);
                    Time::ZERO + sender.random.nanos(Nanos::ZERO, first)
                }
                Traffic::BestEffort { .. } => continue,
            };
            self.plan_dispatch(index);
        }
    }

    /// Plans when the next frame of a flow is handed to its port: when it is due, but for the preamble and the jitter.
    pub(super) fn plan_dispatch(&mut self, index: usize) {
        let flow = &self.network.flows[index];
        let Sender { random, due, at, .. } = &mut self.senders[index];
        *at = match flow.traffic {
            Traffic::TimeTriggered { .. } => {
                let jitter = self.network.nodes[flow.from].jitter();
                let half = Nanos::from_nanos(jitter.as_nanos() / 2);
                let late = match jitter {
                    Nanos::ZERO => Nanos::ZERO,
                    jitter => random.nanos(Nanos::ZERO, jitter),
                };
                earlier(*due + late, half + self.network.links[flow.hops[0].link].preamble())
            }
            _ => *due,
        } - Time::ZERO;
        self.ask_sender(index);
    }

    /// Plans when the next frame of a flow is handed to its port, by the clock of its sender as it runs now.
    pub(super) fn ask_sender(&mut self, index: usize) {
        let flow = &self.network.flows[index];
        let sender = &mut self.senders[index];
        let at = match flow.is_time_triggered() {
            true => self.clocks[flow.from].reaches(sender.at),
            false => Time::ZERO + sender.at,
        };
        let at = at.max(self.core.now());
        if sender.asked != Some(at) {
            sender.asked = Some(at);
            self.core.plan(at, Event::Dispatch(index as u32));
        }
    }

    /// Whether the next frame of a flow is handed to its port now. If not, it was planned before the clock changed.
    pub(super) fn is_asked(&mut self, index: usize) -> bool {
        let now = self.core.now();
        self.senders[index].asked.take_if(|asked| *asked == now).is_some()
    }

    /// An end system sends the next frame of a flow, over each link on which the flow begins.
    pub(super) fn dispatch(&mut self, index: usize, observer: &mut dyn Observer) {
        let Flow { traffic, size, from, ref hops, .. } = self.network.flows[index];
        let sender = &mut self.senders[index];
        let due = match traffic {
            Traffic::TimeTriggered { .. } => self.clocks[from].reaches(sender.due - Time::ZERO),
            _ => sender.due,
        };
        let copy = Copy {
            flow: index as u32,
            hop: 0,
            number: sender.sent,
            due,
            started: None,
            left: 1,
            control: None,
        };
        sender.sent += 1;
        sender.due = match traffic {
            Traffic::TimeTriggered { period, .. } => sender.due + period,
            // Counts only if this one never leaves.
            Traffic::RateConstrained { gap, .. } => sender.due + gap,
            Traffic::BestEffort { load } => {
                let busy = self.network.links[hops[0].link].occupation(size);
                let pause_ns = busy.as_nanos() as f64 * (1.0 - load) / load;
                sender.due + busy + sender.random.exponential(Nanos::from_nanos(pause_ns as u64))
            }
        };
        self.submit(index, copy, observer);
        // The gap of a rate-constrained flow begins when the frame leaves.
        if !matches!(traffic, Traffic::RateConstrained { .. }) {
            self.plan_dispatch(index);
        }
    }
}

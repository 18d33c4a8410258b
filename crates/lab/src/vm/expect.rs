//! What a gateway should make of a frame: the copies that the rules put on the target bus, by way of
//! virtual buses if they say so. What arrives is held against it, frame by frame.

use std::collections::VecDeque;

use candor_bed::order::Gateway;
use candor_route::counters::Outcome;
use candor_route::engine::{Engine, Forward, Passage};
use candor_route::{BusIndex, Table};
use candor_time::Nanos;
use candor_wire::Frame;

use crate::experiment::{Bus, Experiment};

/// Knows what should arrive.
pub(super) enum Expected<'a> {
    /// What was sent.
    Same,
    /// What the rules make of it.
    Rules(Box<Rules<'a>>),
    /// Nobody knows: the gateway is somebody's own.
    Unknown,
}

/// Rules that a gateway follows.
pub(super) struct Rules<'a> {
    table: &'a Table,
    engine: Engine,
    source: BusIndex,
    target: BusIndex,
}

impl<'a> Expected<'a> {
    pub(super) fn new(experiment: &'a Experiment, gateway: &Gateway) -> Self {
        match gateway {
            Gateway::None | Gateway::ReadWrite => Self::Same,
            Gateway::Command(_) => Self::Unknown,
            Gateway::Kernel | Gateway::Engine | Gateway::EngineFast | Gateway::Live { .. } => {
                let rules = experiment
                    .rules
                    .as_ref()
                    .and_then(|table| Rules::new(table, &experiment.buses));
                rules.map_or(Self::Unknown, |rules| Self::Rules(Box::new(rules)))
            }
        }
    }

    /// Whether `arrived` is what should become of `sent`.
    pub(super) fn holds(&mut self, sent: &Frame, arrived: &Frame) -> bool {
        match self {
            Self::Same => sent == arrived,
            Self::Rules(rules) => rules.copies(sent).contains(arrived),
            Self::Unknown => true,
        }
    }
}

impl<'a> Rules<'a> {
    fn new(table: &'a Table, buses: &[Bus]) -> Option<Self> {
        let [source, target] = buses else { return None };
        let (source, target) = (table.bus(&source.name)?, table.bus(&target.name)?);
        Some(Self { table, engine: Engine::new(table), source, target })
    }

    /// The copies that come out on the target bus.
    fn copies(&mut self, sent: &Frame) -> Vec<Frame> {
        let mut copies = Vec::new();
        let first = (self.source, *sent, Passage::received_on(self.source));
        let mut hops = VecDeque::from([first]);
        while let Some((bus, frame, passage)) = hops.pop_front() {
            self.engine.handle(Nanos::ZERO, bus, &frame, passage, &mut |copy: Forward<'_>| {
                let bus = self.table.buses.get(usize::from(copy.to.0));
                if bus.is_some_and(|bus| bus.is_virtual) {
                    // A virtual bus gives back what is sent with echo, and nothing else.
                    if copy.echo {
                        hops.push_back((copy.to, *copy.frame, copy.passage));
                    }
                } else if copy.to == self.target {
                    copies.push(*copy.frame);
                }
                Outcome::Handled
            });
        }
        copies
    }
}

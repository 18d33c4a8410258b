//! What a gateway should make of a frame: the copies that the rules put on the target bus, by way of
//! virtual buses if they say so, or why there are none. What arrives is held against it, frame by
//! frame.

use candor_causes::Cause;
use candor_engine::counters::Outcome;
use candor_engine::program::JobIndex;
use candor_engine::{BusIndex, Table};
use candor_engine::{Egress, Engine, Forward, Hops};
use candor_network::Bus;
use candor_protocol::order::Gateway;
use candor_time::Nanos;
use candor_wire::can::Frame;

use super::super::settings::CanGateway;

/// Knows what should arrive.
pub(super) enum Expected {
    /// What was sent.
    Same,
    Rules(Box<Rules>),
    /// Nobody knows: the gateway is somebody's own.
    Unknown,
}

/// Rules that a gateway follows.
pub(super) struct Rules {
    engine: Engine,
    hops: Hops,
    source: BusIndex,
    target: BusIndex,
    refuses_others: bool,
}

impl Expected {
    pub(super) fn new(can: &CanGateway, gateway: &Gateway) -> Self {
        match gateway {
            Gateway::None | Gateway::Reader | Gateway::ReadWrite => Self::Same,
            Gateway::Command(_) | Gateway::Slave => Self::Unknown,
            Gateway::Kernel | Gateway::Live { .. } | Gateway::CandorCan => {
                let rules = can.rules().and_then(|table| Rules::new(table, &can.network.buses));
                rules.map_or(Self::Unknown, |rules| Self::Rules(Box::new(rules)))
            }
        }
    }

    /// What should become of `sent`, which the gateway gets `now`. Frames are asked for in their
    /// order: rules remember them.
    pub(super) fn fate(&mut self, now: Nanos, sent: &Frame) -> Fate {
        match self {
            Self::Same => Fate { copies: Some(vec![*sent]), ..Fate::default() },
            Self::Rules(rules) => rules.fate(now, sent),
            Self::Unknown => Fate::default(),
        }
    }
}

/// What should become of a frame.
#[derive(Default)]
pub(super) struct Fate {
    /// The copies that come out on the target bus; `None` if nobody knows.
    copies: Option<Vec<Frame>>,
    /// What stops it, if no copy comes out.
    pub(super) stopped_by: Option<Cause>,
}

/// Causes that depend on the time at which a gateway has a frame, or on what went out before: here
/// both are known only about.
pub(super) const PACED: [Cause; 3] = [Cause::Rate, Cause::Sampled, Cause::Unchanged];

impl Fate {
    /// Whether the rules may have decided in another way than they do here.
    pub(super) fn is_paced(&self) -> bool {
        self.stopped_by.is_some_and(|cause| PACED.contains(&cause))
    }

    /// Whether `arrived` is what should become of the frame.
    pub(super) fn holds(&self, arrived: &Frame) -> bool {
        self.is_paced() || self.copies.as_ref().is_none_or(|copies| copies.contains(arrived))
    }
}

impl Rules {
    fn new(table: &Table, buses: &[Bus]) -> Option<Self> {
        let [source, target] = buses else { return None };
        let (source, target) = (table.bus(&source.name)?, table.bus(&target.name)?);
        let (engine, hops) = (Engine::new(table), Hops::default());
        Some(Self { engine, hops, source, target, refuses_others: table.refuses_others })
    }

    fn fate(&mut self, now: Nanos, sent: &Frame) -> Fate {
        let mut way =
            Way { target: self.target, copies: Vec::new(), refused: None, is_matched: false };
        self.engine.follow(now, self.source, sent, &mut self.hops, &mut way);
        let no_rule = match (way.is_matched, self.refuses_others) {
            (true, _) => Cause::NoFurtherRule,
            (false, true) => Cause::NotAllowed,
            (false, false) => Cause::NoRule,
        };
        let stopped_by = match way.copies.is_empty() {
            true => Some(way.refused.unwrap_or(no_rule)),
            false => None,
        };
        Fate { copies: Some(way.copies), stopped_by }
    }
}

/// Follows a frame through the rules.
struct Way {
    target: BusIndex,
    copies: Vec<Frame>,
    refused: Option<Cause>,
    is_matched: bool,
}

impl Egress for Way {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        self.is_matched = true;
        if copy.to == self.target {
            self.copies.push(*copy.frame);
        }
        Outcome::Handled
    }

    fn refused(&mut self, _: JobIndex, cause: Cause) {
        self.is_matched = true;
        self.refused.get_or_insert(cause);
    }
}

//! [`FlowForwarder`]: a gateway that forwards as much as its rules may.
//!
//! What becomes of a frame may depend on its data and on time: conditions on data, signals that may be out of
//! range, `rate`, `every`, `on_change`. Rules forward as if all of that let each frame pass. What depends on
//! the identifier, the length and the kind of the frame stays as it is: these are known.

use candor_causes::Cause;
use candor_engine::counters::Outcome;
use candor_engine::extension::action::{Place, Signal};
use candor_engine::extension::payload::Bytes;
use candor_engine::extension::{Action, Pace};
use candor_engine::{BusIndex, Engine, Forward, Hops, Rule, Table};
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::{Gateway, Network};

/// A frame that a gateway sends on a bus of the network.
pub(super) struct Copy {
    /// The index of the bus.
    pub(super) bus: usize,
    pub(super) frame: Frame,
    /// The index of the rule that sends it.
    pub(super) rule: usize,
}

/// A gateway's engine, and which bus of the network each of its buses is.
pub(super) struct FlowForwarder {
    engine: Engine,
    hops: Hops,
    /// By bus of the gateway; `None` for those inside of it.
    buses: Vec<Option<usize>>,
}

impl FlowForwarder {
    pub(super) fn new(network: &Network, gateway: &Gateway) -> Self {
        let mut table: Table = gateway.rules.clone();
        table.rules.iter_mut().for_each(forward_the_most);
        let buses = table.buses.iter().map(|bus| network.bus(&bus.name)).collect();
        Self { engine: Engine::new(&table), hops: Hops::default(), buses }
    }

    /// The copies of a frame that came from a bus of the network. Each, also one that stays inside of the
    /// gateway, is taken off `budget`; if that is not enough, the rule that makes one more is the error.
    pub(super) fn copies(
        &mut self,
        bus: usize,
        frame: &Frame,
        budget: &mut usize,
    ) -> Result<Vec<Copy>, usize> {
        let mut copies = Vec::new();
        let own = (0..).map(BusIndex).zip(&self.buses).find(|(_, place)| **place == Some(bus));
        let Some((own, _)) = own else { return Ok(copies) };
        let Self { engine, hops, buses } = self;
        let mut one_more = None;
        // The limit of hops ends this.
        engine.follow(Nanos::ZERO, own, frame, hops, &mut |copy: Forward<'_>| {
            let rule = copy.found.rule() as usize;
            let Some(left) = budget.checked_sub(1) else {
                one_more.get_or_insert(rule);
                return Outcome::Refused(Cause::QueueFull);
            };
            *budget = left;
            if let Some(Some(bus)) = buses.get(usize::from(copy.to.0)).copied() {
                copies.push(Copy { bus, frame: *copy.frame, rule });
            }
            Outcome::Handled
        });
        one_more.map_or(Ok(copies), Err)
    }
}

/// Lets a rule forward every frame that it may forward with some data at some time.
fn forward_the_most(rule: &mut Rule) {
    let extension = &mut rule.extension;
    extension.pace = Pace::default();
    // Data that a frame has no room for are not in it.
    for bytes in &mut extension.payload.data {
        *bytes = Bytes { len: bytes.len, ..Bytes::new(&[]) };
    }
    extension.payload.not_data.clear();
    for action in &mut extension.actions {
        if let Action::Signal(signal) = action {
            **signal = in_range(signal);
        }
    }
}

/// A signal of the same bits that is in range whatever they are.
fn in_range(signal: &Signal) -> Signal {
    let place = |place: &Place| Place { scale: 1.0, offset: 0.0, range: None, ..place.clone() };
    let (from, to) = (place(&signal.from), place(&signal.to));
    let zero = Signal::new(from, signal.of_received, 0.0, 0.0, None, to);
    zero.unwrap_or_else(|_| signal.clone())
}

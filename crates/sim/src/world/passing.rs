//! What all hosts do with a frame: they ask their gateway, make copies, and put them into controllers.

use candor_causes::Cause;

use super::World;
use crate::can::Offer;
use crate::flight::{Flight, FlightId, Leg, PassageTag};
use crate::host::{Copy, Decision, Gateway, Settled};
use crate::medium::{ControllerId, FrameId, Medium};
use crate::record::Observer;
use crate::sender::Source;

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    /// Asks the gateway about a received frame.
    pub(super) fn decide(&mut self, host: u32, port: u32, id: FlightId, decision: &mut Decision) {
        decision.copies.clear();
        decision.refused.clear();
        decision.walk = crate::host::Walk::default();
        let flight = &self.flights[id];
        let passage = match flight.leg {
            Leg::Received { passage } => passage,
            Leg::Sent | Leg::Forwarded { .. } => PassageTag { origin: port, hops: 0 },
        };
        let now = self.now();
        self.hosts[host as usize].gateway.decide(now, port, &flight.frame, passage, decision);
    }

    /// A copy of a received frame begins its way out.
    pub(super) fn fork(&mut self, id: FlightId, copy: &Copy) -> FlightId {
        let forked = self.flights.duplicate(id);
        let flight = &mut self.flights[forked];
        flight.rewrite(&copy.frame);
        flight.leg = Leg::Forwarded {
            port: copy.port,
            job: copy.job,
            passage: copy.passage,
            echo: copy.echo,
        };
        forked
    }

    /// A received frame has been decided about: it ends, its copies live on.
    pub(super) fn end_received(
        &mut self,
        id: FlightId,
        decision: &Decision,
        observer: &mut impl Observer,
    ) {
        if decision.copies.is_empty() && decision.refused.is_empty() {
            let is_fresh =
                matches!(self.flights[id].leg, Leg::Received { passage } if passage.hops == 0);
            let cause = if is_fresh { Cause::NoRule } else { Cause::NoFurtherRule };
            return self.refuse(id, cause, observer);
        }
        for &(job, cause) in &decision.refused {
            let refused = self.flights.duplicate(id);
            self.flights[refused].leg =
                Leg::Forwarded { port: 0, job, passage: PassageTag::default(), echo: false };
            self.refuse(refused, cause, observer);
        }
        self.flights.remove(id);
    }

    pub(super) fn refuse_copy(
        &mut self,
        host: u32,
        job: u32,
        id: FlightId,
        cause: Cause,
        observer: &mut impl Observer,
    ) {
        self.hosts[host as usize].gateway.settle(job, Settled::Refused(cause));
        self.refuse(id, cause, observer);
    }

    /// Whether a controller's bus does not carry this kind of frame.
    pub(super) fn is_unsupported(&self, controller: ControllerId, id: FlightId) -> bool {
        let flight = &self.flights[id];
        self.can.carries(controller, &flight.frame, flight.length).is_err()
    }

    /// Puts a frame into the transmit queue of a controller.
    pub(super) fn offer(&mut self, controller: ControllerId, id: FlightId) -> Result<(), Cause> {
        let Flight { frame, length, .. } = &self.flights[id];
        let offer = Offer { id: FrameId(id), frame, length: *length };
        self.can.offer(&mut self.core, controller, offer)
    }
}

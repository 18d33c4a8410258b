//! Hosts of constant delay.

use candor_causes::Cause;
use candor_lat::Tap;

use super::World;
use super::event::Event;
use crate::flight::{FlightId, Leg};
use crate::host::{Gateway, HostKind, Settled};
use crate::record::Observer;
use crate::sender::Source;

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    /// Decides at once; the copies follow after the delay.
    pub(super) fn pass(
        &mut self,
        host: u32,
        port: u32,
        id: FlightId,
        observer: &mut impl Observer,
    ) {
        let HostKind::Constant(delay) = self.hosts[host as usize].kind else { return };
        let now = self.core.now().as_nanos();
        self.flights[id].taps.set(Tap::Read, now);
        let mut decision = std::mem::take(&mut self.hosts[host as usize].scratch);
        self.decide(host, port, id, &mut decision);
        self.flights[id].taps.set(Tap::Decided, now);
        for copy in &decision.copies {
            let flight = self.fork(id, copy);
            self.core.plan(self.core.now() + delay, Event::Emit(host, flight));
        }
        self.end_received(id, &decision, observer);
        self.hosts[host as usize].scratch = decision;
    }

    /// A copy leaves a host of constant delay.
    pub(super) fn emit(&mut self, host: u32, id: FlightId, observer: &mut impl Observer) {
        let Leg::Forwarded { port, job, .. } = self.flights[id].leg else { return };
        let now = self.core.now().as_nanos();
        self.flights[id].taps.set(Tap::Enqueued, now);
        let controller = self.hosts[host as usize].ports[port as usize].controller;
        // Nothing comes back from a virtual port without a kernel behind it.
        let able = controller.filter(|&controller| !self.is_unsupported(controller, id));
        let Some(controller) = able else {
            self.refuse_copy(host, job, id, Cause::Unsupported, observer);
            return;
        };
        self.flights[id].taps.set(Tap::Loaded, now);
        match self.offer(controller, id) {
            Ok(()) => self.hosts[host as usize].gateway.settle(job, Settled::Handled),
            Err(cause) => self.refuse_copy(host, job, id, cause, observer),
        }
    }
}

//! Arbitration, transmission, errors.

use candor_lat::Tap;
use candor_time::Nanos;

use super::World;
use crate::bus::{RECOVERY_BITS, SUSPEND_BITS, Transmission};
use crate::controller::{ErrorState, Owner};
use crate::event::Event;
use crate::flight::{Flight, FlightId, Leg, PassageTag};
use crate::host::{Gateway, HostKind};
use crate::record::{Fate, Observer};
use crate::sender::Drive;

impl<G: Gateway> World<G> {
    /// Somebody on `bus` has a frame: plans the next arbitration, unless it is planned already or
    /// a frame is on the wire.
    pub(super) fn call(&mut self, bus: u32) {
        let now = self.now;
        let bus_ref = &mut self.buses[bus as usize];
        if bus_ref.on_wire.is_none() && !bus_ref.is_called {
            bus_ref.is_called = true;
            self.events.plan(bus_ref.idle_at.max(now), Event::Arbitrate(bus));
        }
    }

    /// The frame with the smallest arbitration key goes on the wire.
    pub(super) fn arbitrate(&mut self, bus: u32) {
        let bus_ref = &mut self.buses[bus as usize];
        bus_ref.is_called = false;
        debug_assert!(bus_ref.on_wire.is_none());
        let mut winner: Option<(u32, u32)> = None;
        for &controller in &bus_ref.controllers {
            if let Some(key) = self.controllers[controller as usize].offer() {
                match winner {
                    Some((best, _)) if best < key => {}
                    Some((best, _)) if best == key => bus_ref.statistics.id_collisions += 1,
                    _ => winner = Some((key, controller)),
                }
            }
        }
        let Some((_, controller)) = winner else { return };
        let Some(id) = self.controllers[controller as usize].start() else { return };
        let flight = &mut self.flights[id];
        let start = match flight.leg {
            Leg::Sent => Tap::SourceStart,
            Leg::Received { .. } | Leg::Forwarded { .. } => Tap::TargetStart,
        };
        flight.taps.set(start, self.now.as_nanos());
        let length = flight.length;
        let error = bus_ref.draw_error(length, self.controllers[controller as usize].fault_rate);
        let taken = match error {
            None => bus_ref.transmission(length),
            Some(at) => bus_ref.destroyed_for(length, at),
        };
        bus_ref.on_wire =
            Some(Transmission { controller, start: self.now, destroyed: error.is_some() });
        self.events.plan(self.now + taken, Event::End(bus));
    }

    /// The frame or the error frame on the wire is over.
    pub(super) fn end(&mut self, bus: u32, observer: &mut impl Observer) {
        let now = self.now;
        let bus_ref = &mut self.buses[bus as usize];
        let Some(Transmission { controller, start, destroyed }) = bus_ref.on_wire.take() else {
            return;
        };
        let intermission = bus_ref.bits(candor_wire::bits::INTERMISSION_BITS);
        if destroyed {
            // The error frame's own intermission is within.
            bus_ref.idle_at = now;
            bus_ref.statistics.error_frames += 1;
            bus_ref.statistics.busy += now - start;
            self.moved_at = now;
            self.destroyed(bus, controller);
        } else {
            bus_ref.idle_at = now + intermission;
            bus_ref.statistics.frames += 1;
            bus_ref.statistics.busy += now - start + intermission;
            self.transmitted(bus, controller, observer);
        }
        if self.controllers[controller as usize].state() == ErrorState::Passive {
            // Suspend transmission, granted to everybody here: a lone passive sender waits.
            let suspend = self.buses[bus as usize].bits(SUSPEND_BITS);
            self.buses[bus as usize].idle_at += suspend;
        }
        self.call(bus);
    }

    fn destroyed(&mut self, bus: u32, sender: u32) {
        let bus_ref = &mut self.buses[bus as usize];
        for &controller in &bus_ref.controllers {
            if controller != sender {
                self.controllers[controller as usize].receive_error();
            }
        }
        if self.controllers[sender as usize].transmit_error() {
            bus_ref.statistics.bus_offs += 1;
            if let Some(restart) = bus_ref.config.restart {
                let at = self.now + restart + bus_ref.bits(RECOVERY_BITS);
                self.events.plan(at, Event::Recover(sender));
            }
        }
    }

    pub(super) fn recover(&mut self, controller: u32) {
        self.controllers[controller as usize].recover();
        self.call(self.controllers[controller as usize].bus);
    }

    fn transmitted(&mut self, bus: u32, sender: u32, observer: &mut impl Observer) {
        let Some(id) = self.controllers[sender as usize].transmit_success() else { return };
        self.moved_at = self.now;
        let is_own = matches!(self.controllers[sender as usize].owner, Owner::Sender(_));
        let stamp = match &mut self.instrument {
            None => self.now,
            Some(instrument) if is_own => {
                instrument.monitor(self.now, self.controllers[sender as usize].queue.len() > 0)
            }
            Some(instrument) => instrument.receive(self.now),
        };
        let transmission = self.buses[bus as usize].transmission(self.flights[id].length);

        // Receivers, before the sender goes on: everything at this instant sees the same frame.
        let mut heard = false;
        for index in 0..self.buses[bus as usize].controllers.len() {
            let controller = self.buses[bus as usize].controllers[index];
            if controller == sender {
                continue;
            }
            self.controllers[controller as usize].receive_success();
            if let Owner::Host(host, port) = self.controllers[controller as usize].owner
                && !self.is_of_host(sender, host)
            {
                heard = true;
                let mut flight = self.received(id, port);
                flight.taps.set(Tap::SourceEnd, stamp.as_nanos());
                let copy = self.flights.insert(flight);
                self.receive(host, port, controller, copy, observer);
            }
        }

        let leg = self.flights[id].leg;
        match leg {
            Leg::Forwarded { .. } => {
                self.flights[id].taps.set(Tap::TargetEnd, stamp.as_nanos());
                self.finish(id, Fate::Forwarded, transmission.as_nanos(), observer);
            }
            Leg::Sent | Leg::Received { .. } if heard => self.flights.remove(id),
            Leg::Sent | Leg::Received { .. } => {
                self.flights[id].taps.set(Tap::SourceEnd, stamp.as_nanos());
                self.finish(id, Fate::Delivered, transmission.as_nanos(), observer);
            }
        }

        match self.controllers[sender as usize].owner {
            Owner::Sender(index) => {
                let reload = self.senders[index as usize].reload;
                if reload > Nanos::ZERO {
                    self.controllers[sender as usize].is_reloading = true;
                    self.events.plan(self.now + reload, Event::Reloaded(sender));
                }
                if self.senders[index as usize].drive == Drive::Flood {
                    self.release(index, observer);
                }
            }
            Owner::Host(host, port) => self.left_linux(host, port),
            Owner::Listener => {}
        }
    }

    pub(super) fn reloaded(&mut self, controller: u32) {
        self.controllers[controller as usize].is_reloading = false;
        self.call(self.controllers[controller as usize].bus);
    }

    fn is_of_host(&self, controller: u32, host: u32) -> bool {
        matches!(self.controllers[controller as usize].owner, Owner::Host(owner, _) if owner == host)
    }

    /// The copy of a frame on the wire that a host receives. What came from another gateway begins
    /// a new measurement, with the bus it was heard on as its source.
    fn received(&self, id: FlightId, port: u32) -> Flight {
        let mut flight = self.flights[id].clone();
        if let (Leg::Forwarded { .. }, Some(start)) = (flight.leg, flight.taps.at(Tap::TargetStart))
        {
            let queued = flight.taps.at(Tap::Enqueued).unwrap_or(start);
            flight.taps =
                candor_lat::Taps::default().with(Tap::Queued, queued).with(Tap::SourceStart, start);
        }
        flight.leg = Leg::Received { passage: PassageTag { origin: port, hops: 0 } };
        flight
    }

    /// A host's controller receives a frame.
    fn receive(
        &mut self,
        host: u32,
        port: u32,
        controller: u32,
        flight: FlightId,
        observer: &mut impl Observer,
    ) {
        match self.hosts[host as usize].kind {
            HostKind::Constant(_) => self.pass(host, port, flight, observer),
            HostKind::Linux(_) => {
                self.receive_linux(host, port, controller, flight, observer);
            }
        }
    }
}

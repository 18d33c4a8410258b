//! Arbitration, transmission, errors.

use candor_causes::Cause;
use candor_lat::{Tap, TapPath, Taps};
use candor_time::Nanos;
use candor_wire::can::bits::{INTERMISSION_BITS, Length};

use super::World;
use super::event::Event;
use crate::bus::{ERROR_TAIL_BITS, FRAME_TAIL_BITS, SUSPEND_BITS, Transmission};
use crate::controller::{ErrorState, Owner};
use crate::event::Time;
use crate::flight::{Flight, FlightId, Leg, PassageTag};
use crate::host::{Gateway, HostKind};
use crate::record::{Fate, Observer};
use crate::sender::{Drive, Source};

/// A frame whose transmission begins.
pub(super) struct Begun {
    pub(super) sender: u32,
    /// Those that send the very same bits at the same time.
    pub(super) also: Vec<u32>,
    pub(super) length: Length,
    /// The bit at which it is destroyed.
    pub(super) error: Option<u32>,
}

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    /// A controller has a frame: plans the next arbitration, unless one is planned that comes as
    /// early, or a frame is on the wire.
    pub(super) fn call(&mut self, controller: u32) {
        let controller = &self.controllers[controller as usize];
        let bus = &mut self.buses[controller.bus as usize];
        if bus.on_wire.is_some() || controller.offer().is_none() {
            return;
        }
        let at = bus.idle_at.max(controller.suspended_until).max(self.core.now());
        if bus.arbitration.is_none_or(|planned| at < planned) {
            bus.arbitration = Some(at);
            self.core.plan(at, Event::Arbitrate(controller.bus));
        }
    }

    fn call_all(&mut self, bus: u32) {
        for index in 0..self.buses[bus as usize].controllers.len() {
            self.call(self.buses[bus as usize].controllers[index]);
        }
    }

    /// The frame with the smallest arbitration key goes on the wire.
    pub(super) fn arbitrate(&mut self, bus: u32) {
        let now = self.core.now();
        let bus_ref = &mut self.buses[bus as usize];
        if bus_ref.on_wire.is_some() || bus_ref.arbitration.take_if(|at| *at == now).is_none() {
            // An earlier one came between.
            return;
        }
        let mut winner: Option<(u32, u32)> = None;
        let mut is_alone = true;
        for &controller in &bus_ref.controllers {
            let controller_ref = &self.controllers[controller as usize];
            let Some(key) =
                controller_ref.offer().filter(|_| controller_ref.suspended_until <= now)
            else {
                continue;
            };
            match winner {
                Some((best, _)) if best < key => {}
                Some((best, _)) if best == key => is_alone = false,
                _ => (winner, is_alone) = (Some((key, controller)), true),
            }
        }
        let Some((key, sender)) = winner else {
            // Only nodes that must wait a while longer.
            return self.call_all(bus);
        };
        self.end_silence(bus);
        let Some(length) = self.start(sender) else { return };
        let fault_rate = self.controllers[sender as usize].fault_rate;
        let error = self.buses[bus as usize].draw_error(length, fault_rate);
        let begun = Begun { sender, also: Vec::new(), length, error };
        let begun = if is_alone { begun } else { self.collide(bus, key, begun) };
        self.occupy(bus, begun);
    }

    /// A controller takes its frame onto the wire; the length of the frame.
    pub(super) fn start(&mut self, controller: u32) -> Option<Length> {
        let id = self.controllers[controller as usize].start()?;
        let flight = &mut self.flights[id];
        let start = match flight.leg {
            Leg::Sent => Tap::SourceStart,
            Leg::Received { .. } | Leg::Forwarded { .. } => Tap::TargetStart,
        };
        flight.taps.set(start, self.core.now().as_nanos());
        Some(flight.length)
    }

    fn occupy(&mut self, bus: u32, begun: Begun) {
        let Begun { sender, also, length, error } = begun;
        let start = self.core.now();
        let bus_ref = &mut self.buses[bus as usize];
        let (flagged, taken) = match error {
            None => (None, bus_ref.transmission(length)),
            Some(at) => {
                let flagged = bus_ref.flagged_after(length, at);
                (Some(flagged), flagged + bus_ref.error_frame())
            }
        };
        let flagged_at = flagged.map(|flagged| start + flagged);
        bus_ref.on_wire = Some(Transmission { sender, also, start, flagged_at });
        self.core.plan(start + taken, Event::End(bus));
    }

    /// The frame or the error frame on the wire is over.
    pub(super) fn end(&mut self, bus: u32, observer: &mut impl Observer) {
        let now = self.core.now();
        let bus_ref = &mut self.buses[bus as usize];
        let Some(Transmission { sender, also, start, flagged_at }) = bus_ref.on_wire.take() else {
            return;
        };
        // The intermission of an error frame is within.
        let (pause, tail) = match flagged_at {
            Some(_) => (Nanos::ZERO, bus_ref.bits(ERROR_TAIL_BITS)),
            None => (bus_ref.bits(INTERMISSION_BITS), bus_ref.bits(FRAME_TAIL_BITS)),
        };
        bus_ref.idle_at = now + pause;
        bus_ref.recessive_since = Time::from_nanos(now.as_nanos() - tail.as_nanos());
        bus_ref.statistics.busy += now - start + pause;
        self.moved_at = now;
        let mut senders = std::mem::take(&mut self.ended);
        senders.clear();
        senders.push(sender);
        senders.extend(also);
        match flagged_at {
            Some(flagged_at) => {
                bus_ref.statistics.error_frames += 1;
                self.destroyed(bus, &senders, flagged_at);
            }
            None => {
                bus_ref.statistics.frames += 1;
                self.transmitted(bus, &senders, observer);
            }
        }
        let bus_ref = &self.buses[bus as usize];
        let suspended_until = bus_ref.idle_at + bus_ref.bits(SUSPEND_BITS);
        for &sender in &senders {
            let controller = &mut self.controllers[sender as usize];
            if controller.state() == ErrorState::Passive {
                controller.suspended_until = suspended_until;
            }
        }
        self.ended = senders;
        self.begin_silence(bus);
        self.call_all(bus);
    }

    /// `senders` sent the same frame: the first one's goes on, the others' were part of it.
    fn transmitted(&mut self, bus: u32, senders: &[u32], observer: &mut impl Observer) {
        let Some((&sender, others)) = senders.split_first() else { return };
        let Some(id) = self.controllers[sender as usize].transmit_success() else { return };
        let is_own = matches!(self.controllers[sender as usize].owner, Owner::Sender(_));
        let stamp = match &mut self.instrument {
            None => self.core.now(),
            Some(instrument) if is_own => instrument
                .monitor(self.core.now(), self.controllers[sender as usize].queue.len() > 0),
            Some(instrument) => instrument.receive(self.core.now()),
        };
        let transmission = self.buses[bus as usize].transmission(self.flights[id].length);

        // Receivers, before the sender goes on: everything at this instant sees the same frame.
        let mut heard = false;
        for index in 0..self.buses[bus as usize].controllers.len() {
            let controller = self.buses[bus as usize].controllers[index];
            if senders.contains(&controller) {
                self.own_frame(controller, id);
                continue;
            }
            let is_off = self.controllers[controller as usize].bus_off.is_some();
            if !is_off {
                self.controllers[controller as usize].receive_success();
            }
            let owner = self.controllers[controller as usize].owner;
            if let Owner::Program { node, .. } = owner
                && !is_off
            {
                self.port_nodes[node as usize].arrive(
                    &self.flights[id].frame,
                    self.core.now(),
                    false,
                );
            }
            if let Owner::Host(host, port) = owner
                && !self.is_of_host(sender, host)
            {
                heard = true;
                let mut flight = self.received(id, port);
                flight.taps.set(Tap::SourceEnd, stamp.as_nanos());
                let copy = self.flights.insert(flight);
                if is_off {
                    self.refuse(copy, Cause::BusOff, observer);
                    continue;
                }
                self.receive(host, port, copy, observer);
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

        self.left(sender, observer);
        for &other in others {
            if let Some(id) = self.controllers[other as usize].transmit_success() {
                self.refuse(id, Cause::Merged, observer);
                self.left(other, observer);
            }
        }
    }

    /// A frame has left a controller: its driver goes on.
    fn left(&mut self, sender: u32, observer: &mut impl Observer) {
        match self.controllers[sender as usize].owner {
            Owner::Sender(index) | Owner::Program { sender: index, .. } => {
                let reload = self.senders[index as usize].reload;
                if reload > Nanos::ZERO {
                    self.controllers[sender as usize].is_reloading = true;
                    self.core.plan(self.core.now() + reload, Event::Reloaded(sender));
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
        self.call(controller);
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
            flight.taps = Taps::new(TapPath::CAN_GATEWAY)
                .with(Tap::Queued, queued)
                .with(Tap::SourceStart, start);
        }
        flight.leg = Leg::Received { passage: PassageTag { origin: port, hops: 0 } };
        flight
    }

    /// A host's controller receives a frame.
    fn receive(&mut self, host: u32, port: u32, flight: FlightId, observer: &mut impl Observer) {
        match self.hosts[host as usize].kind {
            HostKind::Constant(_) => self.pass(host, port, flight, observer),
            HostKind::Linux(_) => self.receive_linux(host, port, flight, observer),
        }
    }
}

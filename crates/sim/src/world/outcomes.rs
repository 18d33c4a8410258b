//! What hosts, senders and programs do about the outcomes of buses.

use candor_causes::Cause;
use candor_lat::{Tap, TapPath, Taps};

use super::{Owner, World};
use crate::event::Time;
use crate::flight::{FlightId, Leg, PassageTag};
use crate::host::{Gateway, HostKind};
use crate::medium::{ControllerId, Outcome};
use crate::record::{Fate, Observer};
use crate::sender::{Drive, Source};

/// What its receivers made of a frame that its sender has yet to be told about.
#[derive(Default)]
struct Hearing {
    /// The stamp that the instrument gave it.
    stamp: Option<Time>,
    /// Whether a host received it: its copies live on then.
    is_heard: bool,
}

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    /// What follows from one event of the buses, in its order.
    pub(super) fn follow_buses(&mut self, observer: &mut impl Observer) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let mut hearing = Hearing::default();
        for &outcome in &outcomes {
            match outcome {
                Outcome::Started { frame, .. } => self.started(frame.0),
                Outcome::Failed { .. } => self.moved_at = self.core.now(),
                Outcome::Received { at, from, frame } => {
                    self.received(at, from, frame.0, &mut hearing, observer);
                }
                Outcome::Missed { at, from, frame, cause } => {
                    self.missed(at, from, frame.0, cause, &mut hearing, observer);
                }
                Outcome::Sent { at, frame } => {
                    self.sent(at, frame.0, std::mem::take(&mut hearing), observer);
                    self.left(at, observer);
                }
                Outcome::Refused { at, frame, cause } => {
                    self.own_frame(at, frame.0);
                    self.refuse(frame.0, cause, observer);
                    self.left(at, observer);
                }
            }
        }
        outcomes.clear();
        self.outcomes = outcomes;
    }

    fn started(&mut self, id: FlightId) {
        let flight = &mut self.flights[id];
        let start = match flight.leg {
            Leg::Sent => Tap::SourceStart,
            Leg::Received { .. } | Leg::Forwarded { .. } => Tap::TargetStart,
        };
        flight.taps.set(start, self.core.now().as_nanos());
    }

    fn received(
        &mut self,
        at: ControllerId,
        from: ControllerId,
        id: FlightId,
        hearing: &mut Hearing,
        observer: &mut impl Observer,
    ) {
        match self.owner(at) {
            Owner::Program { node, .. } => {
                let now = self.core.now();
                self.port_nodes[node as usize].arrive(&self.flights[id].frame, now, false);
            }
            Owner::Host(host, port) => {
                let Some(copy) = self.copy_at(host, port, from, id, hearing) else { return };
                match self.hosts[host as usize].kind {
                    HostKind::Constant(_) => self.pass(host, port, copy, observer),
                    HostKind::Linux(_) => self.receive_linux(host, port, copy, observer),
                }
            }
            Owner::Sender(_) | Owner::Listener => {}
        }
    }

    /// A controller could not receive a frame: a host does not get it.
    fn missed(
        &mut self,
        at: ControllerId,
        from: ControllerId,
        id: FlightId,
        cause: Cause,
        hearing: &mut Hearing,
        observer: &mut impl Observer,
    ) {
        if let Owner::Host(host, port) = self.owner(at)
            && let Some(copy) = self.copy_at(host, port, from, id, hearing)
        {
            self.refuse(copy, cause, observer);
        }
    }

    /// The copy of a frame that a host receives on a port; none of what it sent itself.
    fn copy_at(
        &mut self,
        host: u32,
        port: u32,
        from: ControllerId,
        id: FlightId,
        hearing: &mut Hearing,
    ) -> Option<FlightId> {
        if matches!(self.owner(from), Owner::Host(sender, _) if sender == host) {
            return None;
        }
        hearing.is_heard = true;
        let stamp = self.stamp(from, hearing);
        let copy = self.copy_for(id, port);
        self.flights[copy].taps.set(Tap::SourceEnd, stamp.as_nanos());
        Some(copy)
    }

    /// The stamp of a frame that ends now, the same for all that receive it.
    fn stamp(&mut self, from: ControllerId, hearing: &mut Hearing) -> Time {
        let now = self.core.now();
        *hearing.stamp.get_or_insert_with(|| match &mut self.instrument {
            None => now,
            Some(instrument) => match self.owners[from.0 as usize] {
                Owner::Sender(_) => instrument.monitor(now, self.can.waiting(from) > 0),
                Owner::Host(..) | Owner::Program { .. } | Owner::Listener => {
                    instrument.receive(now)
                }
            },
        })
    }

    /// The copy of a frame on the wire that a host receives. What came from another gateway begins
    /// a new measurement, with the bus it came from as its source.
    fn copy_for(&mut self, id: FlightId, port: u32) -> FlightId {
        let copy = self.flights.duplicate(id);
        let flight = &mut self.flights[copy];
        if let (Leg::Forwarded { .. }, Some(start)) = (flight.leg, flight.taps.at(Tap::TargetStart))
        {
            let queued = flight.taps.at(Tap::Enqueued).unwrap_or(start);
            flight.taps = Taps::new(TapPath::CAN_GATEWAY)
                .with(Tap::Queued, queued)
                .with(Tap::SourceStart, start);
        }
        flight.leg = Leg::Received { passage: PassageTag { origin: port, hops: 0 } };
        copy
    }

    /// A frame has been sent, and all receivers have it.
    fn sent(
        &mut self,
        at: ControllerId,
        id: FlightId,
        mut hearing: Hearing,
        observer: &mut impl Observer,
    ) {
        self.moved_at = self.core.now();
        let stamp = self.stamp(at, &mut hearing);
        self.own_frame(at, id);
        let flight = &mut self.flights[id];
        let (end, fate) = match flight.leg {
            Leg::Forwarded { .. } => (Tap::TargetEnd, Fate::Forwarded),
            Leg::Sent | Leg::Received { .. } if hearing.is_heard => return self.flights.remove(id),
            Leg::Sent | Leg::Received { .. } => (Tap::SourceEnd, Fate::Delivered),
        };
        flight.taps.set(end, stamp.as_nanos());
        let transmission = self.can.transmission(at, flight.length);
        self.finish(id, fate, transmission.as_nanos(), observer);
    }

    /// A controller has transmitted a frame: the port of its program, if it has one, learns it.
    fn own_frame(&mut self, controller: ControllerId, id: FlightId) {
        if let Owner::Program { node, .. } = self.owner(controller) {
            let node = &mut self.port_nodes[node as usize];
            node.transmitted += 1;
            node.arrive(&self.flights[id].frame, self.core.now(), true);
        }
    }

    /// A frame has left a controller: its driver goes on.
    fn left(&mut self, controller: ControllerId, observer: &mut impl Observer) {
        match self.owner(controller) {
            Owner::Sender(index) | Owner::Program { sender: index, .. } => {
                if self.senders[index as usize].drive == Drive::Flood {
                    self.release(index, observer);
                }
            }
            Owner::Host(host, port) => self.left_linux(host, port),
            Owner::Listener => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use candor_time::Nanos;
    use candor_wire::can::{Frame, Timing};

    use super::*;
    use crate::host::{Copy, Decision, Settled, Walk};
    use crate::model::{Egress, Model};
    use crate::record::Record;
    use crate::sender::{Release, SenderConfig};
    use crate::{BusConfig, Discipline};

    /// Passes everything from port 0 to port 1.
    struct Repeater;

    impl Gateway for Repeater {
        fn decide(
            &mut self,
            _: Time,
            _: u32,
            frame: &Frame,
            passage: PassageTag,
            decision: &mut Decision,
        ) {
            let walk = Walk::default();
            let (frame, echo, is_edited) = (*frame, false, false);
            decision.copies.push(Copy { job: 0, port: 1, frame, passage, echo, is_edited, walk });
        }
        fn settle(&mut self, _: u32, _: Settled) {}
    }

    /// Why frames got no further, in their order.
    #[derive(Default)]
    struct Causes(Vec<(u64, Option<Cause>)>);

    impl Observer for Causes {
        fn record(&mut self, record: &Record<'_>) {
            let cause = match record.fate {
                Fate::Refused(cause) => Some(cause),
                Fate::Delivered | Fate::Forwarded => None,
            };
            self.0.push((record.identity, cause));
        }
    }

    #[test]
    fn a_bus_off_gateway_hears_nothing_and_says_so() {
        let mut world: World<Repeater> = World::new(1);
        let bus = world.add_bus(BusConfig {
            name: "bus".into(),
            timing: Timing::classical("1M".parse().unwrap()),
            is_fd: false,
            bit_error_rate: 0.0,
            restart: Some(Nanos::ZERO),
        });
        world.add_listener(bus);
        let egress = Egress { depth: 10, discipline: Discipline::Fifo };
        let host = world.add_host(Model::Constant { delay: Nanos::ZERO, egress }, Repeater);
        world.connect(host, bus);
        world.connect(host, bus);
        let frame = "123#".parse().unwrap();
        let mut times = [0, 100, 2_000].into_iter();
        let config = SenderConfig {
            drive: Drive::Timed,
            discipline: Discipline::Priority,
            depth: 1_000,
            reload: Nanos::ZERO,
            fault_rate: 0.0,
        };
        let source =
            move || Some(Release::new(Time::ZERO + Nanos::from_micros(times.next()?), frame));
        world.add_sender(bus, config, Box::new(source));
        for controller in world.hosts[0].ports.iter().filter_map(|port| port.controller) {
            world.can.take_off(&mut world.core, controller);
        }
        let mut causes = Causes::default();
        world.run(&mut causes);
        causes.0.sort_by_key(|&(identity, _)| identity);
        let off = Some(Cause::BusOff);
        // Each frame has one copy per port.
        assert_eq!(causes.0[..4], [(0, off), (0, off), (1, off), (1, off)]);
        assert!(causes.0[4..].contains(&(2, None)), "{causes:?}", causes = causes.0);
        assert_eq!(world.under_way(), 0);
    }
}

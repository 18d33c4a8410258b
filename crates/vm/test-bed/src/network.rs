//! [`Link`]: a link between a card of the guest and a [`Station`].

use candor_hardware::ethernet::{Direction, Outgoing};
use candor_wire::eth::LinkSpeed;

use crate::machine::Machine;
use crate::record::{Event, Record};
use crate::station::{Station, StationPlan};

/// The speed of links without a station.
const USUAL_SPEED: LinkSpeed = LinkSpeed::GBIT_1;

/// A frame that leaves the guest.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    /// Its first descriptor.
    first: u16,
    frame: Outgoing,
    over_ns: u64,
}

/// A link of the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    direction: Direction,
    /// What the guest wrote last into the tail register of the card: up to this descriptor there is something to send.
    tail: u16,
    leaving: Option<Leaving>,
    station: Option<Station>,
}

impl Link {
    pub(crate) const NEW: Self =
        Self { direction: Direction::new(USUAL_SPEED), tail: 0, leaving: None, station: None };

    pub(crate) const fn with(plan: StationPlan) -> Self {
        Self {
            direction: Direction::new(plan.speed),
            station: Some(Station::new(plan)),
            ..Self::NEW
        }
    }

    pub(crate) const fn tail(&self) -> u16 {
        self.tail
    }

    pub(crate) fn start(&mut self, now_ns: u64) {
        if let Some(station) = &mut self.station {
            station.start(now_ns);
        }
    }

    /// The station sends nothing more; what it counted.
    pub(crate) fn conclude(&mut self, card: u8, at_ns: u64, machine: &mut dyn Machine) {
        if let Some(station) = &mut self.station {
            station.stop();
            let event = Event::Station(station.count());
            machine.note(Record { at_ns, bus: card, node: 0, is_guest: false, event });
        }
    }

    /// When something happens next, in ns.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let leaving = self.leaving.map(|it| it.over_ns);
        let station = self.station.as_ref().and_then(Station::deadline);
        leaving.into_iter().chain(station).min()
    }

    /// What is due at `now_ns`.
    pub(crate) fn advance(&mut self, card: u8, now_ns: u64, machine: &mut dyn Machine) {
        if let Some(Leaving { first, frame, .. }) = self.leaving.take_if(|it| it.over_ns <= now_ns)
        {
            machine.release(card, first, frame.next);
            let request_ns = self.station.as_mut().and_then(|it| it.receive(&frame, now_ns));
            if let Some(requested_ns) = request_ns {
                let event = Event::Answer { requested_ns };
                machine.note(Record { at_ns: now_ns, bus: card, node: 0, is_guest: true, event });
            }
            self.leave(card, now_ns, machine);
        }
        if let Some(station) = &mut self.station {
            station.advance(now_ns, &mut |frame| machine.arrive(card, frame));
        }
    }

    /// The guest has written the tail register.
    pub(crate) fn send(&mut self, card: u8, tail: u16, now_ns: u64, machine: &mut dyn Machine) {
        self.tail = tail;
        if self.leaving.is_none() {
            self.leave(card, now_ns, machine);
        }
    }

    /// The next frame goes on the link, if there is one.
    fn leave(&mut self, card: u8, now_ns: u64, machine: &mut dyn Machine) {
        let Some((first, frame)) = machine.outgoing(card, self.tail) else { return };
        let (_, over_ns) = self.direction.take(now_ns, frame.len as usize);
        self.leaving = Some(Leaving { first, frame, over_ns });
    }
}

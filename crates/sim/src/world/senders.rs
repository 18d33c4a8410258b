//! Senders: they release frames, and wait for the far side if they must.

use candor_causes::Cause;
use candor_lat::{Tap, TapPath, Taps};
use candor_time::Nanos;
use candor_wire::can::Frame;
use candor_wire::can::bits::Length;

use super::World;
use super::event::Event;
use crate::flight::{Flight, FlightId, Leg, wire_length};
use crate::host::Gateway;
use crate::record::Observer;
use crate::sender::{Drive, Source, Stuffing};

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    /// Plans when a sender may release its next frame.
    pub(super) fn plan_release(&mut self, sender: u32) {
        let now = self.core.now();
        let state = &mut self.senders[sender as usize];
        let Some(next) = &state.next else { return };
        let at = match state.drive {
            Drive::Timed => next.at.max(now),
            Drive::Flood | Drive::Paced { .. } | Drive::OneAtATime { .. } => now,
        };
        state.generation = state.generation.wrapping_add(1);
        self.core.plan(at, Event::Wake(sender, state.generation));
    }

    pub(super) fn wake(&mut self, sender: u32, generation: u32, observer: &mut impl Observer) {
        if self.senders[sender as usize].generation != generation {
            return;
        }
        self.release(sender, observer);
    }

    /// Releases the frame that is next, and plans the one after it.
    pub(super) fn release(&mut self, sender: u32, observer: &mut impl Observer) {
        let state = &mut self.senders[sender as usize];
        let controller = state.controller;
        let Some(release) = state.next.take() else { return };
        if state.drive == Drive::Flood && self.can.is_full(controller) {
            state.next = Some(release);
            return;
        }
        state.next = state.source.as_mut().and_then(|source| source.next());
        let length = wire_length(&release.frame, release.stuffing);
        let flight = self.start_flight(sender, &release.frame, release.stuffing, length);
        let identity = self.flights[flight].identity;
        let state = &mut self.senders[sender as usize];
        match state.drive {
            Drive::OneAtATime { timeout, .. } => {
                state.awaited = Some(identity);
                state.deadline = self.core.now() + timeout;
                if !std::mem::replace(&mut state.has_timer, true) {
                    self.core.plan(state.deadline, Event::Timeout(sender));
                }
            }
            Drive::Timed | Drive::Flood => self.plan_release(sender),
            Drive::Paced { period_percent } => {
                let duration = self.can.timing(controller).duration_ns(length);
                let period = duration * u64::from(period_percent) / 100;
                state.generation = state.generation.wrapping_add(1);
                if state.next.is_some() {
                    let event = Event::Wake(sender, state.generation);
                    self.core.plan(self.core.now() + Nanos::from_nanos(period), event);
                }
            }
        }

        match self.offer(controller, flight) {
            Ok(()) => {}
            Err(Cause::QueueFull) => self.refuse(flight, Cause::SenderQueueFull, observer),
            Err(cause) => self.refuse(flight, cause, observer),
        }
    }

    /// A sender lets go of a frame, which waits at its controller from now on.
    pub(super) fn start_flight(
        &mut self,
        sender: u32,
        frame: &Frame,
        stuffing: Stuffing,
        length: Length,
    ) -> FlightId {
        let identity = self.identities;
        self.identities += 1;
        self.moved_at = self.core.now();
        self.senders[sender as usize].released += 1;
        self.flights.insert(Flight {
            identity,
            sender,
            sent: *frame,
            frame: *frame,
            length,
            stuffing,
            taps: Taps::new(TapPath::CAN_GATEWAY).with(Tap::Queued, self.core.now().as_nanos()),
            leg: Leg::Sent,
        })
    }

    /// Tells a one-at-a-time sender that a frame arrived.
    pub(super) fn tell_sender(&mut self, sender: u32, identity: u64) {
        if self.senders[sender as usize].awaited == Some(identity) {
            self.turn_around(sender);
        }
    }

    /// A one-at-a-time sender waits no longer for its frame, but for its turnaround: that is random, whatever became of the
    /// frame.
    fn turn_around(&mut self, sender: u32) {
        let state = &mut self.senders[sender as usize];
        state.awaited = None;
        let Drive::OneAtATime { turnaround: (shortest, longest), .. } = state.drive else { return };
        let at = self.core.now() + state.random.nanos(shortest, longest);
        if state.next.is_some() {
            state.generation = state.generation.wrapping_add(1);
            self.core.plan(at, Event::Wake(sender, state.generation));
        }
    }

    /// The timer of a one-at-a-time sender: it waits no longer for a frame that has not arrived.
    pub(super) fn time_out(&mut self, sender: u32) {
        let state = &mut self.senders[sender as usize];
        state.has_timer = false;
        if state.next.is_none() || state.awaited.is_none() {
            return;
        }
        if state.deadline > self.core.now() {
            // Frames arrived meanwhile: the timer is that of a later one.
            state.has_timer = true;
            self.core.plan(state.deadline, Event::Timeout(sender));
        } else {
            self.turn_around(sender);
        }
    }
}

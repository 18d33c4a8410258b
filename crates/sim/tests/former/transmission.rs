//! Arbitration and transmission.

use candor_causes::Cause;
use candor_time::Nanos;
use candor_wire::can::ErrorState;
use candor_wire::can::bits::Length;

use super::bus::{ERROR_TAIL_BITS, SUSPEND_BITS, Transmission};
use super::controller::Slot;
use super::{Can, Event};
use crate::event::{Core, Includes, Time};
use crate::medium::{ControllerId, Outcome};

/// A frame whose transmission begins.
pub struct Begun {
    pub sender: u32,
    /// Those that send the very same bits at the same time.
    pub also: Vec<u32>,
    pub length: Length,
    /// The bit at which it is destroyed.
    pub error: Option<u32>,
}

impl Can {
    /// A controller has a frame: plans the next arbitration, unless one is planned that comes as
    /// early, or a frame is on the wire.
    #[inline]
    pub fn call<E: Includes<Event>>(&mut self, core: &mut Core<E>, controller: u32) {
        let controller = &self.controllers[controller as usize];
        let bus = &mut self.buses[controller.bus as usize];
        if bus.on_wire.is_some() || controller.offer().is_none() {
            return;
        }
        let at = bus.idle_at.max(controller.suspended_until).max(core.now());
        if bus.arbitration.is_none_or(|planned| at < planned) {
            bus.arbitration = Some(at);
            core.plan(at, Event::Arbitrate(controller.bus));
        }
    }

    fn call_all<E: Includes<Event>>(&mut self, core: &mut Core<E>, bus: u32) {
        for index in 0..self.buses[bus as usize].controllers.len() {
            self.call(core, self.buses[bus as usize].controllers[index]);
        }
    }

    /// The frame with the smallest arbitration key goes on the wire.
    pub fn arbitrate<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        bus: u32,
        outcomes: &mut Vec<Outcome>,
    ) {
        let now = core.now();
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
            return self.call_all(core, bus);
        };
        self.end_silence(now, bus);
        let Some(length) = self.start(sender, outcomes) else { return };
        let fault_rate = self.controllers[sender as usize].fault_rate;
        let error = self.buses[bus as usize].draw_error(length, fault_rate);
        let begun = Begun { sender, also: Vec::new(), length, error };
        let begun = if is_alone { begun } else { self.collide(core, bus, key, begun, outcomes) };
        self.occupy(core, bus, begun);
    }

    /// A controller takes its frame onto the wire; the length of the frame.
    #[inline]
    pub fn start(&mut self, controller: u32, outcomes: &mut Vec<Outcome>) -> Option<Length> {
        let slot = self.controllers[controller as usize].start()?;
        let carried = &self.frames[slot];
        outcomes.push(Outcome::Started { at: ControllerId(controller), frame: carried.id });
        Some(carried.length)
    }

    #[inline]
    fn occupy<E: Includes<Event>>(&mut self, core: &mut Core<E>, bus: u32, begun: Begun) {
        let Begun { sender, also, length, error } = begun;
        let start = core.now();
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
        core.plan(start + taken, Event::End(bus));
    }

    /// The frame or the error frame on the wire is over.
    pub fn end<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        bus: u32,
        outcomes: &mut Vec<Outcome>,
    ) {
        let now = core.now();
        let bus_ref = &mut self.buses[bus as usize];
        let Some(Transmission { sender, also, start, flagged_at }) = bus_ref.on_wire.take() else {
            return;
        };
        // The intermission of an error frame is within.
        let (pause, tail) = match flagged_at {
            Some(_) => (Nanos::ZERO, bus_ref.bits(ERROR_TAIL_BITS)),
            None => (bus_ref.intermission, bus_ref.tail),
        };
        bus_ref.idle_at = now + pause;
        bus_ref.recessive_since = Time::from_nanos(now.as_nanos() - tail.as_nanos());
        bus_ref.statistics.busy += now - start + pause;
        let mut senders = std::mem::take(&mut self.ended);
        senders.clear();
        senders.push(sender);
        senders.extend(also);
        match flagged_at {
            Some(flagged_at) => {
                bus_ref.statistics.error_frames += 1;
                self.destroyed(core, bus, &senders, flagged_at, outcomes);
            }
            None => {
                bus_ref.statistics.frames += 1;
                self.transmitted(core, bus, &senders, outcomes);
            }
        }
        let bus_ref = &self.buses[bus as usize];
        for &sender in &senders {
            let controller = &mut self.controllers[sender as usize];
            if controller.state() == ErrorState::Passive {
                controller.suspended_until = bus_ref.idle_at + bus_ref.bits(SUSPEND_BITS);
            }
        }
        self.ended = senders;
        self.begin_silence(core, bus);
        self.call_all(core, bus);
    }

    /// `senders` sent the same frame: the first one's has been sent, the others' were part of it.
    fn transmitted<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        bus: u32,
        senders: &[u32],
        outcomes: &mut Vec<Outcome>,
    ) {
        let Some((&sender, others)) = senders.split_first() else { return };
        let Some(slot) = self.controllers[sender as usize].transmit_success() else { return };
        let (from, frame) = (ControllerId(sender), self.frames[slot].id);
        self.frames.remove(slot);
        for &controller in &self.buses[bus as usize].controllers {
            if senders.contains(&controller) {
                continue;
            }
            let at = ControllerId(controller);
            let controller = &mut self.controllers[controller as usize];
            let is_off = controller.bus_off.is_some();
            if !is_off {
                controller.errors.receive_success();
            }
            if controller.is_listening {
                outcomes.push(match is_off {
                    false => Outcome::Received { at, from, frame },
                    true => Outcome::Missed { at, from, frame, cause: Cause::BusOff },
                });
            }
        }
        outcomes.push(Outcome::Sent { at: from, frame });
        self.load_next(core, sender);
        for &other in others {
            if let Some(slot) = self.controllers[other as usize].transmit_success() {
                let (at, frame) = (ControllerId(other), self.frames[slot].id);
                self.frames.remove(slot);
                outcomes.push(Outcome::Refused { at, frame, cause: Cause::Merged });
                self.load_next(core, other);
            }
        }
    }

    /// A frame has left a controller: its driver loads the next one.
    #[inline]
    fn load_next<E: Includes<Event>>(&mut self, core: &mut Core<E>, controller: u32) {
        let controller_ref = &mut self.controllers[controller as usize];
        if controller_ref.reload > Nanos::ZERO {
            controller_ref.is_reloading = true;
            core.plan(core.now() + controller_ref.reload, Event::Reloaded(controller));
        }
    }

    pub fn reloaded<E: Includes<Event>>(&mut self, core: &mut Core<E>, controller: u32) {
        self.controllers[controller as usize].is_reloading = false;
        self.call(core, controller);
    }

    /// The slot of the frame that a controller has on the wire.
    #[inline]
    pub fn on_wire(&self, controller: u32) -> Option<Slot> {
        self.controllers[controller as usize].on_wire()
    }
}

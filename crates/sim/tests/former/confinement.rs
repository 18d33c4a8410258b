//! Fault confinement (ISO 11898-1): error counters, bus-off and the way back.
//!
//! A bus-off controller comes back, once its driver wants it to, after it has seen 128 sequences of 11
//! recessive bits. An idle bus gives one every 11 bits. On a busy one the end of a frame and the
//! intermission are 11 recessive bits, and the next frame breaks the silence: one sequence per frame.

use super::bus::{RECOVERY_SEQUENCES, SEQUENCE_BITS};
use super::controller::BusOff;
use super::{Can, Event};
use crate::event::{Core, Includes, Time};
use crate::medium::{ControllerId, Outcome};

impl Can {
    /// A frame of `senders` was destroyed, and an error flag began at `flagged_at`.
    pub fn destroyed<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        bus: u32,
        senders: &[u32],
        flagged_at: Time,
        outcomes: &mut Vec<Outcome>,
    ) {
        for &controller in &self.buses[bus as usize].controllers {
            let controller_ref = &mut self.controllers[controller as usize];
            if !senders.contains(&controller) && controller_ref.bus_off.is_none() {
                controller_ref.errors.receive_error();
            }
        }
        for &sender in senders {
            self.fail(core, sender, flagged_at, outcomes);
        }
    }

    /// A controller signals an error in its own frame.
    pub fn fail<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        controller: u32,
        flagged_at: Time,
        outcomes: &mut Vec<Outcome>,
    ) {
        let controller_ref = &mut self.controllers[controller as usize];
        if let Some(slot) = controller_ref.on_wire() {
            let frame = self.frames[slot].id;
            outcomes.push(Outcome::Failed { at: ControllerId(controller), frame });
        }
        if !controller_ref.transmit_error() {
            return;
        }
        let bus = &mut self.buses[controller_ref.bus as usize];
        let watches_from = bus.config.restart.map(|restart| flagged_at + restart);
        controller_ref.bus_off = Some(BusOff { watches_from, sequences: 0, generation: 0 });
        controller_ref.bus_offs += 1;
        bus.off += 1;
        bus.statistics.bus_offs += 1;
        if let Some(at) = watches_from {
            core.plan(at.max(core.now()), Event::Restart(controller));
        }
    }

    /// Since when a bus-off controller has seen nothing but recessive bits; `None` if it does not
    /// watch, or a frame is on the wire.
    fn silent_since(&self, now: Time, controller: u32) -> Option<Time> {
        let controller = &self.controllers[controller as usize];
        let bus = &self.buses[controller.bus as usize];
        let watches_from = controller.bus_off?.watches_from.filter(|&from| from <= now)?;
        bus.on_wire.is_none().then(|| bus.recessive_since.max(watches_from))
    }

    /// Plans when a controller comes back if the present silence lasts.
    pub fn plan_recovery<E: Includes<Event>>(&mut self, core: &mut Core<E>, controller: u32) {
        let now = core.now();
        let Some(since) = self.silent_since(now, controller) else { return };
        let controller_ref = &mut self.controllers[controller as usize];
        let bus = &self.buses[controller_ref.bus as usize];
        let Some(bus_off) = &mut controller_ref.bus_off else { return };
        let missing = RECOVERY_SEQUENCES.saturating_sub(bus_off.sequences);
        let at = since + bus.bits(missing * SEQUENCE_BITS);
        bus_off.generation = bus_off.generation.wrapping_add(1);
        core.plan(at.max(now), Event::Recover(controller, bus_off.generation));
    }

    /// The wire of `bus` has become recessive.
    #[inline]
    pub fn begin_silence<E: Includes<Event>>(&mut self, core: &mut Core<E>, bus: u32) {
        if self.buses[bus as usize].off > 0 {
            for index in 0..self.buses[bus as usize].controllers.len() {
                self.plan_recovery(core, self.buses[bus as usize].controllers[index]);
            }
        }
    }

    /// A frame begins on `bus`: whoever counts recessive bits begins anew.
    #[inline]
    pub fn end_silence(&mut self, now: Time, bus: u32) {
        if self.buses[bus as usize].off > 0 {
            for index in 0..self.buses[bus as usize].controllers.len() {
                self.count_silence(now, self.buses[bus as usize].controllers[index]);
            }
        }
    }

    fn count_silence(&mut self, now: Time, controller: u32) {
        let Some(since) = self.silent_since(now, controller) else { return };
        let controller_ref = &mut self.controllers[controller as usize];
        let seen = self.buses[controller_ref.bus as usize].sequences_in(now - since);
        let Some(bus_off) = &mut controller_ref.bus_off else { return };
        bus_off.sequences += seen;
        bus_off.generation = bus_off.generation.wrapping_add(1);
        if bus_off.sequences >= RECOVERY_SEQUENCES {
            self.come_back(controller);
        }
    }

    /// A controller comes back, unless the plan is stale.
    pub fn recover<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        controller: u32,
        generation: u32,
    ) {
        let bus_off = self.controllers[controller as usize].bus_off;
        if bus_off.is_some_and(|bus_off| bus_off.generation == generation) {
            self.come_back(controller);
            self.call(core, controller);
        }
    }

    fn come_back(&mut self, controller: u32) {
        let controller_ref = &mut self.controllers[controller as usize];
        controller_ref.recover();
        self.buses[controller_ref.bus as usize].off -= 1;
    }
}

//! Two nodes with one identifier.
//!
//! CAN forbids it, for arbitration cannot tell such frames apart: both nodes go on sending. If their
//! frames are equal to the last bit, nobody notices: on the bus they are one frame. Otherwise there is a
//! first bit in which they differ. Who sends it recessive reads it dominant, which is a bit error. An
//! error-active node destroys the frame for everybody with its flag; all begin again at the same time,
//! collide again, and after 16 times are error-passive. The flag of an error-passive node is recessive
//! and disturbs nobody: then the frame with the dominant bit gets through, and the other one follows.

use candor_wire::can::bits::{Length, stream};
use candor_wire::can::{ErrorState, Frame};

use super::transmission::Begun;
use super::{Can, Event};
use crate::event::{Core, Includes, Time};
use crate::medium::Outcome;

/// A node in a collision, and the bits that it sends.
struct Rival {
    controller: u32,
    bits: Vec<bool>,
}

fn bits_of(frame: &Frame) -> Vec<bool> {
    let mut bits = Vec::new();
    // Error reports never get into a queue.
    let _ = stream::encode(frame, |bit| bits.push(bit.value));
    bits
}

/// The first bit in which not all agree.
fn first_difference(rivals: &[Rival]) -> Option<usize> {
    let (first, others) = rivals.split_first()?;
    let agree = |at: &usize| others.iter().all(|other| other.bits.get(*at) == first.bits.get(*at));
    (0..first.bits.len()).find(|at| !agree(at))
}

impl Can {
    /// Several nodes begin a frame with the arbitration key `key`; `begun` has the first of them.
    pub fn collide<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        bus: u32,
        key: u32,
        begun: Begun,
        outcomes: &mut Vec<Outcome>,
    ) -> Begun {
        let now = core.now();
        let mut rivals = self.rivals(now, bus, key, begun.sender, outcomes);
        let error = loop {
            let Some(at) = first_difference(&rivals) else { break begun.error };
            let at_bit = at as u32;
            if begun.error.is_some_and(|error| error <= at_bit) {
                // Destroyed by something else before they differ, or there: all that send have
                // failed.
                break begun.error;
            }
            let (refuted, others): (Vec<_>, Vec<_>) =
                rivals.drain(..).partition(|rival| rival.bits.get(at) == Some(&true));
            let state = |rival: &Rival| self.controllers[rival.controller as usize].state();
            if refuted.iter().any(|rival| state(rival) == ErrorState::Active) {
                rivals = refuted;
                rivals.extend(others);
                break Some(at_bit);
            }
            for Rival { controller, .. } in refuted {
                let length = self.length_on(controller).unwrap_or(begun.length);
                let flagged = self.buses[bus as usize].flagged_after(length, at_bit);
                self.fail(core, controller, now + flagged, outcomes);
            }
            rivals = others;
        };
        let mut senders: Vec<_> = rivals.iter().map(|rival| rival.controller).collect();
        // In the order in which they were added, as everywhere.
        senders.sort_unstable();
        let sender = senders.remove(0);
        let length = self.length_on(sender).unwrap_or(begun.length);
        // The error was drawn for the first frame; one that goes on without it may end before.
        let bits = length.without_intermission().total();
        Begun { sender, also: senders, length, error: error.filter(|&at| at < bits) }
    }

    /// All that begin a frame with this key: `first`, which has begun, and the others, which do now.
    fn rivals(
        &mut self,
        now: Time,
        bus: u32,
        key: u32,
        first: u32,
        outcomes: &mut Vec<Outcome>,
    ) -> Vec<Rival> {
        let mut rivals = Vec::new();
        for index in 0..self.buses[bus as usize].controllers.len() {
            let controller = self.buses[bus as usize].controllers[index];
            let state = &self.controllers[controller as usize];
            let is_rival = state.offer() == Some(key) && state.suspended_until <= now;
            if controller == first || is_rival && self.start(controller, outcomes).is_some() {
                let frame = self.on_wire(controller).map(|slot| &self.frames[slot].frame);
                let bits = frame.map(bits_of).unwrap_or_default();
                let statistics = &mut self.buses[bus as usize].statistics;
                statistics.collision_id =
                    statistics.collision_id.or(frame.map(|frame| frame.can_id()));
                rivals.push(Rival { controller, bits });
            }
        }
        self.buses[bus as usize].statistics.id_collisions += 1;
        rivals
    }

    fn length_on(&self, controller: u32) -> Option<Length> {
        Some(self.frames[self.on_wire(controller)?].length)
    }
}

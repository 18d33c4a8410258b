//! What controllers request of their bus, and what follows from what its nodes learn.
//!
//! The bus has its own next instant. Two kinds of events bring it there: a frame or an error frame ends before
//! processors choose, and the next frame is chosen when everybody who is ready at that instant is there.

use candor_can::{Notice, Request, Stage};
use candor_causes::Cause;

use super::bus::Bus;
use super::controller::Controller;
use super::{Can, Carried, Event};
use crate::event::{Core, Includes, Time};
use crate::medium::{ControllerId, FrameId, Outcome};
use crate::slab::Slab;

/// Where in a bit nodes sample, in thousandths. All see the same levels, so it decides nothing.
const SAMPLE_POINT_PERMILLE: u16 = 800;

impl Can {
    /// The queue of a controller has changed: its node wants to send the first frame of it.
    #[inline]
    pub(super) fn call<E: Includes<Event>>(&mut self, core: &mut Core<E>, controller: u32) {
        let now = core.now();
        let controller = &mut self.controllers[controller as usize];
        let Some(slot) = controller.to_request() else { return };
        controller.requested = Some(slot);
        let Carried { frame, length, .. } = self.frames[slot];
        let at_ns = controller.reloads_until.max(now).as_nanos();
        let bus = &mut self.buses[controller.bus as usize];
        bus.wire.request(controller.node, Request { frame, length, at_ns, is_single_shot: false });
        plan_arbitration(core, controller.bus, bus);
    }

    /// The frame with the smallest arbitration key goes on the wire, or controllers come back from bus-off.
    pub(super) fn arbitrate<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        bus: u32,
        outcomes: &mut Vec<Outcome>,
    ) {
        let now = core.now();
        let bus_ref = &mut self.buses[bus as usize];
        // Else an earlier one came between.
        if bus_ref.arbitration.take_if(|at| *at == now).is_none() {
            return;
        }
        if let Some(next) = bus_ref.due(now, Stage::Begins) {
            self.step(core.now(), bus, next, outcomes);
            self.plan_end(core, bus);
        }
        // Controllers that have come back take part in the arbitration of this instant.
        self.call_changed(core, bus);
    }

    /// The frame on the wire is over, or an error flag begins.
    pub(super) fn end<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        bus: u32,
        outcomes: &mut Vec<Outcome>,
    ) {
        let now = core.now();
        while let Some(next) = self.buses[bus as usize].due(now, Stage::GoesOn) {
            self.step(now, bus, next, outcomes);
        }
        self.plan_end(core, bus);
        self.call_changed(core, bus);
    }

    /// What is due on a bus happens.
    #[inline]
    fn step(&mut self, now: Time, bus: u32, next: (u64, Stage), outcomes: &mut Vec<Outcome>) {
        let Self { buses, controllers, frames, changed } = self;
        let Bus { wire, controllers: on_bus, senders, off, .. } = &mut buses[bus as usize];
        let from = senders.first().and_then(|&it| {
            let slot = controllers[it as usize].on_wire()?;
            Some((ControllerId(it), frames[slot].id))
        });
        let mut nodes = Nodes { now, from, senders, off, controllers, frames, changed, outcomes };
        wire.step(next, &mut |node, _, notice| nodes.learn(on_bus[node.0 as usize], notice));
    }

    /// A frame on the wire has an end.
    #[inline]
    fn plan_end<E: Includes<Event>>(&self, core: &mut Core<E>, bus: u32) {
        if let Some((at, Stage::GoesOn)) = self.buses[bus as usize].wire.next() {
            core.plan(Time::from_nanos(at), Event::End(bus));
        }
    }

    /// Controllers whose nodes learned something want to send what is first in their queues now.
    #[inline]
    pub(super) fn call_changed<E: Includes<Event>>(&mut self, core: &mut Core<E>, bus: u32) {
        let now = core.now();
        let mut changed = std::mem::take(&mut self.changed);
        for controller in changed.drain(..) {
            self.restart(now, controller);
            self.call(core, controller);
        }
        self.changed = changed;
        plan_arbitration(core, bus, &mut self.buses[bus as usize]);
    }

    /// The driver of a controller that is bus-off wants it back after a while, if drivers do on its bus.
    fn restart(&mut self, now: Time, controller: u32) {
        let controller = &self.controllers[controller as usize];
        let bus = &mut self.buses[controller.bus as usize];
        if controller.is_bus_off
            && let Some(after) = bus.config.restart
        {
            let from_ns = (now + after).as_nanos();
            bus.wire.join(controller.node, false, SAMPLE_POINT_PERMILLE, from_ns);
        }
    }
}

/// Plans when the next frame begins, unless that is planned or a frame is on the wire.
#[inline]
fn plan_arbitration<E: Includes<Event>>(core: &mut Core<E>, id: u32, bus: &mut Bus) {
    if let Some((at, Stage::Begins)) = bus.wire.next() {
        let at = Time::from_nanos(at);
        if bus.arbitration.is_none_or(|planned| at < planned) {
            bus.arbitration = Some(at);
            core.plan(at, Event::Arbitrate(id));
        }
    }
}

/// What nodes learn at one stage of a bus, and whom it concerns.
struct Nodes<'a> {
    now: Time,
    /// The first of those that send what is on the wire, and the number of its frame.
    from: Option<(ControllerId, FrameId)>,
    senders: &'a mut Vec<u32>,
    off: &'a mut u32,
    controllers: &'a mut [Controller],
    frames: &'a mut Slab<Carried>,
    /// Controllers whose nodes want to send something else now.
    changed: &'a mut Vec<u32>,
    outcomes: &'a mut Vec<Outcome>,
}

impl Nodes<'_> {
    #[inline]
    fn learn(&mut self, controller: u32, notice: Notice) {
        let at = ControllerId(controller);
        let it = &mut self.controllers[controller as usize];
        match notice {
            Notice::Started => {
                if let Some(slot) = it.start() {
                    self.senders.push(controller);
                    let frame = self.frames[slot].id;
                    self.outcomes.push(Outcome::Started { at, frame });
                }
            }
            Notice::Received(_) => {
                if it.is_listening
                    && let Some((from, frame)) = self.from
                {
                    self.outcomes.push(Outcome::Received { at, from, frame });
                }
            }
            Notice::Missed => {
                if it.is_listening
                    && let Some((from, frame)) = self.from
                {
                    let cause = Cause::BusOff;
                    self.outcomes.push(Outcome::Missed { at, from, frame, cause });
                }
            }
            Notice::Sent(_) => {
                if let Some(slot) = it.sent(self.now) {
                    let frame = self.frames[slot].id;
                    self.frames.remove(slot);
                    // The frames of the others were part of that of the first.
                    self.outcomes.push(match self.from {
                        Some((from, _)) if from != at => {
                            Outcome::Refused { at, frame, cause: Cause::Merged }
                        }
                        _ => Outcome::Sent { at, frame },
                    });
                }
                self.senders.retain(|&sender| sender != controller);
                self.changed.push(controller);
            }
            Notice::Failed { is_sender: true, .. } => {
                if let Some(slot) = it.failed() {
                    self.outcomes.push(Outcome::Failed { at, frame: self.frames[slot].id });
                }
                self.senders.retain(|&sender| sender != controller);
                self.changed.push(controller);
            }
            Notice::BusOff => {
                it.went_off();
                *self.off += 1;
            }
            Notice::TakesPart => {
                it.is_bus_off = false;
                *self.off -= 1;
                self.changed.push(controller);
            }
            // A frame with an error in its last bit is sent again, as any other is.
            Notice::SentToOthers(_)
            | Notice::Failed { is_sender: false, .. }
            | Notice::LostArbitration { .. } => {}
        }
    }
}

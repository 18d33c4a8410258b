//! What controllers request of their bus, and what follows from what its nodes learn.
//!
//! The bus has its own next instant. Two kinds of events bring it there: a frame or an error frame ends before
//! processors choose, and the next frame is chosen when everybody who is ready at that instant is there.

use candor_can::{NodeId, Notice, Request, Sink, WireStage};
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
        if let Some(bus) = self.request(core.now(), controller)
            && let Some((at, WireStage::Begins)) = self.buses[bus as usize].wire.next()
        {
            self.plan_arbitration(core, bus, Time::from_nanos(at));
        }
    }

    /// A node wants to send the first frame of the queue of its controller: the bus, if that is another one than before.
    #[inline]
    fn request(&mut self, now: Time, controller: u32) -> Option<u32> {
        let controller = &mut self.controllers[controller as usize];
        let slot = controller.to_request()?;
        controller.requested = Some(slot);
        let Carried { frame, length, .. } = &self.frames[slot];
        let at_ns = controller.reloads_until.max(now).as_nanos();
        let bus = &mut self.buses[controller.bus as usize];
        let request = Request { frame: *frame, length: *length, at_ns, is_single_shot: false };
        bus.wire.request(controller.node, request);
        Some(controller.bus)
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
        match bus_ref.wire.next() {
            Some((at, WireStage::Begins)) if at <= now.as_nanos() => {
                self.step(now, bus, (at, WireStage::Begins), None, outcomes);
            }
            _ => {}
        }
        // Controllers that have come back take part in the arbitration of this instant.
        self.request_changed(now);
        self.plan(core, bus);
    }

    /// The frame on the wire is over, or an error flag begins.
    pub(super) fn end<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        bus: u32,
        outcomes: &mut Vec<Outcome>,
    ) {
        let now = core.now();
        while let Some((at, WireStage::GoesOn)) = self.buses[bus as usize].wire.next()
            && at <= now.as_nanos()
        {
            let from = self.buses[bus as usize].senders.first().and_then(|&sender| {
                let slot = self.controllers[sender as usize].on_wire()?;
                Some((ControllerId(sender), self.frames[slot].id))
            });
            self.step(now, bus, (at, WireStage::GoesOn), from, outcomes);
        }
        self.request_changed(now);
        self.plan(core, bus);
    }

    /// What is due on a bus happens. `from` is the first of those that send what is on the wire, and the number of its
    /// frame.
    #[inline(always)]
    fn step(
        &mut self,
        now: Time,
        bus: u32,
        next: (u64, WireStage),
        from: Option<(ControllerId, FrameId)>,
        outcomes: &mut Vec<Outcome>,
    ) {
        let Self { buses, controllers, frames, changed } = self;
        let Bus { wire, controllers: on_bus, senders, off, .. } = &mut buses[bus as usize];
        let nodes = &mut NodeListener {
            now,
            from,
            on_bus,
            senders,
            off,
            controllers,
            frames,
            changed,
            outcomes,
        };
        wire.step(next, nodes);
    }

    /// Plans what comes next on a bus after an event of it: when the frame on the wire ends, or when the next one begins.
    #[inline(always)]
    pub(super) fn plan<E: Includes<Event>>(&mut self, core: &mut Core<E>, bus: u32) {
        match self.buses[bus as usize].wire.next() {
            Some((at, WireStage::GoesOn)) => core.plan(Time::from_nanos(at), Event::End(bus)),
            Some((at, WireStage::Begins)) => self.plan_arbitration(core, bus, Time::from_nanos(at)),
            None => {}
        }
    }

    /// The next frame begins at `at`: plans that, unless it is planned.
    #[inline(always)]
    fn plan_arbitration<E: Includes<Event>>(&mut self, core: &mut Core<E>, bus: u32, at: Time) {
        let planned = &mut self.buses[bus as usize].arbitration;
        if planned.is_none_or(|planned| at < planned) {
            *planned = Some(at);
            core.plan(at, Event::Arbitrate(bus));
        }
    }

    /// Controllers whose nodes learned something want to send what is first in their queues now.
    #[inline]
    pub(super) fn request_changed(&mut self, now: Time) {
        for index in 0..self.changed.len() {
            let controller = self.changed[index];
            if self.controllers[controller as usize].is_bus_off {
                self.restart(now, controller);
            } else {
                self.request(now, controller);
            }
        }
        self.changed.clear();
    }

    /// The driver of a controller that is bus-off wants it back after a while, if drivers do on its bus.
    fn restart(&mut self, now: Time, controller: u32) {
        let controller = &self.controllers[controller as usize];
        let bus = &mut self.buses[controller.bus as usize];
        if let Some(after) = bus.config.restart {
            let from_ns = (now + after).as_nanos();
            bus.wire.join(controller.node, false, SAMPLE_POINT_PERMILLE, from_ns);
        }
    }
}

/// What nodes learn at one stage of a bus, and whom it concerns.
struct NodeListener<'a> {
    now: Time,
    /// The first of those that send what is on the wire, and the number of its frame.
    from: Option<(ControllerId, FrameId)>,
    on_bus: &'a [u32],
    senders: &'a mut Vec<u32>,
    off: &'a mut u32,
    controllers: &'a mut [Controller],
    frames: &'a mut Slab<Carried>,
    /// Controllers whose nodes want to send something else now.
    changed: &'a mut Vec<u32>,
    outcomes: &'a mut Vec<Outcome>,
}

impl Sink for NodeListener<'_> {
    // Each notice is made where it is known which one it is: inlined there, little of this is left.
    #[inline(always)]
    fn learn(&mut self, node: NodeId, _: u64, notice: Notice) {
        let controller = self.on_bus[node.0 as usize];
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
                self.senders.clear();
                self.changed.push(controller);
            }
            // Arbitration is lost against a bit error only: of others the bus says nothing.
            Notice::Failed { is_sender: true, .. } | Notice::LostArbitration { .. } => {
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
            Notice::SentToOthers(_) | Notice::Failed { is_sender: false, .. } => {}
        }
    }
}

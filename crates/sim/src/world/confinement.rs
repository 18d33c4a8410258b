//! Fault confinement (ISO 11898-1): error counters, bus-off and the way back.
//!
//! A bus-off controller comes back, once its driver wants it to, after it has seen 128 sequences of 11
//! recessive bits. An idle bus gives one every 11 bits. On a busy one the end of a frame and the
//! intermission are 11 recessive bits, and the next frame breaks the silence: one sequence per frame.

use super::World;
use super::event::Event;
use crate::bus::{RECOVERY_SEQUENCES, SEQUENCE_BITS};
use crate::controller::BusOff;
use crate::event::Time;
use crate::host::Gateway;
use crate::sender::Source;

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    /// A frame of `senders` was destroyed, and an error flag began at `flagged_at`.
    pub(super) fn destroyed(&mut self, bus: u32, senders: &[u32], flagged_at: Time) {
        for index in 0..self.buses[bus as usize].controllers.len() {
            let controller = self.buses[bus as usize].controllers[index];
            let controller_ref = &mut self.controllers[controller as usize];
            if !senders.contains(&controller) && controller_ref.bus_off.is_none() {
                controller_ref.receive_error();
            }
        }
        for &sender in senders {
            self.fail(sender, flagged_at);
        }
    }

    /// A controller signals an error in its own frame.
    pub(super) fn fail(&mut self, controller: u32, flagged_at: Time) {
        let controller_ref = &mut self.controllers[controller as usize];
        if !controller_ref.transmit_error() {
            return;
        }
        let bus = &mut self.buses[controller_ref.bus as usize];
        let watches_from = bus.config.restart.map(|restart| flagged_at + restart);
        controller_ref.bus_off = Some(BusOff { watches_from, sequences: 0, generation: 0 });
        bus.off += 1;
        bus.statistics.bus_offs += 1;
        if let Some(at) = watches_from {
            self.core.plan(at.max(self.core.now()), Event::Restart(controller));
        }
    }

    /// Since when a bus-off controller has seen nothing but recessive bits; `None` if it does not
    /// watch, or a frame is on the wire.
    fn silent_since(&self, controller: u32) -> Option<Time> {
        let controller = &self.controllers[controller as usize];
        let bus = &self.buses[controller.bus as usize];
        let watches_from =
            controller.bus_off?.watches_from.filter(|&from| from <= self.core.now())?;
        bus.on_wire.is_none().then(|| bus.recessive_since.max(watches_from))
    }

    /// Plans when a controller comes back if the present silence lasts.
    pub(super) fn plan_recovery(&mut self, controller: u32) {
        let Some(since) = self.silent_since(controller) else { return };
        let controller_ref = &mut self.controllers[controller as usize];
        let bus = &self.buses[controller_ref.bus as usize];
        let Some(bus_off) = &mut controller_ref.bus_off else { return };
        let missing = RECOVERY_SEQUENCES.saturating_sub(bus_off.sequences);
        let at = since + bus.bits(missing * SEQUENCE_BITS);
        bus_off.generation = bus_off.generation.wrapping_add(1);
        self.core.plan(at.max(self.core.now()), Event::Recover(controller, bus_off.generation));
    }

    /// The wire of `bus` has become recessive.
    pub(super) fn begin_silence(&mut self, bus: u32) {
        if self.buses[bus as usize].off > 0 {
            for index in 0..self.buses[bus as usize].controllers.len() {
                self.plan_recovery(self.buses[bus as usize].controllers[index]);
            }
        }
    }

    /// A frame begins on `bus`: whoever counts recessive bits begins anew.
    pub(super) fn end_silence(&mut self, bus: u32) {
        if self.buses[bus as usize].off > 0 {
            for index in 0..self.buses[bus as usize].controllers.len() {
                self.count_silence(self.buses[bus as usize].controllers[index]);
            }
        }
    }

    fn count_silence(&mut self, controller: u32) {
        let Some(since) = self.silent_since(controller) else { return };
        let controller_ref = &mut self.controllers[controller as usize];
        let seen = self.buses[controller_ref.bus as usize].sequences_in(self.core.now() - since);
        let Some(bus_off) = &mut controller_ref.bus_off else { return };
        bus_off.sequences += seen;
        bus_off.generation = bus_off.generation.wrapping_add(1);
        if bus_off.sequences >= RECOVERY_SEQUENCES {
            self.come_back(controller);
        }
    }

    /// A controller comes back, unless the plan is stale.
    pub(super) fn recover(&mut self, controller: u32, generation: u32) {
        let bus_off = self.controllers[controller as usize].bus_off;
        if bus_off.is_some_and(|bus_off| bus_off.generation == generation) {
            self.come_back(controller);
            self.call(controller);
        }
    }

    fn come_back(&mut self, controller: u32) {
        let controller_ref = &mut self.controllers[controller as usize];
        controller_ref.recover();
        self.buses[controller_ref.bus as usize].off -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use candor_causes::Cause;
    use candor_lat::Tap;
    use candor_time::Nanos;
    use candor_wire::can::{Frame, Timing};

    use super::*;
    use crate::Discipline;
    use crate::flight::PassageTag;
    use crate::host::{Copy, Decision, Settled, Walk};
    use crate::model::{Egress, Model};
    use crate::record::{Fate, Observer, Record};
    use crate::sender::{Drive, Release, SenderConfig};
    use crate::{BusConfig, BusId};

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

    /// When frames began on their first bus, in us, and why they got no further.
    #[derive(Default)]
    struct Begun(BTreeMap<(String, u64), (u64, Option<Cause>)>);

    impl Observer for Begun {
        fn record(&mut self, record: &Record<'_>) {
            let cause = match record.fate {
                Fate::Refused(cause) => Some(cause),
                Fate::Delivered | Fate::Forwarded => None,
            };
            let start = record.taps.at(Tap::SourceStart).unwrap_or(0) / 1_000;
            self.0.insert((record.sent.to_string(), record.identity), (start, cause));
        }
    }

    /// A bus of 1 Mbit/s.
    fn world(restart: Option<Nanos>) -> (World<Repeater>, BusId) {
        let mut world = World::new(1);
        let timing = Timing::classical("1M".parse().unwrap());
        let bus = world.add_bus(BusConfig {
            name: "bus".into(),
            timing,
            is_fd: false,
            bit_error_rate: 0.0,
            restart,
        });
        world.add_listener(bus);
        (world, bus)
    }

    /// A node that sends this frame at these times, in us; its controller.
    fn node(world: &mut World<Repeater>, bus: BusId, frame: &str, times: Vec<u64>) -> u32 {
        let frame = frame.parse().unwrap();
        let mut times = times.into_iter();
        let config = SenderConfig {
            drive: Drive::Timed,
            discipline: Discipline::Priority,
            depth: 1_000,
            reload: Nanos::ZERO,
            fault_rate: 0.0,
        };
        let source =
            move || Some(Release::new(Time::ZERO + Nanos::from_micros(times.next()?), frame));
        let sender = world.add_sender(bus, config, Box::new(source));
        world.senders[sender.0 as usize].controller
    }

    /// The next error of a node takes it off the bus.
    fn take_off(world: &mut World<Repeater>, controller: u32) {
        world.controllers[controller as usize].tec = 248;
        world.fail(controller, Time::ZERO);
        assert!(world.controllers[controller as usize].bus_off.is_some());
    }

    /// When a node that is bus-off from the beginning sends a frame, beside one that sends frames of
    /// 45 bits and an intermission at these times.
    fn back_at(restart_us: u64, times: Vec<u64>) -> u64 {
        let (mut world, bus) = world(Some(Nanos::from_micros(restart_us)));
        node(&mut world, bus, "123#", times);
        let off = node(&mut world, bus, "100#", vec![0]);
        take_off(&mut world, off);
        let mut begun = Begun::default();
        assert!(world.run(&mut begun));
        assert_eq!(world.controllers[off as usize].tec, 0);
        let (_, start) = begun.0.iter().find(|((frame, _), _)| frame == "100#").unwrap();
        start.0
    }

    #[test]
    fn on_an_idle_bus_coming_back_takes_1408_bits() {
        assert_eq!(back_at(0, vec![]), 128 * 11);
        assert_eq!(back_at(250, vec![]), 250 + 128 * 11);
    }

    #[test]
    fn on_a_full_bus_coming_back_takes_128_frames() {
        let full: Vec<_> = vec![0; 900];
        assert_eq!(back_at(0, full.clone()), 128 * 48);
        // It watches from within the second frame on.
        assert_eq!(back_at(60, full), 129 * 48);
    }

    #[test]
    fn a_started_sequence_is_lost_when_a_frame_begins() {
        // From 37 us, the acknowledge delimiter, to the next frame are 63 bits: 5 sequences. After 25
        // frames 3 are missing.
        let every_100_us = (0..900).map(|number| number * 100).collect();
        assert_eq!(back_at(0, every_100_us), 25 * 100 + 37 + 3 * 11);
    }

    #[test]
    fn only_the_passive_sender_itself_waits_after_its_frame() {
        for (others, second) in [(vec![], 48 + 8), (vec![10], 96)] {
            let (mut world, bus) = world(None);
            let passive = node(&mut world, bus, "123#", vec![0, 0]);
            // Less urgent, but not suspended.
            node(&mut world, bus, "133#", others.clone());
            world.controllers[passive as usize].tec = 200;
            let mut begun = Begun::default();
            world.run(&mut begun);
            let starts = |frame: &str| {
                let of_frame = begun.0.iter().filter(|((sent, _), _)| sent == frame);
                of_frame.map(|(_, (start, _))| *start).collect::<Vec<_>>()
            };
            assert_eq!(starts("123#"), [0, second], "{others:?}");
            assert_eq!(starts("133#"), others.iter().map(|_| 48).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_bus_off_gateway_hears_nothing_and_says_so() {
        let (mut world, bus) = world(Some(Nanos::ZERO));
        let (target, egress) = (bus, Egress { depth: 10, discipline: Discipline::Fifo });
        let model = Model::Constant { delay: Nanos::ZERO, egress };
        let host = world.add_host(model, Repeater);
        world.connect(host, bus);
        world.connect(host, target);
        let controllers: Vec<_> =
            world.hosts[0].ports.iter().filter_map(|p| p.controller).collect();
        node(&mut world, bus, "123#", vec![0, 100, 2_000]);
        for controller in controllers {
            take_off(&mut world, controller);
        }
        let mut begun = Begun::default();
        world.run(&mut begun);
        let causes: Vec<_> = begun.0.values().map(|(_, cause)| *cause).collect();
        let off = Some(Cause::BusOff);
        assert_eq!(causes, [off, off, None]);
        assert_eq!(world.under_way(), 0);
    }
}

//! A bus for tests: frames are offered to it at certain times, and outcomes are kept.

use candor_causes::Cause;
use candor_random::BitErrors;
use candor_time::Nanos;
use candor_wire::can::bits::{Length, length};
use candor_wire::can::{Frame, Timing};

use super::{BusConfig, BusId, BusStatistics, Can, ControllerConfig, Event, Offer};
use crate::Discipline;
use crate::event::{Core, Time};
use crate::medium::{ControllerId, FrameId, Medium, Outcome};

/// A bus of 1 Mbit/s, so that a bit takes 1 us, and nodes on it.
pub(super) struct Bench {
    pub(super) core: Core<Event>,
    pub(super) can: Can,
    pub(super) bus: BusId,
    /// In the order of their numbers: when a frame is offered, where, and what.
    offers: Vec<(Time, ControllerId, Frame)>,
    pub(super) outcomes: Vec<(Time, Outcome)>,
}

impl Bench {
    pub(super) fn new(restart: Option<Nanos>) -> Self {
        let core = Core::new(1);
        let mut can = Can::default();
        let timing = Timing::classical("1M".parse().unwrap());
        let name = "bus".into();
        let config = BusConfig { name, timing, is_fd: false, bit_error_rate: 0.0, restart };
        let bus = can.add_bus(&core, config);
        Self { core, can, bus, offers: Vec::new(), outcomes: Vec::new() }
    }

    /// The next bit that is destroyed has so many good ones before it, those between frames not counted.
    pub(super) fn destroy_bit(&mut self, good_bits: u64) {
        let errors = BitErrors::of_bus(1, 0, 0.0).with_next(good_bits);
        self.can.buses[0].wire.faults_mut().timed.set_bit_errors(errors);
    }

    /// A node of that kind.
    pub(super) fn add(&mut self, config: ControllerConfig) -> ControllerId {
        self.can.add_controller(self.bus, config)
    }

    /// Offers a frame now, with this number.
    pub(super) fn offer(&mut self, at: ControllerId, id: u32, frame: &str) -> Result<(), Cause> {
        let frame: Frame = frame.parse().unwrap();
        let length = length(&frame).unwrap_or(Length { nominal: 0, data: 0, stuff_bits: 0 });
        let offer = Offer { id: FrameId(id), frame: &frame, length };
        self.can.offer(&mut self.core, at, offer)
    }

    /// A node that sends this frame at these times, in us.
    pub(super) fn node(&mut self, frame: &str, times_us: Vec<u64>) -> ControllerId {
        let (discipline, depth) = (Discipline::Priority, 1_000);
        let config = ControllerConfig { discipline, depth, ..ControllerConfig::default() };
        let controller = self.can.add_controller(self.bus, config);
        let frame = frame.parse().unwrap();
        let at = |us| Time::ZERO + Nanos::from_micros(us);
        self.offers.extend(times_us.into_iter().map(|us| (at(us), controller, frame)));
        controller
    }

    pub(super) fn run(&mut self) {
        let mut order: Vec<_> = (0..self.offers.len()).collect();
        order.sort_by_key(|&index| self.offers[index].0);
        for index in order {
            let (at, controller, frame) = self.offers[index];
            while let Some(event) = self.core.next_until(at) {
                self.happen(event);
            }
            self.core.reach(at);
            let (id, length) = (FrameId(index as u32), length(&frame).unwrap());
            let offer = Offer { id, frame: &frame, length };
            self.can.offer(&mut self.core, controller, offer).unwrap();
        }
        while let Some(event) = self.core.next() {
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        let mut outcomes = Vec::new();
        self.can.happen(&mut self.core, event, &mut outcomes);
        let now = self.core.now();
        self.outcomes.extend(outcomes.into_iter().map(|outcome| (now, outcome)));
    }

    pub(super) fn statistics(&self) -> BusStatistics {
        self.can.statistics(self.bus, self.core.now())
    }

    pub(super) fn outcomes_us(&self) -> Vec<(u64, Outcome)> {
        self.outcomes.iter().map(|&(at, outcome)| (at.as_nanos() / 1_000, outcome)).collect()
    }

    /// When transmissions of this frame began, in us.
    pub(super) fn starts_us(&self, frame: &str) -> Vec<u64> {
        let frame: Frame = frame.parse().unwrap();
        let start = |&(at, outcome): &(Time, Outcome)| match outcome {
            Outcome::Started { frame: id, .. } if self.offers[id.0 as usize].2 == frame => {
                Some(at.as_nanos() / 1_000)
            }
            _ => None,
        };
        self.outcomes.iter().filter_map(start).collect()
    }

    pub(super) fn last_start_us(&self, frame: &str) -> u64 {
        *self.starts_us(frame).last().unwrap()
    }
}

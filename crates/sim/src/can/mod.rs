//! CAN buses in virtual time: those of [`candor_can`], with the transmit queues of controllers in front of their nodes.
//!
//! [`Can`] owns buses and their controllers. Frames are offered to the transmit queues of controllers;
//! [`Outcome`]s say what became of them. Frames end at the last bit of their end of frame, and the next
//! one begins behind the intermission of three bits.
//!
//! ```
//! use candor_sim::can::{BusConfig, Can, ControllerConfig, Event, Offer};
//! use candor_sim::event::Core;
//! use candor_sim::medium::{FrameId, Medium, Outcome};
//! use candor_wire::can::{Bitrate, Frame, Timing, bits};
//!
//! let (mut core, mut can) = (Core::<Event>::new(1), Can::default());
//! let bus = can.add_bus(&core, BusConfig {
//!     name: "bus".into(), timing: Timing::classical(Bitrate::new(1_000_000).unwrap()),
//!     is_fd: false, bit_error_rate: 0.0, restart: None,
//! });
//! let sender = can.add_controller(bus, ControllerConfig::default());
//! can.add_controller(bus, ControllerConfig::default());
//! let frame: Frame = "123#1122334455667788".parse()?;
//! let length = bits::length(&frame).unwrap();
//! can.offer(&mut core, sender, Offer { id: FrameId(7), frame: &frame, length }).unwrap();
//!
//! let mut outcomes = Vec::new();
//! while let Some(event) = core.next() {
//!     can.happen(&mut core, event, &mut outcomes);
//!     if let Some(Outcome::Sent { frame: FrameId(7), .. }) = outcomes.last() {
//!         // 109 bits of 1 us.
//!         assert_eq!(core.now().as_nanos(), 109_000);
//!     }
//! }
//! assert_eq!(outcomes.len(), 3, "started, received, sent: {outcomes:?}");
//! # Ok::<(), candor_wire::can::notation::NotationError>(())
//! ```

#[cfg(test)]
mod bench;
mod bus;
mod controller;
mod queue;
#[cfg(test)]
mod tests;
mod transmission;

use candor_causes::Cause;
use candor_queue::Discipline;
use candor_random::BitErrors;
use candor_time::Nanos;
use candor_wire::can::bits::Length;
use candor_wire::can::{ErrorCounters, ErrorState, Frame, Timing};

use crate::event::{Core, Includes, Phase, Rank, Ranked, Time};
use crate::medium::{ControllerId, FrameId, Medium, Outcome};
use crate::slab::Slab;
use bus::Bus;
use controller::Controller;

pub use bus::{BusConfig, BusStatistics};
pub use candor_can::Fault;
pub(crate) use queue::Queue;

/// Which bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BusId(pub u32);

/// What buses plan. Numbers are theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The bus is idle, and somebody may want it or come back from bus-off.
    Arbitrate(u32),
    /// The frame on the bus is over, or an error flag begins.
    End(u32),
}

impl Ranked for Event {
    #[inline]
    fn rank(self) -> Rank {
        match self {
            Self::End(bus) => Rank::new(Phase::Arrives, bus),
            Self::Arbitrate(bus) => Rank::new(Phase::Chooses, bus),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControllerConfig {
    /// The order in its transmit queue.
    pub discipline: Discipline,
    /// Frames that the queue holds, besides the one on the bus.
    pub depth: usize,
    /// How long its driver takes to load the next frame after one has left; the bus may idle that
    /// long. Zero for controllers with more than one transmit buffer.
    pub reload: Nanos,
    /// Probability, 0 to 1, that a frame that it sends is destroyed by a fault of its own.
    pub fault_rate: f64,
    /// Whether it says what it receives. Each controller acknowledges all frames in any case.
    pub is_listening: bool,
}

impl Default for ControllerConfig {
    /// 16 frames, first in, first out; loaded in no time, without faults. It says what it receives.
    fn default() -> Self {
        Self {
            discipline: Discipline::Fifo,
            depth: 16,
            reload: Nanos::ZERO,
            fault_rate: 0.0,
            is_listening: true,
        }
    }
}

/// A frame offered to a controller.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The number by which its driver knows it.
    pub id: FrameId,
    pub frame: &'a Frame,
    /// Its length on the wire, in bits: what it has, or what a worst case gives it. 0 for what is no
    /// frame on the wire.
    pub length: Length,
}

/// A frame in a transmit queue or on the wire.
#[derive(Clone, Debug)]
struct Carried {
    id: FrameId,
    frame: Frame,
    length: Length,
}

/// CAN buses and their controllers.
#[derive(Default)]
pub struct Can {
    buses: Vec<Bus>,
    controllers: Vec<Controller>,
    frames: Slab<Carried>,
    /// Lent to each stage of a bus, so that none allocates.
    changed: Vec<u32>,
}

impl Can {
    /// The kind of its streams of randomness: one for each bus, beside that of its bit errors.
    const STREAMS: u32 = 11;

    /// Adds a bus. Its randomness follows from the seed of the core and its number.
    pub fn add_bus<E: Ranked>(&mut self, core: &Core<E>, config: BusConfig) -> BusId {
        let id = self.buses.len() as u32;
        let bit_errors = BitErrors::of_bus(core.seed(), id, config.bit_error_rate);
        self.buses.push(Bus::new(config, core.random(Self::STREAMS, id), bit_errors));
        BusId(id)
    }

    /// Adds a controller to a bus.
    pub fn add_controller(&mut self, bus: BusId, config: ControllerConfig) -> ControllerId {
        let id = self.controllers.len() as u32;
        let node = self.buses[bus.0 as usize].add(id, config.fault_rate);
        self.controllers.push(Controller::new(bus.0, node, config));
        ControllerId(id)
    }

    /// A bit of a frame to come is inverted on a bus, for all its nodes. Whether there is room for so many faults.
    pub fn add_fault(&mut self, bus: BusId, fault: Fault) -> bool {
        self.buses[bus.0 as usize].wire.faults_mut().timed.add(fault)
    }

    /// What a bus is.
    #[must_use]
    pub fn config(&self, bus: BusId) -> &BusConfig {
        &self.buses[bus.0 as usize].config
    }

    /// What happened on a bus up to `now`.
    #[must_use]
    pub fn statistics(&self, bus: BusId, now: Time) -> BusStatistics {
        self.buses[bus.0 as usize].statistics_at(now)
    }

    /// The bit rates of the bus of a controller.
    #[inline]
    #[must_use]
    pub fn timing(&self, controller: ControllerId) -> Timing {
        self.config(self.bus_of(controller)).timing
    }

    /// The bus of a controller.
    #[must_use]
    pub fn bus_of(&self, controller: ControllerId) -> BusId {
        BusId(self.controller(controller).bus)
    }

    /// How long a frame of this length takes on the bus of a controller, from its start to its end,
    /// without intermission.
    #[inline]
    #[must_use]
    pub fn transmission(&self, controller: ControllerId, length: Length) -> Nanos {
        let timing = self.timing(controller);
        Nanos::from_nanos(timing.duration_ns(length.without_intermission()))
    }

    /// Whether the bus of a controller carries such a frame.
    ///
    /// # Errors
    /// [`Cause::Unsupported`]: no frame has this length, or it is CAN FD and the bus is not.
    #[inline]
    pub fn carries(
        &self,
        controller: ControllerId,
        frame: &Frame,
        length: Length,
    ) -> Result<(), Cause> {
        let is_fd = self.config(self.bus_of(controller)).is_fd;
        if length.total() == 0 || frame.is_fd() && !is_fd {
            return Err(Cause::Unsupported);
        }
        Ok(())
    }

    /// Whether the transmit queue of a controller has no room.
    #[inline]
    #[must_use]
    pub fn is_full(&self, controller: ControllerId) -> bool {
        self.controller(controller).queue.is_full()
    }

    /// How many frames wait in the transmit queue of a controller.
    #[inline]
    #[must_use]
    pub fn waiting(&self, controller: ControllerId) -> usize {
        self.controller(controller).queue.len()
    }

    /// How many frames a controller holds: those that wait, and the one that it sends.
    #[inline]
    #[must_use]
    pub fn held(&self, controller: ControllerId) -> usize {
        self.controller(controller).held()
    }

    #[must_use]
    pub fn state(&self, controller: ControllerId) -> ErrorState {
        let controller = self.controller(controller);
        self.buses[controller.bus as usize].wire.state(controller.node)
    }

    /// How often a controller went bus-off.
    #[must_use]
    pub fn bus_offs(&self, controller: ControllerId) -> u64 {
        self.controller(controller).bus_offs
    }

    /// The transmit error counter and the receive error counter of a controller.
    #[must_use]
    pub fn error_counters(&self, controller: ControllerId, now: Time) -> ErrorCounters {
        let controller = self.controller(controller);
        let bus = &self.buses[controller.bus as usize];
        bus.wire.error_counters(controller.node, now.as_nanos())
    }

    /// Whether some controller is bus-off and will come back.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.buses.iter().any(|bus| bus.config.restart.is_some() && bus.off > 0)
    }

    #[inline]
    fn controller(&self, id: ControllerId) -> &Controller {
        &self.controllers[id.0 as usize]
    }
}

impl Medium for Can {
    type Event = Event;
    type Offer<'a> = Offer<'a>;

    #[inline]
    fn offer<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        at: ControllerId,
        offer: Offer<'_>,
    ) -> Result<(), Cause> {
        let Offer { id, frame, length } = offer;
        self.carries(at, frame, length)?;
        let slot = self.frames.insert(Carried { id, frame: *frame, length });
        let queue = &mut self.controllers[at.0 as usize].queue;
        if queue.push(frame.arbitration_key(), slot).is_err() {
            self.frames.remove(slot);
            return Err(Cause::QueueFull);
        }
        self.call(core, at.0);
        Ok(())
    }

    #[inline]
    fn happen<E: Includes<Event>>(
        &mut self,
        core: &mut Core<E>,
        event: Event,
        outcomes: &mut Vec<Outcome>,
    ) {
        match event {
            Event::Arbitrate(bus) => self.arbitrate(core, bus, outcomes),
            Event::End(bus) => self.end(core, bus, outcomes),
        }
    }
}

#[cfg(test)]
impl Can {
    /// Sets the transmit error counter of a controller.
    pub(crate) fn set_transmit_errors(&mut self, controller: ControllerId, count: u32) {
        let Controller { bus, node, .. } = *self.controller(controller);
        let counters = ErrorCounters { transmit: count, receive: 0 };
        self.buses[bus as usize].wire.set_error_counters(node, counters);
    }

    /// A controller goes bus-off now.
    pub(crate) fn take_off<E: Includes<Event>>(&mut self, core: &mut Core<E>, at: ControllerId) {
        let Controller { bus, node, .. } = *self.controller(at);
        let bus_ref = &mut self.buses[bus as usize];
        bus_ref.wire.take_off(node);
        bus_ref.off += 1;
        self.controllers[at.0 as usize].went_off();
        self.changed.push(at.0);
        self.request_changed(core.now());
        self.plan(core, bus);
        assert_eq!(self.state(at), ErrorState::BusOff);
    }
}

//! CAN controllers: transmit queue, error counters.

use candor_time::Nanos;
use candor_wire::can::{ErrorCounters, ErrorState};

use super::ControllerConfig;
use super::queue::{Queue, Sending};
use crate::event::Time;

/// The slot of a frame that a medium carries.
pub type Slot = u32;

/// How far a bus-off controller is on its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusOff {
    /// From when on it watches for recessive bits, because its driver wants it back; `None`: never.
    pub watches_from: Option<Time>,
    /// Sequences of recessive bits that it has seen, before those of the present silence.
    pub sequences: u32,
    /// Tells stale plans apart.
    pub generation: u32,
}

pub struct Controller {
    pub bus: u32,
    pub queue: Queue<Slot>,
    /// On the wire now.
    pub sending: Option<Sending<Slot>>,
    pub errors: ErrorCounters,
    pub bus_off: Option<BusOff>,
    /// How often it went bus-off.
    pub bus_offs: u64,
    /// It was error-passive when it sent the last frame: it sends no other before this time.
    pub suspended_until: Time,
    /// The driver has yet to load the next frame.
    pub is_reloading: bool,
    pub reload: Nanos,
    pub fault_rate: f64,
    /// Whether it says what it receives.
    pub is_listening: bool,
}

impl Controller {
    pub fn new(bus: u32, config: ControllerConfig) -> Self {
        Self {
            bus,
            queue: Queue::new(config.discipline, config.depth),
            sending: None,
            errors: ErrorCounters::default(),
            bus_off: None,
            bus_offs: 0,
            suspended_until: Time::ZERO,
            is_reloading: false,
            reload: config.reload,
            fault_rate: config.fault_rate,
            is_listening: config.is_listening,
        }
    }

    #[inline]
    pub fn state(&self) -> ErrorState {
        if self.bus_off.is_some() { ErrorState::BusOff } else { self.errors.state() }
    }

    /// The arbitration key of the frame it would send now.
    #[inline]
    pub fn offer(&self) -> Option<u32> {
        if self.bus_off.is_some() || self.is_reloading { None } else { self.queue.head() }
    }

    /// Takes the offered frame onto the wire.
    #[inline]
    pub fn start(&mut self) -> Option<Slot> {
        debug_assert!(self.sending.is_none(), "one frame at a time");
        self.sending = self.queue.take();
        self.on_wire()
    }

    /// The frame that it has on the wire.
    #[inline]
    pub fn on_wire(&self) -> Option<Slot> {
        self.sending.as_ref().map(|sending| sending.item)
    }

    /// How many frames it holds.
    #[inline]
    pub fn held(&self) -> usize {
        self.queue.len() + usize::from(self.sending.is_some())
    }

    /// Counts a destroyed frame of its own, which will be sent again; whether its counter now takes it
    /// off the bus.
    pub fn transmit_error(&mut self) -> bool {
        if let Some(sending) = self.sending.take() {
            self.queue.put_back(sending);
        }
        self.errors.transmit_error()
    }

    #[inline]
    pub fn transmit_success(&mut self) -> Option<Slot> {
        self.errors.transmit_success();
        let sending = self.sending.take()?;
        Some(self.queue.release(&sending))
    }

    /// After 128 times 11 recessive bits.
    pub fn recover(&mut self) {
        self.bus_off = None;
        self.errors = ErrorCounters::default();
    }
}

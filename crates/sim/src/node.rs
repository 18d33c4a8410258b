//! Nodes of a bus whose frames a program sends and receives, through the ports of [`crate::port`].

use std::sync::Arc;

use candor_port::{Origin, ReceiverCounters, TransmitterCounters, Wanted};
use candor_queue::{Discipline, Fifo};
use candor_wire::can::{ErrorCounters, ErrorState, Frame};

use crate::event::Time;
use crate::medium::ControllerId;

/// What a port on a simulated bus is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortConfig {
    /// Frames that the transmit queue of its controller holds, besides the one on the bus.
    pub transmit_queue: usize,
    /// In which order these frames leave.
    pub discipline: Discipline,
    /// Frames that were received and not yet handed over; more are dropped and counted
    /// ([`ReceiverCounters::overflow`]).
    pub receive_queue: usize,
    /// Probability, 0 to 1, that a frame that it sends is destroyed by a fault of its own.
    pub fault_rate: f64,
}

impl Default for PortConfig {
    /// 16 frames to transmit, first in, first out; 256 received frames; no faults.
    fn default() -> Self {
        Self {
            transmit_queue: 16,
            discipline: Discipline::Fifo,
            receive_queue: 256,
            fault_rate: 0.0,
        }
    }
}

/// A frame that a port received, or an error report of its controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) frame: Frame,
    /// The end of the frame on the bus.
    pub(crate) at: Time,
    pub(crate) origin: Origin,
}

/// What such a node has besides its controller.
pub(crate) struct PortNode {
    pub(crate) controller: ControllerId,
    pub(crate) wanted: Wanted,
    /// Whether somebody still receives.
    pub(crate) is_receiving: bool,
    pub(crate) received: Fifo<Arrival>,
    /// Frames that the transmit queue took, and those of them that were transmitted.
    pub(crate) taken: u64,
    pub(crate) transmitted: u64,
    /// The last error state that was reported.
    pub(crate) state: ErrorState,
    pub(crate) receiver_counters: Arc<ReceiverCounters>,
    pub(crate) transmitter_counters: Arc<TransmitterCounters>,
}

impl PortNode {
    pub(crate) fn new(controller: ControllerId, config: &PortConfig, wanted: Wanted) -> Self {
        let depth = if wanted.receiver { config.receive_queue } else { 0 };
        Self {
            controller,
            wanted,
            is_receiving: wanted.receiver,
            received: Fifo::new(depth),
            taken: 0,
            transmitted: 0,
            state: ErrorState::Active,
            receiver_counters: Arc::default(),
            transmitter_counters: Arc::default(),
        }
    }

    /// A frame has ended on the bus at `at`.
    pub(crate) fn arrive(&mut self, frame: &Frame, at: Time, is_own: bool) {
        if !self.is_receiving || is_own && !self.wanted.own_frames {
            return;
        }
        let origin = if is_own { Origin::Own } else { Origin::Bus };
        if self.received.push(Arrival { frame: *frame, at, origin }).is_err() {
            self.receiver_counters.overflow.add(1);
        }
    }

    /// The controller has another error state, with these error counters.
    pub(crate) fn report(&mut self, state: ErrorState, counters: ErrorCounters, at: Time) {
        let before = std::mem::replace(&mut self.state, state);
        if state == before {
            return;
        }
        let troubles = [&self.receiver_counters.trouble, &self.transmitter_counters.trouble];
        match (before, state) {
            (_, ErrorState::BusOff) => troubles.iter().for_each(|it| it.set("bus-off")),
            (ErrorState::BusOff, _) => troubles.iter().for_each(|it| it.clear()),
            _ => {}
        }
        if self.wanted.error_reports
            && let Some(report) = error_report(before, state, counters)
        {
            self.arrive(&report, at, false);
        }
    }
}

/// The error report of a change of state, as drivers of Linux give it (`linux/can/error.h`).
fn error_report(before: ErrorState, now: ErrorState, errors: ErrorCounters) -> Option<Frame> {
    const REPORT: u32 = 0x2000_0000;
    const CONTROLLER: u32 = 0x4;
    const BUS_OFF: u32 = 0x40;
    const RESTARTED: u32 = 0x100;
    const COUNTERS: u32 = 0x200;
    let counted = |status: u8| {
        let count = |count: u32| count.min(255) as u8;
        (
            CONTROLLER | COUNTERS,
            [0, status, 0, 0, 0, 0, count(errors.transmit), count(errors.receive)],
        )
    };
    let (class, data) = match (before, now) {
        (_, ErrorState::BusOff) => (BUS_OFF, [0; 8]),
        (ErrorState::BusOff, _) => (RESTARTED, [0; 8]),
        (_, ErrorState::Active) => counted(0x40),
        (_, ErrorState::Passive) => {
            let transmit = if errors.transmit > 127 { 0x20 } else { 0 };
            counted(transmit | if errors.receive > 127 { 0x10 } else { 0 })
        }
    };
    Frame::from_parts(REPORT | class, &data, None).ok()
}

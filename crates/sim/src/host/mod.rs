//! Hosts: what lies between two controllers.

pub(crate) mod cpu;

use std::collections::VecDeque;

use candor_causes::Cause;
use candor_queue::Fifo;
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::Time;
use crate::can::Queue;
use crate::event::Random;
use crate::flight::{FlightId, PassageTag};
use crate::medium::ControllerId;
use crate::model::{FilterCosts, Linux, Model};
use cpu::{Cpu, LEVELS};

/// How many filters a frame met before something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Entries of filter lists that are walked one by one.
    pub listed: u32,
    /// Single extended identifiers, kept in a list by old kernels and in a hash table by new ones.
    pub extended: u32,
    /// Look-ups of single standard identifiers.
    pub slots: u32,
}

impl Walk {
    /// The time it takes.
    pub(crate) fn cost(self, filter: &FilterCosts) -> Nanos {
        let (in_list, hashed) =
            if filter.extended_in_list { (self.extended, 0) } else { (0, self.extended.min(1)) };
        filter.list(self.listed + in_list) + filter.slot * u64::from(self.slots + hashed)
    }
}

/// A copy that a gateway makes of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// The gateway's name for who made it.
    pub job: u32,
    /// The port it leaves on.
    pub port: u32,
    /// What leaves.
    pub frame: Frame,
    /// What goes along with it.
    pub passage: PassageTag,
    /// Whether local listeners see it, which a virtual port needs.
    pub echo: bool,
    /// Whether it was rewritten.
    pub is_edited: bool,
    /// The filters met before its rule was found, counted from the first.
    pub walk: Walk,
}

/// What a gateway decides about a frame.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// Copies to make, in order.
    pub copies: Vec<Copy>,
    /// Copies refused by the rules: job and cause.
    pub refused: Vec<(u32, Cause)>,
    /// All filters met.
    pub walk: Walk,
}

/// What became of a copy at the egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The queue took it.
    Handled,
    Refused(Cause),
}

/// Decides about frames: the rules.
pub trait Gateway {
    /// Decides about `frame`, received on `port`; it is `now`. `decision` comes empty.
    fn decide(
        &mut self,
        now: Time,
        port: u32,
        frame: &Frame,
        passage: PassageTag,
        decision: &mut Decision,
    );

    /// Learns what became of a copy.
    fn settle(&mut self, job: u32, settled: Settled);
}

/// A connection of a host.
pub(crate) struct HostPort {
    /// The controller; a virtual port has none.
    pub(crate) controller: Option<ControllerId>,
    /// The egress queue in front of the controller.
    pub(crate) egress: Queue<FlightId>,
    /// The receive FIFO of the controller.
    pub(crate) received: Fifo<FlightId>,
    /// Transmit buffers whose transmission is over but not yet noticed by the driver.
    pub(crate) unacknowledged: usize,
    /// The driver has not yet finished with the last interrupt: no new one is raised.
    pub(crate) is_masked: bool,
}

impl HostPort {
    pub(crate) fn new(
        controller: Option<ControllerId>,
        egress: Queue<FlightId>,
        receive_fifo: usize,
    ) -> Self {
        let received = Fifo::new(receive_fifo);
        Self { controller, egress, received, unacknowledged: 0, is_masked: false }
    }
}

/// Work at interrupt level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Something unrelated, of this duration.
    Disturbance(Nanos),
    /// Frames wait in the controller of a port.
    Receive(u32),
    /// Reading one of them, if the driver reads in the handler.
    Read(u32),
    /// A frame of this port has left.
    TransmitDone(u32),
    /// An Ethernet packet; whether it is the last of its request.
    Ethernet(bool),
}

/// A queue that the soft-irq polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poller {
    /// The controller of a port.
    Port(u32),
    /// The shared receive queue.
    Backlog,
}

/// What waits in the shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Frame(FlightId, u32),
    Packet(bool),
}

/// A frame being passed on: its decision, worked off copy by copy.
#[derive(Default)]
pub(crate) struct Delivery {
    pub(crate) flight: Option<FlightId>,
    pub(crate) decision: Decision,
    pub(crate) next: usize,
    pub(crate) walked: Nanos,
}

/// A Linux host at work.
pub(crate) struct LinuxHost {
    pub(crate) model: Linux,
    pub(crate) random: Random,
    pub(crate) cpu: Cpu,
    /// Whether the processor is about to choose its work.
    pub(crate) is_called: bool,
    /// Interrupts, by the level at which they are worked off.
    pub(crate) interrupts: [VecDeque<Interrupt>; LEVELS],
    pub(crate) soft_active: bool,
    pub(crate) polls: VecDeque<Poller>,
    pub(crate) polled: u32,
    pub(crate) backlog_scheduled: bool,
    pub(crate) backlog: VecDeque<Waiting>,
    pub(crate) delivery: Delivery,
    pub(crate) socket: VecDeque<(FlightId, u32)>,
    pub(crate) awake: bool,
    /// The frame the process has received and not yet sent on.
    pub(crate) user_delivery: Delivery,
    pub(crate) fragments_left: u32,
    pub(crate) virtual_ports: Vec<u32>,
}

impl LinuxHost {
    pub(crate) fn new(model: Linux, random: Random) -> Self {
        Self {
            cpu: Cpu::new(model.is_preempt_rt),
            model,
            random,
            is_called: false,
            interrupts: Default::default(),
            soft_active: false,
            polls: VecDeque::new(),
            polled: 0,
            backlog_scheduled: false,
            backlog: VecDeque::new(),
            delivery: Delivery::default(),
            socket: VecDeque::new(),
            awake: false,
            user_delivery: Delivery::default(),
            fragments_left: 0,
            virtual_ports: Vec::new(),
        }
    }

    /// A cost of frames under the present load.
    pub(crate) fn scaled(&self, cost: Nanos) -> Nanos {
        match self.model.slowdown_percent {
            100 => cost,
            percent => Nanos::from_nanos(cost.as_nanos() * u64::from(percent) / 100),
        }
    }

    pub(crate) fn jitter(&mut self) -> Nanos {
        self.random.nanos(Nanos::ZERO, self.model.jitter)
    }

    pub(crate) fn is_virtual(&self, port: u32) -> bool {
        self.virtual_ports.contains(&port)
    }

    pub(crate) fn schedule(&mut self, poller: Poller) {
        if poller == Poller::Backlog && std::mem::replace(&mut self.backlog_scheduled, true) {
            return;
        }
        self.polls.push_back(poller);
    }
}

pub(crate) enum HostKind {
    Constant(Nanos),
    Linux(Box<LinuxHost>),
}

/// A host, its ports and its gateway.
pub(crate) struct Host<G> {
    pub(crate) gateway: G,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) kind: HostKind,
    pub(crate) egress: crate::model::Egress,
    /// Lent to decisions, so that none allocates.
    pub(crate) scratch: Decision,
}

impl<G> Host<G> {
    pub(crate) fn new(model: Model, gateway: G, random: Random) -> Self {
        let (egress, kind) = match model {
            Model::Constant { delay, egress } => (egress, HostKind::Constant(delay)),
            Model::Linux(model) => {
                (model.egress, HostKind::Linux(Box::new(LinuxHost::new(*model, random))))
            }
        };
        Self { gateway, ports: Vec::new(), kind, egress, scratch: Decision::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_costs_what_it_passes() {
        let us = Nanos::from_micros;
        let costs = FilterCosts {
            slot: us(100),
            entry: us(1),
            entry_uncached: us(3),
            cached_entries: 10,
            extended_in_list: true,
        };
        let hashed = FilterCosts { extended_in_list: false, ..costs };
        for ((listed, extended, slots), in_list, in_table) in [
            ((0, 0, 0), 0, 0),
            ((10, 0, 0), 10, 10),
            ((11, 0, 0), 13, 13),
            ((0, 0, 2), 200, 200),
            // Ten entries are in the cache, five are not; or two are not, and one look-up.
            ((12, 3, 2), 10 + 15 + 200, 10 + 6 + 300),
            ((0, 1, 0), 1, 100),
        ] {
            let walk = Walk { listed, extended, slots };
            assert_eq!(walk.cost(&costs), us(in_list), "{walk:?}");
            assert_eq!(walk.cost(&hashed), us(in_table), "{walk:?}");
        }
    }
}

//! [`Network`]: what a network is, described once: buses, nodes with their queues and messages, gateways.
//!
//! The simulation runs it, experiments measure it, and a gateway's rules are checked against it. It is plain
//! data; [`mod@file`] reads it, [`flow`] follows each message through the gateways, and [`bound`] says how late
//! frames can be.
//!
//! ```text
//!  network file ----+                        +--> simulation, experiments
//!  experiment file -+--> file --> Network ---+--> flow: where each message goes, the load of each bus
//!  DBC, rule files -+                        +--> checks of a gateway's rules
//! ```

#![warn(missing_docs)]

pub mod bound;
#[cfg(feature = "file")]
pub mod file;
pub mod flow;
mod message;
pub mod watched;

pub use bound::bounds;
use candor_engine::Table;
pub use candor_queue::Discipline;
use candor_time::Nanos;
use candor_wire::can::Timing;

pub use message::{Message, Payload, longest_transmission, show_id};

/// A network.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// What it is about, in a few words; may be empty.
    pub title: String,
    /// Its buses. Their names differ.
    pub buses: Vec<Bus>,
    /// The nodes that send on the buses.
    pub nodes: Vec<Node>,
    /// The gateways between the buses. Their names differ.
    pub gateways: Vec<Gateway>,
    /// Recordings of buses, which say how densely the messages there come.
    pub recorded: Vec<Recorded>,
}

/// A recording of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The index of the bus.
    pub bus: usize,
    /// The recording, as the network file names it: relative to its folder.
    pub file: String,
}

impl Network {
    /// The index of the bus of that name.
    #[must_use]
    pub fn bus(&self, name: &str) -> Option<usize> {
        self.buses.iter().position(|bus| bus.name == name)
    }
}

/// A CAN bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bus {
    /// The name in files, messages and results.
    pub name: String,
    /// Its bit rates.
    pub timing: Timing,
    /// Whether it carries CAN FD frames.
    pub is_fd: bool,
}

/// A node of a bus: a controller with its transmit queue, and the messages that it sends.
///
/// A computer on two buses is two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name; other buses may have a node of the same name.
    pub name: String,
    /// The index of its bus.
    pub bus: usize,
    /// Its transmit queue.
    pub queue: Queue,
    /// What it sends.
    pub messages: Vec<Message>,
}

/// The transmit queue in front of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// In which order frames leave it.
    pub discipline: Discipline,
    /// How many frames it holds.
    pub depth: usize,
}

impl Default for Queue {
    /// 200 frames (the `txqueuelen` of the papers), the most urgent one first.
    fn default() -> Self {
        Self { discipline: Discipline::Priority, depth: 200 }
    }
}

/// How long a gateway takes from when it has a frame to when a copy is in the transmit queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// At least and at most so long, whatever else comes.
    Between(Nanos, Nanos),
    /// One processor takes each frame that arrives, in their order, for at least and at most so long; also those that no rule
    /// takes.
    PerFrame(Nanos, Nanos),
}

/// A computer that forwards frames from bus to bus by rules.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Its name.
    pub name: String,
    /// How long it takes; `None` if nobody says it.
    pub delay: Option<Delay>,
    /// Its transmit queue on each bus.
    pub queue: Queue,
    /// Its rules. Their buses have the names of the network's; those that are virtual exist inside the
    /// gateway only.
    pub rules: Table,
}

impl Gateway {
    /// A gateway that nobody knows more of than its name and its rules.
    #[must_use]
    pub fn new(name: impl Into<String>, rules: Table) -> Self {
        Self { name: name.into(), delay: None, queue: Queue::default(), rules }
    }
}

//! A CAN bus, exact to the bit: one law for the simulation, for the timed buses of guests, and for the bus between processes.
//!
//! ```text
//!  request --> Node --+
//!  request --> Node --+-- Bus: arbitration, transmission, errors --> Notice, to each node
//!  request --> Node --+
//! ```
//!
//! A [`Bus`] has no clock. It is asked when something happens next ([`Bus::deadline`]) and is brought there
//! ([`Bus::advance`]); what nodes learn goes to a function as [`Notice`]s. Time is in nanoseconds of whatever clock
//! drives it: events of a simulation, the virtual clock of an emulator, or that of the machine.
//!
//! Nodes stand in a slice of whoever drives it, so there is no heap: an array of a fixed size, which an emulator can
//! save and restore, or a list that grows. Which bits are destroyed is decided by [`Faults`].
//!
//! The bits and their laws are those of ISO 11898-1, from [`candor_wire::can::bits`].
//!
//! ```
//! use candor_can::{Bus, Node, NodeId, Notice, Options, Request};
//! use candor_wire::can::Timing;
//!
//! let timing = Timing::classical("1M".parse().unwrap());
//! let mut bus = Bus::new(timing, [Node::TAKES_PART; 2], (), Options::default());
//! let request = Request::new("123#1122334455667788".parse()?, 5_000).unwrap();
//! bus.request(NodeId(0), request);
//!
//! let mut learned = Vec::new();
//! bus.advance(1_000_000, &mut |node, at_ns, notice| learned.push((node.0, at_ns, notice)));
//! // 109 bits of 1 us: receivers have it one bit before its sender knows.
//! let [(0, 5_000, Notice::Started), (1, 113_000, Notice::Received(_)), (0, 114_000, Notice::Sent(_))] = learned[..]
//! else {
//!     panic!("{learned:?}")
//! };
//! # Ok::<(), candor_wire::can::notation::NotationError>(())
//! ```

#![no_std]

mod arbitration;
mod bus;
mod ending;
pub mod error;
mod faults;
mod node;
mod silence;

pub use bus::{Bus, Notice, Options, Passage, Sink, Statistics, WireStage};
pub use faults::{Fault, Faults, MOST_FAULTS, TimedFaults};
pub use node::{Node, NodeId, Request};

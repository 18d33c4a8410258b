//! The hardware of a guest, to the bit: buses that take time, the registers of their controllers, and network links.
//!
//! ```text
//!  guest's driver --> Sja1000 (registers) --> Node --+
//!                                                     +-- Bus: arbitration, transmission, errors
//!  tester ----------------------------------> Node --+
//! ```
//!
//! Nothing here knows of an emulator. A [`Bus`] is asked when something happens next ([`Bus::deadline`]) and
//! is brought there ([`Bus::advance`]); what happened goes to a function as [`Notice`]s. A [`Sja1000`] turns
//! notices into registers and interrupts, and writes to its registers into requests to its node.
//!
//! All state is plain data of a fixed size, without pointers and without a heap: it can lie in memory that an
//! emulator saves and restores. Time is in nanoseconds of the emulator's clock and is handed in.
//!
//! The bits and their laws are those of ISO 11898-1, from [`candor_wire::can::bits`]; the registers are those of
//! the SJA1000 data sheet (Philips, 2000 January 4) in PeliCAN mode. `tests/` holds the bus against that of
//! `candor_sim`: the same frames offered give the same instants.

#![no_std]

pub mod bus;
pub mod error;
pub mod ethernet;
mod node;
pub mod sja1000;

pub use bus::{Bus, NodeId, Notice, Passage};
pub use node::Request;
pub use sja1000::Sja1000;

//! The hardware of a guest, to the bit: buses that take time, the registers of their controllers, and network links.
//!
//! ```text
//!  guest's driver --> Sja1000 (registers) --> Node --+
//!                                                     +-- Bus: arbitration, transmission, errors
//!  tester ----------------------------------> Node --+
//! ```
//!
//! Nothing here knows of an emulator. A [`Bus`] is one of [`candor_can`]; a [`Sja1000`] turns its notices into registers
//! and interrupts, and writes to its registers into requests to its node.
//!
//! All state is plain data of a fixed size, without pointers and without a heap: it can lie in memory that an
//! emulator saves and restores. Time is in nanoseconds of the emulator's clock and is handed in.
//!
//! The registers are those of the SJA1000 data sheet (Philips, 2000 January 4) in PeliCAN mode.

#![no_std]

pub mod bus;
pub mod ethernet;
pub mod sja1000;

pub use bus::Bus;
pub use sja1000::Sja1000;

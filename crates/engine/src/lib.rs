//! Which frames go where and how they change: tables of rules, compiled, decided per frame.
//!
//! ```text
//!  cold: may fail                          hot: bounded, no allocation, cannot fail
//!  Table of rules -- compile --> Program -----> Engine::handle(bus, frame) --> Forward...
//!                                                      |
//!                                               Counters, by cause
//! ```
//!
//! The meaning of a rule is that of the Linux kernel's can-gw (`net/can/gw.c`): every matching rule
//! fires; the modifications run in the fixed order AND, OR, XOR, SET, and within each on identifier,
//! length, flags, data; then CRC8, then the XOR checksum. The kernel is the oracle for every rule
//! it can express; [`extension`] has what it cannot.
//!
//! This crate reads no files (`candor-rules` does), no clock, and needs only an allocator, for the tables:
//! it runs on a microcontroller, too.

#![warn(missing_docs)]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod counters;
pub mod edit;
mod engine;
pub mod extension;
pub mod image;
pub mod program;
#[cfg(feature = "serde")]
mod serial;
pub mod table;

pub use edit::Edit;
pub use engine::{Egress, Engine, Forward, Hop, Hops, Passage, Succession};
pub use extension::Extension;
pub use program::Program;
pub use table::{Bus, BusIndex, Filter, Gate, Rule, Table};

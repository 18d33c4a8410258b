//! Rules: what a user writes, checked, compiled, and decided per frame.
//!
//! ```text
//!  cold: may fail, with file:line:column           hot: bounded, no allocation, cannot fail
//!  rules.toml -- file --> Table -- check --> Program -----> Engine::handle(bus, frame) --> Forward...
//!  cangw -L   -- cangw ->   |                                      |
//!                           +-- job --> cangw: commands        Counters, by cause
//!                                   +-> netlink: bytes for the kernel
//! ```
//!
//! The meaning of a rule is that of the Linux kernel's can-gw (`net/can/gw.c`): every matching rule
//! fires; the modifications run in the fixed order AND, OR, XOR, SET, and within each on identifier,
//! length, flags, data; then CRC8, then the XOR checksum. The kernel is the oracle for every rule
//! it can express.
#![no_std]

extern crate alloc;
#[cfg(feature = "file")]
extern crate std;

#[cfg(feature = "file")]
pub mod cangw;
pub mod cause;
#[cfg(feature = "file")]
pub mod check;
pub mod counters;
pub mod edit;
pub mod engine;
pub mod explain;
pub mod extension;
#[cfg(feature = "file")]
pub mod file;
pub mod job;
pub mod netlink;
pub mod pattern;
pub mod program;
#[cfg_attr(
    not(feature = "file"),
    allow(dead_code, reason = "some questions are those of the check of files")
)]
mod region;
#[cfg(feature = "serde")]
mod serial;
pub mod table;

pub use edit::Edit;
pub use engine::Engine;
pub use extension::Extension;
pub use program::Program;
pub use table::{Bus, BusIndex, Filter, Gate, Rule, Table};

//! Rules as users write them: read, checked, explained, written, handed to the kernel.
//!
//! ```text
//!  rules.toml -- file --> Table -- check --> candor_engine::Program
//!  cangw -L   -- cangw ->   |
//!                           +-- job --> cangw: commands
//!                                   +-> netlink: bytes for the kernel
//! ```
//!
//! What a rule means is defined by `candor-engine`; its `Table` is what all of this is about. Without the
//! feature `file`, this crate needs only an allocator.
#![no_std]

extern crate alloc;
#[cfg(feature = "file")]
extern crate std;

pub mod candor_can;
#[cfg(feature = "file")]
pub mod cangw;
#[cfg(feature = "file")]
pub mod check;
pub mod explain;
#[cfg(feature = "file")]
pub mod file;
pub mod job;
pub mod netlink;
pub mod pattern;
#[cfg_attr(
    not(feature = "file"),
    allow(dead_code, reason = "some questions are those of the check of files")
)]
mod region;

//! The program that is `/init` in guests, as bytes.
//!
//! `build.rs` builds `../guest` for the guests. That takes longer than any crate of ours, so only the
//! binary that carries the program, and tests that boot guests, depend on this crate: everything else
//! compiles beside it.

/// The program, statically linked for Linux on x86-64; empty on other platforms.
pub static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/candor-guest"));

//! Routes frames without an operating system, and counts.
//!
//! ```text
//!  Source --> receive ring --> Engine --> queues of each bus --> checked and counted
//!  (PendSV)     (spsc)       (image)     (User)
//! ```
//!
//! On the board it prints what it counted, and what that cost. Elsewhere it prints the same counts, made by
//! the same crates, so that the two can be compared.
#![cfg_attr(target_os = "none", no_std, no_main)]

extern crate alloc;

#[cfg(target_os = "none")]
mod board;
mod gateway;
mod source;

/// How often the source sends and the gateway works.
const TURNS: u32 = 10_000;
/// How many frames the receive ring has room for; the longest bursts have more.
const RECEIVE_SLOTS: u32 = 12;

/// The rules, compiled by `build.rs`.
static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gateway.image"));

#[cfg(not(target_os = "none"))]
fn main() {
    use candor_queue::{Policy, spsc};

    let (producer, consumer) = spsc::queue(RECEIVE_SLOTS, Policy::OverwriteOldest);
    let mut source = source::Source::new(producer);
    let mut gateway = gateway::Gateway::new(IMAGE, consumer);
    for turn in 0..TURNS {
        source.burst();
        gateway.turn(turn);
    }
    print!("{}", gateway.report(&source));
}

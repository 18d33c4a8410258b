//! The test bed around a guest: buses that take time, the guest's controllers on them, and a tester of its own.
//!
//! ```text
//!            bus "source"            guest             bus "target"
//!   tester ─────┬──────────── SJA1000   SJA1000 ────────────┬───── tester
//!   sends as the [`Plan`]        gateway under test          receives
//!   says, or answers
//!                    every frame on every bus ──► [`Record`]s
//!
//!   station ──────────────────── network card
//!   sends datagrams, counts answers
//! ```
//!
//! [`TestBed`] is the whole bed as plain data of a fixed size. An emulator asks it when something happens next
//! ([`TestBed::deadline`]), brings it there ([`TestBed::advance`]), and hands it what the guest reads and writes. What
//! happened goes to the [`Machine`] around it as [`Record`]s.
//!
//! The tester is no program of the guest: it needs none of its time, and it sends at the instant that the plan says,
//! whatever the guest is doing.

#![no_std]

#[cfg(any(feature = "write", test))]
extern crate alloc;

mod answers;
pub mod datagram;
pub mod frame;
mod machine;
mod network;
mod plan;
mod record;
mod station;
mod test_bed;
mod tester;

/// The I/O port through which the guest and the tester meet.
pub mod port {
    /// Its number: writing tells the tester what the guest does, reading tells how far the tester is.
    pub const TESTER: u16 = 0x540;
    /// Written to start the tester.
    pub const START: u8 = 1;
    /// Written when the guest has sent everything: the end of a plan without senders.
    pub const OVER: u8 = 2;
    /// What it reads as until the tester is done. Where there is no such port, 0xFF is read.
    pub const NOT_DONE: u8 = 0x43;
    /// What it reads as when the tester is done.
    pub const DONE: u8 = 0x44;
}

pub use answers::MOST_ANSWERS;
pub use machine::Machine;
pub use plan::{
    Answer, BusPlan, MOST_BUSES, MOST_CARDS, MOST_SENDERS, Pace, Plan, PlanError, SenderPlan, Step,
};
#[cfg(any(feature = "write", test))]
pub use plan::{Contents, write};
pub use record::{Event, RECORD_BYTES, Record, RecordError};
pub use station::{StationCount, StationPace, StationPlan};
pub use test_bed::{MOST_CONTROLLERS, TestBed, TestBedError};
pub use tester::{QUIET_NS, STARVED_NS};

//! Round trips over any port, as canping measures them (Sojka and Píša 2010): a master sends requests, a slave answers each
//! with a frame of the same data under another identifier, and the time in between is the round trip.
//!
//! ```text
//!  Master: requests by plan --> Transmitter ... bus ... Receiver --> Slave: answer()
//!     |                                                               |
//!     +<-- take() <----------- Receiver ... bus ... Transmitter <-----+
//! ```
//!
//! | module | what it gives |
//! |---|---|
//! | [`pair`] | the identifiers of requests and answers |
//! | [`master`] | when requests are due, which answer belongs to which, and what became of each: no I/O, no clock |
//! | [`run`] | master and slave at work on ports |
//! | [`Wire`] | round trips against the shortest that the bus allows |
//!
//! A round trip begins when the request is handed to the port and ends when the port hands over the answer, so it has in it
//! what both programs, both systems and the bus take. An answer that comes after the timeout is late, and its time counts
//! like all others; only a request without any answer is lost.

pub mod master;
pub mod pair;
pub mod run;
mod wire;

pub use master::{Counts, Master, Outcome, Pace, Plan, PlanError, Track, Trip};
pub use pair::{Pair, shortest};
pub use wire::{Wire, section};

#[cfg(test)]
mod tests;

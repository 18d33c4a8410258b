//! Nanoseconds, and instants that know their clock.
//!
//! Every crate that decides or models is handed the time. A duration is a [`Nanos`]. An instant is an
//! [`Instant<C>`] and carries its clock `C` in its type, so that two instants of different clocks do not
//! subtract:
//!
//! ```
//! use candor_time::{Instant, Nanos, Virtual};
//! let sent: Instant<Virtual> = Instant::from_nanos(1_000);
//! let received = sent + Nanos::from_micros(35);
//! assert_eq!(received - sent, Nanos::from_nanos(35_000));
//! ```
//!
//! ```compile_fail
//! use candor_time::{Instant, Recorded, Virtual};
//! let simulated: Instant<Virtual> = Instant::from_nanos(0);
//! let recorded: Instant<Recorded> = Instant::from_nanos(0);
//! let _ = recorded - simulated; // two clocks: does not compile
//! ```
#![no_std]

pub mod civil;
mod instant;
mod nanos;

pub use instant::{Clock, Hardware, Instant, Monotonic, Realtime, Recorded, Virtual};
pub use nanos::{Nanos, ParseNanosError};

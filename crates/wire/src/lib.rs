//! Bytes and values on the wire, by medium.
//!
//! This crate has no clock, no I/O, no allocator and no `unsafe`.
//!
//! | module | what it knows |
//! |---|---|
//! | [`can`] | CAN frames, their exact bits on the wire, and tunnels |
//! | [`eth`] | Ethernet headers, check sequences, UDP datagrams, time-triggered traffic, and how long frames take on a link |
//!
//! ```
//! use candor_wire::can::{bits, Bitrate, Frame, Timing};
//!
//! let frame: Frame = "123#1122334455667788".parse()?;
//! let length = bits::length(&frame)?;
//! assert_eq!((length.total(), length.stuff_bits), (112, 1));
//!
//! let timing = Timing::classical("500k".parse::<Bitrate>()?);
//! assert_eq!(timing.duration_ns(length), 224_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]
#![no_std]

#[cfg(test)]
extern crate alloc;

pub mod can;
pub mod eth;

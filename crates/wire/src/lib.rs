//! Bytes and values: CAN frames, their exact bits on the wire, and tunnels.
//!
//! This crate has no clock, no I/O, no allocator and no `unsafe`.
//!
//! | module | what it knows |
//! |---|---|
//! | [`frame`] | [`Frame`]: one value that is always legal, for classical CAN, CAN FD and error frames |
//! | [`notation`] | `123#DEADBEEF` and back |
//! | [`socketcan`] | the layouts of `struct can_frame` and `struct canfd_frame` |
//! | [`field`] | [`Field`]: a number in the data of a frame, with the bit numbers of DBC files |
//! | [`bits`] | every bit on the wire: CRC, stuffing, exact and worst-case lengths |
//! | [`bitrate`] | `500k`, and how long so many bits take |
//! | [`tunnel`] | CAN over Ethernet: cannelloni, can2udp, python-can's multicast |
//!
//! ```
//! use candor_wire::{bits, Bitrate, Frame, Timing};
//!
//! let frame: Frame = "123#1122334455667788".parse()?;
//! let length = bits::length(&frame)?;
//! assert_eq!((length.total(), length.stuff_bits), (112, 1));
//!
//! let timing = Timing::classical("500k".parse::<Bitrate>()?);
//! assert_eq!(timing.duration_ns(length), 224_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]

#[cfg(test)]
extern crate alloc;

pub mod bitrate;
pub mod bits;
pub mod field;
pub mod frame;
pub mod notation;
pub mod socketcan;
pub mod tunnel;

pub use bitrate::{Bitrate, Timing, UnusualRates};
pub use embedded_can::{ExtendedId, Id, StandardId};
pub use field::{ByteOrder, Field};
pub use frame::{Frame, FrameError, Kind};

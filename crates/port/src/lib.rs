//! One interface to every bus: names, what a port can do, the half that receives and the half that
//! transmits.
//!
//! ```text
//!  "packet:can0?gather=5ms" -- Address -- a driver --> Port { Receiver, Transmitter }
//! ```
//!
//! A port has two halves, so that two threads can use them. Neither half allocates once it is open, and
//! neither knows what frames are for. Both are to be kept as long as one of them is used: they may share
//! a connection. A [`Driver`] is a kind of port, a [`Registry`] the drivers that a program has; those of Candor
//! are in `candor-drivers`. This crate knows no operating system, but that some have descriptors to wait on.

#![warn(missing_docs)]

mod address;
mod control;
mod driver;
mod error;
mod filter;
mod handover;
mod port;

pub use address::{Address, AddressError};
pub use control::{Control, State, Status};
pub use driver::{Driver, Medium, Registry};
pub use error::{Error, ErrorKind};
pub use filter::Filter;
pub use handover::{Endpoint, Handover};
pub use port::{
    Capabilities, Count, Message, Origin, Port, Progress, Received, Receiver, ReceiverCounters,
    Sent, Stamp, Transmitter, TransmitterCounters, Trouble, Until, Waker, Wanted,
};

//! One interface to every bus: names, what a port can do, the half that receives and the half that
//! transmits.
//!
//! ```text
//!  "can0?gather=5ms" -- Address -- a driver --> Port { Receiver, Transmitter }
//! ```
//!
//! A port has two halves, so that two threads can use them. Neither half allocates once it is open, and
//! neither knows what frames are for. Both are to be kept as long as one of them is used: they may share
//! a connection. The drivers are in `candor-drivers`; this crate needs no operating system but an
//! allocator and `std`.

mod address;
mod error;
mod estate;
mod port;

pub use address::{Address, AddressError};
pub use error::Error;
pub use estate::{Endpoint, Estate};
pub use port::{
    Capabilities, Count, Message, Origin, Port, Progress, Received, Receiver, ReceiverCounters,
    Sent, Stamp, Transmitter, TransmitterCounters, Trouble, Wanted,
};

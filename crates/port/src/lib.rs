//! One interface to every bus.
//!
//! ```text
//!  "can0?gather=5ms" -- Address -- open --> Port { Receiver, Transmitter }
//! ```
//!
//! A port has a half that receives and a half that transmits, so that two threads can use them.
//! Neither half allocates once it is open, and neither knows what frames are for. Both are to be
//! kept as long as one of them is used: they may share a connection. A receiver that waits is
//! interrupted by a signal, see [`candor_linux::wake`].
//!
//! | name | bus |
//! |---|---|
//! | `can0`, `socketcan:can0` | an interface of Linux, by a CAN socket |
//! | `packet:can0` | the same, by a packet socket with a ring |
//! | `cannelloni:udp://host:20000`, `cannelloni:tcp://host:20000` | CAN over Ethernet as cannelloni does it |
//! | `can2udp:0.0.0.0:4858` | a frame per datagram, as Cogent's can2udp does it |
//! | `multicast:239.74.163.2` | python-can's `udp_multicast` |
//! | `sim:bench` | a bus that takes its time, without a controller |
//! | `file:drive.log` | a recording |
//!
//! To add a driver: write one file in `driver/`, name it in its registry, and add a test to
//! `tests/conformance.rs`, which runs what holds for every port.

mod address;
pub mod driver;
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

//! CAN: frames, their exact bits on the wire, and tunnels.
//!
//! | module | what it knows |
//! |---|---|
//! | [`frame`] | [`Frame`]: one value that is always legal, for classical CAN, CAN FD and error frames |
//! | [`notation`] | `123#DEADBEEF` and back |
//! | [`socketcan`] | the layouts of `struct can_frame` and `struct canfd_frame` |
//! | [`field`] | [`Field`]: a number in the data of a frame, with the bit numbers of DBC files |
//! | [`bits`] | every bit on the wire: CRC, stuffing, exact and worst-case lengths |
//! | [`confinement`] | [`ErrorCounters`] of a node and the [`ErrorState`] that follows from them |
//! | [`bitrate`] | `500k`, and how long so many bits take |
//! | [`tunnel`] | CAN over UDP: cannelloni, can2udp, python-can's multicast |

pub mod bitrate;
pub mod bits;
pub mod confinement;
pub mod field;
pub mod frame;
pub mod notation;
pub mod socketcan;
pub mod tunnel;

pub use bitrate::{Bitrate, Timing, UnusualRates};
pub use confinement::{ErrorCounters, ErrorState};
pub use embedded_can::{ExtendedId, Id, StandardId};
pub use field::{ByteOrder, Field};
pub use frame::{Frame, FrameError, Kind};

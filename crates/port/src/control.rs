//! [`Control`]: what a port tells of its controller.

use crate::Error;

/// What a port tells beside its frames, from any thread.
pub trait Control: Send + Sync {
    /// How the controller gets on with its bus, now.
    ///
    /// # Errors
    /// It cannot be asked; the controller is away.
    fn status(&self) -> Result<Status, Error>;
}

/// How a controller gets on with its bus. What is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Its state.
    pub state: State,
    /// Its receive error counter.
    pub receive_errors: Option<u32>,
    /// Its transmit error counter.
    pub transmit_errors: Option<u32>,
    /// The nominal bit rate, in bit/s.
    pub bitrate: Option<u32>,
    /// The bit rate of the data phase of CAN FD, in bit/s.
    pub data_bitrate: Option<u32>,
}

/// The state of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody knows: there is no controller, or it does not tell.
    #[default]
    Unknown,
    /// It is not on the bus: switched off, or not yet switched on.
    Stopped,
    /// Error-active.
    Active,
    /// Error-active, and an error counter has reached 96.
    Warning,
    /// Error-passive.
    Passive,
    /// Bus-off.
    BusOff,
}

//! What became of each frame.

use candor_lat::Taps;
use candor_wire::Frame;

use crate::event::Time;

/// Why a frame got no further. A gateway adds causes of its own.
pub mod cause {
    /// The sender's transmit queue was full.
    pub const SENDER_QUEUE_FULL: &str = "sender_queue_full";
    /// Another node sent the very same frame at the same time: on the bus they were one.
    pub const MERGED: &str = "merged";
    /// The gateway's controller was bus-off.
    pub const BUS_OFF: &str = "bus_off";
    /// The receive FIFO of the gateway's controller was full.
    pub const RX_OVERFLOW: &str = "rx_overflow";
    /// The host's receive queue, shared with Ethernet, was full.
    pub const BACKLOG_FULL: &str = "backlog_full";
    /// The socket buffer of the user-space gateway was full.
    pub const SOCKET_FULL: &str = "socket_full";
    /// No rule took the frame.
    pub const NO_RULE: &str = "no_rule";
    /// No rule took the frame on a virtual bus that a rule had put it on.
    pub const NO_FURTHER_RULE: &str = "no_further_rule";
    /// The egress queue was full.
    pub const QUEUE_FULL: &str = "queue_full";
    /// CAN FD towards a bus that carries classical frames only.
    pub const UNSUPPORTED: &str = "unsupported";
    /// Sent to a virtual bus without `echo`: vcan discards it.
    pub const VIRTUAL_WITHOUT_ECHO: &str = "virtual_without_echo";
    /// Still under way when nothing could move any more, such as behind a bus-off controller.
    pub const UNFINISHED: &str = "unfinished";
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A copy reached its bus.
    Forwarded,
    /// It reached its own bus, and no gateway listens there.
    Delivered,
    /// It got no further; see [`cause`].
    Refused(&'static str),
}

/// The end of a frame, or of one copy of it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The number of the frame as it was sent, from 0, counted over all senders.
    pub identity: u64,
    /// Who sent it.
    pub sender: u32,
    /// The frame as it was sent.
    pub sent: &'a Frame,
    /// The frame as it ended.
    pub frame: &'a Frame,
    /// How it ended.
    pub fate: Fate,
    /// The job of the gateway whose copy it was.
    pub job: Option<u32>,
    /// When it passed the taps. `source_end` and `target_end` are what the instrument saw.
    pub taps: &'a Taps,
    /// The exact time on the target bus from start to end of frame, in ns, without intermission;
    /// zero unless it was transmitted there.
    pub transmission_ns: u64,
}

/// Takes the records, in the order in which the frames end.
pub trait Observer {
    /// One more frame, or copy, has ended.
    fn record(&mut self, record: &Record<'_>);

    /// Called now and then; `false` stops the simulation.
    fn proceed(&mut self, now: Time, sent: u64) -> bool {
        let _ = (now, sent);
        true
    }
}

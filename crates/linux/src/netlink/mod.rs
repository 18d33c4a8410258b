//! A small client of rtnetlink: links, addresses, queues and can-gw jobs of a network namespace.
//!
//! ```text
//!  links, set_up, create_vcan, add_address ...  -- interfaces.rs, link.rs --+
//!  queue                                        -- queue.rs ----------------+--> connection.rs --> kernel
//!  add_job, jobs (payload of rules::netlink)    -- jobs.rs -----------------+     | message.rs
//!                                           a dump, or an acknowledgement with the kernel's own words
//! ```
//!
//! Answers are untrusted bytes: whatever they are, they are decoded within their bounds.

mod connection;
mod interfaces;
mod jobs;
mod link;
mod message;
mod monitor;
mod queue;

pub use self::connection::Netlink;
pub use self::link::{
    CanSettings, CanState, Condition, ErrorCounters, Link, Statistics, decode_link,
};
pub use self::monitor::{Event, Monitor};
pub use self::queue::{Queue, decode_queue};

use self::message::{DONE, ERROR, Message, NEW_QUEUE, acknowledgement, end_of_dump, messages};

/// The messages of a datagram of the kernel, each decoded as what it may be: how many were
/// understood. For tests with untrusted bytes.
#[must_use]
pub fn decode_datagram(bytes: &[u8]) -> usize {
    let understood = |message: Message<'_>| match message.kind {
        ERROR => acknowledgement(&message).is_some(),
        DONE => end_of_dump(&message).is_some(),
        NEW_QUEUE => decode_queue(message.payload).is_some(),
        _ => decode_link(message.payload).is_some(),
    };
    messages(bytes).filter(|message| understood(*message)).count()
}

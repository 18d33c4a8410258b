//! What `candor ping` and `candor pong` print.

use candor_ping::run::Answered;

use super::table::objects;

objects! {
    /// What a slave has done.
    "answered" of "pong" for (&str, Answered) as (port, it) {
        /// The port
        port = port;
        /// Requests answered
        answered = it.answered;
        /// Answers that the port did not take
        dropped = it.dropped;
    }
}

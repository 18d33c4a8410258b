//! What `candor ping` and `candor pong` print.

use candor_ping::run::Answered;

use super::report::Tick;
use crate::json::objects;

objects! {
    /// Round trips of an interval.
    "interval" of "ping" for Tick<'_> as it {
        /// When the interval ended, in ns since the first request could be sent
        time_ns = it.time;
        /// Requests sent in the interval
        sent = it.counts.sent - it.last.sent;
        /// Answers that came in the interval, within the timeout
        answered = it.counts.answered - it.last.answered;
        /// Answers that came in the interval, later than that
        late = it.counts.late - it.last.late;
        /// Requests whose timeout ended in the interval without an answer, less those answered late
        lost = it.lost();
        /// The shortest round trip that ended in the interval, in ns; null if there is none
        round_trip_ns_min = it.round_trips_ns.first();
        /// Half of them are at most this, in ns
        round_trip_ns_p50 = it.quantile(50);
        /// 99 of 100 are at most this, in ns
        round_trip_ns_p99 = it.quantile(99);
        /// The longest of them, in ns
        round_trip_ns_max = it.round_trips_ns.last();
    }

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

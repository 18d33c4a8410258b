//! What `candor ping` and `candor pong` print.

use candor_ping::run::Answered;

use super::report::{RoundTrips, Tick, waiting};
use crate::bus::live::hex_word;
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
        lost = it.counts.lost as i64 - it.last.lost as i64;
        /// The shortest round trip that ended in the interval, in ns; null if there is none
        round_trip_ns_min = it.round_trips_ns.first();
        /// Half of them are at most this, in ns
        round_trip_ns_p50 = it.quantile(50);
        /// 99 of 100 are at most this, in ns
        round_trip_ns_p99 = it.quantile(99);
        /// The longest of them, in ns
        round_trip_ns_max = it.round_trips_ns.last();
    }

    /// How the requests of one ping fared, or those of all.
    "round_trips" of "ping" for RoundTrips as it {
        /// The identifier of the requests, in hex as candump writes it; null for all pings together
        request = it.pair.map(|(request, _)| hex_word(request));
        /// The identifier of the answers; null for all pings together
        answer = it.pair.map(|(_, answer)| hex_word(answer));
        /// Requests sent
        sent = it.counts.sent;
        /// Requests answered within the timeout
        answered = it.counts.answered;
        /// Requests answered later than that; their round trips count like all others
        late = it.counts.late;
        /// Requests without an answer
        lost = it.counts.lost;
        /// Requests that still waited for their answer when the command was ended
        waiting = waiting(&it.counts);
        /// Answers to what was answered already
        duplicates = it.counts.duplicates;
        /// Frames with the identifier of an answer, but with other data than any request
        strange = it.counts.strange;
        /// The shortest round trip, in ns; null if there is none, as with those below
        round_trip_ns_min = it.summary.as_ref().map(|it| it.min_ns);
        /// Half of the round trips are at most this, in ns
        round_trip_ns_p50 = it.summary.as_ref().map(|it| it.p50_ns);
        /// 90 of 100 are at most this, in ns
        round_trip_ns_p90 = it.summary.as_ref().map(|it| it.p90_ns);
        /// 99 of 100 are at most this, in ns
        round_trip_ns_p99 = it.summary.as_ref().map(|it| it.p99_ns);
        /// 999 of 1,000 are at most this, in ns
        round_trip_ns_p999 = it.summary.as_ref().map(|it| it.p999_ns);
        /// The longest round trip, in ns
        round_trip_ns_max = it.summary.as_ref().map(|it| it.max_ns);
        /// The mean, in ns
        round_trip_ns_mean = it.summary.as_ref().map(|it| it.mean_ns);
        /// The standard deviation, in ns
        round_trip_ns_stddev = it.summary.as_ref().map(|it| it.stddev_ns);
        /// Of the shortest round trips that the bus allows, by the exact lengths of the frames that were answered:
        /// the shortest, in ns; null without a bit rate
        wire_ns_min = it.range.map(|(least, _)| least);
        /// The longest of these, in ns
        wire_ns_max = it.range.map(|(_, most)| most);
        /// By how much half of the round trips exceed the shortest that the bus allows for their frames, at most,
        /// in ns
        above_wire_ns_p50 = it.above.as_ref().map(|it| it.p50_ns);
        /// By how much 99 of 100 exceed it, at most, in ns
        above_wire_ns_p99 = it.above.as_ref().map(|it| it.p99_ns);
        /// By how much the worst exceeds it, in ns
        above_wire_ns_max = it.above.as_ref().map(|it| it.max_ns);
        /// With `--paced`: how long after they were due half of the requests were sent, at most, in ns; else null
        sent_late_ns_p50 = it.lateness.as_ref().map(|it| it.p50_ns);
        /// The same of the latest one, in ns
        sent_late_ns_max = it.lateness.as_ref().map(|it| it.max_ns);
        /// The latency profile, of at most 200 points
        profile;
    }

    /// A point of a latency profile.
    (i64, u64) as (round_trip_ns, count) {
        /// A round trip, in ns
        round_trip_ns = round_trip_ns;
        /// How many round trips are at least as long
        count = count;
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

//! The object `round_trips` of `candor ping`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// How the requests of one ping fared, or those of all.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RoundTrips {
    /// The identifier of the requests, in hex as candump writes it; null for all pings together
    pub(crate) request: Option<String>,
    /// The identifier of the answers; null for all pings together
    pub(crate) answer: Option<String>,
    /// Requests sent
    pub(crate) sent: u64,
    /// Requests answered within the timeout
    pub(crate) answered: u64,
    /// Requests answered later than that; their round trips count like all others
    pub(crate) late: u64,
    /// Requests without an answer
    pub(crate) lost: u64,
    /// Requests that still waited for their answer when the command was ended
    pub(crate) waiting: u64,
    /// Answers to what was answered already
    pub(crate) duplicates: u64,
    /// Frames with the identifier of an answer, but with other data than any request
    pub(crate) strange: u64,
    /// The shortest round trip, in ns; null if there is none, as with those below
    pub(crate) round_trip_ns_min: Option<i64>,
    /// Half of the round trips are at most this, in ns
    pub(crate) round_trip_ns_p50: Option<i64>,
    /// 90 of 100 are at most this, in ns
    pub(crate) round_trip_ns_p90: Option<i64>,
    /// 99 of 100 are at most this, in ns
    pub(crate) round_trip_ns_p99: Option<i64>,
    /// 999 of 1,000 are at most this, in ns
    pub(crate) round_trip_ns_p999: Option<i64>,
    /// The longest round trip, in ns
    pub(crate) round_trip_ns_max: Option<i64>,
    /// The mean, in ns
    pub(crate) round_trip_ns_mean: Option<f64>,
    /// The standard deviation, in ns
    pub(crate) round_trip_ns_stddev: Option<f64>,
    /// Of the shortest round trips that the bus allows, by the exact lengths of the frames that were answered: the shortest,
    /// in ns; null without a bit rate
    pub(crate) wire_ns_min: Option<u64>,
    /// The longest of these, in ns
    pub(crate) wire_ns_max: Option<u64>,
    /// By how much half of the round trips exceed the shortest that the bus allows for their frames, at most, in ns
    pub(crate) above_wire_ns_p50: Option<i64>,
    /// By how much 99 of 100 exceed it, at most, in ns
    pub(crate) above_wire_ns_p99: Option<i64>,
    /// By how much the worst exceeds it, in ns
    pub(crate) above_wire_ns_max: Option<i64>,
    /// With `--paced`: how long after they were due half of the requests were sent, at most, in ns; else null
    pub(crate) sent_late_ns_p50: Option<i64>,
    /// The same of the latest one, in ns
    pub(crate) sent_late_ns_max: Option<i64>,
    /// The latency profile, of at most 200 points
    pub(crate) profile: Vec<ProfilePoint>,
}

/// A point of a latency profile.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ProfilePoint {
    /// A round trip, in ns
    pub(crate) round_trip_ns: i64,
    /// How many round trips are at least as long
    pub(crate) count: u64,
}

impl Object for RoundTrips {
    const TYPE: &'static str = "round_trips";
    const COMMANDS: &'static [&'static str] = &["ping"];
}

//! The response times of a bus whose nodes offer their most urgent frame at every arbitration.
//!
//! # The law
//!
//! Take a message `m` with the longest transmission `C`, the period `T` and the release jitter `J`: its `n`-th frame is queued at
//! some time of `[a + nT, a + nT + J]`. Nothing stops a transmission, so a frame waits for
//!
//! - **blocking**: the longest less urgent frame `B`, which began just before it was queued, whoever sends it;
//! - **interference**: every more urgent frame that is queued before its own transmission begins. In a time `t` a message `k` has
//!   at most `ceil((t + J_k) / T_k)` of them: its first one late by `J_k`, all others early. One that is queued within the bit
//!   time `tau` in which this frame begins still wins, so it is counted up to `t + tau`;
//! - **its own frames before it**: since frames cannot be interrupted, one that is sent late pushes back what others had to wait
//!   for into the time of the next one. So it does not suffice to look at the first frame (the fault of Tindell's analysis of
//!   1994): all of them within a busy period count.
//!
//! The busy period of `m` is the least `t > 0` with `t = B + sum of ceil((t + J_k) / T_k) C_k` over all `k` at least as urgent as
//! `m`. It has `Q = ceil((t + J) / T)` frames of `m`. The `q`-th of them, from 0, begins at the least
//!
//! ```text
//! w(q) = B + q C + sum over k more urgent than m of ceil((w(q) + J_k + tau) / T_k) C_k
//! ```
//!
//! and ends at `w(q) + C`, counted from the earliest time at which the first one could have been queued; its own nominal release
//! is `q T` later. So its response time, from the nominal release, is at most `R(q) = J + w(q) - q T + C`, and the bound is the
//! greatest of all `q`.
//!
//! R. Davis, A. Burns, R. Bril, J. Lukkien, "Controller Area Network (CAN) schedulability analysis: Refuted, revisited and
//! revised", Real-Time Systems 35 (2007), pages 239 to 272.
//!
//! # What is taken where the law has an edge
//!
//! The safe side: the whole blocking frame counts, though a bit of it has passed; `tau` is a whole bit time; transmissions have
//! the intermission in them, so a frame ends 3 bits before its bound at the latest; times that are no whole nanoseconds are
//! rounded up. Two streams of one key are both in each other's way.

/// What sends frames of one identifier on a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The lower, the more urgent: [`Frame::arbitration_key`](candor_wire::can::Frame::arbitration_key).
    pub key: u32,
    /// The longest transmission, intermission included, in ns, rounded up.
    pub transmission_ns: u64,
    /// The time from one nominal release to the next, in ns; above 0.
    pub period_ns: u64,
    /// For how long a frame may be queued after its nominal release, in ns.
    pub jitter_ns: u64,
}

/// How late the frames of a stream can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The longest less urgent frame, in ns.
    pub blocking_ns: u64,
    /// How long the bus is busy at worst with frames that are at least as urgent, in ns.
    pub busy_ns: u64,
    /// Frames of the stream in that time.
    pub instances: u64,
    /// Which of them is the latest, from 0.
    pub latest: u64,
    /// From when that one is queued at the earliest until its transmission begins, in ns.
    pub queuing_ns: u64,
    /// From the nominal release to the end of the intermission, in ns: the bound.
    pub response_ns: u64,
}

/// Why there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBound {
    /// The frames that are at least as urgent take so much of the time, in millionths, rounded down: all of it, or more.
    Overloaded(u64),
    /// The busy period is longer than [`LONGEST_NS`].
    TooLong,
}

/// The longest busy period that is looked at: an hour. A network whose buses rest less often is as good as overloaded.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// The frames of a stream in a time.
fn frames(stream: &Stream, time_ns: u64) -> u64 {
    time_ns.saturating_add(stream.jitter_ns).div_ceil(stream.period_ns)
}

/// The time that streams take of a time.
fn demand<'a>(streams: impl IntoIterator<Item = &'a Stream>, time_ns: u64) -> u64 {
    let of = |stream: &Stream| frames(stream, time_ns).saturating_mul(stream.transmission_ns);
    streams.into_iter().fold(0, |sum: u64, stream| sum.saturating_add(of(stream)))
}

/// The least solution of `t = f(t)` from `t` on, for an `f` that does not fall.
fn least(mut time_ns: u64, law: impl Fn(u64) -> u64) -> Result<u64, NoBound> {
    loop {
        let next = law(time_ns);
        if next > LONGEST_NS {
            return Err(NoBound::TooLong);
        }
        if next <= time_ns {
            return Ok(time_ns);
        }
        time_ns = next;
    }
}

/// The share of time that streams take, in millionths; rounded down, each on its own.
fn share<'a>(streams: impl IntoIterator<Item = &'a Stream>) -> u64 {
    let of = |stream: &Stream| {
        let share = u128::from(stream.transmission_ns) * 1_000_000 / u128::from(stream.period_ns);
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    streams.into_iter().fold(0, |sum: u64, stream| sum.saturating_add(of(stream)))
}

/// How late the frames of `streams[of]` can be on a bus of these streams, whose bits take `bit_ns` nanoseconds, rounded up.
///
/// # Errors
/// There is no bound, or none below an hour.
pub fn response(streams: &[Stream], of: usize, bit_ns: u64) -> Result<Response, NoBound> {
    let Some(own) = streams.get(of) else { return Err(NoBound::TooLong) };
    let others = || streams.iter().enumerate().filter(|(index, _)| *index != of);
    let urgent: Vec<_> =
        others().map(|(_, it)| it).filter(|other| other.key <= own.key).copied().collect();
    let less_urgent = others().map(|(_, it)| it).filter(|other| other.key >= own.key);
    let blocking_ns = less_urgent.map(|other| other.transmission_ns).max().unwrap_or(0);
    let at_least_as_urgent = || urgent.iter().chain([own]);
    let share = share(at_least_as_urgent());
    if share >= 1_000_000 {
        return Err(NoBound::Overloaded(share));
    }
    let busy_ns =
        least(own.transmission_ns, |time| blocking_ns + demand(at_least_as_urgent(), time))?;
    let instances = frames(own, busy_ns).max(1);
    let mut latest = (0, 0, 0);
    let mut queuing_ns = blocking_ns;
    for instance in 0..instances {
        let before = blocking_ns + instance * own.transmission_ns;
        // It begins a transmission after the one before at the earliest: otherwise that one would begin earlier, too.
        let first = before.max(queuing_ns + own.transmission_ns * u64::from(instance > 0));
        queuing_ns = least(first, |time| before + demand(&urgent, time + bit_ns))?;
        // The earliest release is not before `instance` periods.
        let released_ns = instance * own.period_ns;
        let end_ns = own.jitter_ns + queuing_ns + own.transmission_ns;
        let response_ns = end_ns.saturating_sub(released_ns);
        if response_ns > latest.2 {
            latest = (instance, queuing_ns.saturating_sub(released_ns), response_ns);
        }
    }
    let (latest, queuing_ns, response_ns) = latest;
    Ok(Response { blocking_ns, busy_ns, instances, latest, queuing_ns, response_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams by their order, of transmission and period in us.
    fn streams(of: &[(u64, u64)]) -> Vec<Stream> {
        let stream = |(key, &(transmission_us, period_us)): (u32, &(u64, u64))| Stream {
            key,
            transmission_ns: transmission_us * 1_000,
            period_ns: period_us * 1_000,
            jitter_ns: 0,
        };
        (0..).zip(of).map(stream).collect()
    }

    fn responses_us(streams: &[Stream], bit_ns: u64) -> Vec<u64> {
        let response = |of| response(streams, of, bit_ns).unwrap().response_ns / 1_000;
        (0..streams.len()).map(response).collect()
    }

    /// The example of Davis et al. (2007): the second frame of C in its busy period is the latest.
    #[test]
    fn the_second_frame_may_be_the_latest() {
        let set = streams(&[(1_000, 2_500), (1_000, 3_500), (1_000, 3_500)]);
        assert_eq!(responses_us(&set, 8_000), [2_000, 3_000, 3_500]);
        let last = response(&set, 2, 8_000).unwrap();
        assert_eq!((last.busy_ns, last.instances, last.latest), (7_000_000, 2, 1));
        assert_eq!((last.blocking_ns, last.queuing_ns), (0, 2_500_000));
    }

    /// The 17 messages of the SAE benchmark at 125 kbit/s, as `examples/sae.toml` has them.
    #[test]
    fn the_sae_benchmark_has_its_known_bounds() {
        let frame = |bytes: u64| (55 + 10 * bytes) * 8;
        let set: Vec<_> = [
            (1, 50),
            (2, 5),
            (1, 5),
            (2, 5),
            (1, 5),
            (2, 5),
            (6, 10),
            (1, 10),
            (2, 10),
            (3, 10),
            (1, 50),
            (4, 100),
            (1, 100),
            (1, 100),
            (3, 1_000),
            (1, 1_000),
            (1, 1_000),
        ]
        .map(|(bytes, period_ms)| (frame(bytes), period_ms * 1_000))
        .into();
        let expected = [
            1_440, 2_040, 2_560, 3_160, 3_680, 4_280, 5_040, 8_400, 9_000, 9_680, 10_200, 19_280,
            19_800, 20_320, 29_240, 29_760, 29_760,
        ];
        assert_eq!(responses_us(&streams(&set), 8_000), expected);
    }

    #[test]
    fn a_bus_without_rest_has_no_bound() {
        let mut set = streams(&[(500, 1_000), (500, 1_000), (1, 1_000)]);
        assert!(response(&set, 0, 2_000).is_ok());
        assert_eq!(response(&set, 1, 2_000), Err(NoBound::Overloaded(1_000_000)));
        assert_eq!(response(&set, 2, 2_000), Err(NoBound::Overloaded(1_001_000)));
        // An hour and more of rests that are too short.
        set = streams(&[(999_999, 1_000_000)]);
        set[0].jitter_ns = LONGEST_NS * 2;
        assert_eq!(response(&set, 0, 2_000), Err(NoBound::TooLong));
    }

    /// A frame that may be late lets two of it come at once.
    #[test]
    fn jitter_lets_frames_come_together() {
        let mut set = streams(&[(100, 1_000), (100, 1_000)]);
        assert_eq!(responses_us(&set, 2_000), [200, 200]);
        set[0].jitter_ns = 950_000;
        // Blocked by the other one, and late by its own jitter; the other one waits for two.
        assert_eq!(responses_us(&set, 2_000), [1_150, 300]);
    }
}

//! The response times of a bus whose nodes offer the frame at the head of their queues at every arbitration.
//!
//! # The law
//!
//! Take a frame of a message `m` with the longest transmission `C`, the period `T` and the release jitter `J`. Its **group** is
//! what waits in order of time: all messages of its FIFO queue, or the message alone if the queue is one of priorities. `L` is the
//! least urgent key of the group. While a frame of the group waits, somebody offers a frame at least as urgent as `L` at each
//! arbitration, so that no less urgent one of others begins. Nothing stops a transmission. So the frame waits for
//!
//! - **blocking**: the longest frame `B` of others, less urgent than `L`, which began just before;
//! - **interference**: every frame of others that is more urgent than `L` and offered before its own transmission begins. In a
//!   time `t` a message `k` has at most `ceil((t + J_k + F_k) / T_k)` of them ([`Arrivals`]): its first one is late by `J_k`, all
//!   others are early. If it comes out of a FIFO queue it may have been held there by `F_k`, and is offered only then; not so if all
//!   of that queue is more urgent than `L`, since then nothing of it waits when this begins. One that
//!   is offered within the bit time `tau` in which this frame begins still wins, so the time is `t + tau`;
//! - **its group before it**: what was queued before it or at the same time. Of its own message that matters for queues of
//!   priorities, too: a frame that is sent late pushes back what others had to wait for into the time of the next one, so the
//!   first frame need not be the latest (the fault of Tindell's analysis of 1994).
//!
//! The busy period is the least `t > 0` with `t = B + sum of C_k times the frames of k within t` over the group and all others
//! that are more urgent than `L`. After that time at the latest all of them are sent once. Say that frame `q` of `m`, from 0, is
//! queued at `A`, counted from the beginning of such a period. It begins at the least
//!
//! ```text
//! w = B + q C + sum over the others k of the group: C_k times the frames of k in [0, A]
//!             + sum over the more urgent k of others: C_k times those within w + tau
//! ```
//!
//! It ends at `w + C`. It was not queued before `q T - J`, and its nominal release was not before `max(A, q T) - J`. So
//! its response time from that release is at most `R = J + w + C - max(A, q T)`, and the bound is the greatest of all `q` with
//! `q T - J` within the busy period, and all `A`. Before `q T` it grows with `A`. After that, `w` stays and `R` falls between two
//! frames of the group that may come, so only those times count, until the `q T` of the next frame of `m`: with that one the sum
//! is greater.
//!
//! Whatever the order, a bus with a frame to send is never idle: a frame is sent before the **bus rests**, at the least `t > 0` with
//! `t` = the sum of `C_k` times the frames of `k` within `t` over all streams, as they are queued. So its response time is at most `J + t`.
//! Where FIFO queues hold each other's frames for long, and each lets the other see its frames later, that is less; then it is taken.
//!
//! Alone in its group a frame has `A = q T` only, and this is the law of R. Davis, A. Burns, R. Bril, J. Lukkien, "Controller Area
//! Network (CAN) schedulability analysis: Refuted, revisited and revised", Real-Time Systems 35 (2007), pages 239 to 272. That
//! what a FIFO queue holds counts with its least urgent key, and others see it late by `F`, is from R. Davis, S. Kollmann,
//! V. Pollex, F. Slomka, "Schedulability analysis for Controller Area Network (CAN) with FIFO queues, priority queues and
//! gateways", Real-Time Systems 49 (2013), pages 73 to 116. Their formula looks at one instance of each message, and holds while
//! none is queued twice; here all of a busy period are looked at.
//!
//! # What is taken where the law has an edge
//!
//! The safe side: the whole blocking frame counts, though a bit of it has passed; `tau` is a whole bit time; transmissions have
//! the intermission in them, so a frame ends 3 bits before its bound at the latest; times that are no whole nanoseconds are
//! rounded up. Two streams of one key are in each other's way, both as blocking and as interference. What is queued in a FIFO at
//! the same instant is before the frame.

use std::collections::BTreeMap;

use super::Arrivals;

/// What sends frames of one identifier on a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The lower, the more urgent: [`Frame::arbitration_key`](candor_wire::can::Frame::arbitration_key).
    pub key: u32,
    /// The longest transmission, intermission included, in ns, rounded up.
    pub transmission_ns: u64,
    /// When its frames are queued; `None` if nobody knows.
    pub arrivals: Option<Arrivals>,
    /// For how long a frame waits in its FIFO queue before it is offered, in ns; `None` if nobody knows. 0 for a queue of
    /// priorities.
    pub held_ns: Option<u64>,
    /// The FIFO queue in which it waits, by a number of its own; `None` for a queue of priorities.
    pub fifo: Option<usize>,
}

/// How late the frames of a stream can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The longest less urgent frame of others, in ns.
    pub blocking_ns: u64,
    /// Which stream it is of.
    pub blocked_by: Option<usize>,
    /// How long the bus is busy at worst with the frames that this stream has to wait for, in ns.
    pub busy_ns: u64,
    /// Frames of the stream in that time.
    pub instances: u64,
    /// Which of them is the latest, from 0.
    pub latest: u64,
    /// When that one is queued in that time, in ns.
    pub queued_ns: u64,
    /// When its transmission begins at the latest in that time, in ns.
    pub begins_ns: u64,
    /// From the nominal release to the end of the intermission, in ns: the bound.
    pub response_ns: u64,
    /// From when a frame is queued until its transmission begins, in ns: of all frames, not of the latest one.
    pub waiting_ns: u64,
    /// Whether it waits for everything on the bus: the bound is the time until the bus rests.
    pub is_until_rest: bool,
}

/// Why there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBound {
    /// The frames that it has to wait for, and its own, take so much of the time, in millionths: all of it, or more.
    Overloaded(u64),
    /// The busy period is longer than [`LONGEST_NS`].
    TooLong,
    /// It has to wait for frames of this stream, and nobody knows how many.
    Unknown(usize),
}

/// The longest busy period that is looked at: 10 s. A bus that rests less often is as good as overloaded.
pub const LONGEST_NS: u64 = 10_000_000_000;

/// What takes this share of the time, or more, has no bound. A bus that is needed all the time may have one, but whether it has
/// would hang on how a sum of such shares is rounded.
pub(crate) const FULL: f64 = 1.0 - 1e-9;

/// A stream of which the arrivals are known.
#[derive(Clone, Debug)]
struct Known {
    index: usize,
    transmission_ns: u64,
    arrivals: Arrivals,
}

impl Known {
    fn new(index: usize, stream: &Stream, held_ns: Option<u64>) -> Result<Self, NoBound> {
        let arrivals = stream.arrivals.clone().zip(held_ns).ok_or(NoBound::Unknown(index))?;
        let arrivals = arrivals.0.delayed(arrivals.1);
        Ok(Self { index, transmission_ns: stream.transmission_ns, arrivals })
    }
}

/// The time that the frames of streams within a time take.
fn demand(streams: &[Known], time_ns: u64) -> u64 {
    let of = |it: &Known| it.arrivals.within(time_ns).saturating_mul(it.transmission_ns);
    streams.iter().fold(0, |sum: u64, it| sum.saturating_add(of(it)))
}

/// A sum that stands in for the demand of streams from below: `share * t + first` in a time `t`.
#[derive(Clone, Copy, Debug)]
struct DemandLine {
    share: f64,
    first_ns: f64,
}

impl DemandLine {
    fn of(streams: &[Known]) -> Self {
        let sum = |of: fn(&Arrivals) -> f64| -> f64 {
            streams.iter().map(|it| of(&it.arrivals) * it.transmission_ns as f64).sum()
        };
        Self { share: sum(Arrivals::rate), first_ns: sum(Arrivals::burst) }
    }

    /// No `t` with `t = before + demand(t)` is less than this: at least this much of the way to it need not be walked.
    fn least(self, before_ns: u64) -> u64 {
        // What floating point may be wrong by is taken off.
        let least = (before_ns as f64 + self.first_ns) / (1.0 - self.share) * (1.0 - 1e-9) - 1.0;
        if least > 0.0 { least as u64 } else { 0 }
    }
}

/// The least solution of `t = law(t)` from `time_ns` on, for a law that does not fall.
fn least(mut time_ns: u64, law: impl Fn(u64) -> u64) -> Result<u64, NoBound> {
    loop {
        let next = law(time_ns);
        if next.max(time_ns) > LONGEST_NS {
            return Err(NoBound::TooLong);
        }
        if next <= time_ns {
            return Ok(time_ns);
        }
        time_ns = next;
    }
}

/// For how long streams keep a bus busy at worst, behind a frame that takes `blocking_ns`.
fn busy_ns(streams: &[Known], blocking_ns: u64) -> Result<u64, NoBound> {
    let line = DemandLine::of(streams);
    if line.share >= FULL {
        return Err(NoBound::Overloaded((line.share * 1e6).round() as u64));
    }
    let first = streams.iter().map(|it| it.transmission_ns).min().unwrap_or(0);
    let first = first.max(line.least(blocking_ns));
    least(first, |time| blocking_ns.saturating_add(demand(streams, time)))
}

/// What a group has to wait for.
struct Group {
    blocking_ns: u64,
    blocked_by: Option<usize>,
    /// More urgent streams of others, as late as they are offered.
    urgent: Vec<Known>,
    line: DemandLine,
    /// The streams of the group itself, as they are queued.
    members: Vec<Known>,
    busy_ns: u64,
}

impl Group {
    /// The group of the streams `of` on a bus.
    fn new(
        streams: &[Stream],
        of: &[usize],
        least_urgent: &BTreeMap<usize, u32>,
    ) -> Result<Self, NoBound> {
        let key = of.iter().filter_map(|&it| streams.get(it)).map(|it| it.key).max().unwrap_or(0);
        let others = || streams.iter().enumerate().filter(|(index, _)| !of.contains(index));
        let blocking = others().filter(|(_, it)| it.key >= key);
        let blocking = blocking.max_by_key(|(index, it)| (it.transmission_ns, usize::MAX - index));
        let urgent = others().filter(|(_, it)| it.key <= key);
        let urgent =
            urgent.map(|(index, it)| Known::new(index, it, held_ns(it, key, least_urgent)));
        let urgent = urgent.collect::<Result<Vec<_>, _>>()?;
        let members =
            of.iter().filter_map(|&index| Some(Known::new(index, streams.get(index)?, Some(0))));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let blocking_ns = blocking.map_or(0, |(_, it)| it.transmission_ns);
        let busy_ns = busy_ns(&[urgent.as_slice(), &members].concat(), blocking_ns)?;
        let line = DemandLine::of(&urgent);
        let blocked_by = blocking.map(|(index, _)| index);
        Ok(Self { blocking_ns, blocked_by, urgent, line, members, busy_ns })
    }

    /// How late the frames of one of its streams can be.
    fn response(&self, of: usize, bit_ns: u64) -> Result<Response, NoBound> {
        let own = self.members.iter().find(|it| it.index == of).ok_or(NoBound::TooLong)?;
        let mut response = Response {
            blocking_ns: self.blocking_ns,
            blocked_by: self.blocked_by,
            busy_ns: self.busy_ns,
            instances: own.arrivals.within(self.busy_ns).max(1),
            latest: 0,
            queued_ns: 0,
            begins_ns: 0,
            response_ns: 0,
            waiting_ns: 0,
            is_until_rest: false,
        };
        let others: Vec<_> =
            self.members.iter().filter(|it| it.index != own.index).cloned().collect();
        let mut begins_ns = self.blocking_ns;
        let mut times = Vec::new();
        for instance in 0..response.instances {
            let nominal_ns = own.arrivals.nominal(instance);
            self.times(&others, own, instance, &mut times);
            if !others.is_empty() {
                // The frames of others before this one may be fewer than for the last time of the one before.
                begins_ns = 0;
            }
            for &queued_ns in &times {
                let own_before = instance.saturating_mul(own.transmission_ns);
                let group = demand(&others, queued_ns.saturating_add(1));
                let before = self.blocking_ns.saturating_add(own_before).saturating_add(group);
                // What is queued later begins later.
                let first = before.max(self.line.least(before)).max(begins_ns);
                let law = |time: u64| {
                    before.saturating_add(demand(&self.urgent, time.saturating_add(bit_ns)))
                };
                begins_ns = least(first, law)?;
                response.waiting_ns = response.waiting_ns.max(begins_ns.saturating_sub(queued_ns));
                let end_ns =
                    (begins_ns + own.transmission_ns).saturating_add(own.arrivals.lateness_ns());
                let response_ns = end_ns.saturating_sub(queued_ns.max(nominal_ns));
                if response_ns > response.response_ns {
                    (response.latest, response.queued_ns) = (instance, queued_ns);
                    (response.begins_ns, response.response_ns) = (begins_ns, response_ns);
                }
            }
        }
        Ok(response)
    }

    /// The times at which frame `instance` may be queued that count, ascending. For how late it is, those from its `q T` on to
    /// that of the next one; for how long it waits, those from when it can be queued until the next one can.
    fn times(&self, others: &[Known], own: &Known, instance: u64, times: &mut Vec<u64>) {
        let last_ns = self.busy_ns.saturating_sub(1);
        times.clear();
        let ranges = [Arrivals::distance, Arrivals::nominal].map(|of| {
            let [first_ns, next_ns] = [0, 1].map(|more| of(&own.arrivals, instance + more));
            (first_ns.min(last_ns), next_ns.min(self.busy_ns))
        });
        for (first_ns, next_ns) in ranges {
            times.push(first_ns);
            for other in others {
                let first = other.arrivals.within(first_ns.saturating_add(1));
                let distances = (first..).map(|index| other.arrivals.distance(index));
                times.extend(distances.take_while(|&it| it < next_ns));
            }
        }
        times.sort_unstable();
        times.dedup();
    }
}

/// How late the frames of each stream can be on a bus of these streams, whose bits take `bit_ns` nanoseconds, rounded up;
/// for each, there may be no bound.
#[must_use]
pub fn responses(streams: &[Stream], bit_ns: u64) -> Vec<Result<Response, NoBound>> {
    let mut found = vec![Err(NoBound::TooLong); streams.len()];
    let mut is_done = vec![false; streams.len()];
    let least_urgent = least_urgent(streams);
    // Without FIFO queues that is never less.
    let has_fifo = streams.iter().any(|it| it.fifo.is_some());
    let rest_ns = if has_fifo { rest_ns(streams) } else { None };
    for of in 0..streams.len() {
        if is_done[of] {
            continue;
        }
        let is_member = |index: &usize| match streams[of].fifo {
            None => *index == of,
            fifo => streams[*index].fifo == fifo,
        };
        let members: Vec<_> = (of..streams.len()).filter(is_member).collect();
        let group = Group::new(streams, &members, &least_urgent);
        for &member in &members {
            is_done[member] = true;
            let of_group = group.as_ref().map_err(|&reason| reason);
            let response = of_group.and_then(|group| group.response(member, bit_ns));
            found[member] = match rest_ns {
                Some(rest_ns) => until_rest(&streams[member], response, rest_ns),
                None => response,
            };
        }
    }
    found
}

/// The least urgent key of each FIFO queue.
fn least_urgent(streams: &[Stream]) -> BTreeMap<usize, u32> {
    let mut keys = BTreeMap::new();
    for stream in streams {
        if let Some(fifo) = stream.fifo {
            let key: &mut u32 = keys.entry(fifo).or_default();
            *key = stream.key.max(*key);
        }
    }
    keys
}

/// For how long a frame is held in its queue as one sees it who waits with this key.
fn held_ns(stream: &Stream, key: u32, least_urgent: &BTreeMap<usize, u32>) -> Option<u64> {
    let last = stream.fifo.and_then(|fifo| least_urgent.get(&fifo));
    if last.is_some_and(|&last| last > key) { stream.held_ns } else { Some(0) }
}

/// The same for one stream of a bus with queues of priorities only.
///
/// # Errors
/// It has no bound.
pub fn response(streams: &[Stream], of: usize, bit_ns: u64) -> Result<Response, NoBound> {
    Group::new(streams, &[of], &BTreeMap::new())?.response(of, bit_ns)
}

/// When a bus of these streams rests at the latest; `None` if nobody knows.
fn rest_ns(streams: &[Stream]) -> Option<u64> {
    let known = |(index, it)| Known::new(index, it, Some(0)).ok();
    let streams = streams.iter().enumerate().map(known).collect::<Option<Vec<_>>>()?;
    busy_ns(&streams, 0).ok()
}

/// What follows for a stream from when the bus rests, where that is less.
fn until_rest(
    stream: &Stream,
    response: Result<Response, NoBound>,
    rest_ns: u64,
) -> Result<Response, NoBound> {
    let Some(arrivals) = &stream.arrivals else { return response };
    let begins_ns = rest_ns - stream.transmission_ns;
    let until_rest = Response {
        blocking_ns: 0,
        blocked_by: None,
        busy_ns: rest_ns,
        instances: arrivals.within(rest_ns).max(1),
        latest: 0,
        queued_ns: 0,
        begins_ns,
        response_ns: rest_ns.saturating_add(arrivals.lateness_ns()),
        waiting_ns: begins_ns,
        is_until_rest: true,
    };
    Ok(match response {
        Err(_) => until_rest,
        Ok(response) => {
            let waiting_ns = response.waiting_ns.min(begins_ns);
            let is_less = until_rest.response_ns < response.response_ns;
            Response { waiting_ns, ..if is_less { until_rest } else { response } }
        }
    })
}

/// How many frames of each other stream the latest frame of `streams[of]` waits for, but for the blocking one: those with none
/// are left out.
#[must_use]
pub fn interference(
    streams: &[Stream],
    of: usize,
    response: &Response,
    bit_ns: u64,
) -> Vec<(usize, u64)> {
    let Some(own) = streams.get(of) else { return Vec::new() };
    let is_member = |it: &Stream| own.fifo.is_some() && it.fifo == own.fifo;
    let group = streams.iter().filter(|it| is_member(it)).map(|it| it.key);
    let key = group.chain([own.key]).max().unwrap_or(0);
    let least_urgent = least_urgent(streams);
    let frames = |(index, it): (usize, &Stream)| {
        let arrivals = it.arrivals.as_ref()?;
        let frames = match () {
            () if response.is_until_rest => {
                arrivals.within(response.busy_ns) - u64::from(index == of)
            }
            () if index == of => response.latest,
            () if is_member(it) => arrivals.within(response.queued_ns + 1),
            () if it.key <= key => {
                let held_ns = held_ns(it, key, &least_urgent)?;
                arrivals.clone().delayed(held_ns).within(response.begins_ns + bit_ns)
            }
            () => 0,
        };
        (frames > 0).then_some((index, frames))
    };
    streams.iter().enumerate().filter_map(frames).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams by their order, of transmission and period in us.
    fn streams(of: &[(u64, u64)]) -> Vec<Stream> {
        let stream = |(key, &(transmission_us, period_us)): (u32, &(u64, u64))| Stream {
            key,
            transmission_ns: transmission_us * 1_000,
            arrivals: Some(Arrivals::new(period_us * 1_000, 0)),
            held_ns: Some(0),
            fifo: None,
        };
        (0..).zip(of).map(stream).collect()
    }

    fn delay(stream: &mut Stream, by_ns: u64) {
        stream.arrivals = stream.arrivals.take().map(|it| it.delayed(by_ns));
    }

    fn responses_us(streams: &[Stream], bit_ns: u64) -> Vec<u64> {
        let responses = responses(streams, bit_ns).into_iter();
        responses.map(|it| it.unwrap().response_ns / 1_000).collect()
    }

    /// The example of Davis et al. (2007): the second frame of C in its busy period is the latest.
    #[test]
    fn the_second_frame_may_be_the_latest() {
        let set = streams(&[(1_000, 2_500), (1_000, 3_500), (1_000, 3_500)]);
        assert_eq!(responses_us(&set, 8_000), [2_000, 3_000, 3_500]);
        let last = responses(&set, 8_000)[2].unwrap();
        assert_eq!((last.busy_ns, last.instances, last.latest), (7_000_000, 2, 1));
        assert_eq!((last.blocking_ns, last.queued_ns, last.begins_ns), (0, 3_500_000, 6_000_000));
        assert_eq!(interference(&set, 2, &last, 8_000), [(0, 3), (1, 2), (2, 1)]);
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
        let found = responses(&set, 2_000);
        assert!(found[0].is_ok());
        assert_eq!(found[1], Err(NoBound::Overloaded(1_000_000)));
        assert_eq!(found[2], Err(NoBound::Overloaded(1_001_000)));
        set = streams(&[(999_999, 1_000_000)]);
        delay(&mut set[0], LONGEST_NS * 2);
        assert_eq!(responses(&set, 2_000), [Err(NoBound::TooLong)]);
        // Of what is more urgent than a frame, all must be known.
        set = streams(&[(100, 1_000), (100, 1_000), (100, 1_000)]);
        set[1].arrivals = None;
        let found = responses(&set, 2_000);
        assert_eq!(found[0].unwrap().blocking_ns, 100_000);
        assert_eq!(found[1..], [Err(NoBound::Unknown(1)); 2]);
    }

    /// A frame that may be late lets two of it come at once.
    #[test]
    fn jitter_lets_frames_come_together() {
        let mut set = streams(&[(100, 1_000), (100, 1_000)]);
        assert_eq!(responses_us(&set, 2_000), [200, 200]);
        delay(&mut set[0], 950_000);
        // Blocked by the other one, and late by its own jitter; the other one waits for two.
        assert_eq!(responses_us(&set, 2_000), [1_150, 300]);
    }

    /// What is in front of it in its queue is sent first, however little urgent that is.
    #[test]
    fn a_fifo_queue_waits_as_long_as_its_least_urgent_frame() {
        let mut set = streams(&[(100, 10_000), (100, 1_000), (100, 10_000), (300, 10_000)]);
        // The first and the third one share a queue: both wait for each other, the second one, and what blocks.
        (set[0].fifo, set[2].fifo) = (Some(7), Some(7));
        assert_eq!(responses_us(&set, 2_000), [600, 500, 600, 600]);
        let found = responses(&set, 2_000);
        assert_eq!(found[0].unwrap().waiting_ns, 500_000);
        assert_eq!(interference(&set, 0, &found[0].unwrap(), 2_000), [(1, 1), (2, 1)]);
        // Others see them as late as they are held, but for those to whom the whole queue is more urgent.
        for of in [0, 2] {
            set[of].held_ns = Some(500_000);
        }
        assert_eq!(responses_us(&set, 2_000), [600, 500, 600, 600]);
        set[0].held_ns = Some(9_900_000);
        assert_eq!(responses_us(&set, 2_000), [600, 600, 600, 600]);
    }
}

//! The bounds of single buses with queues of priorities against all that a plain simulation of them finds: they are never
//! exceeded, and each is reached.
//!
//! # How times are counted
//!
//! All lengths, periods and jitters are whole bit times. When the bus is free and a frame is queued, a transmission begins; a
//! frame that is queued less than one bit time after that may still win the arbitration, or may not. So a less urgent frame
//! can begin 1 ns before all others are queued, and stop them. The bound counts the whole of it: where there is a less urgent
//! message, a bound is reached if a frame is 1 ns earlier than it says; otherwise to the nanosecond.
//!
//! `PROPTEST_RNG_SEED` is where buses are drawn from. With `--nocapture` the test prints what it has counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::env;

use candor_network::bound::Arrivals;
use candor_network::bound::bus::{LONGEST_NS, Response, Stream, responses};
use candor_network::{Bus, Discipline, Message, Network, Node, Payload, Queue, bounds, flow};
use candor_random::Random;
use candor_time::Nanos;
use candor_wire::can::Timing;
use candor_wire::can::frame::EFF_FLAG;

const BUSES: u64 = 1_000;
/// With random phases and jitters, for each bus.
const PLAYS: usize = 200;
/// In each of these.
const FRAMES: usize = 40;
/// When all is released in the constructed cases: behind all jitters.
const START_NS: u64 = 1_000_000_000;
/// Many periods divide this number of bits, so that loads of 100 % can be drawn.
const BITS: u64 = 5_040;

/// A message, in bit times.
#[derive(Clone, Debug)]
struct Traffic {
    length: u64,
    period: u64,
    jitter: u64,
    /// Its bytes and whether its identifier is extended, if it is one of real frames.
    shape: Option<(usize, bool)>,
}

/// Messages, the most urgent one first.
#[derive(Clone, Debug)]
struct Drawn {
    bit_ns: u64,
    messages: Vec<Traffic>,
}

/// How much of the time a bus is occupied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Any,
    /// Nearly all.
    Nearly,
    Full,
}

struct Draw(Random);

impl Draw {
    fn below(&mut self, count: u64) -> u64 {
        (self.0.unit() * count as f64) as u64
    }

    fn is(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// A bus of two to six messages: of real frames, or of short ones, which meet at edges more often.
    fn bus(&mut self, is_real: bool, load: Load) -> Drawn {
        let bit_ns = if is_real { self.one_of(&[1_000, 1_250, 2_000, 4_000, 8_000]) } else { 10 };
        let count = 2 + self.below(5);
        let share = if load == Load::Any { 0.2 + 0.75 * self.0.unit() } else { 0.9 };
        loop {
            let weights: Vec<_> = (0..count).map(|_| 0.1 + self.0.unit()).collect();
            let sum: f64 = weights.iter().sum();
            let of = |weight: &f64| self.message(is_real, share * weight / sum, load == Load::Any);
            let mut messages: Vec<_> = weights.iter().map(of).collect();
            if load != Load::Any {
                messages.pop();
                let taken = messages.iter().map(|it| it.length * BITS / it.period).sum();
                let left = BITS.checked_sub(taken).filter(|&left| left > 0);
                let last = left.and_then(|left| self.filling(is_real, left, load == Load::Full));
                let Some(last) = last else { continue };
                let at = self.below(count) as usize;
                messages.insert(at, last);
            }
            for message in &mut messages {
                if self.is(0.4) {
                    message.jitter = self.below(message.period * 3 / 2);
                }
            }
            let drawn = Drawn { bit_ns, messages };
            let (needed, whole) = load_of(&drawn.messages);
            if needed < whole || load == Load::Full {
                return drawn;
            }
        }
    }

    fn length(&mut self, is_real: bool) -> (u64, Option<(usize, bool)>) {
        if !is_real {
            return (1 + self.below(20), None);
        }
        let (bytes, is_extended) = (self.below(9), self.is(0.5));
        let length = if is_extended { 80 + 10 * bytes } else { 55 + 10 * bytes };
        (length, Some((bytes as usize, is_extended)))
    }

    /// A message that takes about so much of the time of the bus; its period divides [`BITS`] unless any period will do.
    fn message(&mut self, is_real: bool, share: f64, is_any_period: bool) -> Traffic {
        let (length, shape) = self.length(is_real);
        let wanted = ((length as f64 / share) as u64).max(length + 1);
        let divides = |period: &u64| BITS.is_multiple_of(*period);
        let period = match is_any_period {
            true => wanted,
            false => (wanted..BITS).find(divides).unwrap_or(BITS),
        };
        Traffic { length, period, jitter: 0, shape }
    }

    /// A message that takes `left` of [`BITS`], or nearly so.
    fn filling(&mut self, is_real: bool, left: u64, is_exact: bool) -> Option<Traffic> {
        (0..20).find_map(|_| {
            let (length, shape) = self.length(is_real);
            let period = length * BITS / left + u64::from(!is_exact);
            let fits = !is_exact || period * left == length * BITS;
            fits.then_some(Traffic { length, period, jitter: 0, shape })
        })
    }
}

/// How many bits the messages need of how many, in the long run.
fn load_of(messages: &[Traffic]) -> (u128, u128) {
    let whole: u128 = messages.iter().map(|it| u128::from(it.period)).product();
    let needed = messages.iter().map(|it| u128::from(it.length) * whole / u128::from(it.period));
    (needed.sum(), whole)
}

/// A message while it is played: its next frame.
struct Next {
    nominal_ns: u64,
    queued_ns: u64,
}

/// The greatest times of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Greatest {
    response_ns: u64,
    waiting_ns: u64,
    /// Which frame had that response time.
    latest: u64,
}

/// A bus whose nodes take part in each arbitration.
struct Play<'a> {
    bus: &'a Drawn,
    /// Of the most urgent messages, which are all that are played.
    next: Vec<Next>,
    sent: Vec<u64>,
    greatest: Vec<Greatest>,
    /// Since when the bus is free.
    free_ns: u64,
}

impl<'a> Play<'a> {
    /// `first_ns` has when each first frame is released and queued.
    fn new(bus: &'a Drawn, first_ns: &[(u64, u64)], free_ns: u64) -> Self {
        let next = |&(nominal_ns, queued_ns): &(u64, u64)| Next { nominal_ns, queued_ns };
        Self {
            bus,
            next: first_ns.iter().map(next).collect(),
            sent: vec![0; first_ns.len()],
            greatest: vec![Greatest::default(); first_ns.len()],
            free_ns,
        }
    }

    /// When the next frame of all is queued.
    fn earliest_ns(&self) -> u64 {
        self.next.iter().map(|it| it.queued_ns).min().unwrap()
    }

    /// Sends a frame; those that are queued less than `join_ns` later take part. The one behind it of its message is late by
    /// `late_ns` of that message.
    fn send(&mut self, join_ns: u64, late_ns: impl FnOnce(usize) -> u64) {
        let begin_ns = self.free_ns.max(self.earliest_ns());
        let takes_part = |it: &Next| it.queued_ns < begin_ns + join_ns.max(1);
        let winner = self.next.iter().position(takes_part).unwrap();
        let (traffic, bit_ns) = (&self.bus.messages[winner], self.bus.bit_ns);
        let (next, greatest) = (&mut self.next[winner], &mut self.greatest[winner]);
        self.free_ns = begin_ns + traffic.length * bit_ns;
        let response_ns = self.free_ns - next.nominal_ns;
        if response_ns > greatest.response_ns {
            (greatest.response_ns, greatest.latest) = (response_ns, self.sent[winner]);
        }
        greatest.waiting_ns = greatest.waiting_ns.max(begin_ns.saturating_sub(next.queued_ns));
        self.sent[winner] += 1;
        next.nominal_ns += traffic.period * bit_ns;
        // In their order.
        next.queued_ns = next.queued_ns.max(next.nominal_ns + late_ns(winner));
    }
}

/// All that is at least as urgent as message `of` is queued at the same time, late by all of its jitter, and then as densely
/// as can be; 1 ns before that a frame of the message `blocking` has begun.
///
/// Also for how long the bus has no rest then: no longer than the analysis looks at.
fn constructed(bus: &Drawn, of: usize, blocking: Option<usize>) -> (Greatest, u64) {
    let late_ns = |it: &Traffic| (START_NS - it.jitter * bus.bit_ns, START_NS);
    let first_ns: Vec<_> = bus.messages[..=of].iter().map(late_ns).collect();
    let blocked_ns = blocking.map_or(0, |it| bus.messages[it].length * bus.bit_ns - 1);
    let mut play = Play::new(bus, &first_ns, START_NS + blocked_ns);
    // Until nothing is left to send.
    let mut busy_ns = 0;
    while (busy_ns == 0 || play.earliest_ns() < play.free_ns) && busy_ns <= LONGEST_NS {
        play.send(bus.bit_ns, |_| 0);
        busy_ns = play.free_ns - START_NS;
    }
    (play.greatest[of], busy_ns)
}

/// Random phases, and frames that are late at random.
fn random(bus: &Drawn, draw: &mut Draw) -> Vec<Greatest> {
    let mut first_ns = Vec::new();
    for it in &bus.messages {
        let (period_ns, jitter_ns) = (it.period * bus.bit_ns, it.jitter * bus.bit_ns);
        // At an edge, a nanosecond beside it, or anywhere.
        let (nominal_ns, late_ns) = match draw.below(4) {
            0 | 1 => (START_NS - jitter_ns + draw.below(3) - 1, jitter_ns),
            2 => (START_NS - bus.bit_ns * draw.below(it.period), late_ns(draw, jitter_ns)),
            _ => (START_NS - draw.below(period_ns), late_ns(draw, jitter_ns)),
        };
        first_ns.push((nominal_ns, nominal_ns + late_ns));
    }
    let mut play = Play::new(bus, &first_ns, 0);
    let usually_late = draw.is(0.5);
    for _ in 0..FRAMES {
        let join_ns = draw.one_of(&[0, bus.bit_ns]);
        play.send(join_ns, |it| match usually_late {
            true => late_ns(draw, bus.messages[it].jitter * bus.bit_ns),
            false => 0,
        });
    }
    play.greatest
}

/// Not at all, by all of the jitter, or by some of it.
fn late_ns(draw: &mut Draw, jitter_ns: u64) -> u64 {
    match draw.below(3) {
        0 => 0,
        1 => jitter_ns,
        _ => draw.below(jitter_ns + 1),
    }
}

/// What the analysis says; `None` if there is no bound.
fn analysed(bus: &Drawn, draw: &mut Draw) -> Vec<Option<Response>> {
    match bus.messages[0].shape {
        Some(_) => of_network(bus, draw),
        None => {
            let stream = |(key, it): (u32, &Traffic)| Stream {
                key,
                transmission_ns: it.length * bus.bit_ns,
                arrivals: Some(Arrivals::new(it.period * bus.bit_ns, it.jitter * bus.bit_ns)),
                held_ns: Some(0),
                fifo: None,
            };
            let streams: Vec<_> = (0..).zip(&bus.messages).map(stream).collect();
            responses(&streams, bus.bit_ns).into_iter().map(Result::ok).collect()
        }
    }
}

/// The same of a network, with messages on some nodes.
fn of_network(bus: &Drawn, draw: &mut Draw) -> Vec<Option<Response>> {
    let rate = (1_000_000_000 / bus.bit_ns).to_string().parse().unwrap();
    let timing = Timing { nominal: rate, data: rate };
    let mut network = Network::default();
    network.buses.push(Bus { name: "bus".into(), timing, is_fd: false });
    let queue = Queue { discipline: Discipline::Priority, depth: 1_000_000 };
    let nodes = 1 + draw.below(3);
    let node = |it: u64| Node { name: it.to_string(), bus: 0, queue, messages: Vec::new() };
    network.nodes = (0..=nodes).map(node).collect();
    for (number, it) in (1..).zip(&bus.messages) {
        let (length, is_extended) = it.shape.unwrap();
        // The first eleven bits decide: they are the number.
        let can_id = if is_extended { number << 18 | EFF_FLAG } else { number };
        let message = Message {
            name: number.to_string(),
            can_id,
            length,
            min_length: None,
            is_fd: false,
            has_brs: true,
            period: Nanos::from_nanos(it.period * bus.bit_ns),
            offset: None,
            jitter: Nanos::from_nanos(it.jitter * bus.bit_ns),
            deadline: None,
            distances: Vec::new(),
            payload: Payload::Worst,
        };
        // Frames of the last one may be too many for its queue, which would lose those of others.
        let is_last = number as usize == bus.messages.len();
        let node = if is_last { nodes } else { draw.below(nodes) };
        network.nodes[node as usize].messages.push(message);
    }
    let flows = flow::flows(&network).unwrap();
    let found = bounds(&network, &flows);
    let of = |number: usize| {
        let name = number.to_string();
        let is_of = |it: &flow::Flow| network.nodes[it.node].messages[it.message].name == name;
        let bound = found.flows[flows.iter().position(is_of).unwrap()].as_ref().ok()?;
        assert_eq!(bound.worst_ns, bound.response.response_ns);
        Some(bound.response)
    };
    (1..=bus.messages.len()).map(of).collect()
}

/// What was met, of all messages.
#[derive(Debug, Default)]
struct Counts {
    messages: u64,
    real: u64,
    bounded: u64,
    /// They and all that is more urgent need all of the time: none of these has a bound.
    full: u64,
    /// The bus has no rest for longer than the analysis looks at.
    too_long: u64,
    with_jitter: u64,
    beyond_period: u64,
    /// Not the first frame is the latest.
    later_frame: u64,
    reached_exactly: u64,
    reached_but_for_1_ns: u64,
    reached_at_random: u64,
    frames_at_random: u64,
}

/// Judges a bus.
fn judge(bus: &Drawn, draw: &mut Draw, counts: &mut Counts, shown: &str) {
    let found = analysed(bus, draw);
    let mut played = vec![Greatest::default(); found.len()];
    for _ in 0..PLAYS {
        for (all, one) in played.iter_mut().zip(random(bus, draw)) {
            all.response_ns = all.response_ns.max(one.response_ns);
            all.waiting_ns = all.waiting_ns.max(one.waiting_ns);
        }
    }
    counts.frames_at_random += (PLAYS * FRAMES) as u64;
    for (of, (found, played)) in found.iter().zip(played).enumerate() {
        let shown = format!("{shown}, message {of} of {bus:?}: {found:?}");
        let (needed, whole) = load_of(&bus.messages[..=of]);
        counts.messages += 1;
        counts.real += u64::from(bus.messages[of].shape.is_some());
        let less_urgent = of + 1..bus.messages.len();
        let early_ns = u64::from(!less_urgent.is_empty());
        let Some(found) = found else {
            let mut cases = less_urgent.map(Some).chain([None]).map(|it| constructed(bus, of, it));
            let is_too_long = needed < whole && cases.any(|(_, busy_ns)| busy_ns > LONGEST_NS);
            assert!(needed >= whole || is_too_long, "it has a bound: {shown}");
            counts.full += u64::from(needed >= whole);
            counts.too_long += u64::from(is_too_long);
            continue;
        };
        assert!(needed < whole, "all of the time is needed: {shown}");
        let cases = less_urgent.map(Some).chain([None]).map(|it| constructed(bus, of, it).0);
        let cases: Vec<_> = cases.collect();
        for case in cases.iter().chain([&played]) {
            let is_kept = case.response_ns + early_ns <= found.response_ns
                && case.waiting_ns + early_ns <= found.waiting_ns.max(early_ns);
            assert!(is_kept, "{case:?} is beyond the bound: {shown}");
        }
        let latest = cases.iter().max_by_key(|it| it.response_ns).unwrap();
        assert_eq!(latest.response_ns + early_ns, found.response_ns, "{latest:?}: {shown}");
        let waiting_ns = cases.iter().map(|it| it.waiting_ns).max().unwrap();
        assert_eq!(waiting_ns + early_ns, found.waiting_ns, "{shown}");
        let Traffic { period, jitter, .. } = bus.messages[of];
        counts.bounded += 1;
        counts.with_jitter += u64::from(jitter > 0);
        counts.beyond_period += u64::from(found.response_ns > period * bus.bit_ns);
        counts.later_frame += u64::from(latest.latest > 0);
        counts.reached_exactly += 1 - early_ns;
        counts.reached_but_for_1_ns += early_ns;
        counts.reached_at_random += u64::from(played.response_ns + early_ns == found.response_ns);
    }
}

#[test]
fn each_bound_is_reached_and_none_is_exceeded() {
    let seed = env::var("PROPTEST_RNG_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let mut counts = Counts::default();
    for index in 0..BUSES {
        let mut draw = Draw(Random::new(seed, index));
        let load = [Load::Any, Load::Any, Load::Nearly, Load::Full][index as usize / 2 % 4];
        let bus = draw.bus(index % 2 == 1, load);
        judge(&bus, &mut draw, &mut counts, &format!("seed {seed}, bus {index}"));
    }
    println!("seed {seed}, {BUSES} buses: {counts:#?}");
    let kinds = [
        counts.real,
        counts.full,
        counts.with_jitter,
        counts.beyond_period,
        counts.later_frame,
        counts.reached_exactly,
        counts.reached_but_for_1_ns,
        counts.reached_at_random,
    ];
    assert!(kinds.iter().all(|&count| count >= 50), "{counts:#?}");
}

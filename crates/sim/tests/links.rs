//! Ethernet links, against durations that were computed by hand.

use candor_causes::Cause;
use candor_sim::Time;
use candor_sim::eth::{Ethernet, Event, LinkConfig, LinkStatistics, Offer};
use candor_sim::event::Core;
use candor_sim::medium::{ControllerId, FrameId, Medium, Outcome};
use candor_time::Nanos;
use candor_wire::eth::LinkSpeed;

/// One link, what is offered to it, and what came of it.
struct Bench {
    core: Core<Event>,
    ethernet: Ethernet,
    ends: [ControllerId; 2],
    /// When, in ns, and what.
    outcomes: Vec<(u64, Outcome)>,
    offered: u32,
}

impl Bench {
    fn new(speed: LinkSpeed, delay_ns: u64, depth: usize) -> Self {
        let mut ethernet = Ethernet::default();
        let config = LinkConfig { speed, delay: Nanos::from_nanos(delay_ns), depth };
        let ends = ethernet.add_link(config).ends();
        Self { core: Core::new(1), ethernet, ends, outcomes: Vec::new(), offered: 0 }
    }

    /// Runs up to `at_ns`, where nothing has been chosen yet, and offers a frame there.
    fn offer(&mut self, at_ns: u64, end: usize, len: usize, priority: u8) -> Result<(), Cause> {
        let at = Time::from_nanos(at_ns);
        while let Some(event) = self.core.next_until(at) {
            self.happen(event);
        }
        self.core.reach(at);
        let id = FrameId(self.offered);
        self.offered += 1;
        self.ethernet.offer(&mut self.core, self.ends[end], Offer { id, len, priority })
    }

    fn run(&mut self) {
        while let Some(event) = self.core.next() {
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        let mut outcomes = Vec::new();
        self.ethernet.happen(&mut self.core, event, &mut outcomes);
        let now_ns = self.core.now().as_nanos();
        self.outcomes.extend(outcomes.into_iter().map(|outcome| (now_ns, outcome)));
    }

    /// Of each frame, in the order in which they were received: its number, and when it was started,
    /// sent and received.
    fn ways_ns(&self) -> Vec<(u32, [u64; 3])> {
        let at = |wanted: &dyn Fn(&Outcome) -> bool| {
            self.outcomes.iter().find(|(_, outcome)| wanted(outcome)).unwrap().0
        };
        let received = self.outcomes.iter().filter_map(|&(received_ns, outcome)| match outcome {
            Outcome::Received { at: to, from, frame } => {
                assert_eq!(self.ends.iter().find(|&&end| end != to), Some(&from));
                let started = at(&|it| *it == Outcome::Started { at: from, frame });
                let sent = at(&|it| *it == Outcome::Sent { at: from, frame });
                Some((frame.0, [started, sent, received_ns]))
            }
            _ => None,
        });
        received.collect()
    }

    fn statistics(&self, end: usize) -> LinkStatistics {
        self.ethernet.statistics(self.ends[end], self.core.now())
    }
}

const MBIT_2500: LinkSpeed = match LinkSpeed::new(2_500_000_000) {
    Some(speed) => speed,
    None => panic!(),
};

#[test]
fn frames_take_preamble_padding_bytes_check_sequence_and_delay() {
    // Bytes with the check sequence, padded to 64, and 8 before them.
    for (speed, delay_ns, len, sent_ns, next_ns) in [
        // 72 bytes of 800 ns; 84 with the gap.
        (LinkSpeed::MBIT_10, 0, 60, 57_600, 67_200),
        (LinkSpeed::MBIT_100, 0, 14, 5_760, 6_720),
        (LinkSpeed::MBIT_100, 0, 60, 5_760, 6_720),
        // 8 + 61 + 4 bytes of 80 ns.
        (LinkSpeed::MBIT_100, 0, 61, 5_840, 6_800),
        // 100 m of cable.
        (LinkSpeed::MBIT_100, 500, 1_514, 122_080, 123_040),
        // With a tag: 8 + 1,518 + 4 bytes of 8 ns.
        (LinkSpeed::GBIT_1, 25, 1_518, 12_240, 12_336),
        (LinkSpeed::GBIT_1, 3, 60, 576, 672),
        // 72 bytes of 3.2 ns are 230.4 ns, 84 are 268.8 ns.
        (MBIT_2500, 7, 60, 231, 269),
    ] {
        let mut bench = Bench::new(speed, delay_ns, 4);
        // Twice the same, back to back.
        assert_eq!([0, 0].map(|at_ns| bench.offer(at_ns, 0, len, 0)), [Ok(()); 2]);
        bench.run();
        let ways = bench.ways_ns();
        assert_eq!(ways[0], (0, [0, sent_ns, sent_ns + delay_ns]), "{speed:?} {len}");
        assert_eq!(ways[1].1[0], next_ns, "{speed:?} {len}");
    }
}

#[test]
fn parts_of_nanoseconds_do_not_add_up() {
    let mut bench = Bench::new(MBIT_2500, 0, 16);
    for _ in 0..6 {
        bench.offer(0, 0, 60, 0).unwrap();
    }
    // Free from 1,612.8 ns on, so this one begins anew at 2,000 ns.
    bench.offer(2_000, 0, 60, 0).unwrap();
    bench.run();
    let times: Vec<_> = bench.ways_ns().iter().map(|&(_, [start, end, _])| (start, end)).collect();
    // 268.8 ns from start to start and 230.4 ns from start to end, each rounded up by itself.
    let expected = [
        (0, 231),
        (269, 500),
        (538, 768),
        (807, 1_037),
        (1_076, 1_306),
        (1_344, 1_575),
        (2_000, 2_231),
    ];
    assert_eq!(times, expected);
}

#[test]
fn both_ways_are_independent() {
    let mut bench = Bench::new(LinkSpeed::MBIT_100, 1_000, 4);
    bench.offer(0, 0, 1_514, 0).unwrap();
    bench.offer(100, 1, 60, 0).unwrap();
    bench.offer(200, 1, 60, 0).unwrap();
    bench.run();
    let expected =
        [(1, [100, 5_860, 6_860]), (2, [6_820, 12_580, 13_580]), (0, [0, 122_080, 123_080])];
    assert_eq!(bench.ways_ns(), expected);
    let busy = [0, 1].map(|end| bench.statistics(end).busy.as_nanos());
    assert_eq!(busy, [123_040, 2 * 6_720]);
}

#[test]
fn the_highest_priority_is_first_and_interrupts_nothing() {
    let mut bench = Bench::new(LinkSpeed::MBIT_100, 0, 4);
    for (at_ns, priority) in [(0, 0), (10, 1), (20, 0), (30, 1)] {
        bench.offer(at_ns, 0, 60, priority).unwrap();
    }
    // Exactly when the link is free for the first time: it takes part in the choice.
    bench.offer(6_720, 0, 60, 7).unwrap();
    // A nanosecond after it was free for the second time.
    bench.offer(13_441, 0, 60, 7).unwrap();
    assert_eq!(bench.ethernet.waiting(bench.ends[0], 1), 1);
    bench.run();
    let order: Vec<_> = bench.ways_ns().iter().map(|&(id, _)| id).collect();
    assert_eq!(order, [0, 4, 1, 5, 3, 2]);
    assert!(bench.ways_ns().windows(2).all(|pair| pair[1].1[0] - pair[0].1[0] == 6_720));
}

#[test]
fn a_full_queue_refuses_and_so_does_a_link_for_what_is_no_frame() {
    let mut bench = Bench::new(LinkSpeed::MBIT_100, 0, 2);
    // The frame on the link leaves its place to another.
    assert_eq!(bench.offer(0, 0, 60, 3), Ok(()));
    bench.offer(1, 0, 60, 4).unwrap();
    for (at_ns, len, priority, result) in [
        (2, 60, 3, Ok(())),
        (2, 60, 3, Ok(())),
        (2, 60, 3, Err(Cause::QueueFull)),
        (3, 60, 4, Ok(())),
        (3, 60, 4, Err(Cause::QueueFull)),
        (4, 13, 0, Err(Cause::Unsupported)),
        (4, 14, 0, Ok(())),
        (4, 1_518, 0, Ok(())),
        (4, 1_519, 1, Err(Cause::Unsupported)),
        (4, 60, 8, Err(Cause::Unsupported)),
        // The other way has its own queues.
    ] {
        assert_eq!(bench.offer(at_ns, 0, len, priority), result, "{len} {priority}");
    }
    assert_eq!(bench.offer(5, 1, 60, 3), Ok(()));
    bench.run();
    assert_eq!((bench.statistics(0).frames, bench.statistics(0).refused), (7, 2));
    assert_eq!((bench.statistics(1).frames, bench.statistics(1).refused), (1, 0));
}

#[test]
fn a_long_link_has_several_frames_on_the_way() {
    // 1 Gbit/s over 20 km of fibre: 100 us.
    let mut bench = Bench::new(LinkSpeed::GBIT_1, 100_000, 8);
    for _ in 0..3 {
        bench.offer(0, 0, 60, 0).unwrap();
    }
    bench.run();
    let received: Vec<_> = bench.ways_ns().iter().map(|&(id, [_, _, at])| (id, at)).collect();
    assert_eq!(received, [(0, 100_576), (1, 101_248), (2, 101_920)]);
}

#[test]
fn a_link_counts_what_has_passed() {
    let mut bench = Bench::new(LinkSpeed::MBIT_100, 0, 2);
    bench.offer(1_000, 0, 60, 0).unwrap();
    let ns = Nanos::from_nanos;
    // Nothing is chosen before the instant is over, and it is occupied until 7,720 ns.
    for (at_ns, frames, busy_ns) in
        [(1_000, 0, 0), (1_100, 0, 100), (6_760, 1, 5_760), (7_720, 1, 6_720), (9_000, 1, 6_720)]
    {
        let at = Time::from_nanos(at_ns);
        while let Some(event) = bench.core.next_until(at) {
            bench.happen(event);
        }
        bench.core.reach(at);
        let expected = LinkStatistics { frames, refused: 0, busy: ns(busy_ns) };
        assert_eq!(bench.statistics(0), expected, "{at_ns} ns");
    }
    // A pause does not count.
    bench.offer(10_000, 0, 60, 0).unwrap();
    bench.run();
    bench.core.reach(Time::from_nanos(20_000));
    assert_eq!(bench.statistics(0).busy, ns(2 * 6_720));
}

#[test]
fn each_link_has_two_ends_of_its_own() {
    let mut core: Core<Event> = Core::new(1);
    let mut ethernet = Ethernet::default();
    let config = LinkConfig { speed: LinkSpeed::MBIT_100, delay: Nanos::ZERO, depth: 1 };
    let ends = [0, 1, 2].map(|_| ethernet.add_link(config).ends());
    for (id, from) in (0..).zip(ends.into_iter().flatten()) {
        let offer = Offer { id: FrameId(id), len: 60, priority: 0 };
        ethernet.offer(&mut core, from, offer).unwrap();
    }
    let mut outcomes = Vec::new();
    while let Some(event) = core.next() {
        ethernet.happen(&mut core, event, &mut outcomes);
    }
    let received = |outcome| match outcome {
        Outcome::Received { at, from, frame } => Some((frame.0, from, at)),
        _ => None,
    };
    let received: Vec<_> = outcomes.into_iter().filter_map(received).collect();
    let [[a, b], [c, d], [e, f]] = ends;
    let expected = [(0, a, b), (1, b, a), (2, c, d), (3, d, c), (4, e, f), (5, f, e)];
    assert_eq!(received, expected);
}

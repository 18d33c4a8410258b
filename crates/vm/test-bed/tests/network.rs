//! A link between a station and a computer that answers after a while, with a card of eight descriptors.

use std::collections::VecDeque;

use candor_hardware::ethernet::{Outgoing, Ring, frame_ns, next_frame};
use candor_test_bed::datagram::{Endpoint, Kind};
use candor_test_bed::{
    BusPlan, Contents, Event, Machine, Pace, Plan, Record, SenderPlan, StationCount, StationPace,
    StationPlan, Step, TestBed, write,
};
use candor_wire::can::Timing;
use candor_wire::eth::{Address, LinkSpeed};

/// Descriptors of the ring, and the address of the memory behind them.
const COUNT: u16 = 8;
const BASE: usize = 0x100;
/// Where the bytes of a descriptor's frame are.
const BUFFER_BYTES: usize = 2_048;

/// A card and its memory.
struct Card {
    memory: Vec<u8>,
    /// Descriptors before this one have left.
    head: u16,
    records: Vec<Record>,
    arrived: Vec<Vec<u8>>,
    has_room: bool,
    /// How many descriptors have left, in all.
    left: usize,
}

impl Card {
    fn new() -> Self {
        let memory = vec![0; BASE + usize::from(COUNT) * (16 + BUFFER_BYTES)];
        let (records, arrived) = (Vec::new(), Vec::new());
        Self { memory, head: 0, records, arrived, has_room: true, left: 0 }
    }

    /// Puts a frame into descriptor `at`.
    fn put(&mut self, at: u16, frame: &[u8]) {
        let buffer = BASE + usize::from(COUNT) * 16 + usize::from(at) * BUFFER_BYTES;
        self.memory[buffer..buffer + frame.len()].copy_from_slice(frame);
        let descriptor = &mut self.memory[BASE + usize::from(at) * 16..][..16];
        descriptor[..8].copy_from_slice(&(buffer as u64).to_le_bytes());
        let word = frame.len() as u32 | 1 << 24;
        descriptor[8..12].copy_from_slice(&word.to_le_bytes());
    }
}

impl Machine for Card {
    fn note(&mut self, record: Record) {
        self.records.push(record);
    }

    fn outgoing(&mut self, card: u8, tail: u16) -> Option<(u16, Outgoing)> {
        assert_eq!(card, 1);
        let ring = Ring { base: BASE as u64, count: COUNT };
        let memory = &self.memory;
        let frame = next_frame(ring, self.head, tail, &mut |address, bytes| {
            bytes.copy_from_slice(&memory[address as usize..][..bytes.len()]);
        })?;
        Some((self.head, frame))
    }

    fn release(&mut self, card: u8, first: u16, next: u16) {
        assert_eq!((card, first), (1, self.head));
        self.left += usize::from((next + COUNT - first) % COUNT);
        self.head = next;
    }

    fn arrive(&mut self, card: u8, frame: &[u8]) -> bool {
        assert_eq!(card, 1);
        if self.has_room {
            self.arrived.push(frame.to_vec());
        }
        self.has_room
    }
}

const fn endpoint(last: u8) -> Endpoint {
    Endpoint { card: Address([0x52, 0x54, 0, 0, 0, last]), ip: [10, 47, 0, last] }
}

/// A plan with a station at card 1, and one CAN frame after 20 ms, which ends it.
fn plan(kind: Kind, data_bytes: u16, pace: StationPace, speed: LinkSpeed) -> Vec<u8> {
    let (station, guest) = (endpoint(2), endpoint(1));
    let station = StationPlan { card: 1, speed, kind, data_bytes, pace, station, guest };
    let timing = Timing::classical("500k".parse().unwrap());
    let step = Step { at_ns: 20_000_000, frame: "123#0000".parse().unwrap() };
    write(&Contents {
        buses: &[BusPlan { timing, bit_error_rate: 0.0, restart_ns: None }],
        senders: &[SenderPlan { bus: 0, round: 0, pace: Pace::Timed, first: 0, count: 1 }],
        stations: &[station],
        steps: &[step],
        ..Contents::default()
    })
}

/// Runs until the tester is done, with a guest that answers so long after the last fragment of a request.
fn run(plan: &[u8], card: &mut Card, answers_after_ns: u64) -> StationCount {
    let plan = Plan::read(plan).unwrap();
    let mut bed = TestBed::new(1);
    bed.set_up(&plan, 0).unwrap();
    bed.start(&plan, 1_000, card);
    let (mut tail, mut seen) = (0_u16, 0);
    // Frames to send, and from when on.
    let mut to_send = VecDeque::new();
    let mut waiting: Vec<Vec<u8>> = Vec::new();
    while !bed.is_done() {
        let own = to_send.front().map(|&(at, _)| at);
        let room = usize::from(COUNT - 1) > usize::from((tail + COUNT - card.head) % COUNT);
        let own = own.filter(|_| room);
        let now = own.into_iter().chain(bed.deadline()).min().unwrap();
        bed.advance(Some(&plan), now, card);
        while seen < card.arrived.len() {
            let mut frame = card.arrived[seen].clone();
            seen += 1;
            // Back to the sender, as an answer if this is the first fragment.
            for (a, b) in [(0, 6), (26, 30)] {
                let length = if a == 0 { 6 } else { 4 };
                let (x, y) = (frame[a..a + length].to_vec(), frame[b..b + length].to_vec());
                frame[a..a + length].copy_from_slice(&y);
                frame[b..b + length].copy_from_slice(&x);
            }
            let place = u16::from_be_bytes([frame[20], frame[21]]);
            if place & 0x1FFF == 0 && frame[23] == 1 {
                frame[34] = 0;
            }
            waiting.push(frame);
            if place & 0x2000 == 0 {
                to_send.extend(waiting.drain(..).map(|frame| (now + answers_after_ns, frame)));
            }
        }
        if own == Some(now)
            && let Some((_, frame)) = to_send.pop_front()
        {
            card.put(tail, &frame);
            tail = (tail + 1) % COUNT;
            bed.send(1, tail, now, card);
            assert_eq!(bed.tail(1), tail);
        }
    }
    let count = card.records.iter().find_map(|record| match record.event {
        Event::Station(count) => Some(count),
        _ => None,
    });
    count.unwrap()
}

fn round_trips(card: &Card) -> Vec<(u64, u64)> {
    let of = |record: &Record| match record.event {
        Event::Answer { requested_ns } => Some((requested_ns, record.at_ns - requested_ns)),
        _ => None,
    };
    card.records.iter().filter_map(of).collect()
}

#[test]
fn an_answer_takes_its_time_on_the_link_both_ways() {
    for (speed, data_bytes, fragments) in [
        (LinkSpeed::GBIT_1, 56, vec![98]),
        (LinkSpeed::MBIT_100, 56, vec![98]),
        (LinkSpeed::MBIT_100, 3_000, vec![1_514, 1_514, 82]),
    ] {
        let pace = StationPace::Answered(10_000_000);
        let mut card = Card::new();
        let count = run(&plan(Kind::Echo, data_bytes, pace, speed), &mut card, 5_000);
        let gap_ns = speed.duration_ns(12) * (fragments.len() as u64 - 1);
        let one_way_ns: u64 =
            fragments.iter().map(|&length| frame_ns(speed, length)).sum::<u64>() + gap_ns;
        let round_trips = round_trips(&card);
        assert_eq!(round_trips.len() as u64, count.answers);
        assert!(round_trips.len() > 50, "{round_trips:?}");
        assert!(round_trips.iter().all(|&(_, took)| took == 2 * one_way_ns + 5_000));
        // The next request begins when the answer is there: the link is free by then.
        assert!(round_trips.windows(2).all(|pair| pair[1].0 == pair[0].0 + pair[0].1));
        assert_eq!(round_trips[0].0, 1_000);
        let per = fragments.len() as u64;
        assert_eq!((count.refused, count.received / per), (0, count.answers));
        assert_eq!(card.left as u64, count.received);
    }
}

#[test]
fn requests_without_an_answer_come_every_period() {
    let pace = StationPace::Answered(3_000_000);
    let mut card = Card::new();
    card.has_room = false;
    let count = run(&plan(Kind::Echo, 56, pace, LinkSpeed::GBIT_1), &mut card, 0);
    // 20 ms, the CAN frame, 1.1 s in which the guest could still pass it on.
    assert_eq!((count.datagrams, count.answers), (374, 0));
    assert_eq!((count.frames, count.refused), (374, 374));
}

#[test]
fn a_link_that_is_full_carries_what_it_can() {
    let mut card = Card::new();
    let pace = StationPace::Every(0);
    let count = run(&plan(Kind::Udp, 18, pace, LinkSpeed::MBIT_100), &mut card, 0);
    // A frame of 64 bytes with preamble and gap takes 6.72 us.
    let busy_ns = count.frames * 6_720;
    assert!((1_120_000_000..1_120_500_000).contains(&busy_ns), "{busy_ns}");
    assert_eq!(card.arrived.len() as u64, count.frames);
}

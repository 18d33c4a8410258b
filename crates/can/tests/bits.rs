//! The bus, held against one that is worked out bit by bit: every node puts a level on the wire and reads what all of
//! them together make of it, by the rules of ISO 11898-1 for classical frames and error-active nodes.

use candor_can::{Bus, Fault, Node, NodeId, Notice, Options, Request, TimedFaults};
use candor_wire::can::bits::stream::{self, Field};
use candor_wire::can::{Frame, Timing};
use proptest::prelude::*;

/// A frame as its sender puts it on the wire; `true` is recessive.
#[derive(Clone, Debug)]
struct Sent {
    levels: Vec<bool>,
    /// Bits before this one are of the arbitration field.
    arbitration: usize,
    /// The bits from its start to its check sequence, without stuff bits.
    bits: Vec<bool>,
}

impl Sent {
    fn new(frame: &Frame) -> Self {
        let (mut levels, mut bits) = (Vec::new(), Vec::new());
        let (mut arbitration, last) = (0, if frame.is_extended() { 32 } else { 12 });
        stream::encode(frame, |bit| {
            if !matches!(bit.field, Field::Ack | Field::Eof | Field::Intermission) {
                if bits.len() <= last {
                    arbitration = levels.len() + 1;
                }
                if !bit.is_stuff {
                    bits.push(bit.value);
                }
            }
            levels.push(bit.value);
        })
        .unwrap();
        levels.truncate(levels.len() - 3);
        Self { levels, arbitration, bits }
    }

    /// What a receiver makes of the levels that it has read so far.
    fn seen(&self, levels: &[bool]) -> Seen {
        let (mut bits, mut run, mut last) = (Vec::new(), 0, None);
        for (at, &level) in levels.iter().enumerate() {
            let is_stuff = run == 5;
            if bits.len() == self.bits.len() && !is_stuff {
                return Seen::Fixed { at: levels.len() - at, is_right: bits == self.bits };
            }
            if is_stuff && last == Some(level) {
                return Seen::Wrong;
            }
            run = if last == Some(level) { run + 1 } else { 1 };
            last = Some(level);
            if !is_stuff {
                bits.push(level);
            }
        }
        Seen::Fixed { at: 0, is_right: false }
    }
}

/// What a receiver knows of a frame.
enum Seen {
    /// Six equal bits.
    Wrong,
    /// So many bits of fixed form, from the CRC delimiter on, were read; whether the check sequence is right.
    Fixed { at: usize, is_right: bool },
}

/// What a node does in a bit.
#[derive(Clone, Debug)]
enum State {
    Idle,
    /// Sends the frame in front of its queue, from this bit on.
    Sends(usize),
    /// Reads a frame of somebody else, and has read these levels.
    Reads(Vec<bool>),
    /// Has so many bits of its error or overload flag to send yet.
    Flag(u32),
    /// Waits for so many recessive bits.
    Recessive(u32),
}

/// A flag, and behind it the delimiter of 8 and the intermission of 3.
const FLAG: u32 = 6;
const TAIL: u32 = 8 + 3;

#[derive(Debug, PartialEq)]
enum Event {
    Begins(usize),
    Received(usize),
    Sent(usize),
}

/// What happens, with the number of the bit at whose end it does (a begin: at whose begin).
type Log = Vec<(u64, Event)>;

/// Works out what becomes of frames, each with the bit from which on its node wants to send it; a node sends them in order.
fn bit_by_bit(nodes: &[Vec<(u64, Frame)>], faults: &[Fault]) -> Log {
    let mut queues: Vec<_> =
        nodes.iter().map(|queue| queue.iter().rev().copied().collect::<Vec<_>>()).collect();
    let sent: Vec<Vec<_>> = queues
        .iter()
        .map(|queue| queue.iter().map(|(_, frame)| Sent::new(frame)).collect())
        .collect();
    let front =
        |queues: &[Vec<(u64, Frame)>], node: usize| sent[node][queues[node].len() - 1].clone();
    let mut states = vec![State::Idle; nodes.len()];
    let mut log = Vec::new();
    let (mut begun, mut on_wire): (u64, Option<(u64, Sent)>) = (0, None);
    for bit in 0.. {
        if queues.iter().all(Vec::is_empty) && states.iter().all(|it| matches!(it, State::Idle)) {
            return log;
        }
        let is_idle = states.iter().all(|it| matches!(it, State::Idle));
        for (node, state) in states.iter_mut().enumerate().filter(|_| is_idle) {
            if queues[node].last().is_some_and(|&(from, _)| from <= bit) {
                *state = State::Sends(0);
            }
        }
        let mut winner = None;
        let mut level = true;
        for (node, state) in states.iter().enumerate() {
            let own = match state {
                State::Sends(at) => {
                    if *at == 0 && is_idle {
                        winner.get_or_insert(node);
                    }
                    front(&queues, node).levels[*at]
                }
                // It acknowledges.
                State::Reads(levels) => {
                    let (_, it) = on_wire.as_ref().unwrap();
                    !matches!(it.seen(levels), Seen::Fixed { at: 1, is_right: true })
                }
                State::Flag(_) => false,
                State::Idle | State::Recessive(_) => true,
            };
            level &= own;
        }
        if winner.is_some() {
            // Those that begin together: the most urgent frame is what will be on the wire.
            let begin = (0..nodes.len()).filter(|&it| matches!(states[it], State::Sends(0)));
            let first =
                begin.min_by_key(|&it| queues[it].last().unwrap().1.arbitration_key()).unwrap();
            log.push((bit, Event::Begins(first)));
            on_wire = Some((bit, front(&queues, first)));
            begun += 1;
        }
        if let Some((begin, _)) = &on_wire {
            let is_hit = |it: &&Fault| it.frame + 1 == begun && u64::from(it.bit) == bit - begin;
            level ^= faults.iter().any(|it| is_hit(&it));
        }
        let mut is_over = false;
        for node in 0..nodes.len() {
            let next = match &states[node] {
                State::Idle if level => State::Idle,
                State::Idle => State::Reads(vec![false]),
                State::Flag(1) => State::Recessive(TAIL),
                State::Flag(left) => State::Flag(left - 1),
                // The flags of others are not over.
                State::Recessive(TAIL) if !level => State::Recessive(TAIL),
                State::Recessive(1) => State::Idle,
                State::Recessive(left) => State::Recessive(left - 1),
                State::Sends(at) => {
                    let (at, it) = (*at, front(&queues, node));
                    let is_acknowledge = at + 9 == it.levels.len();
                    if is_acknowledge && level {
                        is_over = true;
                        State::Flag(FLAG)
                    } else if level == it.levels[at] || is_acknowledge {
                        if at + 1 == it.levels.len() {
                            log.push((bit + 1, Event::Sent(node)));
                            queues[node].pop();
                            is_over = true;
                            State::Recessive(3)
                        } else {
                            State::Sends(at + 1)
                        }
                    } else if at < it.arbitration && !level {
                        // It has read what it sent so far. If that was a stuff bit, these are six equal bits.
                        let levels = [&it.levels[..at], &[level]].concat();
                        match it.seen(&levels) {
                            Seen::Wrong => State::Flag(FLAG),
                            Seen::Fixed { .. } => State::Reads(levels),
                        }
                    } else {
                        is_over = true;
                        State::Flag(FLAG)
                    }
                }
                State::Reads(levels) => {
                    let Some((_, it)) = &on_wire else { unreachable!("somebody sends") };
                    let levels = [levels, &[level][..]].concat();
                    match it.seen(&levels) {
                        Seen::Wrong => State::Flag(FLAG),
                        Seen::Fixed { at: 0, .. } => State::Reads(levels),
                        // In the acknowledge slot it sends dominant if the check sequence is right, and else tells that behind the
                        // delimiter.
                        Seen::Fixed { at: 2, is_right } if level && is_right => State::Flag(FLAG),
                        Seen::Fixed { at: 2, .. } => State::Reads(levels),
                        Seen::Fixed { at: 3, is_right: false } => State::Flag(FLAG),
                        // In the last bit it is an overload flag, which is as long.
                        Seen::Fixed { .. } if !level => State::Flag(FLAG),
                        Seen::Fixed { at: 10, .. } => State::Recessive(3),
                        Seen::Fixed { at, .. } => {
                            if at == 9 {
                                log.push((bit + 1, Event::Received(node)));
                            }
                            State::Reads(levels)
                        }
                    }
                }
            };
            states[node] = next;
        }
        if is_over {
            on_wire = on_wire.filter(|_| states.iter().any(|it| matches!(it, State::Reads(_))));
        }
    }
    unreachable!("it ends")
}

/// What the bus makes of it, at 1 us for a bit.
fn by_the_bus(nodes: &[Vec<(u64, Frame)>], faults: &[Fault]) -> Log {
    let timing = Timing::classical("1M".parse().unwrap());
    let members = vec![Node::TAKES_PART; nodes.len()];
    let mut bus = Bus::new(timing, members, TimedFaults::NONE, Options::default());
    for &fault in faults {
        assert!(bus.faults_mut().add(fault));
    }
    let mut next = vec![0; nodes.len()];
    let request = |bus: &mut Bus<_, _>, node: usize, next: &[usize], now: u64| {
        if let Some(&(from, frame)) = nodes[node].get(next[node]) {
            let request = Request::new(frame, (from * 1_000).max(now)).unwrap();
            bus.request(NodeId(node as u32), request);
        }
    };
    (0..nodes.len()).for_each(|node| request(&mut bus, node, &next, 0));
    let mut log = Vec::new();
    while let Some(at) = bus.deadline() {
        let mut notices = Vec::new();
        bus.advance(at, &mut |node: NodeId, at, notice| notices.push((node, at, notice)));
        let begins = notices.iter().filter(|it| it.2 == Notice::Started).map(|it| it.0);
        let key = |node: &NodeId| nodes[node.0 as usize][next[node.0 as usize]].1.arbitration_key();
        if let Some(first) = begins.min_by_key(key) {
            log.push((at / 1_000, Event::Begins(first.0 as usize)));
        }
        for (node, at, notice) in notices {
            let (node, bit) = (node.0 as usize, at / 1_000);
            match notice {
                Notice::Received(_) => log.push((bit, Event::Received(node))),
                Notice::Sent(_) => {
                    log.push((bit, Event::Sent(node)));
                    next[node] += 1;
                    request(&mut bus, node, &next, at);
                }
                _ => {}
            }
        }
    }
    log
}

fn frames() -> impl Strategy<Value = Frame> {
    let data = prop::collection::vec(prop_oneof![Just(0), Just(0xFF), any::<u8>()], 0..=8);
    (any::<u32>(), any::<bool>(), any::<bool>(), data).prop_map(
        |(id, is_extended, is_remote, data)| {
            let id = if is_extended { id & 0x1FFF_FFFF | 0x8000_0000 } else { id & 0x7FF };
            match is_remote {
                true => Frame::from_parts(id | 0x4000_0000, &[], None).unwrap(),
                false => Frame::from_parts(id, &data, None).unwrap(),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn frames_and_errors_take_the_bits_of_the_standard(
        offers in prop::collection::vec((0_usize..4, prop_oneof![Just(0_u64), 0_u64..3_000], frames()), 1..12),
        faults in prop::collection::vec((0_u64..16, 1_u32..150), 0..6),
    ) {
        // The last node only listens.
        let mut nodes = vec![Vec::new(); 5];
        let mut keys = Vec::new();
        for (node, from, frame) in offers {
            // Frames with one identifier destroy each other.
            if !keys.contains(&frame.arbitration_key()) {
                keys.push(frame.arbitration_key());
                nodes[node].push((from, frame));
            }
        }
        // One wrong bit of a frame: what comes behind it is an error frame.
        let mut hit: Vec<Fault> = Vec::new();
        for (frame, bit) in faults {
            if hit.iter().all(|it| it.frame != frame) {
                hit.push(Fault { frame, bit });
            }
        }
        prop_assert_eq!(by_the_bus(&nodes, &hit), bit_by_bit(&nodes, &hit));
    }
}

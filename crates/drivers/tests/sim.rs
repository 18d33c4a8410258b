//! What is special about `sim:` ports: their time, arbitration, bounds.

#[allow(dead_code, reason = "the suite itself is run elsewhere")]
mod suite;

use candor_drivers::REGISTRY;
use candor_linux::clock;
use candor_port::{ErrorKind, Port, Progress, Received, Sent, Until, Wanted};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::{Frame, Timing, bits};
use suite::{Listening, transmit};

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

/// The name of a bus that no other test has, nor another run of this one.
fn bus(name: &str, options: &str) -> String {
    format!("sim:test-{name}-{}?{options}", std::process::id())
}

/// When a frame is complete that starts `begin` after its bus has become busy, and when the bus is
/// free behind it.
fn pass(timing: Timing, begin: u64, frame: &Frame) -> (u64, u64) {
    let length = bits::length(frame).unwrap();
    let complete = begin + timing.duration_ns(length.without_intermission());
    (complete, complete + timing.nominal.duration_ns(3))
}

/// The shortest time of a frame at 10 kbit/s.
const SHORTEST: Nanos = Nanos::from_micros(44 * 100);

/// Transmits frames by the nodes beside their numbers, so fast that all wait while the first one
/// is on the bus; gives what the last node receives, and when each was complete.
fn compete(name: &str, frames: &[(usize, &str)]) -> Vec<(String, u64)> {
    let nodes = 1 + frames.iter().map(|(node, _)| *node).max().unwrap();
    for _ in 0..100 {
        let mut all: Vec<Port> =
            (0..nodes).map(|_| suite::open(REGISTRY, name, Wanted::TRANSMITTER)).collect();
        let listener = suite::open(REGISTRY, name, Wanted::RECEIVER);
        let listening = Listening::start(listener.receiver.unwrap());
        let begin = clock::now::<Monotonic>();
        for (node, text) in frames {
            let transmitter = all[*node].transmitter.as_deref_mut().unwrap();
            assert_eq!(transmitter.transmit(&frame(text), false), Sent::Taken);
        }
        // If the machine was busy with something else, this says nothing.
        let is_in_time = clock::now::<Monotonic>() - begin < SHORTEST;
        let last = frame("7FE#1A57");
        for port in &mut all {
            let transmitter = port.transmitter.as_deref_mut().unwrap();
            while !transmitter.is_drained() {
                transmitter.wait(Nanos::from_millis(10));
            }
        }
        let _ = transmit(all[0].transmitter.as_deref_mut().unwrap(), &last);
        let (_, received) = listening.until_last();
        assert_eq!(received.len(), frames.len());
        if is_in_time {
            let reported = |received: &candor_port::Received| {
                let stamp = received.stamp.system.map_or(0, Instant::as_nanos);
                (received.frame.to_string(), stamp)
            };
            return received.iter().map(reported).collect();
        }
        println!("once more: the machine was busy");
    }
    panic!("the machine is too busy for this test");
}

#[test]
fn frames_take_as_long_as_their_bits() {
    let name = bus("bits", "bitrate=10k&data_bitrate=40k");
    let timing = Timing { nominal: "10k".parse().unwrap(), data: "40k".parse().unwrap() };
    let texts = ["123#", "123#FFFFFFFFFFFFFFFF", "00000000#0000", "7FF##1AABB", "7FF##0AABB"];
    let begin = clock::now::<Monotonic>();
    let frames: Vec<_> = texts.iter().map(|text| (0, *text)).collect();
    let received = compete(&name, &frames);
    let (mut free, mut expected) = (0, Vec::new());
    for text in texts {
        let (complete, next) = pass(timing, free, &frame(text));
        expected.push((text.to_owned(), complete));
        free = next;
    }
    let first = received[0].1 - expected[0].1;
    let received: Vec<_> =
        received.into_iter().map(|(text, stamp)| (text, stamp - first)).collect();
    assert_eq!(received, expected);
    // And really so long.
    assert!(clock::now::<Monotonic>() - begin >= Nanos::from_nanos(free));
}

#[test]
fn the_most_urgent_frame_is_next() {
    let name = bus("arbitration", "bitrate=10k");
    // Of each node in its own order. The first one wins, should the bus begin late.
    let received = compete(
        &name,
        &[
            (0, "000#FFFFFFFFFFFFFFFF"),
            (1, "300#"),
            (1, "001#"),
            (2, "200#R"),
            (3, "200#"),
            (4, "08000000#"),
            (5, "201#"),
        ],
    );
    let order: Vec<_> = received.iter().map(|(text, _)| text.as_str()).collect();
    let expected = ["000#FFFFFFFFFFFFFFFF", "200#", "200#R", "08000000#", "201#", "300#", "001#"];
    assert_eq!(order, expected);
}

/// Different frames with one identifier destroy each other, until both nodes are error-passive and one of them gives way; it
/// goes bus-off in the end, comes back, and all of its frames are sent all the same.
#[test]
fn frames_with_one_identifier_all_come_in_the_end() {
    let name = bus("collision", "bitrate=10k&queue=32");
    let texts: Vec<_> =
        (0..36).map(|at| (1 + at % 2, format!("123#{:02X}{at:02X}", at % 2))).collect();
    let mut frames = vec![(0, "000#FFFFFFFFFFFFFFFF")];
    frames.extend(texts.iter().map(|(node, text)| (*node, text.as_str())));
    let (received, stamps): (Vec<_>, Vec<_>) = compete(&name, &frames).into_iter().unzip();
    // 36 frames of at most 75 bits and 16 error frames of at most 60 take 3,660 bits: the rest is the silence after bus-off.
    let bits = (stamps[36] - stamps[0]) / 100_000;
    assert!(bits > 3_660 + 11, "{bits} bits");
    for node in 0..3 {
        let of_node = |it: &&(usize, &str)| it.0 == node;
        let sent: Vec<_> = frames.iter().filter(of_node).map(|it| it.1).collect();
        let came: Vec<_> = received.iter().filter(|text| sent.contains(&text.as_str())).collect();
        assert_eq!(came, sent, "{node}");
    }
}

#[test]
fn a_queue_has_its_bound_and_room_again() {
    let name = bus("queue", "bitrate=20k&queue=3");
    let mut port = suite::open(REGISTRY, &name, Wanted::TRANSMITTER);
    let transmitter = port.transmitter.as_deref_mut().unwrap();
    let long = frame("7FF#FFFFFFFFFFFFFFFF");
    let begin = clock::now::<Monotonic>();
    for _ in 0..3 {
        assert_eq!(transmitter.transmit(&long, false), Sent::Taken);
    }
    let is_full = transmitter.transmit(&long, false) == Sent::Full;
    let frame_time = Nanos::from_micros(111 * 50);
    // Unless the machine was busy for longer than a frame takes.
    assert!(is_full || clock::now::<Monotonic>() - begin >= frame_time);
    assert!(transmit(transmitter, &long) > 0 || !is_full);
    while !transmitter.is_drained() {
        transmitter.wait(Nanos::from_secs(1));
    }
    assert!(clock::now::<Monotonic>() - begin >= frame_time * 4);
    let counters = transmitter.counters();
    assert_eq!((counters.frames.get(), counters.lost.get()), (4, 0));
}

/// The longest time for what takes milliseconds, on a machine that does much else.
const MOST: Nanos = Nanos::from_secs(30);

/// It learns it when it has read what came, and no further frame is needed.
#[test]
fn a_slow_receiver_learns_what_it_lost() {
    const SENT: u64 = 2_000;
    let name = bus("slow", "bitrate=20M&data_bitrate=20M");
    let mut receiver = suite::open(REGISTRY, &name, Wanted::RECEIVER).receiver.unwrap();
    let mut port = suite::open(REGISTRY, &name, Wanted::TRANSMITTER);
    let transmitter = port.transmitter.as_deref_mut().unwrap();
    let counters = receiver.counters();
    let mut received = Vec::new();
    // The second time, something was lost already.
    for round in 1..=2 {
        for number in 0..SENT {
            let _ = transmit(transmitter, &frame(&format!("123#{round:02X}{number:08X}")));
        }
        while !transmitter.is_drained() {
            transmitter.wait(Nanos::from_secs(1));
        }
        let before = counters.overflow.get();
        let end = clock::now::<Monotonic>() + MOST;
        while counters.frames.get() + counters.overflow.get() < round * SENT {
            let mut take = |it: &Received| received.push(it.frame.data().to_vec());
            receiver.receive(Until::Instant(end), &mut take).unwrap();
            assert!(clock::now::<Monotonic>() < end, "{counters:?}");
        }
        assert!(counters.overflow.get() > before, "{counters:?}");
    }
    let _ = transmit(transmitter, &frame("7FE#1A57"));
    let (_, last) = Listening::start(receiver).until_last();
    assert_eq!(last, []);
    assert_eq!(counters.frames.get(), received.len() as u64 + 1);
    assert_eq!(counters.frames.get() + counters.overflow.get(), 2 * SENT + 1, "{counters:?}");
    assert_eq!(counters.malformed.get(), 0);
    assert!(received.is_sorted());
}

#[test]
fn the_bit_rates_of_the_bus_hold_until_all_have_left() {
    let open = |options: &str, wanted| {
        candor_drivers::open(&bus("rates", options).parse().unwrap(), wanted)
    };
    for _ in 0..20 {
        let first = open("bitrate=250k", Wanted::BOTH).unwrap();
        assert!(open("bitrate=250k&data_bitrate=2M", Wanted::BOTH).is_ok());
        for options in ["bitrate=500k", "data_bitrate=1M", "bitrate=250k&data_bitrate=5M"] {
            let error = open(options, Wanted::RECEIVER).err().unwrap().to_string();
            let reported = "the bus already runs with bitrate=250k&data_bitrate=2M (process ";
            assert!(error.contains(reported), "{error}");
        }
        drop(first);
        assert!(open("bitrate=500k&data_bitrate=8M", Wanted::TRANSMITTER).is_ok());
    }
}

#[test]
fn a_full_bus_says_so_and_has_room_again() {
    let open = || candor_drivers::open(&bus("full", "queue=16").parse().unwrap(), Wanted::BOTH);
    let mut nodes: Vec<Port> = (0..128).map(|_| open().unwrap()).collect();
    for _ in 0..100 {
        let error = open().err().unwrap();
        let reported = "the bus is full: process ";
        assert!(error.to_string().contains(reported), "{error}");
        assert_eq!(error.kind(), ErrorKind::Busy);
    }
    nodes.pop();
    nodes.push(open().unwrap());
}

#[test]
fn what_cannot_be_is_refused() {
    let long = format!("sim:{}", "x".repeat(65));
    for (name, reason) in [
        ("sim:a?queue=0", "a queue cannot have 0 frames; use 1 to 128"),
        ("sim:a?queue=129", "a queue cannot have 129 frames"),
        (
            "sim:a?bitrate=fast",
            "`bitrate=fast` is not a valid value; write for example bitrate=500k",
        ),
        ("sim:a?speed=1", "has no option `speed`"),
        (&long, "the name of the bus is too long"),
    ] {
        let error = candor_drivers::open(&name.parse().unwrap(), Wanted::BOTH).err().unwrap();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_node_that_makes_no_sense_is_left_alone() {
    use std::io::Write;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};

    let name = bus("nonsense", "bitrate=20M&data_bitrate=20M");
    let mut port = suite::open(REGISTRY, &name, Wanted::BOTH);
    let user = candor_linux::peer::own_user();
    let place = format!("candor.sim.{user}.test-nonsense-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(place).unwrap();
    let mut rogues = Vec::new();
    for byte in [0_u8, 1, 4, 255] {
        let mut rogue = UnixStream::connect_addr(&address).unwrap();
        // It may be put out in the middle of it.
        let _ = rogue.write_all(&[byte; 4_000]);
        rogues.push(rogue);
    }
    let mut other = suite::open(REGISTRY, &name, Wanted::TRANSMITTER);
    let _ = transmit(other.transmitter.as_deref_mut().unwrap(), &frame("123#11"));
    let mut received = Vec::new();
    let receiver = port.receiver.as_deref_mut().unwrap();
    let progress = receiver.receive(Until::Woken, &mut |frame| received.push(frame.frame));
    assert_eq!((progress, received), (Ok(Progress::Frames(1)), vec![frame("123#11")]));
}

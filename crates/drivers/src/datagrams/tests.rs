//! Formats that are distinguished, peers that are ignored, frames that are kept back.

use super::*;

#[test]
fn places_are_understood() {
    for (place, address) in [
        ("127.0.0.1:20001", "127.0.0.1:20001"),
        ("127.0.0.1", "127.0.0.1:20000"),
        ("[::1]:1", "[::1]:1"),
        ("[::1]", "[::1]:20000"),
        ("[fe80::1%lo]:5", "[fe80::1%1]:5"),
        ("[fe80::1%lo]", "[fe80::1%1]:20000"),
        ("[fe80::1%1]:5", "[fe80::1%1]:5"),
    ] {
        assert_eq!(resolve("p", place, 20_000), Ok(address.parse().unwrap()), "{place}");
    }
    for place in [
        "",
        ":",
        "127.0.0.1:x",
        "127.0.0.1:70000",
        "::1",
        "[::1",
        "a b:1",
        "[fe80::1%]:5",
        "[fe80%lo]:5",
    ] {
        let error = resolve("p", place, 20_000).unwrap_err();
        assert!(error.to_string().contains("[2001:db8::1]:port"), "{place}: {error}");
    }
    // An interface may come.
    let error = resolve("p", "[fe80::1%absent0]:5", 20_000).unwrap_err();
    assert!(error.is_passing() && error.to_string().contains("absent0"), "{error}");
    assert_eq!(literal("p", "[fe80::1%absent0]:5", 20_000), Ok(None));
}

#[test]
fn own_frames_are_recognised_by_port_and_address() {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let mut own = Own::new(Some(&socket));
    let from = |ip: [u8; 4], port| SocketAddr::from((ip, port));
    for _ in 0..2 {
        assert_eq!(own.origin(from([127, 0, 0, 1], port)), Origin::Own);
        assert_eq!(own.origin(from([127, 0, 0, 1], port ^ 1)), Origin::Bus);
        assert_eq!(own.origin(from([198, 51, 100, 7], port)), Origin::Bus);
    }
    assert_eq!(Own::new(None).origin(from([127, 0, 0, 1], port)), Origin::Bus);
}

/// Every datagram is a frame.
struct Anything;

impl Reads for Anything {
    fn read(
        &mut self,
        _: &Datagram<'_>,
        _: u32,
        _: &ReceiverCounters,
        take: &mut dyn FnMut(&Frame, Option<Instant<Realtime>>),
    ) -> DatagramContents {
        if let Ok(frame) = "123#".parse() {
            take(&frame, None);
        }
        DatagramContents::Good
    }
}

/// A port takes over the socket of another one while datagrams come faster than they can be received, and both receive for a
/// while: each of them is received or dropped once, whoever hears of it.
#[test]
fn drops_are_counted_once_when_a_socket_changes_hands() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    for round in 0..40 {
        let bound = Bound::new(udp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        let to = Destination::new(bound.socket.local_addr().unwrap());
        let sender = udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let open = || {
            let name = "p:x?buffer=1".parse().unwrap();
            Inlet::open(&name, Arc::clone(&bound), Anything, Own::new(None), Wanted::RECEIVER)
        };
        let mut inlets = vec![open().unwrap()];
        let mut all = vec![inlets[0].counters()];
        let mut sent = 0;
        for _ in 0..30 {
            match next(6) {
                0 if inlets.len() < 2 => {
                    inlets.push(open().unwrap());
                    all.push(inlets[1].counters());
                }
                1 if inlets.len() > 1 => drop(inlets.remove(next(2) as usize)),
                2 | 3 => {
                    for _ in 0..next(20) {
                        assert_eq!(
                            udp::send(&sender, &[0; 1024], &to),
                            Ok(candor_linux::Sent::Taken)
                        );
                        sent += 1;
                    }
                }
                _ => {
                    let who = next(inlets.len() as u64) as usize;
                    inlets[who].receive(Until::Now, &mut |_| ()).unwrap();
                }
            }
        }
        let last = inlets.last_mut().unwrap();
        while last.receive(Until::Now, &mut |_| ()) != Ok(Progress::Nothing) {}
        drop(inlets);
        let sum: u64 = all.iter().map(|one| one.frames.get() + one.overflow.get()).sum();
        assert_eq!(sum, sent, "round {round}");
    }
}

/// As when a receiver is interrupted while datagrams come faster than they can be received.
#[test]
fn what_waits_does_not_count_drops_again() {
    let socket = udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = Destination::new(socket.local_addr().unwrap());
    let sender = udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let own = Own::new(None);
    let name = "p:x?buffer=1".parse().unwrap();
    let inlet = Inlet::open(&name, Bound::new(socket), Anything, own, Wanted::RECEIVER);
    let mut inlet = inlet.unwrap();
    let counters = inlet.counters();
    let mut sent = 0;
    let mut flood = |count: u64| {
        for _ in 0..count {
            let outcome = udp::send(&sender, &[0; 1024], &to);
            assert_eq!(outcome, Ok(candor_linux::Sent::Taken));
        }
        sent += count;
        sent
    };
    for _ in 0..3 {
        // Some wait; the others are dropped behind them, and nothing waits that tells so.
        let sent = flood(20);
        inlet.ask_for_overflow();
        let dropped = counters.overflow.get();
        assert!(0 < dropped && dropped < sent, "{dropped}");
        while counters.frames.get() + dropped < sent {
            inlet.receive(Until::Woken, &mut |_| ()).unwrap();
        }
        assert_eq!(counters.overflow.get(), dropped);
    }
}

#[test]
fn a_kernel_that_does_not_answer_is_asked_again() {
    let mut own = Own { port: Some(7), known: None };
    let source: SocketAddr = "192.0.2.1:7".parse().unwrap();
    for (answer, expected) in [
        (None, Origin::Own),
        (None, Origin::Own),
        (Some(false), Origin::Bus),
        (None, Origin::Bus),
        (Some(true), Origin::Bus),
    ] {
        assert_eq!(own.origin_by(source, |_| answer), expected, "{answer:?}");
    }
}

#[test]
fn frames_leave_by_a_beat() {
    let at = Instant::<Monotonic>::from_nanos;
    let beat = |now| next_beat(at(now), Nanos::from_micros(500)).as_nanos();
    for (now, due) in [(0, 500_000), (1, 500_000), (499_999, 500_000), (500_000, 1_000_000)] {
        assert_eq!(beat(now), due);
    }
}

#[test]
fn frames_are_due_at_once_unless_they_may_be_kept() {
    let mut patience = FlushPolicy::new(Nanos::ZERO);
    assert_eq!(patience.due(), None);
    patience.begin();
    assert_eq!(patience.due(), Some(Instant::ZERO));
    let mut patience = FlushPolicy::new(Nanos::from_secs(1));
    let before = clock::now::<Monotonic>();
    patience.begin();
    let due = patience.due();
    patience.begin();
    assert_eq!(patience.due(), due, "the first one counts");
    let latest = clock::now::<Monotonic>() + Nanos::from_secs(1);
    assert!(due.is_some_and(|due| before < due && due <= latest));
    patience.end();
    assert_eq!(patience.due(), None);
}

/// A datagram with as many bytes as the frame, and one more.
struct AsLong;

impl Writes for AsLong {
    fn write(&mut self, frame: &Frame, out: &mut [u8; MOST_BYTES]) -> Option<usize> {
        out[0] = frame.len() as u8;
        out[1..=frame.len()].copy_from_slice(frame.data());
        Some(1 + frame.len())
    }
}

#[test]
fn datagrams_of_one_length_leave_together_and_in_order() {
    let socket = udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    udp::set_receive_buffer(&socket, 4 << 20).unwrap();
    let sender = Arc::new(udp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
    let outlet =
        || DatagramSender::new(Arc::clone(&sender), Peer::new(socket.local_addr().unwrap(), None));
    // Runs of one length: longer than what leaves at once, of one, and of none.
    let runs = [(3, 200), (8, 1), (0, 2), (8, 65), (64, 64), (1, 1)];
    for has_segments in [true, false] {
        let mut single = Single::new(outlet(), AsLong);
        single.has_segments = has_segments;
        let mut sent = Vec::new();
        for (len, count) in runs {
            for number in 0..count {
                let data = vec![number as u8; len];
                let frame = match len {
                    0..=8 => Frame::new("123#".parse::<Frame>().unwrap().id(), &data),
                    _ => Frame::fd("123#".parse::<Frame>().unwrap().id(), 0, &data),
                };
                assert_eq!(single.transmit(&frame.unwrap(), false), Sent::Taken);
                sent.push([&[len as u8][..], &data].concat());
            }
        }
        assert_eq!(single.flush_due(), Some(Instant::ZERO));
        assert_eq!(single.flush(), Sent::Taken);
        assert_eq!((single.flush_due(), single.kept.len()), (None, 0));
        let counters = single.counters();
        let count = sent.len() as u64;
        assert_eq!((counters.frames.get(), counters.datagrams.get()), (count, count));
        for expected in sent {
            let mut bytes = [0; MOST_BYTES];
            let len = socket.recv(&mut bytes).unwrap();
            assert_eq!(bytes[..len], expected);
        }
    }
}

//! Ports on vcan interfaces.

use std::io::{Read, Write, pipe};

use candor_drivers::REGISTRY;
use candor_linux::can::{RawFrame, Socket};
use candor_linux::clock;
use candor_linux::namespace::Namespace;
use candor_linux::netlink::Netlink;
use candor_linux::poll::{self, Interest};
use candor_linux::process::{Child, fork};
use candor_port::{
    ErrorKind, Filter, Origin, Progress, Received, Receiver, Sent, State, Transmitter, Until,
    Wanted,
};
use candor_time::{Monotonic, Nanos};
use candor_wire::can::frame::EFF_FLAG;
use candor_wire::can::{Frame, Kind};

use crate::suite::{self, Bench, Listening};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 14] = [
    ("socketcan_conforms", Need::Can, socketcan),
    ("packet_conforms", Need::Can, packet),
    ("a_flood_is_received_together", Need::Can, gathering),
    ("socketcan_and_packet_hear_each_other", Need::Can, both),
    ("containers_hear_each_other", Need::Can, containers),
    ("an_interface_without_fd_says_so", Need::Can, without_fd),
    ("origins_are_told", Need::Can, origins),
    ("filters_let_through_what_they_take", Need::Can, filters),
    ("the_status_is_that_of_the_interface", Need::Can, status),
    ("error_reports_come_if_they_are_wanted", Need::Can, error_reports),
    ("what_a_slow_receiver_loses_is_counted", Need::Can, overflow),
    ("an_interface_goes_down_and_returns", Need::Can, down),
    ("an_interface_goes_away_and_returns", Need::Can, away),
    ("options_are_understood", Need::Can, options),
];

/// Runs `body` as the first process of a container; whether it comes to its end in ten seconds.
fn in_a_container(body: impl FnOnce()) -> Child {
    let outside = fork(|| {
        Namespace::unshare_processes().unwrap();
        let (mut done, mut tell) = pipe().unwrap();
        let first = fork(|| {
            assert_eq!(std::process::id(), 1);
            body();
            tell.write_all(b".").unwrap();
            0
        });
        let first = first.unwrap();
        drop(tell);
        let is_done = poll::wait(&done, Interest::Read, Some(Nanos::from_secs(10))).unwrap()
            && done.read_exact(&mut [0]).is_ok();
        let _ = first.kill();
        first.wait().unwrap();
        i32::from(!is_done)
    });
    outside.unwrap()
}

/// Two containers that share a network: both have a process 1.
fn containers() {
    let _netlink = start(72);
    let (mut is_listening, mut tell) = pipe().unwrap();
    let open = || suite::open(REGISTRY, "packet:vcan0", Wanted::BOTH);
    let left = in_a_container(|| {
        let mut receiver = open().receiver.unwrap();
        tell.write_all(b".").unwrap();
        let mut arrived = Vec::new();
        while arrived.is_empty() {
            receiver.receive(Until::Woken, &mut |received| arrived.push(received.frame)).unwrap();
        }
        assert_eq!(arrived, [frame("123#AA")]);
    });
    is_listening.read_exact(&mut [0]).unwrap();
    let right = in_a_container(|| {
        let mut transmitter = open().transmitter.unwrap();
        assert_eq!(transmitter.transmit(&frame("123#AA"), true), Sent::Taken);
    });
    assert_eq!(right.wait().unwrap().status, Ok(0));
    assert_eq!(left.wait().unwrap().status, Ok(0), "nothing arrived");
}

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

fn vcan(netlink: &mut Netlink, mtu: u32) {
    netlink.create_vcan("vcan0").unwrap();
    netlink.set_mtu("vcan0", mtu).unwrap();
    netlink.set_up("vcan0", true).unwrap();
}

fn start(mtu: u32) -> Netlink {
    let mut netlink = Netlink::open().unwrap();
    vcan(&mut netlink, mtu);
    netlink
}

fn socketcan() {
    let _netlink = start(72);
    let port = suite::open(REGISTRY, "vcan0", Wanted::BOTH);
    assert!(port.capabilities.fd && !port.capabilities.hardware_stamps);
    suite::run(&Bench::new("vcan0", "socketcan:vcan0"));
    suite::run(&Bench::new("vcan0?send_buffer=1", "vcan0"));
}

fn packet() {
    let _netlink = start(72);
    // Under their own names both would ignore what the other one transmits; they do not.
    suite::run(&Bench::new("packet:vcan0", "packet:vcan0?ring=4096"));
    suite::run(&Bench::new("packet:vcan0", "packet:vcan0?ring=4096&gather=1ms"));
}

/// A port that gathers hands over as many frames as one that does not, in fewer calls.
fn gathering() {
    const FRAMES: u32 = 2_000;
    let _netlink = start(72);
    let calls = ["", "?gather=5ms"].map(|options| {
        let name = format!("packet:vcan0{options}");
        let mut receiver = suite::open(REGISTRY, &name, Wanted::RECEIVER).receiver.unwrap();
        let mut port = suite::open(REGISTRY, "vcan0", Wanted::TRANSMITTER);
        let sender = std::thread::spawn(move || {
            let transmitter = port.transmitter.as_deref_mut().unwrap();
            let mut at = clock::now::<Monotonic>();
            for number in 0..FRAMES {
                at += Nanos::from_micros(100);
                clock::sleep_until(at).unwrap();
                suite::transmit(transmitter, &format!("123#{number:08X}").parse().unwrap());
            }
        });
        let (mut calls, mut frames) = (0, Vec::new());
        while frames.len() < FRAMES as usize {
            let until = Until::Instant(clock::now::<Monotonic>() + Nanos::from_secs(10));
            match receiver.receive(until, &mut |it| frames.push(it.frame.to_string())).unwrap() {
                Progress::Frames(_) => calls += 1,
                progress => assert_eq!(progress, Progress::Nothing),
            }
        }
        sender.join().unwrap();
        let expected: Vec<_> = (0..FRAMES).map(|number| format!("123#{number:08X}")).collect();
        assert!(frames == expected, "{name}: other frames, or another order");
        calls
    });
    let [each, gathered] = calls;
    assert!(gathered * 4 < each, "{each} calls, and {gathered} with gather");
}

fn both() {
    let _netlink = start(72);
    suite::run(&Bench::new("packet:vcan0", "vcan0"));
    suite::run(&Bench::new("vcan0", "packet:vcan0?ring=4096"));
}

fn without_fd() {
    let _netlink = start(16);
    for name in ["vcan0", "packet:vcan0?ring=4096"] {
        assert!(!suite::open(REGISTRY, name, Wanted::BOTH).capabilities.fd, "{name}");
        suite::run(&Bench::new(name, name));
    }
}

/// Receives without waiting for longer than a frame takes that is there.
fn next(receiver: &mut dyn Receiver) -> Vec<Received> {
    let mut all = Vec::new();
    let progress = receiver.receive(Until::Woken, &mut |received| all.push(*received)).unwrap();
    assert_eq!(progress, Progress::Frames(all.len()));
    all
}

fn origins() {
    let _netlink = start(72);
    let other = Socket::open("vcan0").unwrap();
    let wanted = Wanted { own_frames: true, stamps: true, ..Wanted::BOTH };
    let mut port = suite::open(REGISTRY, "vcan0", wanted);
    let receiver = port.receiver.as_deref_mut().unwrap();
    let transmitter = port.transmitter.as_deref_mut().unwrap();
    assert_eq!(transmitter.transmit(&frame("001#"), false), Sent::Taken);
    assert_eq!(other.send(&RawFrame::from(frame("002#"))), Ok(candor_linux::Sent::Taken));
    let mut all = next(receiver);
    while all.len() < 2 {
        all.extend(next(receiver));
    }
    let reported: Vec<_> = all.iter().map(|received| (received.frame, received.origin)).collect();
    assert_eq!(reported, [(frame("001#"), Origin::Own), (frame("002#"), Origin::Machine)]);
    // Who only receives learns it too, if stamps are wanted.
    let mut port = suite::open(REGISTRY, "vcan0", Wanted::RECEIVER);
    assert_eq!(other.send(&RawFrame::from(frame("003#"))), Ok(candor_linux::Sent::Taken));
    let [received] = next(port.receiver.as_deref_mut().unwrap())[..] else { panic!("one frame") };
    assert_eq!((received.frame, received.origin), (frame("003#"), Origin::Machine));
}

fn filters() {
    let _netlink = start(72);
    let all = ["123#01", "124#02", "00000123#03", "7FF#"];
    let (standard, low) = (Filter { id: 0x123, mask: EFF_FLAG | 0x7FF }, Filter { id: 0, mask: 4 });
    let many = [standard; 513];
    let cases = [
        (None, true, &all[..]),
        (Some(&[standard][..]), true, &all[..1]),
        (Some(&[low]), true, &[all[0], all[2]][..]),
        (Some(&[standard, Filter { id: EFF_FLAG | 0x123, mask: !0 }]), true, &[all[0], all[2]]),
        (Some(&many), false, &all[..]),
        (Some(&[]), true, &[]),
    ];
    for stamps in [false, true] {
        let wanted = Wanted { stamps, transmitter: false, ..Wanted::BOTH };
        let mut receiver = suite::open(REGISTRY, "vcan0", wanted).receiver.unwrap();
        let mut transmitter =
            suite::open(REGISTRY, "vcan0", Wanted::TRANSMITTER).transmitter.unwrap();
        for (filters, is_done, expected) in cases {
            assert_eq!(receiver.set_filters(filters), Ok(is_done));
            for text in all {
                suite::transmit(&mut *transmitter, &frame(text));
            }
            let mut seen = Vec::new();
            while receiver.receive(Until::Now, &mut |it| seen.push(it.frame)).unwrap()
                != Progress::Nothing
            {}
            let expected: Vec<_> = expected.iter().copied().map(frame).collect();
            let filters = filters.map(|filters| filters.get(..2).unwrap_or(filters));
            assert_eq!(seen, expected, "{filters:x?}");
        }
    }
}

fn status() {
    let mut netlink = start(72);
    for name in ["vcan0", "packet:vcan0"] {
        let control = suite::open(REGISTRY, name, Wanted::BOTH).control.unwrap();
        assert_eq!(control.status().map(|status| status.state), Ok(State::Active));
        netlink.set_up("vcan0", false).unwrap();
        assert_eq!(control.status().map(|status| status.state), Ok(State::Stopped));
        netlink.delete("vcan0").unwrap();
        assert_eq!(control.status().unwrap_err().kind(), ErrorKind::Gone);
        let error = candor_drivers::open(&name.parse().unwrap(), Wanted::BOTH).err().unwrap();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Missing, Some(19)));
        vcan(&mut netlink, 72);
    }
}

fn error_reports() {
    let _netlink = start(72);
    let driver = Socket::open("vcan0").unwrap();
    let report = frame("20000088#0000000000000000");
    assert_eq!(report.kind(), Kind::Error);
    for name in ["vcan0", "packet:vcan0"] {
        for (error_reports, stamps) in [(false, false), (true, false), (true, true)] {
            let wanted = Wanted { error_reports, stamps, ..Wanted::BOTH };
            let mut port = suite::open(REGISTRY, name, wanted);
            let transmitter = port.transmitter.as_deref_mut().unwrap();
            assert_eq!(transmitter.transmit(&report, true), Sent::Unsupported);
            for frame in [report, frame("001#")] {
                assert_eq!(driver.send(&RawFrame::from(frame)), Ok(candor_linux::Sent::Taken));
            }
            let receiver = port.receiver.as_deref_mut().unwrap();
            let mut all = Vec::new();
            while all.last() != Some(&frame("001#")) {
                all.extend(next(receiver).iter().map(|received| received.frame));
            }
            let counted = receiver.counters().error_reports.get();
            assert_eq!(counted, u64::from(error_reports), "{name}");
            assert_eq!(all.len() as u64, 1 + counted, "{name}");
            assert_eq!(all[0] == report, error_reports, "{name}");
        }
    }
}

/// Frames that nobody fetches, and then some that somebody does: all of them are received or
/// counted.
fn overflow() {
    const SENT: u64 = 2_000;
    let _netlink = start(72);
    for (name, stamps) in [
        ("vcan0?buffer=1", false),
        ("vcan0", false),
        ("vcan0?buffer=1", true),
        ("packet:vcan0?ring=1", false),
    ] {
        let wanted = Wanted { stamps, transmitter: false, ..Wanted::BOTH };
        let receiver = suite::open(REGISTRY, name, wanted).receiver.unwrap();
        let mut other = suite::open(REGISTRY, "vcan0", Wanted::TRANSMITTER);
        let transmitter = other.transmitter.as_deref_mut().unwrap();
        for number in 0..SENT {
            let frame = frame(&format!("123#{number:08X}"));
            assert_eq!(transmitter.transmit(&frame, true), Sent::Taken);
        }
        let counters = receiver.counters();
        let listening = Listening::start(receiver);
        // One by one, so that none of these is lost.
        let mut more = 0;
        let end = clock::now::<Monotonic>() + Nanos::from_secs(20);
        while counters.frames.get() + counters.overflow.get() < SENT + more
            || counters.overflow.get() == 0
        {
            assert!(clock::now::<Monotonic>() < end, "{name}: {counters:?}");
            let before = counters.frames.get();
            assert_eq!(transmitter.transmit(&frame("124#"), true), Sent::Taken);
            more += 1;
            while counters.frames.get() == before {
                assert!(clock::now::<Monotonic>() < end, "{name}: {counters:?}");
                clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1)).unwrap();
            }
        }
        let (_, received) = listening.stop();
        assert_eq!(counters.frames.get(), received.len() as u64, "{name}");
        let sum = counters.frames.get() + counters.overflow.get();
        assert_eq!(sum, SENT + more, "{name}: {counters:?}");
    }
}

/// Takes a frame from one half to the other.
fn passes(transmitter: &mut dyn Transmitter, receiver: &mut dyn Receiver, text: &str) {
    assert_eq!(transmitter.transmit(&frame(text), true), Sent::Taken, "{text}");
    let received: Vec<_> = next(receiver).iter().map(|received| received.frame).collect();
    assert_eq!(received, [frame(text)]);
}

fn down() {
    let mut netlink = start(72);
    for (name, stamps) in [("vcan0", false), ("vcan0", true), ("packet:vcan0", false)] {
        let wanted = Wanted { stamps, transmitter: false, ..Wanted::BOTH };
        let mut receiver = suite::open(REGISTRY, name, wanted).receiver.unwrap();
        let mut transmitter = suite::open(REGISTRY, name, Wanted::TRANSMITTER).transmitter.unwrap();
        passes(&mut *transmitter, &mut *receiver, "001#");
        netlink.set_up("vcan0", false).unwrap();
        assert_eq!(transmitter.transmit(&frame("002#"), true), Sent::Down, "{name}");
        assert_eq!(transmitter.transmit(&frame("002#"), false), Sent::Down, "{name}");
        let error = receiver.receive(Until::Woken, &mut |_| {}).unwrap_err();
        assert!(error.is_passing(), "{error}");
        assert!(error.to_string().contains("`ip link set"), "{error}");
        netlink.set_up("vcan0", true).unwrap();
        passes(&mut *transmitter, &mut *receiver, "003#");
        assert_eq!(transmitter.counters().frames.get(), 2);
    }
}

fn away() {
    let mut netlink = start(72);
    for name in ["vcan0", "packet:vcan0"] {
        let mut receiver = suite::open(REGISTRY, name, Wanted::RECEIVER).receiver.unwrap();
        let mut transmitter = suite::open(REGISTRY, name, Wanted::TRANSMITTER).transmitter.unwrap();
        netlink.delete("vcan0").unwrap();
        let error = loop {
            // That it went down may come first.
            match receiver.receive(Until::Woken, &mut |_| {}) {
                Ok(progress) => assert_eq!(progress, Progress::Nothing),
                Err(error) => break error,
            }
        };
        assert!(error.is_passing(), "{error}");
        assert_eq!(transmitter.transmit(&frame("001#"), true), Sent::Down, "{name}");
        let address = name.parse().unwrap();
        let error = candor_drivers::open(&address, Wanted::BOTH).err().unwrap();
        assert!(error.is_passing() && error.to_string().contains("ip link"), "{error}");
        vcan(&mut netlink, 72);
        let mut receiver = suite::open(REGISTRY, name, Wanted::RECEIVER).receiver.unwrap();
        let mut transmitter = suite::open(REGISTRY, name, Wanted::TRANSMITTER).transmitter.unwrap();
        passes(&mut *transmitter, &mut *receiver, "002#");
    }
}

fn options() {
    let _netlink = start(72);
    for (name, reason) in [
        (
            "vcan0?buffer=much",
            "`buffer=much` is not a valid value; write for example buffer=1048576",
        ),
        ("vcan0?ring=1", "has no option `ring`; its options are buffer, send_buffer"),
        ("packet:vcan0?past_queue=1", "`past_queue=1` is not a valid value"),
        ("packet:vcan0?gather=1", "`gather=1` is not a duration"),
        ("packet:vcan0?gather=50us", "frames cannot gather for 50us; use 100us to 20ms"),
        ("vcan7", "ENODEV"),
        ("lo", "it is not a CAN interface"),
    ] {
        let error = candor_drivers::open(&name.parse().unwrap(), Wanted::BOTH).err().unwrap();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

//! On vcan interfaces.

use candor_bus::capture::{Capture, Next};
use candor_bus::interface::{self, Frames, State};
use candor_bus::outlet::{Outcome, Outlet, RealTime, Refusal, Stop};
use candor_linux::netlink::Netlink;
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::{Check, Need, capture, receive};

pub(crate) const CHECKS: [Check; 6] = [
    ("interfaces_are_listed", Need::Can, list),
    ("frames_of_two_interfaces_are_merged", Need::Can, merged),
    ("what_is_sent_comes_or_is_counted_as_lost", Need::Can, flood),
    ("an_interface_that_was_down_is_taken_up_again", Need::Can, down),
    ("an_interface_that_was_away_is_taken_up_again", Need::Can, away),
    ("what_an_interface_does_not_take_is_refused", Need::Can, refused),
];

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

fn vcan(names: &[&str], mtu: u32) -> Netlink {
    let mut netlink = Netlink::open().unwrap();
    for name in names {
        netlink.create_vcan(name).unwrap();
        netlink.set_mtu(name, mtu).unwrap();
        netlink.set_up(name, true).unwrap();
    }
    netlink
}

fn outlet(name: &str) -> Outlet {
    Outlet::open(&name.parse().unwrap(), Nanos::from_millis(20)).unwrap()
}

fn send(outlet: &mut Outlet, text: &str) -> Outcome {
    outlet.send(&frame(text), &mut RealTime, &Stop::new(false))
}

fn list() {
    let mut netlink = vcan(&["vcan0", "vcan1"], 72);
    netlink.set_up("vcan1", false).unwrap();
    netlink.set_mtu("vcan1", 16).unwrap();
    let all = interface::all().unwrap();
    let reported: Vec<_> = all
        .iter()
        .map(|interface| (&*interface.name, &*interface.kind, interface.state, interface.frames))
        .collect();
    assert_eq!(
        reported,
        [
            ("vcan0", "vcan", State::Up, Frames::Fd),
            ("vcan1", "vcan", State::Down, Frames::Classical)
        ]
    );
    assert_eq!(interface::timing_of("vcan0"), None);
}

fn merged() {
    let _netlink = vcan(&["vcan0", "vcan1"], 72);
    let mut capture = capture(&["vcan0", "vcan1"]);
    let mut outlets = [outlet("vcan0"), outlet("vcan1")];
    for number in 0..100 {
        let outlet = &mut outlets[number % 2];
        assert_eq!(send(outlet, &format!("123#{number:02X}")), Outcome::Taken(Nanos::ZERO));
    }
    let (frames, news) = receive(&mut capture, 100);
    assert_eq!(news, []);
    for port in 0..2 {
        let numbers = frames.iter().filter(|captured| captured.port == port);
        let numbers: Vec<_> =
            numbers.map(|captured| usize::from(captured.received.frame.data()[0])).collect();
        assert_eq!(numbers, (0..100).skip(port).step_by(2).collect::<Vec<_>>());
        assert_eq!(capture.totals(port).to_string(), "50 frames, 0 lost");
    }
    assert!(frames.iter().all(|captured| captured.received.stamp.system.is_some()));
}

fn flood() {
    const COUNT: u64 = 20_000;
    let _netlink = vcan(&["vcan0"], 72);
    // A small buffer, so that some is lost unless the thread gets its turn often enough.
    let mut capture = capture(&["vcan0?buffer=8192"]);
    let mut outlet = outlet("vcan0");
    for number in 0..COUNT {
        send(&mut outlet, &format!("{:03X}#", number % 0x700));
    }
    assert_eq!(outlet.delivery().taken, COUNT);
    // What was lost is reported with the next frame that comes.
    let mut came = 0;
    loop {
        send(&mut outlet, "7FF#");
        let mut is_end = false;
        capture.next(Nanos::from_secs(10), |captured| {
            let is_mark = captured.received.frame == frame("7FF#");
            came += u64::from(!is_mark);
            is_end |= is_mark;
        });
        if is_end {
            break;
        }
    }
    let totals = capture.totals(0);
    assert!(came > 0 && came + totals.overflow >= COUNT, "{came} came; {totals}");
}

/// The frame that comes next, with what was reported before it.
fn reported(capture: &mut Capture) -> (String, Vec<&'static str>) {
    let (frames, news) = receive(capture, 1);
    let news = news.iter().map(|news| match news {
        Next::Lost(0, error) if error.is_passing() => "lost",
        Next::Returned(0) => "returned",
        other => panic!("{other:?}"),
    });
    (frames[0].received.frame.to_string(), news.collect())
}

fn down() {
    let mut netlink = vcan(&["vcan0"], 72);
    let mut capture = capture(&["vcan0"]);
    let mut outlet = outlet("vcan0");
    send(&mut outlet, "001#");
    assert_eq!(reported(&mut capture), ("001#".into(), vec![]));
    netlink.set_up("vcan0", false).unwrap();
    assert_eq!(send(&mut outlet, "002#"), Outcome::Refused(Refusal::Down));
    netlink.set_up("vcan0", true).unwrap();
    // The very first frame after its return comes.
    send(&mut outlet, "003#");
    assert_eq!(reported(&mut capture), ("003#".into(), vec!["lost", "returned"]));
}

fn away() {
    let mut netlink = vcan(&["vcan0"], 72);
    let mut capture = capture(&["vcan0"]);
    netlink.delete("vcan0").unwrap();
    match capture.next(Nanos::from_secs(10), |_| ()) {
        Next::Lost(0, error) if error.is_passing() => {}
        other => panic!("{other:?}"),
    }
    let _netlink = vcan(&["vcan0"], 72);
    let mut outlet = outlet("vcan0");
    // It is looked for five times a second.
    let mut frames = 0;
    for _ in 0..100 {
        send(&mut outlet, "001#");
        match capture.next(Nanos::from_millis(100), |_| frames += 1) {
            Next::Nothing => {}
            Next::Returned(0) | Next::Frames => break,
            other => panic!("{other:?}"),
        }
    }
    if frames == 0 {
        receive(&mut capture, 1);
    }
    assert!(capture.totals(0).frames > 0);
}

fn refused() {
    let _netlink = vcan(&["vcan0"], 16);
    let mut outlet = outlet("vcan0");
    assert_eq!(send(&mut outlet, "123##1AA"), Outcome::Refused(Refusal::Unsupported));
    assert_eq!(send(&mut outlet, "123#AA"), Outcome::Taken(Nanos::ZERO));
    assert!(!outlet.delivery().is_complete());
}

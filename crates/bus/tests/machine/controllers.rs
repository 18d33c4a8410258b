//! On CAN controllers: the first two of the machine, on one bus.

use candor_bus::generate::{Data, Generator, Ids, Lengths, Pace, Settings};
use candor_bus::interface::{self, State};
use candor_bus::load::Meter;
use candor_bus::outlet::{Outcome, Outlet, RealTime, Stop};
use candor_bus::schedule::Schedule;
use candor_linux::netlink::{CanSettings, Netlink};
use candor_time::Nanos;
use candor_wire::can::Timing;

use crate::harness::PAIR;
use crate::{Check, Need, capture, receive};

pub(crate) const CHECKS: [Check; 2] = [
    ("controllers_are_listed_with_their_rates", Need::Controllers, list),
    ("generated_frames_come_at_their_times", Need::Controllers, generated),
];

/// Both up, with 1 Mbit/s.
fn start() -> Timing {
    let mut netlink = Netlink::open().unwrap();
    for name in PAIR {
        netlink.set_up(name, false).unwrap();
        let settings = CanSettings { bitrate: 1_000_000, ..CanSettings::default() };
        netlink.set_can(name, &settings).unwrap();
        netlink.set_up(name, true).unwrap();
    }
    Timing::classical("1M".parse().unwrap())
}

fn list() {
    let timing = start();
    let all = interface::all().unwrap();
    for name in PAIR {
        let interface = all.iter().find(|interface| interface.name == name).unwrap();
        assert_eq!((interface.state, interface.timing), (State::ErrorActive, Some(timing)));
        assert_eq!(interface.kind, "can");
        assert_eq!(interface::timing_of(name), Some(timing));
    }
}

fn generated() {
    const COUNT: usize = 500;
    let timing = start();
    let mut capture = capture(&[PAIR[1]]);
    let settings = Settings {
        ids: Ids::RandomStandard,
        lengths: Lengths { min: 8, max: 8 },
        data: Data::Random,
        is_fd: false,
        pace: Pace::Load { share: 0.25, timing },
        seed: 1,
    };
    let sent: Vec<_> = Generator::new(settings).unwrap().take(COUNT).collect();
    let port = PAIR[0].parse().unwrap();
    let mut outlets = [Outlet::open(&port, Outlet::ROOM_TIMEOUT).unwrap()];
    let (mut time, stop) = (RealTime, Stop::new(false));
    let mut schedule = Schedule::start(&mut time);
    let mut frames = Vec::new();
    for (due, frame) in &sent {
        let outcome = schedule.send(&mut outlets, 0, frame, *due, &mut time, &stop);
        assert!(matches!(outcome, Outcome::Taken(_)), "{outcome:?}");
        capture.next(Nanos::ZERO, |captured| frames.push(*captured));
    }
    assert!(outlets[0].delivery().is_complete());
    let figures = schedule.punctuality().figures().unwrap();
    assert_eq!(figures.planned, sent[COUNT - 1].0);
    // On a schedule that does not drift, the end is as late as some frame was.
    assert!(figures.drift_ns.unsigned_abs() <= figures.late_max.as_nanos(), "{figures:?}");

    let (rest, _) = receive(&mut capture, COUNT - frames.len());
    frames.extend(rest);
    assert!(frames.iter().map(|captured| captured.received.frame).eq(sent.iter().map(|s| s.1)));
    let mut meter = Meter::new(Nanos::from_secs(10), Some(timing));
    for captured in &frames {
        meter.add(captured.time, &captured.received.frame, |_| ());
    }
    meter.finish(None, |_| ());
    let percent = meter.total().percent();
    assert!((percent - 25.0).abs() < 1.0, "{percent}");
}

//! A `sim:` bus whose first process ends: another one takes over. Forks, so it brings a harness of its
//! own, which has one thread.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

use candor_linux::clock;
use candor_linux::process::{Child, fork};
use candor_port::{Port, Progress, Sent, Until, Wanted};
use candor_time::{Monotonic, Nanos};
use candor_wire::can::Frame;

fn main() {
    frames_in_flight_are_counted_and_the_bus_goes_on();
    println!("check takeover ... ok");
}

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

fn open(name: &str) -> Result<Port, candor_port::Error> {
    candor_drivers::open(&name.parse().unwrap(), Wanted::BOTH)
}

/// A process that waits for a byte before it does something, and tells when it has.
struct Helper {
    child: Child,
    orders: PipeWriter,
    reports: PipeReader,
}

fn helper(body: impl FnOnce(&mut dyn FnMut())) -> Helper {
    let (mut ordered, orders) = pipe().unwrap();
    let (reports, mut reported) = pipe().unwrap();
    let child = fork(move || {
        let mut next = || {
            // At the start there is nothing to tell of.
            let _ = reported.write_all(b".");
            let mut order = [0];
            if ordered.read_exact(&mut order).is_err() {
                std::process::exit(3);
            }
        };
        next();
        body(&mut next);
        next();
        0
    });
    Helper { child: child.unwrap(), orders, reports }
}

impl Helper {
    /// Waits until it is ready for the next step.
    fn wait(&mut self) {
        self.reports.read_exact(&mut [0]).unwrap();
    }

    /// Lets it take the next step, and waits until it is ready for the one after.
    fn step(&mut self) {
        self.orders.write_all(b".").unwrap();
        self.wait();
    }
}

fn frames_in_flight_are_counted_and_the_bus_goes_on() {
    let name = format!("sim:test-takeover-{}", std::process::id());
    let (slow, any) = (format!("{name}?bitrate=500&data_bitrate=500"), name.clone());
    let mut hub = helper(|next| {
        let port = open(&slow).unwrap();
        next();
        drop(port);
    });
    let mut third = helper(|next| {
        // The bit rates are still those of the first.
        let error = open(&format!("{any}?bitrate=20k")).err().unwrap().to_string();
        assert!(error.contains("runs with bitrate=500&data_bitrate=500"), "{error}");
        let mut port = open(&any).unwrap();
        let transmitter = port.transmitter.as_deref_mut().unwrap();
        assert_eq!(transmitter.transmit(&frame("123#AA"), false), Sent::Taken);
        next();
        let mut arrived = Vec::new();
        while arrived.is_empty() {
            let receiver = port.receiver.as_deref_mut().unwrap();
            receiver.receive(Until::Woken, &mut |received| arrived.push(received.frame)).unwrap();
        }
        assert_eq!(arrived, [frame("124#BB")]);
    });
    hub.wait();
    third.wait();
    hub.step();
    let mut port = open(&name).unwrap();
    let transmitter = port.transmitter.as_deref_mut().unwrap();
    let receiver = port.receiver.as_deref_mut().unwrap();
    // 0.2 s each.
    for _ in 0..8 {
        assert_eq!(transmitter.transmit(&frame("7FF#FFFFFFFFFFFFFFFF"), false), Sent::Taken);
    }
    hub.child.kill().unwrap();
    assert_eq!(hub.child.wait().unwrap().status, Err(9));
    // The receiver notices and becomes the hub.
    assert_eq!(receiver.receive(Until::Woken, &mut |_| {}), Ok(Progress::Nothing));
    third.step();
    let mut arrived = Vec::new();
    while arrived.is_empty() {
        receiver.receive(Until::Woken, &mut |received| arrived.push(received.frame)).unwrap();
    }
    assert_eq!(arrived, [frame("123#AA")]);
    // Who transmits looks for the new one while it waits, and not before.
    assert_eq!(transmitter.transmit(&frame("124#BB"), false), Sent::Full);
    transmitter.wait(Nanos::ZERO);
    assert_eq!(transmitter.transmit(&frame("124#BB"), false), Sent::Taken);
    let counters = transmitter.counters();
    let lost = counters.lost.get();
    assert!((1..=8).contains(&lost), "{lost} of eight were lost");
    third.step();
    let end = clock::now::<Monotonic>() + Nanos::from_secs(20);
    while !transmitter.is_drained() {
        assert!(clock::now::<Monotonic>() < end);
        transmitter.wait(Nanos::from_millis(100));
    }
    assert_eq!((counters.frames.get(), counters.lost.get()), (9, lost));
    third.orders.write_all(b".").unwrap();
    assert_eq!(third.child.wait().unwrap().status, Ok(0));
}

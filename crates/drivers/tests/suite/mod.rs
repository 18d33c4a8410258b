//! What holds for every port: one suite, run on all of them that can carry it.
//!
//! A [`Bench`] names two ports that are connected, in a [`World`]: this machine, or a simulated one in
//! virtual time. What the suite expects comes from the capabilities that they tell, so they are held to what
//! they say.

mod bench;
mod frames;
mod listening;

use std::sync::mpsc;

use candor_linux::poll::{self, Interest};
use candor_linux::wake::Wake;
use candor_port::{Origin, Progress, Received, Receiver, Sent, Stamp, Until, Wanted};
use candor_time::Nanos;
use candor_wire::can::{Frame, Kind};

use self::bench::{MOST, STEP};
use self::frames::{flush, frame, hello, kinds, last, transmit_as};
use self::listening::{connect, pass};

#[allow(unused_imports, reason = "not each test uses all of it")]
pub(crate) use self::{
    bench::{Bench, Machine, World, open},
    frames::transmit,
    listening::Listening,
};

/// All of it that applies; what does not is listed, with the reason.
pub(crate) fn run(bench: &Bench) -> Vec<(&'static str, &'static str)> {
    let capabilities = bench.open(&bench.left, Wanted::TRANSMITTER).capabilities;
    let mut not_run = Vec::new();
    frames_arrive_as_they_were_sent(bench);
    what_is_not_carried_is_reported(bench);
    match capabilities.ordered {
        true => order_is_kept_and_fullness_passes(bench),
        false => not_run.push(("order", "the port lacks order")),
    }
    stamps_are_reported_truthfully(bench);
    if bench.is_recording {
        not_run.push(("waiting", "a recording is read only when it is complete"));
    } else {
        own_frames_come_if_they_are_wanted(bench);
        match bench.world.is_virtual() {
            false => a_signal_ends_the_waiting(bench),
            true => not_run.push(("signal", "a wait in virtual time is no system call")),
        }
        the_end_of_the_time_ends_the_waiting(bench);
        a_waker_ends_the_waiting(bench);
        let wanted = Wanted { transmitter: false, ..Wanted::RECEIVER };
        let has_descriptor =
            bench.open(&bench.right, wanted).receiver.unwrap().descriptor().is_some();
        match has_descriptor {
            true => a_descriptor_tells_when_frames_are_there(bench),
            false => not_run.push(("descriptor", "the receiver lacks a descriptor")),
        }
    }
    for (check, reason) in &not_run {
        println!("not run: {check}: {reason}");
    }
    not_run
}

/// Every frame of a kind that the port says it carries comes out as it went in, in order.
pub(crate) fn frames_arrive_as_they_were_sent(bench: &Bench) {
    let capabilities = bench.open(&bench.left, Wanted::TRANSMITTER).capabilities;
    let carried = kinds(bench, &capabilities).into_iter().filter(|(_, is_carried)| *is_carried);
    let frames: Vec<Frame> = carried.map(|(frame, _)| frame).collect();
    for waker in [false, true] {
        let wanted = Wanted { stamps: false, waker, ..Wanted::RECEIVER };
        let received = pass(bench, &frames, wanted);
        for (received, sent) in received.iter().zip(&frames) {
            assert_eq!(received.frame, *sent, "{bench:?}");
            assert_eq!(received.stamp, Stamp::default(), "no stamps were wanted: {bench:?}");
            assert_ne!(received.origin, Origin::Own, "{bench:?}");
        }
        assert_eq!(received.len(), frames.len(), "{bench:?}");
    }
}

/// A frame of another kind is not taken.
pub(crate) fn what_is_not_carried_is_reported(bench: &Bench) {
    let mut left = bench.open(&bench.left, Wanted::TRANSMITTER);
    let transmitter = left.transmitter.as_deref_mut().unwrap();
    let not_carried =
        kinds(bench, &left.capabilities).into_iter().filter(|(_, is_carried)| !is_carried);
    for (frame, _) in not_carried {
        assert_eq!(transmitter.transmit(&frame, true), Sent::Unsupported, "{frame} {bench:?}");
    }
    if !left.capabilities.fd || !bench.is_recording {
        // An error report is no frame of a bus. Whoever takes one passes it on as a report.
        let report = frame("20000088#0000000000000000");
        assert_eq!(report.kind(), Kind::Error);
        let sent = transmitter.transmit(&report, true);
        assert!(matches!(sent, Sent::Unsupported | Sent::Taken), "{sent:?}");
        assert!(sent == Sent::Unsupported || left.capabilities.error_reports, "{bench:?}");
    }
}

/// So many frames in a row arrive in order, however often there is no room.
pub(crate) fn order_is_kept_and_fullness_passes(bench: &Bench) {
    let numbered = |number: u32| {
        // Identifiers that go up and down, so that no priority can help.
        let id = number.wrapping_mul(0x9E37) & 0x7F;
        frame(&format!("{id:03X}#{number:08X}"))
    };
    let frames: Vec<Frame> = (0..bench.frames).map(numbered).collect();
    let received = pass(bench, &frames, Wanted { stamps: false, ..Wanted::RECEIVER });
    let received: Vec<Frame> = received.iter().map(|received| received.frame).collect();
    assert_eq!(received.len(), frames.len(), "{bench:?}");
    assert!(received == frames, "another order: {bench:?}");
}

/// Stamps are those of when a frame passed, if the port says that it has them.
pub(crate) fn stamps_are_reported_truthfully(bench: &Bench) {
    let frames = [frame("123#11"), frame("124#22"), frame("125#33")];
    let capabilities = bench.open(&bench.left, Wanted::TRANSMITTER).capabilities;
    // The kernel takes its time to begin with it.
    for attempt in 0.. {
        let begin = bench.world.stamp_now();
        let received = pass(bench, &frames, Wanted::RECEIVER);
        let span = begin..=bench.world.stamp_now();
        assert_eq!(received.len(), frames.len());
        if !capabilities.stamps {
            assert!(received.iter().all(|received| received.stamp == Stamp::default()));
            return;
        }
        let stamps: Vec<_> = received.iter().filter_map(|received| received.stamp.system).collect();
        if stamps.len() == frames.len() {
            assert!(stamps.is_sorted(), "{bench:?}");
            // A recording may keep microseconds only.
            let begin = begin.as_nanos() / 1_000 * 1_000;
            let times = begin..=span.end().as_nanos();
            assert!(stamps.iter().all(|stamp| times.contains(&stamp.as_nanos())), "{bench:?}");
            return;
        }
        assert!(attempt < 1_000, "there are no stamps: {bench:?}");
        bench.world.sleep_until(bench.world.now() + STEP);
    }
}

/// What a port transmits comes back to it if that was wanted, and else not.
pub(crate) fn own_frames_come_if_they_are_wanted(bench: &Bench) {
    let frames = [frame("321#11"), frame("322#22"), frame("323#33")];
    for own_frames in [false, true] {
        let wanted = Wanted { own_frames, ..Wanted::BOTH };
        let mut left = bench.open(&bench.left, wanted);
        if own_frames && !left.capabilities.own_frames {
            continue;
        }
        let mut right = bench.open(&bench.right, Wanted::BOTH);
        let listeners = [&mut left, &mut right]
            .map(|port| Listening::start_in(&bench.world, port.receiver.take().unwrap()));
        let [here, there] =
            [&mut left, &mut right].map(|port| port.transmitter.as_deref_mut().unwrap());
        connect(here, &listeners[1]);
        connect(there, &listeners[0]);
        for frame in &frames {
            let _ = transmit_as(&*bench.world, here, frame, true);
        }
        flush(here);
        let end = bench.world.now() + MOST;
        while !here.is_drained() {
            assert!(bench.world.now() < end);
            here.wait(STEP);
        }
        let _ = transmit_as(&*bench.world, there, &last(), true);
        flush(there);
        let [at_left, at_right] = listeners;
        // The halves of a port are kept together: they may share a connection.
        let (_here, arrived) = at_left.until_last();
        let own: Vec<_> = arrived
            .iter()
            .filter(|received| received.frame != hello())
            .map(|received| (received.frame, received.origin))
            .collect();
        let expected: Vec<_> = match own_frames {
            true => frames.iter().map(|frame| (*frame, Origin::Own)).collect(),
            false => Vec::new(),
        };
        assert_eq!(own, expected, "{bench:?}");
        let _ = transmit_as(&*bench.world, here, &last(), true);
        flush(here);
        let (_there, arrived) = at_right.until_last();
        assert!(arrived.iter().all(|received| received.origin != Origin::Own), "{bench:?}");
        let arrived: Vec<_> = arrived.iter().map(|received| received.frame).collect();
        assert!(arrived.ends_with(&frames), "{arrived:?} {bench:?}");
    }
}

/// A receiver that waits notices a signal.
pub(crate) fn a_signal_ends_the_waiting(bench: &Bench) {
    for stamps in [false, true] {
        let wanted = Wanted { stamps, transmitter: false, ..Wanted::BOTH };
        let mut receiver = bench.open(&bench.right, wanted).receiver.unwrap();
        let (tell, reported) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(Wake::new().unwrap().thread()).unwrap();
            receiver.receive(Until::Woken, &mut |received| panic!("nobody transmits: {received:?}"))
        });
        let sleeper = reported.recv().unwrap();
        sleeper.interrupt_until(|| thread.is_finished()).unwrap();
        assert_eq!(thread.join().unwrap(), Ok(Progress::Nothing), "{bench:?}");
    }
}

/// A receiver that shall wait until an instant does not wait longer, and not at all if that is now.
pub(crate) fn the_end_of_the_time_ends_the_waiting(bench: &Bench) {
    for waker in [false, true] {
        let wanted = Wanted { stamps: false, waker, ..Wanted::RECEIVER };
        let mut receiver = bench.open(&bench.right, wanted).receiver.unwrap();
        let mut take = |received: &Received| panic!("nobody transmits: {received:?}");
        assert_eq!(receiver.receive(Until::Now, &mut take), Ok(Progress::Nothing), "{bench:?}");
        let (begin, mut calls) = (bench.world.now(), 0);
        let end = begin + Nanos::from_millis(20);
        while bench.world.now() < end {
            let until = Until::Instant(end);
            assert_eq!(receiver.receive(until, &mut take), Ok(Progress::Nothing), "{bench:?}");
            calls += 1;
        }
        // A connection is made step by step; nobody waits by trying all the time.
        assert!(calls < 20, "{calls} calls: {bench:?}");
        // What is over is over.
        let past = Until::Instant(begin);
        assert_eq!(receiver.receive(past, &mut take), Ok(Progress::Nothing), "{bench:?}");
    }
}

/// A receiver that waits is woken from another thread, and a waker that comes too early is not lost.
pub(crate) fn a_waker_ends_the_waiting(bench: &Bench) {
    for stamps in [false, true] {
        let wanted = Wanted { stamps, waker: true, transmitter: false, ..Wanted::BOTH };
        let mut receiver = bench.open(&bench.right, wanted).receiver.unwrap();
        let waker = receiver.waker().unwrap_or_else(|| panic!("there is none: {bench:?}"));
        let mut take = |received: &Received| panic!("nobody transmits: {received:?}");
        waker.wake();
        waker.clone().wake();
        let outcome = receiver.receive(Until::Woken, &mut take);
        assert_eq!(outcome, Ok(Progress::Nothing), "{bench:?}");
        // Each of them is noticed, wherever the other thread is at the time; none is kept.
        let (asks, asked) = mpsc::channel();
        let (answers, answered) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while asked.recv().is_ok() {
                    let outcome = receiver.receive(Until::Woken, &mut take);
                    answers.send(outcome).unwrap();
                }
            });
            for _ in 0..50 {
                asks.send(()).unwrap();
                waker.wake();
                let outcome = answered.recv().unwrap();
                assert_eq!(outcome, Ok(Progress::Nothing), "{bench:?}");
            }
            drop(asks);
        });
    }
    let wanted = Wanted { waker: false, ..Wanted::RECEIVER };
    assert!(bench.open(&bench.right, wanted).receiver.unwrap().waker().is_none(), "{bench:?}");
}

/// Who waits for the descriptor, as an event loop does, gets every frame without waiting.
pub(crate) fn a_descriptor_tells_when_frames_are_there(bench: &Bench) {
    let mut right =
        bench.open(&bench.right, Wanted { transmitter: false, stamps: false, ..Wanted::RECEIVER });
    let receiver = right.receiver.as_deref_mut().unwrap();
    let is_ready = |receiver: &dyn Receiver, timeout| {
        let descriptor = receiver.descriptor().unwrap();
        receiver.has_more() || poll::wait(&descriptor, Interest::Read, Some(timeout)).unwrap()
    };
    assert!(!is_ready(receiver, Nanos::ZERO), "nobody transmits: {bench:?}");
    let mut left = bench.open(&bench.left, Wanted::TRANSMITTER);
    let transmitter = left.transmitter.as_deref_mut().unwrap();
    let frames: Vec<Frame> = (0..40).map(|number| frame(&format!("{number:03X}#AB"))).collect();
    for batch in frames.chunks(5) {
        for frame in batch {
            let _ = transmit_as(&*bench.world, transmitter, frame, true);
        }
        flush(transmitter);
        let mut received = Vec::new();
        while received.len() < batch.len() {
            assert!(is_ready(receiver, MOST), "{} came: {bench:?}", received.len());
            let progress = receiver.receive(Until::Now, &mut |it| received.push(it.frame));
            assert!(matches!(progress, Ok(Progress::Frames(_) | Progress::Nothing)), "{bench:?}");
        }
        assert_eq!(received, batch, "{bench:?}");
        assert!(!is_ready(receiver, Nanos::ZERO), "{bench:?}");
    }
}

//! A receiver at work, and what arrived.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use candor_linux::wake::{Sleeper, Wake};
use candor_port::{
    Progress, Received, Receiver, ReceiverCounters, Sent, Transmitter, Until, Waker, Wanted,
};
use candor_time::Nanos;
use candor_wire::can::Frame;

use super::bench::{Bench, MOST, Machine, STEP, World};
use super::frames::{flush, hello, last, transmit_as};

/// Transmits until it arrives: a peer may take its time to come.
pub(super) fn connect(transmitter: &mut dyn Transmitter, listening: &Listening) {
    let world = &*listening.world;
    let end = world.now() + MOST;
    while !listening.seen.hello.load(Ordering::Relaxed) {
        assert!(world.now() < end, "nothing arrives");
        if transmitter.transmit(&hello(), true) == Sent::Taken {
            flush(transmitter);
        }
        world.sleep_until(world.now() + STEP);
        listening.take_turn(Until::Now);
    }
}

/// Whether the first and the last frame have arrived.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) hello: AtomicBool,
    pub(super) last: AtomicBool,
}

/// A receiver at work: in a thread of its own or, in virtual time, whenever the test waits for it.
pub(crate) struct Listening {
    world: Arc<dyn World>,
    work: Work,
    seen: Arc<Seen>,
    counters: Arc<ReceiverCounters>,
}

pub(super) type Arrived = (Box<dyn Receiver>, Vec<Received>);

pub(super) enum Work {
    Thread {
        thread: JoinHandle<Arrived>,
        sleeper: Sleeper,
        waker: Option<Waker>,
        shall_end: Arc<AtomicBool>,
    },
    Turns(RefCell<Arrived>),
}

/// Receives once; false if nothing will come.
pub(super) fn receive(
    receiver: &mut dyn Receiver,
    until: Until,
    all: &mut Vec<Received>,
    seen: &Seen,
) -> bool {
    let before = all.len();
    let progress = receiver.receive(until, &mut |received| {
        all.push(*received);
        match received.frame {
            frame if frame == hello() => seen.hello.store(true, Ordering::Relaxed),
            frame if frame == last() => seen.last.store(true, Ordering::Relaxed),
            _ => {}
        }
    });
    let count = match progress.unwrap_or_else(|error| panic!("{error}")) {
        Progress::Frames(count) => count,
        Progress::Nothing => 0,
        Progress::Ended => return false,
    };
    assert_eq!(all.len() - before, count, "as many as it tells");
    true
}

impl Listening {
    /// Everything that comes from now on is received, on this machine.
    #[allow(dead_code, reason = "not each test uses it")]
    pub(crate) fn start(receiver: Box<dyn Receiver>) -> Self {
        let world: Arc<dyn World> = Arc::new(Machine(candor_drivers::REGISTRY));
        Self::start_in(&world, receiver)
    }

    pub(super) fn start_in(world: &Arc<dyn World>, receiver: Box<dyn Receiver>) -> Self {
        let (world, seen, counters) =
            (Arc::clone(world), Arc::new(Seen::default()), receiver.counters());
        let work = match world.is_virtual() {
            true => Work::Turns(RefCell::new((receiver, Vec::new()))),
            false => Self::in_a_thread(receiver, Arc::clone(&seen)),
        };
        Self { world, work, seen, counters }
    }

    pub(super) fn in_a_thread(mut receiver: Box<dyn Receiver>, seen: Arc<Seen>) -> Work {
        let shall_end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&shall_end);
        let waker = receiver.waker();
        let (tell, reported) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(Wake::new().unwrap().thread()).unwrap();
            let mut all = Vec::new();
            while !ends.load(Ordering::Relaxed)
                && receive(&mut *receiver, Until::Woken, &mut all, &seen)
            {}
            (receiver, all)
        });
        let sleeper = reported.recv().unwrap();
        Work::Thread { thread, sleeper, waker, shall_end }
    }

    /// Receives, unless a thread does.
    pub(super) fn take_turn(&self, until: Until) {
        if let Work::Turns(arrived) = &self.work {
            let (receiver, all) = &mut *arrived.borrow_mut();
            receive(&mut **receiver, until, all, &self.seen);
        }
    }

    /// Whether it has ended by itself.
    pub(super) fn is_finished(&self) -> bool {
        matches!(&self.work, Work::Thread { thread, .. } if thread.is_finished())
    }

    /// Waits until this holds, or it has ended by itself; false if that takes too long.
    pub(super) fn wait_until(&self, step: Nanos, holds: impl Fn() -> bool) -> bool {
        let end = self.world.now() + MOST;
        while !holds() && !self.is_finished() {
            if self.world.now() >= end {
                return false;
            }
            match &self.work {
                Work::Thread { .. } => self.world.sleep_until(self.world.now() + step),
                Work::Turns(_) => self.take_turn(Until::Instant(end)),
            }
        }
        true
    }

    /// Waits until so many frames have come.
    pub(super) fn wait_for(&self, frames: u64) {
        let is_in_time =
            self.wait_until(Nanos::from_micros(50), || self.counters.frames.get() >= frames);
        assert!(is_in_time, "frames are missing: {:?}", self.counters);
    }

    /// Waits until the last frame has come; gives back the receiver and what it received before
    /// that.
    pub(crate) fn until_last(self) -> (Box<dyn Receiver>, Vec<Received>) {
        let is_in_time = self.wait_until(STEP, || self.seen.last.load(Ordering::Relaxed));
        let (receiver, mut all) = self.stop();
        if !is_in_time {
            let counters = receiver.counters();
            panic!("the last one of {} frames is missing: {counters:?}", all.len());
        }
        assert_eq!(all.pop().map(|received| received.frame), Some(last()), "it is the last");
        (receiver, all)
    }

    /// Ends it.
    pub(crate) fn stop(self) -> (Box<dyn Receiver>, Vec<Received>) {
        match self.work {
            Work::Turns(arrived) => arrived.into_inner(),
            Work::Thread { thread, sleeper, waker, shall_end } => {
                shall_end.store(true, Ordering::Relaxed);
                match &waker {
                    Some(waker) => waker.wake(),
                    None => sleeper.interrupt_until(|| thread.is_finished()).unwrap(),
                }
                thread.join().unwrap()
            }
        }
    }
}

/// Transmits frames from left to right, and behind them the last one; gives what came. Both sides
/// count rightly.
pub(super) fn pass(bench: &Bench, frames: &[Frame], wanted: Wanted) -> Vec<Received> {
    let listen = || {
        let mut right = bench.open(&bench.right, Wanted { transmitter: false, ..wanted });
        Listening::start_in(&bench.world, right.receiver.take().unwrap())
    };
    let listening = (!bench.is_recording).then(listen);
    let mut left = bench.open(&bench.left, Wanted::TRANSMITTER);
    let transmitter = left.transmitter.as_deref_mut().unwrap();
    if let Some(listening) = &listening {
        connect(transmitter, listening);
    }
    let counters = transmitter.counters();
    let before = [&counters.frames, &counters.full, &counters.lost].map(|count| count.get());
    let received_before = listening.as_ref().map_or(0, |listening| listening.counters.frames.get());
    let mut full = 0;
    for (sent, frame) in (0..).zip(frames.iter().chain([&last()])) {
        full += transmit_as(&*bench.world, transmitter, frame, bench.echo);
        if let Some(listening) = &listening
            && sent + 1 >= bench.window
        {
            flush(transmitter);
            listening.wait_for(received_before + sent + 1 - bench.window);
        }
    }
    flush(transmitter);
    if bench.is_recording {
        // It is read once it is written.
        let end = bench.world.now() + MOST;
        while !transmitter.is_drained() {
            assert!(bench.world.now() < end, "what was taken is written: {bench:?}");
            transmitter.wait(STEP);
        }
    }
    let listening = listening.unwrap_or_else(listen);
    let (receiver, mut received) = listening.until_last();
    let after = [&counters.frames, &counters.full, &counters.lost].map(|count| count.get());
    assert_eq!(after[0] - before[0], frames.len() as u64 + 1, "{bench:?}");
    assert_eq!((after[1] - before[1], after[2] - before[2]), (full, 0), "{bench:?}");
    assert!(!bench.is_full || frames.len() < bench.frames as usize || full > 0, "{bench:?}");
    let end = bench.world.now() + MOST;
    while !transmitter.is_drained() {
        assert!(bench.world.now() < end, "what has come has left: {bench:?}");
        transmitter.wait(STEP);
    }
    let counters = receiver.counters();
    assert_eq!(counters.frames.get(), received.len() as u64 + 1, "{bench:?}");
    let bad = [&counters.malformed, &counters.overflow, &counters.missing, &counters.out_of_order];
    assert_eq!(bad.map(|count| count.get()), [0; 4], "{bench:?}");
    let start = received.iter().rposition(|received| received.frame == hello());
    received.drain(..start.map_or(0, |at| at + 1));
    received
}

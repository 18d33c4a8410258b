//! Ports with as much room as a test says: order, refusals, counts.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use candor_engine::counters::Counters;
use candor_engine::program::JobIndex;
use candor_engine::{Bus, Program, Rule, Table};
use candor_port::TransmitterCounters;
use candor_wire::can::Frame;

use super::pace::{LONGEST_PACE, ROOM_CHECK_INTERVAL};
use super::*;

/// A port with room for as many frames as the test says.
#[derive(Default)]
struct Valve {
    room: Mutex<usize>,
    opened: Condvar,
    sent: Mutex<Vec<String>>,
    is_down: std::sync::atomic::AtomicBool,
}

impl Valve {
    fn open(&self, room: usize) {
        *self.room.lock().unwrap() += room;
        self.opened.notify_all();
    }

    fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().clone()
    }
}

/// Keeps everything back until it is flushed, and then needs room for that.
struct Bag {
    valve: Arc<Valve>,
    kept: Vec<String>,
    flushes: Arc<AtomicU64>,
}

impl Transmitter for Bag {
    fn transmit(&mut self, frame: &Frame, _: bool) -> Sent {
        self.kept.push(frame.to_string());
        Sent::Taken
    }

    fn flush_due(&self) -> Option<Instant<Monotonic>> {
        (!self.kept.is_empty()).then_some(Instant::ZERO)
    }

    fn flush(&mut self) -> Sent {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let mut room = self.valve.room.lock().unwrap();
        if *room == 0 {
            return Sent::Full;
        }
        *room -= 1;
        self.valve.sent.lock().unwrap().append(&mut self.kept);
        Sent::Taken
    }

    fn wait(&mut self, most: Nanos) {
        Pipe(Arc::clone(&self.valve), Arc::default()).wait(most);
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::default()
    }
}

struct Pipe(Arc<Valve>, Arc<TransmitterCounters>);

impl Transmitter for Pipe {
    fn transmit(&mut self, frame: &Frame, _: bool) -> Sent {
        if self.0.is_down.load(Ordering::Relaxed) {
            return Sent::Down;
        }
        let mut room = self.0.room.lock().unwrap();
        if *room == 0 {
            self.1.full.add(1);
            return Sent::Full;
        }
        *room -= 1;
        self.0.sent.lock().unwrap().push(frame.to_string());
        self.1.frames.add(1);
        Sent::Taken
    }

    fn wait(&mut self, most: Nanos) {
        let room = self.0.room.lock().unwrap();
        let time = Duration::from_nanos(most.as_nanos());
        let _ = self.0.opened.wait_timeout_while(room, time, |room| *room == 0).unwrap();
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.1)
    }
}

struct Fixture {
    valve: Arc<Valve>,
    output: Arc<Output>,
    counters: Counters,
    drainer: thread::JoinHandle<()>,
    /// Lets the drainer begin when it is dropped.
    begins: Option<mpsc::Sender<()>>,
}

impl Fixture {
    fn new(depth: usize) -> Self {
        let valve = Arc::new(Valve::default());
        let pipe = Pipe(Arc::clone(&valve), Arc::default());
        Self::with(valve, Box::new(pipe), depth)
    }

    /// One whose transmitter keeps everything back, and how often it was flushed. Its drainer does not begin yet.
    fn with_bag() -> (Self, Arc<AtomicU64>) {
        let (valve, flushes) = (Arc::<Valve>::default(), Arc::<AtomicU64>::default());
        let bag =
            Bag { valve: Arc::clone(&valve), kept: Vec::new(), flushes: Arc::clone(&flushes) };
        (Self::held(valve, Box::new(bag), 4), flushes)
    }

    fn with(valve: Arc<Valve>, transmitter: Box<dyn Transmitter>, depth: usize) -> Self {
        Self { begins: None, ..Self::held(valve, transmitter, depth) }
    }

    /// One whose drainer does not begin yet.
    fn held(valve: Arc<Valve>, transmitter: Box<dyn Transmitter>, depth: usize) -> Self {
        let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
        let rule = Rule::new("all", candor_engine::BusIndex(0), candor_engine::BusIndex(1));
        let buses = vec![bus("a"), bus("b")];
        let table = Table { buses, rules: vec![rule], ..Table::default() };
        let counters = Counters::new(&Program::new(&table));
        let output = Arc::new(Output::new(transmitter, depth));
        let (begins, begun) = mpsc::channel();
        let drainer = {
            let output = Arc::clone(&output);
            thread::spawn(move || {
                let _ = begun.recv();
                output.drain();
            })
        };
        Self { valve, output, counters, drainer, begins: Some(begins) }
    }

    fn send(&self, frame: &str, deadline: Nanos) -> Outcome {
        self.output.send(OutgoingCopy {
            frame: &frame.parse().unwrap(),
            echo: false,
            job: JobIndex(0),
            counters: &self.counters,
            arrival: None,
            latency: None,
            deadline,
        })
    }

    /// Waits until the drainer has nothing to do any more.
    fn rest(&self) {
        while self.output.queued.load(Ordering::Relaxed) > 0 || self.is_draining() {
            thread::yield_now();
        }
    }

    fn is_draining(&self) -> bool {
        self.output.lock().transmitter.is_none()
    }

    fn end(self) -> Vec<String> {
        self.output.end();
        self.drainer.join().unwrap();
        self.valve.sent()
    }
}

#[test]
fn with_room_nothing_waits() {
    let fixture = Fixture::new(4);
    fixture.valve.open(2);
    assert_eq!(fixture.send("123#01", Nanos::ZERO), Outcome::Handled);
    assert_eq!(fixture.send("122#02", Nanos::ZERO), Outcome::Handled);
    assert_eq!(fixture.end(), ["123#01", "122#02"]);
}

#[test]
fn what_waits_leaves_by_priority_and_in_order() {
    let fixture = Fixture::new(8);
    // Those of one identifier keep their order, whenever the drainer looks.
    for frame in ["300#01", "200#01", "300#02", "100#01", "200#02"] {
        assert_eq!(fixture.send(frame, Nanos::ZERO), Outcome::Pending);
    }
    assert_eq!(fixture.counters.jobs()[0].pending, 0, "the engine counts what is pending");
    fixture.valve.open(10);
    fixture.rest();
    let sent = fixture.end();
    assert_eq!(sent, ["100#01", "200#01", "200#02", "300#01", "300#02"]);
}

#[test]
fn a_full_queue_refuses_what_is_least_urgent_and_says_so() {
    let fixture = Fixture::new(2);
    for (frame, outcome) in [
        ("300#01", Outcome::Pending),
        ("200#01", Outcome::Pending),
        ("400#01", Outcome::Refused(Cause::QueueFull)),
        ("100#01", Outcome::Pending), // 300 has to go
    ] {
        assert_eq!(fixture.send(frame, Nanos::ZERO), outcome, "{frame}");
    }
    let refused = fixture.counters.jobs()[0].refused(Cause::QueueFull);
    assert_eq!(refused, 1, "the one that had to go; the engine counts the other");
    fixture.valve.open(10);
    fixture.rest();
    let counts = fixture.output.counts();
    assert_eq!((counts.transmitted, counts.queued, counts.depth), (2, 0, 2));
    assert!(counts.full > 0 && counts.most_queued <= 2);
    assert_eq!(fixture.counters.jobs()[0].handled, 2);
    assert_eq!(fixture.end(), ["100#01", "200#01"]);
}

#[test]
fn what_waits_too_long_is_stale() {
    let fixture = Fixture::new(4);
    assert_eq!(fixture.send("123#01", Nanos::from_micros(1)), Outcome::Pending);
    assert_eq!(fixture.send("124#02", Nanos::ZERO), Outcome::Pending);
    while fixture.counters.jobs()[0].refused(Cause::Stale) == 0 {
        thread::yield_now();
    }
    fixture.valve.open(4);
    fixture.rest();
    assert_eq!(fixture.end(), ["124#02"]);
}

#[test]
fn what_is_kept_back_waits_for_room_without_haste() {
    let (mut fixture, flushes) = Fixture::with_bag();
    assert_eq!(fixture.send("123#01", Nanos::ZERO), Outcome::Handled);
    assert_eq!(flushes.load(Ordering::Relaxed), 0, "the worker flushes after its batch");
    fixture.output.flush_if_due();
    fixture.begins = None;
    let begin = clock::now::<Monotonic>();
    while flushes.load(Ordering::Relaxed) < 4 {
        thread::yield_now();
    }
    let waited = clock::now::<Monotonic>() - begin;
    assert!(waited >= ROOM_CHECK_INTERVAL, "{waited}: it waits from one attempt to the next");
    // Frames wait in the queue meanwhile, by priority and with deadlines, not in the bag.
    assert_eq!(fixture.send("122#02", Nanos::ZERO), Outcome::Pending);
    fixture.valve.open(2);
    while fixture.valve.sent().len() < 2 {
        thread::yield_now();
    }
    assert_eq!(fixture.end(), ["123#01", "122#02"]);
}

#[test]
fn the_end_comes_in_time_whatever_is_kept_back() {
    let (mut fixture, _) = Fixture::with_bag();
    fixture.begins = None;
    assert_eq!(fixture.send("123#01", Nanos::ZERO), Outcome::Handled);
    fixture.output.flush_if_due();
    assert_eq!(fixture.send("122#02", Nanos::ZERO), Outcome::Pending);
    let counters = fixture.counters.clone();
    let begin = clock::now::<Monotonic>();
    assert_eq!(fixture.end(), [""; 0]);
    let took = clock::now::<Monotonic>() - begin;
    // The machine may be late, but the end does come.
    assert!(took >= DRAIN_TIMEOUT && took < Nanos::from_secs(20), "{took}");
    assert_eq!(counters.jobs()[0].refused(Cause::Down), 1);
}

#[test]
fn nobody_waits_for_the_lock_while_the_drainer_waits_for_room() {
    let (mut fixture, _) = Fixture::with_bag();
    fixture.begins = None;
    fixture.send("123#01", Nanos::ZERO);
    fixture.output.flush_if_due();
    let begin = clock::now::<Monotonic>();
    // While the drainer waits 5 ms for room again and again.
    for _ in 0..1_000 {
        fixture.send("100#", Nanos::ZERO);
        fixture.output.flush_if_due();
    }
    let took = clock::now::<Monotonic>() - begin;
    // Half of what it takes if each waits; the machine may be busy for a second.
    assert!(took < ROOM_CHECK_INTERVAL * 500, "{took} for 1,000 frames: each waited");
    fixture.valve.open(2_000);
    fixture.rest();
    fixture.end();
}

/// Says that there is room, and has none.
struct Liar(Arc<AtomicU64>);

impl Transmitter for Liar {
    fn transmit(&mut self, _: &Frame, _: bool) -> Sent {
        self.0.fetch_add(1, Ordering::Relaxed);
        Sent::Full
    }

    fn wait(&mut self, _: Nanos) {}

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::default()
    }
}

#[test]
fn a_transmitter_that_does_not_wait_is_not_asked_without_end() {
    let attempts = Arc::new(AtomicU64::new(0));
    let fixture = Fixture::with(Arc::default(), Box::new(Liar(Arc::clone(&attempts))), 4);
    let begin = clock::now::<Monotonic>();
    fixture.send("123#01", Nanos::ZERO);
    let end = begin + Nanos::from_millis(50);
    clock::sleep_until(end).unwrap();
    // The drainer may have had no processor yet.
    while attempts.load(Ordering::Relaxed) < 2 {
        thread::yield_now();
    }
    let attempts = attempts.load(Ordering::Relaxed);
    let most = (clock::now::<Monotonic>() - begin).as_nanos() / LONGEST_PACE.as_nanos() + 10;
    assert!(attempts <= most, "{attempts} attempts, {most} at most");
    fixture.end();
}

#[test]
fn what_is_behind_others_becomes_stale_too() {
    let fixture = Fixture::new(4);
    assert_eq!(fixture.send("001#", Nanos::ZERO), Outcome::Pending);
    for number in 0..3 {
        let deadline = Nanos::from_millis(10);
        assert_eq!(fixture.send(&format!("70{number}#"), deadline), Outcome::Pending);
    }
    // The queue is full of frames that nobody wants any more, and none of them is the next.
    while fixture.counters.jobs()[0].refused(Cause::Stale) < 3 {
        thread::yield_now();
    }
    assert_eq!(fixture.send("704#", Nanos::ZERO), Outcome::Pending, "there is a place again");
    fixture.valve.open(2);
    fixture.rest();
    assert_eq!(fixture.end(), ["001#", "704#"]);
}

#[test]
fn whoever_tells_a_fate_every_copy_has_one() {
    const FRAMES: u64 = 20_000;
    let fixture = Fixture::new(8);
    let mut refused = 0;
    for number in 0..FRAMES {
        // Evictions by this thread, transmissions by the drainer.
        let id = number * 7 % 0x7FF;
        match fixture.send(&format!("{id:03X}#"), Nanos::ZERO) {
            Outcome::Refused(_) => refused += 1,
            Outcome::Handled => refused += 1, // not counted here: the engine counts it
            Outcome::Pending => {}
        }
        fixture.valve.open(usize::from(number % 3 == 0));
    }
    fixture.valve.open(FRAMES as usize);
    fixture.rest();
    let counters = fixture.counters.clone();
    fixture.end();
    let job = counters.jobs()[0];
    assert_eq!(job.handled + job.refused(Cause::QueueFull) + refused, FRAMES);
}

#[test]
fn a_port_that_is_away_refuses_until_it_returns() {
    let fixture = Fixture::new(4);
    assert_eq!(fixture.send("123#01", Nanos::ZERO), Outcome::Pending);
    fixture.output.close();
    assert_eq!(fixture.send("123#02", Nanos::ZERO), Outcome::Refused(Cause::Down));
    fixture.valve.is_down.store(true, Ordering::Relaxed);
    fixture.valve.open(1);
    fixture.rest();
    assert_eq!(fixture.counters.jobs()[0].refused(Cause::Down), 1);

    let valve = Arc::new(Valve::default());
    fixture.output.reopen(Box::new(Pipe(Arc::clone(&valve), Arc::default())));
    valve.open(1);
    while fixture.send("123#03", Nanos::ZERO) == Outcome::Refused(Cause::Down) {
        thread::yield_now();
    }
    fixture.rest();
    assert_eq!(valve.sent(), ["123#03"]);
    fixture.end();
}

#[test]
fn at_the_end_what_cannot_leave_is_refused() {
    let fixture = Fixture::new(4);
    assert_eq!(fixture.send("123#01", Nanos::ZERO), Outcome::Pending);
    let counters = fixture.counters.clone();
    assert_eq!(fixture.end(), [""; 0]);
    assert_eq!(counters.jobs()[0].refused(Cause::Down), 1);
}

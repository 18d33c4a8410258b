//! [`Output`]: the way out to one port.
//!
//! ```text
//!  worker --- nobody waits --> Transmitter --- taken --> handled
//!     |                            | no room
//!     +--- somebody waits ----> egress queue, the most urgent first
//!                                  |
//!                               drainer: waits for room, transmits, refuses what is stale
//! ```
//!
//! As long as there is room a frame costs a lock that nobody else wants. Once there is none, the
//! drainer, a thread, has the transmitter to itself until the queue is empty: so nobody overtakes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use candor_linux::clock::{self, Monotonic, Realtime};
use candor_port::{Sent, Transmitter, TransmitterCounters};
use candor_queue::ByPriority;
use candor_queue::Taken as Head;
use candor_route::counters::{Cause, Counters, Outcome};
use candor_route::program::JobIndex;
use candor_time::{Instant, Nanos};
use candor_wire::Frame;

use crate::latency::Latency;

/// How long a drainer waits for room before it looks whether something else is due.
const PATIENCE: Nanos = Nanos::from_millis(5);
/// How long frames may still leave after the end.
const LAST_PATIENCE: Nanos = Nanos::from_millis(500);

/// A copy on its way out.
#[derive(Clone, Copy)]
pub(crate) struct Parcel<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) echo: bool,
    pub(crate) job: JobIndex,
    pub(crate) counters: &'a Counters,
    /// When the frame arrived, if its latency is to be measured.
    pub(crate) arrival: Option<Instant<Realtime>>,
    pub(crate) latency: Option<&'a Arc<Latency>>,
    /// How long it may wait; zero for ever.
    pub(crate) deadline: Nanos,
}

/// A copy that waits.
struct Waiting {
    number: u64,
    frame: Frame,
    echo: bool,
    job: JobIndex,
    counters: Counters,
    arrival: Option<Instant<Realtime>>,
    latency: Option<Arc<Latency>>,
    until: Option<Instant<Monotonic>>,
}

impl Waiting {
    fn settle(&self, outcome: Outcome) {
        self.counters.settle(self.job, outcome);
        if let (Outcome::Handled, Some(arrival), Some(latency)) =
            (outcome, self.arrival, &self.latency)
        {
            latency.record(arrival, clock::now::<Realtime>());
        }
    }
}

struct State {
    /// None while the drainer has it, and while the port is closed.
    transmitter: Option<Box<dyn Transmitter>>,
    /// A transmitter that shall replace the one that there is.
    successor: Option<Box<dyn Transmitter>>,
    queue: ByPriority<Waiting>,
    numbers: u64,
    flush_due: Option<Instant<Monotonic>>,
    is_ending: bool,
}

/// What transmitters count.
struct Counted {
    present: Arc<TransmitterCounters>,
    /// What those before the present one counted.
    before: [u64; 3],
}

/// The way out to one port.
pub(crate) struct Output {
    state: Mutex<State>,
    is_open: AtomicBool,
    /// Apart from the state, so that who asks for statistics holds up nobody.
    counted: Mutex<Counted>,
    /// Something waits, is due, or ends.
    work: Condvar,
    depth: usize,
    queued: AtomicU64,
    most_queued: AtomicU64,
}

impl Counted {
    /// Frames, full, lost.
    fn sums(&self) -> [u64; 3] {
        let present = [&self.present.frames, &self.present.full, &self.present.lost];
        std::array::from_fn(|index| self.before[index] + present[index].get())
    }

    fn adopt(&mut self, counters: Arc<TransmitterCounters>) {
        self.before = self.sums();
        self.present = counters;
    }
}

/// What a port counted on the way out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputCounts {
    pub(crate) transmitted: u64,
    pub(crate) full: u64,
    pub(crate) lost: u64,
    pub(crate) queued: u64,
    pub(crate) most_queued: u64,
    pub(crate) depth: u64,
}

impl Output {
    /// Around a transmitter; `depth` is that of the egress queue.
    pub(crate) fn new(transmitter: Box<dyn Transmitter>, depth: usize) -> Self {
        let counters = transmitter.counters();
        Self {
            state: Mutex::new(State {
                transmitter: Some(transmitter),
                successor: None,
                queue: ByPriority::new(depth),
                numbers: 0,
                flush_due: None,
                is_ending: false,
            }),
            is_open: AtomicBool::new(true),
            counted: Mutex::new(Counted { present: counters, before: [0; 3] }),
            work: Condvar::new(),
            depth,
            queued: AtomicU64::new(0),
            most_queued: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked leaves counts that may lack a frame, nothing worse.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a copy, or lets it wait, or refuses it.
    pub(crate) fn send(&self, parcel: Parcel<'_>) -> Outcome {
        let mut guard = self.lock();
        let state = &mut *guard;
        if !self.is_open() {
            return Outcome::Refused(Cause::Down);
        }
        if let (Some(transmitter), true) = (&mut state.transmitter, state.queue.is_empty()) {
            match transmitter.transmit(parcel.frame, parcel.echo) {
                Sent::Taken => {
                    let due = transmitter.flush_due();
                    let is_new = due.is_some() && state.flush_due.is_none();
                    state.flush_due = due;
                    drop(guard);
                    if is_new {
                        self.work.notify_one();
                    }
                    if let (Some(arrival), Some(latency)) = (parcel.arrival, parcel.latency) {
                        latency.record(arrival, clock::now::<Realtime>());
                    }
                    return Outcome::Handled;
                }
                Sent::Full => {}
                Sent::Down => return Outcome::Refused(Cause::Down),
                Sent::Unsupported => return Outcome::Refused(Cause::Unsupported),
            }
        }
        self.enqueue(guard, parcel)
    }

    #[cold]
    fn enqueue(&self, mut guard: MutexGuard<'_, State>, parcel: Parcel<'_>) -> Outcome {
        let state = &mut *guard;
        state.numbers += 1;
        let number = state.numbers;
        let waiting = Waiting {
            number,
            frame: *parcel.frame,
            echo: parcel.echo,
            job: parcel.job,
            counters: parcel.counters.clone(),
            arrival: parcel.arrival,
            latency: parcel.latency.cloned(),
            until: (parcel.deadline > Nanos::ZERO)
                .then(|| clock::now::<Monotonic>() + parcel.deadline),
        };
        let outcome = match state.queue.push_or_evict(parcel.frame.arbitration_key(), waiting) {
            Err(refused) if refused.number == number => Outcome::Refused(Cause::QueueFull),
            Err(evicted) => {
                evicted.settle(Outcome::Refused(Cause::QueueFull));
                Outcome::Pending
            }
            Ok(()) => Outcome::Pending,
        };
        self.note_queued(state);
        drop(guard);
        self.work.notify_one();
        outcome
    }

    fn note_queued(&self, state: &State) {
        let queued = state.queue.in_use() as u64;
        self.queued.store(queued, Ordering::Relaxed);
        self.most_queued.fetch_max(queued, Ordering::Relaxed);
    }

    /// Sends what was kept back, if it is due. A worker calls this after each batch of frames.
    pub(crate) fn flush_if_due(&self) {
        let mut state = self.lock();
        if state.flush_due.is_some_and(|due| due <= clock::now::<Monotonic>()) {
            Self::flush(&mut state);
        }
    }

    fn flush(state: &mut State) {
        if let Some(transmitter) = &mut state.transmitter {
            // What cannot be sent the transmitter counts.
            let _ = transmitter.flush();
            state.flush_due = transmitter.flush_due();
        }
    }

    /// Whether frames of this port can be transmitted.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Refuses everything from now on, what waits included, until there is another transmitter.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        self.is_open.store(false, Ordering::Relaxed);
        while let Some(waiting) = state.queue.pop() {
            waiting.settle(Outcome::Refused(Cause::Down));
        }
        self.note_queued(&state);
    }

    /// Goes on with another transmitter.
    pub(crate) fn reopen(&self, transmitter: Box<dyn Transmitter>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.counted().adopt(transmitter.counters());
        self.is_open.store(true, Ordering::Relaxed);
        match &mut state.transmitter {
            Some(current) => *current = transmitter,
            None => state.successor = Some(transmitter),
        }
    }

    /// What the port counted.
    pub(crate) fn counts(&self) -> OutputCounts {
        let [transmitted, full, lost] = self.counted().sums();
        OutputCounts {
            transmitted,
            full,
            lost,
            queued: self.queued.load(Ordering::Relaxed),
            most_queued: self.most_queued.load(Ordering::Relaxed),
            depth: self.depth as u64,
        }
    }

    /// Tells the drainer to end once the queue is empty, or soon after.
    pub(crate) fn end(&self) {
        self.lock().is_ending = true;
        self.work.notify_all();
    }

    /// The work of the drainer, until [`Output::end`].
    pub(crate) fn drain(&self) {
        loop {
            let mut state = self.lock();
            let is_idle = loop {
                if !state.queue.is_empty() && state.transmitter.is_some() {
                    break false;
                }
                if state.is_ending {
                    break true;
                }
                state = match state.flush_due {
                    None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                    Some(due) => {
                        let now = clock::now::<Monotonic>();
                        if due <= now {
                            Self::flush(&mut state);
                            continue;
                        }
                        let time = Duration::from_nanos((due - now).as_nanos());
                        let waited = self.work.wait_timeout(state, time);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            };
            if is_idle {
                Self::flush(&mut state);
                return;
            }
            let Some(transmitter) = state.transmitter.take() else { continue };
            drop(state);
            self.empty(transmitter);
        }
    }

    /// Transmits what waits, with the transmitter that the drainer has taken.
    fn empty(&self, mut transmitter: Box<dyn Transmitter>) {
        let mut give_up: Option<Instant<Monotonic>> = None;
        loop {
            let mut state = self.lock();
            if let Some(successor) = state.successor.take() {
                transmitter = successor;
            }
            if state.is_ending {
                let now = clock::now::<Monotonic>();
                if *give_up.get_or_insert(now + LAST_PATIENCE) <= now {
                    while let Some(waiting) = state.queue.pop() {
                        waiting.settle(Outcome::Refused(Cause::Down));
                    }
                }
            }
            let Some(head) = state.queue.take() else {
                state.flush_due = transmitter.flush_due();
                state.transmitter = Some(transmitter);
                self.note_queued(&state);
                return;
            };
            drop(state);
            match self.transmit(&mut *transmitter, head) {
                None => {
                    let mut state = self.lock();
                    state.queue.give_up();
                    self.note_queued(&state);
                }
                Some(head) => {
                    // No room. Whoever comes meanwhile and is more urgent goes first.
                    self.lock().queue.put_back(head);
                    transmitter.wait(PATIENCE);
                }
            }
        }
    }

    /// Transmits one; returns it if there was no room.
    fn transmit(
        &self,
        transmitter: &mut dyn Transmitter,
        head: Head<Waiting>,
    ) -> Option<Head<Waiting>> {
        let waiting = &head.item;
        if waiting.until.is_some_and(|until| until < clock::now::<Monotonic>()) {
            waiting.settle(Outcome::Refused(Cause::Stale));
            return None;
        }
        let outcome = match transmitter.transmit(&waiting.frame, waiting.echo) {
            Sent::Taken => Outcome::Handled,
            Sent::Full => return Some(head),
            Sent::Down => Outcome::Refused(Cause::Down),
            Sent::Unsupported => Outcome::Refused(Cause::Unsupported),
        };
        waiting.settle(outcome);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use candor_route::{Bus, Program, Rule, Table};

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

    struct Bed {
        valve: Arc<Valve>,
        output: Arc<Output>,
        counters: Counters,
        drainer: thread::JoinHandle<()>,
    }

    impl Bed {
        fn new(depth: usize) -> Self {
            let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
            let rule = Rule::new("all", candor_route::BusIndex(0), candor_route::BusIndex(1));
            let buses = vec![bus("a"), bus("b")];
            let table = Table { buses, rules: vec![rule], ..Table::default() };
            let counters = Counters::new(&Program::new(&table));
            let valve = Arc::new(Valve::default());
            let pipe = Pipe(Arc::clone(&valve), Arc::default());
            let output = Arc::new(Output::new(Box::new(pipe), depth));
            let drainer = {
                let output = Arc::clone(&output);
                thread::spawn(move || output.drain())
            };
            Self { valve, output, counters, drainer }
        }

        fn send(&self, frame: &str, deadline: Nanos) -> Outcome {
            self.output.send(Parcel {
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
        let bed = Bed::new(4);
        bed.valve.open(2);
        assert_eq!(bed.send("123#01", Nanos::ZERO), Outcome::Handled);
        assert_eq!(bed.send("122#02", Nanos::ZERO), Outcome::Handled);
        assert_eq!(bed.end(), ["123#01", "122#02"]);
    }

    #[test]
    fn what_waits_leaves_by_priority_and_in_order() {
        let bed = Bed::new(8);
        // Those of one identifier keep their order, whenever the drainer looks.
        for frame in ["300#01", "200#01", "300#02", "100#01", "200#02"] {
            assert_eq!(bed.send(frame, Nanos::ZERO), Outcome::Pending);
        }
        assert_eq!(bed.counters.jobs()[0].pending, 0, "the engine counts what is pending");
        bed.valve.open(10);
        bed.rest();
        let sent = bed.end();
        assert_eq!(sent, ["100#01", "200#01", "200#02", "300#01", "300#02"]);
    }

    #[test]
    fn a_full_queue_refuses_what_is_least_urgent_and_says_so() {
        let bed = Bed::new(2);
        for (frame, outcome) in [
            ("300#01", Outcome::Pending),
            ("200#01", Outcome::Pending),
            ("400#01", Outcome::Refused(Cause::QueueFull)),
            ("100#01", Outcome::Pending), // 300 has to go
        ] {
            assert_eq!(bed.send(frame, Nanos::ZERO), outcome, "{frame}");
        }
        let refused = bed.counters.jobs()[0].refused(Cause::QueueFull);
        assert_eq!(refused, 1, "the one that had to go; the engine counts the other");
        bed.valve.open(10);
        bed.rest();
        let counts = bed.output.counts();
        assert_eq!((counts.transmitted, counts.queued, counts.depth), (2, 0, 2));
        assert!(counts.full > 0 && counts.most_queued <= 2);
        assert_eq!(bed.counters.jobs()[0].handled, 2);
        assert_eq!(bed.end(), ["100#01", "200#01"]);
    }

    #[test]
    fn what_waits_too_long_is_stale() {
        let bed = Bed::new(4);
        assert_eq!(bed.send("123#01", Nanos::from_micros(1)), Outcome::Pending);
        assert_eq!(bed.send("124#02", Nanos::ZERO), Outcome::Pending);
        while bed.counters.jobs()[0].refused(Cause::Stale) == 0 {
            thread::yield_now();
        }
        bed.valve.open(4);
        bed.rest();
        assert_eq!(bed.end(), ["124#02"]);
    }

    #[test]
    fn a_port_that_is_away_refuses_until_it_returns() {
        let bed = Bed::new(4);
        assert_eq!(bed.send("123#01", Nanos::ZERO), Outcome::Pending);
        bed.output.close();
        assert_eq!(bed.send("123#02", Nanos::ZERO), Outcome::Refused(Cause::Down));
        bed.valve.is_down.store(true, Ordering::Relaxed);
        bed.valve.open(1);
        bed.rest();
        assert_eq!(bed.counters.jobs()[0].refused(Cause::Down), 1);

        let valve = Arc::new(Valve::default());
        bed.output.reopen(Box::new(Pipe(Arc::clone(&valve), Arc::default())));
        valve.open(1);
        while bed.send("123#03", Nanos::ZERO) == Outcome::Refused(Cause::Down) {
            thread::yield_now();
        }
        bed.rest();
        assert_eq!(valve.sent(), ["123#03"]);
        bed.end();
    }

    #[test]
    fn at_the_end_what_cannot_leave_is_refused() {
        let bed = Bed::new(4);
        assert_eq!(bed.send("123#01", Nanos::ZERO), Outcome::Pending);
        let counters = bed.counters.clone();
        assert_eq!(bed.end(), [""; 0]);
        assert_eq!(counters.jobs()[0].refused(Cause::Down), 1);
    }
}

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
//! drainer, a thread, takes the transmitter out and has it to itself until the queue is empty: so
//! nobody overtakes.
//!
//! Nobody waits for a peer while holding the lock: transmitters do not wait by contract, the drainer
//! waits for room after it has let go of the lock, and where many copies end at once (deadlines, an
//! interface that went away) it is let go after each [`CHUNK`] of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use candor_causes::Cause;
use candor_engine::counters::{Counters, Outcome};
use candor_engine::program::JobIndex;
use candor_linux::clock;
use candor_port::{Sent, Transmitter, TransmitterCounters};
use candor_queue::Egress;
use candor_queue::egress::Taken;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::Frame;

use crate::latency::{Arrival, Latency};

/// How long a drainer waits for room before it looks whether something else is due.
const PATIENCE: Nanos = Nanos::from_millis(5);
/// How long frames may still leave after the end.
const LAST_PATIENCE: Nanos = Nanos::from_millis(500);
/// A wait for room that is shorter than this was none.
const SHORTEST_WAIT: Nanos = Nanos::from_micros(50);
/// The longest sleep between attempts of a transmitter that does not wait.
const LONGEST_PACE: Nanos = Nanos::from_millis(1);
/// So many copies end at most while the lock is held.
const CHUNK: usize = 64;

/// A copy on its way out.
#[derive(Clone, Copy)]
pub(crate) struct Parcel<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) echo: bool,
    pub(crate) job: JobIndex,
    pub(crate) counters: &'a Counters,
    /// When the frame arrived, if its latency is to be measured.
    pub(crate) arrival: Option<Arrival>,
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
    arrival: Option<Arrival>,
    latency: Option<Arc<Latency>>,
}

impl Waiting {
    fn settle(&self, outcome: Outcome) {
        self.counters.settle(self.job, outcome);
        if let (Outcome::Handled, Some(arrival), Some(latency)) =
            (outcome, self.arrival, &self.latency)
        {
            latency.record(arrival);
        }
    }
}

struct State {
    /// None while the drainer has it, and after the end.
    transmitter: Option<Box<dyn Transmitter>>,
    /// A transmitter that shall replace the one that there is.
    successor: Option<Box<dyn Transmitter>>,
    queue: Egress<Waiting>,
    numbers: u64,
    flush_due: Option<Instant<Monotonic>>,
    /// What the transmitter kept back found no room when it was flushed.
    is_stuck: bool,
    /// Until when frames may still leave, once the end is near.
    ends_at: Option<Instant<Monotonic>>,
}

impl State {
    /// Whether there is something for the drainer to wait for.
    fn is_waiting(&self) -> bool {
        !self.queue.is_empty() || self.is_stuck
    }

    /// Sends what was kept back. What cannot be sent for another reason than room the transmitter
    /// counts.
    fn flush(&mut self) {
        let Some(transmitter) = &mut self.transmitter else { return };
        self.is_stuck = transmitter.flush() == Sent::Full;
        // What is still due and not stuck would be flushed again at once, without end.
        let is_to_come = |due: &Instant<Monotonic>| *due > clock::now::<Monotonic>();
        self.flush_due = transmitter.flush_due().filter(|due| self.is_stuck || is_to_come(due));
    }
}

/// What transmitters count.
struct Counted {
    present: Arc<TransmitterCounters>,
    /// What those before the present one counted.
    before: [u64; 4],
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
    /// Frames, full, lost, datagrams.
    fn sums(&self) -> [u64; 4] {
        let present = &self.present;
        let present = [&present.frames, &present.full, &present.lost, &present.datagrams];
        std::array::from_fn(|index| self.before[index] + present[index].get())
    }

    fn adopt(&mut self, counters: Arc<TransmitterCounters>) {
        self.before = self.sums();
        self.present = counters;
    }
}

/// What a port counted on the way out.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputCounts {
    pub(crate) transmitted: u64,
    pub(crate) full: u64,
    pub(crate) lost: u64,
    pub(crate) datagrams: u64,
    pub(crate) queued: u64,
    pub(crate) most_queued: u64,
    pub(crate) depth: u64,
    /// Why frames do not leave, if so.
    pub(crate) trouble: Option<String>,
}

impl Output {
    /// Around a transmitter; `depth` is that of the egress queue.
    pub(crate) fn new(transmitter: Box<dyn Transmitter>, depth: usize) -> Self {
        let counters = transmitter.counters();
        Self {
            state: Mutex::new(State {
                transmitter: Some(transmitter),
                successor: None,
                queue: Egress::new(depth),
                numbers: 0,
                flush_due: None,
                is_stuck: false,
                ends_at: None,
            }),
            is_open: AtomicBool::new(true),
            counted: Mutex::new(Counted { present: counters, before: [0; 4] }),
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
        let is_free = !state.is_waiting();
        if let (Some(transmitter), true) = (&mut state.transmitter, is_free) {
            match transmitter.transmit(parcel.frame, parcel.echo) {
                Sent::Taken => {
                    let due = transmitter.flush_due();
                    // What is due since ever the worker flushes itself, after its batch.
                    let is_later = due.is_some_and(|due| due > Instant::ZERO);
                    let is_new = is_later && state.flush_due.is_none();
                    state.flush_due = due;
                    drop(guard);
                    if is_new {
                        self.work.notify_one();
                    }
                    if let (Some(arrival), Some(latency)) = (parcel.arrival, parcel.latency) {
                        latency.record(arrival);
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
        };
        let until = (parcel.deadline > Nanos::ZERO)
            .then(|| (clock::now::<Monotonic>() + parcel.deadline).as_nanos());
        let outcome = match state.queue.push(parcel.frame.arbitration_key(), until, waiting) {
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
        let is_due = state.flush_due.is_some_and(|due| due <= clock::now::<Monotonic>());
        if is_due && !state.is_stuck {
            state.flush();
            let is_stuck = state.is_stuck;
            drop(state);
            if is_stuck {
                // The drainer waits for room.
                self.work.notify_one();
            }
        }
    }

    /// Whether frames of this port can be transmitted.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Refuses everything from now on, what waits included, until there is another transmitter.
    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Relaxed);
        while self.refuse_some(&mut self.lock()) {}
    }

    /// Refuses some of what waits. False if nothing is left.
    fn refuse_some(&self, state: &mut State) -> bool {
        let mut refused = 0;
        while refused < CHUNK
            && let Some(waiting) = state.queue.pop()
        {
            waiting.settle(Outcome::Refused(Cause::Down));
            refused += 1;
        }
        self.note_queued(state);
        !state.queue.is_empty()
    }

    /// Goes on with another transmitter.
    pub(crate) fn reopen(&self, transmitter: Box<dyn Transmitter>) {
        let mut state = self.lock();
        self.counted().adopt(transmitter.counters());
        self.is_open.store(true, Ordering::Relaxed);
        let replaced = match state.transmitter.is_some() {
            true => {
                (state.flush_due, state.is_stuck) = (None, false);
                state.transmitter.replace(transmitter)
            }
            false => state.successor.replace(transmitter),
        };
        drop(state);
        // Closing takes its time, in which nobody is held up.
        drop(replaced);
    }

    /// Goes on counting where another one has ended.
    pub(crate) fn inherit(&self, other: &Self) {
        self.counted().before = other.counted().sums();
        self.most_queued.fetch_max(other.most_queued.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// What the port counted.
    pub(crate) fn counts(&self) -> OutputCounts {
        let counted = self.counted();
        let [transmitted, full, lost, datagrams] = counted.sums();
        OutputCounts {
            transmitted,
            full,
            lost,
            datagrams,
            queued: self.queued.load(Ordering::Relaxed),
            most_queued: self.most_queued.load(Ordering::Relaxed),
            depth: self.depth as u64,
            trouble: counted.present.trouble.get(),
        }
    }

    /// Tells the drainer to end once the queue is empty, or soon after.
    pub(crate) fn end(&self) {
        let now = clock::now::<Monotonic>();
        self.lock().ends_at.get_or_insert(now + LAST_PATIENCE);
        self.work.notify_all();
    }

    /// The work of the drainer, until [`Output::end`].
    pub(crate) fn drain(&self) {
        while let Some(transmitter) = self.wait_for_work() {
            self.empty(transmitter);
        }
        self.is_open.store(false, Ordering::Relaxed);
        let mut state = self.lock();
        while self.refuse_some(&mut state) {}
        let transmitter = state.transmitter.take();
        drop(state);
        // What it still keeps it counts as lost now.
        drop(transmitter);
    }

    /// Waits until frames wait for room, and returns the transmitter to be waited for; `None` at the
    /// end. Sends what was kept back when it is due.
    fn wait_for_work(&self) -> Option<Box<dyn Transmitter>> {
        let mut state = self.lock();
        loop {
            let now = clock::now::<Monotonic>();
            let is_ending = state.ends_at.is_some();
            if state.ends_at.is_some_and(|end| end <= now) {
                return None;
            }
            if state.is_waiting()
                && let Some(transmitter) = state.transmitter.take()
            {
                return Some(transmitter);
            }
            let due = state.flush_due;
            if due.is_some_and(|due| due <= now || is_ending) {
                state.flush();
            } else if is_ending {
                return None;
            } else {
                state = self.sleep(state, due.map(|due| due - now));
            }
        }
    }

    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, State>,
        most: Option<Nanos>,
    ) -> MutexGuard<'a, State> {
        let Some(most) = most else {
            return self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let waited = self.work.wait_timeout(state, Duration::from_nanos(most.as_nanos()));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Transmits what waits, with the transmitter that the drainer has taken.
    fn empty(&self, mut transmitter: Box<dyn Transmitter>) {
        let mut pace = Pace::default();
        loop {
            let has_room = match self.next(&mut transmitter) {
                Next::Again => true,
                Next::Flush => {
                    let is_stuck = transmitter.flush() == Sent::Full;
                    self.lock().is_stuck = is_stuck;
                    !is_stuck
                }
                Next::Transmit(head) => self.transmit(&mut *transmitter, head),
                Next::Rest => {
                    let mut state = self.lock();
                    // Somebody may have come in between.
                    if !state.is_waiting() && state.successor.is_none() {
                        state.flush_due = transmitter.flush_due();
                        state.transmitter = Some(transmitter);
                        return;
                    }
                    true
                }
            };
            if has_room {
                pace.go_on();
            } else {
                let until = self.lock().queue.next_deadline();
                pace.wait(&mut *transmitter, until);
            }
        }
    }

    /// What to do next. Ends what may not wait any longer.
    fn next(&self, transmitter: &mut Box<dyn Transmitter>) -> Next {
        let mut state = self.lock();
        if let Some(successor) = state.successor.take() {
            state.is_stuck = false;
            drop(state);
            drop(std::mem::replace(transmitter, successor));
            return Next::Again;
        }
        if state.ends_at.is_some_and(|end| end <= clock::now::<Monotonic>()) {
            state.is_stuck = false;
            if self.refuse_some(&mut state) {
                return Next::Again;
            }
        }
        if self.expire_some(&mut state) {
            return Next::Again;
        }
        if state.is_stuck {
            return Next::Flush;
        }
        match state.queue.take() {
            Some(head) => Next::Transmit(head),
            None => Next::Rest,
        }
    }

    /// Refuses some of what has waited too long. Whether there may be more of it.
    fn expire_some(&self, state: &mut State) -> bool {
        if state.queue.next_deadline().is_none() {
            return false;
        }
        let now = clock::now::<Monotonic>().as_nanos();
        let mut expired = 0;
        while expired < CHUNK
            && let Some(waiting) = state.queue.pop_overdue(now)
        {
            waiting.settle(Outcome::Refused(Cause::Stale));
            expired += 1;
        }
        if expired > 0 {
            self.note_queued(state);
        }
        expired == CHUNK
    }

    /// Transmits the one whose turn it is. False if there is no room.
    fn transmit(&self, transmitter: &mut dyn Transmitter, head: Taken<Waiting>) -> bool {
        let outcome = match transmitter.transmit(&head.item.frame, head.item.echo) {
            Sent::Taken => Outcome::Handled,
            Sent::Full => {
                // Whoever comes meanwhile and is more urgent goes first.
                self.lock().queue.put_back(head);
                return false;
            }
            Sent::Down => Outcome::Refused(Cause::Down),
            Sent::Unsupported => Outcome::Refused(Cause::Unsupported),
        };
        head.item.settle(outcome);
        let mut state = self.lock();
        state.queue.give_up();
        self.note_queued(&state);
        true
    }
}

/// What a drainer does next.
enum Next {
    /// It looks once more.
    Again,
    /// It sends what was kept back.
    Flush,
    /// It transmits this one.
    Transmit(Taken<Waiting>),
    /// Nothing waits.
    Rest,
}

/// Waits between attempts. A transmitter that is told of room where there is none would be asked
/// without end otherwise, at a priority at which nobody else on this processor could make room.
#[derive(Default)]
struct Pace {
    /// How long to sleep after a wait that was none.
    sleep: Nanos,
}

impl Pace {
    /// There was room.
    fn go_on(&mut self) {
        self.sleep = Nanos::ZERO;
    }

    /// There was none: waits for it, at most until the next deadline.
    fn wait(&mut self, transmitter: &mut dyn Transmitter, deadline: Option<u64>) {
        let begin = clock::now::<Monotonic>();
        let left = deadline.map(|deadline| deadline.saturating_sub(begin.as_nanos()) + 1);
        let most = left.map_or(PATIENCE, |left| PATIENCE.min(Nanos::from_nanos(left)));
        transmitter.wait(most);
        let until = begin + SHORTEST_WAIT.min(most);
        if clock::now::<Monotonic>() >= until {
            self.sleep = Nanos::ZERO;
            return;
        }
        // The first time there may just have been room.
        let until = begin + self.sleep.min(most);
        self.sleep = (self.sleep * 2).clamp(SHORTEST_WAIT, LONGEST_PACE);
        if clock::now::<Monotonic>() < until {
            let _ = clock::sleep_until_or_signal(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use candor_engine::{Bus, Program, Rule, Table};

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

    struct Bed {
        valve: Arc<Valve>,
        output: Arc<Output>,
        counters: Counters,
        drainer: thread::JoinHandle<()>,
    }

    impl Bed {
        fn new(depth: usize) -> Self {
            let valve = Arc::new(Valve::default());
            let pipe = Pipe(Arc::clone(&valve), Arc::default());
            Self::with(valve, Box::new(pipe), depth)
        }

        /// One whose transmitter keeps everything back, and how often it was flushed.
        fn with_bag() -> (Self, Arc<AtomicU64>) {
            let (valve, flushes) = (Arc::<Valve>::default(), Arc::<AtomicU64>::default());
            let bag =
                Bag { valve: Arc::clone(&valve), kept: Vec::new(), flushes: Arc::clone(&flushes) };
            (Self::with(valve, Box::new(bag), 4), flushes)
        }

        fn with(valve: Arc<Valve>, transmitter: Box<dyn Transmitter>, depth: usize) -> Self {
            let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
            let rule = Rule::new("all", candor_engine::BusIndex(0), candor_engine::BusIndex(1));
            let buses = vec![bus("a"), bus("b")];
            let table = Table { buses, rules: vec![rule], ..Table::default() };
            let counters = Counters::new(&Program::new(&table));
            let output = Arc::new(Output::new(transmitter, depth));
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
    fn what_is_kept_back_waits_for_room_without_haste() {
        let (bed, flushes) = Bed::with_bag();
        assert_eq!(bed.send("123#01", Nanos::ZERO), Outcome::Handled);
        assert_eq!(flushes.load(Ordering::Relaxed), 0, "the worker flushes after its batch");
        bed.output.flush_if_due();
        let begin = clock::now::<Monotonic>();
        while flushes.load(Ordering::Relaxed) < 4 {
            thread::yield_now();
        }
        let waited = clock::now::<Monotonic>() - begin;
        assert!(waited >= PATIENCE, "{waited}: it waits from one attempt to the next");
        // Frames wait in the queue meanwhile, by priority and with deadlines, not in the bag.
        assert_eq!(bed.send("122#02", Nanos::ZERO), Outcome::Pending);
        bed.valve.open(2);
        while bed.valve.sent().len() < 2 {
            thread::yield_now();
        }
        assert_eq!(bed.end(), ["123#01", "122#02"]);
    }

    #[test]
    fn the_end_comes_in_time_whatever_is_kept_back() {
        let (bed, _) = Bed::with_bag();
        assert_eq!(bed.send("123#01", Nanos::ZERO), Outcome::Handled);
        bed.output.flush_if_due();
        assert_eq!(bed.send("122#02", Nanos::ZERO), Outcome::Pending);
        let counters = bed.counters.clone();
        let begin = clock::now::<Monotonic>();
        assert_eq!(bed.end(), [""; 0]);
        let took = clock::now::<Monotonic>() - begin;
        assert!(took >= LAST_PATIENCE && took < LAST_PATIENCE * 4, "{took}");
        assert_eq!(counters.jobs()[0].refused(Cause::Down), 1);
    }

    #[test]
    fn nobody_waits_for_the_lock_while_the_drainer_waits_for_room() {
        let (bed, _) = Bed::with_bag();
        bed.send("123#01", Nanos::ZERO);
        bed.output.flush_if_due();
        let begin = clock::now::<Monotonic>();
        // While the drainer waits 5 ms for room again and again.
        for _ in 0..1_000 {
            bed.send("100#", Nanos::ZERO);
            bed.output.flush_if_due();
        }
        let took = clock::now::<Monotonic>() - begin;
        assert!(took < PATIENCE * 100, "{took} for 1,000 frames: each waited");
        bed.valve.open(2_000);
        bed.rest();
        bed.end();
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
        let bed = Bed::with(Arc::default(), Box::new(Liar(Arc::clone(&attempts))), 4);
        let begin = clock::now::<Monotonic>();
        bed.send("123#01", Nanos::ZERO);
        let end = begin + Nanos::from_millis(50);
        clock::sleep_until(end).unwrap();
        let attempts = attempts.load(Ordering::Relaxed);
        let most = (clock::now::<Monotonic>() - begin).as_nanos() / LONGEST_PACE.as_nanos() + 10;
        assert!((2..=most).contains(&attempts), "{attempts} attempts, {most} at most");
        bed.end();
    }

    #[test]
    fn what_is_behind_others_becomes_stale_too() {
        let bed = Bed::new(4);
        assert_eq!(bed.send("001#", Nanos::ZERO), Outcome::Pending);
        for number in 0..3 {
            let deadline = Nanos::from_millis(10);
            assert_eq!(bed.send(&format!("70{number}#"), deadline), Outcome::Pending);
        }
        // The queue is full of frames that nobody wants any more, and none of them is the next.
        while bed.counters.jobs()[0].refused(Cause::Stale) < 3 {
            thread::yield_now();
        }
        assert_eq!(bed.send("704#", Nanos::ZERO), Outcome::Pending, "there is a place again");
        bed.valve.open(2);
        bed.rest();
        assert_eq!(bed.end(), ["001#", "704#"]);
    }

    #[test]
    fn whoever_tells_a_fate_every_copy_has_one() {
        const FRAMES: u64 = 20_000;
        let bed = Bed::new(8);
        let mut refused = 0;
        for number in 0..FRAMES {
            // Evictions by this thread, transmissions by the drainer.
            let id = number * 7 % 0x7FF;
            match bed.send(&format!("{id:03X}#"), Nanos::ZERO) {
                Outcome::Refused(_) => refused += 1,
                Outcome::Handled => refused += 1, // not counted here: the engine counts it
                Outcome::Pending => {}
            }
            bed.valve.open(usize::from(number % 3 == 0));
        }
        bed.valve.open(FRAMES as usize);
        bed.rest();
        let counters = bed.counters.clone();
        bed.end();
        let job = counters.jobs()[0];
        assert_eq!(job.handled + job.refused(Cause::QueueFull) + refused, FRAMES);
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

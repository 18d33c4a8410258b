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

mod counts;
mod drain;
mod pace;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use candor_causes::Cause;
use candor_engine::counters::Outcome;
use candor_linux::clock;
use candor_port::{Sent, Transmitter};
use candor_queue::Egress;
use candor_time::{Instant, Monotonic, Nanos};

use self::counts::TransmitterSums;
use self::waiting::Waiting;
use crate::lock::lock;

pub(crate) use self::counts::OutputCounts;
pub(crate) use self::waiting::OutgoingCopy;

/// How long frames may still leave after the end.
const DRAIN_TIMEOUT: Nanos = Nanos::from_millis(500);
/// So many copies end at most while the lock is held.
const CHUNK: usize = 64;

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

/// The way out to one port.
pub(crate) struct Output {
    state: Mutex<State>,
    is_open: AtomicBool,
    /// Apart from the state, so that who asks for statistics holds up nobody.
    counted: Mutex<TransmitterSums>,
    /// Something waits, is due, or ends.
    work: Condvar,
    depth: usize,
    queued: AtomicU64,
    most_queued: AtomicU64,
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
            counted: Mutex::new(TransmitterSums { present: counters, before: [0; 4] }),
            work: Condvar::new(),
            depth,
            queued: AtomicU64::new(0),
            most_queued: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked leaves counts that may lack a frame, nothing worse.
        lock(&self.state)
    }

    fn counted(&self) -> MutexGuard<'_, TransmitterSums> {
        lock(&self.counted)
    }

    /// Sends a copy, or lets it wait, or refuses it.
    pub(crate) fn send(&self, copy: OutgoingCopy<'_>) -> Outcome {
        let mut guard = self.lock();
        let state = &mut *guard;
        if !self.is_open() {
            return Outcome::Refused(Cause::Down);
        }
        let is_free = !state.is_waiting();
        if let (Some(transmitter), true) = (&mut state.transmitter, is_free) {
            match transmitter.transmit(copy.frame, copy.echo) {
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
                    if let (Some(arrival), Some(latency)) = (copy.arrival, copy.latency) {
                        latency.record(arrival);
                    }
                    return Outcome::Handled;
                }
                Sent::Full => {}
                Sent::Down => return Outcome::Refused(Cause::Down),
                Sent::Unsupported => return Outcome::Refused(Cause::Unsupported),
            }
        }
        self.enqueue(guard, copy)
    }

    #[cold]
    fn enqueue(&self, mut guard: MutexGuard<'_, State>, copy: OutgoingCopy<'_>) -> Outcome {
        let state = &mut *guard;
        state.numbers += 1;
        let number = state.numbers;
        let waiting = Waiting {
            number,
            frame: *copy.frame,
            echo: copy.echo,
            job: copy.job,
            counters: copy.counters.clone(),
            arrival: copy.arrival,
            latency: copy.latency.cloned(),
        };
        let until = (copy.deadline > Nanos::ZERO)
            .then(|| (clock::now::<Monotonic>() + copy.deadline).as_nanos());
        let outcome = match state.queue.push(copy.frame.arbitration_key(), until, waiting) {
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

    /// Whether nothing waits, and everything that the port took has left.
    pub(crate) fn is_empty(&self) -> bool {
        let mut state = self.lock();
        !state.is_waiting()
            && state.transmitter.as_mut().is_some_and(|transmitter| transmitter.is_drained())
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
        self.lock().ends_at.get_or_insert(now + DRAIN_TIMEOUT);
        self.work.notify_all();
    }
}

#[cfg(test)]
mod tests;

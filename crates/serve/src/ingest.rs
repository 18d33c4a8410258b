//! The ingest: a thread for each port, outside of the reactor.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use candor_linux::clock;
use candor_port::{
    Address, Error, Medium, Progress, Receiver, ReceiverCounters, Until, Waker, Wanted,
};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::Frame;

use crate::Shared;

/// Frames that are published at most before connections are woken: a full port starves nobody.
const MOST_FRAMES: usize = 1_024;
/// How long a thread waits for frames before it looks whether to end.
const ATTENTION: Nanos = Nanos::from_secs(1);
/// How often a port that does not work is tried again.
const RETRY: Nanos = Nanos::from_millis(200);

const WANTED: Wanted = Wanted { error_reports: false, waker: true, ..Wanted::RECEIVER };

/// What is known of a port.
#[derive(Default)]
pub(crate) struct Intake {
    /// Its address.
    pub(crate) port: String,
    /// The counters of its receiver, and of those before it that were opened on the same port.
    counters: Mutex<Vec<Arc<ReceiverCounters>>>,
    trouble: Mutex<Option<String>>,
    /// Batches published.
    pub(crate) batches: AtomicU64,
}

impl Intake {
    /// Frames received, and what was lost before it could be received.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |of: fn(&ReceiverCounters) -> u64| counters.iter().map(|one| of(one)).sum();
        (sum(|one| one.frames.get()), sum(|one| one.overflow.get() + one.missing.get()))
    }

    /// Why no frames come, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        let own = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        own.or_else(|| counters.last().and_then(|counters| counters.trouble.get()))
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn adopt(&self, receiver: &dyn Receiver) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.push(receiver.counters());
    }
}

/// A port that is open.
pub(crate) struct Opened {
    address: Address,
    receiver: Box<dyn Receiver>,
    pub(crate) intake: Arc<Intake>,
}

fn receiver(address: &Address) -> Result<Box<dyn Receiver>, Error> {
    let port = candor_drivers::open(address, WANTED)?;
    port.receiver.ok_or_else(|| {
        Error::new(address.to_string(), "this port receives nothing")
            .with_remedy("use another port; `candor bus list` shows the kinds")
    })
}

/// Opens a port to receive from.
pub(crate) fn open(address: &Address) -> Result<Opened, Error> {
    let receiver = receiver(address)?;
    let intake = Arc::new(Intake { port: address.to_string(), ..Intake::default() });
    intake.adopt(&*receiver);
    Ok(Opened { address: address.clone(), receiver, intake })
}

/// A thread that takes frames from a port.
pub(crate) struct Ingest {
    intake: Arc<Intake>,
    waker: Arc<Mutex<Option<Waker>>>,
    thread: JoinHandle<()>,
    reported: Option<String>,
}

impl Opened {
    /// Begins to publish its frames.
    pub(crate) fn start(
        self,
        bus: usize,
        coalesce: Nanos,
        shared: Arc<Shared>,
        is_ending: Arc<AtomicBool>,
    ) -> io::Result<Ingest> {
        let waker = Arc::new(Mutex::new(self.receiver.waker()));
        let intake = Arc::clone(&self.intake);
        let worker =
            Worker { opened: self, bus, coalesce, shared, is_ending, waker: Arc::clone(&waker) };
        let thread = thread::Builder::new().name(format!("ingest/{bus}"));
        let thread = thread.spawn(move || worker.work())?;
        Ok(Ingest { intake, waker, thread, reported: None })
    }
}

impl Ingest {
    /// Makes the thread look whether to end.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    pub(crate) fn join(self) {
        // One that panicked has said so.
        let _ = self.thread.join();
    }

    /// What is new about whether the port works.
    pub(crate) fn news(&mut self) -> Option<String> {
        let trouble = self.intake.trouble();
        if trouble == self.reported {
            return None;
        }
        self.reported.clone_from(&trouble);
        let port = &self.intake.port;
        Some(match trouble {
            Some(trouble) => format!("{port}: {trouble}"),
            None => format!("{port} works again"),
        })
    }
}

struct Worker {
    opened: Opened,
    bus: usize,
    coalesce: Nanos,
    shared: Arc<Shared>,
    is_ending: Arc<AtomicBool>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Worker {
    fn work(mut self) {
        let mut batch = Vec::with_capacity(MOST_FRAMES);
        // Whether the last look found something: then more is likely to come, and is gathered.
        let mut is_flowing = false;
        // Until something is received again, or nothing without an error.
        let mut is_troubled = false;
        let mut next = clock::now::<Monotonic>();
        while !self.is_ending.load(Ordering::Relaxed) {
            if is_flowing && self.coalesce > Nanos::ZERO {
                next = (next + self.coalesce).max(clock::now());
                let _ = clock::sleep_until(next);
            }
            let until = match is_flowing && self.coalesce > Nanos::ZERO {
                true => Until::Now,
                false => Until::Instant(clock::now::<Monotonic>() + ATTENTION),
            };
            match self.take(until, &mut batch) {
                Ok(Progress::Ended) => {
                    self.publish(&mut batch);
                    self.opened.intake.set_trouble(Some("no more frames come".to_owned()));
                    self.rest();
                    return;
                }
                Ok(_) => {
                    if std::mem::take(&mut is_troubled) {
                        self.opened.intake.set_trouble(None);
                    }
                    if !is_flowing {
                        next = clock::now();
                    }
                    is_flowing = !batch.is_empty();
                    self.publish(&mut batch);
                }
                Err(error) => {
                    self.publish(&mut batch);
                    (is_flowing, is_troubled) = (false, true);
                    self.mend(&error);
                }
            }
        }
    }

    /// Takes what has come.
    fn take(&mut self, until: Until, batch: &mut Vec<(u64, Frame)>) -> Result<Progress, Error> {
        let mut until = until;
        loop {
            let mut last = None;
            let progress = self.opened.receiver.receive(until, &mut |received| {
                let stamp = received.stamp.system.map(Instant::as_nanos);
                let stamp = stamp.or(last);
                let stamp = stamp.unwrap_or_else(|| clock::now::<Realtime>().as_nanos());
                // Frames of a batch without stamps came at the same time, as far as anybody knows.
                last = Some(stamp);
                batch.push((stamp, received.frame));
            })?;
            match progress {
                Progress::Frames(_) if batch.len() < MOST_FRAMES => until = Until::Now,
                Progress::Nothing | Progress::Frames(_) => return Ok(progress),
                Progress::Ended => return Ok(progress),
            }
        }
    }

    fn publish(&self, batch: &mut Vec<(u64, Frame)>) {
        if batch.is_empty() {
            return;
        }
        let mut hub = self.shared.hub();
        for (time_ns, frame) in batch.drain(..) {
            hub.publish(self.bus, time_ns, &frame);
        }
        drop(hub);
        self.opened.intake.batches.fetch_add(1, Ordering::Relaxed);
        self.shared.changed.send_modify(|ticks| *ticks += 1);
    }

    /// After an error: waits, and opens the port again if that helps.
    fn mend(&mut self, error: &Error) {
        self.opened.intake.set_trouble(Some(error.to_string()));
        let _ = clock::sleep_until(clock::now::<Monotonic>() + RETRY);
        if candor_drivers::medium(&self.opened.address) == Some(Medium::Recording) {
            // It would begin again; its end is next.
            return;
        }
        if let Ok(receiver) = receiver(&self.opened.address) {
            self.opened.intake.adopt(&*receiver);
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = receiver.waker();
            self.opened.receiver = receiver;
        }
    }

    /// Nothing comes any more.
    fn rest(&self) {
        while !self.is_ending.load(Ordering::Relaxed) {
            let _ = clock::sleep_until(clock::now::<Monotonic>() + RETRY);
        }
    }
}

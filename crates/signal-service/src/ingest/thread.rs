//! A thread for a port without a descriptor.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use candor_linux::clock;
use candor_port::{Error, Estate, Until, Waker};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

use super::{ATTENTION, MOST_FRAMES, Pacer, RETRY, Taken, Worker, receiver};
use crate::Pace;

/// A thread that takes frames from a port.
pub(super) struct Thread {
    waker: Arc<Mutex<Option<Waker>>>,
    handle: JoinHandle<()>,
}

/// Starts it; it looks at `is_ending` whenever it is woken.
pub(super) fn start(worker: Worker, is_ending: Arc<AtomicBool>) -> io::Result<Thread> {
    let waker = Arc::new(Mutex::new(worker.opened.receiver.waker()));
    // The kernel shows 15 characters.
    let name: String = format!("ingest/{}", worker.opened.intake.port).chars().take(15).collect();
    let pacer = (worker.opened.pace == Pace::Subscribers).then(Pacer::default);
    let work = Work { worker, pacer, is_ending, waker: Arc::clone(&waker) };
    let handle = std::thread::Builder::new().name(name).spawn(move || work.work())?;
    Ok(Thread { waker, handle })
}

impl Thread {
    pub(super) fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
        self.handle.thread().unpark();
    }

    pub(super) fn join(self) {
        // One that panicked has said so.
        let _ = self.handle.join();
    }
}

struct Work {
    worker: Worker,
    pacer: Option<Pacer>,
    is_ending: Arc<AtomicBool>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Work {
    fn work(mut self) {
        let mut batch = Vec::with_capacity(MOST_FRAMES);
        let coalesce = match self.pacer {
            None => self.worker.coalesce,
            // Subscribers gather.
            Some(_) => Nanos::ZERO,
        };
        // Whether the last look found something: then more is likely to come, and is gathered.
        let mut is_flowing = false;
        // Until something is received again, or nothing without an error.
        let mut is_troubled = false;
        let mut next = clock::now::<Monotonic>();
        while !self.is_ending.load(Ordering::Relaxed) {
            if is_flowing && coalesce > Nanos::ZERO {
                next = (next + coalesce).max(clock::now());
                self.sleep_until(next);
            }
            let until = match is_flowing && coalesce > Nanos::ZERO {
                true => Until::Now,
                false => Until::Instant(clock::now::<Monotonic>() + ATTENTION),
            };
            match self.worker.take(until, &mut batch) {
                Ok(Taken::Ended) => {
                    self.publish(&mut batch);
                    self.worker.set_ended();
                    self.rest();
                    return;
                }
                Ok(_) => {
                    if std::mem::take(&mut is_troubled) {
                        self.worker.set_trouble(None);
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

    fn publish(&mut self, batch: &mut Vec<(u64, Frame)>) {
        match &mut self.pacer {
            None => self.worker.publish(batch),
            Some(pacer) => {
                let Worker { opened, shared, .. } = &self.worker;
                pacer.publish(shared, &opened.intake, batch, &self.is_ending);
            }
        }
    }

    /// After an error: waits, and opens the port again if that helps.
    fn mend(&mut self, error: &Error) {
        self.worker.set_trouble(Some(error.without_port()));
        self.sleep_until(clock::now::<Monotonic>() + RETRY);
        if self.is_ending.load(Ordering::Relaxed) {
            return;
        }
        if self.worker.can_be_opened_again()
            && let Ok((receiver, endpoint)) =
                receiver(&self.worker.opened.address, &Estate::default())
        {
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = receiver.waker();
            self.worker.adopt(receiver, endpoint);
        }
    }

    /// Nothing comes any more.
    fn rest(&self) {
        while !self.is_ending.load(Ordering::Relaxed) {
            std::thread::park();
        }
    }

    /// Sleeps until then, or until it is to end.
    fn sleep_until(&self, until: Instant<Monotonic>) {
        while !self.is_ending.load(Ordering::Relaxed) {
            let now = clock::now::<Monotonic>();
            if now >= until {
                return;
            }
            std::thread::park_timeout(Duration::from_nanos(until.since(now).as_nanos()));
        }
    }
}

//! A thread for a port without a descriptor.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use candor_drivers::lasting::Reception;
use candor_linux::clock;
use candor_port::Until;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

use super::{MOST_FRAMES, PORT_CHECK_INTERVAL, Pacer, RETRY, Taken, Worker};
use crate::Pace;

/// A thread that takes frames from a port.
pub(super) struct Thread {
    reception: Arc<Reception>,
    handle: JoinHandle<()>,
}

/// Starts it; it looks at `is_ending` whenever it is woken.
pub(super) fn start(worker: Worker, is_ending: Arc<AtomicBool>) -> io::Result<Thread> {
    let reception = Arc::clone(worker.opened.receiver.reception());
    // The kernel shows 15 characters.
    let name: String = format!("ingest/{}", worker.opened.intake.port).chars().take(15).collect();
    let pacer = (worker.opened.pace == Pace::Subscribers).then(Pacer::default);
    let work = Work { worker, pacer, is_ending };
    let handle = std::thread::Builder::new().name(name).spawn(move || work.work())?;
    Ok(Thread { reception, handle })
}

impl Thread {
    pub(super) fn wake(&self) {
        self.reception.wake();
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
        let mut next = clock::now::<Monotonic>();
        while !self.is_ending.load(Ordering::Relaxed) {
            if is_flowing && coalesce > Nanos::ZERO {
                next = (next + coalesce).max(clock::now());
                self.sleep_until(next);
            }
            let until = match is_flowing && coalesce > Nanos::ZERO {
                true => Until::Now,
                false => Until::Instant(clock::now::<Monotonic>() + PORT_CHECK_INTERVAL),
            };
            match self.worker.take(until, &mut batch) {
                Ok(Taken::Ended) => {
                    self.publish(&mut batch);
                    self.worker.set_ended();
                    self.rest();
                    return;
                }
                Ok(_) => {
                    if !is_flowing {
                        next = clock::now();
                    }
                    is_flowing = !batch.is_empty();
                    self.publish(&mut batch);
                }
                Err(_) => {
                    self.publish(&mut batch);
                    is_flowing = false;
                    self.mend();
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
    fn mend(&mut self) {
        self.sleep_until(clock::now::<Monotonic>() + RETRY);
        if !self.is_ending.load(Ordering::Relaxed) {
            self.worker.opened.receiver.reopen();
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

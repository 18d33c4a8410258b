//! A thread for a port without a descriptor.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use candor_linux::clock;
use candor_port::{Error, Estate, Until, Waker};
use candor_time::{Monotonic, Nanos};

use super::{ATTENTION, MOST_FRAMES, RETRY, Taken, Worker, receiver};

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
    let work = Work { worker, is_ending, waker: Arc::clone(&waker) };
    let handle = std::thread::Builder::new().name(name).spawn(move || work.work())?;
    Ok(Thread { waker, handle })
}

impl Thread {
    pub(super) fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    pub(super) fn join(self) {
        // One that panicked has said so.
        let _ = self.handle.join();
    }
}

struct Work {
    worker: Worker,
    is_ending: Arc<AtomicBool>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Work {
    fn work(mut self) {
        let mut batch = Vec::with_capacity(MOST_FRAMES);
        let coalesce = self.worker.coalesce;
        // Whether the last look found something: then more is likely to come, and is gathered.
        let mut is_flowing = false;
        // Until something is received again, or nothing without an error.
        let mut is_troubled = false;
        let mut next = clock::now::<Monotonic>();
        while !self.is_ending.load(Ordering::Relaxed) {
            if is_flowing && coalesce > Nanos::ZERO {
                next = (next + coalesce).max(clock::now());
                let _ = clock::sleep_until(next);
            }
            let until = match is_flowing && coalesce > Nanos::ZERO {
                true => Until::Now,
                false => Until::Instant(clock::now::<Monotonic>() + ATTENTION),
            };
            match self.worker.take(until, &mut batch) {
                Ok(Taken::Ended) => {
                    self.worker.publish(&mut batch);
                    self.worker.set_trouble(Some("no more frames come".to_owned()));
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
                    self.worker.publish(&mut batch);
                }
                Err(error) => {
                    self.worker.publish(&mut batch);
                    (is_flowing, is_troubled) = (false, true);
                    self.mend(&error);
                }
            }
        }
    }

    /// After an error: waits, and opens the port again if that helps.
    fn mend(&mut self, error: &Error) {
        self.worker.set_trouble(Some(error.to_string()));
        let _ = clock::sleep_until(clock::now::<Monotonic>() + RETRY);
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
            let _ = clock::sleep_until(clock::now::<Monotonic>() + RETRY);
        }
    }
}

//! A task for a port with a descriptor.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use candor_drivers::lasting;
use candor_linux::clock;
use candor_linux::timer::Timer;
use candor_port::Until;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::{MOST_FRAMES, PORT_CHECK_INTERVAL, RETRY, Taken, Worker};

/// A task that takes frames from a port.
pub(super) struct IngestTask {
    worker: Worker,
    batch: Vec<(u64, Frame)>,
}

enum Next {
    /// More frames are likely to come soon.
    Flow,
    /// To wait for frames.
    Wait,
    /// The port is to be mended.
    Mend,
    /// Nothing comes any more.
    End,
}

const fn duration(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos.as_nanos())
}

fn other(error: candor_linux::Error) -> io::Error {
    io::Error::other(error.to_string())
}

/// Lets the reactor look whether there is something to be read.
#[expect(
    deprecated,
    reason = "what replaces it is unsafe, for types that give another descriptor each time; these own theirs"
)]
fn watched<T: AsRawFd>(descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

impl IngestTask {
    pub(super) fn new(worker: Worker) -> Self {
        Self { worker, batch: Vec::with_capacity(MOST_FRAMES) }
    }

    /// Publishes frames until no more come.
    pub(super) async fn work(mut self) {
        loop {
            let next = match self.follow().await {
                Ok(next) => next,
                Err(error) => {
                    self.worker.opened.receiver.fail(error.to_string());
                    Next::Mend
                }
            };
            match next {
                Next::End => return self.worker.set_ended(),
                _ => self.mend().await,
            }
        }
    }

    /// Publishes frames until the port ends or makes an error.
    async fn follow(&mut self) -> io::Result<Next> {
        let descriptor = self.worker.opened.receiver.present().descriptor();
        let Some(descriptor) = descriptor else { return Ok(Next::Mend) };
        let descriptor = descriptor.try_clone_to_owned()?;
        if self.worker.coalesce == Nanos::ZERO {
            return self.follow_at_once(descriptor).await;
        }
        let timer = Timer::new().map_err(other)?;
        let timer = watched(timer)?;
        let mut descriptor = Some(descriptor);
        loop {
            // Only here does the reactor look at the port; when it begins, it sees what has come before.
            if !self.worker.opened.receiver.present().has_more()
                && let Some(waiting) = descriptor.take()
            {
                let waiting = watched(waiting)?;
                // After a while without frames, the port looks whether it works.
                let _ = timeout(duration(PORT_CHECK_INTERVAL), waiting.readable()).await;
                descriptor = Some(waiting.into_inner());
            }
            match self.take() {
                Next::Flow => {}
                Next::Wait => continue,
                next => return Ok(next),
            }
            let next = self.flow(&timer).await?;
            if !matches!(next, Next::Wait) {
                return Ok(next);
            }
        }
    }

    /// Takes frames once a tick, until there are none.
    async fn flow(&mut self, timer: &AsyncFd<Timer>) -> io::Result<Next> {
        let tick = self.worker.coalesce;
        // All ports have the same ticks.
        let now = clock::now::<Monotonic>().as_nanos();
        let first = (now / tick.as_nanos() + 1) * tick.as_nanos();
        timer.get_ref().ring(Instant::from_nanos(first), tick).map_err(other)?;
        let outcome = loop {
            let mut rung = timer.readable().await?;
            timer.get_ref().take();
            rung.clear_ready();
            match self.take() {
                Next::Flow => {}
                next => break next,
            }
        };
        timer.get_ref().stop().map_err(other)?;
        Ok(outcome)
    }

    /// Takes frames as soon as they are there.
    async fn follow_at_once(&mut self, descriptor: OwnedFd) -> io::Result<Next> {
        let descriptor = watched(descriptor)?;
        loop {
            let ready = timeout(duration(PORT_CHECK_INTERVAL), descriptor.readable()).await;
            loop {
                match self.take() {
                    // Others have their turn, too.
                    Next::Flow => tokio::task::yield_now().await,
                    Next::Wait => break,
                    next => return Ok(next),
                }
            }
            // Nothing was there: what comes from now on, the kernel tells.
            if let Ok(ready) = ready {
                ready?.clear_ready();
            }
        }
    }

    /// Takes and publishes what has come.
    fn take(&mut self) -> Next {
        let taken = self.worker.take(Until::Now, &mut self.batch);
        let is_empty = self.batch.is_empty();
        self.worker.publish(&mut self.batch);
        match taken {
            Ok(Taken::Ended) => Next::End,
            Ok(taken) => {
                let is_over = match self.worker.coalesce {
                    Nanos::ZERO => taken == Taken::All,
                    _ => is_empty,
                };
                if is_over { Next::Wait } else { Next::Flow }
            }
            Err(_) => Next::Mend,
        }
    }

    /// After an error: waits, and opens the port again.
    async fn mend(&mut self) {
        sleep(duration(RETRY)).await;
        let Some(reopen) = self.worker.opened.receiver.opening() else { return };
        // A name may have to be looked up, and answers to clients do not wait for that: it has a thread of its own.
        let (done, opened) = oneshot::channel();
        let open = move || drop(done.send(lasting::open_again(&reopen)));
        if thread::Builder::new().name("candor-port".to_owned()).spawn(open).is_err() {
            return;
        }
        if let Ok(Ok(Some(opened))) = opened.await {
            self.worker.opened.receiver.replace(opened);
        }
    }
}

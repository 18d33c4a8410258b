//! [`Reactor`]: a thread with an event loop.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{self, AbortHandle};

/// A thread that runs a future and the tasks that this starts. Dropping it ends all of them, and with them their
/// connections.
#[derive(Debug)]
pub struct Reactor {
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    handle: Handle,
}

impl Reactor {
    /// Starts a thread of this name. It has the priority and the processors of the thread that calls this.
    ///
    /// # Errors
    /// There can be no thread, or too many files are open.
    pub fn start(name: &str, serve: impl Future<Output = ()> + Send + 'static) -> io::Result<Self> {
        Self::start_with(name, 1, serve)
    }

    /// The same with so many threads for what may take its time, instead of one.
    ///
    /// # Errors
    /// As [`Reactor::start`].
    pub fn start_with(
        name: &str,
        threads: usize,
        serve: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(threads)
            .thread_keep_alive(FOR_EVER)
            .thread_name(name)
            .build()?;
        let handle = runtime.handle().clone();
        begin(&handle, threads)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
            // Who ends this may hold the lock that something which takes its time waits for.
            runtime.shutdown_background();
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), handle })
    }

    /// Does something else on its thread, until that is over, somebody ends it or the thread ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.handle.spawn(task).abort_handle()
    }

    /// By which tasks are started on its thread, from anywhere.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until its future is over, and ends the tasks that this started.
    pub fn join(mut self) {
        self.wait();
    }

    fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Threads beside the event loop stay until the end.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// How long the start of a thread may take.
const STARTING: Duration = Duration::from_secs(5);

/// Starts all threads beside the event loop. Later there may be no memory for one, and what waits for it would stay in the
/// queue of the runtime, with all that it holds.
fn begin(handle: &Handle, threads: usize) -> io::Result<()> {
    let none =
        || io::Error::other("the limits of the process (`ulimit -v`, `-u`) have no room for it");
    let gate = Arc::new(Mutex::new(()));
    // One that has nothing to do would take the next one's turn.
    let closed = gate.lock();
    let (begun, heard) = mpsc::channel();
    for _ in 0..threads {
        let (gate, begun) = (Arc::clone(&gate), begun.clone());
        let wait = move || {
            let _ = begun.send(());
            drop(gate.lock());
        };
        catch_unwind(AssertUnwindSafe(|| handle.spawn_blocking(wait))).map_err(|_| none())?;
        heard.recv_timeout(STARTING).map_err(|_| none())?;
    }
    drop(closed);
    Ok(())
}

/// Runs both, until both are over.
pub async fn both(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::join!(one, other);
}

/// Does what may take its time in a thread beside the event loop, and waits for it. `None` if it panics, or while the loop ends.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    begin_beside(work)?.await.ok()
}

/// Begins it. `None` if there is no thread for it: where memory or threads are
/// limited, tokio panics then, which would end the task that asks for it.
pub(crate) fn begin_beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<task::JoinHandle<T>> {
    catch_unwind(AssertUnwindSafe(|| task::spawn_blocking(work))).ok()
}

impl Drop for Reactor {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.wait();
    }
}

//! [`Local`]: a subscriber in this process.

use std::future::poll_fn;
use std::sync::Arc;

use candor_events::{Batch, Counts, Filter, Format, Pattern, Subscriber, TopicId};
use tokio::sync::watch;

use crate::Shared;
use crate::framing::framing;

/// Events that are taken at once: while they are, the lock of the hub is held.
const MOST_EVENTS: usize = 1_024;

/// A subscriber in this process. The one of a service that has ended gets what is left.
pub struct Local {
    shared: Arc<Shared>,
    subscriber: Subscriber,
    stopped: watch::Receiver<bool>,
    /// Waits without a reactor.
    runtime: tokio::runtime::Runtime,
    names: Vec<String>,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("subscriber", &self.subscriber).finish_non_exhaustive()
    }
}

impl Local {
    pub(crate) fn new(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let stopped = shared.stop.subscribe();
        let mut hub = shared.hub();
        hub.open(Format::Plain, framing(Format::Plain));
        let subscriber = Subscriber::new(&hub, Format::Plain);
        drop(hub);
        Ok(Self { shared: Arc::clone(shared), subscriber, stopped, runtime, names: Vec::new() })
    }

    /// Subscribes to the topics of a pattern, also to those that come up later; with `is_latest` only to the newest event
    /// of each. The number of topics that there are now.
    pub fn subscribe(&mut self, pattern: Pattern, filter: Filter, is_latest: bool) -> usize {
        self.subscriber.subscribe(&mut self.shared.hub(), pattern, filter, is_latest)
    }

    /// Puts the next events into `batch`, in the place of what was there. Waits until there are some; false when the
    /// service has ended and all of them are taken.
    pub fn next_batch(&mut self, batch: &mut Batch) -> bool {
        loop {
            // Marked as seen before it is looked: what comes in between ends the next wait.
            let is_over = *self.stopped.borrow_and_update();
            let hub = self.shared.hub();
            self.subscriber.gather(&hub, MOST_EVENTS, batch);
            for topic in hub.topics().get(self.names.len()..).unwrap_or_default() {
                self.names.push(topic.name.clone());
            }
            drop(hub);
            if !batch.is_empty() || batch.missed > 0 {
                return true;
            }
            if is_over {
                return false;
            }
            let (subscriber, stopped) = (&self.subscriber, &mut self.stopped);
            self.runtime.block_on(async {
                // An error says that the service has ended.
                tokio::select! {
                    () = poll_fn(|context| subscriber.poll_due(context)) => {}
                    _ = stopped.changed() => {}
                }
            });
        }
    }

    /// What a topic of a batch is called; empty if it is of none.
    #[must_use]
    pub fn name(&self, topic: TopicId) -> &str {
        self.names.get(topic.0 as usize).map_or("", String::as_str)
    }

    /// What became of the events so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.subscriber.counts()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.subscriber.leave(&mut self.shared.hub());
    }
}

//! [`Local`]: a subscriber in this process.

use std::sync::Arc;

use candor_events::{
    Batch, Counts, Filter, Format, Hub, Pattern, Selection, Steps, Subscribing, TopicId,
};
use tokio::sync::watch;

use crate::Shared;
use crate::session::Session;

/// Events that are taken at once: while they are, the lock of the hub is held.
const MOST_EVENTS: usize = 1_024;

/// A subscriber in this process. The one of a service that has ended gets what is left.
pub struct Local {
    session: Session,
    stopped: watch::Receiver<bool>,
    /// Waits without a reactor.
    runtime: tokio::runtime::Runtime,
    /// By topic, its number and its name.
    names: Vec<(u32, Arc<str>)>,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Local {
    pub(crate) fn new(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let stopped = shared.stop.subscribe();
        let session = Session::enter(shared, Format::Plain.name());
        {
            let mut hub = shared.hub();
            session.subscriptions().of(Format::Plain, &mut hub);
        }
        Ok(Self { session, stopped, runtime, names: Vec::new() })
    }

    /// Subscribes to the topics of a pattern, also to those that come up later; with `is_latest` only to the newest event
    /// of each. The number of topics that there are now.
    pub fn subscribe(&mut self, pattern: Pattern, filter: Filter, is_latest: bool) -> usize {
        let Self { session, runtime, .. } = self;
        let shared = session.shared();
        let mut selection = Selection::new(&[pattern]);
        let selected = |hub: &mut Hub, steps: &mut Steps| selection.go_on(hub, steps).then_some(());
        runtime.block_on(shared.in_slices(selected));
        let mut subscribing = Subscribing::new(selection, filter, is_latest);
        let go_on = |hub: &mut Hub, steps: &mut Steps| {
            let mut subscriptions = session.subscriptions();
            let is_over = subscribing.go_on(subscriptions.of(Format::Plain, hub), hub, steps);
            session.note_change(&subscriptions, hub);
            is_over.then_some(())
        };
        runtime.block_on(shared.in_slices(go_on));
        subscribing.topics()
    }

    /// Puts the next events into `batch`, in the place of what was there. Waits until there are some; false when the
    /// service has ended and all of them are taken.
    pub fn next_batch(&mut self, batch: &mut Batch) -> bool {
        loop {
            // Marked as seen before it is looked: what comes in between ends the next wait.
            let is_over = *self.stopped.borrow_and_update();
            let hub = self.session.shared().hub();
            let mut subscriptions = self.session.subscriptions();
            for subscriber in subscriptions.all() {
                subscriber.gather(&hub, MOST_EVENTS, batch);
            }
            self.session.note(&subscriptions, &hub);
            drop(subscriptions);
            for topic in hub.topics().get(self.names.len()..).unwrap_or_default() {
                self.names.push((topic.number, Arc::clone(&topic.name)));
            }
            // Others may have taken over the places of topics.
            for event in batch.events() {
                if let Some(named) = self.names.get_mut(event.topic.0 as usize)
                    && named.0 != event.number
                    && let Some(topic) = hub.topic(event.topic)
                {
                    *named = (topic.number, Arc::clone(&topic.name));
                }
            }
            drop(hub);
            if !batch.is_empty() || batch.missed > 0 {
                return true;
            }
            if is_over {
                return false;
            }
            let (session, stopped) = (&self.session, &mut self.stopped);
            self.runtime.block_on(async {
                // An error says that the service has ended.
                tokio::select! {
                    () = session.due() => {}
                    _ = stopped.changed() => {}
                }
            });
        }
    }

    /// What a topic of a batch is called; empty if it is of none.
    #[must_use]
    pub fn name(&self, topic: TopicId) -> &str {
        self.names.get(topic.0 as usize).map_or("", |(_, name)| &**name)
    }

    /// What became of the events so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut subscriptions = self.session.subscriptions();
        subscriptions.all().next().map(|subscriber| subscriber.counts()).unwrap_or_default()
    }
}

//! [`Session`]: what a connection is subscribed to, and what of that it has got.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use candor_events::{Format, Hub, Pattern, Steps, Subscriber};

use crate::Shared;
use crate::framing::framing;
use crate::stats::SubscriberStats;

/// What a connection is subscribed to.
#[derive(Default)]
pub(crate) struct Subscriptions {
    pub(crate) subscribers: Vec<(Format, Subscriber)>,
}

impl Subscriptions {
    pub(crate) fn of(&mut self, format: Format, hub: &mut Hub) -> &mut Subscriber {
        let place = self.subscribers.iter().position(|(other, _)| *other == format);
        let place = place.unwrap_or_else(|| {
            hub.open(format, framing(format));
            self.subscribers.push((format, Subscriber::new(hub, format)));
            self.subscribers.len() - 1
        });
        &mut self.subscribers[place].1
    }

    /// How many patterns there are when these, which differ, are added in a format. One that is there already only gets another filter.
    pub(crate) fn patterns_with(&self, format: Format, added: &[Pattern]) -> usize {
        let all = self.subscribers.iter();
        let there: usize = all.map(|(_, subscriber)| subscriber.patterns().count()).sum();
        let own = self.subscribers.iter().find(|(other, _)| *other == format);
        there + own.map_or(added.len(), |(_, own)| own.new_among(added))
    }

    /// Whether they want nothing but newest events.
    pub(crate) fn are_latest(&self) -> bool {
        let mut subscribed =
            self.subscribers.iter().filter(|(_, it)| it.is_subscribed()).peekable();
        subscribed.peek().is_some() && subscribed.all(|(_, it)| it.is_latest())
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Subscriber> {
        self.subscribers.iter_mut().map(|(_, subscriber)| subscriber)
    }
}

/// A connection, from its first to its last moment.
pub(crate) struct Session {
    id: u64,
    entry: Arc<Entry>,
    shared: Arc<Shared>,
}

/// What others see of a connection.
pub(crate) struct Entry {
    format: &'static str,
    /// Locked after the hub, and not without it but to wait.
    subscriptions: Mutex<Subscriptions>,
    is_subscribed: AtomicBool,
    /// Topics that it is subscribed to, as of its last change: what its memory depends on.
    topics: AtomicUsize,
    /// Those of subscriptions that are being made.
    coming: AtomicUsize,
    waiting: AtomicU64,
    /// [`Hub::written`] when nothing waited last.
    reached: AtomicU64,
}

impl Entry {
    fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its progress, if it is subscribed: [`Hub::written`] when nothing waited last, and what waits.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let progress = (get(&self.reached), get(&self.waiting));
        self.is_subscribed.load(Ordering::Relaxed).then_some(progress)
    }

    /// What became of its events by now; also of those that it does not come to look at.
    /// `None` if there are topics that it has to look at first.
    pub(crate) fn stats(&self, id: u64, hub: &Hub, steps: &mut Steps) -> Option<SubscriberStats> {
        let mut subscriptions = self.subscriptions();
        if !subscriptions.all().all(|subscriber| subscriber.look(hub, steps)) {
            return None;
        }
        let format = self.format.to_owned();
        let mut stats = SubscriberStats { id, format, ..SubscriberStats::default() };
        for subscriber in subscriptions.all() {
            stats.missed += subscriber.missed(hub);
            stats.topics += subscriber.topics(hub) as u64;
            stats.delivered += subscriber.counts().delivered;
            stats.waiting += subscriber.waiting(hub);
        }
        Some(stats)
    }
}

impl Session {
    /// One whose events have the format of this name.
    pub(crate) fn enter(shared: &Arc<Shared>, format: &'static str) -> Self {
        let sessions = &shared.sessions;
        let id = sessions.last.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Arc::new(Entry {
            format,
            subscriptions: Mutex::default(),
            is_subscribed: AtomicBool::new(false),
            topics: AtomicUsize::new(0),
            coming: AtomicUsize::new(0),
            waiting: AtomicU64::new(0),
            reached: AtomicU64::new(0),
        });
        sessions.open().insert(id, Arc::clone(&entry));
        Self { id, entry, shared: Arc::clone(shared) }
    }

    #[cfg(test)]
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What it is subscribed to. The hub is locked before.
    pub(crate) fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        self.entry.subscriptions()
    }

    /// Notes that it will be subscribed to so many topics more, until what is returned is dropped.
    pub(crate) fn announce(&self, topics: usize) -> Announced {
        self.entry.coming.fetch_add(topics, Ordering::Relaxed);
        Announced { entry: Arc::clone(&self.entry), topics }
    }

    /// Notes that subscriptions have changed.
    pub(crate) fn note_change(&self, subscriptions: &Subscriptions, hub: &Hub) {
        let mut all = subscriptions.subscribers.iter();
        let is_subscribed = all.any(|(_, subscriber)| subscriber.is_subscribed());
        // Nothing before now is of interest to who begins.
        if is_subscribed && !self.entry.is_subscribed.load(Ordering::Relaxed) {
            self.entry.reached.store(hub.written(), Ordering::Relaxed);
        }
        self.entry.is_subscribed.store(is_subscribed, Ordering::Relaxed);
        let topics = subscriptions.subscribers.iter().map(|(_, it)| it.slots()).sum();
        self.entry.topics.store(topics, Ordering::Relaxed);
    }

    /// Notes how far its subscribers have come by now.
    pub(crate) fn note(&self, subscriptions: &Subscriptions, hub: &Hub) {
        let behind = subscriptions.subscribers.iter().map(|(_, subscriber)| subscriber.behind(hub));
        let waiting: u64 = behind.sum();
        self.entry.waiting.store(waiting, Ordering::Relaxed);
        if waiting == 0 {
            self.entry.reached.store(hub.written(), Ordering::Relaxed);
        }
        let sessions = &self.shared.sessions;
        if sessions.waiting.load(Ordering::SeqCst) > 0 {
            // Who looks at the progress now begins to wait before it is told.
            drop(sessions.open());
            sessions.progress.notify_all();
        }
    }

    /// Waits until there are events for one of its subscribers.
    pub(crate) async fn due(&self) {
        let poll = |context: &mut Context<'_>| {
            let subscriptions = self.subscriptions();
            let polls = subscriptions.subscribers.iter().map(|(_, it)| it.poll_due(context));
            // All of them: each notes whom to wake.
            if polls.filter(Poll::is_ready).count() > 0 { Poll::Ready(()) } else { Poll::Pending }
        };
        poll_fn(poll).await;
    }
}

/// Topics of a subscription that is being made. From call to end others are served in between, and they count it.
pub(crate) struct Announced {
    entry: Arc<Entry>,
    topics: usize,
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.entry.coming.fetch_sub(self.topics, Ordering::Relaxed);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.sessions.open().remove(&self.id);
        let (shared, entry) = (Arc::clone(&self.shared), Arc::clone(&self.entry));
        let mut subscribers = std::mem::take(&mut *entry.subscriptions()).subscribers;
        let mut leaving: Vec<_> = subscribers.iter().map(|(_, it)| it.leaving()).collect();
        let leave = async move {
            let go_on = |hub: &mut Hub, steps: &mut Steps| {
                let all = subscribers.iter_mut().zip(&mut leaving);
                let mut all = all.map(|((_, it), leaving)| leaving.go_on(it, hub, steps));
                all.all(|is_over| is_over).then_some(())
            };
            // Many may leave at once, and none of them is in a hurry.
            shared.in_turns(go_on).await;
            shared.in_turn(|| drop((subscribers, leaving))).await;
        };
        match self.shared.reactor.get() {
            Some(reactor) => drop(reactor.spawn(leave)),
            // Nothing is served, so nothing is published.
            None => drop(leave),
        }
    }
}

/// All connections.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, Arc<Entry>>>,
    last: AtomicU64,
    /// How many wait for the progress of subscribers, and what tells them.
    waiting: AtomicU64,
    progress: Condvar,
}

/// The connections, locked.
pub(crate) type Open<'a> = MutexGuard<'a, BTreeMap<u64, Arc<Entry>>>;

impl Sessions {
    /// Whether there are connections of clients; those of message buses are others', and who is in this process looks itself.
    pub(crate) fn has_streams(&self) -> bool {
        self.open().values().any(|entry| !matches!(entry.format, "dbus" | "plain"))
    }

    /// Waits until a connection makes progress, or for so long.
    pub(crate) fn wait<'a>(&'a self, open: Open<'a>, time: Duration) -> Open<'a> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = self.progress.wait_timeout(open, time);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn open(&self) -> Open<'_> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To how many topics all of them are subscribed, or will be.
    pub(crate) fn topics(&self) -> usize {
        let of = |entry: &Entry| {
            entry.topics.load(Ordering::Relaxed) + entry.coming.load(Ordering::Relaxed)
        };
        self.open().values().map(|entry| of(entry)).sum()
    }

    /// Those that are subscribed to something.
    pub(crate) fn subscribed(&self) -> Vec<(u64, Arc<Entry>)> {
        let open = self.open();
        let subscribed = open.iter().filter(|(_, it)| it.is_subscribed.load(Ordering::Relaxed));
        subscribed.map(|(id, entry)| (*id, Arc::clone(entry))).collect()
    }
}

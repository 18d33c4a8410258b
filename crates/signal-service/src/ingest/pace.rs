//! A recording that waits for its subscribers: none misses an event, and no processor waits for a clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use candor_events::Hub;
use candor_linux::clock;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

use super::Intake;
use crate::Shared;

/// How far frames are published ahead of the slowest subscriber. Half of the log would be safe; a connection that
/// subscribes may be behind by as much again before its progress is noted.
const LEAD: u64 = Hub::WHOLE / 4;
/// A subscriber that takes nothing for so long holds up the others no more.
const SUBSCRIBER_TIMEOUT: Nanos = Nanos::from_secs(10);
/// How often is looked whether to end, and who is there.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What publishes at the pace of subscribers.
pub(super) struct Pacer {
    /// [`Hub::written`], as it was last seen.
    written: u64,
    /// By connection.
    seen: BTreeMap<u64, Seen>,
    /// How long a subscriber may take nothing.
    timeout: Nanos,
}

/// What was seen of a connection.
struct Seen {
    progress: (u64, u64),
    since: Instant<Monotonic>,
    /// It was said that it holds up nobody any more.
    is_told: bool,
}

impl Default for Pacer {
    fn default() -> Self {
        Self { written: 0, seen: BTreeMap::new(), timeout: SUBSCRIBER_TIMEOUT }
    }
}

impl Pacer {
    /// Publishes all frames, in as many parts as it takes, or gives up when it is to end.
    pub(super) fn publish(
        &mut self,
        shared: &Shared,
        intake: &Intake,
        batch: &mut Vec<(u64, Frame)>,
        is_ending: &AtomicBool,
    ) {
        let mut frames = batch.drain(..).peekable();
        while frames.peek().is_some() {
            let Some(reached) = self.wait(shared, intake, is_ending) else { return };
            let mut hub = shared.hub();
            // Changed with the hub locked.
            let bus = intake.bus();
            // Other recordings may have used up the lead.
            while hub.written().saturating_sub(reached) < LEAD
                && let Some((time_ns, frame)) = frames.next()
            {
                hub.publish(bus, time_ns, &frame);
            }
            self.written = hub.written();
            // Also those who have nothing in it: their progress counts.
            hub.ring_all();
            drop(hub);
            intake.batches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the slowest subscriber is near enough, and there is one. How far it has come; `None` if it is time to end.
    fn wait(&mut self, shared: &Shared, intake: &Intake, is_ending: &AtomicBool) -> Option<u64> {
        let sessions = &shared.sessions;
        let mut open = sessions.open();
        while !is_ending.load(Ordering::Relaxed) {
            let now = clock::now::<Monotonic>();
            self.seen.retain(|id, _| open.contains_key(id));
            let mut slowest = None::<u64>;
            for (&id, entry) in &*open {
                let Some(progress) = entry.progress() else { continue };
                let new = Seen { progress, since: now, is_told: false };
                let seen = self.seen.entry(id).or_insert(new);
                let is_done = self.written.saturating_sub(progress.0) < LEAD;
                if seen.progress != progress || is_done {
                    (seen.progress, seen.since) = (progress, now);
                }
                // Unless nobody takes anything.
                if now.since(seen.since) < self.timeout {
                    slowest = Some(slowest.map_or(progress.0, |least| least.min(progress.0)));
                } else if !std::mem::replace(&mut seen.is_told, true) {
                    intake.note(format!(
                        "subscriber {id} has taken nothing for {}; it holds up the others no more, and may miss events",
                        self.timeout
                    ));
                }
            }
            if let Some(reached) = slowest
                && self.written.saturating_sub(reached) < LEAD
            {
                return Some(reached);
            }
            open = sessions.wait(open, STOP_CHECK_INTERVAL);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use candor_events::{Bus, Filter, Format, Pattern};

    use super::*;
    use crate::session::Session;

    #[test]
    fn who_takes_nothing_is_told_of_once() {
        let hub = Hub::new(vec![Bus { name: "car".into(), database: None }]);
        let shared = Arc::new(Shared::new(hub));
        let session = Session::enter(&shared, "json");
        let id = session.id();
        {
            let mut hub = shared.hub();
            let mut subscriptions = session.subscriptions();
            let subscriber = subscriptions.of(Format::Plain, &mut hub);
            subscriber.subscribe(&mut hub, Pattern::Raw, Filter::default(), false);
            session.note_change(&subscriptions, &hub);
        }
        let frame: Frame = "123#0102030405060708".parse().unwrap();
        let mut batch = vec![(1_000_000_000, frame); 1 << 16];
        let (intake, is_ending) = (Intake::default(), AtomicBool::new(false));
        let mut pacer = Pacer { timeout: Nanos::from_millis(1), ..Pacer::default() };
        let mut notes = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| pacer.publish(&shared, &intake, &mut batch, &is_ending));
            while notes.is_empty() {
                notes.extend(intake.take_notes());
                std::thread::yield_now();
            }
            is_ending.store(true, Ordering::Relaxed);
        });
        notes.extend(intake.take_notes());
        assert_eq!(
            notes,
            [format!(
                "subscriber {id} has taken nothing for 1ms; it holds up the others no more, and may miss events"
            )]
        );
    }
}

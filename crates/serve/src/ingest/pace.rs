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
const PATIENCE: Nanos = Nanos::from_secs(10);
/// How often is looked whether to end, and who is there.
const ATTENTION: Duration = Duration::from_millis(100);

/// What publishes at the pace of subscribers.
#[derive(Default)]
pub(super) struct Pacer {
    /// [`Hub::written`], as it was last seen.
    written: u64,
    /// By connection, its progress, and since when it is that.
    seen: BTreeMap<u64, ((u64, u64), Instant<Monotonic>)>,
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
            let Some(reached) = self.wait(shared, is_ending) else { return };
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
    fn wait(&mut self, shared: &Shared, is_ending: &AtomicBool) -> Option<u64> {
        let sessions = &shared.sessions;
        let mut open = sessions.open();
        while !is_ending.load(Ordering::Relaxed) {
            let now = clock::now::<Monotonic>();
            self.seen.retain(|id, _| open.contains_key(id));
            let mut slowest = None::<u64>;
            for (&id, counters) in &*open {
                let Some(progress) = counters.progress() else { continue };
                let seen = self.seen.entry(id).or_insert((progress, now));
                let is_done = self.written.saturating_sub(progress.0) < LEAD;
                if seen.0 != progress || is_done {
                    *seen = (progress, now);
                }
                // Unless nobody takes anything.
                if now.since(seen.1) < PATIENCE {
                    slowest = Some(slowest.map_or(progress.0, |least| least.min(progress.0)));
                }
            }
            if let Some(reached) = slowest
                && self.written.saturating_sub(reached) < LEAD
            {
                return Some(reached);
            }
            open = sessions.wait(open, ATTENTION);
        }
        None
    }
}

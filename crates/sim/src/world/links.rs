//! Links in a world: what is sent on them, and what became of it.

use candor_causes::Cause;

use super::World;
use super::event::Part;
use crate::eth::{LinkConfig, LinkId, LinkStatistics, Offer};
use crate::host::Gateway;
use crate::medium::{ControllerId, FrameId, Medium, Outcome};
use crate::record::{Fate, LinkRecord, Observer};
use crate::sender::{LinkRelease, Source};
use crate::slab::Slab;

/// Where the frames of an end come from.
type Releases = Box<dyn Iterator<Item = LinkRelease> + Send>;

/// What sends at an end of a link.
struct LinkSender {
    end: ControllerId,
    releases: Releases,
    next: Option<LinkRelease>,
    released: u64,
}

/// Senders at links, and their frames that have not ended.
#[derive(Default)]
pub(super) struct Links {
    senders: Vec<LinkSender>,
    frames: Slab<LinkRecord>,
}

impl Links {
    /// Whether all has been released and has ended. Until then something moves by itself: what is on a
    /// link arrives.
    pub(super) fn is_over(&self) -> bool {
        self.frames.len() == 0 && self.senders.iter().all(|sender| sender.next.is_none())
    }
}

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    /// Adds a link.
    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        self.media.eth.add_link(config)
    }

    /// Adds a sender at an end of a link: it releases each frame at its time, and none before the one
    /// before it.
    pub fn add_link_sender(
        &mut self,
        end: ControllerId,
        releases: impl Iterator<Item = LinkRelease> + Send + 'static,
    ) {
        let releases = Box::new(releases);
        self.links.senders.push(LinkSender { end, releases, next: None, released: 0 });
    }

    /// What happened on a link from the end `from` to the other, up to [`World::now`].
    #[must_use]
    pub fn link_statistics(&self, from: ControllerId) -> LinkStatistics {
        self.media.eth.statistics(from, self.core.now())
    }

    /// Plans the first frames of all senders.
    pub(super) fn plan_links(&mut self) {
        for sender in 0..self.links.senders.len() as u32 {
            self.plan_link_release(sender);
        }
    }

    fn plan_link_release(&mut self, sender: u32) {
        let state = &mut self.links.senders[sender as usize];
        state.next = state.releases.next();
        if let Some(next) = state.next {
            self.core.plan(next.at.max(self.core.now()), Part::LinkRelease(sender));
        }
    }

    /// A sender releases its next frame.
    pub(super) fn release_on_link(&mut self, sender: u32, observer: &mut impl Observer) {
        let now = self.core.now();
        let state = &mut self.links.senders[sender as usize];
        let Some(LinkRelease { len, priority, .. }) = state.next.take() else { return };
        let (from, number) = (state.end, state.released);
        state.released += 1;
        self.moved_at = now;
        let (started, sent, fate) = (None, None, Fate::Delivered);
        let id = self.links.frames.insert(LinkRecord {
            from,
            number,
            released: now,
            started,
            sent,
            ended: now,
            fate,
        });
        let offer = Offer { id: FrameId(id), len, priority };
        match self.media.eth.offer(&mut self.core, from, offer) {
            Ok(()) => {}
            Err(Cause::QueueFull) => {
                self.end_on_link(id, Fate::Refused(Cause::SenderQueueFull), observer);
            }
            Err(cause) => self.end_on_link(id, Fate::Refused(cause), observer),
        }
        self.plan_link_release(sender);
    }

    /// What follows from one event of the links.
    pub(super) fn follow_links(&mut self, observer: &mut impl Observer) {
        let now = self.core.now();
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Started { frame, .. } => self.links.frames[frame.0].started = Some(now),
                Outcome::Sent { frame, .. } => self.links.frames[frame.0].sent = Some(now),
                Outcome::Received { frame, .. } => {
                    self.end_on_link(frame.0, Fate::Delivered, observer);
                }
                Outcome::Refused { frame, cause, .. } => {
                    self.end_on_link(frame.0, Fate::Refused(cause), observer);
                }
                // Links destroy no frame, and their ends are never off.
                Outcome::Failed { .. } | Outcome::Missed { .. } => {}
            }
        }
        self.outcomes = outcomes;
    }

    fn end_on_link(&mut self, id: u32, fate: Fate, observer: &mut impl Observer) {
        self.moved_at = self.core.now();
        self.record_on_link(id, fate, observer);
    }

    fn record_on_link(&mut self, id: u32, fate: Fate, observer: &mut impl Observer) {
        let record = LinkRecord { fate, ended: self.core.now(), ..self.links.frames[id] };
        self.links.frames.remove(id);
        observer.record_on_link(&record);
    }

    /// Ends what is still on its way on links.
    pub(super) fn give_up_links(&mut self, observer: &mut impl Observer) {
        let mut all: Vec<_> = self.links.frames.ids().collect();
        all.sort_by_key(|&id| {
            let frame = &self.links.frames[id];
            (frame.released, frame.from, frame.number)
        });
        for id in all {
            self.record_on_link(id, Fate::Refused(Cause::Unfinished), observer);
        }
    }
}

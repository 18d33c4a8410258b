//! One way of a link: the queues in front of it, and what is on it.

use std::collections::VecDeque;

use candor_causes::Cause;
use candor_queue::{Bands, Policy};
use candor_time::Nanos;
use candor_wire::eth::{GAP_LEN, wire_len};

use super::{LinkConfig, LinkStatistics, Offer, PRIORITIES};
use crate::event::Time;
use crate::medium::FrameId;

/// Of priorities the greatest comes first, of bands the smallest.
fn band(priority: u8) -> usize {
    PRIORITIES.wrapping_sub(1 + usize::from(priority))
}

/// One way of a link.
pub(super) struct Direction {
    config: LinkConfig,
    waiting: Bands<Offer>,
    /// What is being sent.
    sending: Option<FrameId>,
    /// What has been sent and has not arrived, the oldest first.
    under_way: VecDeque<FrameId>,
    /// Since when frames have followed one another without a pause, and how many byte times they took
    /// since then, with their gaps. Times are rounded up from there, so that no error adds up.
    busy_since: Time,
    busy_bytes: usize,
    /// Whether a choice is planned.
    is_called: bool,
    statistics: LinkStatistics,
}

impl Direction {
    pub(super) fn new(config: LinkConfig) -> Self {
        Self {
            config,
            waiting: Bands::new(PRIORITIES, config.depth, Policy::RefuseNewest),
            sending: None,
            under_way: VecDeque::new(),
            busy_since: Time::ZERO,
            busy_bytes: 0,
            is_called: false,
            statistics: LinkStatistics::default(),
        }
    }

    pub(super) const fn delay(&self) -> Nanos {
        self.config.delay
    }

    pub(super) fn waiting(&self, priority: u8) -> usize {
        self.waiting.len(band(priority))
    }

    /// What happened up to `now`: of frames and gaps that are not over, only what has passed.
    pub(super) fn statistics_at(&self, now: Time) -> LinkStatistics {
        let busy = self.statistics.busy + now.min(self.free_at()).since(self.busy_since);
        LinkStatistics { busy, ..self.statistics }
    }

    pub(super) fn push(&mut self, offer: Offer) -> Result<(), Cause> {
        self.waiting.push(band(offer.priority), offer).map_err(|_| {
            self.statistics.refused += 1;
            Cause::QueueFull
        })
    }

    /// When the next frame is to be chosen; `None` if none waits, one is being sent, or a choice is
    /// planned.
    pub(super) fn next_choice(&mut self, now: Time) -> Option<Time> {
        if self.waiting.is_empty() || self.sending.is_some() || self.is_called {
            return None;
        }
        self.is_called = true;
        Some(now.max(self.free_at()))
    }

    /// The first frame of the highest priority that waits goes on the link: the frame, and when its
    /// last bit will have left.
    pub(super) fn start(&mut self, now: Time) -> Option<(FrameId, Time)> {
        self.is_called = false;
        let Offer { id, len, .. } = self.waiting.pop()?;
        if now > self.free_at() {
            self.statistics.busy += self.free_at().since(self.busy_since);
            (self.busy_since, self.busy_bytes) = (now, 0);
        }
        self.sending = Some(id);
        self.busy_bytes += wire_len(len);
        Some((id, self.after(self.busy_bytes - GAP_LEN)))
    }

    /// The last bit of a frame has left.
    pub(super) fn end(&mut self) -> Option<FrameId> {
        let frame = self.sending.take()?;
        self.statistics.frames += 1;
        self.under_way.push_back(frame);
        Some(frame)
    }

    /// The last bit of a frame has arrived.
    pub(super) fn arrive(&mut self) -> Option<FrameId> {
        self.under_way.pop_front()
    }

    /// When the gap behind the last frame is over.
    fn free_at(&self) -> Time {
        self.after(self.busy_bytes)
    }

    /// So many byte times after the first of the frames that followed one another.
    fn after(&self, bytes: usize) -> Time {
        self.busy_since + Nanos::from_nanos(self.config.speed.duration_ns(bytes))
    }
}

//! Copies: on their way out, and those that wait for room.

use std::sync::Arc;

use candor_engine::counters::{Counters, Outcome};
use candor_engine::program::JobIndex;
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::plane::user::latency::{Arrival, Latency};

#[derive(Clone, Copy)]
pub(crate) struct OutgoingCopy<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) echo: bool,
    pub(crate) job: JobIndex,
    pub(crate) counters: &'a Counters,
    /// When the frame arrived, if its latency is to be measured.
    pub(crate) arrival: Option<Arrival>,
    pub(crate) latency: Option<&'a Arc<Latency>>,
    /// How long it may wait; zero for ever.
    pub(crate) deadline: Nanos,
}

/// A copy that waits.
pub(super) struct Waiting {
    pub(super) number: u64,
    pub(super) frame: Frame,
    pub(super) echo: bool,
    pub(super) job: JobIndex,
    pub(super) counters: Counters,
    pub(super) arrival: Option<Arrival>,
    pub(super) latency: Option<Arc<Latency>>,
}

impl Waiting {
    pub(super) fn settle(&self, outcome: Outcome) {
        self.counters.settle(self.job, outcome);
        if let (Outcome::Handled, Some(arrival), Some(latency)) =
            (outcome, self.arrival, &self.latency)
        {
            latency.record(arrival);
        }
    }
}

//! What transmitters count, over all that a port has had.

use std::sync::Arc;

use candor_port::TransmitterCounters;

pub(super) struct TransmitterSums {
    pub(super) present: Arc<TransmitterCounters>,
    /// What those before the present one counted.
    pub(super) before: [u64; 4],
}

impl TransmitterSums {
    /// Frames, full, lost, datagrams.
    pub(super) fn sums(&self) -> [u64; 4] {
        let present = &self.present;
        let present = [&present.frames, &present.full, &present.lost, &present.datagrams];
        std::array::from_fn(|index| self.before[index] + present[index].get())
    }

    pub(super) fn adopt(&mut self, counters: Arc<TransmitterCounters>) {
        self.before = self.sums();
        self.present = counters;
    }
}

/// What a port counted on the way out.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputCounts {
    pub(crate) transmitted: u64,
    pub(crate) full: u64,
    pub(crate) lost: u64,
    pub(crate) datagrams: u64,
    pub(crate) queued: u64,
    pub(crate) most_queued: u64,
    pub(crate) depth: u64,
    /// Why frames do not leave, if so.
    pub(crate) trouble: Option<String>,
}

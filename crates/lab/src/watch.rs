//! [`Watch`]: who looks on while an experiment runs.

use candor_time::Nanos;

/// Watches a run from outside.
pub trait Watch: Sync {
    /// How far it is, if that is known: virtual time and frames sent. `false` interrupts the run.
    fn proceed(&self, now: Nanos, sent: u64) -> bool;
    /// Something that people should know.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

/// Runs on and tells nobody.
pub struct Unwatched;
impl Watch for Unwatched {
    fn proceed(&self, _: Nanos, _: u64) -> bool {
        true
    }
}

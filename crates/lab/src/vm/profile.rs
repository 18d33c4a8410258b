//! Where the instructions of an experiment go, by function, per frame.
//!
//! Everything between the first frame and the last one is counted, on the whole machine: the
//! gateway, and the tester too. What the test bed costs without a gateway is the result of an experiment with
//! `gateway.kind = "none"`.

use super::{Machines, guest};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::result::{PROFILE_SCHEMA, ProfileFile};
use crate::runner::Watch;

impl Machines {
    /// Runs `experiment` and counts its instructions. Nothing is taken from the cache.
    ///
    /// # Errors
    /// As a run of it; or no frame arrived.
    pub fn profile(
        &self,
        experiment: &Experiment,
        watch: &dyn Watch,
    ) -> Result<ProfileFile, Error> {
        let (_, vm) = guest(experiment)?;
        let slot = self.slot(&vm.machine)?;
        let order = self.order(experiment)?;
        slot.ready(watch)?;
        let (report, profile) = slot.machine.profile(&order, watch)?;
        if report.received.is_empty() {
            return Err(Error::Other(format!("{}: no frame arrived", experiment.name)));
        }
        Ok(ProfileFile {
            schema: PROFILE_SCHEMA.into(),
            experiment: experiment.name.clone(),
            group: (experiment.group != experiment.name).then(|| experiment.group.clone()),
            candor: env!("CARGO_PKG_VERSION").into(),
            machine: slot.machine.describe(),
            seed: experiment.seed,
            config: experiment.config.clone(),
            frames: report.received.len() as u64,
            profile,
        })
    }
}

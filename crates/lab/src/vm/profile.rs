//! Where the instructions of an experiment go, by function, per frame.
//!
//! Everything between the first frame and the last one is counted, on the whole machine: the
//! gateway, and the tester too. What the test bed costs without a gateway is the result of an experiment with
//! `gateway.kind = "none"`.

use candor_vm::Profile;

use super::{Machines, guest};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::result::{self, FunctionCount, PROFILE_SCHEMA, ProfileFile};
use crate::runner::Watch;

/// What an experiment's instructions were spent on.
#[derive(Clone, Debug)]
pub struct Breakdown {
    /// The experiment.
    pub experiment: String,
    /// Frames that arrived at the receiver.
    pub frames: u64,
    /// The instructions.
    pub profile: Profile,
    /// The machine.
    pub machine: result::Machine,
}

impl Breakdown {
    /// The same as it is kept.
    #[must_use]
    pub fn to_file(&self, experiment: &Experiment) -> ProfileFile {
        let count = |function: &candor_vm::Function| FunctionCount {
            name: function.name.clone(),
            place: function.place.clone(),
            instructions: function.instructions,
        };
        ProfileFile {
            schema: PROFILE_SCHEMA.into(),
            experiment: self.experiment.clone(),
            candor: env!("CARGO_PKG_VERSION").into(),
            machine: self.machine.clone(),
            seed: experiment.seed,
            config: experiment.config.clone(),
            frames: self.frames,
            instructions: self.profile.instructions,
            functions: self.profile.functions.iter().map(count).collect(),
        }
    }

    /// So many instructions, per frame.
    #[must_use]
    pub fn per_frame(&self, instructions: u64) -> f64 {
        instructions as f64 / self.frames.max(1) as f64
    }
}

impl Machines {
    /// Runs `experiment` and counts its instructions. Nothing is taken from the cache.
    ///
    /// # Errors
    /// As a run of it; or no frame arrived.
    pub fn profile(&self, experiment: &Experiment, watch: &dyn Watch) -> Result<Breakdown, Error> {
        let slot = self.slot(&guest(experiment)?.vm().machine)?;
        let order = self.order(experiment)?;
        slot.ready(watch)?;
        let (report, profile) = slot.machine.profile(&order, watch)?;
        if report.received.is_empty() {
            return Err(Error::Other(format!("{}: no frame arrived", experiment.name)));
        }
        let frames = report.received.len() as u64;
        let machine = slot.machine.describe();
        Ok(Breakdown { experiment: experiment.name.clone(), frames, profile, machine })
    }
}

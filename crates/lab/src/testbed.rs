//! Testbeds: the worlds that experiments run in, behind one interface.
//!
//! ```text
//!  Experiment{world} -- Testbeds::of --> simulate::Simulation   `sim`: buses and hosts in virtual time
//!                                  \---> vm::Machines           `vm`: real kernels in QEMU
//! ```
//!
//! A further world is a variant of [`World`] with a file beside `experiment/vm.rs` that reads it, a
//! [`Runner`] in a file of its own, and a line here.

use std::io::Write;

use candor_time::Nanos;

use crate::error::Error;
use crate::experiment::{Experiment, World};
use crate::result::ResultFile;
use crate::simulate::Simulation;
use crate::vm::Machines;

/// Watches a run from outside.
pub trait Watch: Sync {
    /// How far it is, if that is known: virtual time and frames sent. `false` interrupts the run.
    fn proceed(&self, now: Nanos, sent: u64) -> bool;
}

/// Runs on and tells nobody.
pub struct Unwatched;
impl Watch for Unwatched {
    fn proceed(&self, _: Nanos, _: u64) -> bool {
        true
    }
}

/// An experiment to be run.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// Which.
    pub experiment: &'a Experiment,
    /// The command that runs it again, for its result.
    pub command: String,
    /// Run it even if its outcome is known from an earlier run.
    pub is_fresh: bool,
}

/// What came of a task.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The result.
    pub result: ResultFile,
    /// Whether it is known from an earlier run.
    pub is_cached: bool,
}

/// A testbed.
pub trait Runner: Sync {
    /// Sees to it, before anything runs, that whatever these experiments need is there.
    ///
    /// # Errors
    /// It is not.
    fn prepare(&self, experiments: &[&Experiment]) -> Result<(), Error> {
        let _ = experiments;
        Ok(())
    }

    /// Runs one experiment; `frames` takes a line of CSV per frame, if lines are wanted.
    ///
    /// # Errors
    /// It could not be run, or was interrupted.
    fn run(
        &self,
        task: Task<'_>,
        frames: Option<&mut dyn Write>,
        watch: &dyn Watch,
    ) -> Result<Ran, Error>;
}

/// All testbeds there are.
#[derive(Default)]
pub struct Testbeds {
    sim: Simulation,
    /// Absent where nobody wants virtual machines: they need a cache folder and QEMU.
    vm: Option<Machines>,
}

impl Testbeds {
    /// Simulation, and virtual machines if there are some.
    #[must_use]
    pub fn new(vm: Option<Machines>) -> Self {
        Self { sim: Simulation, vm }
    }

    /// The testbed of an experiment.
    ///
    /// # Errors
    /// It is not there.
    pub fn of(&self, experiment: &Experiment) -> Result<&dyn Runner, Error> {
        match (&experiment.world, &self.vm) {
            (World::Sim(_), _) => Ok(&self.sim),
            (World::Vm(_), Some(vm)) => Ok(vm),
            (World::Vm(_), None) => {
                Err(Error::Other(format!("{}: there are no virtual machines", experiment.name)))
            }
        }
    }

    /// Sees to it that whatever these experiments need is there.
    ///
    /// # Errors
    /// It is not.
    pub fn prepare(&self, experiments: &[Experiment]) -> Result<(), Error> {
        let Some(vm) = &self.vm else { return Ok(()) };
        let theirs: Vec<_> = experiments
            .iter()
            .filter(|experiment| matches!(experiment.world, World::Vm(_)))
            .collect();
        vm.prepare(&theirs)
    }
}

//! Testbeds: the worlds that experiments run in, behind one interface.
//!
//! ```text
//!  Experiment{world} -- Testbeds::runner --> simulate::Simulation   `sim`: buses and hosts in virtual time
//!                                  \---> vm::Machines           `vm`: real kernels in QEMU
//! ```
//!
//! A further world is a variant of [`World`] with a file beside `campaign/vm.rs` that reads it, a
//! [`Runner`] in a file of its own, and a line here.

use crate::error::Error;
use crate::experiment::{Experiment, World};
use crate::runner::Runner;
use crate::simulate::Simulation;
use crate::vm::Machines;

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
    pub fn runner(&self, experiment: &Experiment) -> Result<&dyn Runner, Error> {
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

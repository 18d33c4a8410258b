//! Testbeds: the worlds that experiments run in, behind one interface.
//!
//! ```text
//!  Experiment{kind} -- Testbeds::runner -+-> simulate::Simulation   `sim`: Kind::simulate, virtual time
//!                                        |-> vm::Machines           `vm`: Kind::in_guest, real kernels in QEMU
//!                                        \-> host::Host             `host`: Kind::on_host, processes of this machine
//! ```
//!
//! A further testbed is a [`Testbed`], a [`Runner`] in a file of its own, a line here, and what of a
//! [`Kind`](crate::experiment::Kind) it needs.

use crate::error::Error;
use crate::experiment::{Experiment, Testbed};
use crate::host::Host;
use crate::runner::Runner;
use crate::simulate::Simulation;
use crate::vm::Machines;

#[derive(Default)]
pub struct Testbeds {
    sim: Simulation,
    /// Absent where nobody wants virtual machines: they need a cache folder and QEMU.
    vm: Option<Machines>,
    /// Absent where there is no program for its processes.
    host: Option<Host>,
}

impl Testbeds {
    /// Simulation, virtual machines if there are some, and processes of this machine if there are.
    #[must_use]
    pub const fn new(vm: Option<Machines>, host: Option<Host>) -> Self {
        Self { sim: Simulation, vm, host }
    }

    /// The testbed of an experiment.
    ///
    /// # Errors
    /// It is not there.
    pub fn runner(&self, experiment: &Experiment) -> Result<&dyn Runner, Error> {
        let runner: Option<&dyn Runner> = match experiment.testbed() {
            Testbed::Sim => Some(&self.sim),
            Testbed::Vm => self.vm.as_ref().map(|vm| vm as _),
            Testbed::Host => self.host.as_ref().map(|host| host as _),
        };
        runner.ok_or_else(|| {
            let Experiment { name, .. } = experiment;
            Error::Other(format!("{name}: the testbed `{}` is not there", experiment.testbed()))
        })
    }

    /// Sees to it that whatever these experiments need is there.
    ///
    /// # Errors
    /// It is not.
    pub fn prepare(&self, experiments: &[Experiment]) -> Result<(), Error> {
        let Some(vm) = &self.vm else { return Ok(()) };
        let theirs: Vec<_> =
            experiments.iter().filter(|experiment| experiment.testbed() == Testbed::Vm).collect();
        vm.prepare(&theirs)
    }
}

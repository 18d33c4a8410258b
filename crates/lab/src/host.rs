//! The `host` testbed: processes and threads of this machine.
//!
//! One experiment runs at a time, and nothing else of a campaign beside it. Its figures are those of this machine
//! and of this hour: every run is another one, so results name the machine, its clock, and the time that others had
//! taken from it.

use std::path::PathBuf;

use crate::error::Error;
use crate::experiment::{Run, Testbed};
use crate::runner::{Ran, Runner, elsewhere};

/// The testbed `host`.
#[derive(Debug)]
pub struct Host {
    /// The program whose command `lab worker` is [`work`](crate::kinds::work).
    program: PathBuf,
}

impl Host {
    /// Runs experiments with processes of this program, whose command `lab worker` calls
    /// [`work`](crate::kinds::work).
    #[must_use]
    pub const fn new(program: PathBuf) -> Self {
        Self { program }
    }
}

impl Runner for Host {
    fn run(&self, run: Run<'_>, _: bool) -> Result<Ran, Error> {
        let experiment = run.experiment;
        let result = experiment.kind.on_host(run, &self.program);
        let result = result.unwrap_or_else(|| Err(elsewhere(experiment, Testbed::Host)))?;
        Ok(Ran { result, is_cached: false })
    }
}

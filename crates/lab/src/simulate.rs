//! The `sim` testbed: an experiment in virtual time.

use crate::error::Error;
use crate::experiment::{Run, Testbed};
use crate::result::ResultFile;
use crate::runner::{Ran, Runner, elsewhere};
pub use crate::runner::{Unwatched, Watch};

/// The testbed `sim`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulation;

impl Runner for Simulation {
    fn run(&self, run: Run<'_>, _: bool) -> Result<Ran, Error> {
        Ok(Ran { result: self::run(run)?, is_cached: false })
    }
}

/// Runs an experiment in virtual time.
///
/// # Errors
/// It is of another testbed, an input ends in an error, lines cannot be written, or the run was interrupted.
pub fn run(run: Run<'_>) -> Result<ResultFile, Error> {
    let experiment = run.experiment;
    let result = experiment.kind.simulate(run);
    result.unwrap_or_else(|| Err(elsewhere(experiment, Testbed::Sim)))
}

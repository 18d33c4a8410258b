//! What a testbed is: a [`Runner`] of experiments.

use crate::error::Error;
use crate::experiment::{Experiment, Run, Testbed};
use crate::result::ResultFile;

pub use crate::watch::{Unwatched, Watch};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ran {
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

    /// Runs one experiment; a fresh one even if its outcome is known from an earlier run.
    ///
    /// # Errors
    /// It could not be run, or was interrupted.
    fn run(&self, run: Run<'_>, is_fresh: bool) -> Result<Ran, Error>;
}

/// A testbed was given an experiment of another one.
pub(crate) fn elsewhere(experiment: &Experiment, testbed: Testbed) -> Error {
    let (name, own) = (&experiment.name, experiment.testbed());
    Error::Other(format!(
        "{name} runs on the testbed `{own}`, not on `{testbed}`; change its testbed"
    ))
}

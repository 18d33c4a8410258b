//! What a testbed is: a [`Runner`] of experiments.

use std::io::Write;

use crate::error::Error;
use crate::experiment::{Experiment, Testbed};
use crate::result::ResultFile;

pub use crate::watch::{Unwatched, Watch};

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

/// A testbed was given an experiment of another one.
pub(crate) fn elsewhere(experiment: &Experiment, testbed: Testbed) -> Error {
    let (name, own) = (&experiment.name, experiment.testbed());
    Error::Other(format!(
        "{name} runs on the testbed `{own}`, not on `{testbed}`; change its testbed"
    ))
}

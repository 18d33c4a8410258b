//! Campaigns: experiments side by side, their results in one folder.

use std::fs;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use candor_time::Nanos;

use crate::error::Error;
use crate::experiment::Experiment;
use crate::output::{self, Target};
use crate::result::ResultFile;
use crate::simulate::{self, Watch};

/// Hears how a campaign goes on. Called from several threads.
pub trait Progress: Sync {
    /// An experiment is at this virtual time and has sent so many frames. `false` interrupts all.
    fn proceed(&self, experiment: &Experiment, now: Nanos, sent: u64) -> bool;
    /// An experiment has ended.
    fn finished(&self, experiment: &Experiment, result: &Result<ResultFile, Error>);
}

/// Makes the folder for results, and sees at once whether it can be written.
///
/// # Errors
/// It cannot.
pub fn prepare(out: &Path) -> Result<(), Error> {
    let results = results_of(out);
    fs::create_dir_all(&results).map_err(|error| Error::write(&results, error))?;
    // Created beside the name and, being dropped, removed again.
    Target::file(&results.join("probe")).map_err(|error| Error::write(&results, error))?;
    Ok(())
}

/// The folder of the results within `out`.
#[must_use]
pub fn results_of(out: &Path) -> PathBuf {
    out.join("results")
}

/// Runs `experiments`, `jobs` at a time, and writes each result into `out` as soon as it is there.
/// Returns the results in the order of the experiments; of an interrupted campaign, those that
/// were finished.
///
/// # Errors
/// The first error of an experiment, in their order. Results that were finished are kept.
pub fn run(
    experiments: &[Experiment],
    command: &(dyn Fn(&Experiment) -> String + Sync),
    out: &Path,
    jobs: usize,
    progress: &dyn Progress,
) -> Result<Vec<ResultFile>, Error> {
    prepare(out)?;
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<ResultFile, Error>>>> =
        experiments.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, experiments.len().max(1)) {
            scope.spawn(|| {
                let take_next = || {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    experiments.get(index).zip(results.get(index))
                };
                while let Some((experiment, slot)) = take_next() {
                    let result = run_one(experiment, command(experiment), out, progress);
                    progress.finished(experiment, &result);
                    let ends = result.is_err();
                    if let Ok(mut slot) = slot.lock() {
                        *slot = Some(result);
                    }
                    if ends {
                        next.store(experiments.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut finished = Vec::new();
    let mut interrupted = false;
    for result in results {
        match result.into_inner().ok().flatten() {
            Some(Ok(result)) => finished.push(result),
            Some(Err(Error::Interrupted)) => interrupted = true,
            Some(Err(error)) => return Err(error),
            None => {}
        }
    }
    debug_assert!(interrupted || finished.len() == experiments.len());
    Ok(finished)
}

/// Passes the progress of one experiment on.
struct Watching<'a> {
    experiment: &'a Experiment,
    progress: &'a dyn Progress,
}

impl Watch for Watching<'_> {
    fn proceed(&self, now: Nanos, sent: u64) -> bool {
        self.progress.proceed(self.experiment, now, sent)
    }
}

fn run_one(
    experiment: &Experiment,
    command: String,
    out: &Path,
    progress: &dyn Progress,
) -> Result<ResultFile, Error> {
    let watch = Watching { experiment, progress };
    let folder = results_of(out);
    let csv = folder.join(format!("{}.csv", experiment.name));
    let json = folder.join(format!("{}.json", experiment.name));
    let csv_error = |error| Error::write(&csv, error);
    let frames =
        if experiment.per_frame { Some(Target::file(&csv).map_err(csv_error)?) } else { None };
    let mut frames = frames.map(|target| BufWriter::with_capacity(1 << 16, target));
    let lines = frames.as_mut().map(|frames| frames as &mut dyn Write);
    let result = simulate::run(experiment, command, lines, &watch)?;
    match frames {
        Some(frames) => {
            let target = frames.into_inner().map_err(|error| csv_error(error.into_error()))?;
            target.finish().map_err(csv_error)?;
        }
        // A table of an earlier run would not belong to this result.
        None => remove(&csv).map_err(csv_error)?,
    }
    let text = result.to_json();
    output::replace(&json, text.as_bytes()).map_err(|error| Error::write(&json, error))?;
    Ok(result)
}

/// Removes a file that may be there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

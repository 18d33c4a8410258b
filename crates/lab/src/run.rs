//! Campaigns: experiments side by side, their results in one folder.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use candor_time::Nanos;

use crate::error::Error;
use crate::experiment::Experiment;
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
    let probe = results.join(".probe");
    File::create(&probe).map_err(|error| Error::write(&results, error))?;
    fs::remove_file(&probe).map_err(|error| Error::write(&results, error))
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
                while let Some((experiment, slot)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    experiments.get(index).zip(results.get(index))
                } {
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
    let result = if experiment.per_frame {
        let mut file = Replacement::create(&csv)?;
        let result = simulate::run(experiment, command, Some(&mut file.file), &watch)?;
        file.finish()?;
        result
    } else {
        // A table of an earlier run would not belong to this result.
        match fs::remove_file(&csv) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::write(&csv, error));
            }
            _ => {}
        }
        simulate::run(experiment, command, None, &watch)?
    };
    let json = folder.join(format!("{}.json", experiment.name));
    let mut file = Replacement::create(&json)?;
    file.file.write_all(result.to_json().as_bytes()).map_err(|error| Error::write(&json, error))?;
    file.finish()?;
    Ok(result)
}

/// A file that takes its place only when it is complete.
struct Replacement {
    file: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
    is_finished: bool,
}

impl Replacement {
    fn create(path: &Path) -> Result<Self, Error> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".part");
        let temporary = PathBuf::from(temporary);
        let file = File::create(&temporary).map_err(|error| Error::write(&temporary, error))?;
        let file = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { file, temporary, path: path.to_owned(), is_finished: false })
    }

    fn finish(mut self) -> Result<(), Error> {
        self.file.flush().map_err(|error| Error::write(&self.temporary, error))?;
        fs::rename(&self.temporary, &self.path).map_err(|error| Error::write(&self.path, error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_finished {
            // There is nobody left to tell.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

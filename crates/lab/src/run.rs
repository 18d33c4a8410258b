//! Campaigns: experiments side by side, their results in one folder.
//!
//! An experiment that fails does not end a campaign: the others run, and what failed is reported at the
//! end. A folder that cannot be written, and the user, end it. What was finished is kept either way.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use candor_time::Nanos;

use crate::error::Error;
use crate::experiment::{Experiment, Run, Testbed};
use crate::result::ResultFile;
use crate::runner::{Ran, Watch};
use crate::testbed::Testbeds;
use candor_output::Target;

/// Follows a campaign. Called from several threads.
pub trait Progress: Sync {
    /// An experiment is at this virtual time and has sent so many frames. `false` interrupts all.
    fn proceed(&self, experiment: &Experiment, now: Nanos, sent: u64) -> bool;
    /// Something about an experiment that people should know.
    fn note(&self, experiment: &Experiment, text: &str) {
        let _ = (experiment, text);
    }
    fn finished(&self, experiment: &Experiment, ended: &Ended);
}

/// How experiments are run.
pub struct Settings<'a> {
    pub testbeds: &'a Testbeds,
    /// The command that runs one experiment again.
    pub command: &'a (dyn Fn(&Experiment) -> String + Sync),
    /// The folder for results.
    pub out: &'a Path,
    /// How many at a time.
    pub jobs: usize,
    /// Run each twice, and see whether both give the same bytes.
    pub verifies: bool,
}

/// How an experiment ended.
#[derive(Debug)]
pub enum Ended {
    /// With a result, which is written.
    Finished(Box<Ran>),
    /// Two runs gave different bytes; nothing is written.
    Differs(Difference),
    /// Without one.
    Failed(Error),
}

/// Two runs of an experiment that should be the same and are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which of its files, `json` or `csv`.
    pub file: &'static str,
    /// The first line that differs, from 1.
    pub line: usize,
    /// What it is in the first run; `None` if there is no such line.
    pub first: Option<String>,
    pub second: Option<String>,
}

/// What became of a campaign, each in the order of the experiments.
#[derive(Debug, Default)]
pub struct Outcome {
    pub finished: Vec<Ran>,
    /// Experiments of which two runs differ.
    pub differences: Vec<(String, Difference)>,
    /// Experiments that could not be run.
    pub failures: Vec<(String, Error)>,
    /// Whether it ended before its end.
    pub is_interrupted: bool,
}

impl Outcome {
    #[must_use]
    pub fn results(&self) -> Vec<ResultFile> {
        self.finished.iter().map(|ran| ran.result.clone()).collect()
    }
}

/// Every `of`-th of `items`, beginning with number `shard`, both from 1: all shards together are all
/// items, each once.
#[must_use]
pub fn shard<T>(items: Vec<T>, shard: usize, of: usize) -> Vec<T> {
    items.into_iter().skip(shard.saturating_sub(1)).step_by(of.max(1)).collect()
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

/// Runs `experiments`, several at a time, and writes each result as soon as it is there.
///
/// # Errors
/// The folder cannot be written, or a testbed lacks something. Nothing has run then, or what was
/// finished is kept.
pub fn run(
    experiments: &[Experiment],
    settings: &Settings<'_>,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    prepare(settings.out)?;
    settings.testbeds.prepare(experiments)?;
    let all: Vec<Mutex<Option<Ended>>> = experiments.iter().map(|_| Mutex::new(None)).collect();
    let each: Vec<_> = experiments.iter().zip(&all).collect();
    // What takes its time from this machine runs alone, when all else has ended.
    let (alone, together): (Vec<_>, Vec<_>) =
        each.into_iter().partition(|(experiment, _)| experiment.testbed() == Testbed::Host);
    if run_each(&together, settings.jobs, settings, progress) {
        run_each(&alone, 1, settings, progress);
    }
    let mut outcome = Outcome::default();
    for (experiment, ended) in experiments.iter().zip(all) {
        let name = || experiment.name.clone();
        match ended.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ended::Finished(ran)) => outcome.finished.push(*ran),
            Some(Ended::Differs(difference)) => outcome.differences.push((name(), difference)),
            Some(Ended::Failed(Error::Interrupted)) => outcome.is_interrupted = true,
            Some(Ended::Failed(error)) => outcome.failures.push((name(), error)),
            // Not begun: something ended the campaign.
            None => {}
        }
    }
    Ok(outcome)
}

/// Runs experiments, so many at a time. False if something ended all of them.
fn run_each(
    each: &[(&Experiment, &Mutex<Option<Ended>>)],
    jobs: usize,
    settings: &Settings<'_>,
    progress: &dyn Progress,
) -> bool {
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, each.len().max(1)) {
            scope.spawn(|| {
                let take_next = || each.get(next.fetch_add(1, Ordering::Relaxed));
                while let Some((experiment, slot)) = take_next() {
                    let ended =
                        run_one(experiment, settings, progress).unwrap_or_else(Ended::Failed);
                    progress.finished(experiment, &ended);
                    if matches!(ended, Ended::Failed(Error::Interrupted | Error::Io { .. })) {
                        next.store(each.len(), Ordering::Relaxed);
                        is_over.store(true, Ordering::Relaxed);
                    }
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
                }
            });
        }
    });
    !is_over.into_inner()
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

    fn note(&self, text: &str) {
        self.progress.note(self.experiment, text);
    }
}

/// The files of one run, not yet in their places.
struct Made {
    ran: Ran,
    json: String,
    csv: Option<Target>,
}

fn run_one(
    experiment: &Experiment,
    settings: &Settings<'_>,
    progress: &dyn Progress,
) -> Result<Ended, Error> {
    let folder = results_of(settings.out);
    let csv = folder.join(format!("{}.csv", experiment.name));
    let json = folder.join(format!("{}.json", experiment.name));
    let csv_error = |error| Error::write(&csv, error);
    let made = make(experiment, settings, &csv, progress)?;
    if settings.verifies {
        let again = make(experiment, settings, &csv, progress)?;
        if let Some(difference) = compare(&made, &again).map_err(csv_error)? {
            return Ok(Ended::Differs(difference));
        }
    }
    // Both files are of one run, also if another one writes the same result now. Some network file systems have no locks for
    // folders; there, two runs at once are on their own.
    let lock = File::open(&folder).and_then(|folder| folder.lock().map(|()| folder));
    match made.csv {
        Some(target) => target.finish().map_err(csv_error)?,
        // A table of an earlier run would not belong to this result.
        None => remove(&csv).map_err(csv_error)?,
    }
    candor_output::replace(&json, made.json.as_bytes())
        .map_err(|error| Error::write(&json, error))?;
    drop(lock);
    Ok(Ended::Finished(Box::new(made.ran)))
}

/// Runs an experiment; its lines go into a file beside `csv`.
fn make(
    experiment: &Experiment,
    settings: &Settings<'_>,
    csv: &Path,
    progress: &dyn Progress,
) -> Result<Made, Error> {
    let csv_error = |error| Error::write(csv, error);
    let frames =
        if experiment.per_frame { Some(Target::file(csv).map_err(csv_error)?) } else { None };
    let mut frames = frames.map(|target| BufWriter::with_capacity(1 << 16, target));
    let lines = frames.as_mut().map(|frames| frames as &mut dyn Write);
    let (command, watch) = ((settings.command)(experiment), &Watching { experiment, progress });
    let run = Run { experiment, command, lines, watch };
    let ran = settings.testbeds.runner(experiment)?.run(run, settings.verifies)?;
    let csv = match frames {
        Some(frames) => Some(frames.into_inner().map_err(|error| csv_error(error.into_error()))?),
        None => None,
    };
    Ok(Made { json: ran.result.to_json(), ran, csv })
}

/// The first difference of two runs.
fn compare(first: &Made, second: &Made) -> io::Result<Option<Difference>> {
    let json = (first.json.as_bytes(), second.json.as_bytes());
    if let Some(difference) = difference("json", json.0, json.1)? {
        return Ok(Some(difference));
    }
    let paths = first.csv.as_ref().and_then(Target::path).zip(
        // Both are absent or there.
        second.csv.as_ref().and_then(Target::path),
    );
    let Some((first, second)) = paths else { return Ok(None) };
    let open = |path: &Path| fs::File::open(path).map(BufReader::new);
    difference("csv", open(first)?, open(second)?)
}

/// The first line in which two texts differ.
fn difference(
    file: &'static str,
    mut first: impl BufRead,
    mut second: impl BufRead,
) -> io::Result<Option<Difference>> {
    let next = |text: &mut dyn BufRead| -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        Ok((text.read_until(b'\n', &mut line)? > 0).then_some(line))
    };
    let shown = |line: Option<Vec<u8>>| {
        line.map(|line| String::from_utf8_lossy(&line).trim_end().to_owned())
    };
    let mut line = 1;
    loop {
        let lines = (next(&mut first)?, next(&mut second)?);
        match lines {
            (None, None) => return Ok(None),
            (first, second) if first != second => {
                let (first, second) = (shown(first), shown(second));
                return Ok(Some(Difference { file, line, first, second }));
            }
            _ => line += 1,
        }
    }
}

/// Removes a file that may be there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_all_of_it_once() {
        let all: Vec<u32> = (0..653).collect();
        for of in [1, 2, 8, 653, 1_000] {
            let shards = (1..=of).map(|number| shard(all.clone(), number, of));
            let mut together: Vec<_> = shards.flatten().collect();
            together.sort_unstable();
            assert_eq!(together, all, "{of}");
        }
        assert_eq!(shard(all, 3, 8)[..3], [2, 10, 18]);
    }

    #[test]
    fn the_first_line_that_differs_is_reported() {
        for (first, second, line) in [
            ("", "", None),
            ("a\nb\n", "a\nb\n", None),
            ("a\nb\n", "a\nc\n", Some((2, Some("b"), Some("c")))),
            ("a\nb\n", "a\n", Some((2, Some("b"), None))),
            ("", "a\n", Some((1, None, Some("a")))),
        ] {
            let found = difference("csv", first.as_bytes(), second.as_bytes()).unwrap();
            let found = found
                .as_ref()
                .map(|found| (found.line, found.first.as_deref(), found.second.as_deref()));
            assert_eq!(found, line, "{first:?} {second:?}");
        }
    }
}

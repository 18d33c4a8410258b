//! `candor lab run`.
//!
//! `candor help json lab run` describes what `--json` prints.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use candor_diagnostics::part_of;
use candor_lab::campaign::Figure;
use candor_lab::experiment::Testbed;
use candor_lab::host::Host;
use candor_lab::report::{self, Besides, JudgedClaim};
use candor_lab::run::{self, Difference, Outcome, Settings, results_of};
use candor_lab::runner::Ran;
use candor_lab::testbed::Testbeds;
use candor_lab::vm::Emulator;
use candor_lab::{Campaign, Error, Experiment, campaign};
use candor_output::say;
use clap::Args;

use super::overview::overview;
use super::selection::{Selection, command_for, load};
use crate::Answer;
use crate::json::lines;
use crate::output::{print, thousands};
use crate::overwrite::Overwriting;
use crate::progress::{Bar, catch_interrupt, is_interrupted};
use crate::result::Saved;

#[derive(Args)]
pub(super) struct Running {
    /// The folder for results and report
    #[arg(long, default_value = "candor-report", value_name = "DIR")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) overwriting: Overwriting,
    /// How many experiments run at the same time; default: one per processor
    #[arg(long, value_name = "N", value_parser = parse_jobs)]
    jobs: Option<NonZeroUsize>,
    /// Run vm experiments even if their results are in the cache, and store nothing there
    #[arg(long)]
    no_cache: bool,
    /// Run each experiment twice; if the results differ, show the difference and exit with 1
    #[arg(long)]
    verify: bool,
}

fn parse_jobs(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| {
        "expected 1 or more; without --jobs, one experiment per processor runs at a time".into()
    })
}

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(super) selection: Selection,
    #[command(flatten)]
    pub(super) running: Running,
    /// Print JSON Lines: an object of type "result" per experiment
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(arguments: &Run) -> Answer {
    let campaign = load(&arguments.selection)?;
    let outcome = run_and_show(arguments, &campaign)?;
    let wanted = campaign.experiments.len();
    // Claims that were judged on earlier results say nothing of these.
    finish(&arguments.running.out, &outcome, (&campaign.figures, &[]), wanted, true)
}

/// Runs a campaign and shows what was measured.
pub(super) fn run_and_show(arguments: &Run, campaign: &Campaign) -> Result<Outcome, String> {
    let outcome = execute(&arguments.selection, &arguments.running, campaign)?;
    let out = &arguments.running.out;
    if arguments.json {
        let file = |name: &str| Some(results_of(out).join(format!("{name}.json")));
        let saved = outcome.finished.iter().map(|Ran { result, is_cached }| Saved {
            result,
            cached: *is_cached,
            file: file(&result.experiment),
        });
        print(&lines(saved)?)?;
    } else if !outcome.finished.is_empty() {
        let mut text = overview(&outcome.finished);
        text.extend(campaign.too_many_for_lines.map(no_lines));
        print(&text)?;
    }
    Ok(outcome)
}

/// Why there is no line per frame.
fn no_lines(frames: u64) -> String {
    format!(
        "no line per frame (CSV) and no time chart are written: the experiments send {} frames; \
         above {}, add --set per_frame=true\n",
        thousands(frames),
        thousands(campaign::MOST_LINES)
    )
}

/// Runs what is selected.
pub(super) fn execute(
    selection: &Selection,
    running: &Running,
    campaign: &Campaign,
) -> Result<Outcome, String> {
    let jobs = running.jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        NonZeroUsize::get,
    );
    catch_interrupt();
    // Before QEMU is looked for: whatever else is wrong, this is reported first.
    running.overwriting.folder(&running.out)?;
    run::prepare(&running.out).map_err(|error| error.to_string())?;
    let is_vm = |experiment: &Experiment| experiment.testbed() == Testbed::Vm;
    let machines = match campaign.experiments.iter().any(is_vm) {
        true => {
            let machines = Emulator::machines(candor_init::INIT, !running.no_cache);
            Some(machines.map_err(|error| error.to_string())?)
        }
        false => None,
    };
    // A program that has been replaced while it runs is still there under this name.
    let host = Host::new(PathBuf::from("/proc/self/exe"));
    let bar = Bar::new(&campaign.experiments);
    let settings = Settings {
        testbeds: &Testbeds::new(machines, Some(host)),
        command: &|experiment: &Experiment| command_for(selection, experiment),
        out: &running.out,
        jobs,
        verifies: running.verify,
    };
    let outcome = run::run(&campaign.experiments, &settings, &bar);
    bar.finish();
    outcome.map_err(|error| error.to_string())
}

/// Writes the report with these links and claims, says where it is, and what is not in it. Whether all runs that should be the
/// same were the same.
pub(super) fn finish(
    out: &Path,
    outcome: &Outcome,
    (figures, claims): (&[Figure], &[JudgedClaim]),
    wanted: usize,
    has_run: bool,
) -> Answer {
    let finished = outcome.finished.len();
    if finished > 0 {
        let latest: Vec<_> =
            outcome.finished.iter().map(|ran| ran.result.experiment.clone()).collect();
        let besides = Besides {
            latest: has_run.then_some(latest.as_slice()),
            figures: Some(figures),
            claims: Some(claims),
        };
        report::write(out, besides).map_err(|error| error.to_string())?;
        say!("report: {}", out.join("index.html").display());
    }
    for (name, difference) in &outcome.differences {
        say!("{}", describe(name, difference));
    }
    if !outcome.failures.is_empty() {
        let mut message = failures(&outcome.failures, wanted);
        if finished > 0 {
            let folder = results_of(out);
            message.push_str(&format!(
                "\n{} finished and kept in {}",
                part_of(finished, wanted, "experiment", ("is", "are")),
                folder.display()
            ));
        }
        return Err(message);
    }
    if outcome.is_interrupted {
        debug_assert!(is_interrupted());
        return Err(format!(
            "interrupted: {} finished and kept in {}",
            part_of(finished, wanted, "experiment", ("is", "are")),
            results_of(out).display()
        ));
    }
    Ok(outcome.differences.is_empty())
}

/// Two runs that should be the same.
fn describe(name: &str, difference: &Difference) -> String {
    let line = |line: &Option<String>| match line {
        Some(line) => line.chars().take(200).collect(),
        None => "(no such line)".to_owned(),
    };
    let Difference { file, line: number, first, second } = difference;
    format!(
        "{name}: two runs differ in line {number} of {name}.{file}:\n  first:  {}\n  second: {}",
        line(first),
        line(second)
    )
}

/// What failed: each reason once, with the experiments that it ended.
fn failures(failures: &[(String, Error)], wanted: usize) -> String {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, error) in failures {
        let reason = error.to_string();
        let reason = reason.strip_prefix(&format!("{name}: ")).unwrap_or(&reason);
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason.to_owned(), vec![name])),
        }
    }
    let line = |(reason, names): &(String, Vec<&str>)| match names.as_slice() {
        [_] if wanted == 1 => reason.clone(),
        [name] => format!("{name}: {reason}"),
        [name, others @ ..] => format!("{name} and {} more: {reason}", others.len()),
        [] => String::new(),
    };
    reasons.iter().map(line).collect::<Vec<_>>().join("\n")
}

//! `candor lab`: experiments, their results, the report, and claims about them.
//!
//! `candor lab run --json` prints an object of type `result` per run: `experiment`, `group` (the same
//! without the seed), `seed`, `testbed`, `cached`, `sent`, `received`, `not_routed`, `refused`, `lost`
//! (`sent` is the sum of the four), `total_latency`, `gateway_latency` and `end_to_end` (each with
//! `count`, `min_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `max_ns`, or null), `file`. `candor lab list
//! --json` prints one of type `experiment`: `name`, `title`, `testbed`, `conditions`, `axes`. `candor
//! lab claims --json` prints one of type `claim`: `id`, `says`, `published`, `bounds`, `each` (null
//! if it is the only one), `value` (null if it was not found or differs between seeds), `seeds`, `least`,
//! `most`, `agrees`, `agreement` (`yes`, `no`, `depends`, `too few seeds`, `missing`), `note`; then one of
//! type `claim_group` per id: `id`, `claims`, and how many of them are of each agreement.

mod claims;
mod compare;
mod coverage;
mod profile;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use candor_lab::campaign::{self, Options};
use candor_lab::experiment::KernelChoice;
use candor_lab::experiment::{Testbed, World};
use candor_lab::glob;
use candor_lab::group::{Group, groups};
use candor_lab::result::{ResultFile, Stopped};
use candor_lab::run::{Difference, Outcome, Settings, results_of};
use candor_lab::runner::Ran;
use candor_lab::testbed::Testbeds;
use candor_lab::vm::Emulator;
use candor_lab::{Campaign, Error, Experiment, report, run};
use candor_lat::histogram::classic;
use candor_lat::text::{self, Canvas, Scale, Series};
use candor_lat::{Ending, Metric};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use self::claims::Judged;
use crate::Answer;
use crate::color;
use crate::output::{duration, duration_range, json_line, number_range, print, table, thousands};
use crate::overwrite::Overwriting;
use crate::progress::{Bar, catch_interrupt, is_interrupted};

/// Bars of a classic histogram.
const HISTOGRAM_BINS: usize = 20;

/// Run experiments and report their latencies
#[derive(Subcommand)]
pub(crate) enum LabCommand {
    /// Run the experiments of a file and write results and a report
    ///
    /// Example: candor lab run examples/small-car.toml --only '*flood*' --set count=1000
    Run(Run),
    /// List the experiments of a file
    List(List),
    /// Rebuild the report from the results in a folder
    Report(Report),
    /// Draw the latency profiles of the results in a folder
    ///
    /// Example: candor lab show candor-report --only 'flood*' --metric egress_wait
    Show(Show),
    /// Run the experiments that the claims of a file need, and check the claims
    ///
    /// Exits with 1 if a claim does not hold.
    ///
    /// Example: candor lab claims campaigns/gateway-timing-sim.toml
    Claims(Claims),
    /// Count the instructions of vm experiments, by module and function, per frame
    ///
    /// Exact: QEMU counts every instruction, and the guest's time does not change. Slow: send few
    /// frames.
    ///
    /// Example: candor lab profile campaigns/vm-quick.toml --only kernel --set count=50
    Profile(profile::Profile),
    /// Compare the results in two folders: what became slower, by how much, and where
    ///
    /// Exits with 1 if the shortest or the median latency without load, the instructions per frame
    /// or the lost frames are worse than --allow permits. Figures under load are shown as ranges
    /// over their seeds and do not change the exit code. With the counts of
    /// `candor lab profile --out`, shows in which function the difference is.
    ///
    /// Example: candor lab compare before after --allow 1%
    Compare(compare::Compare),
}

#[derive(Args)]
struct Selection {
    /// The file of experiments
    file: PathBuf,
    /// Select experiments by name; * stands for any characters, ? for one character
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// Set a value in every experiment, such as count=1000 or traffic.kind=flood
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Use this seed instead of the file's
    #[arg(long)]
    seed: Option<u64>,
    /// The testbed of every experiment: sim or vm
    #[arg(long, value_name = "NAME", value_parser = parse_testbed)]
    testbed: Option<Testbed>,
    /// The kernel of every vm experiment: 6.12, 6.12-rt, debian:VERSION, or a file with --modules
    #[arg(long, value_name = "NAME|FILE")]
    kernel: Option<String>,
    /// The modules of your own kernel: lib/modules/RELEASE
    #[arg(long, value_name = "DIR", requires = "kernel")]
    modules: Option<PathBuf>,
    /// The speed of every vm experiment in million instructions per second: 1000, 500, 250, ...
    #[arg(long, value_name = "N")]
    mips: Option<u32>,
    /// Run only every M-th of the selected experiments, starting with number N
    #[arg(long, value_name = "N/M")]
    shard: Option<Shard>,
}

fn parse_testbed(name: &str) -> Result<Testbed, String> {
    Testbed::ALL.into_iter().find(|testbed| testbed.name() == name).ok_or_else(|| {
        let names = Testbed::ALL.map(Testbed::name);
        format!("expected one of {}", names.join(", "))
    })
}

fn parse_jobs(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| {
        "expected 1 or more; without --jobs, one experiment per processor runs at a time".into()
    })
}

/// One part of so many.
#[derive(Clone, Copy)]
struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        parsed
            .filter(|shard| (1..=shard.of).contains(&shard.number))
            .ok_or_else(|| "expected N/M, such as 3/8".into())
    }
}

#[derive(Args)]
struct Running {
    /// The folder for results and report
    #[arg(long, default_value = "candor-report", value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
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

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    running: Running,
    /// Print JSON Lines: an object of type "result" per experiment
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    selection: Selection,
    /// Show instead which part of the papers' matrix of 653 experiments the file covers
    #[arg(long)]
    coverage: bool,
    /// Print JSON Lines: one object of type "experiment" per experiment, or of type "coverage"
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Report {
    /// The folder with the results
    dir: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
}

#[derive(Args)]
pub(crate) struct Show {
    /// The folder with the results
    dir: PathBuf,
    /// Select experiments by name; * stands for any characters, ? for one character
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// The metric: total_latency, gateway_latency, egress_wait, ...
    #[arg(long, default_value = "gateway_latency", value_parser = parse_metric)]
    metric: Metric,
    /// Use a linear time axis instead of a logarithmic one
    #[arg(long)]
    linear: bool,
    /// Show histograms, one after the other
    #[arg(long)]
    histogram: bool,
}

fn parse_metric(key: &str) -> Result<Metric, String> {
    Metric::from_key(key).ok_or_else(|| {
        let keys: Vec<_> = Metric::ALL.iter().map(|metric| metric.key()).collect();
        format!("expected one of {}", keys.join(", "))
    })
}

#[derive(Args)]
pub(crate) struct Claims {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    running: Running,
    /// Run nothing: check the claims against the results in the folder, such as those of shards
    #[arg(long)]
    no_run: bool,
    /// Select claims by id; * stands for any characters, ? for one character
    #[arg(long, value_name = "GLOB")]
    claim: Option<String>,
    /// Print a table in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print JSON Lines: one object of type "claim" per claim
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &LabCommand) -> Answer {
    match command {
        LabCommand::Run(arguments) => run_experiments(arguments),
        LabCommand::List(arguments) => list(arguments),
        LabCommand::Report(arguments) => report_on(arguments),
        LabCommand::Show(arguments) => show(arguments),
        LabCommand::Claims(arguments) => judge_claims(arguments),
        LabCommand::Profile(arguments) => profile::profile(arguments),
        LabCommand::Compare(arguments) => compare::compare(arguments),
    }
}

fn load(selection: &Selection) -> Result<Campaign, String> {
    let options = Options {
        set: selection.set.clone(),
        only: selection.only.clone(),
        seed: selection.seed,
        testbed: selection.testbed,
        kernel: kernel(selection)?,
        mips: selection.mips,
    };
    let mut campaign =
        campaign::load(&selection.file, &options).map_err(|error| error.to_string())?;
    color::eprint_findings(&campaign.warnings);
    if let Some(Shard { number, of }) = selection.shard {
        campaign.experiments = run::shard(campaign.experiments, number, of);
    }
    Ok(campaign)
}

/// The kernel that the command line names.
fn kernel(selection: &Selection) -> Result<Option<KernelChoice>, String> {
    let Some(kernel) = &selection.kernel else { return Ok(None) };
    let is_file = kernel.contains('/') || Path::new(kernel).exists();
    match &selection.modules {
        Some(modules) => {
            let (image, modules) = (kernel.into(), modules.clone());
            Ok(Some(KernelChoice::Files { image, modules }))
        }
        None if is_file => Err(format!(
            "--kernel {kernel} is a file, and its modules are missing; add --modules DIR, such as \
             lib/modules/RELEASE"
        )),
        None => Ok(Some(KernelChoice::Named(kernel.clone()))),
    }
}

/// The command that runs one experiment again.
fn command_for(selection: &Selection, experiment: &Experiment) -> String {
    let mut command = format!("candor lab run {}", quoted(&selection.file.display().to_string()));
    command.push_str(&format!(" --only {}", quoted(&experiment.group)));
    for set in &selection.set {
        command.push_str(&format!(" --set {}", quoted(set)));
    }
    if let Some(testbed) = selection.testbed {
        command.push_str(&format!(" --testbed {testbed}"));
    }
    if experiment.world.testbed() == Testbed::Vm {
        if let Some(kernel) = &selection.kernel {
            command.push_str(&format!(" --kernel {}", quoted(kernel)));
        }
        if let Some(modules) = &selection.modules {
            command.push_str(&format!(" --modules {}", quoted(&modules.display().to_string())));
        }
        if let Some(mips) = selection.mips {
            command.push_str(&format!(" --mips {mips}"));
        }
    }
    command.push_str(&format!(" --seed {}", experiment.seed));
    command
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Runs what is selected.
fn execute(
    selection: &Selection,
    running: &Running,
    campaign: &Campaign,
) -> Result<Outcome, String> {
    let jobs = running.jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        NonZeroUsize::get,
    );
    catch_interrupt();
    // Before QEMU is looked for: whatever else is wrong, this is told first.
    running.overwriting.folder(&running.out)?;
    run::prepare(&running.out).map_err(|error| error.to_string())?;
    let is_vm = |experiment: &Experiment| experiment.world.testbed() == Testbed::Vm;
    let machines = match campaign.experiments.iter().any(is_vm) {
        true => {
            let machines = Emulator::machines(candor_init::INIT, !running.no_cache);
            Some(machines.map_err(|error| error.to_string())?)
        }
        false => None,
    };
    let bar = Bar::new(&campaign.experiments);
    let settings = Settings {
        testbeds: &Testbeds::new(machines),
        command: &|experiment: &Experiment| command_for(selection, experiment),
        out: &running.out,
        jobs,
        verifies: running.verify,
    };
    let outcome = run::run(&campaign.experiments, &settings, &bar);
    bar.finish();
    outcome.map_err(|error| error.to_string())
}

fn run_experiments(arguments: &Run) -> Answer {
    let campaign = load(&arguments.selection)?;
    let outcome = execute(&arguments.selection, &arguments.running, &campaign)?;
    let out = &arguments.running.out;
    if arguments.json {
        let lines: Result<String, String> =
            outcome.finished.iter().map(|ran| summary(out, ran)).collect();
        print(&lines?)?;
    } else if !outcome.finished.is_empty() {
        let mut text = overview(&outcome.finished);
        text.extend(campaign.too_many_for_lines.map(no_lines));
        print(&text)?;
    }
    finish(out, &outcome, campaign.experiments.len(), true)
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

/// Writes the report, says where it is, and what is not in it. Whether all runs that should be the
/// same were the same.
fn finish(out: &Path, outcome: &Outcome, wanted: usize, has_run: bool) -> Answer {
    let finished = outcome.finished.len();
    if finished > 0 {
        let latest: Vec<_> =
            outcome.finished.iter().map(|ran| ran.result.experiment.clone()).collect();
        report::write(out, has_run.then_some(latest.as_slice()))
            .map_err(|error| error.to_string())?;
        eprintln!("report: {}", out.join("index.html").display());
    }
    for (name, difference) in &outcome.differences {
        eprintln!("{}", describe(name, difference));
    }
    if !outcome.failures.is_empty() {
        let mut message = failures(&outcome.failures, wanted);
        if finished > 0 {
            let folder = results_of(out);
            message.push_str(&format!(
                "\n{finished} of {wanted} experiments are finished and kept in {}",
                folder.display()
            ));
        }
        return Err(message);
    }
    if outcome.is_interrupted {
        debug_assert!(is_interrupted());
        return Err(format!(
            "interrupted: {finished} of {wanted} experiments are finished and kept in {}",
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

fn list(arguments: &List) -> Answer {
    let campaign = load(&arguments.selection)?;
    if arguments.coverage {
        let experiments = &campaign.experiments;
        print(&match arguments.json {
            true => coverage::lines(experiments)?,
            false => coverage::text(experiments),
        })?;
        return Ok(true);
    }
    if arguments.json {
        let lines: Result<String, String> = campaign
            .experiments
            .iter()
            .map(|experiment| {
                let axes: serde_json::Map<_, _> = experiment
                    .axes
                    .iter()
                    .map(|(key, value)| (key.clone(), json!(value)))
                    .collect();
                json_line(&json!({"type": "experiment", "data": {
                    "name": experiment.name,
                    "title": experiment.title,
                    "testbed": experiment.world.testbed().name(),
                    "conditions": experiment.conditions,
                    "axes": axes,
                }}))
            })
            .collect();
        print(&lines?)?;
    } else {
        let width = campaign.experiments.iter().map(|experiment| experiment.name.len()).max();
        let width = width.unwrap_or(0);
        let line = |experiment: &Experiment| {
            let machine = match &experiment.world {
                World::Sim(_) => String::new(),
                World::Vm(vm) => format!("  {}", vm.machine),
            };
            format!("{:width$}  {}{machine}\n", experiment.name, experiment.world.testbed())
        };
        print(&campaign.experiments.iter().map(line).collect::<String>())?;
        eprintln!("{}", how_many(&campaign.experiments));
    }
    Ok(true)
}

/// How many experiments there are, and where.
fn how_many(experiments: &[Experiment]) -> String {
    let number = |number: usize| thousands(number as u64);
    let in_testbed = |testbed: Testbed| {
        experiments.iter().filter(|experiment| experiment.world.testbed() == testbed).count()
    };
    let machines: BTreeSet<_> = experiments
        .iter()
        .filter_map(|experiment| match &experiment.world {
            World::Vm(vm) => Some(&vm.machine),
            World::Sim(_) => None,
        })
        .collect();
    let parts = Testbed::ALL.into_iter().filter_map(|testbed| {
        let on = match (testbed, machines.len()) {
            (Testbed::Sim, _) => String::new(),
            (Testbed::Vm, 1) => " on one machine".into(),
            (Testbed::Vm, machines) => format!(" on {} machines", number(machines)),
        };
        let count = in_testbed(testbed);
        (count > 0).then(|| format!("{} in {testbed}{on}", number(count)))
    });
    let parts: Vec<_> = parts.collect();
    format!("{} experiments: {}", number(experiments.len()), parts.join(", "))
}

fn report_on(arguments: &Report) -> Answer {
    let dir = &arguments.dir;
    arguments.overwriting.folder(dir)?;
    report::write(dir, None).map_err(|error| error.to_string())?;
    eprintln!("report: {}", dir.join("index.html").display());
    Ok(true)
}

/// Profiles over one another, or histograms one after the other.
fn show(arguments: &Show) -> Answer {
    let results = report::results(&arguments.dir).map_err(|error| error.to_string())?;
    let selected = results.iter().filter(|result| {
        arguments.only.as_deref().is_none_or(|glob| glob::matches(glob, &result.experiment))
    });
    let series: Vec<_> = selected
        .filter_map(|result| {
            let figures = result.metric(arguments.metric)?;
            Some(Series { name: &result.experiment, profile: &figures.profile })
        })
        .collect();
    if series.is_empty() {
        let key = arguments.metric.key();
        return Err(format!(
            "{}: no selected result has the metric {key}; `candor lab report` lists the metrics",
            arguments.dir.display()
        ));
    }
    let time = if arguments.linear { Scale::Linear } else { Scale::Logarithmic };
    let canvas = Canvas { time, height: 18 + series.len(), ..Canvas::default() };
    let text = if arguments.histogram {
        let of = |series: &Series<'_>| {
            let label = format!("{}: {}", series.name, arguments.metric.label());
            text::histogram(&label, &classic(series.profile, HISTOGRAM_BINS), canvas)
        };
        series.iter().map(of).collect::<Vec<_>>().join("\n")
    } else {
        text::profile(arguments.metric.label(), &series, canvas)
    };
    print(&text)?;
    Ok(true)
}

/// The object of type `result`.
fn summary(out: &Path, ran: &Ran) -> Result<String, String> {
    let result = &ran.result;
    let latency = |metric: Metric| match result.metric(metric) {
        None => Value::Null,
        Some(figures) => json!({
            "count": figures.count,
            "min_ns": figures.min_ns,
            "p50_ns": figures.p50_ns,
            "p90_ns": figures.p90_ns,
            "p99_ns": figures.p99_ns,
            "p999_ns": figures.p999_ns,
            "max_ns": figures.max_ns,
        }),
    };
    let file = results_of(out).join(format!("{}.json", result.experiment));
    json_line(&json!({"type": "result", "data": {
        "experiment": result.experiment,
        "group": result.group(),
        "seed": result.seed,
        "testbed": result.testbed,
        "cached": ran.is_cached,
        "sent": result.counts.sent,
        "received": result.counts.received,
        "not_routed": result.counts.not_routed,
        "refused": result.counts.refused,
        "lost": result.counts.lost,
        "total_latency": latency(Metric::TotalLatency),
        "gateway_latency": latency(Metric::GatewayLatency),
        "end_to_end": latency(Metric::EndToEnd),
        "file": file.display().to_string(),
    }}))
}

/// The figures of all results, and of a few the details. The runs of one experiment with several seeds
/// share a row.
pub(crate) fn overview(finished: &[Ran]) -> String {
    let groups = groups(finished.iter().map(|ran| &ran.result));
    let columns = Columns {
        has_runs: groups.iter().any(|group| group.runs.len() > 1),
        has_load: groups.iter().any(is_loaded_vm),
        has_instructions: groups.iter().any(|group| group.range(instructions).is_some()),
        has_cached: finished.iter().any(|ran| ran.is_cached),
    };
    let is_cached = |group: &Group<'_>| {
        let mut runs = finished.iter().filter(|ran| ran.result.group() == group.name);
        runs.all(|ran| ran.is_cached)
    };
    let loads = [0, 1].map(|index| load_head(finished, index));
    let head = columns.head(&loads);
    let rows: Vec<_> = groups.iter().map(|group| columns.row(group, is_cached(group))).collect();
    let mut out = table(&head, &rows);
    let is_of = |testbed: Testbed| finished.iter().any(|ran| ran.result.testbed == testbed.name());
    out.push('\n');
    if is_of(Testbed::Sim) {
        out.push_str("gateway latency: total latency without the transmission on the target bus\n");
    }
    if is_of(Testbed::Vm) {
        out.push_str(
            "vm: counted instructions; buses take no time; path lengths, not a forecast for a \
             board\n",
        );
    }
    if columns.has_instructions {
        out.push_str("instructions: of the gateway's process, for each frame that arrived\n");
    }
    if columns.has_load {
        out.push_str(
            "e2e: end to end, from when a frame was due; under load the gateway latency alone misses \
             the frames that left late\n",
        );
    }
    if columns.has_runs {
        out.push_str("a..b: the smallest and the largest value over the seeds\n");
    }
    match finished {
        [ran] => out.push_str(&details(&ran.result)),
        _ => out.push_str(&notes(finished)),
    }
    out
}

/// The notes of simulations: what makes their figures doubtful. Those of machines are in their results.
fn notes(finished: &[Ran]) -> String {
    const MOST: usize = 10;
    let results = finished.iter().map(|ran| &ran.result);
    let simulated = results.filter(|result| result.testbed == Testbed::Sim.name());
    let lines: Vec<_> = simulated
        .flat_map(|result| {
            result.notes.iter().map(|note| format!("note: {}: {note}\n", result.experiment))
        })
        .collect();
    let mut out = lines.iter().take(MOST).fold(String::new(), |out, line| out + line);
    if lines.len() > MOST {
        let more = lines.len() - MOST;
        out.push_str(&format!("note: {more} more notes; the report and the results have them\n"));
    }
    out
}

/// The head of a column of bus loads: the name of the bus, if it has the same name everywhere.
fn load_head(finished: &[Ran], index: usize) -> String {
    let mut names = finished.iter().filter_map(|ran| ran.result.buses.get(index));
    let first = names.next().map(|bus| bus.name.as_str());
    match first.filter(|first| names.all(|bus| bus.name == *first)) {
        Some(name) => format!(">load of {name}"),
        None => format!(">load of bus {}", index + 1),
    }
}

/// In `vm` the sender shares the processor with the load, so it may be late.
fn is_loaded_vm(group: &Group<'_>) -> bool {
    let is = |run: &&ResultFile| run.testbed == Testbed::Vm.name() && run.is_loaded();
    group.runs.iter().any(is)
}

/// The columns of [`overview`] that are not always there.
struct Columns {
    has_runs: bool,
    has_load: bool,
    has_instructions: bool,
    has_cached: bool,
}

/// Instructions of the gateway's process per frame that arrived.
fn instructions(result: &ResultFile) -> Option<f64> {
    result.effort?.gateway_instructions_per_frame
}

impl Columns {
    /// `loads` are the heads of the columns with the loads of the buses.
    fn head<'a>(&self, loads: &'a [String; 2]) -> Vec<&'a str> {
        let mut head = vec!["experiment"];
        head.extend(self.has_runs.then_some(">runs"));
        head.extend([">sent", ">received", ">not routed", ">refused", ">lost"]);
        head.extend([">p50", ">p99", ">p99.9", ">max"]);
        if self.has_load {
            head.extend([">e2e p50", ">e2e p99", ">e2e max"]);
        }
        head.extend(self.has_instructions.then_some(">instructions"));
        head.extend(loads.iter().map(String::as_str));
        head.extend(self.has_cached.then_some(""));
        head
    }

    fn row(&self, group: &Group<'_>, is_cached: bool) -> Vec<String> {
        let latency = |metric: Metric, figure: &str| {
            let range = group.range(|run| run.metric(metric)?.figure_ns(figure));
            range.map_or("-".into(), |range| duration_range(range.least, range.most))
        };
        let load = |index: usize| {
            let range = group.range(|run| Some(run.buses.get(index)?.load_percent));
            range.map_or("-".into(), |range| {
                format!("{} %", number_range(range.least, range.most, 1))
            })
        };
        let mut row = vec![group.name.to_owned()];
        row.extend(self.has_runs.then(|| group.runs.len().to_string()));
        row.push(thousands(group.sum(|run| run.counts.sent)));
        row.push(thousands(group.sum(|run| run.counts.received)));
        row.push(thousands(group.sum(|run| run.counts.not_routed)));
        row.push(thousands(group.sum(|run| run.counts.refused)));
        row.push(thousands(group.sum(|run| run.counts.lost)));
        let figures = ["p50", "p99", "p999", "max"];
        row.extend(figures.map(|figure| latency(Metric::GatewayLatency, figure)));
        if self.has_load {
            let is_loaded = is_loaded_vm(group);
            let end_to_end = |figure| match is_loaded {
                true => latency(Metric::EndToEnd, figure),
                false => String::new(),
            };
            row.extend(["p50", "p99", "max"].map(end_to_end));
        }
        if self.has_instructions {
            let range = group.range(instructions);
            row.push(range.map_or("-".into(), |range| number_range(range.least, range.most, 0)));
        }
        row.extend([load(0), load(1)]);
        row.extend(self.has_cached.then(|| if is_cached { "cached" } else { "" }.to_owned()));
        row
    }
}

/// What became of the frames, bus by bus and cause by cause.
pub(crate) fn details(result: &ResultFile) -> String {
    let counts = &result.counts;
    let mut out = format!("\n{}\n", result.conditions);
    out.push_str(&format!(
        "{} frames sent in {} = {} received + {} not routed + {} refused + {} lost\n\n",
        thousands(counts.sent),
        duration(result.duration_ns as f64),
        thousands(counts.received),
        thousands(counts.not_routed),
        thousands(counts.refused),
        thousands(counts.lost),
    ));
    let buses: Vec<_> = result
        .buses
        .iter()
        .map(|bus| {
            vec![
                bus.name.clone(),
                format!("{} bit/s", thousands(u64::from(bus.bitrate))),
                thousands(bus.frames),
                format!("{:.2} %", bus.load_percent),
                thousands(bus.error_frames),
            ]
        })
        .collect();
    out.push_str(&table(&["bus", ">bit rate", ">frames", ">load", ">error frames"], &buses));
    if !result.stopped.is_empty() {
        out.push('\n');
        out.push_str(&stopped(&result.stopped));
    }
    for note in &result.notes {
        out.push_str(&format!("\nnote: {note}\n"));
    }
    let instructions = result.effort.and_then(|effort| effort.gateway_instructions_per_frame);
    if let Some(instructions) = instructions {
        out.push_str(&format!(
            "\n{} instructions of the gateway's process for each frame that arrived\n",
            thousands(instructions.round() as u64)
        ));
    }
    out
}

/// What stopped frames, in the order of the columns above: not routed, refused, lost.
fn stopped(all: &[Stopped]) -> String {
    let of = |ending: Ending| all.iter().filter(move |stopped| stopped.ending == ending.key());
    let row = |ending: Ending, stopped: &Stopped| {
        vec![
            ending.label().to_owned(),
            stopped.cause.clone(),
            stopped.place.clone(),
            stopped.rule.clone(),
            thousands(stopped.frames),
        ]
    };
    let rows: Vec<_> = Ending::ALL
        .into_iter()
        .flat_map(|ending| of(ending).map(move |stopped| row(ending, stopped)))
        .collect();
    table(&["stopped", "cause", "where", "rule", ">frames"], &rows)
}

fn judge_claims(arguments: &Claims) -> Answer {
    let mut campaign = load(&arguments.selection)?;
    if campaign.claims.is_empty() {
        return Err(format!(
            "{} has no claims; add them under [[claim]]",
            arguments.selection.file.display()
        ));
    }
    if let Some(glob) = &arguments.claim {
        campaign.claims.retain(|claim| glob::matches(glob, &claim.id));
        if campaign.claims.is_empty() {
            let file = arguments.selection.file.display();
            return Err(format!("{file}: no claim has an id that matches `{glob}`"));
        }
    }
    let claims = &campaign.claims;
    campaign
        .experiments
        .retain(|experiment| claims.iter().any(|claim| claim.is_about(&experiment.group)));
    let outcome = match arguments.no_run {
        true => {
            arguments.running.overwriting.folder(&arguments.running.out)?;
            found(&arguments.running.out)?
        }
        false => execute(&arguments.selection, &arguments.running, &campaign)?,
    };
    let results = outcome.results();
    let judged: Vec<_> = campaign.claims.iter().map(|claim| Judged::new(claim, &results)).collect();
    match arguments.json {
        true => print(&claims::lines(&judged)?)?,
        false => print(&claims::text(&judged, value_head(&results), arguments.markdown))?,
    }
    claims::tell(&judged);
    let wanted = if arguments.no_run { results.len() } else { campaign.experiments.len() };
    let is_same = finish(&arguments.running.out, &outcome, wanted, !arguments.no_run)?;
    Ok(is_same && judged.iter().all(|judged| judged.verdict.agrees()))
}

/// The results in a folder, as if they had just been made.
fn found(out: &Path) -> Result<Outcome, String> {
    let results = report::results(out).map_err(|error| error.to_string())?;
    let finished = results.into_iter().map(|result| Ran { result, is_cached: true }).collect();
    Ok(Outcome { finished, ..Outcome::default() })
}

/// What the found values are.
fn value_head(results: &[ResultFile]) -> &'static str {
    let is_all = |testbed: Testbed| results.iter().all(|result| result.testbed == testbed.name());
    if is_all(Testbed::Sim) {
        "model"
    } else if is_all(Testbed::Vm) {
        "vm"
    } else {
        "found"
    }
}

//! `candor lab`: experiments, their results, the report, and claims about them.
//!
//! `candor lab run --json` prints an object of type `result` per experiment: `experiment`, `sent`,
//! `received`, `lost`, `unrouted`, `total_latency` and `gateway_latency` (each with `min_ns`,
//! `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `max_ns`, or null), `file`. `candor lab list --json`
//! prints one of type `experiment`: `name`, `title`, `conditions`, `axes`. `candor lab claims
//! --json` prints one of type `claim`: `id`, `says`, `published`, `bounds`, `value` (null if it
//! could not be found), `agrees`, `note`.

use std::path::{Path, PathBuf};

use candor_lab::experiment::{self, Options};
use candor_lab::result::{Figures, ResultFile};
use candor_lab::run::results_of;
use candor_lab::{Campaign, Experiment, report, run};
use candor_lat::Metric;
use candor_lat::histogram::classic;
use candor_lat::text::{self, Canvas, Scale, Series};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::Answer;
use crate::output::{duration, json_line, print, table, thousands};
use crate::progress::{Bar, catch_interrupt, is_interrupted};

/// Bars of a classic histogram.
const HISTOGRAM_BINS: usize = 20;

/// Run experiments and report their latencies
#[derive(Subcommand)]
pub(crate) enum LabCommand {
    /// Run the experiments of a file, write results and a report
    ///
    /// Example: candor lab run examples/small-car.toml --only '*flood*' --set count=1000
    Run(Run),
    /// List the experiments of a file
    List(List),
    /// Write the report on the results in a folder again
    Report(Report),
    /// Draw the latency profiles of the results in a folder
    ///
    /// Example: candor lab show candor-report --only 'flood*' --metric egress_wait
    Show(Show),
    /// Run the experiments of a file and hold its claims against their results
    ///
    /// Exits with 1 if a claim does not hold.
    ///
    /// Example: candor lab claims campaigns/gateway-timing-sim.toml
    Claims(Claims),
}

#[derive(Args)]
struct Selection {
    /// The file of experiments
    file: PathBuf,
    /// Only experiments whose name matches; * stands for anything, ? for one character
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// Set a value in every experiment, such as count=1000 or traffic.kind=flood
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed, instead of the file's
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Args)]
struct Running {
    /// The folder for results and report
    #[arg(long, default_value = "candor-report", value_name = "DIR")]
    out: PathBuf,
    /// How many experiments run at a time; as many as there are processors if not given
    #[arg(long, value_name = "N")]
    jobs: Option<std::num::NonZeroUsize>,
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
    /// Print JSON Lines: an object of type "experiment" each
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Report {
    /// The folder with the results
    dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct Show {
    /// The folder with the results
    dir: PathBuf,
    /// Only experiments whose name matches; * stands for anything, ? for one character
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// The metric: total_latency, gateway_latency, egress_wait, ...
    #[arg(long, default_value = "gateway_latency", value_parser = parse_metric)]
    metric: Metric,
    /// A linear time axis instead of a logarithmic one
    #[arg(long)]
    linear: bool,
    /// Classic histograms, one after the other
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
    /// Print a table in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print JSON Lines: an object of type "claim" each
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &LabCommand) -> Answer {
    match command {
        LabCommand::Run(arguments) => run_experiments(arguments),
        LabCommand::List(arguments) => list(arguments),
        LabCommand::Report(arguments) => report_on(&arguments.dir),
        LabCommand::Show(arguments) => show(arguments),
        LabCommand::Claims(arguments) => claims(arguments),
    }
}

fn load(selection: &Selection) -> Result<Campaign, String> {
    let options =
        Options { set: selection.set.clone(), only: selection.only.clone(), seed: selection.seed };
    let campaign =
        experiment::load(&selection.file, &options).map_err(|error| error.to_string())?;
    if !campaign.warnings.is_empty() {
        eprint!("{}", campaign.warnings);
    }
    Ok(campaign)
}

/// The command that runs one experiment again.
fn command_for(selection: &Selection, experiment: &Experiment) -> String {
    let mut command = format!("candor lab run {}", quoted(&selection.file.display().to_string()));
    command.push_str(&format!(" --only {}", quoted(&experiment.name)));
    for set in &selection.set {
        command.push_str(&format!(" --set {}", quoted(set)));
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

/// Runs what is selected; whether all of it was finished comes with the results.
fn execute(
    selection: &Selection,
    running: &Running,
    campaign: &Campaign,
) -> Result<(Vec<ResultFile>, bool), String> {
    let jobs = running.jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
        std::num::NonZeroUsize::get,
    );
    catch_interrupt();
    let bar = Bar::new(&campaign.experiments);
    let command = |experiment: &Experiment| command_for(selection, experiment);
    let results = run::run(&campaign.experiments, &command, &running.out, jobs, &bar);
    bar.finish();
    let results = results.map_err(|error| error.to_string())?;
    let is_whole = results.len() == campaign.experiments.len();
    Ok((results, is_whole))
}

fn run_experiments(arguments: &Run) -> Answer {
    let campaign = load(&arguments.selection)?;
    let (results, is_whole) = execute(&arguments.selection, &arguments.running, &campaign)?;
    let out = &arguments.running.out;
    if arguments.json {
        let lines: Result<String, String> =
            results.iter().map(|result| summary(out, result)).collect();
        print(&lines?)?;
    } else {
        print(&overview(&results))?;
    }
    finish(out, &results, is_whole, campaign.experiments.len())
}

/// Writes the report and says where it is.
fn finish(out: &Path, results: &[ResultFile], is_whole: bool, wanted: usize) -> Answer {
    if !results.is_empty() {
        report::write(out).map_err(|error| error.to_string())?;
        eprintln!("report: {}", out.join("index.html").display());
    }
    if !is_whole {
        debug_assert!(is_interrupted());
        return Err(format!(
            "interrupted: {} of {wanted} experiments are finished and kept in {}",
            results.len(),
            results_of(out).display()
        ));
    }
    Ok(true)
}

fn list(arguments: &List) -> Answer {
    let campaign = load(&arguments.selection)?;
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
                    "conditions": experiment.conditions,
                    "axes": axes,
                }}))
            })
            .collect();
        print(&lines?)?;
    } else {
        let lines: String = campaign
            .experiments
            .iter()
            .map(|experiment| format!("{}\n", experiment.name))
            .collect();
        print(&lines)?;
        eprintln!("{} experiments", thousands(campaign.experiments.len() as u64));
    }
    Ok(true)
}

fn report_on(dir: &Path) -> Answer {
    report::write(dir).map_err(|error| error.to_string())?;
    eprintln!("report: {}", dir.join("index.html").display());
    Ok(true)
}

/// Profiles over one another, or histograms one after the other.
fn show(arguments: &Show) -> Answer {
    let results = report::results(&arguments.dir).map_err(|error| error.to_string())?;
    let selected = results.iter().filter(|result| {
        arguments
            .only
            .as_deref()
            .is_none_or(|glob| experiment::matches_glob(glob, &result.experiment))
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
            "{}: no result that matches has the metric {key}; `candor lab report` lists them",
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
fn summary(out: &Path, result: &ResultFile) -> Result<String, String> {
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
        "sent": result.counts.sent,
        "received": result.counts.received,
        "lost": result.counts.lost,
        "unrouted": result.counts.unrouted,
        "total_latency": latency(Metric::TotalLatency),
        "gateway_latency": latency(Metric::GatewayLatency),
        "file": file.display().to_string(),
    }}))
}

/// The figures of all results, and of a few the details.
pub(crate) fn overview(results: &[ResultFile]) -> String {
    let rows: Vec<_> = results
        .iter()
        .map(|result| {
            let figures = result.metric(Metric::GatewayLatency);
            let figure = |figure: fn(&Figures) -> i64| {
                figures.map_or("-".into(), |figures| duration(figure(figures) as f64))
            };
            let load = |index: usize| {
                result.buses.get(index).map_or("-".into(), |bus| format!("{:.1}", bus.load_percent))
            };
            vec![
                result.experiment.clone(),
                thousands(result.counts.sent),
                thousands(result.counts.received),
                thousands(result.counts.lost),
                figure(|figures| figures.p50_ns),
                figure(|figures| figures.p99_ns),
                figure(|figures| figures.p999_ns),
                figure(|figures| figures.max_ns),
                load(0),
                load(1),
            ]
        })
        .collect();
    let head = [
        "experiment",
        ">sent",
        ">received",
        ">lost",
        ">p50",
        ">p99",
        ">p99.9",
        ">max",
        ">load 1 %",
        ">load 2 %",
    ];
    let mut out = table(&head, &rows);
    out.push_str("\ngateway latency: total latency without the transmission on the target bus\n");
    if let [result] = results {
        out.push_str(&details(result));
    }
    out
}

/// What became of the frames, bus by bus and cause by cause.
pub(crate) fn details(result: &ResultFile) -> String {
    let counts = &result.counts;
    let mut out = format!("\n{}\n", result.conditions);
    out.push_str(&format!(
        "{} frames sent in {}: {} forwarded, {} not for the other bus, {} lost\n\n",
        thousands(counts.sent),
        duration(result.duration_ns as f64),
        thousands(counts.received),
        thousands(counts.unrouted),
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
    if !result.refused.is_empty() {
        let refused: Vec<_> = result
            .refused
            .iter()
            .map(|refused| {
                vec![
                    refused.cause.clone(),
                    refused.place.clone(),
                    refused.rule.clone(),
                    thousands(refused.frames),
                ]
            })
            .collect();
        out.push('\n');
        out.push_str(&table(&["refused: cause", "where", "rule", ">frames"], &refused));
    }
    out
}

fn claims(arguments: &Claims) -> Answer {
    let campaign = load(&arguments.selection)?;
    if campaign.claims.is_empty() {
        return Err(format!(
            "{} has no claims; write some under [[claim]]",
            arguments.selection.file.display()
        ));
    }
    let (results, is_whole) = execute(&arguments.selection, &arguments.running, &campaign)?;
    let judged: Vec<_> =
        campaign.claims.iter().map(|claim| (claim, claim.judge(&results))).collect();
    let value = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
    if arguments.json {
        let lines: Result<String, String> = judged
            .iter()
            .map(|(claim, verdict)| {
                json_line(&json!({"type": "claim", "data": {
                    "id": claim.id,
                    "says": claim.says,
                    "published": claim.published,
                    "bounds": claim.bounds(),
                    "value": verdict.value,
                    "agrees": verdict.agrees,
                    "note": claim.note,
                }}))
            })
            .collect();
        print(&lines?)?;
    } else {
        let rows: Vec<_> = judged
            .iter()
            .map(|(claim, verdict)| {
                let agrees = if verdict.agrees { "yes" } else { "no" };
                vec![
                    claim.id.clone(),
                    claim.says.clone(),
                    claim.published.clone(),
                    value(verdict.value),
                    claim.bounds(),
                    agrees.into(),
                    claim.note.clone(),
                ]
            })
            .collect();
        let head = ["id", "claim", "published", "model", "agreement is", "agrees", "note"];
        let text = if arguments.markdown {
            let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
            let head: Vec<_> = head.iter().map(|&cell| cell.to_owned()).collect();
            let rule = vec!["---".to_owned(); head.len()];
            let rows: String = rows.iter().map(|row| line(row)).collect();
            format!("{}{}{rows}", line(&head), line(&rule))
        } else {
            let rows: Vec<_> = rows.into_iter().map(|row| row[..6].to_vec()).collect();
            table(&["id", "claim", "published", ">model", "agreement is", "agrees"], &rows)
        };
        print(&text)?;
    }
    let agreeing = judged.iter().filter(|(_, verdict)| verdict.agrees).count();
    eprintln!("{agreeing} of {} claims agree", judged.len());
    finish(&arguments.running.out, &results, is_whole, campaign.experiments.len())?;
    Ok(agreeing == judged.len())
}

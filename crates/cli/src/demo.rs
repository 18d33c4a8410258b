//! `candor demo`: the main job on a car of its own, within seconds.

use std::path::{Path, PathBuf};

use candor_lab::campaign::{self, Options};
use candor_lab::report::{self, Besides};
use candor_lab::run::Settings;
use candor_lab::testbed::Testbeds;
use candor_lab::{Experiment, run};
use candor_lat::Metric;
use candor_lat::text::{self, Canvas, Charset, Scale, Series};
use candor_output::say;
use clap::Args;

use crate::Answer;
use crate::lab::narrow_overview;
use crate::output::print;
use crate::output::shell_word;
use crate::overwrite::Overwriting;
use crate::progress::{Bar, catch_interrupt};

/// The files of the demo, so that it runs anywhere.
const FILES: &[(&str, &str)] = &[
    ("small-car.toml", include_str!("../../../examples/small-car.toml")),
    ("small-car.dbc", include_str!("../../../examples/small-car.dbc")),
    ("small-car.rules.toml", include_str!("../../../examples/small-car.rules.toml")),
    ("replay.toml", include_str!("../../../examples/replay.toml")),
    ("replay.rules.toml", include_str!("../../../examples/replay.rules.toml")),
    ("drive.log", include_str!("../../../examples/recordings/drive.log")),
];

/// Two buses of a small car, a gateway with a dozen rules, three kinds of traffic.
#[derive(Args)]
pub(crate) struct Demo {
    /// The folder for results and report
    #[arg(long, default_value = "candor-report", value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
}

pub(crate) fn run(arguments: &Demo) -> Answer {
    let fail = |error: candor_lab::Error| error.to_string();
    arguments.overwriting.folder(&arguments.out)?;
    run::prepare(&arguments.out).map_err(fail)?;
    let folder = arguments.out.join("experiment");
    write_files(&folder, arguments.overwriting)?;
    let file = folder.join("small-car.toml");
    let campaign = campaign::load(&file, &Options::default()).map_err(fail)?;

    catch_interrupt();
    let bar = Bar::new(&campaign.experiments);
    let command = |experiment: &Experiment| {
        let file = shell_word(&file.display().to_string());
        format!("candor lab run {file} --only {}", experiment.name)
    };
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let settings = Settings {
        testbeds: &Testbeds::default(),
        command: &command,
        out: &arguments.out,
        jobs,
        verifies: false,
    };
    let outcome = run::run(&campaign.experiments, &settings, &bar);
    bar.finish();
    let mut outcome = outcome.map_err(fail)?;
    if let Some((_, error)) = outcome.failures.pop() {
        return Err(error.to_string());
    }
    if outcome.is_interrupted {
        return Err("interrupted".into());
    }
    let results = outcome.results();

    let series: Vec<_> = results
        .iter()
        .filter_map(|result| {
            let figures = result.metric(Metric::GatewayLatency)?;
            Some(Series { name: &result.title, profile: &figures.profile })
        })
        .collect();
    let canvas =
        Canvas { width: 80, height: 18, time: Scale::Logarithmic, charset: Charset::Unicode };
    let mut out = format!("{}\n\n", campaign.title);
    out.push_str(&text::profile(Metric::GatewayLatency.label(), &series, canvas));
    out.push('\n');
    out.push_str(&narrow_overview(&outcome.finished));
    print(&out)?;

    let latest: Vec<_> = results.iter().map(|result| result.experiment.clone()).collect();
    let besides = Besides { latest: Some(&latest), ..Besides::default() };
    report::write(&arguments.out, besides).map_err(|error| error.to_string())?;
    let index = arguments.out.join("index.html");
    say!("report: {}", index.display());
    let replay = shell_word(&folder.join("replay.toml").display().to_string());
    say!("next, your own car:\n  candor lab run {replay} --set traffic.log=YOUR-CANDUMP.log");
    let port = shell_word(&format!("file:{}?loop=true", folder.join("drive.log").display()));
    let dbc = shell_word(&folder.join("small-car.dbc").display().to_string());
    say!("next, its signals in a browser:\n  candor signals serve --port {port} --dbc {dbc}");
    Ok(true)
}

fn write_files(folder: &Path, overwriting: Overwriting) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let remedy = candor_recording::remedy(&error, "name another folder with --out");
        format!("{} cannot be written: {error}; {remedy}", folder.display())
    })?;
    FILES.iter().try_for_each(|(name, text)| overwriting.write(&folder.join(name), text.as_bytes()))
}

//! The report: results as a page that opens from disk, without a network and without a server.
//!
//! ```text
//! DIR/results/EXPERIMENT.json     read: figures, latency profiles, how to repeat it
//! DIR/results/EXPERIMENT.csv      read if present: one line per frame
//! DIR/index.html                  the page
//! DIR/report/app.js, style.css    its script and its looks
//! DIR/report/plotly.min.js        the plotting library, once per report
//! DIR/report/data.js              the key figures of all experiments
//! DIR/report/figures.json         the charts of the file of experiments that the page links to
//! DIR/report/claims.json          what became of the claims of that file, when they were last judged
//! DIR/report/latest.json          which experiments ran last: these are shown when the page is opened
//! DIR/report/charts/EXPERIMENT.js latency profiles of one experiment
//! DIR/report/frames/EXPERIMENT.js its time chart, if there is a line per frame
//! ```
//!
//! A page opened from disk may not fetch files, but it may load scripts. So data come as scripts
//! that call a function of the page: `data.js` at the start, the profiles of an experiment when it is
//! chosen, its time chart when it comes into view. That way a report on a thousand experiments opens as fast as one on three.
//!
//! A time chart is cut into at most 2,000 stretches of frames, however long the experiment: of each
//! the shortest and the longest latency and the refused frames are kept, so that no outlier
//! is thinned away.
//!
//! Everything that comes from a result file is data to the page: it reaches the document as text,
//! never as markup. Files are replaced as a whole or not at all, and the same results give the same
//! bytes.

mod chart;
mod past;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use candor_causes::Cause;
use candor_lat::section::{Cell, Column, Row, SectionKind, Shown};
use candor_lat::{Metric, TapPath};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::axis;
use crate::campaign::Figure;
use crate::compare::{Side, profiles_of, read_profiles};
use crate::history::history;
use crate::result::ResultFile;
use crate::results::{Error, files_in, read_files, unreadable};
use crate::sections::{self, RULES};
use crate::sweep::base_name;

/// A report that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The page to open.
    pub index: PathBuf,
    /// How many experiments it shows.
    pub experiments: usize,
}

/// What a page shows besides results. Without one of them it stays with what it knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Besides<'a> {
    /// The experiments that ran last: the page opens on them and lists them first.
    pub latest: Option<&'a [String]>,
    /// What the page links to.
    pub figures: Option<&'a [Figure]>,
    /// What became of claims.
    pub claims: Option<&'a [JudgedClaim]>,
}

/// A claim as the page shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedClaim {
    pub id: String,
    pub says: String,
    /// What was published, for people.
    pub published: String,
    /// The values that were found, for people.
    pub found: String,
    /// The bounds, for people.
    pub bounds: String,
    /// The word of its [`Agreement`](crate::claims::Agreement).
    pub agreement: String,
    /// The alternative that it is about, whose claims are not counted.
    pub alternative: Option<String>,
    /// What is known about an agreement or its lack.
    pub note: String,
}

/// Writes the report on all results in `dir`.
///
/// # Errors
/// There are no results, a result is broken, or a file cannot be read or written. A report that
/// was there before stays usable: its page is replaced last.
pub fn write(dir: &Path, besides: Besides<'_>) -> Result<Report, Error> {
    let results = read_files(&dir.join("results"))?;
    let side = Side {
        results: results.iter().map(|(_, _, result)| result.clone()).collect(),
        // What cannot be read names no functions; `lab history` says why.
        profiles: read_profiles(&profiles_of(dir)).unwrap_or_default(),
    };
    let assets = dir.join("report");
    let (charts, frames) = (assets.join("charts"), assets.join("frames"));
    make_dir(&charts)?;
    make_dir(&frames)?;

    let mut page = Page::new(kept(&assets.join("latest.json"), besides.latest)?);
    page.past = past::past(history(&side).points);
    drop(side);
    for (path, id, mut result) in results {
        let profiles = take_profiles(&mut result);
        write_script(&charts, &id, "candorProfiles", &profiles)?;
        let taps = TapPath::by_name(&result.path).unwrap_or(TapPath::CAN_GATEWAY);
        let thinned = read_frames(&path.with_extension("csv"), taps)?;
        if let Some(thinned) = &thinned {
            write_script(&frames, &id, "candorFrames", thinned)?;
        }
        let has_frames = thinned.is_some();
        let seed_text = result.seed.to_string();
        let idle_rules = take_idle_rules(&mut result);
        let versions = axis::versions(&result);
        page.experiments.push(Experiment {
            id,
            seed_text,
            has_frames,
            idle_rules,
            base: base_name(&result).to_owned(),
            versions,
            result,
        });
    }
    page.arrange();
    page.figures = page.drawn(kept(&assets.join("figures.json"), besides.figures)?);
    page.claims = kept(&assets.join("claims.json"), besides.claims)?;
    remove_stale(&charts, &page, |_| true)?;
    remove_stale(&frames, &page, |experiment| experiment.has_frames)?;

    replace(&assets.join("plotly.min.js"), candor_plotly::script().as_bytes())?;
    replace(&assets.join("style.css"), include_bytes!("report/style.css"))?;
    replace(&assets.join("app.js"), include_bytes!("report/app.js"))?;
    replace(&assets.join("data.js"), &call("candorReport", &[json(&page)]))?;
    let index = dir.join("index.html");
    replace(&index, include_bytes!("report/index.html"))?;
    Ok(Report { index, experiments: page.experiments.len() })
}

/// Keeps what the last run says of the page, or tells it.
fn kept<T: Clone + Serialize + DeserializeOwned>(
    path: &Path,
    said: Option<&[T]>,
) -> Result<Vec<T>, Error> {
    match said {
        Some(said) => {
            replace(path, json(&said).as_bytes())?;
            Ok(said.to_vec())
        }
        // What cannot be read is as good as unknown: it only decides what is shown first.
        None => {
            let text = fs::read(path).unwrap_or_default();
            Ok(serde_json::from_slice(&text).unwrap_or_default())
        }
    }
}

/// The frames of an experiment, thinned, if there is a line for each.
fn read_frames(path: &Path, taps: &'static TapPath) -> Result<Option<chart::Frames>, Error> {
    match fs::File::open(path) {
        Ok(file) => chart::read(path, file, taps).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Writes a script that hands something of an experiment to the page.
fn write_script(
    folder: &Path,
    id: &str,
    function: &str,
    value: &impl Serialize,
) -> Result<(), Error> {
    replace(&folder.join(format!("{id}.js")), &call(function, &[json(&id), json(value)]))
}

/// What `data.js` hands to the page.
#[derive(Serialize)]
struct Page {
    metrics: Vec<MetricName>,
    causes: Vec<CauseName>,
    sections: Vec<SectionName>,
    /// The experiments that ran last, in their order.
    latest: Vec<String>,
    figures: Vec<Drawn>,
    claims: Vec<JudgedClaim>,
    /// What ran on one kernel after the other.
    past: Vec<past::Past>,
    /// Another one after another run: then the page does not go on with what was chosen before.
    run: String,
    /// Those that ran last come first.
    experiments: Vec<Experiment>,
}

/// A chart that the page links to.
#[derive(Serialize)]
struct Drawn {
    title: String,
    metric: String,
    /// What is chosen on it: of experiments with several seeds the run with the largest value.
    experiments: Vec<String>,
}

/// A metric as the page shows it, from the one definition there is.
#[derive(Serialize)]
struct MetricName {
    key: &'static str,
    label: &'static str,
    formula: String,
}

/// A cause as the page shows it, from the one list there is.
#[derive(Serialize)]
struct CauseName {
    name: &'static str,
    ending: &'static str,
    meaning: &'static str,
}

/// A section that the page shows, from the one definition there is.
#[derive(Serialize)]
struct SectionName {
    key: &'static str,
    title: &'static str,
    columns: Vec<ColumnName>,
}

/// Its columns.
#[derive(Serialize)]
struct ColumnName {
    key: &'static str,
    label: &'static str,
    unit: &'static str,
}

/// A result and the name of its file, which is also that of its charts.
#[derive(Serialize)]
struct Experiment {
    id: String,
    /// A seed uses all 64 bits, a number in JavaScript has 53.
    seed_text: String,
    /// Whether there is a time chart.
    has_frames: bool,
    /// Rules and destinations that took no frame: left out of the result, since there may be
    /// thousands.
    idle_rules: usize,
    /// The name of the experiment that a matrix made it of; empty if that has none.
    base: String,
    /// The axes whose value is a version, which looks like a number to the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    versions: Vec<String>,
    #[serde(flatten)]
    result: ResultFile,
}

impl Page {
    fn new(latest: Vec<String>) -> Self {
        let name = |metric: Metric| MetricName {
            key: metric.key(),
            label: metric.label(),
            formula: metric.formula(),
        };
        let cause = |cause: Cause| CauseName {
            name: cause.name(),
            ending: cause.ending().key(),
            meaning: cause.meaning(),
        };
        let section = |kind: &&SectionKind| {
            let column =
                |it: &Column| ColumnName { key: it.key, label: it.label, unit: it.unit.word() };
            (kind.shown > Shown::Nowhere).then(|| SectionName {
                key: kind.key,
                title: kind.title,
                columns: kind.columns.iter().map(column).collect(),
            })
        };
        Self {
            metrics: Metric::ALL.map(name).into(),
            causes: Cause::ALL.map(cause).into(),
            sections: sections::ALL.iter().filter_map(section).collect(),
            latest,
            figures: Vec::new(),
            claims: Vec::new(),
            past: Vec::new(),
            run: String::new(),
            experiments: Vec::new(),
        }
    }

    /// The figures that some of the experiments are in.
    fn drawn(&self, figures: Vec<Figure>) -> Vec<Drawn> {
        let drawn = |figure: Figure| {
            let mut worst: Vec<&Experiment> = Vec::new();
            for it in self.experiments.iter().filter(|it| figure.shows(it.result.group())) {
                let max =
                    |it: &Experiment| it.result.metrics.get(&figure.metric).map(|it| it.max_ns);
                match worst.iter_mut().find(|other| other.result.group() == it.result.group()) {
                    Some(other) if max(it) > max(other) => *other = it,
                    Some(_) => {}
                    None => worst.push(it),
                }
            }
            let experiments: Vec<_> = worst.iter().map(|it| it.id.clone()).collect();
            (!experiments.is_empty()).then_some(Drawn {
                title: figure.title,
                metric: figure.metric,
                experiments,
            })
        };
        figures.into_iter().filter_map(drawn).collect()
    }

    /// Puts the experiments that ran last first, in their order, and gives their run a name. The same
    /// results have the same name.
    fn arrange(&mut self) {
        let Self { latest, experiments, .. } = self;
        latest.retain(|id| experiments.iter().any(|experiment| experiment.id == *id));
        let place = |id: &str| latest.iter().position(|latest| latest == id);
        // Stable: the others stay in the order of their names.
        experiments.sort_by_key(|experiment| place(&experiment.id).unwrap_or(usize::MAX));
        let mut hash = Sha256::new();
        for experiment in experiments.iter().take(latest.len()) {
            hash.update(json(experiment));
        }
        self.run = hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    }
}

/// Moves the latency profiles out of a result: they are what is large in it, and the page wants
/// them only of experiments that are chosen.
fn take_profiles(result: &mut ResultFile) -> BTreeMap<String, Vec<(i64, u64)>> {
    let profiles = result.metrics.iter_mut();
    profiles.map(|(key, figures)| (key.clone(), core::mem::take(&mut figures.profile))).collect()
}

/// Takes out the rules that took no frame; how many they were.
fn take_idle_rules(result: &mut ResultFile) -> usize {
    let counts = ["handled", "refused", "lost"];
    let is_busy = |key: &str, rule: &Row| rule.get(key).and_then(Cell::number) > Some(0.0);
    result.sections.retain(&RULES, |rule| counts.iter().any(|key| is_busy(key, rule)))
}

/// Removes scripts of experiments that are no longer there, or that have none any more.
fn remove_stale(
    folder: &Path,
    page: &Page,
    has_script: impl Fn(&Experiment) -> bool,
) -> Result<(), Error> {
    let current = page.experiments.iter().filter(|experiment| has_script(experiment));
    let current: BTreeSet<&str> = current.map(|experiment| experiment.id.as_str()).collect();
    let found = files_in(folder, "js").map_err(|error| unreadable(folder, &error))?;
    for path in found {
        let is_current =
            path.file_stem().and_then(OsStr::to_str).is_some_and(|stem| current.contains(stem));
        if !is_current {
            fs::remove_file(&path).map_err(|error| unwritable(&path, &error))?;
        }
    }
    Ok(())
}

/// A script that calls `function`.
fn call(function: &str, arguments: &[String]) -> Vec<u8> {
    format!("{function}({});\n", arguments.join(", ")).into_bytes()
}

/// JSON that is harmless inside a script as well as inside a page.
fn json(value: &impl Serialize) -> String {
    // Only text may hold a `<` in JSON, and there it may be written as an escape.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()).replace('<', "\\u003c")
}

fn make_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|error| unwritable(path, &error))
}

/// Puts `bytes` in place of the file at `path`, as a whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    candor_output::replace(path, bytes).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let otherwise = "choose a folder that you may write to, or free some disk space";
    let hint = candor_recording::remedy(error, otherwise);
    Error::new(path, format!("cannot be written: {error}"), hint)
}

#[cfg(test)]
pub(crate) mod tests;

//! The report: results as a page that opens from disk, without a network and without a server.
//!
//! ```text
//! DIR/results/EXPERIMENT.json     read: figures, latency profiles, how to repeat it
//! DIR/results/EXPERIMENT.csv      read if present: one line per frame
//! DIR/index.html                  the page
//! DIR/report/app.js, style.css    its script and its looks
//! DIR/report/plotly.min.js        the plotting library, once per report
//! DIR/report/data.js              the key figures of all experiments
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

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use candor_causes::Cause;
use candor_lat::Metric;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::result::{ResultFile, SCHEMA};

/// A report that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The page to open.
    pub index: PathBuf,
    /// How many experiments it shows.
    pub experiments: usize,
}

/// Why there is no report: where, what is wrong, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file or folder.
    pub path: PathBuf,
    /// Line and column, both from 1, where they are known.
    pub position: Option<(usize, usize)>,
    /// What is wrong, in one clause that begins with a small letter.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

/// One line: `FILE:LINE:COLUMN: what is wrong; the remedy`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}; {}", self.message, self.hint)
    }
}
impl std::error::Error for Error {}

impl Error {
    fn new(path: &Path, message: impl Into<String>, hint: &'static str) -> Self {
        Self { path: path.to_owned(), position: None, message: message.into(), hint }
    }

    fn at(mut self, line: usize, column: usize) -> Self {
        self.position = Some((line, column));
        self
    }
}

/// The remedy for a result that this version cannot read.
const RUN_AGAIN: &str = "delete the file or run the experiment again";

/// The longest result file that is read: 64 MB, hundreds of times the usual.
const MAX_RESULT_LEN: u64 = 1 << 26;

/// Writes the report on all results in `dir`.
///
/// `latest` are the experiments that ran last: the page opens on them and lists them first. Without
/// them it stays with those it knows.
///
/// # Errors
/// There are no results, a result is broken, or a file cannot be read or written. A report that
/// was there before stays usable: its page is replaced last.
pub fn write(dir: &Path, latest: Option<&[String]>) -> Result<Report, Error> {
    let results = read_results(&dir.join("results"))?;
    let assets = dir.join("report");
    let (charts, frames) = (assets.join("charts"), assets.join("frames"));
    make_dir(&charts)?;
    make_dir(&frames)?;

    let mut page = Page::new(latest_run(&assets.join("latest.json"), latest)?);
    for (path, id, mut result) in results {
        let profiles = take_profiles(&mut result);
        write_script(&charts, &id, "candorProfiles", &profiles)?;
        let thinned = read_frames(&path.with_extension("csv"))?;
        if let Some(thinned) = &thinned {
            write_script(&frames, &id, "candorFrames", thinned)?;
        }
        let has_frames = thinned.is_some();
        let seed_text = result.seed.to_string();
        let idle_rules = take_idle_rules(&mut result);
        page.experiments.push(Experiment { id, seed_text, has_frames, idle_rules, result });
    }
    page.arrange();
    remove_stale(&charts, &page, |_| true)?;
    remove_stale(&frames, &page, |experiment| experiment.has_frames)?;

    replace(&assets.join("plotly.min.js"), PLOTLY.as_bytes())?;
    replace(&assets.join("style.css"), include_bytes!("report/style.css"))?;
    replace(&assets.join("app.js"), include_bytes!("report/app.js"))?;
    replace(&assets.join("data.js"), &call("candorReport", &[json(&page)]))?;
    let index = dir.join("index.html");
    replace(&index, include_bytes!("report/index.html"))?;
    Ok(Report { index, experiments: page.experiments.len() })
}

/// Keeps which experiments ran last, or tells it.
fn latest_run(path: &Path, latest: Option<&[String]>) -> Result<Vec<String>, Error> {
    match latest {
        Some(latest) => {
            replace(path, json(&latest).as_bytes())?;
            Ok(latest.to_vec())
        }
        // What cannot be read is as good as unknown: it only decides what is shown first.
        None => {
            let text = fs::read(path).unwrap_or_default();
            Ok(serde_json::from_slice(&text).unwrap_or_default())
        }
    }
}

/// The frames of an experiment, thinned, if there is a line for each.
fn read_frames(path: &Path) -> Result<Option<chart::Frames>, Error> {
    match fs::File::open(path) {
        Ok(file) => chart::read(path, file).map(Some),
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
    /// The experiments that ran last, in their order.
    latest: Vec<String>,
    /// Another one after another run: then the page does not go on with what was chosen before.
    run: String,
    /// Those that ran last come first.
    experiments: Vec<Experiment>,
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
        Self {
            metrics: Metric::ALL.map(name).into(),
            causes: Cause::ALL.map(cause).into(),
            latest,
            run: String::new(),
            experiments: Vec::new(),
        }
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

/// All results in the order of their file names.
/// All results in `dir`, in the order of their file names.
///
/// # Errors
/// There are none, or one is broken or cannot be read.
pub fn results(dir: &Path) -> Result<Vec<ResultFile>, Error> {
    let results = read_results(&crate::run::results_of(dir))?;
    Ok(results.into_iter().map(|(_, _, result)| result).collect())
}

fn read_results(dir: &Path) -> Result<Vec<(PathBuf, String, ResultFile)>, Error> {
    const RUN_FIRST: &str = "run `candor lab run FILE --out DIR` first";
    let mut paths = match files_in(dir, "json") {
        Ok(paths) => paths,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::new(dir, "the folder does not exist", RUN_FIRST));
        }
        Err(error) => return Err(unreadable(dir, &error)),
    };
    if paths.is_empty() {
        return Err(Error::new(dir, "the folder contains no results", RUN_FIRST));
    }
    paths.sort();
    paths.into_iter().map(read_result).collect()
}

fn read_result(path: PathBuf) -> Result<(PathBuf, String, ResultFile), Error> {
    let Some(id) = path.file_stem().and_then(OsStr::to_str).map(str::to_owned) else {
        return Err(Error::new(&path, "the file name is not UTF-8", "rename the file"));
    };
    let mut text = Vec::new();
    let read =
        fs::File::open(&path).and_then(|file| file.take(MAX_RESULT_LEN + 1).read_to_end(&mut text));
    let len = read.map_err(|error| unreadable(&path, &error))?;
    if len as u64 > MAX_RESULT_LEN {
        return Err(Error::new(&path, "the file is too large for a result", RUN_AGAIN));
    }
    let result = parse(&path, &text)?;
    Ok((path, id, result))
}

/// What is read of a result first, so that a file of another kind is called that.
#[derive(Deserialize)]
struct Header {
    schema: String,
}

fn parse(path: &Path, text: &[u8]) -> Result<ResultFile, Error> {
    let broken = |error: serde_json::Error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        let message = format!("this is not a complete result: {message}");
        Error::new(path, message, RUN_AGAIN).at(error.line(), error.column().max(1))
    };
    let Header { schema } = serde_json::from_slice(text).map_err(broken)?;
    if schema != SCHEMA {
        let message = format!("the schema is {schema:?}, but this version reads {SCHEMA:?}");
        return Err(Error::new(path, message, RUN_AGAIN));
    }
    serde_json::from_slice(text).map_err(broken)
}

/// Moves the latency profiles out of a result: they are what is large in it, and the page wants
/// them only of experiments that are chosen.
fn take_profiles(result: &mut ResultFile) -> BTreeMap<String, Vec<(i64, u64)>> {
    let profiles = result.metrics.iter_mut();
    profiles.map(|(key, figures)| (key.clone(), core::mem::take(&mut figures.profile))).collect()
}

/// Takes out the rules that took no frame; how many they were.
fn take_idle_rules(result: &mut ResultFile) -> usize {
    let all = result.rules.len();
    result.rules.retain(|rule| rule.handled + rule.refused + rule.lost > 0);
    all - result.rules.len()
}

/// The files of a folder with that extension, in no order.
fn files_in(dir: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(extension)) && path.is_file() {
            paths.push(path);
        }
    }
    Ok(paths)
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

/// The plotting library, plotly.js: see `build.rs`.
pub static PLOTLY: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.min.js"));

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

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::new(path, format!("cannot be read: {error}"), "check that it exists and is readable")
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let hint = "choose a folder that you may write to, or free some disk space";
    Error::new(path, format!("cannot be written: {error}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Counts, Figures};
    use candor_lat::Histogram;

    /// A result of three frames, one of them lost.
    fn result() -> String {
        let latencies: Histogram = [40_000, 90_000].into_iter().collect();
        let metrics = Figures::of(&latencies).map(|figures| ("total_latency".to_owned(), figures));
        let result = ResultFile {
            schema: SCHEMA.into(),
            experiment: "one".into(),
            group: None,
            title: "</script><b>One</b>".into(),
            candor: "0.1.0".into(),
            command: "candor lab run one.toml".into(),
            testbed: "sim".into(),
            conditions: String::new(),
            machine: None,
            seed: u64::MAX,
            axes: BTreeMap::new(),
            config: String::new(),
            inputs: Vec::new(),
            duration_ns: 93_000,
            counts: Counts { sent: 3, received: 2, lost: 1, ..Counts::default() },
            stopped: Vec::new(),
            buses: Vec::new(),
            rules: Vec::new(),
            metrics: metrics.into_iter().collect(),
            notes: Vec::new(),
            effort: None,
        };
        result.to_json()
    }

    const FRAMES: &str = "\
number,sent,received,outcome,source_end_ns,target_end_ns,total_latency_ns,gateway_latency_ns
1,123#0001,123#0001,forwarded,1000,41000,40000,10000
2,123#0002,,rx_overflow,2000,,,
3,123#0003,123#0003,forwarded,3000,93000,90000,60000
";

    /// A folder with these files under `results`.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("results")).unwrap();
        for (name, text) in files {
            fs::write(dir.path().join("results").join(name), text).unwrap();
        }
        dir
    }

    /// Every file of the report by name.
    fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for part in ["", "report", "report/charts", "report/frames"] {
            for entry in fs::read_dir(dir.join(part)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    files.insert(path.strip_prefix(dir).unwrap().into(), fs::read(&path).unwrap());
                }
            }
        }
        files
    }

    fn text(files: &BTreeMap<PathBuf, Vec<u8>>, name: &str) -> String {
        String::from_utf8(files[Path::new(name)].clone()).unwrap()
    }

    #[test]
    fn a_report_is_complete_and_the_same_every_time() {
        let dir = folder(&[("b.json", &result()), ("b.csv", FRAMES), ("a.json", &result())]);
        let report = write(dir.path(), None).unwrap();
        assert_eq!(report, Report { index: dir.path().join("index.html"), experiments: 2 });
        let first = files(dir.path());
        let names: Vec<_> = first.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "index.html",
                "report/app.js",
                "report/charts/a.js",
                "report/charts/b.js",
                "report/data.js",
                "report/frames/b.js",
                "report/plotly.min.js",
                "report/style.css",
            ]
        );
        write(dir.path(), None).unwrap();
        assert!(files(dir.path()) == first, "the second report differs");
    }

    #[test]
    fn the_library_is_alone_in_its_file() {
        assert!(PLOTLY.starts_with("/**\n* plotly.js v"), "{:?}", PLOTLY.get(..40));
        assert!(PLOTLY.trim_end().ends_with("return Plotly;\n}));"));
        assert!(!PLOTLY.contains("<script"));
    }

    #[test]
    fn data_say_what_the_results_say() {
        let dir = folder(&[("one.json", &result()), ("one.csv", FRAMES)]);
        write(dir.path(), None).unwrap();
        let files = files(dir.path());
        let data = text(&files, "report/data.js");
        assert!(
            data.starts_with("candorReport({\"metrics\":[{\"key\":\"total_latency\","),
            "{data}"
        );
        assert!(data.contains(r#""seed_text":"18446744073709551615""#), "{data}");
        assert!(data.contains(r#""title":"\u003c/script>\u003cb>One\u003c/b>""#), "{data}");
        assert!(data.contains(r#""profile":[]"#), "{data}");
        assert_eq!(
            text(&files, "report/charts/one.js"),
            "candorProfiles(\"one\", {\"total_latency\":[[40000,2],[90000,1]]});\n"
        );
        assert_eq!(
            text(&files, "report/frames/one.js"),
            concat!(
                r#"candorFrames("one", {"count":3,"frames_per_bucket":1,"latencies":{"#,
                r#""gateway_latency":{"number":[1,2],"time_ns":[1000,2000],"latency_ns":[10000,60000]},"#,
                r#""total_latency":{"number":[1,2],"time_ns":[1000,2000],"latency_ns":[40000,90000]}},"#,
                r#""stopped":{"rx_overflow":{"number":[2],"time_ns":[2000],"frames":[1]}}});"#,
                "\n"
            )
        );
    }

    #[test]
    fn charts_of_removed_experiments_go() {
        let dir = folder(&[("a.json", &result()), ("b.json", &result())]);
        write(dir.path(), None).unwrap();
        fs::remove_file(dir.path().join("results/a.json")).unwrap();
        write(dir.path(), None).unwrap();
        let charts: Vec<_> = files_in(&dir.path().join("report/charts"), "js").unwrap();
        assert_eq!(charts, [dir.path().join("report/charts/b.js")]);
    }

    /// The experiments in the order of the page, those that ran last, and the name of their run.
    fn order(dir: &Path) -> (Vec<String>, Vec<String>, String) {
        let script = fs::read_to_string(dir.join("report/data.js")).unwrap();
        let data = script.trim_start_matches("candorReport(").trim_end_matches(");\n");
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let all = data["experiments"].as_array().unwrap();
        let ids = all.iter().map(|experiment| text(&experiment["id"])).collect();
        let latest = data["latest"].as_array().unwrap().iter().map(text).collect();
        (ids, latest, text(&data["run"]))
    }

    #[test]
    fn what_ran_last_comes_first_and_stays_known() {
        let result = result();
        let dir = folder(&[("a.json", &result), ("b.json", &result), ("c.json", &result)]);
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        write(dir.path(), None).unwrap();
        let (ids, latest, nothing) = order(dir.path());
        assert_eq!((ids, latest), (names(&["a", "b", "c"]), names(&[])));
        write(dir.path(), Some(&names(&["c", "a"]))).unwrap();
        let (ids, latest, run) = order(dir.path());
        assert_eq!((ids, latest), (names(&["c", "a", "b"]), names(&["c", "a"])));
        assert_ne!(run, nothing);
        // Written again without a run, also after a result is gone.
        write(dir.path(), None).unwrap();
        assert_eq!(order(dir.path()).2, run);
        fs::remove_file(dir.path().join("results/c.json")).unwrap();
        write(dir.path(), None).unwrap();
        let (ids, latest, _) = order(dir.path());
        assert_eq!((ids, latest), (names(&["a", "b"]), names(&["a"])));
        fs::write(dir.path().join("report/latest.json"), "[3").unwrap();
        write(dir.path(), None).unwrap();
        assert_eq!(order(dir.path()).1, names(&[]));
    }

    #[test]
    fn what_cannot_be_read_says_where_and_why() {
        let header = FRAMES.lines().next().unwrap();
        let wrong_number = format!("{header}\n1,123#,,forwarded,1000,x1,,\n");
        let result = result();
        let short_line = format!("{header}\n1,123#\n");
        let long_line = format!("{header}\n{}\n", "1".repeat(5_000));
        for (files, message) in [
            (
                &[][..],
                "results: the folder contains no results; run `candor lab run FILE --out DIR` \
                 first",
            ),
            (
                &[("one.json", "{\n  \"schema\": \"candor-result/2\",\n")],
                "results/one.json:3:1: this is not a complete result: EOF while parsing a value; \
                 delete the file or run the experiment again",
            ),
            (
                &[("one.json", r#"{"schema": "candor-result/2", "experiment": 3}"#)],
                "results/one.json:1:45: this is not a complete result: invalid type: integer `3`, \
                 expected a string; delete the file or run the experiment again",
            ),
            (
                &[("one.json", r#"{"schema": "candor-result/1"}"#)],
                "results/one.json: the schema is \"candor-result/1\", but this version reads \
                 \"candor-result/2\"; delete the file or run the experiment again",
            ),
            (
                &[("one.json", &result), ("one.csv", "")],
                "results/one.csv:1:1: the header line is missing; \
                 delete the file or run the experiment again",
            ),
            (
                &[("one.json", &result), ("one.csv", "number,sent\n")],
                "results/one.csv:1:1: the column `outcome` is missing; \
                 delete the file or run the experiment again",
            ),
            (
                &[("one.json", &result), ("one.csv", &wrong_number)],
                "results/one.csv:2:24: `x1` is not a target_end_ns; \
                 delete the file or run the experiment again",
            ),
            (
                &[("one.json", &result), ("one.csv", &short_line)],
                "results/one.csv:2:1: 2 columns, expected 8; \
                 delete the file or run the experiment again",
            ),
            (
                &[("one.json", &result), ("one.csv", &long_line)],
                "results/one.csv:2:4096: the line is longer than 4096 bytes; \
                 delete the file or run the experiment again",
            ),
        ] {
            let dir = folder(files);
            let error = write(dir.path(), None).unwrap_err().to_string();
            let prefix = format!("{}/", dir.path().display());
            assert_eq!(error.strip_prefix(&prefix), Some(message), "{error}");
        }
    }

    #[test]
    fn a_folder_without_results_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(dir.path(), None).unwrap_err();
        assert_eq!(error.path, dir.path().join("results"));
        assert!(error.to_string().contains("the folder does not exist"), "{error}");
    }

    #[test]
    fn an_error_leaves_the_page_as_it_was() {
        let dir = folder(&[("one.json", &result())]);
        write(dir.path(), None).unwrap();
        let before = files(dir.path());
        fs::write(dir.path().join("results/two.json"), "{").unwrap();
        write(dir.path(), None).unwrap_err();
        assert!(files(dir.path()) == before);
    }

    #[test]
    fn nothing_half_written_stays() {
        let dir = tempfile::tempdir().unwrap();
        // A folder stands where the file should be.
        let target = dir.path().join("data.js");
        fs::create_dir_all(target.join("occupied")).unwrap();
        let error = replace(&target, b"candorReport()").unwrap_err();
        assert!(error.to_string().contains("data.js: cannot be written: "), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

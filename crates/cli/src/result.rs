//! Results in the terminal and in files: those of `candor ping` and `candor tte analyze`, and what all results have in
//! common.

pub(crate) mod json;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use candor_causes::Cause;
use candor_config::quoted;
use candor_diagnostics::{counted, noun};
use candor_lat::result::{MOST_LETTERS, ResultFile, SCHEMA, Stopped, file_name};
use candor_lat::section::{Cell, Column, Row, Section, SectionKind, Sections, Shown, Unit};
use candor_lat::{Counts, Figures, Metric, TapPath, sections};
use candor_output::{Existing, Target};
use candor_time::Nanos;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::json::lines;
use crate::output::{duration, shell_word, table, thousands};
use crate::overwrite::{Overwriting, refusal, unwritable};

/// The figures that are shown of many values.
const FIGURES: [&str; 4] = ["min", "p50", "p99", "max"];
/// The world of real buses and networks.
const LIVE: &str = "live";

/// A result, and where it is.
pub(crate) struct Saved<'a> {
    pub(crate) result: &'a ResultFile,
    /// Whether it was there before.
    pub(crate) cached: bool,
    /// The file with everything about it, if it is kept.
    pub(crate) file: Option<PathBuf>,
}

/// Where results go.
#[derive(Args)]
pub(crate) struct Saving {
    /// Keep results in this folder, for `candor lab report`, `compare`, `show` and `claims`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What results are called; if there are several, what they are of stands behind it
    #[arg(long, value_name = "NAME", default_value = LIVE, value_parser = NonEmptyStringValueParser::new(), requires = "out")]
    name: String,
}

impl Saving {
    /// A result of something on real buses, which says nothing yet of what happened. `settings` are values of TOML by
    /// their keys.
    pub(crate) fn result(
        &self,
        path: &TapPath,
        of: &str,
        conditions: String,
        settings: &[(&str, String)],
    ) -> ResultFile {
        let name = self.name_of(of);
        let settings = settings.iter().map(|(key, value)| format!("{key} = {value}\n"));
        let command = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
        ResultFile {
            schema: SCHEMA.into(),
            experiment: name.clone(),
            group: None,
            title: String::new(),
            candor: env!("CARGO_PKG_VERSION").into(),
            command: format!("candor {}", command.collect::<Vec<_>>().join(" ")),
            testbed: LIVE.into(),
            conditions,
            path: path.name().into(),
            seed: 0,
            random: false,
            axes: BTreeMap::new(),
            config: format!("name = {}\n{}", quoted(&name), settings.collect::<String>()),
            inputs: Vec::new(),
            duration_ns: 0,
            counts: Counts::default(),
            stopped: Vec::new(),
            metrics: BTreeMap::new(),
            sections: Sections::default(),
            notes: Vec::new(),
        }
    }

    /// The name of the result of that, fit for a file; `""` stands for the whole.
    fn name_of(&self, of: &str) -> String {
        match of {
            "" => file_name(&self.name),
            _ => file_name(&format!("{}-{of}", self.name)),
        }
    }

    /// Refuses, before anything is measured, what could not be kept: results of these.
    pub(crate) fn prepare<'a>(
        &self,
        overwriting: Overwriting,
        of: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), String> {
        let Some(folder) = self.folder() else { return Ok(()) };
        let mut files = BTreeMap::new();
        for of in of {
            let path = folder.join(format!("{}.json", self.name_of(of)));
            if let Some(other) = files.insert(path.clone(), of) {
                let [one, two] = [other, of].map(|of| if of.is_empty() { "all" } else { of });
                return Err(format!(
                    "{}: the results of `{one}` and `{two}` would both be this file, because names of files have \
                     letters, digits, `.`, `_` and `-`, and at most {MOST_LETTERS} of them; give a shorter --name, or \
                     other names",
                    path.display()
                ));
            }
        }
        let unwritable = |error| unwritable(&folder, &error, "name another folder");
        fs::create_dir_all(&folder).map_err(unwritable)?;
        // Created beside the name and, being dropped, removed again.
        Target::create(&folder.join("probe"), Existing::Replace).map_err(unwritable)?;
        let is_kept = |path: &PathBuf| overwriting.existing() == Existing::Keep && path.exists();
        files.into_keys().filter(is_kept).try_for_each(|path| Err(refusal(&path)))
    }

    /// The folder of results, if they are kept.
    fn folder(&self) -> Option<PathBuf> {
        Some(self.out.as_ref()?.join("results"))
    }

    /// The file of a result, if it is kept.
    pub(crate) fn file(&self, result: &ResultFile) -> Option<PathBuf> {
        Some(self.folder()?.join(format!("{}.json", result.experiment)))
    }

    /// Keeps results, if they are wanted.
    pub(crate) fn save(
        &self,
        overwriting: Overwriting,
        results: &[ResultFile],
    ) -> Result<(), String> {
        for result in results {
            let Some(path) = self.file(result) else { continue };
            overwriting.write(&path, result.to_json().as_bytes())?;
        }
        Ok(())
    }
}

/// Results as JSON Lines.
pub(crate) fn json_lines(results: &[ResultFile], saving: &Saving) -> Result<String, String> {
    let saved = |result| Saved { result, cached: false, file: saving.file(result) };
    lines(results.iter().map(saved))
}

/// How far a measurement was to go.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    /// So many requests or frames.
    pub(crate) count: Option<u64>,
    /// So long.
    pub(crate) time: Option<Nanos>,
}

impl Aim {
    /// That somebody ended it before that, with as many as `done` in `time`. What has no aim has its end when somebody
    /// ends it.
    pub(crate) fn missed(self, done: u64, what: &str, time: Nanos) -> Option<String> {
        let is_there = self.count.is_some_and(|count| done >= count)
            || self.time.is_some_and(|limit| time >= limit);
        let reached = match self {
            _ if is_there => return None,
            Self { count: Some(count), .. } => format!("{done} of {}", counted(count, what)),
            Self { time: Some(limit), .. } => {
                format!(
                    "{} in {} of {limit}",
                    counted(done, what),
                    duration(time.as_nanos() as f64)
                )
            }
            Self { .. } => return None,
        };
        Some(format!("{reached} could be measured: it was interrupted"))
    }
}

/// What stopped frames that nothing explains.
pub(crate) fn stopped(lost: u64) -> Vec<Stopped> {
    let stopped = Stopped::new("", "", Cause::Unexplained, lost);
    (lost > 0).then_some(stopped).into_iter().collect()
}

/// Results one after the other.
pub(crate) fn text(results: &[ResultFile]) -> String {
    let text = |result: &ResultFile| {
        format!("\n{}\n{}{}{}", result.conditions, sum(result), latencies(result), sections(result))
    };
    results.iter().map(text).collect()
}

/// What became of the frames of a result.
pub(crate) fn sum(result: &ResultFile) -> String {
    let counts = &result.counts;
    let more = [
        (counts.duplicated, "further copies"),
        (counts.reordered, "reordered"),
        (counts.late, "late"),
    ];
    let more = more.iter().filter(|(count, _)| *count > 0);
    format!(
        "{} {} sent in {} = {} received + {} not routed + {} refused + {} lost{}\n",
        thousands(counts.sent),
        noun(counts.sent, "frame"),
        duration(result.duration_ns as f64),
        thousands(counts.received),
        thousands(counts.not_routed),
        thousands(counts.refused),
        thousands(counts.lost),
        more.map(|(count, what)| format!("; {} {what}", thousands(*count))).collect::<String>(),
    )
}

/// The latencies of a result.
fn latencies(result: &ResultFile) -> String {
    let row = |metric: Metric| {
        let figures = result.metric(metric)?;
        let figure = |name: &&str| figures.figure_ns(name).map_or_else(String::new, duration);
        let label = [metric.label().to_owned(), thousands(figures.count)].into_iter();
        Some(label.chain(candor_lat::figures::FIGURES.iter().map(figure)).collect())
    };
    let rows: Vec<Vec<String>> = Metric::ALL.into_iter().filter_map(row).collect();
    let names = candor_lat::figures::FIGURES.map(|name| format!(">{name}"));
    let head: Vec<_> = ["latency", ">count"].map(str::to_owned).into_iter().chain(names).collect();
    if rows.is_empty() {
        return String::new();
    }
    let rows = table(&head, &rows);
    format!("\n{rows}max: the largest of so many, and no bound: of more, one may take longer\n")
}

/// The sections of a result that are shown everywhere.
pub(crate) fn sections(result: &ResultFile) -> String {
    let everywhere = sections::ALL.iter().filter(|kind| kind.shown == Shown::Everywhere);
    let known = everywhere.filter_map(|kind| Some((kind, result.sections.get(kind)?)));
    known.map(|(kind, section)| format!("\n{}", section_text(kind, section))).collect()
}

/// One section. Columns without a value, or with nothing but zeros, are left out.
fn section_text(kind: &SectionKind, section: &Section) -> String {
    match section {
        Section::Rows(rows) => rows_text(kind.columns, rows),
        Section::One(row) => {
            let columns = kind.columns.iter().filter(|column| is_shown(column, [row]));
            let line = |column: &Column| {
                Some(vec![column.label.into(), shown(row.get(column.key)?, column.unit)])
            };
            table(&[&kind.title.to_lowercase(), ""], &columns.filter_map(line).collect::<Vec<_>>())
        }
    }
}

/// Rows as a table; figures have several columns.
pub(crate) fn rows_text(columns: &[Column], rows: &[Row]) -> String {
    let (mut head, mut cells) = (Vec::new(), vec![Vec::new(); rows.len()]);
    for column in columns.iter().filter(|column| is_shown(column, rows)) {
        let has_figures = rows.iter().any(|row| figures(row, column).is_some());
        let figure_names = if has_figures { &FIGURES[..] } else { &[""] };
        for name in figure_names {
            let sign = if column.unit == Unit::Text { "" } else { ">" };
            head.push(format!("{sign}{} {name}", column.label).trim_end().to_owned());
            for (cells, row) in cells.iter_mut().zip(rows) {
                let of_figures = figures(row, column).and_then(|it| it.figure_ns(name));
                let value = || row.get(column.key).map(|cell| shown(cell, column.unit));
                let text = if has_figures { of_figures.map(duration) } else { value() };
                cells.push(text.unwrap_or_else(|| "-".into()));
            }
        }
    }
    table(&head, &cells)
}

fn figures<'a>(row: &'a Row, column: &Column) -> Option<&'a Figures> {
    row.get(column.key)?.figures()
}

fn is_shown<'a>(column: &Column, rows: impl IntoIterator<Item = &'a Row>) -> bool {
    let mut cells = rows.into_iter().filter_map(|row| row.get(column.key));
    cells.any(|cell| cell.number() != Some(0.0))
}

/// A value for people.
fn shown(cell: &Cell, unit: Unit) -> String {
    match (cell, unit) {
        (Cell::Figures(figures), _) => {
            let figure = |name| figures.figure_ns(name).map_or_else(String::new, duration);
            let all = FIGURES.map(|name| format!("{name} {}", figure(name)));
            format!("{}; {} values", all.join(", "), thousands(figures.count))
        }
        (Cell::Texts(texts), _) => texts.join(" "),
        (Cell::Rows(rows), _) => thousands(rows.len() as u64),
        (Cell::Text(text), _) => text.clone(),
        (cell, Unit::Nanoseconds) => cell.number().map_or_else(String::new, duration),
        (cell, Unit::Percent) => cell.number().map_or_else(String::new, |it| format!("{it:.2} %")),
        (Cell::Count(count), Unit::BitsPerSecond) => format!("{} bit/s", thousands(*count)),
        (Cell::Count(count), _) => thousands(*count),
        (Cell::Number(number), _) => format!("{number:.1}"),
        (Cell::Empty, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_interrupted_says_how_far_it_came() {
        let [short, long] = [1_200, 10_000].map(Nanos::from_millis);
        let (count, time) = (Some(10_000), Some(long));
        for (aim, done, taken, note) in [
            (Aim { count, time: None }, 240, short, Some("240 of 10000 requests")),
            (Aim { count, time }, 240, short, Some("240 of 10000 requests")),
            (Aim { count: None, time }, 1, short, Some("1 request in 1.20 s of 10s")),
            (Aim { count, time: None }, 10_000, short, None),
            (Aim { count, time }, 240, long, None),
            (Aim { count: None, time: None }, 240, short, None),
        ] {
            let expected = note.map(|it| format!("{it} could be measured: it was interrupted"));
            assert_eq!(aim.missed(done, "request", taken), expected);
        }
    }

    #[test]
    fn results_that_would_be_one_file_are_refused_before_they_are_measured() {
        let folder = tempfile::tempdir().unwrap();
        let saving = |name: &str| Saving { out: Some(folder.path().into()), name: name.into() };
        let prepare = |name: &str, of: &[&str]| {
            saving(name).prepare(Overwriting::default(), of.iter().copied())
        };
        prepare("live", &["left", "right", ""]).unwrap();
        for (name, of) in [("live", ["a b", "a/b"]), (&*"x".repeat(200), ["left", "right"])] {
            let error = prepare(name, &of).unwrap_err();
            let [one, two] = of;
            assert!(
                error.contains(&format!("`{one}` and `{two}` would both be this file")),
                "{error}"
            );
        }
    }
}

//! [`Quantity`]: what a result can be asked for, by words. Claims, comparisons and tables ask in this way, so each quantity
//! has one definition and one unit.
//!
//! | words | unit | what it is |
//! |---|---|---|
//! | `sent`, `received`, `not_routed`, `refused`, `lost` | frames | how they ended |
//! | `not_routed_percent`, `refused_percent`, `lost_percent` | percent | of those sent |
//! | `METRIC FIGURE` | ns | a latency of all frames: see [`Metric`] and [`FIGURES`] |
//! | `COLUMN` | its unit | a value that a [section](crate::sections) has once, such as `gateway_instructions` |
//! | `COLUMN FIGURE` | ns | the same, if the value is figures, such as `clock_difference max` |
//! | `ROW COLUMN` | its unit | a value of a row, such as `server cpu_per_event`; `all` for the sum of all rows |
//! | `ROW COLUMN FIGURE` | ns | the same, such as `EngineSpeed response_time max` |
//!
//! `ROW` is what the first column has, in quotes if it has blanks: `"rule 1" lost`. If several rows have it, a word of another
//! column stands before it: `can0.EngineSpeed` of the bus `can0`, `c.both` of the rule `both` to the bus `c`. A section without
//! several rows goes by its own name, such as `unmarked residual p50`.

use candor_causes::Ending;
use candor_diagnostics::{did_you_mean, meant_or};
use candor_lat::Metric;
use candor_lat::figures::FIGURES;
use candor_lat::section::{Cell, Column, Row, Section, SectionKind};

use crate::result::ResultFile;
use crate::sections;

pub use candor_lat::section::Unit;

/// What a result can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Frames sent.
    Sent,
    /// Frames that ended so.
    Ended(Ending),
    /// The same in percent of the frames sent.
    EndedPercent(Ending),
    /// A latency, by a name of [`FIGURES`].
    Latency(Metric, &'static str),
    /// A value of a section.
    Cell {
        /// The row, or the section; `None` for the value of a section that has it once.
        row: Option<String>,
        /// The word of the column.
        word: &'static str,
        /// What its values count.
        unit: Unit,
        /// The figure, if the value is figures.
        figure: Option<&'static str>,
    },
}

/// Stands for all rows of a section.
const ALL_ROWS: &str = "all";

impl Quantity {
    /// Instructions of the gateway's process for each frame that arrived.
    pub const GATEWAY_INSTRUCTIONS: Self = Self::Cell {
        row: None,
        word: "gateway_instructions",
        unit: Unit::Instructions,
        figure: None,
    };

    /// The quantity of these words; `None` if they have not its form.
    ///
    /// # Errors
    /// A metric or a figure that does not exist, and a hint.
    pub fn parse(words: &[&str]) -> Result<Option<Self>, (String, Option<String>)> {
        Ok(Some(match *words {
            [name] => return Ok(Self::of_frames(name).or_else(|| cell(None, name, None))),
            [row, word] if column(word).is_some() => {
                return Ok(cell(Some(row), word, None));
            }
            [metric, figure] => match (Metric::from_key(metric), column(metric)) {
                (Some(metric), _) => Self::Latency(metric, known_figure(figure)?),
                (None, Some(_)) => return Ok(cell(None, metric, Some(known_figure(figure)?))),
                (None, None) => return Err(unknown_metric(metric)),
            },
            [row, metric, figure] => match column(metric) {
                Some(_) => return Ok(cell(Some(row), metric, Some(known_figure(figure)?))),
                None => return Err(unknown_metric(metric)),
            },
            _ => return Ok(None),
        }))
    }

    /// What an experiment's own file or code names.
    pub(crate) fn of_words(words: &[&str]) -> Option<Self> {
        Self::parse(words).ok().flatten()
    }

    /// The quantity of that name, if it is not a latency.
    fn of_frames(name: &str) -> Option<Self> {
        let ending = |key: &str| Ending::ALL.into_iter().find(|ending| ending.key() == key);
        match name {
            "sent" => Some(Self::Sent),
            _ => match name.strip_suffix("_percent") {
                Some(key) => ending(key).map(Self::EndedPercent),
                None => ending(name).map(Self::Ended),
            },
        }
    }

    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Latency(..) => Unit::Nanoseconds,
            Self::Ended(_) | Self::Sent => Unit::Frames,
            Self::EndedPercent(_) => Unit::Percent,
            Self::Cell { unit, .. } => *unit,
        }
    }

    /// The figure, if it is one of many values.
    #[must_use]
    pub const fn figure(&self) -> Option<&'static str> {
        match self {
            Self::Latency(_, figure) => Some(figure),
            Self::Cell { figure, .. } => *figure,
            _ => None,
        }
    }

    /// Why a result says nothing about a row, and which rows there are; `None` if that is not the reason.
    pub(crate) fn why_no_row(&self, result: &ResultFile) -> Option<String> {
        let Self::Cell { row: Some(name), word, .. } = self else { return None };
        let kind = sections::ALL.iter().find(|kind| {
            kind.column(word).is_some()
                && matches!(result.sections.get(kind), Some(Section::Rows(_)))
        })?;
        let rows = result.sections.rows(kind);
        let first = kind.columns.first()?.key;
        let label = |row: &Row| text(row, first).unwrap_or_default().to_owned();
        match &named(kind, rows, name)[..] {
            [] if name != ALL_ROWS => {
                let names: Vec<_> = rows.iter().map(label).collect();
                Some(match did_you_mean(name, names.iter().map(String::as_str)) {
                    Some(meant) => format!("no row is called `{name}`; did you mean `{meant}`?"),
                    None => format!("no row is called `{name}`; there are {}", names.join(", ")),
                })
            }
            [_, _, ..] => Some(format!(
                "several rows are called `{name}`; write a word of another of their columns before it, as in `WORD.{name}`"
            )),
            _ => None,
        }
    }

    /// What a result says; `None` if it says nothing.
    #[must_use]
    pub fn of(&self, result: &ResultFile) -> Option<f64> {
        let counts = result.counts;
        match self {
            Self::Sent => Some(counts.sent as f64),
            Self::Ended(ending) => Some(counts.ended(*ending) as f64),
            Self::EndedPercent(ending) => {
                (counts.sent > 0).then(|| counts.ended(*ending) as f64 / counts.sent as f64 * 100.0)
            }
            Self::Latency(metric, name) => result.metric(*metric)?.figure_ns(name),
            Self::Cell { row, word, figure, .. } => sections::ALL.iter().find_map(|kind| {
                let key = kind.column(word)?.key;
                let value = |row: &Row| match figure {
                    Some(figure) => row.get(key)?.figures()?.figure_ns(figure),
                    None => row.get(key)?.number(),
                };
                match (result.sections.get(kind)?, row.as_deref()) {
                    (Section::One(only), None) => value(only),
                    (Section::One(only), Some(name)) if name == kind.key => value(only),
                    (Section::Rows(rows), Some(ALL_ROWS)) => rows.iter().map(value).sum(),
                    (Section::Rows(rows), Some(name)) => match named(kind, rows, name)[..] {
                        [row] => value(row),
                        _ => None,
                    },
                    _ => None,
                }
            }),
        }
    }
}

/// What a result says to the words of a [`Quantity`].
#[must_use]
pub fn value(result: &ResultFile, text: &str) -> Option<f64> {
    let words = words(text);
    Quantity::of_words(&words.iter().map(String::as_str).collect::<Vec<_>>())?.of(result)
}

/// The words of a text; what stands in quotes is one of them.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in text.split('"').enumerate() {
        match place % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

fn text<'a>(row: &'a Row, key: &str) -> Option<&'a str> {
    row.get(key).and_then(Cell::text)
}

/// The rows of that name, or of `WORD.NAME` with a word of another column.
fn named<'a>(kind: &SectionKind, rows: &'a [Row], name: &str) -> Vec<&'a Row> {
    let Some((first, others)) = kind.columns.split_first() else { return Vec::new() };
    let is_named = |row: &&Row| {
        let own = text(row, first.key);
        let is_qualified = |column: &Column| {
            text(row, column.key).is_some_and(|word| {
                name.strip_prefix(word).and_then(|rest| rest.strip_prefix('.')) == own
            })
        };
        own == Some(name) || own.is_some() && others.iter().any(is_qualified)
    };
    rows.iter().filter(is_named).collect()
}

/// The first column that claims call so; claims are about no words.
fn column(word: &str) -> Option<&'static Column> {
    let of_kind = |kind: &&SectionKind| kind.column(word).filter(|it| it.unit != Unit::Text);
    sections::ALL.iter().find_map(of_kind)
}

/// A value of a section; `None` if no section has a column of that name.
fn cell(row: Option<&str>, word: &str, figure: Option<&'static str>) -> Option<Quantity> {
    let column = column(word)?;
    let row = row.map(str::to_owned);
    Some(Quantity::Cell { row, word: column.word(), unit: column.unit, figure })
}

/// Columns whose values are figures go by the names of metrics, or by one of their own.
fn unknown_metric(name: &str) -> (String, Option<String>) {
    let metrics = Metric::ALL.iter().map(|metric| metric.key());
    unknown("metric", name, &metrics.chain(["clock_difference"]).collect::<Vec<_>>())
}

fn known_figure(name: &str) -> Result<&'static str, (String, Option<String>)> {
    let known = FIGURES.into_iter().find(|figure| *figure == name);
    known.ok_or_else(|| unknown("figure", name, &FIGURES))
}

/// That a name is none of the known ones, and a hint.
fn unknown(what: &str, name: &str, known: &[&str]) -> (String, Option<String>) {
    let hint =
        meant_or(name, known.iter().copied(), || format!("the {what}s are {}", known.join(", ")));
    (format!("unknown {what} `{name}`"), Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Quantity>, (String, Option<String>)> {
        Quantity::parse(&text.split_whitespace().collect::<Vec<_>>())
    }

    fn value(row: Option<&str>, word: &'static str, figure: Option<&'static str>) -> Quantity {
        let row = row.map(str::to_owned);
        Quantity::Cell { row, word, unit: Unit::Nanoseconds, figure }
    }

    #[test]
    fn rows_are_found_by_their_names_and_by_words_of_other_columns() {
        let row = |rule: &str, to: &str, lost: u64| {
            let counts = [0, 0, lost].map(Cell::from);
            let [handled, refused, lost] = counts;
            sections::RULES.row([
                rule.to_owned().into(),
                to.to_owned().into(),
                handled,
                refused,
                lost,
            ])
        };
        let rows = vec![row("both", "b", 0), row("both", "c", 296), row("rule 1", "b", 7)];
        let mut result = crate::report::tests::three_frames();
        result.sections = result.sections.with(&sections::RULES, rows);
        for (text, expected, reason) in [
            ("b.both lost", Some(0.0), None),
            ("c.both lost", Some(296.0), None),
            ("\"rule 1\" lost", Some(7.0), None),
            ("all lost", Some(303.0), None),
            ("both lost", None, Some("several rows are called `both`; write a word of another")),
            ("bth lost", None, Some("no row is called `bth`; did you mean `both`?")),
            ("x.y lost", None, Some("no row is called `x.y`; there are both, both, rule 1")),
        ] {
            assert_eq!(super::value(&result, text), expected, "{text}");
            let words = words(text);
            let quantity =
                Quantity::of_words(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
            let why = quantity.why_no_row(&result);
            assert!(why.as_deref().unwrap_or("").starts_with(reason.unwrap_or("")), "{why:?}");
            assert_eq!(why.is_some(), reason.is_some(), "{text}");
        }
    }

    #[test]
    fn words_name_a_quantity_or_are_refused_with_the_reason() {
        for (text, quantity) in [
            ("gateway_latency p99", Quantity::Latency(Metric::GatewayLatency, "p99")),
            ("lost_percent", Quantity::EndedPercent(Ending::Lost)),
            ("refused_percent", Quantity::EndedPercent(Ending::Refused)),
            ("not_routed", Quantity::Ended(Ending::NotRouted)),
            ("received", Quantity::Ended(Ending::Received)),
            ("sent", Quantity::Sent),
            ("clock_difference max", value(None, "clock_difference", Some("max"))),
            ("unmarked residual p50", value(Some("unmarked"), "residual", Some("p50"))),
            ("can0.a end_to_end max", value(Some("can0.a"), "end_to_end", Some("max"))),
            ("gateway_instructions", Quantity::GATEWAY_INSTRUCTIONS),
            ("server cpu_per_event", value(Some("server"), "cpu_per_event", None)),
        ] {
            assert_eq!(parse(text), Ok(Some(quantity)), "{text}");
        }
        for text in ["", "missing", "sent_percent", "a b c d"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
        for (text, reason, hint) in [
            ("clock_differnce max", "metric `clock_differnce`", "did you mean `clock_difference`?"),
            ("gateway_latency p9", "figure `p9`", "did you mean `p90`?"),
            ("clock_difference p98", "figure `p98`", "did you mean `p9"),
            ("b c d", "metric `c`", ""),
        ] {
            let (found, its_hint) = parse(text).unwrap_err();
            assert_eq!(found, format!("unknown {reason}"));
            assert!(its_hint.unwrap().starts_with(hint), "{text}");
        }
        let (_, hint) = parse("speed p99").unwrap_err();
        assert!(hint.unwrap().ends_with(", clock_difference"));
    }
}

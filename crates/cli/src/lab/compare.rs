//! `candor lab compare`: a verdict between two runs.
//!
//! `candor help json lab compare` describes what `--json` prints.

mod json;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use candor_diagnostics::{counted, noun};
use candor_lab::compare::{
    Allowance, Comparison, CountChange, ENOUGH_BOOTS, Figure, FunctionChange, Ranges, Sample, Side,
    Verdict, compare as held,
};
use candor_lab::group::Range;
use candor_lab::quantity::Unit;
use clap::Args;

use super::ranges::{duration_range, number_range, signed};
use crate::Answer;
use crate::output::{Table, print};

#[derive(Args)]
pub(crate) struct Compare {
    /// The folder with the results before the change
    before: PathBuf,
    /// The folder with the results after it
    #[arg(required_unless_present = "by", conflicts_with = "by")]
    after: Option<PathBuf>,
    /// Compare two values of one setting within one folder, such as vm.kernel=6.12,6.12-rt
    #[arg(long, value_name = "KEY=BEFORE,AFTER")]
    by: Option<By>,
    /// How much worse a figure may be: 1%, 50ns, 0.2us
    #[arg(long, default_value = "0%", value_name = "N%|TIME")]
    allow: Allowance,
    /// How many functions to list; 0 for all
    #[arg(long, default_value_t = 15, value_name = "N")]
    top: usize,
    /// Print JSON Lines: objects of types that `candor help json lab compare` describes, last one of
    /// type "verdict"
    #[arg(long)]
    json: bool,
}

/// Two values of one setting.
#[derive(Clone)]
struct By {
    setting: String,
    before: String,
    after: String,
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(setting, values)| {
            let (before, after) = values.split_once(',')?;
            Some((setting, before, after))
        });
        let (setting, before, after) =
            parts.ok_or("expected a setting and two values, such as vm.kernel=6.12,6.12-rt")?;
        Ok(Self { setting: setting.into(), before: before.into(), after: after.into() })
    }
}

pub(super) fn compare(arguments: &Compare) -> Answer {
    let (before, after) = sides(arguments)?;
    let mut comparison = held(&before, &after);
    if arguments.by.is_some() {
        // Another setting may have other figures, which is no change for the worse.
        comparison.notes.append(&mut comparison.gone);
    }
    let compared = comparison.figures.len() + comparison.ranges.len() + comparison.functions.len();
    let compared = compared + comparison.gone.len();
    if compared == 0 {
        return Err(nothing(&comparison, arguments));
    }
    match arguments.json {
        true => print(&json::lines(&comparison, arguments.allow)?)?,
        false => print(&text(&comparison, arguments))?,
    }
    match (agrees(&comparison, arguments.allow), without_verdict(&comparison)) {
        (true, Some(reason)) => Err(reason),
        (true, None) if comparison.pairs == 0 => {
            Err("no experiment has results on both sides, and instructions alone have no \
             verdict; run the file into the same folders"
                .into())
        }
        (agrees, _) => Ok(agrees),
    }
}

/// Why some figures have no verdict, which is no agreement.
fn without_verdict(comparison: &Comparison) -> Option<String> {
    let of_boots = comparison.figures.iter().filter(|it| it.verdict == Verdict::TooFewBoots);
    let experiments: BTreeSet<_> = of_boots.map(|it| it.experiment.as_str()).collect();
    let first = experiments.first()?;
    Some(format!(
        "{first}{}: no verdict, since a side has fewer than {ENOUGH_BOOTS} boots; run the file without --seed, and with \
         `seeds` and `vm.boots` of at least {ENOUGH_BOOTS}, as they are unless it says otherwise",
        if experiments.len() > 1 {
            format!(" and {} more", experiments.len() - 1)
        } else {
            String::new()
        }
    ))
}

fn sides(arguments: &Compare) -> Result<(Side, Side), String> {
    let read = |dir: &PathBuf| Side::read(dir).map_err(|error| error.to_string());
    let before = read(&arguments.before)?;
    let Some(By { setting, before: old, after: new }) = &arguments.by else {
        let after = arguments.after.as_ref().map(read).transpose()?.unwrap_or_default();
        return Ok((before, after));
    };
    let side = |value: &String| {
        let side = before.with(setting, value);
        match side.results.is_empty() && side.profiles.is_empty() {
            true => Err(format!(
                "{}: no experiment has {setting} = {value}; `candor lab list FILE --json` shows the \
                 settings that differ",
                arguments.before.display()
            )),
            false => Ok(side),
        }
    };
    Ok((side(old)?, side(new)?))
}

fn nothing(comparison: &Comparison, arguments: &Compare) -> String {
    let some =
        |names: &[String]| names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    match comparison.pairs {
        0 => format!(
            "no experiment has the same settings on both sides: before has {}, after has {}; run \
             the same file with the same options on both sides",
            some(&comparison.only_before),
            some(&comparison.only_after)
        ),
        _ => {
            let after = arguments.after.as_ref();
            let after = after.map_or_else(String::new, |dir| format!(" and {}", dir.display()));
            let note = comparison.notes.first();
            format!(
                "{}{after}: no figure to compare{}; run the same experiments with the same seeds on both sides, \
                 so that frames arrive",
                arguments.before.display(),
                note.map_or_else(String::new, |note| format!(" ({note})"))
            )
        }
    }
}

pub(crate) fn agrees(comparison: &Comparison, allow: Allowance) -> bool {
    comparison.not_allowed(allow).next().is_none() && comparison.gone.is_empty()
}

fn text(comparison: &Comparison, arguments: &Compare) -> String {
    let mut parts = vec![changed(comparison)];
    parts.push(figures(&comparison.figures, arguments.allow));
    parts.push(ranges(&comparison.ranges));
    parts.push(counts(&comparison.counts));
    parts.push(functions(&comparison.functions, arguments.top));
    parts.push(unpaired("before", &comparison.only_before));
    parts.push(unpaired("after", &comparison.only_after));
    parts.extend(
        comparison.gone.iter().chain(&comparison.notes).map(|note| format!("note: {note}\n")),
    );
    parts.push(summary(comparison, arguments.allow));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn changed(comparison: &Comparison) -> String {
    if comparison.changed.is_empty() {
        return "nothing changed: settings and kernel are the same on both sides\n".into();
    }
    let shown = |value: &str| if value.is_empty() { "-".to_owned() } else { value.to_owned() };
    Table::of(&comparison.changed)
        .column("changed", |it| it.setting.clone())
        .column("before", |it| shown(&it.before))
        .column("after", |it| shown(&it.after))
        .text()
}

/// A figure in its unit.
fn shown(value: f64, unit: Unit) -> String {
    match unit {
        // All digits: a difference of a few instructions must show.
        Unit::Nanoseconds => format!("{value:.0} ns"),
        Unit::Instructions => format!("{value:.1}"),
        Unit::Frames => format!("{value:.0}"),
        Unit::Percent => format!("{value:.2} %"),
        Unit::Bytes => format!("{value:.1} bytes"),
        Unit::BitsPerSecond => format!("{value:.0} bit/s"),
        Unit::Count | Unit::Text => format!("{value}"),
    }
}

fn figures(figures: &[Figure], allow: Allowance) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let verdict = |it: &Figure| match (it.verdict, it.is_allowed(allow)) {
        (Verdict::Slower, true) => "slower, allowed",
        (Verdict::Slower, false) if it.unit == Unit::Frames => "more lost",
        (Verdict::Faster, _) if it.unit == Unit::Frames => "fewer lost",
        (verdict, _) => verdict.word(),
    };
    let instructions = |it: &Figure| {
        let is_other = it.difference() != 0.0;
        it.difference_instructions().filter(|_| is_other).map(|count| signed(count, 1))
    };
    let percent = |it: &Figure| it.difference_percent().filter(|percent| *percent != 0.0);
    let mut out = Table::of(figures)
        .column("experiment", |it| it.experiment.clone())
        .column("figure", |it| match it.shares {
            Some([before, _]) => format!("{}, {:.0} %", it.figure, before.median),
            None => it.figure.to_owned(),
        })
        .column(">before", |it| sample(&it.before, it.unit))
        .column(">after", |it| sample(&it.after, it.unit))
        .column(">difference", |it| match (it.difference(), it.unit) {
            (0.0, _) => "0".into(),
            (difference, Unit::Nanoseconds) => format!("{} ns", signed(difference, 0)),
            (difference, Unit::Frames) => signed(difference, 0),
            _ => String::new(),
        })
        .column(">instructions", |it| instructions(it).unwrap_or_default())
        .column(">", |it| percent(it).map_or(String::new(), |it| format!("{} %", signed(it, 2))))
        .column("verdict", |it| verdict(it).to_owned())
        .text();
    if figures.iter().any(|it| it.shares.is_some()) {
        out.push_str(
            "a..b: the smallest and the largest value over the boots; differences are those of medians\n\
             path: the median latency of frames that take one path, and how many of the frames before do\n",
        );
    }
    out + &shifts(figures)
}

/// A figure on one side: the value, or what its boots have.
fn sample(sample: &Sample, unit: Unit) -> String {
    let Range { least, most, .. } = sample.range;
    let [one, other] = [least, most].map(|value| shown(value, unit));
    match one.split_once(' ') {
        _ if one == other => other,
        // The unit once.
        Some((number, _)) => format!("{number}..{other}"),
        None => format!("{one}..{other}"),
    }
}

/// Shares of paths that differ by less need no word.
const LEAST_SHIFT_PERCENT: f64 = 1.0;

/// Where frames take the same paths and another number of them takes the longer one.
fn shifts(figures: &[Figure]) -> String {
    let mut out = String::new();
    for of_experiment in figures.chunk_by(|a, b| a.experiment == b.experiment) {
        let paths = of_experiment.iter().filter_map(|it| Some((it, it.shares?)));
        let paths: Vec<_> = paths.collect();
        if paths.iter().any(|(it, _)| it.verdict != Verdict::Same) {
            continue;
        }
        let change = |(_, [before, after]): &(&Figure, [Sample; 2])| after.median - before.median;
        let largest = paths.iter().max_by(|a, b| change(a).abs().total_cmp(&change(b).abs()));
        let Some(path) = largest.filter(|it| change(it).abs() >= LEAST_SHIFT_PERCENT) else {
            continue;
        };
        let (figure, [before, after]) = path;
        let word = if change(path) > 0.0 { "more" } else { "fewer" };
        // By the law of all other figures: what lies between the sides is wider than each of them.
        let boots = match before.is_apart_from(after) {
            false => "as between boots of one side",
            true => "which boots of one side do not",
        };
        out.push_str(&format!(
            "{}: the same paths; {:.1} % {word} frames take that of {}, {boots}\n",
            figure.experiment,
            change(path).abs(),
            shown(figure.after.median, figure.unit),
        ));
    }
    out
}

fn ranges(ranges: &[Ranges]) -> String {
    if ranges.is_empty() {
        return String::new();
    }
    let cell = |range: &Range, unit: Unit| match unit {
        Unit::Nanoseconds => duration_range(range.least, range.most),
        _ => format!("{:.2}..{:.2} %", range.least, range.most),
    };
    let metric = |it: &Ranges| it.metric.map_or("", |metric| metric.key());
    Table::of(ranges)
        .column("over the seeds, no verdict", |it| it.experiment.clone())
        .column("figure", |it| format!("{} {}", metric(it), it.figure).trim().to_owned())
        .column(">seeds", |it| it.before.count.to_string())
        .column(">before", |it| cell(&it.before, it.unit))
        .column(">seeds", |it| it.after.count.to_string())
        .column(">after", |it| cell(&it.after, it.unit))
        .column("ranges", |it| it.trend.word().to_owned())
        .text()
}

/// What became of the frames, where it differs.
fn counts(counts: &[CountChange]) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let mut out = Table::of(counts)
        .column("frames", |it| it.experiment.clone())
        .column(">seed", |it| it.seed.map_or("all".into(), |seed| seed.to_string()))
        .column("ending", |it| it.count.replace('_', " "))
        .column("cause", |it| it.cause.clone().unwrap_or_default())
        .column(">before", |it| it.before.to_string())
        .column(">after", |it| it.after.to_string())
        .column(">difference", |it| signed(it.difference() as f64, 0))
        .text();
    if counts.iter().any(|it| it.cause.is_some()) {
        out.push_str("of a cause, frames and copies are counted\n");
    }
    out
}

fn functions(functions: &[FunctionChange], top: usize) -> String {
    if functions.is_empty() {
        return String::new();
    }
    let listed = if top == 0 { functions.len() } else { top };
    let mut out = String::new();
    for of_experiment in functions.chunk_by(|a, b| a.experiment == b.experiment) {
        out.push_str(
            &Table::of(of_experiment.iter().take(listed))
                .column("instructions per frame", |it| it.experiment.clone())
                .column("function", |it| it.function.clone())
                .column("place", |it| it.place.clone())
                .column(">before", |it| {
                    number_range(it.before.range.least, it.before.range.most, 1)
                })
                .column(">after", |it| number_range(it.after.range.least, it.after.range.most, 1))
                .column(">", |it| signed(it.difference(), 1))
                .column("", |it| match it.in_latency {
                    Some(false) => "beside the latency".into(),
                    _ => String::new(),
                })
                .text(),
        );
        if of_experiment.len() > listed {
            let more = of_experiment.len() - listed;
            out.push_str(&format!("and {more} more {}\n", noun(more, "function")));
        }
    }
    out
}

fn unpaired(side: &str, names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("only {side}, not compared: {}\n", names.join(", ")),
    }
}

fn summary(comparison: &Comparison, allow: Allowance) -> String {
    let [same, faster, slower, unknown] = Verdict::ALL.map(|verdict| comparison.count(verdict));
    let too_slow = comparison.not_allowed(allow).count();
    let mut out = format!(
        "{} compared: {slower} {} slower, {faster} faster, {same} the same",
        counted(comparison.pairs, "experiment"),
        noun(slower, "figure")
    );
    if unknown > 0 {
        out.push_str(&format!(", {unknown} without a verdict"));
    }
    if too_slow < slower {
        out.push_str(&format!("; {too_slow} of them by more than {allow}"));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_of_a_setting_are_read() {
        let by: By = "vm.kernel=6.12,6.12-rt".parse().unwrap();
        assert_eq!((&*by.setting, &*by.before, &*by.after), ("vm.kernel", "6.12", "6.12-rt"));
        for text in ["", "vm.kernel", "vm.kernel=6.12"] {
            assert!(text.parse::<By>().is_err(), "{text}");
        }
    }

    #[test]
    fn counts_that_differ_have_a_row_each() {
        let change = |seed, count, cause: Option<&str>, before, after| CountChange {
            experiment: "one".into(),
            seed,
            count,
            cause: cause.map(str::to_owned),
            before,
            after,
        };
        let rows = [
            change(Some(1), "not_routed", None, 10, 7),
            change(None, "lost", Some("queue_full"), 0, 3),
        ];
        let text = counts(&rows);
        let lines: Vec<_> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines[0], "frames seed ending cause before after difference");
        assert_eq!(lines[2], "one 1 not routed 10 7 -3");
        assert_eq!(lines[3], "one all lost queue_full 0 3 +3");
        assert_eq!(lines[4], "of a cause, frames and copies are counted");
        assert_eq!(counts(&[]), "");
    }

    #[test]
    fn durations_are_shown_to_the_nanosecond() {
        assert_eq!(shown(16_502.0, Unit::Nanoseconds), "16502 ns");
    }
}

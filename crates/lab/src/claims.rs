//! Claims: statements about results that can be checked, such as those of a paper.
//!
//! ```toml
//! [[claim]]
//! id = "G1"
//! says = "one frame at a time, no load: best gateway latency 35 us"
//! value = "simple-one-at-a-time gateway_latency min"   # experiment, metric, figure; in us
//! minus = "..."                                        # optional: another value
//! over = "..."                                         # optional: divided by another value
//! over_minus = "..."                                   # optional: subtracted from that
//! at_least = 30
//! at_most = 40
//! ```
//!
//! Behind the experiment stand the words of a [`Quantity`]; times are in microseconds. `refused` is what the rules refuse; it is no
//! loss.
//!
//! `each = ["6.1", "6.12"]` makes a claim of each, in which `{each}` stands for one of them. `{sent}` in
//! `says` stands for the number of frames that the experiment sent.
//!
//! An experiment with several seeds has a value for each. A claim holds if all are within its bounds, does
//! not hold if none is, and otherwise depends on the seed. In `vm`, and in simulations that draw numbers, the
//! largest latencies, and everything under load, are one draw of many, so with fewer than three seeds there is no verdict on them.

use std::collections::BTreeSet;

use candor_causes::Ending;
use candor_config::{Section, Table, Value};
use candor_diagnostics::{Findings, Origin, did_you_mean, nearest};
use candor_lat::TapPath;

use crate::experiment::{Experiment, Testbed};
use crate::group::Range;
use crate::quantity::{self, Quantity, Unit};
use crate::result::{ResultFile, is_loaded};
use crate::sweep::subject;

/// Seeds from which on a claim about chance has a verdict.
const ENOUGH_SEEDS: usize = 3;

/// A value that exceeds a bound by so small a part of itself is the bound.
const ROUNDING: f64 = 1e-12;

/// Experiments that a hint names at most.
const MOST_NAMES: usize = 5;

/// Where the value of a claim comes from. Agreement with what others measured says more than with what one asks oneself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Something was published.
    Published,
    /// Nothing was: `published` is `-`, or absent.
    Own,
    /// It could not be otherwise: `by_construction` is true.
    Construction,
}

impl Basis {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Published, Self::Own, Self::Construction];

    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Own => "own questions",
            Self::Construction => "by construction",
        }
    }
}

/// A statement about results.
#[derive(Clone, Debug)]
pub struct Claim {
    pub id: String,
    /// What is claimed; empty if the file does not say: see [`Claim::spoken`].
    pub says: String,
    /// What was published, for people.
    pub published: String,
    /// Whether it could not be otherwise.
    is_by_construction: bool,
    /// What is known about an agreement or its lack.
    pub note: String,
    /// Which of several of the same kind it is.
    pub each: Option<String>,
    value: Term,
    minus: Option<Term>,
    over: Option<Term>,
    over_minus: Option<Term>,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

/// A figure of an experiment.
#[derive(Clone, Debug)]
struct Term {
    experiment: String,
    quantity: Quantity,
    /// As it stands in the file.
    text: String,
    origin: Origin,
}

/// A claim held against results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The values found, one for each seed; `None` if an experiment is missing or has no such figure.
    pub found: Option<Range>,
    /// Whether they lie within the bounds.
    pub agreement: Agreement,
}

/// Whether the values of a claim lie within its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    Yes,
    /// None of them.
    No,
    Depends,
    /// It is a matter of chance, and there are too few seeds to tell.
    TooFewSeeds,
    /// There is no value.
    Missing,
}

impl Agreement {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] =
        [Self::Yes, Self::Depends, Self::No, Self::TooFewSeeds, Self::Missing];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Depends => "depends",
            Self::TooFewSeeds => "too few seeds",
            Self::Missing => "missing",
        }
    }
}

impl Verdict {
    /// Whether the claim holds.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.agreement == Agreement::Yes
    }

    /// The value, if it is the same for all seeds.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        self.found.filter(|found| found.least == found.most).map(|found| found.least)
    }
}

impl Term {
    /// # Errors
    /// What is wrong, and a hint.
    fn parse(text: &str, origin: &Origin) -> Result<Self, (String, Option<String>)> {
        let words = quantity::words(text);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (experiment, words_of_quantity) = words.split_first().unwrap_or((&"", &[]));
        let quantity = Quantity::parse(words_of_quantity)?.ok_or_else(|| {
            let expected = "write `EXPERIMENT METRIC FIGURE`, such as `simple gateway_latency min`, \
                            `EXPERIMENT MESSAGE METRIC FIGURE`, such as `car EngineSpeed response_time \
                            max`, or `EXPERIMENT lost_percent`";
            (expected.to_owned(), None)
        })?;
        let (experiment, text) =
            ((*experiment).to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" "));
        Ok(Self { experiment, quantity, text, origin: origin.clone() })
    }

    /// The runs of its experiment.
    fn runs<'a>(&self, results: &'a [ResultFile]) -> Vec<&'a ResultFile> {
        let is_meant = |result: &&ResultFile| {
            result.group() == self.experiment || result.experiment == self.experiment
        };
        results.iter().filter(is_meant).collect()
    }

    /// Times are in microseconds. In the papers, whose tester waited for a second, a frame that came later was lost.
    fn value(&self, result: &ResultFile) -> Option<f64> {
        let value = self.quantity.of(result)? + self.late(result);
        Some(if self.quantity.unit() == Unit::Nanoseconds { value / 1_000.0 } else { value })
    }

    /// What late frames of a gateway add to those that were lost.
    fn late(&self, result: &ResultFile) -> f64 {
        let late = if result.path == TapPath::CAN_GATEWAY.name() { result.counts.late } else { 0 };
        match self.quantity {
            Quantity::Ended(Ending::Lost) => late as f64,
            Quantity::EndedPercent(Ending::Lost) => {
                late as f64 / result.counts.sent.max(1) as f64 * 100.0
            }
            _ => 0.0,
        }
    }

    /// Why no result has such a figure, if that is so.
    fn why_missing(&self, results: &[ResultFile]) -> Option<String> {
        let runs = self.runs(results);
        if runs.iter().any(|run| self.value(run).is_some()) {
            return None;
        }
        let Self { experiment, text, .. } = self;
        Some(match runs.as_slice() {
            [] => format!("there is no result of `{experiment}`"),
            [first, ..] => match self.quantity.why_no_row(first) {
                Some(reason) => format!("the results have no `{text}`: {reason}"),
                None => format!("the results have no `{text}`"),
            },
        })
    }

    /// Whether another seed may give another value: in `vm`, where each seed has a boot of its own, everything but counts without
    /// load; in simulations that draw numbers everything under load, and all figures but the shortest and the median; in `host`,
    /// all but sizes.
    fn is_chance(&self, result: &ResultFile) -> bool {
        if result.testbed == Testbed::Host.name() {
            return self.quantity.unit() != Unit::Bytes;
        }
        let figure = self.quantity.figure();
        match &*result.testbed {
            it if it == Testbed::Vm.name() => figure.is_some() || is_loaded(result),
            it if it == Testbed::Sim.name() && result.random => {
                figure.is_some_and(|it| !["min", "p50"].contains(&it)) || is_loaded(result)
            }
            _ => false,
        }
    }
}

impl Claim {
    /// Where its value comes from.
    #[must_use]
    pub fn basis(&self) -> Basis {
        match self.published.trim() {
            _ if self.is_by_construction => Basis::Construction,
            "" | "-" => Basis::Own,
            _ => Basis::Published,
        }
    }

    /// Holds the claim against `results`.
    #[must_use]
    pub fn judge(&self, results: &[ResultFile]) -> Verdict {
        let terms: Vec<_> =
            self.terms().iter().map(|term| term.map(|term| (term, term.runs(results)))).collect();
        let present = || terms.iter().flatten();
        let several = present().filter(|(_, runs)| runs.len() > 1);
        let mut seeds: BTreeSet<_> =
            several.flat_map(|(_, runs)| runs.iter().map(|run| Some(run.seed))).collect();
        if seeds.is_empty() {
            seeds.insert(None);
        }
        let values = seeds.into_iter().filter_map(|seed| self.value(&terms, seed));
        let values: Vec<f64> = values.collect();
        let Some(found) = Range::from_values(values.iter().copied()) else {
            return Verdict { found: None, agreement: Agreement::Missing };
        };
        let is_chance =
            present().any(|(term, runs)| runs.first().is_some_and(|run| term.is_chance(run)));
        let within = values.iter().filter(|value| self.holds(**value)).count();
        let agreement = match within {
            _ if is_chance && found.count < ENOUGH_SEEDS => Agreement::TooFewSeeds,
            within if within == values.len() => Agreement::Yes,
            0 => Agreement::No,
            _ => Agreement::Depends,
        };
        Verdict { found: Some(found), agreement }
    }

    /// The same about experiments whose names begin with `prefix`: those of an alternative.
    #[must_use]
    pub fn about(&self, prefix: &str) -> Self {
        let of = |term: &Term| Term {
            experiment: format!("{prefix}{}", term.experiment),
            ..term.clone()
        };
        Self {
            value: of(&self.value),
            minus: self.minus.as_ref().map(of),
            over: self.over.as_ref().map(of),
            over_minus: self.over_minus.as_ref().map(of),
            ..self.clone()
        }
    }

    /// value, minus, over, over_minus
    fn terms(&self) -> [Option<&Term>; 4] {
        [Some(&self.value), self.minus.as_ref(), self.over.as_ref(), self.over_minus.as_ref()]
    }

    /// The value with the runs of that seed; of experiments with one run, with that one.
    fn value(&self, terms: &[Option<(&Term, Vec<&ResultFile>)>], seed: Option<u64>) -> Option<f64> {
        let reckon = |at: usize, neutral: f64| match terms.get(at)? {
            None => Some(neutral),
            Some((term, runs)) => match runs.as_slice() {
                [only] => term.value(only),
                runs => term.value(runs.iter().find(|run| Some(run.seed) == seed)?),
            },
        };
        let dividend = reckon(0, 0.0)? - reckon(1, 0.0)?;
        let divisor = reckon(2, 1.0)? - reckon(3, 0.0)?;
        (divisor != 0.0).then_some(dividend / divisor)
    }

    /// Whether a value is within the bounds.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        // Sums of numbers that no binary number is are off by their last digits.
        let rounding = value.abs() * ROUNDING;
        self.at_least.is_none_or(|least| value + rounding >= least)
            && self.at_most.is_none_or(|most| value - rounding <= most)
    }

    /// How many frames its experiment sent, in each run.
    #[must_use]
    pub fn sent(&self, results: &[ResultFile]) -> Option<u64> {
        self.value.runs(results).first().map(|run| run.counts.sent)
    }

    /// What it is about: what the file says, or else its values, each by the title of its experiment or by the settings of that.
    #[must_use]
    pub fn spoken(&self, results: &[ResultFile]) -> String {
        if !self.says.is_empty() {
            return self.says.clone();
        }
        let said = |term: &Term| match term.runs(results).first() {
            Some(run) => {
                let quantity = term.text.split_once(' ').map_or("", |(_, quantity)| quantity);
                format!("{}: {quantity}", subject(run))
            }
            None => term.text.clone(),
        };
        let less = |value: &Term, minus: &Option<Term>| match minus {
            Some(minus) => format!("{} less {}", said(value), said(minus)),
            None => said(value),
        };
        let dividend = less(&self.value, &self.minus);
        match &self.over {
            Some(over) => format!("{dividend}, over {}", less(over, &self.over_minus)),
            None => dividend,
        }
    }

    /// Why it has no value, if there is a reason: that of the first figure that no result has.
    #[must_use]
    pub fn why_missing(&self, results: &[ResultFile]) -> Option<String> {
        let reason = self.terms().into_iter().flatten().find_map(|term| term.why_missing(results));
        reason.or_else(|| {
            let over = self.over.as_ref()?;
            let is_there = self.judge(results).agreement != Agreement::Missing;
            let divisor = match &self.over_minus {
                None => format!("`{}` is 0", over.text),
                Some(less) => format!("`{}` less `{}` is 0", over.text, less.text),
            };
            (!is_there).then(|| format!("nothing can be divided: {divisor}"))
        })
    }

    /// Whether it says something about an experiment: about all of its seeds, or this one.
    #[must_use]
    pub fn is_about(&self, experiment: &Experiment) -> bool {
        let names = [&experiment.group, &experiment.name];
        self.terms().into_iter().flatten().any(|term| names.contains(&&term.experiment))
    }

    /// Whether all experiments that it says something about are among these.
    #[must_use]
    pub fn is_within(&self, experiments: &[Experiment]) -> bool {
        let is_there = |term: &Term| {
            experiments.iter().any(|it| [&it.group, &it.name].contains(&&term.experiment))
        };
        self.terms().into_iter().flatten().all(is_there)
    }

    /// Whether it is about a largest value.
    #[must_use]
    pub fn is_about_maxima(&self) -> bool {
        let is_largest = |term: &Term| matches!(term.quantity, Quantity::Latency(_, "max"));
        self.terms().into_iter().flatten().any(is_largest)
    }

    /// Whether it says something about this result.
    #[must_use]
    pub fn is_about_result(&self, result: &ResultFile) -> bool {
        let names = [result.group(), &result.experiment];
        self.terms().into_iter().flatten().any(|term| names.contains(&&*term.experiment))
    }

    /// The unit of its values and bounds, where nanoseconds stand for microseconds; `None` for a ratio.
    #[must_use]
    pub fn unit(&self) -> Option<Unit> {
        self.over.is_none().then(|| self.value.quantity.unit())
    }

    /// The bounds as people write them.
    #[must_use]
    pub fn bounds(&self) -> String {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => "any".into(),
        }
    }
}

/// Values of an axis that take the place of those of the file.
#[derive(Default)]
pub(crate) struct Replacement {
    /// Those of the file, as they are in names of experiments.
    pub(crate) old: BTreeSet<String>,
    /// The others; none if nothing is replaced.
    pub(crate) new: Vec<String>,
}

impl Replacement {
    /// What a claim or a figure is about that the file makes for each of these. One of the whole axis is about whatever is on it;
    /// one of a part is about that part, so that only what is in both is left.
    pub(crate) fn of<'a>(&'a self, each: &[&'a str]) -> Vec<&'a str> {
        let is_of_axis = each.iter().all(|it| self.old.contains(*it));
        if self.new.is_empty() || !is_of_axis {
            return each.to_vec();
        }
        let is_whole = self.old.iter().all(|it| each.contains(&it.as_str()));
        let new = self.new.iter().map(String::as_str);
        new.filter(|it| is_whole || each.contains(it)).collect()
    }
}

/// Reads `[[claim]]` tables.
pub(crate) fn read(
    value: Option<&Value>,
    replacement: &Replacement,
    findings: &Findings,
) -> Vec<Claim> {
    let tables = value.into_iter().flat_map(|value| value.tables("claim", findings));
    tables.flat_map(|table| read_each(table, replacement, findings)).collect()
}

/// Reports figures of experiments that are none of these.
pub(crate) fn refuse_unknown(claims: &[Claim], names: &BTreeSet<String>, findings: &Findings) {
    for term in claims.iter().flat_map(Claim::terms).flatten() {
        if names.contains(&term.experiment) {
            continue;
        }
        let message = format!("unknown experiment `{}`", term.experiment);
        findings.error_with_hint(&term.origin, message, hint_of(&term.experiment, names));
    }
}

/// Which experiment may be meant, and which there are: those spelt most like it, and how many in all. Runs with one
/// seed are named only where one is meant, since there may be hundreds of each experiment.
fn hint_of(unknown: &str, names: &BTreeSet<String>) -> String {
    let is_run = |name: &str| {
        name.rsplit_once("-seed-").is_some_and(|(group, seed)| {
            names.contains(group) && seed.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    let all = names.iter().map(String::as_str);
    let groups: Vec<_> = all.clone().filter(|name| !is_run(name)).collect();
    let listed = match groups.len() {
        0 => return "the file has no experiments".into(),
        count if count <= MOST_NAMES => {
            format!("the experiments of this file are {}", groups.join(", "))
        }
        count => {
            let near = nearest(unknown, groups.iter().copied(), MOST_NAMES);
            format!("this file has {count} experiments, the nearest are {}", near.join(", "))
        }
    };
    let meant =
        did_you_mean(unknown, groups.iter().copied()).or_else(|| did_you_mean(unknown, all));
    match meant {
        Some(meant) => format!("did you mean `{meant}`? {listed}"),
        None => listed,
    }
}

/// What stands for one of several.
pub const EACH: &str = "{each}";

/// The claims of one table: one, or one of each.
fn read_each(table: &Table, replacement: &Replacement, findings: &Findings) -> Vec<Claim> {
    let mut section = Section::new(table, findings);
    section.refuse_empty("each", "remove `each` to make one claim");
    let each = section.strings("each");
    if section.has("each") {
        let has_place =
            section.table().get("value").and_then(Value::as_str).is_some_and(|v| v.contains(EACH));
        if !has_place {
            let message = format!("`each` needs `{EACH}` in `value`");
            findings.error(section.origin_of("each"), message);
        }
        for (place, (one, origin)) in each.iter().enumerate() {
            if each[..place].iter().any(|(other, _)| other == one) {
                findings.error(origin, format!("`{one}` is there twice"));
            }
        }
        let each: Vec<_> = each.into_iter().map(|(each, _)| each).collect();
        let read = |each| read_one(Section::new(table, findings), Some(each));
        return replacement.of(&each).into_iter().filter_map(read).collect();
    }
    read_one(section, None).into_iter().collect()
}

fn read_one(mut section: Section<'_>, each: Option<&str>) -> Option<Claim> {
    section.require(&["id", "value"]);
    section.has("each");
    let filled = |text: &str| text.replace(EACH, each.unwrap_or(EACH));
    let term = |section: &mut Section<'_>, key| {
        let text = section.string(key)?;
        let origin = section.origin_of(key);
        let term = Term::parse(&filled(text), origin);
        if let Err((reason, hint)) = &term {
            let message = format!("`{key}`: {reason}");
            match hint {
                Some(hint) => section.findings().error_with_hint(origin, message, hint),
                None => section.findings().error(origin, message),
            }
        }
        term.ok()
    };
    let value = term(&mut section, "value");
    let minus = term(&mut section, "minus");
    let over = term(&mut section, "over");
    let over_minus = term(&mut section, "over_minus");
    let at_least = section.float("at_least", f64::MIN..=f64::MAX);
    let at_most = section.float("at_most", f64::MIN..=f64::MAX);
    if at_least > at_most && at_most.is_some() {
        let hint = "write the smaller one as `at_least`";
        let at = section.origin_of("at_least");
        section.findings().error_with_hint(at, "`at_least` is more than `at_most`", hint);
    }
    if at_least.is_none() && at_most.is_none() {
        let hint = "add `at_least`, `at_most` or both";
        section.findings().error_with_hint(
            section.origin(),
            "a claim without bounds always holds",
            hint,
        );
    }
    let text = |section: &mut Section<'_>, key| section.string(key).unwrap_or_default().to_owned();
    let claim = Claim {
        id: text(&mut section, "id"),
        says: text(&mut section, "says"),
        published: text(&mut section, "published"),
        is_by_construction: section.boolean("by_construction").unwrap_or(false),
        note: text(&mut section, "note"),
        each: each.map(str::to_owned),
        value: value?,
        minus,
        over,
        over_minus,
        at_least,
        at_most,
    };
    section.finish();
    Some(claim)
}

#[cfg(test)]
mod tests {
    use candor_diagnostics::Source;

    use super::*;

    #[test]
    fn a_hint_names_the_nearest_experiments_and_how_many_there_are() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let few = names(&["one", "two", "two-seed-1", "two-seed-2"]);
        assert_eq!(hint_of("other", &few), "the experiments of this file are one, two");
        assert_eq!(
            hint_of("tow", &few),
            "did you mean `two`? the experiments of this file are one, two"
        );
        let many = ["a-low", "b-low", "b-high", "c-low", "c-high", "d-low", "e-low"];
        assert_eq!(
            hint_of("b-medium-high", &names(&many)),
            "this file has 7 experiments, the nearest are b-high, c-high, b-low, d-low, e-low"
        );
        assert_eq!(hint_of("one", &names(&[])), "the file has no experiments");
    }

    #[test]
    fn a_term_is_an_experiment_and_a_quantity_of_it() {
        let origin = Origin::new(&Source::new("t.toml", ""), 0..0);
        let parse = |text: &str| Term::parse(text, &origin);
        let term = parse("flood  lost_percent").unwrap();
        let found = (&*term.experiment, term.quantity.unit(), &*term.text);
        assert_eq!(found, ("flood", Unit::Percent, "flood lost_percent"));
        for text in ["", "simple", "simple missing", "a b c d e"] {
            let (reason, hint) = parse(text).unwrap_err();
            assert!(reason.starts_with("write `EXPERIMENT METRIC FIGURE`"), "{text}: {reason}");
            assert_eq!(hint, None);
        }
        let (reason, _) = parse("simple gateway_latency p98").unwrap_err();
        assert_eq!(reason, "unknown figure `p98`");
    }
}

//! Figures of a pair: exact ones, those that boots move, and ranges over seeds.

use std::collections::BTreeSet;

use candor_causes::Ending;
use candor_lat::{Metric, TapPath};

use super::Allowance;
use super::paths::{self, FramePath, LEAST_SHARE};
use super::verdict::{BOOT_INSTRUCTIONS, ENOUGH_BOOTS, Sample, Verdict, judge};
use crate::experiment::Testbed;
use crate::group::{Group, Range};
use crate::quantity::{Quantity, Unit};
use crate::result::{ResultFile, machine};

/// Seeds on each side from which ranges are worth comparing.
pub(crate) const ENOUGH_SEEDS: usize = 3;

/// A figure on both sides that has a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The experiment, as it is called after.
    pub experiment: String,
    /// The metric, of latencies.
    pub metric: Option<Metric>,
    /// One of [`verdict_figures`].
    pub figure: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// The seed of an exact figure: of several, the one with the largest increase. `None` if the values are of all boots.
    pub seed: Option<u64>,
    /// The value before, or those of all boots.
    pub before: Sample,
    /// The value after, or those of all boots.
    pub after: Sample,
    /// Of a path: the part of the frames that take it before and after, in percent.
    pub shares: Option<[Sample; 2]>,
    /// How many nanoseconds an instruction takes, in `vm`, if it is as many on both sides.
    pub ns_per_instruction: Option<f64>,
    /// Differences up to this are none, in the figure's unit.
    pub resolution: f64,
    /// What became of it.
    pub verdict: Verdict,
}

impl Figure {
    /// The median after without that before.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.after.median - self.before.median
    }

    /// The same in percent of before.
    #[must_use]
    pub fn difference_percent(&self) -> Option<f64> {
        (self.before.median != 0.0).then(|| self.difference() / self.before.median * 100.0)
    }

    /// The same in instructions, where they are counted.
    #[must_use]
    pub fn difference_instructions(&self) -> Option<f64> {
        match self.unit {
            Unit::Instructions => Some(self.difference()),
            Unit::Nanoseconds => Some(self.difference() / self.ns_per_instruction?),
            _ => None,
        }
    }

    /// Whether it is not worse than that.
    #[must_use]
    pub fn is_allowed(&self, allowance: Allowance) -> bool {
        let difference = self.difference();
        let most = match (allowance, self.unit) {
            (Allowance::Percent(percent), _) => self.before.median * percent / 100.0,
            (Allowance::Nanoseconds(ns), Unit::Nanoseconds) => ns,
            (Allowance::Nanoseconds(ns), Unit::Instructions) => {
                self.ns_per_instruction.map_or(0.0, |each| ns / each)
            }
            (Allowance::Nanoseconds(_), _) => 0.0,
        };
        self.verdict != Verdict::Slower || difference <= most
    }
}

/// Where a range is against the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// They have values in common: no difference shows.
    Overlap,
    /// All values are higher than all before.
    Higher,
    /// All values are lower than all before.
    Lower,
    /// Too few runs to say anything.
    TooFewSeeds,
}

impl Trend {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Overlap => "overlap",
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::TooFewSeeds => "too few seeds",
        }
    }

    fn new(before: &Range, after: &Range) -> Self {
        if before.count.min(after.count) < ENOUGH_SEEDS {
            Self::TooFewSeeds
        } else if before.overlaps(after) {
            Self::Overlap
        } else if after.least > before.most {
            Self::Higher
        } else {
            Self::Lower
        }
    }
}

/// A figure over several seeds on both sides, without a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    /// The experiment, as it is called after.
    pub experiment: String,
    /// The metric, of latencies.
    pub metric: Option<Metric>,
    /// One of [`seed_figures`].
    pub figure: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// The range before.
    pub before: Range,
    /// The range after.
    pub after: Range,
    /// One against the other.
    pub trend: Trend,
}

/// The exact figures of two groups of runs; `None` if they have no seed in common.
pub(super) fn exact(before: &Group<'_>, after: &Group<'_>) -> Option<Vec<Figure>> {
    let same_seed = |new: &&ResultFile| before.runs.iter().any(|old| old.seed == new.seed);
    if !after.runs.iter().any(same_seed) {
        return None;
    }
    let latencies = quantities(before, after, &EXACT_LATENCIES);
    let figures = latencies.chain([INSTRUCTIONS, LOST]);
    Some(figures.filter_map(|kind| by_seed(&kind, before, after)).collect())
}

/// Frames that guests lost, if any of them did: over the boots, since which frames meet a full queue is an accident of them. With too
/// few boots, only equal counts have a verdict.
pub(super) fn lost(before: &Group<'_>, after: &Group<'_>) -> Option<Figure> {
    let (figure, quantity) = LOST;
    let of = |side: &Group<'_>| Sample::new(side.runs.iter().filter_map(|run| quantity.of(run)));
    let (old, new) = (of(before)?, of(after)?);
    if old.range.most + new.range.most == 0.0 {
        return None;
    }
    let resolution = old.spread().max(new.spread());
    let all = sampled(after.name, (figure, &quantity), [old, new], resolution, None);
    let is_equal = resolution == 0.0 && old.median == new.median;
    let is_told = is_equal || are_enough(before, after);
    Some(if is_told { all } else { Figure { verdict: Verdict::TooFewBoots, ..all } })
}

/// A figure of equal seeds: the one with the largest increase.
fn by_seed(
    (figure, quantity): &(&'static str, Quantity),
    before: &Group<'_>,
    after: &Group<'_>,
) -> Option<Figure> {
    let of_seed = |new: &&ResultFile| {
        let old = before.runs.iter().find(|old| old.seed == new.seed)?;
        let (old, value) = (quantity.of(old)?, quantity.of(new)?);
        Some((new.seed, Sample::new([old])?, Sample::new([value])?))
    };
    let all = after.runs.iter().filter_map(of_seed);
    let increase = |(_, old, new): &(u64, Sample, Sample)| new.median - old.median;
    let (seed, old, new) = all.max_by(|a, b| increase(a).total_cmp(&increase(b)))?;
    // That nothing is lost on either side need not be said.
    if quantity.unit() == Unit::Frames && old.median + new.median == 0.0 {
        return None;
    }
    Some(Figure {
        experiment: after.name.to_owned(),
        metric: metric(quantity),
        figure,
        unit: quantity.unit(),
        seed: Some(seed),
        verdict: judge(&old, &new, 0.0),
        before: old,
        after: new,
        shares: None,
        ns_per_instruction: None,
        resolution: 0.0,
    })
}

/// The figures of two groups of runs of guests that boots move.
pub(super) fn of_boots(before: &Group<'_>, after: &Group<'_>) -> Vec<Figure> {
    let [mine, each] = [before, after].map(|side| ns_per_instruction(side.runs[0]));
    let is_one_speed = mine == each;
    let each = mine.max(each);
    let shown = is_one_speed.then_some(each);
    let plain = |kind: (&'static str, Quantity)| {
        let (figure, quantity) = kind;
        let of =
            |side: &Group<'_>| Sample::new(side.runs.iter().filter_map(|run| quantity.of(run)));
        let (old, new) = (of(before)?, of(after)?);
        let floor = match quantity.unit() {
            Unit::Nanoseconds => BOOT_INSTRUCTIONS * each,
            _ => BOOT_INSTRUCTIONS,
        };
        let resolution = floor.max(old.spread()).max(new.spread());
        Some(sampled(after.name, (figure, &quantity), [old, new], resolution, shown))
    };
    let latencies = quantities(before, after, &BOOT_LATENCIES);
    let mut figures: Vec<Figure> = latencies.chain([INSTRUCTIONS]).filter_map(plain).collect();
    if let Some(metric) = common_metric(before, after) {
        let [old, new] = [before, after].map(|side| paths::paths(&side.runs, metric, each));
        let paths = of_paths(after.name, metric, [&old, &new], each);
        figures.extend(paths.into_iter().map(|it| Figure { ns_per_instruction: shown, ..it }));
    }
    if !are_enough(before, after) {
        figures.iter_mut().for_each(|figure| figure.verdict = Verdict::TooFewBoots);
    }
    figures
}

/// Whether both sides have boots for a verdict.
fn are_enough(before: &Group<'_>, after: &Group<'_>) -> bool {
    [before, after].iter().all(|side| boots(side) >= ENOUGH_BOOTS)
}

fn boots(side: &Group<'_>) -> usize {
    let boots: BTreeSet<_> = side.runs.iter().filter_map(|run| Some(machine(run)?.boot)).collect();
    boots.len()
}

/// The lengths of paths that enough frames take on both sides. What boots move any of them by is no difference.
fn of_paths(
    experiment: &str,
    metric: Metric,
    [old, new]: [&[FramePath]; 2],
    each: f64,
) -> Vec<Figure> {
    let is_taken = |path: &FramePath| path.shares.median >= LEAST_SHARE * 100.0;
    let pairs = paths::pair(old, new).into_iter().map(|(a, b)| (&old[a], &new[b]));
    let pairs: Vec<_> = pairs.filter(|(a, b)| is_taken(a) && is_taken(b)).collect();
    let spreads = pairs.iter().flat_map(|(a, b)| [a.lengths.spread(), b.lengths.spread()]);
    let resolution = spreads.fold(BOOT_INSTRUCTIONS * each, f64::max);
    let quantity = Quantity::Latency(metric, "p50");
    // Of a long latency, the histogram knows no more than this.
    let resolution = |of: [&Sample; 2]| resolution.max(paths::step(of[0].median.max(of[1].median)));
    let figure = |(a, b): &(&FramePath, &FramePath)| Figure {
        shares: Some([a.shares, b.shares]),
        ..sampled(
            experiment,
            (PATH, &quantity),
            [a.lengths, b.lengths],
            resolution([&a.lengths, &b.lengths]),
            Some(each),
        )
    };
    pairs.iter().map(figure).collect()
}

fn sampled(
    experiment: &str,
    (figure, quantity): (&'static str, &Quantity),
    [before, after]: [Sample; 2],
    resolution: f64,
    ns_per_instruction: Option<f64>,
) -> Figure {
    Figure {
        experiment: experiment.to_owned(),
        metric: metric(quantity),
        figure,
        unit: quantity.unit(),
        seed: None,
        verdict: judge(&before, &after, resolution),
        before,
        after,
        shares: None,
        ns_per_instruction,
        resolution,
    }
}

/// The latencies that two groups have in common, by these names.
fn quantities<'a>(
    before: &Group<'_>,
    after: &Group<'_>,
    names: &'a [&'static str],
) -> impl Iterator<Item = (&'static str, Quantity)> + use<'a> {
    let metric = common_metric(before, after);
    names.iter().filter_map(move |&name| Some((name, Quantity::Latency(metric?, name))))
}

/// The latency that both groups are about.
fn common_metric(before: &Group<'_>, after: &Group<'_>) -> Option<Metric> {
    let main = |group: &Group<'_>| TapPath::by_name(&group.runs[0].path)?.main_metric();
    main(before).filter(|metric| main(after) == Some(*metric))
}

/// The figures that a run had before and has not after, in words.
pub(super) fn gone(before: &Group<'_>, after: &Group<'_>) -> Vec<String> {
    let names: &[_] = match is_of_guests(after) {
        true => &BOOT_LATENCIES,
        false => &EXACT_LATENCIES,
    };
    let is_gone = |quantity: &Quantity| {
        after.runs.iter().any(|new| {
            let old = before.runs.iter().find(|old| old.seed == new.seed);
            old.is_some_and(|old| quantity.of(old).is_some() && quantity.of(new).is_none())
        })
    };
    let words = |(figure, quantity): (&str, Quantity)| {
        let of = metric(&quantity).map_or(String::new(), |metric| format!("{} ", metric.key()));
        format!("{}: only the side before has {of}{figure}", after.name)
    };
    let all = quantities(before, after, names).chain([INSTRUCTIONS]);
    all.filter(|(_, quantity)| is_gone(quantity)).map(words).collect()
}

/// Whether the runs are of guests, which are booted.
pub(super) fn is_of_guests(group: &Group<'_>) -> bool {
    group.runs[0].testbed == Testbed::Vm.name()
}

/// Figures of a latency of a simulation, which its settings and its seed make.
const EXACT_LATENCIES: [&str; 2] = ["min", "p50"];
/// Figures of a latency that boots move. A median may lie between two paths, so it is none.
const BOOT_LATENCIES: [&str; 2] = ["min", "mean"];
/// The length of a path.
const PATH: &str = "path";
const INSTRUCTIONS: (&str, Quantity) = ("instructions", Quantity::GATEWAY_INSTRUCTIONS);
const LOST: (&str, Quantity) = ("lost", Quantity::Ended(Ending::Lost));

/// The names of figures that have a verdict.
#[must_use]
pub const fn verdict_figures() -> [&'static str; 6] {
    ["min", "p50", "mean", PATH, INSTRUCTIONS.0, LOST.0]
}

/// Latencies that are shown over seeds.
const LATENCIES: [&str; 3] = ["p50", "p99", "max"];
const LOST_PERCENT: &str = "lost_percent";

/// The names of figures that are shown over seeds.
#[must_use]
pub fn seed_figures() -> Vec<&'static str> {
    LATENCIES.into_iter().chain([LOST_PERCENT]).collect()
}

const fn metric(quantity: &Quantity) -> Option<Metric> {
    match quantity {
        Quantity::Latency(metric, _) => Some(*metric),
        _ => None,
    }
}

fn ns_per_instruction(run: &ResultFile) -> f64 {
    machine(run).map_or(1.0, |machine| f64::from(1_u32 << machine.shift.min(31)))
}

/// The figures of two groups over their seeds, where nothing has a verdict.
pub(super) fn ranges(before: &Group<'_>, after: &Group<'_>) -> Vec<Ranges> {
    let lost = range((LOST_PERCENT, Quantity::EndedPercent(Ending::Lost)), before, after);
    let lost = lost.filter(|lost| lost.before.most + lost.after.most > 0.0);
    latency_ranges(before, after).chain(lost).collect()
}

/// The latencies among them.
pub(super) fn latency_ranges(
    before: &Group<'_>,
    after: &Group<'_>,
) -> impl Iterator<Item = Ranges> {
    // Behind a gateway the load delays departures, too.
    let main = TapPath::by_name(&after.runs[0].path).and_then(TapPath::main_metric);
    let metric = main.filter(|main| *main != Metric::GatewayLatency).unwrap_or(Metric::EndToEnd);
    LATENCIES
        .into_iter()
        .filter_map(move |name| range((name, Quantity::Latency(metric, name)), before, after))
}

fn range(
    (figure, quantity): (&'static str, Quantity),
    before: &Group<'_>,
    after: &Group<'_>,
) -> Option<Ranges> {
    let of = |result: &ResultFile| quantity.of(result);
    let (old, new) = (before.range(of)?, after.range(of)?);
    let trend = Trend::new(&old, &new);
    let (metric, unit) = (metric(&quantity), quantity.unit());
    let experiment = after.name.to_owned();
    Some(Ranges { experiment, metric, figure, unit, before: old, after: new, trend })
}

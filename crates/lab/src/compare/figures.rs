//! Figures of a pair: exact ones, and ranges over seeds.

use candor_causes::Ending;
use candor_lat::{Metric, TapPath};

use super::Allowance;
use crate::experiment::Testbed;
use crate::group::{Group, Range};
use crate::quantity::{Quantity, Unit};
use crate::result::{Machine, ResultFile, machine};

/// Seeds on each side from which ranges are worth comparing.
pub(crate) const ENOUGH_SEEDS: usize = 3;

/// Instructions by which another boot of the same kernel moves the shortest and the median latency: tables
/// lie elsewhere and are searched in another order. Eight boots of Linux 6.12 and five of 6.12-rt with
/// parameters that mean nothing moved them by up to 5.
const BOOT_INSTRUCTIONS: f64 = 6.0;
/// The same for the shortest latency on PREEMPT_RT, which they moved by up to 22.
const RT_MIN_INSTRUCTIONS: f64 = 25.0;
/// The same for the instructions of a process, which contain the timer interrupts that hit it. Those boots,
/// and five seeds, moved them by up to 20 of 26,000.
const PROCESS_INSTRUCTIONS: f64 = 25.0;

/// What became of an exact figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No difference.
    Same,
    /// Less: faster, or fewer frames lost.
    Faster,
    /// More.
    Slower,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Faster => "faster",
            Self::Slower => "slower",
        }
    }
}

/// An exact figure on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The experiment, as it is called after.
    pub experiment: String,
    /// The metric, of latencies.
    pub metric: Option<Metric>,
    /// `min`, `p50`, `instructions` or `lost`.
    pub figure: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// The seed: of several, the one with the largest increase.
    pub seed: u64,
    /// The value before.
    pub before: f64,
    /// The value after.
    pub after: f64,
    /// How many nanoseconds an instruction takes, in `vm`.
    pub ns_per_instruction: Option<f64>,
    /// Whether one side is a PREEMPT_RT kernel.
    pub is_rt: bool,
}

impl Figure {
    /// After without before.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.after - self.before
    }

    /// The same in percent of before.
    #[must_use]
    pub fn difference_percent(&self) -> Option<f64> {
        (self.before != 0.0).then(|| self.difference() / self.before * 100.0)
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

    /// Differences up to this are none, in the figure's unit: another boot makes them.
    #[must_use]
    pub fn resolution(&self) -> f64 {
        match (self.unit, self.ns_per_instruction) {
            (Unit::Nanoseconds, Some(each)) if self.is_rt && self.figure == "min" => {
                RT_MIN_INSTRUCTIONS * each
            }
            (Unit::Nanoseconds, Some(each)) => BOOT_INSTRUCTIONS * each,
            (Unit::Instructions, _) => PROCESS_INSTRUCTIONS,
            // A simulation has no boots.
            _ => 0.0,
        }
    }

    /// What became of it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.difference() {
            difference if difference.abs() <= self.resolution() => Verdict::Same,
            difference if difference > 0.0 => Verdict::Slower,
            _ => Verdict::Faster,
        }
    }

    /// Whether it is not worse than that.
    #[must_use]
    pub fn is_allowed(&self, allowance: Allowance) -> bool {
        let difference = self.difference();
        let most = match (allowance, self.unit) {
            (Allowance::Percent(percent), _) => self.before * percent / 100.0,
            (Allowance::Nanoseconds(ns), Unit::Nanoseconds) => ns,
            (Allowance::Nanoseconds(ns), Unit::Instructions) => {
                self.ns_per_instruction.map_or(0.0, |each| ns / each)
            }
            (Allowance::Nanoseconds(_), _) => 0.0,
        };
        self.verdict() != Verdict::Slower || difference <= most
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
    /// The word for it.
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

/// A figure over several seeds on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    /// The experiment, as it is called after.
    pub experiment: String,
    /// The metric, of latencies.
    pub metric: Option<Metric>,
    /// `p50`, `p99`, `max` or `lost_percent`.
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
    let common: Vec<_> = after.runs.iter().copied().filter(same_seed).collect();
    if common.is_empty() {
        return None;
    }
    let figures = exact_quantities(before, after).filter_map(|kind| {
        let of_seed = |new: &&ResultFile| {
            let old = before.runs.iter().find(|old| old.seed == new.seed)?;
            figure(&kind, after.name, old, new)
        };
        let all = common.iter().filter_map(of_seed);
        all.max_by(|a, b| a.difference().total_cmp(&b.difference()))
    });
    // That nothing is lost on either side need not be said.
    Some(figures.filter(|f| f.unit != Unit::Frames || f.before + f.after > 0.0).collect())
}

/// What exact figures two groups have in common.
fn exact_quantities(
    before: &Group<'_>,
    after: &Group<'_>,
) -> impl Iterator<Item = (&'static str, Quantity)> + use<> {
    let latency =
        exact_latency(before.runs[0]).filter(|it| exact_latency(after.runs[0]) == Some(*it));
    let latencies = EXACT_LATENCIES
        .into_iter()
        .filter_map(move |name| Some((name, Quantity::Latency(latency?, name))));
    latencies.chain(EXACT_COUNTS)
}

/// The exact figures that a run had before and has not after, in words.
pub(super) fn gone(before: &Group<'_>, after: &Group<'_>) -> Vec<String> {
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
    exact_quantities(before, after).filter(|(_, quantity)| is_gone(quantity)).map(words).collect()
}

/// The latency that a result has exactly. A simulation is what its settings and its seed make it. Of what guests measure,
/// only the time in a gateway was shown to be the same after another boot.
fn exact_latency(result: &ResultFile) -> Option<Metric> {
    match &*result.testbed {
        it if it == Testbed::Sim.name() => TapPath::by_name(&result.path)?.main_metric(),
        it if it == Testbed::Vm.name() => Some(Metric::GatewayLatency),
        _ => None,
    }
}

/// Figures of a latency that are exact where anything of it is.
const EXACT_LATENCIES: [&str; 2] = ["min", "p50"];
/// Other exact figures, with their names.
const EXACT_COUNTS: [(&str, Quantity); 2] =
    [("instructions", Quantity::GATEWAY_INSTRUCTIONS), ("lost", Quantity::Ended(Ending::Lost))];

/// The names of exact figures.
#[must_use]
pub fn exact_figures() -> Vec<&'static str> {
    EXACT_LATENCIES.into_iter().chain(EXACT_COUNTS.map(|(name, _)| name)).collect()
}

/// Latencies that are shown over seeds.
const LATENCIES: [&str; 3] = ["p50", "p99", "max"];
const LOST_PERCENT: &str = "lost_percent";

/// The names of figures that are shown over seeds.
#[must_use]
pub fn seed_figures() -> Vec<&'static str> {
    LATENCIES.into_iter().chain([LOST_PERCENT]).collect()
}

fn figure(
    (figure, quantity): &(&'static str, Quantity),
    name: &str,
    old: &ResultFile,
    new: &ResultFile,
) -> Option<Figure> {
    Some(Figure {
        experiment: name.to_owned(),
        metric: metric(quantity),
        figure,
        unit: quantity.unit(),
        seed: new.seed,
        before: quantity.of(old)?,
        after: quantity.of(new)?,
        ns_per_instruction: machine(new).map(|machine| f64::from(1 << machine.shift)),
        is_rt: [old, new].into_iter().filter_map(machine).any(|machine| is_rt(&machine)),
    })
}

const fn metric(quantity: &Quantity) -> Option<Metric> {
    match quantity {
        Quantity::Latency(metric, _) => Some(*metric),
        _ => None,
    }
}

fn is_rt(machine: &Machine) -> bool {
    machine.release.contains("-rt")
}

/// The figures of two groups over their seeds, where nothing is exact.
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

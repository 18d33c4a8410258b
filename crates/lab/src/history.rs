//! A history: the same experiments on one kernel after the other, and where a figure changes from one release to the
//! next by more than boots and seeds explain ([`compare`](crate::compare)).
//!
//! Kernels are of one line if they are of the same Debian and both or neither are PREEMPT_RT: builds of two Debians have
//! different configurations and compilers, so that between them more changes than the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use candor_lat::result::file_name;
use candor_lat::{Metric, TapPath};

use crate::compare::{Figure, FunctionChange, Side, Verdict, compare};
use crate::group::{Group, Range, groups};
use crate::quantity::Quantity;
use crate::result::{Machine, ResultFile, machine, settings};

/// Kernels that are compared with one another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelLine {
    /// The Debian that built them: `deb13`, `deb12`; `own` for other kernels.
    pub debian: String,
    /// Whether they are PREEMPT_RT.
    pub is_rt: bool,
}

/// Such as `deb13, -rt`.
impl fmt::Display for KernelLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.debian, if self.is_rt { ", -rt" } else { "" })
    }
}

/// A release in a line: its numbers, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    numbers: Vec<u64>,
    name: String,
}

/// A figure that changed from one release to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// One of [`verdict_figures`](crate::compare::verdict_figures); of the paths that changed, only that which most frames take.
    pub figure: &'static str,
    /// The release before.
    pub since: String,
    /// Its median over the boots there, as the figure counts: nanoseconds, instructions per frame or frames.
    pub before: f64,
    /// Its median now.
    pub after: f64,
    /// The functions that changed most; none without counts of `lab profile` on enough boots.
    pub functions: Vec<FunctionChange>,
}

/// An experiment on one release.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The experiment, without the name of its kernel.
    pub experiment: String,
    pub line: KernelLine,
    /// The release of the kernel, as `uname -r` has it.
    pub release: String,
    /// The median latency over the seeds, in ns: of the gateway, or the latency that the results have.
    pub p50_ns: Option<Range>,
    /// The latency that one frame of a thousand exceeds, in ns.
    pub p999_ns: Option<Range>,
    /// Instructions per frame of a gateway that is a process.
    pub instructions: Option<Range>,
    /// Frames lost over all seeds.
    pub lost: u64,
    /// What is other than on the release before, if that has the experiment.
    pub changes: Vec<Change>,
}

/// An experiment that ran with two values of a setting, or on two QEMUs: what changed then is not the kernel alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixed {
    /// The experiment, without the name of its kernel.
    pub experiment: String,
    /// Such as `vm.mips`.
    pub setting: String,
    /// Two of its values; empty if it was not set.
    pub values: [String; 2],
}

/// Experiments on one kernel after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// By experiment, line and release.
    pub points: Vec<Point>,
    /// Experiments that are not among them.
    pub mixed: Vec<Mixed>,
    /// Experiments with too few boots on a release, or on the one before, to tell a change.
    pub too_few_boots: BTreeSet<String>,
}

/// Functions that a change names at most.
const MOST_FUNCTIONS: usize = 4;

/// The history of everything that ran on kernels.
#[must_use]
pub fn history(all: &Side) -> History {
    let mixed = mixed(&all.results);
    let mut lines: BTreeMap<KernelLine, BTreeMap<Release, Side>> = BTreeMap::new();
    for result in &all.results {
        let Some((line, release)) = machine(result).map(|it| place(&it)) else { continue };
        let name = |it: &ResultFile| (without_kernel(it, it.group()), it.seed);
        if mixed.iter().any(|it| it.experiment == name(result).0) {
            continue;
        }
        let side = lines.entry(line).or_default().entry(release).or_default();
        // One that is in two folders, or whose kernel was asked for in two ways, counts once.
        if !side.results.iter().any(|it| name(it) == name(result)) {
            side.results.push(result.clone());
        }
    }
    for profile in &all.profiles {
        let (line, release) = place(&profile.machine);
        let side = lines.get_mut(&line).and_then(|line| line.get_mut(&release));
        side.into_iter().for_each(|side| side.profiles.push(profile.clone()));
    }
    let (mut points, mut too_few_boots) = (Vec::new(), BTreeSet::new());
    for (line, releases) in &lines {
        let mut before: Option<(&Release, &Side)> = None;
        for (release, side) in releases {
            let comparison = before.map(|(old, it)| (old, compare(it, side)));
            for group in groups(&side.results) {
                let figures = comparison.iter().flat_map(|(_, comparison)| &comparison.figures);
                let mut figures = figures.filter(|it| it.experiment == group.name);
                if figures.any(|it| it.verdict == Verdict::TooFewBoots) {
                    too_few_boots.insert(without_kernel(group.runs[0], group.name));
                }
                let changes = comparison.iter().flat_map(|(old, comparison)| {
                    let functions = functions(&comparison.functions, &group);
                    changed(&comparison.figures, &group).map(move |it| Change {
                        figure: it.figure,
                        since: old.name.clone(),
                        before: it.before.median,
                        after: it.after.median,
                        functions: functions.clone(),
                    })
                });
                points.push(point(line, release, &group, changes.collect()));
            }
            before = Some((release, side));
        }
    }
    // Stable: releases of a line stay in their order.
    points.sort_by(|a, b| (&a.experiment, &a.line).cmp(&(&b.experiment, &b.line)));
    History { points, mixed, too_few_boots }
}

/// Settings that the kernel is asked for with, that make no difference, and that several results of one experiment differ in.
const OF_ONE: [&str; 8] = [
    "name",
    "title",
    "per_frame",
    "seed",
    "seeds",
    "vm.kernel",
    "vm.kernel.image",
    "vm.kernel.modules",
];

/// Each experiment that did not run with the same settings, on the same QEMU, on all kernels.
fn mixed(results: &[ResultFile]) -> Vec<Mixed> {
    let mut first = BTreeMap::new();
    let mut mixed: BTreeMap<String, Mixed> = BTreeMap::new();
    for result in results {
        let Some(machine) = machine(result) else { continue };
        let mut settings = settings(&result.config);
        settings.retain(|key, _| !OF_ONE.contains(&key.as_str()));
        settings.insert("QEMU".into(), format!("{} {}", machine.qemu, machine.qemu_sha256));
        settings.insert("vm.mips".into(), machine.mips.to_string());
        let experiment = without_kernel(result, result.group());
        let known = first.entry(experiment.clone()).or_insert_with(|| settings.clone());
        let value = |of: &BTreeMap<String, String>, key| of.get(key).cloned().unwrap_or_default();
        let other =
            known.keys().chain(settings.keys()).find(|it| known.get(*it) != settings.get(*it));
        if let Some(setting) = other.cloned() {
            let values = [value(known, &setting), value(&settings, &setting)];
            mixed.entry(experiment.clone()).or_insert(Mixed { experiment, setting, values });
        }
    }
    mixed.into_values().collect()
}

/// Whether boots and seeds do not explain a difference.
fn is_change(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Slower | Verdict::Faster)
}

/// The figures of an experiment that changed.
fn changed<'a>(all: &'a [Figure], group: &Group<'_>) -> impl Iterator<Item = &'a Figure> {
    let of_it: Vec<_> =
        all.iter().filter(|it| it.experiment == group.name && is_change(it.verdict)).collect();
    let share = |it: &&Figure| it.shares.map_or(0.0, |[_, after]| after.median);
    let most = of_it.iter().map(share).fold(0.0, f64::max);
    of_it.into_iter().filter(move |it| it.shares.is_none() || share(it) == most)
}

/// Functions that changed and are in the latency, largest difference first.
fn functions(all: &[FunctionChange], group: &Group<'_>) -> Vec<FunctionChange> {
    // The first of all stands for all functions together, without a place.
    let of_it = all.iter().filter(|it| it.experiment == group.name && !it.place.is_empty());
    let is_in = |it: &&FunctionChange| is_change(it.verdict) && it.in_latency == Some(true);
    of_it.filter(is_in).take(MOST_FUNCTIONS).cloned().collect()
}

fn point(line: &KernelLine, release: &Release, group: &Group<'_>, changes: Vec<Change>) -> Point {
    let first = group.runs[0];
    let metric = match Quantity::Latency(Metric::GatewayLatency, "p50").of(first) {
        Some(_) => Some(Metric::GatewayLatency),
        None => TapPath::by_name(&first.path).and_then(TapPath::main_metric),
    };
    let latency = |figure| group.range(|run| Quantity::Latency(metric?, figure).of(run));
    Point {
        experiment: without_kernel(first, group.name),
        line: line.clone(),
        release: release.name.clone(),
        p50_ns: latency("p50"),
        p999_ns: latency("p999"),
        instructions: group.range(|run| Quantity::GATEWAY_INSTRUCTIONS.of(run)),
        lost: group.sum(|run| run.counts.lost),
        changes,
    }
}

/// The name of an experiment without the value of the axis `vm.kernel`.
fn without_kernel(result: &ResultFile, name: &str) -> String {
    let kernel = result.axes.get("vm.kernel").map(|kernel| format!("-{}", file_name(kernel)));
    let shorter =
        kernel.and_then(|kernel| Some(name.replacen(&kernel, "", 1)).filter(|it| !it.is_empty()));
    shorter.unwrap_or_else(|| name.to_owned())
}

/// The line of a machine's kernel, and its place there: by the numbers of its package, which count on where the release does
/// not (Debian 12 has 6.1.0-49 for Linux 6.1.174).
fn place(machine: &Machine) -> (KernelLine, Release) {
    let suffix = machine.release.split(['+', '-']).find(|part| part.starts_with("deb"));
    let debian = match (&machine.package, suffix) {
        (None, _) => "own",
        (Some(_), Some(suffix)) => suffix,
        // Kernels of Debian 13 are the first that say so.
        (Some(_), None) => "deb12",
    };
    let line = KernelLine { debian: debian.to_owned(), is_rt: machine.release.contains("-rt") };
    let version = machine.package.as_deref().and_then(|package| package.split(' ').nth(1));
    let version = version.unwrap_or(&machine.release);
    let image = Path::new(&machine.kernel).file_name().filter(|_| machine.package.is_none());
    let name = match image {
        // Two own builds may have one release.
        Some(image) => format!("{} ({})", machine.release, image.to_string_lossy()),
        None => machine.release.clone(),
    };
    (line, Release { numbers: numbers(version), name })
}

/// The numbers of a version in their order, after which those of a candidate (`6.13.0-rc9`) come before the others.
fn numbers(version: &str) -> Vec<u64> {
    let of = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|it| it.parse().ok()).collect()
    };
    let (upstream, rest) = version.split_once(['-', '~', '+']).unwrap_or((version, ""));
    let mut numbers = of(upstream);
    numbers.resize(numbers.len().max(3), 0);
    numbers.push(u64::from(!rest.starts_with("rc")));
    numbers.extend(of(rest));
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_come_before_what_they_are_candidates_for() {
        let line = "6.1.0-9 6.1.0-10 6.1.37-1 6.9 6.12.9-1 6.12.10-1 6.12.10-2 6.13.0-rc9 6.13.0-rc10+ 6.13.0 6.13.0-1 7.2.12-1~bpo13+1";
        let versions: Vec<_> = line.split(' ').map(numbers).collect();
        assert!(versions.is_sorted(), "{versions:?}");
    }
}

//! Two runs of the same experiments compared: what became slower, by how much, and in which function.
//!
//! ```text
//!  before: results, profiles --+                +--> figures   exact, or by boots: min, mean, paths, instructions, lost
//!                              |                +--> counts    frames by ending and cause, where they differ
//!                              +-- pairing -----+--> ranges    over the seeds, no verdict
//!  after:  results, profiles --+   by settings  +--> functions instructions per frame
//! ```
//!
//! | experiment | what has a verdict |
//! |---|---|
//! | in `sim` | the shortest and the median latency, exactly: a simulation is what its settings and its seed make it |
//! | in `vm`, without load | what the boots of both sides do not explain: see `verdict.rs` and `paths.rs` |
//! | under load, in another QEMU, of this machine | nothing: which frames meet the load is chance, so all is a range over seeds |

mod allowance;
mod counts;
mod figures;
mod functions;
mod pairing;
mod paths;
mod read;
mod verdict;

pub use self::allowance::Allowance;
pub use self::counts::{CountChange, counted_names};
pub use self::figures::{Figure, Ranges, Trend, seed_figures, verdict_figures};
pub use self::functions::FunctionChange;
pub use self::pairing::Changed;
use self::pairing::{Item, pair};
pub(crate) use self::read::read_profiles;
pub use self::read::{keep, profiles_of};
pub use self::verdict::{ENOUGH_BOOTS, Sample, Verdict};
use crate::group::{Group, groups};
use crate::result::{Machine, ProfileFile, ResultFile, is_loaded, machine};

#[derive(Clone, Debug, Default)]
pub struct Side {
    pub results: Vec<ResultFile>,
    /// Its counts of instructions.
    pub profiles: Vec<ProfileFile>,
}

impl Side {
    /// What of both kinds has this value of a setting, such as `vm.kernel` and `6.12`.
    #[must_use]
    pub fn with(&self, setting: &str, value: &str) -> Self {
        let has = |config: &str| pairing::has(config, setting, value);
        Self {
            results: self.results.iter().filter(|r| has(&r.config)).cloned().collect(),
            profiles: self.profiles.iter().filter(|p| has(&p.config)).cloned().collect(),
        }
    }
}

/// What differs between two sides.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// What each side has in common and the other side has otherwise.
    pub changed: Vec<Changed>,
    /// How many experiments have a partner.
    pub pairs: usize,
    /// Figures that have a verdict.
    pub figures: Vec<Figure>,
    /// Figures that have none, over the seeds.
    pub ranges: Vec<Ranges>,
    /// What became of the frames, where it differs. Of these, only what is lost has a verdict, as a figure.
    pub counts: Vec<CountChange>,
    /// Instructions of all functions of an experiment, then by function, largest difference first: with enough boots only what
    /// these do not explain.
    pub functions: Vec<FunctionChange>,
    /// Experiments before that have no partner after.
    pub only_before: Vec<String>,
    /// Experiments after that have no partner before.
    pub only_after: Vec<String>,
    /// Figures that were there before and are not after.
    pub gone: Vec<String>,
    /// What makes the sides less comparable.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Figures that are worse than `allowance` permits.
    pub fn not_allowed(&self, allowance: Allowance) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(move |figure| !figure.is_allowed(allowance))
    }

    /// How many figures have that verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.figures.iter().filter(|figure| figure.verdict == verdict).count()
    }
}

/// Compares two sides.
#[must_use]
pub fn compare(before: &Side, after: &Side) -> Comparison {
    let (old, new) = (groups(&before.results), groups(&after.results));
    let pairing = pair(&items(&old), &items(&new));
    let name = |groups: &[Group<'_>], index: &usize| groups[*index].name.to_owned();
    let mut comparison = Comparison {
        pairs: pairing.pairs.len(),
        only_before: pairing.only_before.iter().map(|index| name(&old, index)).collect(),
        only_after: pairing.only_after.iter().map(|index| name(&new, index)).collect(),
        notes: notes(before, after),
        changed: pairing.changed,
        ..Comparison::default()
    };
    for (old, new) in pairing.pairs.iter().map(|&(old_at, new_at)| (&old[old_at], &new[new_at])) {
        // What processes and buses of this world do is chance, too.
        let is_chance =
            |run: &&ResultFile| is_loaded(run) || !["sim", "vm"].contains(&run.testbed.as_str());
        let is_chance =
            old.runs.iter().chain(&new.runs).any(is_chance) || has_another_qemu(old, new);
        if is_chance {
            comparison.ranges.extend(figures::ranges(old, new));
            comparison.counts.extend(counts::in_all(old, new));
        } else {
            with_verdict(old, new, &mut comparison);
        }
        comparison.notes.extend(inputs(old, new));
    }
    profiles(before, after, &mut comparison);
    comparison
}

/// What of a pair has a verdict.
fn with_verdict(old: &Group<'_>, new: &Group<'_>, comparison: &mut Comparison) {
    let figures = match figures::is_of_guests(new) {
        true => {
            let lost = figures::lost(old, new);
            Some(figures::of_boots(old, new).into_iter().chain(lost).collect())
        }
        false => figures::exact(old, new),
    };
    let Some(figures) = figures else {
        comparison.notes.push(format!(
            "{}: the two sides ran with different seeds, so no figure is compared",
            new.name
        ));
        return;
    };
    if figures.iter().all(|figure| figure.metric.is_none()) {
        comparison.ranges.extend(figures::latency_ranges(old, new));
    }
    comparison.figures.extend(figures);
    comparison.gone.extend(figures::gone(old, new));
    comparison.counts.extend(counts::by_seed(old, new));
}

/// Whether the guests ran in different QEMUs, which boot in another number of instructions: then other frames meet timers and
/// the scheduler.
fn has_another_qemu(old: &Group<'_>, new: &Group<'_>) -> bool {
    let qemu = |group: &Group<'_>| machine(group.runs[0]).map(|machine| machine.qemu_sha256);
    qemu(old) != qemu(new)
}

fn items(groups: &[Group<'_>]) -> Vec<Item> {
    let item = |group: &Group<'_>| {
        let run = group.runs[0];
        Item::new(&run.config, machine(run).as_ref(), &run.candor)
    };
    groups.iter().map(item).collect()
}

/// The same for counts of instructions.
fn profiles(before: &Side, after: &Side, comparison: &mut Comparison) {
    let (old, new) = (grouped(&before.profiles), grouped(&after.profiles));
    let items = |groups: &[Vec<&ProfileFile>]| -> Vec<Item> {
        let item = |p: &ProfileFile| Item::new(&p.config, Some(&p.machine), &p.candor);
        groups.iter().filter_map(|group| Some(item(group.first()?))).collect()
    };
    let pairing = pair(&items(&old), &items(&new));
    if comparison.changed.is_empty() {
        comparison.changed = pairing.changed;
    }
    for (old, new) in pairing.pairs.into_iter().map(|(a, b)| (&old[a], &new[b])) {
        let name = new[0].group();
        let mean =
            comparison.figures.iter().find(|it| it.experiment == name && it.figure == "mean");
        comparison.functions.extend(functions::changes(name, old, new, mean));
    }
}

/// Counts by experiment, those of all its seeds together.
fn grouped(profiles: &[ProfileFile]) -> Vec<Vec<&ProfileFile>> {
    let mut groups: Vec<Vec<&ProfileFile>> = Vec::new();
    for profile in profiles {
        match groups.iter_mut().find(|group| group[0].group() == profile.group()) {
            Some(group) => group.push(profile),
            None => groups.push(vec![profile]),
        }
    }
    groups
}

/// What changes figures although no kernel did.
fn notes(before: &Side, after: &Side) -> Vec<String> {
    let machines =
        |side: &Side| -> Vec<Machine> { side.results.iter().filter_map(machine).collect() };
    let (before, after) = (machines(before), machines(after));
    let mut notes = Vec::new();
    let mut differs = |what: &str, of: &dyn Fn(&Machine) -> String| {
        let values = |machines: &[Machine]| {
            let mut values: Vec<_> = machines.iter().map(of).collect();
            values.sort();
            values.dedup();
            values.join(", ")
        };
        let (old, new) = (values(&before), values(&after));
        if old != new && !old.is_empty() && !new.is_empty() {
            notes.push(format!(
                "{what} is {old} before and {new} after; this alone changes figures"
            ));
        }
    };
    differs("QEMU", &|machine| match machine.qemu_sha256.get(..12) {
        Some(sum) => format!("{} (sha256 {sum})", machine.qemu),
        None => machine.qemu.clone(),
    });
    differs("the speed", &|machine| format!("{} MIPS", machine.mips));
    differs("the guest program", &|machine| machine.guest_sha256.chars().take(12).collect());
    let is_packaged = |machines: &[Machine], is: bool| {
        !machines.is_empty() && machines.iter().all(|machine| machine.package.is_some() == is)
    };
    if is_packaged(&before, true) && is_packaged(&after, false)
        || is_packaged(&before, false) && is_packaged(&after, true)
    {
        notes.push(
            "one side is a Debian kernel and the other is not, so their configurations differ \
             too; to see the effect of a patch, build both with the same configuration"
                .into(),
        );
    }
    notes
}

/// Files that a pair of experiments read and that are not the same.
fn inputs(old: &Group<'_>, new: &Group<'_>) -> Option<String> {
    let files = |group: &Group<'_>| {
        let inputs = group.runs[0].inputs.iter();
        inputs.map(|input| (input.path.clone(), input.sha256.clone())).collect::<Vec<_>>()
    };
    let (old, other) = (files(old), files(new));
    let path = old.iter().chain(&other).find(|file| !old.contains(file) || !other.contains(file));
    path.map(|(path, _)| format!("{}: {path} is not the same file on both sides", new.name))
}

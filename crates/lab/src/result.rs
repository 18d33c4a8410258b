//! Results of experiments: how they begin, and what else is in their files.

use std::collections::BTreeMap;

use candor_config::Table;
use candor_diagnostics::{Findings, Source};
use candor_lat::section::{Row, Sections};
use candor_vm::Profile;
use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::sections::MACHINE;

pub use candor_lat::result::{InputFile, PROFILE_POINTS, ResultFile, SCHEMA, Stopped};
pub use candor_lat::{Counts, Figures};
/// The machine that an experiment ran on: everything about it that may change a figure.
pub use candor_vm::Identity as Machine;

/// A result that says of which experiment it is, and nothing yet of what happened.
pub(crate) fn new(experiment: &Experiment, command: String) -> ResultFile {
    ResultFile {
        schema: SCHEMA.into(),
        experiment: experiment.name.clone(),
        group: (experiment.group != experiment.name).then(|| experiment.group.clone()),
        title: experiment.title.clone(),
        candor: env!("CARGO_PKG_VERSION").into(),
        command,
        testbed: experiment.testbed().name().into(),
        conditions: experiment.conditions.clone(),
        path: experiment.path().name().into(),
        seed: experiment.seed,
        random: false,
        axes: experiment.axes.iter().cloned().collect(),
        config: experiment.config.clone(),
        inputs: experiment.inputs.clone(),
        duration_ns: 0,
        counts: Counts::default(),
        stopped: Vec::new(),
        metrics: BTreeMap::new(),
        sections: Sections::default(),
        notes: Vec::new(),
    }
}

/// Whether the gateway's host had something else to do.
#[must_use]
pub fn is_loaded(result: &ResultFile) -> bool {
    settings(&result.config).get("load.kind").is_some_and(|kind| kind != "\"none\"")
}

/// The machine that it ran on, if it was one of QEMU.
#[must_use]
pub fn machine(result: &ResultFile) -> Option<Machine> {
    let row = result.sections.one(&MACHINE)?;
    serde_json::from_value(serde_json::to_value(row).ok()?).ok()
}

/// A row with the fields of a value.
pub(crate) fn row_of(value: &impl Serialize) -> Row {
    let value = serde_json::to_value(value).unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

/// The name of the layout of [`ProfileFile`].
pub const PROFILE_SCHEMA: &str = "candor-profile/1";

/// Where the instructions of one experiment went: what `DIR/profiles/<experiment>.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProfileFile {
    /// [`PROFILE_SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub experiment: String,
    /// Its name without the seed, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The version that made it.
    pub candor: String,
    /// The machine it ran on.
    pub machine: Machine,
    pub seed: u64,
    /// Every setting, as TOML.
    pub config: String,
    /// Frames that arrived.
    pub frames: u64,
    /// Instructions between the first frame and the last.
    #[serde(flatten)]
    pub profile: Profile,
}

impl ProfileFile {
    /// The name that the counts of all seeds share.
    #[must_use]
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or(&self.experiment)
    }

    /// The counts of several seeds of one experiment as those of one run; `None` if there are none.
    #[must_use]
    pub fn together(all: &[Self]) -> Option<Self> {
        let (first, others) = all.split_first()?;
        let mut sum = first.clone();
        sum.experiment = first.group().to_owned();
        for other in others {
            sum.frames += other.frames;
            sum.profile.add(&other.profile);
        }
        Some(sum)
    }

    /// So many instructions, per frame.
    #[must_use]
    pub fn per_frame(&self, instructions: u64) -> f64 {
        instructions as f64 / self.frames.max(1) as f64
    }
}

/// Every setting of a resolved experiment by its path, such as `traffic.kind`, as TOML.
pub(crate) fn settings(config: &str) -> BTreeMap<String, String> {
    let table = candor_config::parse(&Source::new("config", config), &Findings::new());
    let mut settings = BTreeMap::new();
    if let Some(table) = table {
        flatten(&table, "", &mut settings);
    }
    settings
}

/// The values of a table by their paths.
fn flatten(table: &Table, path: &str, settings: &mut BTreeMap<String, String>) {
    for entry in table.entries() {
        let path =
            if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        match entry.value.as_table() {
            Some(table) => flatten(table, &path, settings),
            None => drop(settings.insert(path, entry.value.to_toml_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use candor_causes::Cause;
    use candor_lat::section::Column;

    use crate::sections::ALL;

    const EXPERIMENTS: &str = include_str!("../../../docs/experiments.md");
    const GATEWAY: &str = include_str!("../../../docs/gateway.md");

    #[test]
    fn every_cause_is_documented_with_its_ending() {
        for cause in Cause::ALL {
            let name = format!("`{}`", cause.name());
            let ending = cause.ending().label();
            let row = EXPERIMENTS.lines().find(|line| {
                let cells: Vec<_> = line.split(" | ").collect();
                matches!(cells[..], [names, of, _] if names.contains(&name) && of == ending)
            });
            assert!(row.is_some(), "docs/experiments.md has no row for {name}, {ending}");
        }
    }

    #[test]
    fn every_column_of_a_section_is_documented() {
        for kind in ALL {
            let start = format!("| `{}` | ", kind.key);
            let has = |line: &str, column: &Column| line.contains(&format!("`{}`", column.key));
            let mut rows = EXPERIMENTS.lines().filter(|line| line.starts_with(&start));
            let is_complete = rows.any(|row| kind.columns.iter().all(|column| has(row, column)));
            assert!(is_complete, "docs/experiments.md has no row {start} with all columns");
        }
    }

    #[test]
    fn every_cause_that_an_engine_counts_is_documented() {
        for cause in candor_engine::counters::CAUSES {
            let row = format!("| `{}` | {} | ", cause.name(), cause.ending().label());
            assert!(GATEWAY.contains(&row), "docs/gateway.md has no row {row}");
        }
    }
}

//! What the command line sets and what a matrix multiplies by must change something: names that the file does not know
//! and settings that no experiment uses are errors.
//!
//! A file may set what only some of its experiments use. On the command line such a setting is
//! a mistake, and a run that ignores it gives a wrong answer without a word. An axis that nothing uses gives the same
//! run several times, as if its values made no difference.

use candor_config::{Table, Value};
use candor_diagnostics::{Findings, meant_or};

use super::leaves::leaves;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::kinds::{self, Kinds};

/// Refuses what `--set` gave as the table `over` unless one of the experiments uses it.
pub(super) fn require(
    kinds: Kinds,
    set: &str,
    over: &Table,
    experiments: &[Experiment],
) -> Result<(), Error> {
    for (path, _) in leaves(over, &mut Vec::new()) {
        require_key(kinds, &format!("--set {set}"), &path.join("."), experiments)?;
    }
    Ok(())
}

/// Refuses each axis of the matrices of a file, that for all and those of `[[experiment]]` tables, that none of the file's
/// experiments uses.
pub(super) fn require_axes(
    kinds: Kinds,
    matrices: &[Value],
    experiments: &[Experiment],
    findings: &Findings,
) {
    for axes in matrices.iter().filter_map(Value::as_table) {
        for (path, values) in leaves(axes, &mut Vec::new()) {
            let key = path.join(".");
            // One value is a setting like those of the rest of the file.
            if values.as_array().is_some_and(|values| values.len() < 2) {
                continue;
            }
            if let Err(advice) = kinds::require_use(kinds, &key, experiments) {
                let message = format!("`{key}` in the matrix has no effect");
                findings.error_with_hint(&values.origin, message, advice);
            }
        }
    }
}

/// Refuses `option` unless one of the experiments uses the setting that it sets.
pub(super) fn require_key(
    kinds: Kinds,
    option: &str,
    key: &str,
    experiments: &[Experiment],
) -> Result<(), Error> {
    let required = kinds::require_use(kinds, key, experiments);
    required.map_err(|advice| Error::Other(format!("{option} has no effect: {advice}")))
}

/// A bus that `over` has and `table` has not, and the one that may be meant: what is laid over an
/// experiment changes its buses and adds none.
pub(super) fn unknown_bus(table: &Table, over: &Table) -> Option<(String, String)> {
    let known = table.get("bus").and_then(Value::as_table)?;
    let bus_of = |path: Vec<String>| match &path[..] {
        [bus, name, ..] if bus == "bus" => Some(name.clone()),
        _ => None,
    };
    let mut buses = leaves(over, &mut Vec::new()).into_iter().filter_map(|(path, _)| bus_of(path));
    let unknown = buses.find(|name| known.get(name).is_none())?;
    let names = || known.entries().iter().map(|entry| entry.key.as_str());
    let hint = meant_or(&unknown, names(), || {
        format!("the buses are {}", names().collect::<Vec<_>>().join(", "))
    });
    Some((unknown, hint))
}

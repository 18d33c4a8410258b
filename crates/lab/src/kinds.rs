//! The kinds of experiments: what of each a file says, which taps its frames pass, how it runs in each world that can host
//! it, and what tables show of it. A kind is one file, with a folder beside it if it is large, and a line in [`KINDS`].
//! Nothing else asks which kind an experiment is; `coverage.rs` and `reading/network.rs` know keys of the CAN gateway.

pub mod gateway;
mod ping;
mod signals;
mod time_triggered;

use std::path::Path;

use candor_config::Table;
use candor_diagnostics::Findings;
use candor_lat::TapPath;

use crate::columns::Columns;
use crate::experiment::{Experiment, Testbed};
use crate::glob;
use crate::result::ResultFile;

pub use self::ping::{Ping, PingWorld};
pub use self::signals::{SignalService, SubscriberKind, work};
pub use self::time_triggered::{TimeStamping, TimeTriggered};
pub use crate::reading::{Common, Examined, Reading};

/// Says what the table of some results shows.
pub type OfResults = fn(&[&ResultFile]) -> Columns;

/// Checks parts of an experiment, of which none has to be there.
pub type CheckParts = fn(&Table, &Path, &Findings);

/// How a kind of experiments is read and shown.
pub struct KindEntry {
    /// Its name in files.
    pub name: &'static str,
    /// Where it can run.
    pub testbeds: &'static [Testbed],
    /// Whether `network` is a table of its own, and no file of CAN buses.
    pub has_own_network: bool,
    /// Reads one; findings tell what is wrong with it.
    pub read: fn(Reading<'_>) -> Option<Examined>,
    /// Checks parts of one, of which none has to be there; `None` if its tables are read as a whole.
    pub check_parts: Option<CheckParts>,
    /// Its settings that not every experiment uses.
    pub keys: &'static [Key],
    /// The path of its frames in its table, and what that table shows.
    pub tables: &'static [(&'static TapPath, OfResults)],
}

/// Settings that not every experiment uses.
pub struct Key {
    /// Dotted keys; a pattern.
    pub pattern: &'static str,
    /// Whether an experiment of this kind uses them.
    pub uses: fn(&Experiment) -> bool,
    /// Why they have no effect without such an experiment, and what to do.
    pub advice: &'static str,
}

/// Some kinds, in the order of tables. The first is the usual one.
pub type Kinds = &'static [&'static KindEntry];

pub static KINDS: Kinds = &[&gateway::KIND, &signals::KIND, &ping::KIND, &time_triggered::KIND];

/// The kind of that name, or the usual one.
pub(crate) fn named(kinds: Kinds, name: Option<&str>) -> &'static KindEntry {
    kinds.iter().find(|kind| Some(kind.name) == name).unwrap_or(&kinds[0])
}

/// Whether one of the experiments uses a setting, if not every experiment does.
///
/// # Errors
/// What to do.
pub(crate) fn require_use(
    kinds: Kinds,
    key: &str,
    experiments: &[Experiment],
) -> Result<(), &'static str> {
    let of_kind = |kind: &&'static KindEntry| -> Vec<&Key> {
        kind.keys.iter().filter(|it| glob::matches(it.pattern, key)).collect()
    };
    let of_kinds: Vec<_> = kinds.iter().map(of_kind).filter(|keys| !keys.is_empty()).collect();
    let uses_all =
        |keys: &Vec<&Key>| experiments.iter().any(|it| keys.iter().all(|key| (key.uses)(it)));
    let is_unused = |key: &&&Key| !experiments.iter().any(key.uses);
    match of_kinds.is_empty() || of_kinds.iter().any(uses_all) {
        true => Ok(()),
        false => {
            let first =
                of_kinds.iter().flatten().find(is_unused).or(of_kinds.iter().flatten().next());
            Err(first.map_or("", |key| key.advice))
        }
    }
}

/// The tables of some results, each with the name of its path.
pub fn tables(results: &[&ResultFile]) -> Vec<(&'static str, Columns)> {
    let tables = KINDS.iter().flat_map(|kind| kind.tables);
    let table = |(path, columns): &(&'static TapPath, OfResults)| {
        let of_path = results.iter().copied().filter(|result| result.path == path.name());
        let of_path: Vec<_> = of_path.collect();
        (!of_path.is_empty()).then(|| (path.name(), columns(&of_path)))
    };
    tables.filter_map(table).collect()
}

/// Below tables whose values are ranges.
const RANGES: &str = "a..b: the smallest and the largest value over the runs\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_every_path_have_a_table() {
        let has = |path: &TapPath| {
            let mut tables = KINDS.iter().flat_map(|kind| kind.tables);
            tables.any(|(of, _)| of.name() == path.name())
        };
        // What goes on in a host is part of another path.
        let paths = TapPath::ALL.into_iter().filter(|path| path.name() != TapPath::HOST.name());
        let missing: Vec<_> = paths.filter(|path| !has(path)).map(TapPath::name).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

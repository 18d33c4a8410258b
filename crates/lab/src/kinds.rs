//! The kinds of experiments: what of each a file says, which taps its frames pass, how it runs in each world that can host
//! it, and what tables show of it. A kind is one file, with a folder beside it if it is large, and a line in [`KINDS`].
//! Nothing else asks which kind an experiment is.

mod gateway;
mod ping;
mod signals;
mod time_triggered;

use candor_config::{Section, Table};
use candor_diagnostics::Findings;
use candor_lat::TapPath;
use std::path::Path;

use crate::columns::Columns;
use crate::experiment::{Experiment, Testbed};
use crate::glob;
use crate::reading::{Examined, Reading};
use crate::result::ResultFile;

pub use self::ping::Ping;
pub use self::signals::{SignalService, SubscriberKind, work};
pub use self::time_triggered::{TimeStamping, TimeTriggered};

/// How a kind of experiments is read and shown.
pub(crate) struct KindEntry {
    /// Its name in files.
    pub(crate) name: &'static str,
    /// Where it can run.
    pub(crate) testbeds: &'static [Testbed],
    /// Whether `network` is a table of its own, and no file of CAN buses.
    pub(crate) has_own_network: bool,
    /// Reads one; findings tell what is wrong with it.
    pub(crate) read: fn(Reading<'_>) -> Option<Examined>,
    /// Checks parts of one, of which none has to be there; `None` if its tables are read as a whole.
    pub(crate) check_parts: Option<fn(&Table, &Path, &Findings)>,
    /// Its settings that not every experiment uses.
    pub(crate) keys: &'static [Key],
    /// The path of its frames in its table, and what that table shows.
    pub(crate) tables: &'static [(&'static TapPath, fn(&[&ResultFile]) -> Columns)],
}

/// Settings that not every experiment uses.
pub(crate) struct Key {
    /// Dotted keys; a pattern.
    pub(crate) pattern: &'static str,
    /// Whether an experiment of this kind uses them.
    pub(crate) uses: fn(&Experiment) -> bool,
    /// Why they have no effect without such an experiment, and what to do.
    pub(crate) advice: &'static str,
}

/// All kinds, in the order of tables. The first is the usual one.
pub(crate) static KINDS: [&KindEntry; 4] =
    [&gateway::KIND, &signals::KIND, &ping::KIND, &time_triggered::KIND];

/// Reads what every experiment has, with its kind.
pub(crate) fn common<'a>(file: &mut Section<'a>) -> crate::reading::Common<'a> {
    crate::reading::Common::read(file, &KINDS.map(|kind| kind.name))
}

/// The kind of that name, or the usual one.
pub(crate) fn named(name: Option<&str>) -> &'static KindEntry {
    KINDS.into_iter().find(|kind| Some(kind.name) == name).unwrap_or(KINDS[0])
}

/// Reads an experiment of the kind that it says.
pub(crate) fn read(reading: Reading<'_>) -> Option<Examined> {
    let kind = named(Some(reading.common.kind));
    reading.common.refuse_testbed(&reading.file, kind.testbeds);
    (kind.read)(reading)
}

/// Whether one of the experiments uses a setting, if not every experiment does.
///
/// # Errors
/// What to do.
pub(crate) fn require_use(key: &str, experiments: &[Experiment]) -> Result<(), &'static str> {
    let keys = || KINDS.iter().flat_map(|kind| kind.keys);
    let mut of_key = keys().filter(|it| glob::matches(it.pattern, key)).peekable();
    let Some(first) = of_key.peek() else { return Ok(()) };
    let advice = first.advice;
    match of_key.any(|key| experiments.iter().any(key.uses)) {
        true => Ok(()),
        false => Err(advice),
    }
}

/// The tables of some results, each with the name of its path.
pub fn tables(results: &[&ResultFile]) -> Vec<(&'static str, Columns)> {
    let tables = KINDS.iter().flat_map(|kind| kind.tables);
    let table = |(path, columns): &(&'static TapPath, fn(&[&ResultFile]) -> Columns)| {
        let of_path = results.iter().copied().filter(|result| result.path == path.name());
        let of_path: Vec<_> = of_path.collect();
        (!of_path.is_empty()).then(|| (path.name(), columns(&of_path)))
    };
    tables.filter_map(table).collect()
}

/// Below tables whose values are ranges.
const RANGES: &str = "a..b: the smallest and the largest value over the runs\n";

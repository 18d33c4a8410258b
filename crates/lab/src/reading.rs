//! What the readers of kinds share: what is read of an experiment of any kind, the buses, the machine, the load, and the
//! files that it names.

pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod reader;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use candor_config::{Section, Table};

use self::machine::LoadSize;
use self::network::NetworkFile;
use crate::error::Error;
use crate::experiment::{Kind, Load, Testbed};
use crate::result::InputFile;

/// More seeds than anybody waits for.
pub(crate) const MOST_SEEDS: u64 = 100;

/// An experiment as it stands in a file.
pub struct Reading<'a> {
    /// Its settings, of which some are read.
    pub file: Section<'a>,
    /// The same, whole.
    pub table: &'a Table,
    /// What is read of it already.
    pub common: &'a Common<'a>,
    /// Where other files are looked for.
    pub base: &'a Path,
    /// The network file under it, if there is one.
    pub(crate) network: &'a NetworkFile,
}

/// What is read of one kind of experiments.
pub struct Examined {
    /// Its settings.
    pub kind: Arc<dyn Kind>,
    /// World and conditions, for people.
    pub conditions: String,
    /// Files that were read.
    pub inputs: Vec<InputFile>,
    /// Frames or events, if the file does not say how many.
    pub count: u64,
}

/// What is read of an experiment of any kind.
pub struct Common<'a> {
    /// The name of its kind.
    pub kind: &'static str,
    /// What it is about.
    pub title: Option<&'a str>,
    /// Where it runs.
    pub testbed: Option<Testbed>,
    /// The seed of this run.
    pub seed: u64,
    /// Frames or events.
    pub count: Option<u64>,
    /// Whether a line per frame is written.
    pub per_frame: Option<bool>,
}

impl<'a> Common<'a> {
    pub(crate) fn read(file: &mut Section<'a>, names: &[&'static str]) -> Self {
        file.string("name");
        let kinds: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
        let testbeds = Testbed::ALL.map(|testbed| (testbed.name(), testbed));
        let _ = file.integer("seeds", 1..=MOST_SEEDS);
        Self {
            kind: file.one_of("kind", &kinds).or(names.first().copied()).unwrap_or_default(),
            title: file.string("title"),
            testbed: file.one_of("testbed", &testbeds),
            seed: file.integer("seed", 0..=i64::MAX.unsigned_abs()).unwrap_or(1),
            count: file.integer("count", 1..=i64::MAX.unsigned_abs()),
            per_frame: file.boolean("per_frame"),
        }
    }

    /// Refuses a testbed that does not have this kind.
    pub(crate) fn refuse_testbed(&self, file: &Section<'_>, known: &[Testbed]) {
        let Some(testbed) = self.testbed.filter(|testbed| !known.contains(testbed)) else { return };
        let kind = self.kind;
        let message = format!("the testbed `{testbed}` has no experiments of the kind `{kind}`");
        let names: Vec<_> = known.iter().map(|testbed| format!("\"{testbed}\"")).collect();
        let hint = format!("use testbed = {}", names.join(" or "));
        file.findings().error_with_hint(file.origin_of("testbed"), message, hint);
    }
}

pub(crate) fn read_load(mut section: Section<'_>) -> (Load, LoadSize) {
    section.require(&["kind"]);
    let load = |cpu, ethernet| Load { cpu, ethernet };
    let kinds = [
        ("none", load(false, false)),
        ("cpu", load(true, false)),
        ("ethernet", load(false, true)),
        ("both", load(true, true)),
    ];
    let load = section.one_of("kind", &kinds).unwrap_or_default();
    let size = LoadSize::read(&mut section);
    section.finish();
    (load, size)
}

/// The text of a file of experiments.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let file = std::fs::File::open(path).map_err(|error| Error::read(path, error))?;
    let mut bytes = Vec::new();
    let longest = candor_config::MAX_BYTES as u64 + 1;
    file.take(longest).read_to_end(&mut bytes).map_err(|error| Error::read(path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        Error::Other(format!(
            "{}: byte {byte} is not UTF-8; experiment files are text in UTF-8",
            path.display()
        ))
    })
}

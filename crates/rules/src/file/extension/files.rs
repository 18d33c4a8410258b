//! The files that a rule file names: DBC files, and tables of identifiers.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use candor_config::{Value, quoted};
use candor_diagnostics::{Findings, counted};
use candor_signals::Database;

use candor_engine::BusIndex;

/// Reads files that a rule file names, by the names that it uses; an error is a reason.
pub type Include<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// How many files a rule file may name.
const MOST_FILES: usize = 64;
/// How long each of them may be.
const MOST_BYTES: usize = 8 << 20;
/// How many identifiers all tables of a rule file may have together.
pub(super) const MOST_PAIRS: usize = 1 << 20;

/// The files that a rule file names; each is read once.
pub(in crate::file) struct Files<'a> {
    include: Include<'a>,
    /// By bus.
    databases: BTreeMap<BusIndex, Rc<Database>>,
    by_name: BTreeMap<String, Option<Rc<Database>>>,
    /// Tables of identifiers, by name.
    tables: RefCell<BTreeMap<String, Option<Rc<Pairs>>>>,
    /// How many files have been read.
    count: Cell<usize>,
    /// How many identifiers the tables of all rules have.
    pub(super) pair_count: Cell<usize>,
}

/// Identifier words before and after.
pub(super) type Pairs = BTreeMap<u32, u32>;

impl<'a> Files<'a> {
    pub(in crate::file) fn new(include: Include<'a>) -> Self {
        Self {
            include,
            databases: BTreeMap::new(),
            by_name: BTreeMap::new(),
            tables: RefCell::new(BTreeMap::new()),
            count: Cell::new(0),
            pair_count: Cell::new(0),
        }
    }

    pub(super) fn read(&self, value: &Value, findings: &Findings) -> Option<(String, Vec<u8>)> {
        let name = value.as_str()?;
        self.count.set(self.count.get() + 1);
        if self.count.get() > MOST_FILES {
            let message = format!("more than {MOST_FILES} other files are named");
            findings.error_with_hint(&value.origin, message, "merge tables into one file");
            return None;
        }
        match (self.include)(name) {
            Ok(bytes) if bytes.len() > MOST_BYTES => {
                let message = format!("{} is longer than {MOST_BYTES} bytes", quoted(name));
                findings.error_with_hint(
                    &value.origin,
                    message,
                    "remove what the rules do not \
                                                                  use",
                );
                None
            }
            Ok(bytes) => Some((name.to_owned(), bytes)),
            Err(reason) => {
                let message = format!("{}: {reason}", quoted(name));
                let hint = "paths are relative to the rule file";
                findings.error_with_hint(&value.origin, message, hint);
                None
            }
        }
    }

    /// Reads a table of identifiers.
    pub(super) fn table(&self, value: &Value, findings: &Findings) -> Option<Rc<Pairs>> {
        let known = self.tables.borrow().get(value.as_str()?).cloned();
        known.unwrap_or_else(|| {
            let (name, bytes) = self.read(value, findings)?;
            let pairs = id_pairs(&bytes).map(Rc::new).map_err(|reason| {
                let hint = "each line is two identifiers: 0x123, 0x321";
                findings.error_with_hint(&value.origin, format!("{name}:{reason}"), hint);
            });
            self.tables.borrow_mut().insert(name, pairs.clone().ok());
            pairs.ok()
        })
    }

    /// Reads the DBC file of a bus.
    pub(in crate::file) fn add_database(
        &mut self,
        bus: BusIndex,
        value: &Value,
        findings: &Findings,
    ) {
        let Some(name) = value.as_str() else {
            value.wrong_type("dbc", "the name of a DBC file in quotes", findings);
            return;
        };
        if !self.by_name.contains_key(name) {
            let database = self.read(value, findings).and_then(|(name, bytes)| {
                let of_file = Findings::new();
                let database = Database::parse(&name, &bytes, &of_file);
                if database.is_none() {
                    let reason = of_file.sorted().into_iter().next().map_or_else(
                        || format!("{} is not a DBC file", quoted(&name)),
                        |first| format!("{}: {}", first.origin, first.message),
                    );
                    findings.error_with_hint(&value.origin, reason, "name a DBC file");
                }
                database.map(Rc::new)
            });
            self.by_name.insert(name.to_owned(), database);
        }
        if let Some(Some(database)) = self.by_name.get(name) {
            self.databases.insert(bus, Rc::clone(database));
        }
    }

    pub(in crate::file) fn into_databases(self) -> BTreeMap<BusIndex, Rc<Database>> {
        self.databases
    }

    pub(in crate::file) fn database(&self, bus: BusIndex) -> Option<&Database> {
        self.databases.get(&bus).map(|database| &**database)
    }

    /// The DBC files of these buses, each once.
    pub(super) fn databases(&self, buses: &[BusIndex]) -> Vec<&Rc<Database>> {
        let mut found: Vec<&Rc<Database>> = Vec::new();
        for database in buses.iter().filter_map(|bus| self.databases.get(bus)) {
            if !found.iter().any(|other| Rc::ptr_eq(other, database)) {
                found.push(database);
            }
        }
        found
    }
}

/// A table of identifiers: two per line, separated by a comma or blanks; `#` begins a comment.
fn id_pairs(bytes: &[u8]) -> Result<Pairs, String> {
    let text = core::str::from_utf8(bytes)
        .map_err(|error| format!("1: byte {} is not UTF-8", error.valid_up_to()))?;
    let mut pairs = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = line
            .split(|c: char| c == ',' || c == ';' || c.is_whitespace())
            .filter(|word| !word.is_empty())
            .collect();
        let [from, to] = words[..] else {
            if words.is_empty() {
                continue;
            }
            let count = counted(words.len(), "identifier");
            return Err(format!("{number}: {count}, expected two"));
        };
        let read = |word: &str| {
            crate::pattern::identifier(word).map_err(|error| format!("{number}: {}", error.message))
        };
        let (from, to) = (read(from)?, read(to)?);
        if let Some(other) = pairs.insert(from, to)
            && other != to
        {
            return Err(format!("{number}: {} is listed twice", show(from)));
        }
    }
    Ok(pairs)
}

/// An identifier out of a table, which always is one.
pub(super) fn show(word: u32) -> String {
    crate::pattern::show_identifier(word).unwrap_or_default()
}

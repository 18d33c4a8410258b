//! [`read_rules`]: rule files and the files they name, read from disk.

use std::cell::RefCell;
use std::path::Path;

use candor_diagnostics::Findings;
use candor_engine::Table;
use candor_rules::file::{self, Include, disk};

use crate::plane::bad_ports;
use crate::{Error, Rules};

/// What a bus takes beside its rules: the stacks of its threads, its queues.
const BYTES_PER_BUS: usize = 2 << 20;

/// Reads and checks a rule file and the files it names.
///
/// # Errors
/// It cannot be read, or has errors.
pub fn read_rules(path: &Path) -> Result<Rules, Error> {
    let name = path.display().to_string();
    let text = disk::read_text(path, "rule file").map_err(Error::File)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let included = RefCell::new(Vec::new());
    let include = |name: &str| {
        included.borrow_mut().push(name.to_owned());
        disk::read(&folder.join(name), disk::MOST_BYTES)
    };
    let (table, findings) = parse_rules(&name, &text, &include);
    let included = included.into_inner();
    match table {
        Some(table) => {
            let file = path.to_owned();
            Ok(Rules { file, table, warnings: findings.to_string(), included })
        }
        None => Err(Error::Rules(findings)),
    }
}

/// Reads and compiles the rules of a file, for nothing else than to find out how much memory that takes, in bytes; nothing
/// if they have errors. For a [`Rehearsal`](candor_daemon::rehearsal::Rehearsal).
///
/// # Errors
/// `/proc` is not mounted.
pub fn rehearse(path: &Path) -> Result<usize, Error> {
    let (buses, bytes) = candor_daemon::rehearsal::measure(|| {
        let rules = read_rules(path).ok()?;
        let program = candor_engine::program::Program::new(&rules.table);
        let buses = rules.table.buses.len();
        drop((rules, program));
        Some(buses)
    })?;
    Ok(buses.map_or(0, |buses| bytes.saturating_add(buses.saturating_mul(BYTES_PER_BUS))))
}

/// Reads a rule file as a gateway takes it: with its ports checked as far as that is possible
/// without the machine. What passes here is refused later only for what the machine has or lacks.
#[must_use]
pub fn parse_rules(name: &str, text: &str, include: Include<'_>) -> (Option<Table>, Findings) {
    file::parse_for(name, text, include, &bad_ports)
}

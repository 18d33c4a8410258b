//! [`read_rules`]: rule files and the files they name, read from disk.

use std::cell::RefCell;
use std::path::Path;

use candor_diagnostics::Findings;
use candor_engine::table::List;
use candor_engine::{Filter, Rule, Table};
use candor_rules::file::{self, Include, disk};

use crate::plane::bad_ports;
use crate::{Error, Rules};

/// What a byte of a rule file takes at most, until the rules are in use: 45 were measured, with 40,000 rules.
const BYTES_PER_BYTE: usize = 64;
/// What a rule keeps of each identifier that it remembers.
const BYTES_PER_ID: usize = 192;
/// What a filter with a mask takes at most: an entry in the lists of 4,096 standard identifiers, while they are made.
const BYTES_PER_MASK: usize = 4_096 * 24;
/// What a bus takes: the stacks of its threads, its queues.
const BYTES_PER_BUS: usize = 2 << 20;
/// What a gateway needs beside: stacks of threads, messages, answers.
const OTHER_BYTES: usize = 16 << 20;

/// Reads and checks a rule file and the files it names.
///
/// # Errors
/// It cannot be read, has errors, or may take more memory than the process gets: to run out of it later would
/// end a running gateway.
pub fn read_rules(path: &Path) -> Result<Rules, Error> {
    let name = path.display().to_string();
    let text = disk::read_text(path, "rule file").map_err(Error::File)?;
    let check = |bytes| check_memory(bytes).map_err(|why| Error::File(format!("{name}: {why}")));
    check(text.len().saturating_mul(BYTES_PER_BYTE))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let included = RefCell::new(Vec::new());
    let include = |name: &str| {
        included.borrow_mut().push(name.to_owned());
        let bytes = disk::read(&folder.join(name), disk::MOST_BYTES)?;
        check_memory(bytes.len().saturating_mul(BYTES_PER_BYTE))?;
        Ok(bytes)
    };
    let (table, findings) = parse_rules(&name, &text, &include);
    let included = included.into_inner();
    match table {
        Some(table) => {
            check(bytes_in_use(&table))?;
            let file = path.to_owned();
            Ok(Rules { file, table, warnings: findings.to_string(), included })
        }
        None => Err(Error::Rules(findings)),
    }
}

/// What rules in use take beside what their text took.
fn bytes_in_use(table: &Table) -> usize {
    let ids = table.rules.iter().map(|rule| usize::from(rule.remembered_ids())).sum::<usize>();
    // A filter with a mask takes many of the standard identifiers, each of which has a list of its rules.
    let is_masked =
        |filter: &&Filter| !matches!(filter.list(), List::Standard | List::Extended | List::Error);
    let filters = |rule: &Rule| {
        rule.filters.iter().filter(is_masked).count().max(rule.filters.is_empty().into())
    };
    let masked = table.rules.iter().map(filters).sum::<usize>();
    ids.saturating_mul(BYTES_PER_ID)
        .saturating_add(masked.saturating_mul(BYTES_PER_MASK))
        .saturating_add(table.buses.len().saturating_mul(BYTES_PER_BUS))
}

/// Whether the process may have so many bytes more.
fn check_memory(bytes: usize) -> Result<(), String> {
    let bytes = bytes.saturating_add(OTHER_BYTES);
    // Memory that is not touched costs nothing, but counts where a limit holds. Where all memory is locked, it is
    // touched, and given back at once.
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| {
        let megabytes = bytes.div_ceil(1 << 20);
        format!(
            "these rules may take {megabytes} MB, which the process does not get; raise its limit \
             (`ulimit -v`), or use fewer rules"
        )
    })
}

/// Reads a rule file as a gateway takes it: with its ports checked as far as that is possible
/// without the machine. What passes here is refused later only for what the machine has or lacks.
#[must_use]
pub fn parse_rules(name: &str, text: &str, include: Include<'_>) -> (Option<Table>, Findings) {
    file::parse_for(name, text, include, &bad_ports)
}

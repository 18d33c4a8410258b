//! [`read_rules`]: rule files and the files they name, read from disk.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Error as IoError, Read};
use std::path::Path;

use candor_config::MAX_BYTES;
use candor_diagnostics::Findings;
use candor_engine::Table;
use candor_rules::file::{self, Include};

use crate::gateway::bad_ports;
use crate::{Error, Rules};

/// The most that is read of any file: more than the largest DBC files have.
const MOST_BYTES: u64 = 32 << 20;

/// Reads and checks a rule file and the files it names.
///
/// # Errors
/// It cannot be read, or has errors.
pub fn read_rules(path: &Path) -> Result<Rules, Error> {
    let name = path.display().to_string();
    let text = read(path, MAX_BYTES as u64 + 1)
        .map_err(|reason| Error::File(format!("{name}: {reason}")))?;
    if text.len() > MAX_BYTES {
        return Err(Error::File(format!(
            "{name}: is longer than {MAX_BYTES} bytes; a rule file cannot be that long"
        )));
    }
    let text = String::from_utf8(text).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        Error::File(format!("{name}: byte {byte} is not UTF-8; rule files are text"))
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let included = RefCell::new(Vec::new());
    let include = |name: &str| {
        included.borrow_mut().push(name.to_owned());
        read(&folder.join(name), MOST_BYTES)
    };
    let (table, findings) = parse_rules(&name, &text, &include);
    let included = included.into_inner();
    match table {
        Some(table) => Ok(Rules { table, warnings: findings.to_string(), included }),
        None => Err(Error::Rules(findings)),
    }
}

/// Reads a rule file as a gateway takes it: with its ports checked as far as that is possible
/// without the machine. What passes here is refused later only for what the machine has or lacks.
#[must_use]
pub fn parse_rules(name: &str, text: &str, include: Include<'_>) -> (Option<Table>, Findings) {
    file::parse_for(name, text, include, &bad_ports)
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| {
        // A device or a pipe could go on for ever, a folder cannot be read.
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(IoError::other("it is not a regular file")),
        }
    });
    file.and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}; check the path and its permissions"))?;
    Ok(bytes)
}

//! What the parts of an experiment have in common: its buses, and the files it reads.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use candor_config::{Section, Table, Value};
use candor_diagnostics::{Findings, Origin};
use candor_network::{Bus, Network, file};
use sha2::{Digest, Sha256};

use crate::buses::BusFaults;
use crate::result::InputFile;

/// Reads the parts of an experiment that refer to one another and to other files.
pub(crate) struct Reader<'a> {
    pub(crate) base: &'a Path,
    pub(crate) findings: &'a Findings,
    pub(crate) network: Network,
    /// By bus.
    pub(crate) faults: Vec<BusFaults>,
    /// The names of buses that could not be read.
    pub(crate) unread: Vec<String>,
    /// The DBC files of buses: the place of the bus, the file, and where it is named.
    pub(crate) databases: Vec<(usize, String, Origin)>,
    pub(crate) inputs: Vec<InputFile>,
    /// Whether a network file is under the experiment.
    pub(crate) has_network: bool,
}

impl<'a> Reader<'a> {
    /// Begins with the buses.
    pub(crate) fn new(base: &'a Path, findings: &'a Findings, file: &mut Section<'_>) -> Self {
        let (mut buses, mut faults) = (Vec::new(), Vec::new());
        let (mut unread, mut databases) = (Vec::new(), Vec::new());
        for entry in file.table_entries("bus") {
            match entry.value.as_table() {
                Some(table) => {
                    let mut section = Section::new(table, findings);
                    let (bus, of_bus) = read_bus(&entry.key, &mut section);
                    if let Some(dbc) = section.string("dbc") {
                        let origin = section.origin_of("dbc").clone();
                        databases.push((buses.len(), dbc.to_owned(), origin));
                    }
                    section.finish();
                    buses.push(bus);
                    faults.push(of_bus);
                }
                None => {
                    unread.push(entry.key.clone());
                    entry.value.wrong_type(&entry.key, "a table with a bitrate", findings);
                }
            }
        }
        let is_empty = |table: &Table| table.entries().is_empty();
        if file.value("bus").and_then(Value::as_table).is_some_and(is_empty) {
            findings.error(file.origin_of("bus"), "no bus is defined");
        }
        let network = Network { buses, ..Network::default() };
        Self {
            base,
            findings,
            network,
            faults,
            unread,
            databases,
            inputs: Vec::new(),
            has_network: false,
        }
    }

    /// Notes a file that was read. One that cannot be read is reported where it is used.
    pub(crate) fn input(&mut self, shown: &str, path: &Path) {
        if let Ok(sha256) = digest(path) {
            self.inputs.push(InputFile { path: shown.into(), sha256 });
        }
    }

    /// The place of the bus of that name. If it could not be read, or none, there is a finding about
    /// that.
    pub(crate) fn bus(&self, name: &str, origin: &Origin) -> Option<usize> {
        file::bus_named(&self.network.buses, &self.unread, name, origin, self.findings)
    }
}

/// A bus, and what can go wrong on it.
fn read_bus(name: &str, section: &mut Section<'_>) -> (Bus, BusFaults) {
    let bus = file::bus(section, name);
    let faults = BusFaults {
        bit_error_rate: section.float("bit_error_rate", 0.0..=0.1).unwrap_or(0.0),
        restart: section.nanos("restart"),
    };
    (bus, faults)
}

/// The SHA-256 of a file, however large, in hex.
pub(crate) fn digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sha256 = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => sha256.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        // FIPS 180-4, the example of one block.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(&path).unwrap(), expected);
    }
}

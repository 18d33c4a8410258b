//! What the parts of an experiment have in common: its buses, and the files it reads.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use candor_config::{Section, Table, Value};
use candor_diagnostics::{Findings, Origin};
use candor_sim::BusConfig;
use candor_wire::{Bitrate, Timing};
use sha2::{Digest, Sha256};

use crate::experiment::Input;

/// Reads the parts of an experiment that refer to one another and to other files.
pub(super) struct Reader<'a> {
    pub(super) base: &'a Path,
    pub(super) findings: &'a Findings,
    pub(super) buses: Vec<BusConfig>,
    pub(super) inputs: Vec<Input>,
}

impl<'a> Reader<'a> {
    /// Begins with the buses.
    pub(super) fn new(base: &'a Path, findings: &'a Findings, file: &mut Section<'_>) -> Self {
        let mut buses = Vec::new();
        for entry in file.table_entries("bus") {
            match entry.value.as_table() {
                Some(table) => buses.push(read_bus(&entry.key, table, findings)),
                None => entry.value.wrong_type(&entry.key, "a table with a bitrate", findings),
            }
        }
        let is_empty = |table: &Table| table.entries().is_empty();
        if file.value("bus").and_then(Value::as_table).is_some_and(is_empty) {
            findings.error(file.origin_of("bus"), "no bus is defined");
        }
        Self { base, findings, buses, inputs: Vec::new() }
    }

    /// Notes a file that was read. One that cannot be read is reported where it is used.
    pub(super) fn input(&mut self, shown: &str, path: &Path) {
        if let Ok(sha256) = digest(path) {
            self.inputs.push(Input { path: shown.into(), sha256 });
        }
    }

    /// The place of the bus of that name. If no bus could be read, there is a finding about that.
    pub(super) fn bus(&self, name: &str, origin: &Origin) -> Option<usize> {
        let names = self.buses.iter().map(|bus| bus.name.as_str());
        let found = names.clone().position(|known| known == name);
        if found.is_none() && !self.buses.is_empty() {
            let hint = match candor_diagnostics::did_you_mean(name, names.clone()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
            };
            self.findings.error_with_hint(origin, format!("unknown bus `{name}`"), hint);
        }
        found
    }
}

fn read_bus(name: &str, table: &Table, findings: &Findings) -> BusConfig {
    let mut bus = Section::new(table, findings);
    bus.require(&["bitrate"]);
    let nominal = bus.bitrate("bitrate");
    let data = bus.bitrate("data_bitrate");
    if let Some(nominal) = nominal {
        doubt_rates(&bus, Timing { nominal, data: data.unwrap_or(nominal) }, findings);
    }
    let nominal = nominal.unwrap_or(Bitrate::MAX);
    let config = BusConfig {
        name: name.into(),
        timing: Timing { nominal, data: data.unwrap_or(nominal) },
        is_fd: bus.boolean("fd").unwrap_or(data.is_some()),
        bit_error_rate: bus.float("bit_error_rate", 0.0..=0.1).unwrap_or(0.0),
        restart: bus.nanos("restart"),
    };
    bus.finish();
    config
}

/// Warns of bit rates that no bus has.
fn doubt_rates(bus: &Section<'_>, timing: Timing, findings: &Findings) {
    let Some(unusual) = timing.unusual() else { return };
    let key = if unusual.is_data() { "data_bitrate" } else { "bitrate" };
    let hint = match unusual.meant() {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => "check the bit rate".into(),
    };
    findings.warning(bus.origin_of(key), unusual.to_string(), hint);
}

/// The SHA-256 of a file, however large, in hex.
fn digest(path: &Path) -> io::Result<String> {
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

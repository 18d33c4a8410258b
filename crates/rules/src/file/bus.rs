//! The buses of a rule file.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use candor_config::{Data, Entry, Section, quoted};
use candor_diagnostics::{Findings, Origin};

use super::extension::Files;
use candor_engine::{Bus, BusIndex};

/// The longest name of a network interface (`IFNAMSIZ` less its zero).
pub(crate) const INTERFACE_LEN: usize = 15;

/// Where the port of a bus stands.
pub(super) fn port_origin(bus: &Entry) -> Origin {
    let port = bus.value.as_table().and_then(|table| table.get("port")).unwrap_or(&bus.value);
    port.origin.clone()
}

/// The buses; one that cannot be read keeps its name, so that rules may still refer to it.
pub(super) fn buses(entries: &[Entry], findings: &Findings, files: &mut Files<'_>) -> Vec<Bus> {
    let mut buses: Vec<Bus> = Vec::new();
    let mut by_port: BTreeMap<String, &str> = BTreeMap::new();
    for entry in entries {
        if buses.len() > usize::from(u16::MAX) {
            findings.error(&entry.origin, "more than 65536 buses");
            break;
        }
        let index = BusIndex(buses.len() as u16);
        let bus = bus(entry, index, findings, files);
        if let Some(other) = by_port.insert(bus.interface().to_owned(), &entry.key) {
            let message = format!("port `{}` is already bus `{other}`", bus.interface());
            findings.error_with_hint(&entry.value.origin, message, "give each port one bus");
        }
        buses.push(bus);
    }
    buses
}

/// A bus: `"can0"`, or a table.
fn bus(entry: &Entry, index: BusIndex, findings: &Findings, files: &mut Files<'_>) -> Bus {
    let (value, is_virtual) = match &entry.value.data {
        Data::Table(table) => {
            let mut section = Section::new(table, findings);
            section.require(&["port"]);
            let value = section.value("port");
            let is_virtual = section.boolean("virtual");
            if let Some(dbc) = section.value("dbc") {
                files.add_database(index, dbc, findings);
            }
            section.finish();
            (value, is_virtual)
        }
        _ => (Some(&entry.value), None),
    };
    let unknown = || Bus { name: entry.key.clone(), port: entry.key.clone(), is_virtual: false };
    let Some(value) = value else { return unknown() };
    let Some(port) = value.as_str() else {
        let expected = "a port such as \"can0\", or { port = \"can0\" }";
        value.wrong_type(&entry.key, expected, findings);
        return unknown();
    };
    let bus = Bus { name: entry.key.clone(), port: port.to_owned(), is_virtual: false };
    let interface = bus.interface();
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_name = match interface.split_once(':') {
        Some((driver, place)) => {
            is_word(driver) && !place.is_empty() && !port.chars().any(char::is_control)
        }
        None => is_word(interface) && interface.len() <= INTERFACE_LEN && !interface.contains('/'),
    };
    if !is_name {
        findings.error_with_hint(
            &value.origin,
            format!("{} is not a port", quoted(port)),
            format!(
                "write an interface (at most {INTERFACE_LEN} characters, no spaces, `/` or `:`), \
                 or driver:place, such as \"cannelloni:udp://host:20000\""
            ),
        );
    }
    let is_virtual = is_virtual.unwrap_or_else(|| is_virtual_by_name(interface));
    Bus { is_virtual, ..bus }
}

/// Whether an interface of that name loops frames back by default.
pub(crate) fn is_virtual_by_name(interface: &str) -> bool {
    interface.starts_with("vcan")
}

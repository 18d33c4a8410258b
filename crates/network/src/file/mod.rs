//! Network files: TOML to a [`Network`]. `docs/network.md` is their manual.
//!
//! Experiment files say some of the same in tables of their own, and use the same readers: [`bus`] and
//! [`nodes`].

mod bus;
mod check;
mod context;
mod dbc;
mod gateway;
mod identifier;
mod listed;
mod nodes;
mod senders;

use std::path::Path;

use candor_config::{Section, Table};
use candor_diagnostics::{Findings, Source};
pub use candor_rules::file::Include;
use candor_rules::file::disk;

use self::check::{Places, check};
use self::gateway::gateway;
use self::listed::require;
use crate::{Network, Queue, Recorded};

pub use self::bus::{bus, bus_named};
pub use self::context::Context;
pub use self::dbc::{DbcMessages, dbc_messages};
pub use self::gateway::place_buses;
pub use self::identifier::identifier;
pub use self::listed::{Fill, fill};
pub use self::nodes::{nodes, queue};

/// Reads a network file. `name` is what the file is called in findings; `include` reads the DBC files and
/// rule files that it names, by the names that it uses.
///
/// There is a network only if there are no errors.
#[must_use]
pub fn parse(
    name: &str,
    text: &str,
    include: Include<'_>,
    purpose: Purpose,
) -> (Option<Network>, Findings) {
    let findings = Findings::new();
    let source = Source::new(name, text);
    let Some(document) = candor_config::parse(&source, &findings) else { return (None, findings) };
    let mut file = Section::new(&document, &findings);
    require(&mut file, &[("bus", "describe each bus, as in bus.body.bitrate = \"500k\"")]);
    let title = file.string("title").unwrap_or_default().to_owned();
    let (mut buses, mut unread, mut databases) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bus_places, mut recorded) = (Vec::new(), Vec::new());
    for entry in file.table_entries("bus") {
        let Some(table) = entry.value.as_table() else {
            unread.push(entry.key.clone());
            entry.value.wrong_type(&entry.key, "a table with a bitrate", &findings);
            continue;
        };
        let mut section = Section::new(table, &findings);
        buses.push(bus(&mut section, &entry.key));
        bus_places.push(&entry.origin);
        if let Some(dbc) = section.string("dbc") {
            databases.push((buses.len() - 1, dbc, section.origin_of("dbc")));
        }
        section.refuse_empty(
            "arrivals",
            "name a recording of the bus, as in arrivals = \"drive.log\"",
        );
        let files = section.strings("arrivals").into_iter();
        let bus = buses.len() - 1;
        recorded.extend(files.map(|(file, _)| Recorded { bus, file: file.to_owned() }));
        section.finish();
    }
    if buses.is_empty() && !findings.has_errors() {
        let hint = "describe each bus, as in bus.body.bitrate = \"500k\"";
        findings.error_with_hint(file.origin_of("bus"), "no bus is defined", hint);
    }
    let fill = fill(&mut file);
    let context = Context {
        buses: &buses,
        unread: &unread,
        databases: &databases,
        prefix: "",
        fill,
        include,
        is_used: true,
    };
    let nodes = nodes(&mut file, &context);
    let usual = queue(&mut file, Queue::default());
    let mut gateways = Vec::new();
    for entry in file.table_entries("gateway") {
        match entry.value.as_table() {
            Some(table) if purpose == Purpose::Bound && !has_delay(table) => {
                let message = format!("nobody knows how long gateway `{}` takes", entry.key);
                let hint = "write the least and the greatest time from a frame to its copy, as in \
                            delay = [\"20us\", \"200us\"]; or that of its processor for each frame, \
                            as in time_per_frame = \"15us\"";
                findings.error_with_hint(table.origin(), message, hint);
            }
            Some(table) => gateways.extend(gateway(&entry.key, table, usual, &context, &findings)),
            None => entry.value.wrong_type(&entry.key, "a table with rules", &findings),
        }
    }
    let (gateways, sources): (Vec<_>, Vec<_>) = gateways.into_iter().unzip();
    file.finish();
    let network = Network { title, buses, nodes, gateways, recorded };
    if !findings.has_errors() {
        check(&network, &Places { buses: &bus_places, rules: &sources }, &findings);
    }
    ((!findings.has_errors()).then_some(network), findings)
}

/// What a network file is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Where each message goes.
    Flow,
    /// How late it can be: gateways must say how long they take.
    Bound,
}

fn has_delay(gateway: &Table) -> bool {
    ["delay", "time_per_frame"].iter().any(|key| gateway.get(key).is_some())
}

/// Reads a network file from disk, and the files that it names, which are looked for beside it.
///
/// # Errors
/// It cannot be read: a sentence that begins with its name.
pub fn load(path: &Path, purpose: Purpose) -> Result<(Option<Network>, Findings), String> {
    let text = disk::read_text(path, "network file")?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let include = |name: &str| disk::read(&folder.join(name), disk::MOST_BYTES);
    Ok(parse(&path.display().to_string(), &text, &include, purpose))
}

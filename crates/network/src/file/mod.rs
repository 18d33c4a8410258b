//! Network files: TOML to a [`Network`]. `docs/network.md` is their manual.
//!
//! Experiment files say some of the same in tables of their own, and use the same readers: [`bus`] and
//! [`nodes`].

mod bus;
mod dbc;
mod identifier;
mod nodes;

use std::path::Path;

use candor_config::{Section, Table};
use candor_diagnostics::{Findings, Source};
pub use candor_rules::file::Include;
use candor_rules::file::disk;

use crate::{Gateway, Network};

pub use self::bus::{bus, bus_named};
pub use self::dbc::{DbcMessages, dbc_messages};
pub use self::identifier::identifier;
pub use self::nodes::{Context, Fill, fill, nodes, queue};

/// Reads a network file. `name` is what the file is called in findings; `include` reads the DBC files and
/// rule files that it names, by the names that it uses.
///
/// There is a network only if there are no errors.
#[must_use]
pub fn parse(name: &str, text: &str, include: Include<'_>) -> (Option<Network>, Findings) {
    let findings = Findings::new();
    let source = Source::new(name, text);
    let Some(document) = candor_config::parse(&source, &findings) else { return (None, findings) };
    let mut file = Section::new(&document, &findings);
    file.require(&["bus"]);
    let title = file.string("title").unwrap_or_default().to_owned();
    let (mut buses, mut unread, mut databases) = (Vec::new(), Vec::new(), Vec::new());
    for entry in file.table_entries("bus") {
        let Some(table) = entry.value.as_table() else {
            unread.push(entry.key.clone());
            entry.value.wrong_type(&entry.key, "a table with a bitrate", &findings);
            continue;
        };
        let mut section = Section::new(table, &findings);
        buses.push(bus(&mut section, &entry.key));
        if let Some(dbc) = section.string("dbc") {
            databases.push((buses.len() - 1, dbc, section.origin_of("dbc")));
        }
        section.finish();
    }
    if buses.is_empty() && !findings.has_errors() {
        findings.error(file.origin_of("bus"), "no bus is defined");
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
    let mut gateways = Vec::new();
    for entry in file.table_entries("gateway") {
        match entry.value.as_table() {
            Some(table) => gateways.extend(gateway(&entry.key, table, &context, &findings)),
            None => entry.value.wrong_type(&entry.key, "a table with rules", &findings),
        }
    }
    file.finish();
    let network = Network { title, buses, nodes, gateways };
    ((!findings.has_errors()).then_some(network), findings)
}

/// Reads a network file from disk, and the files that it names, which are looked for beside it.
///
/// # Errors
/// It cannot be read: a sentence that begins with its name.
pub fn load(path: &Path) -> Result<(Option<Network>, Findings), String> {
    let text = disk::read_text(path, "network file")?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let include = |name: &str| disk::read(&folder.join(name), disk::MOST_BYTES);
    Ok(parse(&path.display().to_string(), &text, &include))
}

/// A gateway with the rules of its file. What is wrong with the rules is reported at their place.
fn gateway(
    name: &str,
    table: &Table,
    context: &Context<'_>,
    findings: &Findings,
) -> Option<Gateway> {
    let include = context.include;
    let mut section = Section::new(table, findings);
    section.require(&["rules"]);
    let file = section.string("rules");
    let origin = section.origin_of("rules");
    section.finish();
    let text = include(file?).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|error| {
            let byte = error.utf8_error().valid_up_to();
            format!("byte {byte} is not UTF-8; rule files are text in UTF-8")
        })
    });
    let text = match text {
        Ok(text) => text,
        Err(reason) => {
            findings.error(origin, format!("{}: {reason}", file?));
            return None;
        }
    };
    // What a rule file names is beside it.
    let folder = Path::new(file?).parent().unwrap_or(Path::new(""));
    let beside = |name: &str| include(&folder.join(name).to_string_lossy());
    let (rules, found) = candor_rules::file::parse_with(file?, &text, &beside);
    for finding in found {
        findings.push(finding);
    }
    let rules = rules?;
    for bus in rules.buses.iter().filter(|bus| !bus.is_virtual) {
        bus_named(context.buses, context.unread, &bus.name, origin, findings)?;
    }
    Some(Gateway { name: name.into(), rules })
}

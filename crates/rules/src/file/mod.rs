//! Rule files: TOML to a [`Table`] and back. `docs/rules.md` is their manual.
//!
//! [`parse`] tells everything that is wrong with a file at once, each finding with its place and a
//! remedy, and what is suspicious as warnings ([`crate::check`]). [`write()`] gives a readable file
//! that [`parse`] reads back as the same table.

mod bus;
pub mod disk;
mod edit;
mod extension;
mod rule;
mod write;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use std::sync::Arc;

use candor_config::{Section, quoted};
use candor_diagnostics::{Findings, Origin, Severity, Source};
use candor_signals::Database;

use self::bus::{buses, port_origin};
use self::extension::Files;
use self::rule::RuleReader;
use crate::check::{Place, check};
use candor_engine::table::HOPS_LIMIT;
use candor_engine::{BusIndex, Rule, Table};

pub(crate) use self::bus::{INTERFACE_LEN, is_virtual_by_name};
pub(crate) use self::edit::index_range;
pub use self::extension::{Include, STEPS};
pub use self::write::write;
pub(crate) use self::write::{push, show_bytes};

/// The most frames that may come at once.
const MOST_BURST: u32 = 1_000_000;

/// Reads a rule file and checks the rules. `name` is what the file is called in findings.
///
/// There is a table only if there are no errors. Other files that it names cannot be read: see
/// [`parse_with`].
#[must_use]
pub fn parse(name: &str, text: &str) -> (Option<Table>, Findings) {
    parse_with(name, text, &|_| Err("no other files are read here".into()))
}

/// The same with the DBC files and tables of identifiers that it names.
#[must_use]
pub fn parse_with(name: &str, text: &str, include: Include<'_>) -> (Option<Table>, Findings) {
    parse_for(name, text, include, &|_| Vec::new())
}

/// The DBC files that a rule file names for its buses, as far as they can be read. `include` is that of
/// [`parse_with`].
#[must_use]
pub fn databases(name: &str, text: &str, include: Include<'_>) -> BTreeMap<BusIndex, Rc<Database>> {
    let findings = Findings::new();
    let mut files = Files::new(include);
    if let Some(document) = candor_config::parse(&Source::new(name, text), &findings) {
        let mut root = Section::new(&document, &findings);
        buses(root.table_entries("bus"), &findings, &mut files);
    }
    files.into_databases()
}

/// A port that the rules cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPort {
    /// Its bus.
    pub bus: BusIndex,
    /// Why not.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

/// The same for a program that opens the ports: `ports` tells which of them it cannot use for what
/// the rules do. It is asked only if there are no other errors.
#[must_use]
pub fn parse_for(
    name: &str,
    text: &str,
    include: Include<'_>,
    ports: &dyn Fn(&Table) -> Vec<BadPort>,
) -> (Option<Table>, Findings) {
    let findings = Findings::new();
    let source = Source::new(name, text);
    let table = read(&source, &findings, &mut Files::new(include), ports);
    (table.filter(|_| !findings.has_errors()), findings)
}

/// The rules that could be read; whatever else there is becomes findings.
fn read(
    source: &Arc<Source>,
    findings: &Findings,
    files: &mut Files<'_>,
    ports: &dyn Fn(&Table) -> Vec<BadPort>,
) -> Option<Table> {
    let document = candor_config::parse(source, findings)?;
    let mut root = Section::new(&document, findings);
    root.require(&["bus"]);
    let max_hops = root.integer("max_hops", 1..=HOPS_LIMIT).unwrap_or(0);
    let defaults = [("ignore", false), ("refuse", true)];
    let refuses_others = root.one_of("default", &defaults).unwrap_or(false);
    let bus_entries = root.table_entries("bus");
    let buses = buses(bus_entries, findings, files);
    let files = &*files;
    let by_name: BTreeMap<String, BusIndex> =
        buses.iter().map(|bus| bus.name.clone()).zip((0..=u16::MAX).map(BusIndex)).collect();

    let mut rules = Vec::new();
    let mut places = Vec::new();
    let mut names: BTreeMap<String, &Origin> = BTreeMap::new();
    for (index, section) in root.sections("rule").into_iter().enumerate() {
        if findings.is_full() {
            break;
        }
        let errors = findings.count(Severity::Error);
        let (line, column) = section.origin().line_column();
        let place = section.table();
        let rule = RuleReader { section, buses: &buses, by_name: &by_name, files }.read(index);
        let name_origin = place.get("name").map_or(place.origin(), |value| &value.origin);
        if let Some(first) = names.insert(rule.name.clone(), name_origin) {
            let message = format!("a rule is already called {}: {first}", quoted(&rule.name));
            findings.error_with_hint(
                name_origin,
                message,
                "give each rule a different name: \
                                                            reports show it",
            );
        }
        if findings.count(Severity::Error) == errors {
            rules.push(Rule { position: (line, column), ..rule });
            places.push(place);
        }
    }
    root.finish();

    let origin = |place: Place| match place {
        Place::Bus(index) => {
            bus_entries.get(index).map_or_else(|| Origin::whole(source), |bus| bus.origin.clone())
        }
        Place::Rule(index, key) => places.get(index).map_or_else(
            || Origin::whole(source),
            |table| {
                let same = if key == "rate" { "min_interval" } else { key };
                let value = table.get(key).or_else(|| table.get(same));
                value.map_or(table.origin(), |value| &value.origin).clone()
            },
        ),
    };
    let table = Table { buses, rules, max_hops, refuses_others };
    let messages: Vec<_> = (0..=u16::MAX)
        .take(table.buses.len())
        .map(|bus| files.database(BusIndex(bus)).map_or(&[][..], Database::messages))
        .collect();
    check(&table, &messages, &origin, findings);
    if !findings.has_errors() {
        for BadPort { bus, reason, remedy } in ports(&table) {
            let entry = bus_entries.get(usize::from(bus.0));
            let origin = entry.map_or_else(|| Origin::whole(source), port_origin);
            findings.error_with_hint(&origin, reason, remedy);
        }
    }
    Some(table)
}

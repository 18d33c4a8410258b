//! `network = "FILE"`: a network file laid under an experiment.
//!
//! Its buses are the experiment's, its messages are those of periodic traffic, and the rules of its only
//! gateway are those of the gateway. Whatever the experiment says itself wins.

use std::path::{Path, PathBuf};

use candor_config::{Data, Table, Value};
use candor_diagnostics::{Findings, Origin, Source};
use candor_network::file;
use candor_rules::file::disk;

use crate::locate::locate;

/// What a message of a network file has that experiments do not ask for.
const OF_BOUNDS: [&str; 2] = ["deadline", "distances"];
/// What a network file says about messages; experiments have it under `traffic`.
const OF_TRAFFIC: [&str; 9] =
    ["dbc", "nodes", "node", "message", "offset", "offsets", "fill", "queue", "queue_depth"];

#[derive(Debug, Default)]
pub(crate) struct NetworkFile {
    /// As it was written, and where it is.
    pub(crate) input: Option<(String, PathBuf)>,
    /// The part that only some experiments take.
    messages: Option<Table>,
    /// Its gateways, with their rules as somebody names them who is where the experiment is.
    gateways: Option<Value>,
    /// Where it is named.
    origin: Option<Origin>,
}

impl NetworkFile {
    /// Lays the messages under an experiment with periodic traffic, and the rules under one with a gateway
    /// that has none of its own.
    pub(crate) fn lay_under(&self, table: &mut Table, findings: &Findings) {
        let kind = table.get_path(&["traffic", "kind"]).and_then(Value::as_str);
        if let (Some(messages), Some("periodic")) = (&self.messages, kind) {
            lay_under(table, messages);
        }
        let Some(gateways) = &self.gateways else { return };
        if let Some(rules) = only_rules(gateways, table, findings).cloned() {
            table.set_path(&["gateway", "rules"], rules);
        }
    }

    /// Warns if the network has gateways, but this experiment says nothing about one.
    pub(crate) fn doubt_gateway(&self, table: &Table, findings: &Findings) {
        if let (Some(_), Some(origin), None) = (&self.gateways, &self.origin, table.get("gateway"))
        {
            let message = "the network has a gateway, but the experiment has no [gateway]: nothing is \
                           forwarded";
            let hint = "say how long it takes, as in gateway.delay = \"35us\", or that there is none: \
                        gateway.kind = \"none\"";
            findings.warning(origin, message, hint);
        }
    }
}

/// Lays `under` under a table. What both have stays where the experiment has it.
fn lay_under(table: &mut Table, under: &Table) {
    let mut merged = Table::new(table.origin().clone());
    for entry in under.entries() {
        let value = match (&entry.value.data, table.get(&entry.key)) {
            (Data::Table(inner), Some(Value { origin, data: Data::Table(own) })) => {
                let mut moved = Table::new(own.origin().clone());
                inner.entries().iter().for_each(|it| moved.set_path(&[&it.key], it.value.clone()));
                Value { origin: origin.clone(), data: Data::Table(moved) }
            }
            _ => entry.value.clone(),
        };
        merged.set_path(&[&entry.key], value);
    }
    merged.merge(std::mem::replace(table, Table::new(merged.origin().clone())));
    *table = merged;
}

/// Lays the buses of the network file that `table` names under it, and takes its name out.
pub(crate) fn read(
    table: &mut Table,
    has_own: bool,
    base: &Path,
    findings: &Findings,
) -> NetworkFile {
    // Kinds with networks of their own have tables, which may name a file.
    if table.get("network").is_some_and(|value| value.as_table().is_some()) {
        return NetworkFile::default();
    }
    if has_own && let Some(name) = table.remove("network") {
        table.set_path(&["network", "file"], name);
        return NetworkFile::default();
    }
    let Some(value) = table.remove("network") else { return NetworkFile::default() };
    let Some(name) = value.as_str() else {
        value.wrong_type("network", "the name of a network file", findings);
        return NetworkFile::default();
    };
    let path = locate(base, name);
    let read = file::load(&path, file::Purpose::Flow).and_then(|(network, found)| {
        let text = disk::read_text(&path, "network file")?;
        Ok((network.is_some(), found, text))
    });
    let text = match read {
        Ok((is_read, found, text)) => {
            found.into_iter().for_each(|it| findings.push(it));
            if !is_read {
                return NetworkFile::default();
            }
            text
        }
        Err(reason) => {
            findings.error(&value.origin, reason);
            return NetworkFile::default();
        }
    };
    let source = Source::new(path.display().to_string(), text);
    let Some(document) = candor_config::parse(&source, findings) else {
        return NetworkFile::default();
    };
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let beside = |file: &str| folder.join(file).to_string_lossy().into_owned();
    let origin = Origin::whole(&source);
    let (mut under, mut messages) = (Table::new(origin.clone()), Table::new(origin));
    let mut gateways = None;
    for entry in document.entries() {
        let mut value = entry.value.clone();
        match entry.key.as_str() {
            "bus" => {
                rename_files(&mut value, "dbc", &beside);
                under.set_path(&["bus"], value);
            }
            "gateway" => {
                rename_files(&mut value, "rules", &beside);
                gateways = Some(value);
            }
            key if OF_TRAFFIC.contains(&key) => {
                match key {
                    "dbc" => value = renamed(&value, &beside),
                    "message" => OF_BOUNDS.iter().for_each(|key| without(&mut value, key)),
                    _ => {}
                }
                messages.set_path(&["traffic", key], value);
            }
            _ => {}
        }
    }
    lay_under(table, &under);
    NetworkFile {
        input: Some((name.to_owned(), path)),
        messages: Some(messages),
        gateways,
        origin: Some(value.origin.clone()),
    }
}

/// A file name as somebody writes it who is where the experiment is.
fn renamed(value: &Value, beside: &dyn Fn(&str) -> String) -> Value {
    let data = value.as_str().map_or_else(|| value.data.clone(), |name| Data::String(beside(name)));
    Value { origin: value.origin.clone(), data }
}

/// The same for what each of several tables names under `key`.
fn rename_files(tables: &mut Value, key: &str, beside: &dyn Fn(&str) -> String) {
    let names: Vec<_> = tables.as_table().into_iter().flat_map(Table::entries).collect();
    let files: Vec<_> = names
        .into_iter()
        .filter_map(|it| Some((it.key.clone(), renamed(it.value.as_table()?.get(key)?, beside))))
        .collect();
    if let Data::Table(tables) = &mut tables.data {
        for (name, file) in files {
            tables.set_path(&[&name, key], file);
        }
    }
}

/// Takes a key that is not of an experiment out of several tables.
fn without(tables: &mut Value, key: &str) {
    if let Data::Array(tables) = &mut tables.data {
        for table in tables {
            if let Data::Table(table) = &mut table.data {
                let _ = table.remove(key);
            }
        }
    }
}

/// The rules of the only gateway, for an experiment that has a gateway without rules of its own.
fn only_rules<'a>(gateways: &'a Value, table: &Table, findings: &Findings) -> Option<&'a Value> {
    let own = table.get("gateway")?.as_table()?;
    let is_none = own.get("kind").and_then(Value::as_str) == Some("none");
    if is_none || ["rules", "generate"].iter().any(|key| own.get(key).is_some()) {
        return None;
    }
    match gateways.as_table()?.entries() {
        [only] => only.value.as_table()?.get("rules"),
        several => {
            let message = format!("the network has {} gateways", several.len());
            let hint = "name the rules of one of them with gateway.rules";
            findings.error_with_hint(own.origin(), message, hint);
            None
        }
    }
}

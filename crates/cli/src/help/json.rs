//! `candor help json`: the objects that `--json` prints, and their fields.

use candor_diagnostics::meant_or;
use clap::Args;
use serde_json::Value;

use crate::Answer;
use crate::json::schema::listed;
use crate::json::{Entry, document};
use crate::output::{print, table, wrapped};

/// Lines are not longer than this.
const WIDTH: usize = 100;
/// What the columns of names and types leave at least.
const MIN_WIDTH: usize = 30;

/// Every object.
static OBJECTS: &[&[Entry]] = &[
    crate::bus::json::OBJECTS,
    crate::result::json::OBJECTS,
    crate::ping::json::OBJECTS,
    crate::doctor::OBJECTS,
    crate::frame::OBJECTS,
    crate::health::OBJECTS,
    crate::log::json::OBJECTS,
    crate::network::json::OBJECTS,
    crate::route::json::OBJECTS,
    crate::tte::json::OBJECTS,
    crate::signals::json::OBJECTS,
    #[cfg(feature = "lab")]
    crate::lab::json::OBJECTS,
    #[cfg(feature = "lab")]
    crate::vm::json::OBJECTS,
];

/// Every object, sorted by command.
fn objects() -> impl Iterator<Item = Entry> {
    let mut objects = OBJECTS.concat();
    // Those of a command stay in their order.
    objects.sort_by_key(|object| object.commands.first().copied());
    objects.into_iter()
}

/// Describe the objects that `--json` prints
///
/// Without a name, lists all objects.
///
/// Examples:
///   candor help json
///   candor help json result
///   candor help json lab run
///   candor help json --schema
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Json {
    /// The type of an object, or a command
    #[arg(value_name = "TYPE|COMMAND")]
    name: Vec<String>,
    /// Print the JSON Schema (draft 2020-12) of the lines
    #[arg(long)]
    schema: bool,
}

pub(super) fn run(arguments: &Json) -> Answer {
    let chosen = chosen(&arguments.name.join(" "))?;
    let text = match arguments.schema {
        true => format!("{:#}\n", document(&chosen)),
        false if arguments.name.is_empty() => overview(&chosen),
        false => chosen.iter().map(description).collect::<Vec<_>>().join("\n"),
    };
    print(&text)?;
    Ok(true)
}

/// The objects of this name; or those of a command or of a group of commands, or one of those.
fn chosen(name: &str) -> Result<Vec<Entry>, String> {
    let name = name.strip_prefix("candor ").unwrap_or(name);
    let group = format!("{name} ");
    let is_meant = |object: &Entry| {
        let is_of = |command: &str| {
            command == name
                || command.starts_with(&group)
                || name.strip_prefix(command).is_some_and(|rest| rest.trim_start() == object.name)
        };
        name.is_empty() || object.name == name || object.commands.iter().any(|name| is_of(name))
    };
    let chosen: Vec<_> = objects().filter(is_meant).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let names = objects().flat_map(|object| [&[object.name], object.commands].concat());
    let hint = meant_or(name, names, || "`candor help json` lists all of them".into());
    Err(format!("no object that --json prints and no command that prints one is `{name}`; {hint}"))
}

fn overview(objects: &[Entry]) -> String {
    let cells = objects.iter().map(|object| {
        let summary = object.fields()["description"].as_str().unwrap_or_default().to_owned();
        (object.name.to_owned(), object.commands.join(", "), summary)
    });
    let more = "candor help json TYPE shows the fields of an object; candor help json --schema prints\n\
                the JSON Schema of the lines.";
    format!("{}\n{}\n", columns(["type", "command", "what it is"], cells), more)
}

/// An object with its fields.
fn description(object: &Entry) -> String {
    let schema = object.fields();
    let name = object.name;
    let form = match object.is_plain {
        true => "the plain object, without type and data".to_owned(),
        false => format!("{{\"type\":\"{name}\",\"data\":{{...}}}}"),
    };
    let commands: Vec<_> =
        object.commands.iter().map(|command| format!("candor {command} --json")).collect();
    let summary = schema["description"].as_str().unwrap_or_default();
    let text = format!("{name}: {summary} Printed by {}, as {form}.", commands.join(", "));
    let mut rows = Vec::new();
    add_fields(&schema, 0, &mut rows);
    let text: String = wrapped(&text, WIDTH).into_iter().map(|line| line + "\n").collect();
    format!("{text}\n{}", columns(["field", "type", "meaning"], rows.into_iter()))
}

/// Three columns; the last one is broken between words.
fn columns(head: [&str; 3], cells: impl Iterator<Item = (String, String, String)>) -> String {
    let cells: Vec<_> = cells.collect();
    let longest = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let taken = longest(&mut cells.iter().map(|cell| &cell.0))
        + longest(&mut cells.iter().map(|cell| &cell.1))
        + 4;
    let width = WIDTH.saturating_sub(taken).max(MIN_WIDTH);
    let mut rows = Vec::new();
    for (first, second, text) in cells {
        let mut start = [first, second];
        for line in wrapped(&text, width) {
            rows.push([std::mem::take(&mut start).to_vec(), vec![line]].concat());
        }
    }
    table(&head, &rows)
}

/// The fields of a schema as rows, and below each the fields of what it holds.
fn add_fields(schema: &Value, depth: usize, rows: &mut Vec<(String, String, String)>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    // Properties are sorted by name; those that are always there are listed as they are printed.
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<_> = required.collect();
    let others: Vec<_> =
        properties.keys().map(String::as_str).filter(|name| !names.contains(name)).collect();
    names.extend(others);
    for (name, field) in names.into_iter().filter_map(|name| Some((name, properties.get(name)?))) {
        let meaning = field["description"].as_str().unwrap_or_default();
        rows.push((format!("{:1$}{name}", "", 2 * depth), words(field), meaning.to_owned()));
        add_fields(below(field), depth + 1, rows);
    }
}

/// The object that a field is or holds: in a list, or if it is not null.
fn below(field: &Value) -> &Value {
    let parts = [&field["items"], &field["additionalProperties"]].into_iter();
    let mut held = parts.filter(|part| part.is_object()).map(below);
    held.find(|part| part["properties"].is_object()).unwrap_or(field)
}

/// The type of a field in plain words.
fn words(schema: &Value) -> String {
    let types: Vec<String> = match &schema["type"] {
        Value::Array(types) => types.iter().flat_map(|name| word(name, schema)).collect(),
        name => word(name, schema),
    };
    listed(&types)
}

fn word(name: &Value, schema: &Value) -> Vec<String> {
    let word = match name.as_str().unwrap_or_default() {
        // The description lists them.
        "string" if schema["enum"].is_array() => "word".into(),
        "boolean" => return vec!["true".into(), "false".into()],
        "string" => "text".into(),
        "array" => match schema["minItems"].as_u64() {
            Some(count) => format!("list of {count} {}", plural(&schema["items"])),
            None => format!("list of {}", plural(&schema["items"])),
        },
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", plural(&schema["additionalProperties"]))
        }
        name => name.into(),
    };
    vec![word]
}

/// The type of several.
fn plural(schema: &Value) -> String {
    let one = words(schema);
    match one.split_once(' ') {
        None => format!("{one}s"),
        Some((first, rest)) => format!("{first}s {rest}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Calls `see` with the path of every field below a schema, and its own schema.
    fn fields(path: &str, schema: &Value, see: &mut impl FnMut(&str, &Value)) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            see(&path, field);
            fields(&path, field, see);
        }
        for below in ["items", "additionalProperties"] {
            if schema[below].is_object() {
                fields(path, &schema[below], see);
            }
        }
    }

    #[test]
    fn every_object_and_every_field_is_described() {
        for object in objects() {
            let schema = object.fields();
            let summary = schema["description"].as_str().unwrap_or_default();
            let name = object.name;
            assert!(summary.ends_with('.'), "{name}: {summary:?} is not a sentence");
            assert!(schema["properties"].is_object(), "{name} has no fields");
            fields(name, &schema, &mut |path, field| {
                let words = field["description"].as_str().unwrap_or_default();
                assert!(!words.is_empty(), "{path} has no description");
                assert!(!words.ends_with('.'), "{path}: {words:?} ends with a full stop");
            });
        }
    }

    #[test]
    fn command_and_type_name_one_object() {
        let mut names = BTreeSet::new();
        for object in objects() {
            assert!(!object.commands.is_empty(), "{}", object.name);
            for command in object.commands {
                let is_new = names.insert((*command, object.name));
                assert!(is_new, "candor {command} prints two objects of type {}", object.name);
            }
        }
        let commands: Vec<_> = objects().map(|object| object.commands[0]).collect();
        assert!(commands.is_sorted(), "{commands:?}");
    }
}

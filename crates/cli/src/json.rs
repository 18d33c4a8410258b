//! What `--json` prints: tables of objects, which say what each of their fields means and what its value is.
//!
//! Commands print JSON only through [`line()`], [`lines()`] and [`write()`]. [`OBJECTS`] lists the objects; from it come
//! `candor help json` and the JSON Schema of all lines.

pub(crate) mod bus;
#[cfg(feature = "lab")]
pub(crate) mod lab;
mod log;
mod machine;
mod network;
mod ping;
mod route;
mod schema;
mod signals;
mod table;
mod tte;
mod value;

use std::io;

use serde_json::Value;

pub(crate) use self::value::Json;

/// An object that a command prints as one line.
pub(crate) trait Object: Json {
    /// Its name, which stands under `type`.
    const TYPE: &'static str;
    /// The commands that print it, without the word `candor`. No two objects share both a command
    /// and a type.
    const COMMANDS: &'static [&'static str];
    /// Whether the line is the object itself, and not `{"type": ..., "data": {...}}`.
    const IS_PLAIN: bool = false;
}

/// Every object.
static OBJECTS: &[&[Entry]] = &[
    bus::OBJECTS,
    ping::OBJECTS,
    machine::OBJECTS,
    log::OBJECTS,
    network::OBJECTS,
    route::OBJECTS,
    tte::OBJECTS,
    signals::OBJECTS,
    #[cfg(feature = "lab")]
    lab::OBJECTS,
];

/// What is known about an object.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name under `type`.
    pub(crate) name: &'static str,
    pub(crate) commands: &'static [&'static str],
    pub(crate) is_plain: bool,
    fields: fn() -> Value,
}

impl Entry {
    const fn new<T: Object>() -> Self {
        let fields = T::schema;
        Self { name: T::TYPE, commands: T::COMMANDS, is_plain: T::IS_PLAIN, fields }
    }

    /// The JSON Schema of what stands under `data`.
    pub(crate) fn fields(&self) -> Value {
        (self.fields)()
    }
}

/// Every object, sorted by command.
pub(crate) fn objects() -> impl Iterator<Item = Entry> {
    let mut objects = OBJECTS.concat();
    // Those of a command stay in their order.
    objects.sort_by_key(|object| object.commands.first().copied());
    objects.into_iter()
}

/// The JSON Schema of the lines of these objects, as one document.
pub(crate) fn schema(objects: &[Entry]) -> Value {
    schema::document(objects)
}

/// `object` as one line.
pub(crate) fn line(object: &impl Object) -> Result<String, String> {
    lines([object])
}

/// Several objects, one per line.
pub(crate) fn lines<T: Object>(objects: impl IntoIterator<Item = T>) -> Result<String, String> {
    let mut out = Vec::new();
    for object in objects {
        write(&object, &mut out).map_err(|error| error.to_string())?;
    }
    String::from_utf8(out).map_err(|error| error.to_string())
}

/// A reference to an object is printed as the object.
impl<T: Object> Object for &T {
    const TYPE: &'static str = T::TYPE;
    const COMMANDS: &'static [&'static str] = T::COMMANDS;
    const IS_PLAIN: bool = T::IS_PLAIN;
}

/// Appends `object` as one line.
pub(crate) fn write<T: Object>(object: &T, out: &mut Vec<u8>) -> io::Result<()> {
    if T::IS_PLAIN {
        object.write(out)?;
    } else {
        out.extend_from_slice(b"{\"type\":");
        T::TYPE.write(out)?;
        out.extend_from_slice(b",\"data\":");
        object.write(out)?;
        out.push(b'}');
    }
    out.push(b'\n');
    Ok(())
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

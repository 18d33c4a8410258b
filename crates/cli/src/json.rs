//! What `--json` prints: tables of objects, which say what each of their fields means and what its value is.
//!
//! Commands print JSON only through [`line()`], [`lines()`] and [`write()`], and each family of commands has its tables
//! beside them. From the tables come `candor help json` and the JSON Schema of all lines.

pub(crate) mod schema;
pub(crate) mod table;
pub(crate) mod value;

use std::io;

use serde_json::Value;

pub(crate) use self::schema::document;
pub(crate) use self::table::objects;
#[cfg(feature = "lab")]
pub(crate) use self::value::word;
pub(crate) use self::value::{Json, Present, words};

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
    pub(crate) const fn new<T: Object>() -> Self {
        let fields = T::schema;
        Self { name: T::TYPE, commands: T::COMMANDS, is_plain: T::IS_PLAIN, fields }
    }

    /// The JSON Schema of what stands under `data`.
    pub(crate) fn fields(&self) -> Value {
        (self.fields)()
    }
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

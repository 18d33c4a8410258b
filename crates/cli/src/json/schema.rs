//! The JSON Schema of objects and lines, draft 2020-12.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::Entry;

/// What of a generated schema says nothing to readers: the names and number types of Rust.
const OF_RUST: [&str; 2] = ["title", "format"];

/// The schema of what is serialized, with every part in its place.
pub(super) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    tidy(&mut schema);
    schema.to_value()
}

/// Objects have the fields that are described, and no others.
fn tidy(schema: &mut Schema) {
    transform_subschemas(&mut tidy, schema);
    let Some(schema) = schema.as_object_mut() else { return };
    for key in OF_RUST {
        schema.remove(key);
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

/// The schema of a line of any of these objects.
pub(super) fn document(objects: &[Entry]) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line that candor prints with --json",
        "oneOf": objects.iter().map(line).collect::<Vec<_>>(),
    })
}

fn line(object: &Entry) -> Value {
    let commands: Vec<_> = object.commands.iter().map(|name| format!("candor {name}")).collect();
    let title = format!("{} of {}", object.name, commands.join(", "));
    let mut fields = object.fields();
    if object.is_plain {
        fields["title"] = title.into();
        return fields;
    }
    json!({
        "title": title,
        "type": "object",
        "properties": {"type": {"const": object.name}, "data": fields},
        "required": ["type", "data"],
        "additionalProperties": false,
    })
}

//! Objects that are structs of their own, whose JSON Schema is derived.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// What of a generated schema says nothing to readers: the names and number types of Rust.
const OF_RUST: [&str; 2] = ["title", "format"];

/// The schema of what is serialized, with every part in its place.
pub(crate) fn fields<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    tidy(&mut schema);
    schema.to_value()
}

/// A word that a field may have, or null, and what it means unless that is plain.
type Word = (Value, Option<String>);

/// Objects have the fields that are described, and no others; fields of a few words list them.
fn tidy(schema: &mut Schema) {
    list_words(schema);
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

/// If the values are a few words, they become one `enum`, and the description lists them with their
/// meanings. The choice may have been between words and null, or between words with descriptions.
fn list_words(schema: &mut Schema) {
    let Some(words) = words(schema.as_value()) else { return };
    let Some(schema) = schema.as_object_mut() else { return };
    let is_text = |(word, _): &&Word| word.is_string();
    let texts: Vec<_> = words.iter().filter(is_text).map(shown).collect();
    let has_null = texts.len() < words.len();
    let list = match texts.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => texts.concat(),
    };
    for key in ["oneOf", "anyOf", "const"] {
        schema.remove(key);
    }
    schema.insert("enum".into(), words.into_iter().map(|(word, _)| word).collect());
    schema
        .insert("type".into(), if has_null { json!(["string", "null"]) } else { "string".into() });
    if let Some(Value::String(description)) = schema.get_mut("description") {
        // What follows a semicolon is about null.
        let end = description.find(';').unwrap_or(description.len());
        description.insert_str(end, &format!(": {list}"));
    }
}

/// The words that a schema allows; `None` if it allows anything else but null.
fn words(schema: &Value) -> Option<Vec<Word>> {
    if let Some(words) = schema["enum"].as_array() {
        return Some(words.iter().map(|word| (word.clone(), None)).collect());
    }
    if schema["const"].is_string() {
        let meaning = schema["description"].as_str().map(str::to_owned);
        return Some(vec![(schema["const"].clone(), meaning)]);
    }
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array())?;
    let of_choice = |choice: &Value| match choice["type"] == "null" {
        true => Some(vec![(Value::Null, None)]),
        false => words(choice),
    };
    choices.iter().map(of_choice).collect::<Option<Vec<_>>>().map(|words| words.concat())
}

/// A word as it is written in a sentence.
fn shown((word, meaning): &Word) -> String {
    let word = word.as_str().unwrap_or_default();
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-%".contains(c));
    let word = if is_plain { word.to_owned() } else { format!("\"{word}\"") };
    match meaning {
        Some(meaning) => format!("{word} ({meaning})"),
        None => word,
    }
}

/// Makes structs values.
macro_rules! derived {
    ($($of:ty),+ $(,)?) => {$(
        impl $crate::json::Json for $of {
            fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
                Ok(serde_json::to_writer(out, self)?)
            }

            fn schema() -> serde_json::Value {
                $crate::json::derived::fields::<Self>()
            }
        }
    )+};
}

derived! {
    super::ping_interval::PingInterval,
    super::round_trips::RoundTrips,
    super::tte_measured::TteMeasured<'_>,
}

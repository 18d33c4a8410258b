//! The JSON Schema of objects and lines, draft 2020-12.

use serde::Serialize;
use serde_json::{Value, json};

use super::Entry;

/// The same schema, or null.
pub(crate) fn or_null(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    schema
}

/// The schema of one of these words, and as its description a list of them, with what they mean.
pub(crate) fn words(words: &[impl AsRef<str> + Serialize], meanings: &[(&str, &str)]) -> Value {
    let shown = words.iter().map(AsRef::as_ref).map(|word| {
        let meaning = meanings.iter().find(|(of, _)| *of == word);
        meaning.map_or_else(|| shown(word), |(_, meaning)| format!("{} ({meaning})", shown(word)))
    });
    json!({"type": "string", "enum": words, "description": listed(&shown.collect::<Vec<_>>())})
}

/// A word as it is written in a sentence.
fn shown(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-%".contains(c));
    if is_plain { word.to_owned() } else { format!("\"{word}\"") }
}

/// Words as a sentence lists them.
pub(crate) fn listed(words: &[String]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// The schema of a field that means this. If there are `words`, its values are some of them. The meaning lists the
/// words that there are.
pub(crate) fn described(mut schema: Value, meaning: &str, words: &[&str]) -> Value {
    let mut meaning = sentence(meaning);
    if !words.is_empty() {
        restrict(&mut schema, words);
    }
    if schema["enum"].is_array() {
        let plain = || listed(&words.iter().map(|word| shown(word)).collect::<Vec<_>>());
        let list = schema["description"].as_str().map_or_else(plain, str::to_owned);
        // What follows a semicolon is about null.
        let end = meaning.find(';').unwrap_or(meaning.len());
        meaning.insert_str(end, &format!(": {list}"));
    }
    schema["description"] = meaning.into();
    schema
}

/// Restricts the texts of a schema to these words: in an object, the names of fields.
fn restrict(schema: &mut Value, words: &[&str]) {
    if schema["items"].is_object() {
        restrict(&mut schema["items"], words);
    } else if schema["type"] == "object" {
        schema["propertyNames"] = json!({"type": "string", "enum": words});
    } else {
        schema["enum"] = json!(words);
        if let (true, Some(all)) = (schema["type"].is_array(), schema["enum"].as_array_mut()) {
            all.push(Value::Null);
        }
    }
}

/// What comments say, without their line breaks.
pub(crate) fn sentence(comment: &str) -> String {
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The schema of a line of any of these objects.
pub(crate) fn document(objects: &[Entry]) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::json::{objects, words};

    #[derive(Clone, Copy)]
    enum Colour {
        Red,
        Green,
        Blue,
    }

    impl Colour {
        const ALL: [Self; 3] = [Self::Red, Self::Green, Self::Blue];

        const fn name(self) -> &'static str {
            match self {
                Self::Red => "red",
                Self::Green => "dark green",
                Self::Blue => "blue",
            }
        }
    }

    words! {
        Colour { "blue": "as the sky" }
    }

    struct Thing {
        colour: Colour,
        other: Option<Colour>,
        listed: Option<&'static str>,
        all: Vec<Colour>,
    }

    objects! {
        /// A thing.
        "thing" of "lab" for Thing as it {
            /// Its colour
            colour;
            /// Its other colour; null if it has none
            other;
            /// One of a list; null if it has none
            listed [["a", "b"].into_iter()];
            /// All
            /// colours
            all;
        }
    }

    #[test]
    fn fields_of_a_few_words_list_them() {
        let schema = Thing::schema();
        let words = "red, \"dark green\" or blue (as the sky)";
        for (field, expected) in [
            (
                "colour",
                json!({
                    "description": format!("Its colour: {words}"),
                    "type": "string",
                    "enum": ["red", "dark green", "blue"],
                }),
            ),
            (
                "other",
                json!({
                    "description": format!("Its other colour: {words}; null if it has none"),
                    "type": ["string", "null"],
                    "enum": ["red", "dark green", "blue", null],
                }),
            ),
            (
                "listed",
                json!({
                    "description": "One of a list: a or b; null if it has none",
                    "type": ["string", "null"],
                    "enum": ["a", "b", null],
                }),
            ),
        ] {
            assert_eq!(schema["properties"][field], expected);
        }
        let all = &schema["properties"]["all"];
        assert_eq!(all["items"]["enum"], json!(["red", "dark green", "blue"]));
        assert_eq!(all["description"], "All colours");
    }

    #[test]
    fn an_object_is_a_line_with_its_type_first() {
        let (colour, other) = (Colour::Red, Some(Colour::Green));
        let thing = Thing { colour, other, listed: None, all: vec![Colour::Blue, Colour::Red] };
        let data = "{\"colour\":\"red\",\"other\":\"dark green\",\"listed\":null,\"all\":[\"blue\",\"red\"]}";
        let expected = format!("{{\"type\":\"thing\",\"data\":{data}}}\n");
        assert_eq!(crate::json::line(&thing).unwrap(), expected);
        assert_eq!(OBJECTS[0].fields(), Thing::schema());
    }
}

//! Whether a JSON value fits a schema, for the part of JSON Schema that our schemas use. A keyword that
//! is not known here fails the test.

use serde_json::Value;

/// What says nothing about values, and regular expressions, which `tests/conformance` tries.
const NOTES: [&str; 5] = ["$schema", "$defs", "title", "description", "pattern"];

/// Why the value does not fit: a place and a reason each; nothing if it fits.
pub(crate) fn misfits(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    misfits_in(schema, schema, value, place)
}

/// The same for a part of the schema `root`.
fn misfits_in(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let misfits = |schema: &_, value: &_, place: &str| misfits_in(root, schema, value, place);
    let mut found = Vec::new();
    if *schema == Value::Bool(false) {
        found.push(format!("{place} is not allowed"));
        return found;
    }
    for (keyword, wanted) in schema.as_object().unwrap() {
        let fits = match keyword.as_str() {
            "type" => match wanted {
                Value::Array(names) => names.iter().any(|name| is_of_type(value, name)),
                name => is_of_type(value, name),
            },
            "const" => value == wanted,
            "enum" => wanted.as_array().unwrap().contains(value),
            "$ref" => {
                let part = root.pointer(wanted.as_str().unwrap().trim_start_matches('#'));
                found.extend(misfits(part.unwrap(), value, place));
                true
            }
            "minimum" => value.as_f64().is_none_or(|value| value >= wanted.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|value| value <= wanted.as_f64().unwrap()),
            "minItems" => len(value).is_none_or(|len| len >= wanted.as_u64().unwrap()),
            "uniqueItems" => value.as_array().is_none_or(|items| {
                items.iter().enumerate().all(|(at, item)| !items[..at].contains(item))
            }),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 >= wanted.as_u64().unwrap()),
            "minProperties" => size(value).is_none_or(|size| size >= wanted.as_u64().unwrap()),
            "maxProperties" => size(value).is_none_or(|size| size <= wanted.as_u64().unwrap()),
            "maxItems" => len(value).is_none_or(|len| len <= wanted.as_u64().unwrap()),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(misfits(wanted, item, &format!("{place}[{index}]")));
                }
                true
            }
            "required" => {
                let names = wanted.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                value
                    .as_object()
                    .is_none_or(|fields| names.clone().all(|it| fields.contains_key(it)))
            }
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = wanted.get(name) {
                        found.extend(misfits(schema, field, &format!("{place}.{name}")));
                    }
                }
                true
            }
            "patternProperties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    let patterns = wanted.as_object().unwrap().iter();
                    for (_, schema) in patterns.filter(|(pattern, _)| is_match(pattern, name)) {
                        found.extend(misfits(schema, field, &format!("{place}.{name}")));
                    }
                }
                true
            }
            "additionalProperties" => {
                let fields = value.as_object().into_iter().flatten();
                let others: Vec<_> = fields.filter(|(name, _)| !is_known(schema, name)).collect();
                if wanted.is_object() {
                    for (name, field) in &others {
                        found.extend(misfits(wanted, field, &format!("{place}.{name}")));
                    }
                }
                *wanted != Value::Bool(false) || others.is_empty()
            }
            "propertyNames" => {
                let names = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
                found.extend(names.flat_map(|name| misfits(wanted, &name.into(), place)));
                true
            }
            "dependentRequired" | "dependentSchemas" => {
                let depending = wanted.as_object().unwrap().iter();
                for (_, part) in depending.filter(|(name, _)| value.get(name.as_str()).is_some()) {
                    let schema = match keyword.as_str() {
                        "dependentRequired" => &serde_json::json!({ "required": part }),
                        _ => part,
                    };
                    found.extend(misfits(schema, value, place));
                }
                true
            }
            "not" => !misfits(wanted, value, place).is_empty(),
            "if" => {
                let is_true = misfits(wanted, value, place).is_empty();
                let part = schema.get(if is_true { "then" } else { "else" });
                found.extend(part.iter().flat_map(|part| misfits(part, value, place)));
                true
            }
            "then" | "else" => true,
            "allOf" => {
                let parts = wanted.as_array().unwrap().iter();
                found.extend(parts.flat_map(|part| misfits(part, value, place)));
                true
            }
            "anyOf" | "oneOf" => {
                let choices = wanted.as_array().unwrap().iter();
                let fitting = choices.filter(|choice| misfits(choice, value, place).is_empty());
                let count = fitting.count();
                count == 1 || count > 1 && keyword == "anyOf"
            }
            note if NOTES.contains(&note) => true,
            unknown => panic!("{place}: the keyword {unknown} is not known"),
        };
        if !fits {
            found.push(format!("{place}: {value} does not fit {keyword}: {wanted}"));
        }
    }
    found
}

/// Whether `properties` or `patternProperties` have the field.
fn is_known(schema: &Value, name: &str) -> bool {
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    schema.get("properties").is_some_and(|known| known.get(name).is_some())
        || patterns.into_iter().flatten().any(|(pattern, _)| is_match(pattern, name))
}

/// Whether a key fits a pattern of our schemas: words and `[^.]+`, with `\.` between them.
fn is_match(pattern: &str, key: &str) -> bool {
    let pattern = pattern.strip_prefix('^').and_then(|it| it.strip_suffix('$')).unwrap();
    let (patterns, words) = (pattern.split("\\."), key.split('.'));
    patterns.clone().count() == words.clone().count()
        && patterns.zip(words).all(|(pattern, word)| match pattern {
            "[^.]+" => !word.is_empty(),
            literal => literal == word,
        })
}

fn len(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

fn size(value: &Value) -> Option<u64> {
    value.as_object().map(|fields| fields.len() as u64)
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("the type {unknown} is not known"),
    }
}

/// It is of use only if it refuses.
#[test]
fn what_does_not_fit_is_refused() {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": ["integer", "null"], "minimum": 0},
            "pairs": {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2}},
            "sums": {"type": "object", "additionalProperties": {"type": "number"}},
            "flags": {
                "type": "object",
                "patternProperties": {"^a\\.[^.]+$": {"type": "boolean"}},
                "additionalProperties": false,
            },
            "rate": {"type": "object", "dependentRequired": {"burst": ["least"]}},
            "step": {
                "propertyNames": {"enum": ["a", "b"]},
                "if": {"required": ["a"]},
                "then": {"properties": {"b": false}},
                "else": {"dependentSchemas": {"b": {"not": {"maxProperties": 0}}}},
            },
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    for (text, is_fit) in [
        (r#"{"name": "a"}"#, true),
        (r#"{"name": "a", "count": null, "pairs": [[1, 2]], "sums": {"x": 1.5}}"#, true),
        (r#"{"name": 1}"#, false),
        (r#"{"count": 1}"#, false),
        (r#"{"name": "a", "count": -1}"#, false),
        (r#"{"name": "a", "count": 1.5}"#, false),
        (r#"{"name": "a", "pairs": [[1]]}"#, false),
        (r#"{"name": "a", "sums": {"x": "y"}}"#, false),
        (r#"{"name": "a", "other": 1}"#, false),
        (r#"{"name": "a", "flags": {"a.b": true}}"#, true),
        (r#"{"name": "a", "flags": {"a.b": 1}}"#, false),
        (r#"{"name": "a", "flags": {"a.": true}}"#, false),
        (r#"{"name": "a", "flags": {"a": true}}"#, false),
        (r#"{"name": "a", "flags": {"a.b.c": true}}"#, false),
        (r#"{"name": "a", "rate": {"burst": 1, "least": 1}, "step": {"a": 1}}"#, true),
        (r#"{"name": "a", "rate": {"burst": 1}}"#, false),
        (r#"{"name": "a", "step": {"b": 1}}"#, true),
        (r#"{"name": "a", "step": {"a": 1, "b": 1}}"#, false),
        (r#"{"name": "a", "step": {"c": 1}}"#, false),
        ("[]", false),
    ] {
        let value = serde_json::from_str(text).unwrap();
        assert_eq!(misfits(&schema, &value, "it").is_empty(), is_fit, "{text}");
    }
}

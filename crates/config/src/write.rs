//! A [`Table`] as TOML text, so that a resolved experiment can be kept beside its results.

use std::fmt::Write as _;

use crate::{Data, Entry, Table, Value};

impl Table {
    /// The table as TOML: the same table gives the same bytes, and reading them gives an equal
    /// table. Keys keep their order, but plain values come before tables; comments are gone. An
    /// unreadable value is left out.
    #[must_use]
    pub fn to_toml_string(&self) -> String {
        let mut out = String::new();
        write_table(&mut out, self, "");
        out
    }
}

impl Value {
    /// The value as TOML, in one line.
    #[must_use]
    pub fn to_toml_string(&self) -> String {
        let mut out = String::new();
        write_inline(&mut out, self);
        out
    }
}

/// `text` as a TOML string in quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_string(&mut out, text);
    out
}

/// `text` as a TOML key, in quotes if it needs them.
#[must_use]
pub fn quoted_key(text: &str) -> String {
    let mut out = String::new();
    write_key(&mut out, text);
    out
}

/// How an entry is written.
enum EntryShape<'a> {
    Plain,
    /// Under a header `[path]`.
    Table(&'a Table),
    /// Under headers `[[path]]`.
    Tables(Vec<&'a Table>),
}

fn shape(value: &Value) -> EntryShape<'_> {
    match &value.data {
        Data::Table(table) => EntryShape::Table(table),
        Data::Array(values) if !values.is_empty() => values
            .iter()
            .map(Value::as_table)
            .collect::<Option<_>>()
            .map_or(EntryShape::Plain, EntryShape::Tables),
        _ => EntryShape::Plain,
    }
}

fn write_table(out: &mut String, table: &Table, path: &str) {
    for Entry { key, value, .. } in table.entries() {
        if matches!(shape(value), EntryShape::Plain) && !value.is_unreadable() {
            write_key(out, key);
            out.push_str(" = ");
            write_inline(out, value);
            out.push('\n');
        }
    }
    for Entry { key, value, .. } in table.entries() {
        let mut path = path.to_owned();
        if !path.is_empty() {
            path.push('.');
        }
        write_key(&mut path, key);
        match shape(value) {
            EntryShape::Plain => {}
            EntryShape::Table(table) => {
                header(out, &format!("[{path}]"));
                write_table(out, table, &path);
            }
            EntryShape::Tables(tables) => {
                for table in tables {
                    header(out, &format!("[[{path}]]"));
                    write_table(out, table, &path);
                }
            }
        }
    }
}

fn header(out: &mut String, header: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(header);
    out.push('\n');
}

fn write_key(out: &mut String, key: &str) {
    let is_bare = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_bare { out.push_str(key) } else { write_string(out, key) }
}

fn write_inline(out: &mut String, value: &Value) {
    match &value.data {
        Data::String(text) => write_string(out, text),
        Data::Integer(number) => out.push_str(&number.to_string()),
        Data::Float(number) if number.is_nan() => out.push_str("nan"),
        Data::Float(number) => out.push_str(&format!("{number:?}")),
        Data::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
        Data::Array(values) => write_list(out, ["[", "]"], values, write_inline),
        Data::Table(table) => write_list(out, ["{ ", " }"], table.entries(), |out, entry| {
            write_key(out, &entry.key);
            out.push_str(" = ");
            write_inline(out, &entry.value);
        }),
        Data::Unreadable => out.push_str("\"\""),
    }
}

fn write_list<T>(
    out: &mut String,
    [open, close]: [&str; 2],
    items: &[T],
    mut write: impl FnMut(&mut String, &T),
) {
    out.push_str(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
    out.push_str(close);
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{Data, Entry, Table, Value, parse};
    use candor_diagnostics::{Findings, Origin, Source};

    #[test]
    fn text_is_canonical() {
        let text = "name = \"a \\\"b\\\" \\u0001\"\nload = [0, 0.5, [true]]\nhuge = 1e300\n\n\
                    [traffic]\nkind = \"flood\"\n\n[traffic.\"two words\"]\n\n[[bus]]\nrate = 1\n\n\
                    [[bus]]\nmixed = [{ a = 1 }, 2]\n";
        let findings = Findings::new();
        let table = parse(&Source::new("t", text), &findings).unwrap();
        assert_eq!(table.to_toml_string(), text, "{findings}");
    }

    fn table_strategy() -> impl Strategy<Value = Table> {
        let origin = Origin::whole(&Source::argument("test"));
        let at = origin.clone();
        let leaf = prop_oneof![
            any::<String>().prop_map(Data::String),
            any::<i64>().prop_map(Data::Integer),
            any::<f64>().prop_filter("NaN is not equal", |f| !f.is_nan()).prop_map(Data::Float),
            any::<bool>().prop_map(Data::Boolean),
        ]
        .prop_map(move |data| Value { origin: at.clone(), data });
        let to_table = |origin: Origin, map: std::collections::BTreeMap<String, Value>| {
            let mut table = Table::new(origin.clone());
            for (key, value) in map {
                table.push(Entry { key, origin: origin.clone(), value });
            }
            table
        };
        let at = origin.clone();
        let value = leaf.prop_recursive(4, 40, 5, move |inner| {
            let (list_at, table_at) = (at.clone(), at.clone());
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(move |values| Value {
                    origin: list_at.clone(),
                    data: Data::Array(values)
                }),
                prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(move |map| {
                    let data = Data::Table(to_table(table_at.clone(), map));
                    Value { origin: table_at.clone(), data }
                }),
            ]
        });
        prop::collection::btree_map(any::<String>(), value, 0..6)
            .prop_map(move |map| to_table(origin.clone(), map))
    }

    proptest! {
        #[test]
        fn reading_what_was_written_gives_the_same(table in table_strategy()) {
            let text = table.to_toml_string();
            let findings = Findings::new();
            let read = parse(&Source::new("t", text.as_str()), &findings);
            prop_assert_eq!(read.as_ref(), Some(&table), "{}\n{}", text, findings);
            prop_assert_eq!(read.unwrap().to_toml_string(), text);
        }
    }
}

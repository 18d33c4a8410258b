use std::ops::Range;

use candor_diagnostics::{Findings, Origin, Source};
use candor_time::Nanos;

/// A piece of TOML and where it stands. Two values are equal if their data are, wherever they
/// stand.
#[derive(Clone, Debug)]
pub struct Value {
    /// Where it was written.
    pub origin: Origin,
    pub data: Data,
}

/// What a [`Value`] is.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Text.
    String(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A list.
    Array(Vec<Value>),
    /// Keys and values.
    Table(Table),
    /// Something that could not be read. A finding says why; readers pass over it in silence.
    Unreadable,
}

impl Value {
    /// Adds the error that `name` is not `expected`, unless there is a finding already that it is
    /// unreadable.
    pub fn wrong_type(&self, name: &str, expected: &str, findings: &Findings) {
        if self.is_unreadable() {
            return;
        }
        let message = format!("`{name}` is {}, expected {expected}", self.type_name());
        match in_quotes(self.origin.source()) {
            Some(quoted) if expected.starts_with("text") => {
                findings.error_with_hint(&self.origin, message, format!("write {quoted}"));
            }
            _ => findings.error(&self.origin, message),
        }
    }

    /// A duration: text such as `"250us"`. A finding says what is wrong with it.
    #[must_use]
    pub fn nanos(&self, name: &str, findings: &Findings) -> Option<Nanos> {
        let Some(text) = self.as_str() else {
            self.wrong_type(name, "a duration such as \"250us\"", findings);
            return None;
        };
        let wrong = |reason| {
            findings.error(&self.origin, format!("`{name}` is \"{text}\", but {reason}"));
        };
        text.parse().map_err(wrong).ok()
    }

    /// Bytes in hex; spaces and dots between them are free. A finding says what is wrong with them.
    #[must_use]
    pub fn hex_bytes(&self, name: &str, findings: &Findings) -> Option<Vec<u8>> {
        let Some(text) = self.as_str() else {
            self.wrong_type(name, "bytes in hex, such as \"11 22 33\"", findings);
            return None;
        };
        let mut bytes = Vec::new();
        let mut high = None;
        for (at, c) in text.char_indices() {
            let digit = match c.to_digit(16) {
                Some(digit) => digit as u8,
                None if high.is_none() && (c.is_ascii_whitespace() || c == '.') => continue,
                None => {
                    let origin = self.origin_of_part(at..at + c.len_utf8());
                    let message = format!("each byte of `{name}` must be two hex digits");
                    findings.error_with_hint(&origin, message, "such as \"11 22 33\"");
                    return None;
                }
            };
            match high.take() {
                None => high = Some(digit),
                Some(high) => bytes.push(high << 4 | digit),
            }
        }
        if high.is_some() {
            let message = format!("the last byte of `{name}` has one hex digit, expected two");
            findings.error(&self.origin, message);
            return None;
        }
        Some(bytes)
    }

    /// What it is, with an article, for messages.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self.data {
            Data::String(_) => "text",
            Data::Integer(_) => "an integer",
            Data::Float(_) => "a number",
            Data::Boolean(_) => "a boolean",
            Data::Array(_) => "a list",
            Data::Table(_) => "a table",
            Data::Unreadable => "unreadable",
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Data::String(text) = &self.data { Some(text) } else { None }
    }

    /// Where a part of the text stands: bytes counted from its start. The whole value if the text
    /// was written with escapes, so that bytes do not line up.
    #[must_use]
    pub fn origin_of_part(&self, part: Range<usize>) -> Origin {
        let text = self.as_str().unwrap_or("");
        let span = self.origin.span();
        let written = self.origin.source().text().get(span).unwrap_or("");
        match written.find(text) {
            Some(quotes @ (1 | 3)) if !text.is_empty() => {
                self.origin.part(part.start + quotes..part.end + quotes)
            }
            _ => self.origin.clone(),
        }
    }

    /// The integer, if it is one.
    #[must_use]
    pub const fn as_integer(&self) -> Option<i64> {
        if let Data::Integer(number) = self.data { Some(number) } else { None }
    }

    /// The number, whole or not.
    #[must_use]
    pub const fn as_float(&self) -> Option<f64> {
        match self.data {
            Data::Float(number) => Some(number),
            Data::Integer(number) => Some(number as f64),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        if let Data::Boolean(value) = self.data { Some(value) } else { None }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Data::Array(values) = &self.data { Some(values) } else { None }
    }

    /// The tables of a list; for everything else there is a finding.
    #[must_use]
    pub fn tables(&self, name: &str, findings: &Findings) -> Vec<&Table> {
        let Some(values) = self.as_array() else {
            self.wrong_type(name, "a list of tables", findings);
            return Vec::new();
        };
        let tables = values.iter().filter_map(|value| {
            if value.as_table().is_none() {
                value.wrong_type(name, "a table", findings);
            }
            value.as_table()
        });
        tables.collect()
    }

    /// The table, if it is one.
    #[must_use]
    pub const fn as_table(&self) -> Option<&Table> {
        if let Data::Table(table) = &self.data { Some(table) } else { None }
    }

    /// Whether it could not be read, which is already a finding.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self.data, Data::Unreadable)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    /// Where the key was written first.
    pub origin: Origin,
    pub value: Value,
}

/// Keys and values in the order they were written. Two tables are equal if they hold the same,
/// in whatever order.
#[derive(Clone, Debug)]
pub struct Table {
    origin: Origin,
    entries: Vec<Entry>,
}

impl Table {
    /// A table without entries.
    #[must_use]
    pub const fn new(origin: Origin) -> Self {
        Self { origin, entries: Vec::new() }
    }

    /// Where the table begins; the file as a whole for the outermost one.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The entries in the order they were written.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The value under a path such as `["traffic", "kind"]`.
    #[must_use]
    pub fn get_path(&self, path: &[&str]) -> Option<&Value> {
        let (&last, tables) = path.split_last()?;
        tables.iter().try_fold(self, |table, key| table.get(key)?.as_table())?.get(last)
    }

    /// Puts `over` over this table: tables are merged, whatever else `over` holds wins.
    pub fn merge(&mut self, over: Self) {
        for entry in over.entries {
            match self.entries.iter_mut().find(|old| old.key == entry.key) {
                Some(old) => match (&mut old.value.data, entry.value.data) {
                    (Data::Table(old), Data::Table(over)) => old.merge(over),
                    (_, data) => {
                        old.value = Value { origin: entry.value.origin, data };
                        old.origin = entry.origin;
                    }
                },
                None => self.entries.push(entry),
            }
        }
    }

    /// What [`Self::merge`] would replace: the values for which `over` has others.
    #[must_use]
    pub fn replaced_by(&self, over: &Self) -> Self {
        let mut replaced = Self::new(self.origin.clone());
        for entry in &self.entries {
            let Some(other) = over.get(&entry.key) else { continue };
            let mut entry = entry.clone();
            if let (Data::Table(table), Some(other)) = (&mut entry.value.data, other.as_table()) {
                *table = table.replaced_by(other);
                if table.entries.is_empty() {
                    continue;
                }
            }
            replaced.entries.push(entry);
        }
        replaced
    }

    /// Sets the value under a path, making tables on the way; what is no table there is replaced.
    pub fn set_path(&mut self, path: &[&str], value: Value) {
        let Some((last, tables)) = path.split_last() else { return };
        let origin = value.origin.clone();
        let single = |key: &str, value| Self {
            origin: origin.clone(),
            entries: vec![Entry { key: key.into(), origin: origin.clone(), value }],
        };
        let mut over = single(last, value);
        for key in tables.iter().rev() {
            over = single(key, Value { origin: origin.clone(), data: Data::Table(over) });
        }
        self.merge(over);
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at).value)
    }

    /// The entries, taken out.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Adds an entry behind the others; its key must be new.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self.entries.iter().all(|entry| other.get(&entry.key) == Some(&entry.value))
    }
}

/// An argument such as `--set title=7` with its value as text: `--set 'title="7"'`. The shell removes
/// the outer quotes; the inner ones make it text.
fn in_quotes(argument: &Source) -> Option<String> {
    let (option, setting) = argument.name().split_once(' ').filter(|_| argument.is_argument())?;
    let (key, value) = setting.split_once('=')?;
    Some(format!("{option} '{key}=\"{value}\"'"))
}

#[cfg(test)]
mod tests {
    use crate::{Table, parse};
    use candor_diagnostics::{Findings, Source};

    fn table(text: &str) -> Table {
        let findings = Findings::new();
        let table = parse(&Source::new("t", text), &findings).unwrap();
        assert!(findings.is_empty(), "{findings}");
        table
    }

    #[test]
    fn merging_is_deep_and_the_right_wins() {
        for (base, over, merged) in [
            ("a = 1", "b = 2", "a = 1\nb = 2"),
            ("a = 1", "a = 2", "a = 2"),
            ("[t]\na = 1\nb = 1", "[t]\nb = 2\nc = 3", "[t]\na = 1\nb = 2\nc = 3"),
            ("t = 1", "[t]\nb = 2", "[t]\nb = 2"),
            ("[t]\nb = 2", "t = 1", "t = 1"),
            ("a = [1, 2]", "a = [3]", "a = [3]"),
        ] {
            let mut result = table(base);
            result.merge(table(over));
            assert_eq!(result, table(merged), "{base} with {over}");
        }
    }

    #[test]
    fn what_merging_replaces_is_known() {
        for (base, over, replaced) in [
            ("a = 1\nb = 2", "b = 3\nc = 4", "b = 2"),
            ("a = 1", "a = 1", "a = 1"),
            ("[t]\na = 1\nb = 2\n[u]\nc = 3", "[t]\nb = 5\n[u]\nd = 6", "[t]\nb = 2"),
            ("t = 1", "[t]\nb = 2", "t = 1"),
            ("[t]\nb = 2", "t = 1", "[t]\nb = 2"),
            ("[[t]]\nb = 2", "[t]\nb = 3", "[[t]]\nb = 2"),
        ] {
            assert_eq!(table(base).replaced_by(&table(over)), table(replaced), "{base} by {over}");
        }
    }

    #[test]
    fn parts_of_text_have_places() {
        for (text, place) in [
            ("a = \"0x123 y\"", "t:1:12"),
            ("a = '''0x123 y'''", "t:1:14"),
            ("a = \"\\u0030x123 y\"", "t:1:5"),
        ] {
            let table = table(text);
            assert_eq!(table.get("a").unwrap().origin_of_part(6..7).to_string(), place, "{text}");
        }
    }

    #[test]
    fn paths_make_their_tables() {
        let mut base = table("[traffic]\nkind = \"half\"\ncount = 5\n");
        let value = table("x = \"flood\"").remove("x").unwrap();
        base.set_path(&["traffic", "kind"], value.clone());
        base.set_path(&["new", "deep", "key"], value.clone());
        base.set_path(&[], value);
        let expected = "[traffic]\nkind = \"flood\"\ncount = 5\n[new.deep]\nkey = \"flood\"\n";
        assert_eq!(base, table(expected));
        assert_eq!(base.get_path(&["new", "deep", "key"]).unwrap().as_str(), Some("flood"));
        assert_eq!(base.get_path(&["new", "flat", "key"]), None);
    }
}

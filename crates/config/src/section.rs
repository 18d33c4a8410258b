use std::fmt::Display;
use std::ops::RangeInclusive;

use candor_time::Nanos;
use candor_wire::can::Bitrate;

use crate::{Data, Entry, Table, Value};
use candor_diagnostics::{Findings, Origin, did_you_mean, list_of_names, meant_or};

/// Reads one table key by key.
///
/// Each accessor returns `None` if the key is absent *or* its value is wrong; the latter, and
/// absence after [`Section::require`], is a finding. A default is therefore written
/// `section.integer("depth", 1..=64).unwrap_or(16)`: a wrong value still makes the file unusable,
/// because [`Findings::has_errors`]. Finally [`Section::finish`] names the keys nobody asked for.
#[derive(Debug)]
pub struct Section<'a> {
    table: &'a Table,
    findings: &'a Findings,
    /// Every key that was asked for.
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Begins to read `table`.
    #[must_use]
    pub const fn new(table: &'a Table, findings: &'a Findings) -> Self {
        Self { table, findings, known: Vec::new() }
    }

    #[must_use]
    pub const fn table(&self) -> &'a Table {
        self.table
    }

    /// Where the table begins.
    #[must_use]
    pub const fn origin(&self) -> &'a Origin {
        self.table.origin()
    }

    /// Where the value of `key` stands; without one, where the table begins.
    #[must_use]
    pub fn origin_of(&self, key: &str) -> &'a Origin {
        self.table.get(key).map_or(self.table.origin(), |value| &value.origin)
    }

    /// Where findings go.
    #[must_use]
    pub const fn findings(&self) -> &'a Findings {
        self.findings
    }

    /// Each of `keys` that is absent is a finding.
    pub fn require(&mut self, keys: &[&'static str]) {
        for &key in keys {
            if self.value(key).is_none() {
                self.findings.error(self.origin(), format!("`{key}` is missing"));
            }
        }
    }

    /// The value of `key`, whatever it is.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
    }

    /// Whether there is a value of `key`.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// The value of `key` as `read` takes it; a finding if it does not.
    fn typed<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let read = read(value);
        if read.is_none() {
            value.wrong_type(key, expected, self.findings);
        }
        read
    }

    /// A text.
    pub fn string(&mut self, key: &'static str) -> Option<&'a str> {
        self.typed(key, "text in quotes", Value::as_str)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.typed(key, "true or false", Value::as_bool)
    }

    pub fn integer<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let number = self.typed(key, "an integer", Value::as_integer)?;
        let fitting = T::try_from(number).ok().filter(|number| range.contains(number));
        if fitting.is_none() {
            self.out_of_range(key, number, range);
        }
        fitting
    }

    /// A number of a range, whole or not.
    pub fn float(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let number = self.typed(key, "a number", Value::as_float)?;
        if range.contains(&number) {
            return Some(number);
        }
        self.out_of_range(key, number, range);
        None
    }

    fn out_of_range<T: Display>(&self, key: &str, number: impl Display, range: RangeInclusive<T>) {
        let (low, high) = range.into_inner();
        let message = format!("`{key}` is {number}, but must be {low} to {high}");
        self.findings.error(self.origin_of(key), message);
    }

    /// A duration: text such as `"250us"`.
    pub fn nanos(&mut self, key: &'static str) -> Option<Nanos> {
        self.value(key)?.nanos(key, self.findings)
    }

    /// A bit rate: text such as `"500k"`, or a number of bit/s.
    pub fn bitrate(&mut self, key: &'static str) -> Option<Bitrate> {
        let text = self.typed(key, "a bit rate such as \"500k\"", |value| match &value.data {
            Data::String(text) => Some(text.clone()),
            Data::Integer(rate) => Some(rate.to_string()),
            _ => None,
        })?;
        text.parse().map_err(|reason| self.unreadable(key, &text, reason)).ok()
    }

    fn unreadable(&self, key: &str, text: &str, reason: impl Display) {
        self.findings.error(self.origin_of(key), format!("`{key}` is \"{text}\", but {reason}"));
    }

    /// One of several names, each standing for a value.
    pub fn one_of<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.typed(key, "text in quotes", Value::as_str)?;
        let choice = choices.iter().find(|(name, _)| *name == text).map(|&(_, choice)| choice);
        if choice.is_none() {
            let names = || choices.iter().map(|&(name, _)| name);
            let list = list_of_names(names(), "or");
            let meant = did_you_mean(text, names()).map(|name| format!("did you mean `{name}`?"));
            let origin = self.origin_of(key);
            let message = format!("`{key}` is \"{text}\", but must be {list}");
            match meant {
                Some(meant) => self.findings.error_with_hint(origin, message, meant),
                None => self.findings.error(origin, message),
            }
        }
        choice
    }

    /// A text or a list of texts, each with its place; empty if the key is absent.
    pub fn strings(&mut self, key: &'static str) -> Vec<(&'a str, &'a Origin)> {
        self.values(key)
            .into_iter()
            .filter_map(|value| {
                let text = value.as_str();
                if text.is_none() {
                    value.wrong_type(key, "text in quotes", self.findings);
                }
                Some((text?, &value.origin))
            })
            .collect()
    }

    /// A value or the values of a list; empty if the key is absent.
    pub fn values(&mut self, key: &'static str) -> Vec<&'a Value> {
        match self.value(key) {
            Some(Value { data: Data::Array(values), .. }) => values.iter().collect(),
            Some(value) => vec![value],
            None => Vec::new(),
        }
    }

    /// A list without values is a finding: absent keys have a default, and a list that was emptied must
    /// not get it in silence.
    pub fn refuse_empty(&mut self, key: &'static str, hint: impl Into<String>) {
        let is_empty = |value: &&Value| value.as_array().is_some_and(<[_]>::is_empty);
        if let Some(value) = self.value(key).filter(is_empty) {
            self.findings.error_with_hint(&value.origin, format!("`{key}` is empty"), hint);
        }
    }

    /// A table, to be read with a section of its own.
    pub fn section(&mut self, key: &'static str) -> Option<Section<'a>> {
        let table = self.typed(key, "a table", Value::as_table)?;
        Some(Section::new(table, self.findings))
    }

    /// The tables of a list, written `[[key]]`; empty if the key is absent.
    pub fn sections(&mut self, key: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        if value.as_table().is_some() {
            let message = format!("`{key}` is one table, expected a list of tables");
            self.findings.error_with_hint(&value.origin, message, format!("write [[{key}]]"));
            return Vec::new();
        }
        let tables = value.tables(key, self.findings).into_iter();
        tables.map(|table| Section::new(table, self.findings)).collect()
    }

    /// The entries of a table whose keys are names; empty if the key is absent.
    pub fn table_entries(&mut self, key: &'static str) -> &'a [Entry] {
        self.typed(key, "a table", Value::as_table).map_or(&[], Table::entries)
    }

    /// Ends reading: each key that was never asked for is a finding.
    pub fn finish(self) {
        for entry in self.table.entries() {
            let key = entry.key.as_str();
            if self.known.contains(&key) {
                continue;
            }
            if self.findings.is_full() {
                return;
            }
            let known = || self.known.iter().copied();
            let hint = meant_or(key, known(), || match self.known.is_empty() {
                true => "this table has no keys".into(),
                false => format!("the keys are {}", list_of_names(known(), "and")),
            });
            let shown: String = key.chars().take(64).collect();
            self.findings.error_with_hint(&entry.origin, format!("unknown key `{shown}`"), hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use candor_diagnostics::Source;

    /// The findings of reading `text` with `read`, without the excerpts.
    fn findings(text: &str, read: impl FnOnce(&mut Section<'_>)) -> Vec<String> {
        let findings = Findings::new();
        let table = parse(&Source::new("t", text), &findings).unwrap();
        let mut section = Section::new(&table, &findings);
        read(&mut section);
        section.finish();
        let is_reported = |line: &&str| line.starts_with("t:") || line.contains("hint:");
        findings
            .to_string()
            .lines()
            .filter(is_reported)
            .map(|line| line.trim().to_owned())
            .collect()
    }

    #[test]
    fn right_values_are_read() {
        let text = "s = \"a\"\ni = 0x7F\nf = 2\nb = true\nd = \"250us\"\nr = \"500k\"\nr2 = 125000\n\
                    o = \"two\"\nl = [\"x\", \"y\"]\nm = \"z\"\n[t]\nk = 1\n[[a]]\n[[a]]\n";
        let all = findings(text, |s| {
            s.require(&["s", "i"]);
            assert_eq!(s.string("s"), Some("a"));
            assert_eq!(s.integer("i", 0..=127_u8), Some(127));
            assert_eq!(s.float("f", 0.0..=2.5), Some(2.0));
            assert_eq!(s.boolean("b"), Some(true));
            assert_eq!(s.nanos("d"), Some(Nanos::from_micros(250)));
            assert_eq!(s.bitrate("r"), Bitrate::new(500_000));
            assert_eq!(s.bitrate("r2"), Bitrate::new(125_000));
            assert_eq!(s.one_of("o", &[("one", 1), ("two", 2)]), Some(2));
            assert_eq!(s.strings("l").iter().map(|(text, _)| *text).collect::<String>(), "xy");
            assert_eq!(s.strings("m").len(), 1);
            assert_eq!(s.section("t").unwrap().integer("k", 0..=9_i64), Some(1));
            assert_eq!(s.sections("a").len(), 2);
            assert_eq!(s.table_entries("t").len(), 1);
            assert_eq!(s.string("absent"), None);
            assert!(!s.has("absent") && s.values("absent").is_empty());
        });
        assert_eq!(all, [""; 0]);
    }

    #[test]
    fn only_empty_lists_are_refused() {
        let all = findings("a = []\nb = [1]\nc = \"\"\nd = {}\n", |s| {
            for key in ["a", "b", "c", "d", "absent"] {
                s.refuse_empty(key, "fill it");
            }
        });
        assert_eq!(all, ["t:1:5: error: `a` is empty", "hint: fill it"]);
    }

    type Read = fn(&mut Section<'_>);

    #[test]
    fn wrong_values_are_reported() {
        let table: &[(&str, Read, &[&str])] = &[
            ("", |s| s.require(&["k"]), &["t:1:1: error: `k` is missing"]),
            (
                "k = 1",
                |s| _ = s.string("k"),
                &["t:1:5: error: `k` is an integer, expected text in quotes"],
            ),
            (
                "k = -1",
                |s| _ = s.integer("k", 0..=u64::MAX),
                &["t:1:5: error: `k` is -1, but must be 0 to 18446744073709551615"],
            ),
            (
                "k = 7",
                |s| _ = s.integer("k", 1..=6_u8),
                &["t:1:5: error: `k` is 7, but must be 1 to 6"],
            ),
            (
                "k = nan",
                |s| _ = s.float("k", 0.0..=1.0),
                &["t:1:5: error: `k` is NaN, but must be 0 to 1"],
            ),
            (
                "k = \"1\"",
                |s| _ = s.boolean("k"),
                &["t:1:5: error: `k` is text, expected true or false"],
            ),
            (
                "k = \"12\"",
                |s| _ = s.nanos("k"),
                &["t:1:5: error: `k` is \"12\", but the unit of a duration is ns, us, ms, s, min \
                   or h"],
            ),
            (
                "k = 0",
                |s| _ = s.bitrate("k"),
                &[
                    "t:1:5: error: `k` is \"0\", but expected a bit rate in bit/s from 1 to 20M, such as 125k or 1M",
                ],
            ),
            (
                "k = \"clasical\"",
                |s| _ = s.one_of("k", &[("classical", 1), ("fd", 2)]),
                &[
                    "t:1:5: error: `k` is \"clasical\", but must be `classical` or `fd`",
                    "hint: did you mean `classical`?",
                ],
            ),
            (
                "k = [\"a\", 1]",
                |s| _ = s.strings("k"),
                &["t:1:11: error: `k` is an integer, expected text in quotes"],
            ),
            (
                "k = 1",
                |s| _ = s.section("k"),
                &["t:1:5: error: `k` is an integer, expected a table"],
            ),
            (
                "[k]",
                |s| _ = s.sections("k"),
                &["t:1:1: error: `k` is one table, expected a list of tables", "hint: write [[k]]"],
            ),
            (
                "k = [1]",
                |s| _ = s.sections("k"),
                &["t:1:6: error: `k` is an integer, expected a table"],
            ),
            (
                "fron = 1\nother = 2",
                |s| _ = (s.has("from"), s.has("to")),
                &[
                    "t:1:1: error: unknown key `fron`",
                    "hint: did you mean `from`?",
                    "t:2:1: error: unknown key `other`",
                    "hint: the keys are `from` and `to`",
                ],
            ),
            // What the reader of TOML refused is reported once.
            (
                "k = 2024-01-01",
                |s| _ = s.string("k"),
                &["t:1:5: error: a date or time is not possible here"],
            ),
        ];
        for (text, read, expected) in table {
            assert_eq!(&findings(text, read), expected, "{text}");
        }
    }
}

//! [`Page`]: metrics for Prometheus, in its text format 0.0.4 ("Exposition formats" of its documentation).

use std::fmt::{Display, Write};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric of things of a kind: name, what it means, value.
pub type Metric<T> = (&'static str, &'static str, fn(&T) -> u64);

/// A time as Prometheus has it.
#[must_use]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A page of metrics as it is written. Writing to a string does not fail.
#[derive(Debug, Default)]
pub struct Page {
    out: String,
}

impl Page {
    /// The head of a counter, whose name ends in `_total`, or of a gauge.
    pub fn head(&mut self, name: &str, help: &str) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        self.head_of(kind, name, help);
    }

    /// The head of a metric of this kind.
    pub fn head_of(&mut self, kind: &str, name: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A counter or a gauge without labels.
    pub fn only(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help);
        self.line(name, &[], value);
    }

    /// A value of the metric whose head stands before it.
    pub fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.out.push(if index == 0 { '{' } else { ',' });
            self.out.push_str(label);
            self.out.push_str("=\"");
            escape(&mut self.out, value);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// Metrics of several things of a kind: name behind the prefix, what it means, value. Each thing has labels.
    pub fn of_each<'a, T>(
        &mut self,
        prefix: &str,
        metrics: &[Metric<T>],
        things: &'a [T],
        labels: impl Fn(&'a T) -> [(&'static str, &'a str); 2],
    ) {
        for (name, help, value) in metrics {
            let name = format!("{prefix}{name}");
            self.head(&name, help);
            for thing in things {
                self.line(&name, &labels(thing), value(thing));
            }
        }
    }

    /// The whole page.
    #[must_use]
    pub fn into_text(self) -> String {
        self.out
    }
}

fn escape(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// The metrics of a page as rows of a table in Markdown: name, kind, labels, what it tells. For tests of documents.
///
/// A metric without a value has no row, since its labels are not known.
#[must_use]
pub fn rows(page: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut help = "";
    let mut kind = None;
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some(text) = line.strip_prefix("# TYPE ") {
            kind = text.split_once(' ');
        } else if let Some((name, kind)) = kind.take() {
            let labels = labels(line.strip_prefix(name).unwrap_or_default());
            rows.push(format!("| `{name}` | {kind} | {} | {help} |", labels.join(", ")));
        }
    }
    rows
}

/// That the table in the section of a manual has the metrics of a page, all of them and no others. For tests.
///
/// # Panics
/// It differs; the message has the table as it should be.
pub fn assert_listed(manual: &str, section: &str, page: &str) {
    let rest = manual.split_once(&format!("\n## {section}\n")).map_or("", |(_, rest)| rest);
    let section = rest.split("\n## ").next().unwrap_or_default();
    let listed: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let rows = rows(page);
    assert!(listed == rows, "the table should be:\n{}", rows.join("\n"));
}

/// The labels of a value, behind its name.
fn labels(text: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut rest = text.strip_prefix('{').unwrap_or_default();
    while let Some((label, value)) = rest.split_once("=\"") {
        labels.push(format!("`{}`", label.trim_start_matches(',')));
        let mut is_escaped = false;
        let end = value.find(|character| {
            let is_end = character == '"' && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            is_end
        });
        rest = end.and_then(|end| value.get(end + 1..)).unwrap_or_default();
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.head("m", "What it tells.");
        page.line("m", &[("rule", "a \"b\" \\ c\nd ü {},="), ("to", "")], 1);
        let text = page.into_text();
        let line = "m{rule=\"a \\\"b\\\" \\\\ c\\nd ü {},=\",to=\"\"} 1\n";
        assert!(text.ends_with(line), "{text}");
        assert_eq!(rows(&text), ["| `m` | gauge | `rule`, `to` | What it tells. |"]);
    }
}

//! TOML text to a [`Table`]. The `toml` crate reads; this module bounds what it is given, gives
//! every value its place, and turns its errors into findings.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_parser::lexer::TokenKind;

use crate::{Data, Entry, Table, Value};
use candor_diagnostics::{Finding, Findings, Origin, Severity, Source};

/// The longest file that is read: 4 MiB, some ten thousand rules.
pub const MAX_BYTES: usize = 4 << 20;
/// How deep tables and lists may lie in one another.
pub const MAX_DEPTH: usize = 32;
/// Up to this size all syntax errors are reported, above it the first.
const MAX_BYTES_RECOVERED: usize = 256 << 10;

/// Reads TOML. Values that cannot be read become findings and [`Data::Unreadable`]; `None` if the
/// text as a whole makes no sense, so that further findings would mislead.
#[must_use]
pub fn parse(source: &Arc<Source>, findings: &Findings) -> Option<Table> {
    let text = source.text();
    if text.len() > MAX_BYTES {
        let message =
            format!("the file has {} bytes, but at most {MAX_BYTES} are read", text.len());
        findings.error(&Origin::whole(source), message);
        return None;
    }
    if let Some(span) = too_deep(text) {
        report_depth(&Origin::new(source, span), findings);
        return None;
    }
    let (table, errors) = if text.len() <= MAX_BYTES_RECOVERED {
        DeTable::parse_recoverable(text)
    } else {
        match DeTable::parse(text) {
            Ok(table) => (table, Vec::new()),
            Err(error) => (Spanned::new(0..0, DeTable::new()), vec![error]),
        }
    };
    let mut errors: Vec<_> = errors
        .iter()
        .map(|error| Syntax {
            span: error.span().unwrap_or(0..0),
            message: error.message(),
            in_value: false,
        })
        .collect();
    errors.sort_by_key(|error| error.span.start);
    let in_values = Findings::new();
    let mut reader = Reader { source, findings: &in_values, errors };
    let table = reader.table(Origin::whole(source), table.into_inner(), 0);
    let errors = reader.errors;
    // Errors outside of values leave open what belongs where; then nothing but they is certain.
    let is_sound = errors.iter().all(|error| error.in_value || error.is_duplicate());
    if is_sound {
        in_values.into_iter().for_each(|finding| findings.push(finding));
    }
    let mut reported_line = 0;
    for error in errors.iter().filter(|error| !(is_sound && error.in_value)) {
        let (line, _) = Origin::new(source, error.span.clone()).line_column();
        if reported_line != line {
            findings.push(error.finding(source));
            reported_line = line;
        }
    }
    is_sound.then_some(table)
}

/// The place where brackets, or the parts of a dotted key, go deeper than any sane file does.
///
/// The reader recurses, and 13 kB of nested dotted keys are enough to exhaust its stack.
fn too_deep(text: &str) -> Option<Range<usize>> {
    let (mut brackets, mut dots) = (0_usize, 0_usize);
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => {
                (brackets, dots) = (brackets + 1, 0);
            }
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                (brackets, dots) = (brackets.saturating_sub(1), 0);
            }
            TokenKind::Dot => dots += 1,
            TokenKind::Newline | TokenKind::Comma | TokenKind::Equals => dots = 0,
            _ => {}
        }
        if brackets > MAX_DEPTH || dots > MAX_DEPTH {
            return Some(token.span().start()..token.span().end());
        }
    }
    None
}

fn report_depth(origin: &Origin, findings: &Findings) {
    findings.error(origin, format!("more than {MAX_DEPTH} levels of tables and lists"));
}

/// An error of the `toml` crate.
struct Syntax<'e> {
    span: Range<usize>,
    message: &'e str,
    /// Whether it lies in a value, which is then unreadable but does no further harm.
    in_value: bool,
}

impl Syntax<'_> {
    /// A key that was already set does no harm either: the first one counts.
    fn is_duplicate(&self) -> bool {
        self.message == "duplicate key"
    }

    fn finding(&self, source: &Arc<Source>) -> Finding {
        let (message, hint) = if self.is_duplicate() {
            let key = source.text().get(self.span.clone()).unwrap_or("");
            let remedy = "write the key once; for a list of tables, use [[ ]]";
            (format!("`{key}` is written twice"), Some(remedy.into()))
        } else {
            (self.message.into(), None)
        };
        let origin = Origin::new(source, self.span.clone());
        Finding { severity: Severity::Error, origin, message, hint }
    }
}

struct Reader<'a, 'e> {
    source: &'a Arc<Source>,
    findings: &'a Findings,
    /// By position.
    errors: Vec<Syntax<'e>>,
}

impl Reader<'_, '_> {
    fn origin(&self, span: Range<usize>) -> Origin {
        Origin::new(self.source, span)
    }

    fn table(&mut self, origin: Origin, table: DeTable<'_>, depth: usize) -> Table {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut table = Table::new(origin);
        for (key, value) in entries {
            let origin = self.origin(key.span());
            let value = self.value(value, depth + 1);
            table.push(Entry { key: key.into_inner().into_owned(), origin, value });
        }
        table
    }

    fn value(&mut self, value: Spanned<DeValue<'_>>, depth: usize) -> Value {
        let span = value.span();
        let origin = self.origin(span.clone());
        if depth > MAX_DEPTH {
            report_depth(&origin, self.findings);
            return Value { origin, data: Data::Unreadable };
        }
        let data = match value.into_inner() {
            DeValue::Table(table) => Data::Table(self.table(origin.clone(), table, depth)),
            DeValue::Array(values) => {
                Data::Array(values.into_iter().map(|value| self.value(value, depth + 1)).collect())
            }
            _ if self.claim_error(&span) => Data::Unreadable,
            DeValue::String(text) => Data::String(text.into_owned()),
            DeValue::Boolean(value) => Data::Boolean(value),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Data::Integer(number),
                    Err(_) => {
                        let (least, most) = (i64::MIN, i64::MAX);
                        let message = format!("the integer is not from {least} to {most}");
                        self.unreadable(&origin, &message)
                    }
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Data::Float(number),
                Err(_) => self.unreadable(&origin, "the number cannot be read"),
            },
            DeValue::Datetime(_) => self.unreadable(&origin, "a date or time is not possible here"),
        };
        Value { origin, data }
    }

    fn unreadable(&self, origin: &Origin, message: &str) -> Data {
        self.findings.error(origin, message);
        Data::Unreadable
    }

    /// Whether a syntax error lies in the value at `span`; if so, it becomes a finding.
    fn claim_error(&mut self, span: &Range<usize>) -> bool {
        let first = self.errors.partition_point(|error| error.span.start < span.start);
        let mut message = None;
        for error in self.errors.iter_mut().skip(first) {
            if error.span.start > span.end {
                break;
            }
            // Something that is missing *before* the value is not the value's error.
            let is_before = error.span == (span.start..span.start) && !span.is_empty();
            if !is_before {
                error.in_value = true;
                message.get_or_insert(error.message);
            }
        }
        let Some(message) = message else { return false };
        let origin = self.origin(span.clone());
        let raw = self.source.text().get(span.clone()).unwrap_or("");
        if raw.is_empty() {
            self.findings.error(&origin, "the value is missing");
        } else if raw.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/') {
            let hint = format!("if it is text, write \"{}\"", raw.escape_debug());
            self.findings.error_with_hint(&origin, format!("not a value: {message}"), hint);
        } else {
            self.findings.error(&origin, format!("not a value: {message}"));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Table>, String) {
        let findings = Findings::new();
        let table = parse(&Source::new("t", text), &findings);
        (table, findings.to_string())
    }

    #[test]
    fn values_know_their_places() {
        let (table, findings) = read(
            "\u{feff}max = 0x10\n[bus]\nx.y = 2.5\nx.z = [true, \"é\"]\n[[rule]]\n[[rule]]\nn = -1\n",
        );
        assert_eq!(findings, "");
        let table = table.unwrap();
        let place = |path: &[&str]| table.get_path(path).unwrap().origin.to_string();
        assert_eq!(table.get("max").unwrap().as_integer(), Some(16));
        for (path, shown) in [
            (&["bus"][..], "t:2:1"),
            (&["bus", "x", "y"], "t:3:7"),
            (&["bus", "x", "z"], "t:4:7"),
            (&["rule"], "t:5:1"),
        ] {
            assert_eq!(place(path), shown);
        }
        let rules = table.get("rule").unwrap().as_array().unwrap();
        assert_eq!(rules[1].origin.to_string(), "t:6:1");
        let keys: Vec<_> = table.entries().iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["max", "bus", "rule"], "the order of writing");
    }

    #[test]
    fn one_bad_value_does_not_hide_the_others() {
        let (table, findings) = read(
            "a = 500k\nb =\nc = 1\nc = 2\nd = 2024-01-01\ne = 99999999999999999999\nf = 0x1G\n\
             g = \"open\nh = 7\n",
        );
        let table = table.unwrap();
        assert_eq!(table.get("h").unwrap().as_integer(), Some(7));
        assert!(table.get("a").unwrap().is_unreadable());
        let heads: Vec<_> = findings.lines().filter(|line| line.starts_with("t:")).collect();
        assert_eq!(
            heads,
            [
                "t:1:5: error: not a value: string values must be quoted, expected literal string",
                "t:2:4: error: the value is missing",
                "t:4:1: error: `c` is written twice",
                "t:5:5: error: a date or time is not possible here",
                "t:6:5: error: the integer is not from -9223372036854775808 to 9223372036854775807",
                "t:7:5: error: not a value: invalid hexadecimal number",
                "t:8:5: error: not a value: invalid basic string, expected `\"`",
            ]
        );
        assert!(findings.contains("hint: if it is text, write \"500k\""), "{findings}");
    }

    #[test]
    fn text_that_makes_no_sense_is_reported_once_per_line() {
        for (text, head) in [
            ("from \"x\"", "t:1:6: error: key with no value, expected `=`"),
            ("a = [1\nb = 2\n", "t:2:1: error: missing comma between array elements, expected `,`"),
            ("[x\na = 1", "t:1:3: error: unclosed table, expected `]`"),
        ] {
            let (table, findings) = read(text);
            assert!(table.is_none(), "{text}");
            assert_eq!(findings.lines().next(), Some(head), "{text}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let dotted = vec!["a"; 79].join(".");
        for (text, place) in [
            (format!("{dotted} = 1"), "t:1:66"),
            (format!("{}1", format!("{dotted} = {{").repeat(79)), "t:1:66"),
            ("a = ".to_owned() + &"[".repeat(100_000), "t:1:37"),
            (format!("a = {}1{}", "{b=".repeat(40), "}".repeat(40)), "t:1:101"),
        ] {
            let (table, findings) = read(&text);
            assert!(table.is_none());
            let message = format!("{place}: error: more than 32 levels of tables and lists");
            assert_eq!(findings.lines().next(), Some(message.as_str()));
        }
        // Each kind of depth is within its bound, their sum is not.
        let (table, findings) =
            read(&format!("{} = {}1{}", vec!["a"; 20].join("."), "[".repeat(20), "]".repeat(20)));
        assert!(table.is_some());
        assert!(findings.starts_with("t:1:56: error: more than 32 levels"), "{findings}");

        let (table, findings) = read(&"#".repeat(MAX_BYTES + 1));
        assert!(table.is_none());
        assert!(findings.contains("at most 4194304 are read"));
    }
}

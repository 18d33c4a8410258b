//! One statement: what it says is taken, and what cannot be read is a finding.

use candor_diagnostics::Origin;

use super::cut::Statement;
use super::grammar::{self, Part};
use super::reader::Reader;
use super::token::{ReadingStop, Tokens};

/// The longest statement, in bytes; a message with its signals is one.
pub(super) const MAX_STATEMENT: usize = 1 << 20;

/// Statements that say nothing about messages.
const UNREAD: [&str; 11] = [
    "CAT_DEF_",
    "CAT_",
    "FILTER",
    "EV_DATA_",
    "SGTYPE_",
    "SGTYPE_VAL_",
    "BA_DEF_SGTYPE_",
    "BA_SGTYPE_",
    "SIG_TYPE_REF_",
    "SIGTYPE_VALTYPE_",
    "SIG_GROUP_",
];

impl<'a> Reader<'a> {
    /// Reads a statement; `false` if the file cannot be used.
    pub(super) fn read(&mut self, statement: &Statement<'a>) -> bool {
        if UNREAD.contains(&statement.keyword()) {
            return true;
        }
        if statement.text.len() > MAX_STATEMENT {
            self.findings.error_with_hint(
                &Origin::new(self.source, statement.at..statement.at + 1),
                format!("this statement has more than {MAX_STATEMENT} bytes"),
                "check for a missing quotation mark",
            );
            return false;
        }
        let mut tokens = Tokens::new(statement.text, statement.at);
        while let Some(part) = grammar::next(&mut tokens) {
            let is_usable = match part {
                Ok(part) => self.part(part),
                Err(stop) => {
                    self.refuse(&stop);
                    false
                }
            };
            if !is_usable {
                return false;
            }
        }
        true
    }

    /// Adds the finding that a statement cannot be read on from some place.
    fn refuse(&self, stop: &ReadingStop) {
        let expected = match stop.expected {
            [one] => format!(", but `{one}` can"),
            [one, other] => format!(", but `{one}` or `{other}` can"),
            _ => String::new(),
        };
        let start = stop.at;
        let text = self.source.text();
        let rest = text.get(start..).unwrap_or("");
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let found = match rest.chars().next() {
            None => "the end of the file".to_owned(),
            Some('\r' | '\n') => "the end of the line".to_owned(),
            Some(_) => format!("`{}`", rest.chars().take(length.clamp(1, 40)).collect::<String>()),
        };
        self.findings.error_with_hint(
            &Origin::new(self.source, start..start + length.max(1)),
            format!("this is not a DBC file: {found} cannot be here{expected}"),
            "correct it, or save the file again with a DBC editor",
        );
    }

    /// Takes what a statement says; `false` if the file cannot be used.
    fn part(&mut self, part: Part<'a>) -> bool {
        match part {
            Part::Message(part) => return self.message(part).is_some(),
            Part::Definition { attribute, names } => self.definition(attribute, &names),
            Part::Default { attribute, value } => self.default(attribute, value),
            Part::Attribute { attribute, of, value } => self.attribute(attribute, &of, value),
            Part::ValueNames { message, signal, names } => {
                self.value_names(message, signal, &names);
            }
            Part::ValueType { at, message, signal, value_type } => {
                self.value_type(at, message, signal, value_type);
            }
            Part::Selection { message, signal, selector, ranges } => {
                self.selection(message, signal, selector, &ranges);
            }
            Part::Other => {} // comments, nodes, tables of names that signals repeat
        }
        true
    }
}

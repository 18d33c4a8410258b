//! The text of a file, cut into statements.

use std::borrow::Cow;

/// A statement and where it begins.
pub(super) struct Statement<'a> {
    /// The offset in the file, in bytes.
    pub(super) at: usize,
    /// The statement; what stands behind its last line is cut off.
    pub(super) text: &'a str,
}

impl<'a> Statement<'a> {
    /// The word that it begins with.
    pub(super) fn keyword(&self) -> &'a str {
        let is_other = |c: char| c != '_' && !c.is_ascii_alphanumeric();
        self.text.split(is_other).next().unwrap_or("")
    }
}

/// Cuts a file into statements, so that what is needed to read one is bounded. A statement begins with
/// a word at the beginning of a line. Signals belong to their message, and lines within quotation
/// marks to their text.
pub(super) fn statements(text: &str) -> Vec<Statement<'_>> {
    let bytes = text.as_bytes();
    let mut starts = Vec::new();
    let mut at = 0;
    let mut begins_line = true;
    while let Some(&byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        if begins_line && byte.is_ascii_alphabetic() && !is_signal(rest) {
            starts.push(at);
        }
        begins_line = byte == b'\n';
        at += match byte {
            b'"' => {
                let mut end = 1;
                while rest.get(end).is_some_and(|&byte| byte != b'"') {
                    end += if rest.get(end..).is_some_and(|it| it.starts_with(b"\\\"")) {
                        2
                    } else {
                        1
                    };
                }
                end + 1
            }
            b'/' if rest.starts_with(b"//") => {
                rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
            }
            _ => 1,
        };
    }
    // What stands before the first one belongs to none, but is looked at.
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .filter_map(|(&start, end)| {
            let whole = text.get(start..end)?;
            let indent = whole.len() - whole.trim_start_matches(['\r', '\n']).len();
            // Some statements end with their line, but empty lines after it take time.
            let lines = whole.trim_end();
            let last =
                whole.get(lines.len()..)?.find('\n').map_or(whole.len(), |at| lines.len() + at + 1);
            let text = whole.get(indent..last).filter(|text| !text.is_empty())?;
            Some(Statement { at: start + indent, text })
        })
        .collect()
}

/// Whether a line begins with `SG_` as a word.
fn is_signal(line: &[u8]) -> bool {
    line.strip_prefix(b"SG_")
        .and_then(<[u8]>::first)
        .is_some_and(|&byte| byte != b'_' && !byte.is_ascii_alphanumeric())
}

/// The text of a file. Editors write UTF-8 or the code page 1252 of Windows; what is no UTF-8 is the
/// latter.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // The characters of 0x80 to 0x9F; those without one keep their number.
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8D}', 'Ž',
        '\u{8F}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9D}',
        'ž', 'Ÿ',
    ];
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes
            .iter()
            .map(|&byte| match byte {
                0x80..=0x9F => HIGH.get(usize::from(byte - 0x80)).copied().unwrap_or('\u{FFFD}'),
                _ => char::from(byte),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use candor_diagnostics::Findings;
    use proptest::prelude::*;

    use super::*;
    use crate::Database;
    use crate::dbc::grammar;
    use crate::dbc::token::Tokens;

    #[test]
    fn both_encodings_of_files_are_read() {
        let text = "BO_ 1 A: 8 X\n SG_ S : 0|8@1+ (1,0) [0|0] \"°€\" B\n";
        let windows: Vec<u8> = text
            .chars()
            .map(|c| match c {
                '°' => 0xB0,
                '€' => 0x80,
                c => c as u8,
            })
            .collect();
        let with_mark = format!("\u{FEFF}{text}");
        for bytes in [text.as_bytes(), &windows, with_mark.as_bytes()] {
            let database = Database::parse("t.dbc", bytes, &Findings::new()).unwrap();
            assert_eq!(database.messages()[0].signals[0].unit, "°€");
        }
    }

    #[test]
    fn quotation_marks_and_remarks_hide_what_is_in_them() {
        for (text, expected) in [
            ("A\nB\n", &["A\n", "B\n"][..]),
            // A text goes on over lines; a quotation mark in it has a backslash.
            ("A \"\nB\"\nC", &["A \"\nB\"\n", "C"]),
            ("A \"\\\"\nB\"\nC", &["A \"\\\"\nB\"\n", "C"]),
            // A remark ends with its line, whatever is in it; one slash is no remark.
            ("A // \"\nB \" \nC\"", &["A // \"\n", "B \" \nC\""]),
            ("A / \"\nB\"\nC", &["A / \"\nB\"\n", "C"]),
            ("A //", &["A //"]),
            // Signals belong to their message, and what is indented to what it is under.
            ("A\nSG_ S\n SG_ T\n B\nSG_X\n", &["A\nSG_ S\n SG_ T\n B\n", "SG_X\n"]),
            ("\n\r\nA\n\n\nB", &["A\n", "B"]),
            (" 1\nA", &[" 1\n", "A"]),
        ] {
            let cut = statements(text);
            assert_eq!(cut.iter().map(|it| it.text).collect::<Vec<_>>(), expected, "{text:?}");
            for statement in cut {
                assert_eq!(text.get(statement.at..).unwrap().find(statement.text), Some(0));
            }
        }
    }

    proptest! {
        /// Statement by statement means what the whole file means.
        #[test]
        fn files_are_cut_between_statements(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("BO_ 1 A: 8 X\n"),
                    Just(" SG_ S : 0|8@1+ (1,0) [0|0] \"\" B\n"),
                    Just("SG_ T : 0|8@1+ (1,0) [0|0] \"\" B\r\n"),
                    Just("CM_ \"a\nBO_ 2 B: 8 X\n\";\n"),
                    Just("CM_ \"\\\"\nVAL_ \\\"\";"),
                    Just("// \"\n"),
                    Just("\r\n\n"),
                    Just("VAL_ 1 S 0 \"x\" ;\n"),
                    Just("  VAL_ 1 S 0 \"//\" ;"),
                ],
                0..12,
            ),
        ) {
            let text = parts.concat();
            let kinds = |text: &str, start| {
                let mut tokens = Tokens::new(text, start);
                let parts = std::iter::from_fn(|| grammar::next(&mut tokens));
                parts.map(|part| Some(format!("{:?}", part.ok()?))).collect::<Option<Vec<_>>>()
            };
            let mut by_statement = Some(Vec::new());
            for statement in statements(&text) {
                prop_assert_eq!(&text[statement.at..][..statement.text.len()], statement.text);
                let more = kinds(statement.text, statement.at);
                by_statement = by_statement.zip(more).map(|(all, more)| [all, more].concat());
            }
            // Some ends of lines are cut; where the grammar needs them, it would not.
            let whole = kinds(&text, 0);
            if whole.is_some() {
                prop_assert_eq!(by_statement, whole);
            }
        }
    }
}

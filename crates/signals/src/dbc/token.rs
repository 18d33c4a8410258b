//! The words, numbers and texts of a statement, one after the other.

use std::borrow::Cow;

/// A piece of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token<'a> {
    /// Where it begins in the file, in bytes; for a text in quotation marks, behind the first one.
    pub(super) at: usize,
    /// As written, without quotation marks around it.
    pub(super) text: &'a str,
    pub(super) is_quoted: bool,
}

impl<'a> Token<'a> {
    /// The text with `\"` read as a quotation mark.
    pub(super) fn unescaped(&self) -> Cow<'a, str> {
        match self.text.contains("\\\"") {
            true => self.text.replace("\\\"", "\"").into(),
            false => self.text.into(),
        }
    }

    /// The end of it in the file.
    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// Where reading stopped, and the marks that could stand there.
#[derive(Debug, PartialEq)]
pub(super) struct ReadingStop {
    pub(super) at: usize,
    pub(super) expected: &'static [&'static str],
}

/// Reads the tokens of a statement. Blanks and remarks (`// ...`) between them are skipped; ends of
/// lines only where they mean nothing.
#[derive(Clone)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// What is not read yet begins here, in `text`.
    next: usize,
    /// Where `text` begins in the file.
    start: usize,
    /// Whether the end of a line is a blank.
    lines_are_blanks: bool,
}

impl<'a> Tokens<'a> {
    /// The tokens of `text`, which begins at `start` of the file.
    pub(super) fn new(text: &'a str, start: usize) -> Self {
        Self { text, next: 0, start, lines_are_blanks: false }
    }

    /// From here on the end of a line is a blank, or is not.
    pub(super) fn lines_are_blanks(&mut self, are_they: bool) {
        self.lines_are_blanks = are_they;
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.next..).unwrap_or("")
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let is_blank =
                |c| matches!(c, ' ' | '\t') || self.lines_are_blanks && "\r\n".contains(c);
            let blanks = rest.len() - rest.trim_start_matches(is_blank).len();
            let remark = rest.get(blanks..).filter(|rest| rest.starts_with("//"));
            let remark = remark.map_or(0, |rest| rest.find(['\r', '\n']).unwrap_or(rest.len()));
            self.next += blanks + remark;
            if remark == 0 {
                return;
            }
        }
    }

    /// Skips blanks, remarks and ends of lines; what comes next, without reading it.
    pub(super) fn skip_lines(&mut self) -> Option<char> {
        let before = std::mem::replace(&mut self.lines_are_blanks, true);
        self.skip_blanks();
        self.lines_are_blanks = before;
        self.rest().chars().next()
    }

    /// The character that comes next, without reading it.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.rest().chars().next()
    }

    pub(super) fn stop<T>(&self, expected: &'static [&'static str]) -> Result<T, ReadingStop> {
        Err(ReadingStop { at: self.start + self.next, expected })
    }

    fn take(&mut self, length: usize) -> Token<'a> {
        let text = self.rest().get(..length).unwrap_or("");
        let at = self.start + self.next;
        self.next += text.len();
        Token { at, text, is_quoted: false }
    }

    /// As many characters as fit, at least one.
    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> Result<Token<'a>, ReadingStop> {
        self.skip_blanks();
        let rest = self.rest();
        match rest.len() - rest.trim_start_matches(fits).len() {
            0 => self.stop(&[]),
            length => Ok(self.take(length)),
        }
    }

    /// A keyword or a name: letters, digits and `_`.
    pub(super) fn word(&mut self) -> Result<Token<'a>, ReadingStop> {
        self.take_while(|c| c == '_' || c.is_ascii_alphanumeric())
    }

    pub(super) fn digits(&mut self) -> Result<Token<'a>, ReadingStop> {
        self.take_while(|c| c.is_ascii_digit())
    }

    /// Digits, perhaps with a sign before them.
    pub(super) fn integer(&mut self) -> Result<Token<'a>, ReadingStop> {
        let number = self.number()?;
        if number.text.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(number);
        }
        self.next -= number.text.len();
        self.stop(&[])
    }

    /// A number such as `-0.25` or `1E3`.
    pub(super) fn number(&mut self) -> Result<Token<'a>, ReadingStop> {
        self.skip_blanks();
        let bytes = self.rest().as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let sign = |at: usize| at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        let whole = digits(sign(0));
        let mut end = match bytes.get(whole) {
            Some(b'.') => digits(whole + 1),
            _ => whole,
        };
        if let Some(b'e' | b'E') = bytes.get(end) {
            let exponent = sign(end + 1);
            let exponent_end = digits(exponent);
            end = if exponent_end > exponent { exponent_end } else { end };
        }
        match self.rest().get(..end).and_then(|text| text.parse::<f64>().ok()) {
            Some(_) => Ok(self.take(end)),
            None => self.stop(&[]),
        }
    }

    /// A text in quotation marks, in which `\"` is one of its characters. It may have several lines.
    pub(super) fn quoted(&mut self) -> Result<Token<'a>, ReadingStop> {
        self.mark("\"", &["\""])?;
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let mut end = 0;
        while let Some(&byte) = bytes.get(end) {
            if byte == b'"' {
                let text = self.take(end);
                self.next += 1;
                return Ok(Token { is_quoted: true, ..text });
            }
            end += if byte == b'\\' && bytes.get(end + 1) == Some(&b'"') { 2 } else { 1 };
        }
        self.next = self.text.len();
        self.stop(&["\""])
    }

    /// A number, or a text in quotation marks.
    pub(super) fn value(&mut self) -> Result<Token<'a>, ReadingStop> {
        match self.peek() {
            Some('"') => self.quoted(),
            _ => self.number(),
        }
    }

    /// Reads a mark if it comes next.
    pub(super) fn has(&mut self, mark: &str) -> bool {
        self.skip_blanks();
        let is_next = self.rest().starts_with(mark);
        if is_next {
            self.next += mark.len();
        }
        is_next
    }

    /// Reads a mark that must come next; `expected` are all that could.
    pub(super) fn mark(
        &mut self,
        mark: &str,
        expected: &'static [&'static str],
    ) -> Result<(), ReadingStop> {
        if self.has(mark) { Ok(()) } else { self.stop(expected) }
    }

    /// Reads past the semicolon that ends a statement, whatever is before it.
    pub(super) fn skip_to_semicolon(&mut self) -> Result<(), ReadingStop> {
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.quoted()?;
                }
                ';' => {
                    self.next += 1;
                    return Ok(());
                }
                other => self.next += other.len_utf8(),
            }
        }
        self.stop(&[";"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(
        read: impl Fn(&mut Tokens<'a>) -> Result<Token<'a>, ReadingStop>,
        text: &'a str,
    ) -> String {
        let mut tokens = Tokens::new(text, 0);
        match read(&mut tokens) {
            Ok(token) => format!("{}|{}", token.text, tokens.rest()),
            Err(stop) => format!("stop at {}", stop.at),
        }
    }

    #[test]
    fn tokens_end_where_they_should() {
        for (text, word, integer, number, value) in [
            ("  Speed: 1", "Speed|: 1", "stop at 2", "stop at 2", "stop at 2"),
            ("12ab", "12ab|", "12|ab", "12|ab", "12|ab"),
            ("-3e1,", "stop at 0", "stop at 0", "-3e1|,", "-3e1|,"),
            ("+7 x", "stop at 0", "+7| x", "+7| x", "+7| x"),
            (".5e", "stop at 0", "stop at 0", ".5|e", ".5|e"),
            ("-", "stop at 0", "stop at 0", "stop at 0", "stop at 0"),
            ("1e999", "1e999|", "stop at 0", "1e999|", "1e999|"),
            ("// no\n1", "stop at 5", "stop at 5", "stop at 5", "stop at 5"),
            ("\"a // \\\"b\"c", "stop at 0", "stop at 0", "stop at 0", "a // \\\"b|c"),
            ("\"a", "stop at 0", "stop at 0", "stop at 0", "stop at 2"),
        ] {
            assert_eq!(texts(Tokens::word, text), word, "{text}");
            assert_eq!(texts(Tokens::integer, text), integer, "{text}");
            assert_eq!(texts(Tokens::number, text), number, "{text}");
            assert_eq!(texts(Tokens::value, text), value, "{text}");
        }
    }

    #[test]
    fn a_statement_is_skipped_to_its_semicolon() {
        for (text, rest) in [
            ("a \"b;\" c; d", Ok(" d")),
            ("a // ;\n;", Ok("")),
            ("a", Err(ReadingStop { at: 1, expected: &[";"] })),
            ("a \";", Err(ReadingStop { at: 4, expected: &["\""] })),
        ] {
            let mut tokens = Tokens::new(text, 0);
            tokens.lines_are_blanks(true);
            assert_eq!(tokens.skip_to_semicolon().map(|()| tokens.rest()), rest, "{text}");
        }
    }
}

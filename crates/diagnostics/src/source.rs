use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A text that was read, and what to call it: a file, or the argument of a command.
#[derive(Debug)]
pub struct Source {
    name: String,
    text: String,
    /// The byte offset at which each line starts. Empty for an argument.
    line_starts: Vec<usize>,
}

impl Source {
    /// The text of the file called `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        let text = text.into();
        let line_starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Arc::new(Self { name: name.into(), text, line_starts })
    }

    /// The argument of a command; shown whole instead of a position, as `--set queue=7`.
    #[must_use]
    pub fn argument(name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: String::new(), line_starts: Vec::new() })
    }

    /// Whether it is the argument of a command.
    #[must_use]
    pub const fn is_argument(&self) -> bool {
        self.line_starts.is_empty()
    }

    /// What the text is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text; empty for an argument.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The index of the line with the byte `offset`, and the line's range without its end.
    pub(crate) fn line(&self, offset: usize) -> Option<(usize, Range<usize>)> {
        let index = self.line_starts.partition_point(|&start| start <= offset).checked_sub(1)?;
        let start = *self.line_starts.get(index)?;
        let end = self.line_starts.get(index + 1).map_or(self.text.len(), |next| next - 1);
        let line = self.text.get(start..end)?;
        Some((index, start..start + line.strip_suffix('\r').unwrap_or(line).len()))
    }
}

/// Where something stands: a stretch of a [`Source`]. Shown as `rules.toml:14:8`.
#[derive(Clone)]
pub struct Origin {
    source: Arc<Source>,
    span: Range<usize>,
}

impl Origin {
    /// Whether both are the same stretch of the same source.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.span == other.span
            && (Arc::ptr_eq(&self.source, &other.source) || self.source.name == other.source.name)
    }

    /// The bytes `span` of `source`, cut to its text.
    #[must_use]
    pub fn new(source: &Arc<Source>, span: Range<usize>) -> Self {
        let inside = |mut at: usize| {
            at = at.min(source.text.len());
            while !source.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = inside(span.start);
        Self { source: Arc::clone(source), span: start..inside(span.end).max(start) }
    }

    /// The source as a whole, when nothing in it can be pointed at.
    #[must_use]
    pub fn whole(source: &Arc<Source>) -> Self {
        Self::new(source, 0..0)
    }

    /// The place at `line` and `column`, both from 1, columns in characters; to the end of the
    /// line. A place that does not exist stands for the whole.
    #[must_use]
    pub fn at(source: &Arc<Source>, line: u32, column: u32) -> Self {
        let find = || {
            let start = *source.line_starts.get((line as usize).checked_sub(1)?)?;
            let (_, range) = source.line(start)?;
            let text = source.text.get(range.clone())?;
            let skip = (column as usize).checked_sub(1)?;
            let offset = text.char_indices().nth(skip).map_or(text.len(), |(at, _)| at);
            Some(range.start + offset..range.end)
        };
        find().map_or_else(|| Self::whole(source), |span| Self::new(source, span))
    }

    /// The text it stands in.
    #[must_use]
    pub const fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The bytes of the source.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// A part of this stretch: bytes counted from its start.
    #[must_use]
    pub fn part(&self, part: Range<usize>) -> Self {
        let start = self.span.start.saturating_add(part.start);
        let end = self.span.start.saturating_add(part.end);
        Self::new(&self.source, start.min(self.span.end)..end.min(self.span.end))
    }

    /// Line and column from 1, columns counted in characters; (0, 0) for an argument.
    #[must_use]
    pub fn line_column(&self) -> (u32, u32) {
        self.source.line(self.span.start).map_or((0, 0), |(index, range)| {
            let before = self.source.text.get(range.start..self.span.start).unwrap_or("");
            (index as u32 + 1, before.chars().count() as u32 + 1)
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line_column() {
            (0, _) => f.write_str(&self.source.name),
            (line, column) => write!(f, "{}:{line}:{column}", self.source.name),
        }
    }
}
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let source = Source::new("f", "ab\r\nä = 1\n\nx");
        for (span, shown) in [
            (0..1, "f:1:1"),
            (4..5, "f:2:1"),
            (9..10, "f:2:5"),
            (11..11, "f:3:1"),
            (12..13, "f:4:1"),
            (13..13, "f:4:2"),
            (99..99, "f:4:2"),
        ] {
            assert_eq!(Origin::new(&source, span.clone()).to_string(), shown, "{span:?}");
        }
        assert_eq!(Origin::new(&source, 5..6).to_string(), "f:2:1", "inside a character");
        assert_eq!(Origin::at(&source, 2, 5).span(), 9..10);
        assert_eq!(Origin::at(&source, 7, 1).span(), 0..0);
        assert_eq!(Origin::at(&source, 2, 5).to_string(), "f:2:5");
    }

    #[test]
    fn arguments_have_no_lines() {
        let source = Source::argument("--set a=1");
        assert_eq!(Origin::new(&source, 3..4).to_string(), "--set a=1");
        assert_eq!(Origin::at(&source, 1, 1).line_column(), (0, 0));
    }
}

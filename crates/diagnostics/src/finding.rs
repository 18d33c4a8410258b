use std::cell::RefCell;
use std::fmt;

use crate::Origin;
use crate::visible::{is_hidden, visible};

/// How many findings are kept; further ones are only counted.
pub const MAX_FINDINGS: usize = 1_000;

/// Whether a finding forbids using the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// It can, but probably does not do what was meant.
    Warning,
}

impl Severity {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Error, Self::Warning];

    /// `error` or `warning`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong: where, what, and the remedy.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Error or warning.
    pub severity: Severity,
    pub origin: Origin,
    /// What, in one clause that begins with a small letter.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// `file:line:column: error: message`, the line with a mark below, the hint.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = lines_of(&self.message);
        writeln!(f, "{}: {}: {message}", self.origin, self.severity.name())?;
        excerpt(&self.origin, f)?;
        self.hint.as_ref().map_or(Ok(()), |hint| writeln!(f, "  hint: {}", lines_of(hint)))
    }
}

/// What is visible of a text that may have several lines.
fn lines_of(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// The line of `origin`, or the part of a long line around it, and carets below.
fn excerpt(origin: &Origin, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const BEFORE: usize = 60;
    const WIDTH: usize = 100;
    let source = origin.source();
    let span = origin.span();
    if span == (0..0) {
        return Ok(()); // the file as a whole
    }
    let Some((_, line)) = source.line(span.start) else { return Ok(()) };
    let text = source.text().get(line.clone()).unwrap_or("");
    let before = source.text().get(line.start..span.start).unwrap_or("").chars().count();
    let fits = text.chars().take(WIDTH + 1).count() <= WIDTH;
    let skipped = if fits { 0 } else { before.saturating_sub(BEFORE) };
    let shown: String = text
        .chars()
        .skip(skipped)
        .take(WIDTH)
        .map(|c| if is_hidden(c) { ' ' } else { c })
        .collect();
    if shown.trim().is_empty() {
        return Ok(());
    }
    let indent = before - skipped;
    let marked = source.text().get(span.start..span.end.min(line.end)).unwrap_or("");
    let width = marked.chars().take(WIDTH.saturating_sub(indent)).count().max(1);
    writeln!(f, "  {}", shown.trim_end())?;
    writeln!(f, "  {:indent$}{}", "", "^".repeat(width))
}

impl Finding {
    fn is_same(&self, other: &Self) -> bool {
        self.message == other.message
            && self.severity == other.severity
            && self.origin.is_same(&other.origin)
    }
}

/// Everything found so far. Readers share it and go on after each finding.
#[derive(Debug, Default)]
pub struct Findings(RefCell<Collected>);

#[derive(Debug, Default)]
struct Collected {
    kept: Vec<Finding>,
    omitted: usize,
    errors: usize,
    warnings: usize,
}

impl Findings {
    /// Nothing found yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a finding, unless it is there already: a file that is read several times, such as for each
    /// experiment of a matrix, is told its mistakes once.
    pub fn push(&self, finding: Finding) {
        let mut all = self.0.borrow_mut();
        if all.kept.iter().any(|kept| kept.is_same(&finding)) {
            return;
        }
        match finding.severity {
            Severity::Error => all.errors += 1,
            Severity::Warning => all.warnings += 1,
        }
        if all.kept.len() < MAX_FINDINGS { all.kept.push(finding) } else { all.omitted += 1 }
    }

    /// Adds an error without a hint.
    pub fn error(&self, origin: &Origin, message: impl Into<String>) {
        self.add(Severity::Error, origin, message, None);
    }

    /// Adds an error with a hint.
    pub fn error_with_hint(
        &self,
        origin: &Origin,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Severity::Error, origin, message, Some(hint.into()));
    }

    /// Adds a warning with a hint.
    pub fn warning(&self, origin: &Origin, message: impl Into<String>, hint: impl Into<String>) {
        self.add(Severity::Warning, origin, message, Some(hint.into()));
    }

    fn add(
        &self,
        severity: Severity,
        origin: &Origin,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.push(Finding { severity, origin: origin.clone(), message: message.into(), hint });
    }

    /// Whether there is an error among them.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count(Severity::Error) + self.count(Severity::Warning) == 0
    }

    /// How many of one severity there are, those not kept included.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let all = self.0.borrow();
        match severity {
            Severity::Error => all.errors,
            Severity::Warning => all.warnings,
        }
    }

    /// Whether no more findings are kept; then it is time to stop looking.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.borrow().kept.len() >= MAX_FINDINGS
    }

    /// How many findings beyond [`MAX_FINDINGS`] were only counted.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.0.borrow().omitted
    }

    /// The findings kept, by position; those of one place in the order they were found.
    #[must_use]
    pub fn sorted(&self) -> Vec<Finding> {
        let mut findings = self.0.borrow().kept.clone();
        findings.sort_by(|a, b| {
            let key = |finding: &Finding| finding.origin.span().start;
            a.origin.source().name().cmp(b.origin.source().name()).then(key(a).cmp(&key(b)))
        });
        findings
    }
}

/// The findings kept, in the order they were found.
impl IntoIterator for Findings {
    type Item = Finding;
    type IntoIter = std::vec::IntoIter<Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_inner().kept.into_iter()
    }
}

/// All findings as text, by position.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in self.sorted() {
            write!(f, "{finding}")?;
        }
        match self.omitted() {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    #[test]
    fn findings_show_the_line_and_the_remedy() {
        let source = Source::new("rules.toml", "\n\tfrom = \"can7\"\n");
        let findings = Findings::new();
        findings.error_with_hint(
            &Origin::new(&source, 9..15),
            "unknown bus `can7`",
            "did you mean `can1`?",
        );
        assert_eq!(
            findings.to_string(),
            "rules.toml:2:9: error: unknown bus `can7`\n   from = \"can7\"\n          ^^^^^^\n  \
             hint: did you mean `can1`?\n"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_mark() {
        let text = format!("{}HERE{}", "a".repeat(5_000), "b".repeat(5_000));
        let source = Source::new("f", text);
        let findings = Findings::new();
        findings.error(&Origin::new(&source, 5_000..5_004), "m");
        let shown = findings.to_string();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[1].len(), 102);
        assert_eq!(lines[1].find("HERE"), lines[2].find("^^^^"));
    }

    #[test]
    fn findings_are_sorted_and_bounded() {
        let source = Source::new("f", "abc");
        let findings = Findings::new();
        for at in [2, 0, 1] {
            findings.error(&Origin::new(&source, at..at + 1), "m");
        }
        let order: Vec<_> = findings.sorted().iter().map(|f| f.origin.span().start).collect();
        assert_eq!(order, [0, 1, 2]);
        // What is found again is reported once.
        findings.error(&Origin::new(&source, 0..1), "m");
        assert_eq!(findings.count(Severity::Error), 3);
        for number in 0..MAX_FINDINGS {
            findings.warning(&Origin::whole(&source), number.to_string(), "h");
        }
        assert_eq!(findings.count(Severity::Warning), MAX_FINDINGS);
        assert_eq!(findings.omitted(), 3);
        assert!(findings.is_full());
        assert!(findings.to_string().ends_with("and 3 more\n"));
    }
}

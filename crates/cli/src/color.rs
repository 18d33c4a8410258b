//! Colours, on terminals only: `--color`, `NO_COLOR` (<https://no-color.org>), `TERM=dumb`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::OnceLock;

use candor_diagnostics::{Findings, Severity};
use clap::{ColorChoice, ValueEnum};

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

static CHOICE: OnceLock<Color> = OnceLock::new();

/// Sets what the command line says; the first call counts.
pub(crate) fn choose(color: Color) {
    let _ = CHOICE.set(color);
}

impl Color {
    /// What the arguments say, before they are read: help and errors about them have colours, too.
    pub(crate) fn of_arguments(arguments: impl Iterator<Item = OsString>) -> Self {
        // What is not Unicode names a file.
        let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
        while let Some(argument) = arguments.next() {
            let value = match argument.split_once('=') {
                Some(("--color", value)) => Some(value.to_owned()),
                _ if argument == "--color" => arguments.next(),
                _ if argument == "--" => break,
                _ => None,
            };
            if let Some(color) = value.and_then(|value| Self::from_str(&value, false).ok()) {
                return color;
            }
        }
        Self::Auto
    }

    /// The same for the parser of arguments, which looks at the terminal itself.
    pub(crate) const fn for_help(self) -> ColorChoice {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
    }

    fn is_used(self, is_terminal: bool, environment: impl Fn(&str) -> Option<String>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let is_unwanted = environment("NO_COLOR").is_some_and(|value| !value.is_empty());
                let is_dumb = environment("TERM").is_some_and(|term| term == "dumb");
                is_terminal && !is_unwanted && !is_dumb
            }
        }
    }
}

fn is_used(is_terminal: bool) -> bool {
    let choice = CHOICE.get().copied().unwrap_or_default();
    choice.is_used(is_terminal, |name| std::env::var(name).ok())
}

/// Whether standard output has colours.
pub(crate) fn on_stdout() -> bool {
    is_used(std::io::stdout().is_terminal())
}

/// Whether standard error has colours.
pub(crate) fn on_stderr() -> bool {
    is_used(std::io::stderr().is_terminal())
}

/// A way to show text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Error,
    Warning,
    /// What helps to go on.
    Hint,
    /// What stands out without being a problem.
    Strong,
}

impl Style {
    /// `text` in this style (ECMA-48, SGR).
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Error => "1;31",
            Self::Warning => "1;33",
            Self::Hint => "36",
            Self::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Findings, in colours or not.
pub(crate) fn findings(findings: &Findings, has_colors: bool) -> String {
    finding_text(&findings.to_string(), has_colors)
}

/// Prints findings on standard error.
pub(crate) fn eprint_findings(all: &Findings) {
    candor_output::messages::lines(findings(all, on_stderr()));
}

/// The same for findings that are text already.
pub(crate) fn finding_text(text: &str, has_colors: bool) -> String {
    match has_colors {
        true => text.split_inclusive('\n').map(finding_line).collect(),
        false => text.to_owned(),
    }
}

/// A line of findings: a place with what is wrong, an excerpt, carets below it, or a hint.
fn finding_line(whole: &str) -> String {
    let line = whole.trim_end_matches('\n');
    let end = whole.get(line.len()..).unwrap_or_default();
    painted_line(line) + end
}

fn painted_line(line: &str) -> String {
    for (severity, style) in [(Severity::Error, Style::Error), (Severity::Warning, Style::Warning)]
    {
        let word = format!(": {}: ", severity.name());
        if let Some((place, message)) = line.split_once(&word).filter(|_| !line.starts_with(' ')) {
            let word = style.paint(severity.name());
            return format!("{place}: {word}: {}", Style::Strong.paint(message));
        }
    }
    let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
    let is_mark = !rest.is_empty() && rest.bytes().all(|byte| byte == b'^');
    match rest.strip_prefix("hint: ") {
        Some(hint) => format!("{indent}{} {hint}", Style::Hint.paint("hint:")),
        None if is_mark => format!("{indent}{}", Style::Hint.paint(rest)),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_to_terminals_that_want_them() {
        let none = |_: &str| None;
        let no_color = |name: &str| (name == "NO_COLOR").then(|| "1".to_owned());
        let empty = |name: &str| (name == "NO_COLOR").then(String::new);
        let dumb = |name: &str| (name == "TERM").then(|| "dumb".to_owned());
        assert!(Color::Auto.is_used(true, none) && !Color::Auto.is_used(false, none));
        assert!(!Color::Auto.is_used(true, no_color) && Color::Auto.is_used(true, empty));
        assert!(!Color::Auto.is_used(true, dumb));
        assert!(Color::Always.is_used(false, no_color) && !Color::Never.is_used(true, none));
    }

    #[test]
    fn the_choice_is_found_before_arguments_are_read() {
        for (line, color) in [
            ("candor lab", Color::Auto),
            ("candor --color never lab", Color::Never),
            ("candor lab list x --color=always", Color::Always),
            ("candor lab --color blue", Color::Auto),
            ("candor -- --color=never", Color::Auto),
        ] {
            let words = line.split(' ').map(OsString::from);
            assert_eq!(Color::of_arguments(words), color, "{line}");
        }
    }

    #[test]
    fn findings_have_colours_and_keep_their_text() {
        let source = candor_diagnostics::Source::new("rules.toml", "from = \"can7\"\n");
        let all = Findings::new();
        let origin = candor_diagnostics::Origin::new(&source, 7..13);
        all.error_with_hint(&origin, "unknown bus: error: `can7`", "did you mean `can1`?");
        all.warning(&origin, "odd", "look at it");
        let painted = findings(&all, true);
        assert!(painted.contains("rules.toml:1:8: \x1b[1;31merror\x1b[0m: \x1b[1munknown bus"));
        assert!(
            painted.contains("\x1b[1;33mwarning\x1b[0m")
                && painted.contains("\x1b[36m^^^^^^\x1b[0m")
        );
        assert!(painted.contains("\x1b[36mhint:\x1b[0m did you mean"));
        let mut plain = painted;
        for code in ["1;31", "1;33", "36", "1", "0"] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain, all.to_string());
        assert_eq!(findings(&all, false), all.to_string());
    }
}

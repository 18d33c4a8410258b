//! A script as a shell reads it: its lines, the words of each with their places, and what only a shell understands.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range as Span;

use super::words::{Word, is_program, pieces, shorten};

/// The characters that end a word and are no part of the next one.
const OPERATORS: [char; 5] = [';', '&', '|', '<', '>'];

/// A line, with those that it goes on in because of a `\` at its end.
#[derive(Debug, Default)]
pub(super) struct ShellLine<'a> {
    /// All of it, without its end.
    pub(super) span: Span<usize>,
    /// The words, without the quotes around a whole one.
    pub(super) words: Vec<Word<'a>>,
    /// What follows a `#`.
    pub(super) comment: &'a str,
    /// The first place that only a shell understands.
    pub(super) place: Option<Place>,
}

/// A place that only a shell understands.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) span: Span<usize>,
    pub(super) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A variable, or a pattern of files, becomes something else.
    Replaced,
    /// Quotes and `\` within a word go away.
    Unquoted,
    /// It is between commands, or it leads their output elsewhere.
    Operator,
    /// A quote has no end; a shell does not understand that either.
    Unclosed,
}

impl Place {
    /// What is the matter, in the text that was read.
    pub(super) fn message(&self, text: &str) -> String {
        let shown = shorten(text.get(self.span.clone()).unwrap_or(""));
        match self.why {
            Why::Replaced => format!("a shell puts something in the place of `{shown}`"),
            Why::Unquoted => format!("a shell takes quotes or `\\` out of `{shown}`"),
            Why::Operator => format!("only a shell understands `{shown}`"),
            Why::Unclosed => format!("a quote in `{shown}` has no end"),
        }
    }
}

/// What a script needs as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptNeeds {
    /// A shell, for at least one line.
    pub(super) shell: bool,
    /// The program itself, for at least one line: a function of its name is not called there.
    pub(super) program: bool,
    /// Bash, by its first line or by words that `sh` leaves as they are.
    pub(super) bash: bool,
}

impl ScriptNeeds {
    pub(super) fn of(text: &str) -> Self {
        let first = text.strip_prefix("#!").and_then(|rest| rest.lines().next());
        let bash = first.is_some_and(|line| line.contains("bash"));
        lines(text).fold(Self { bash, ..Self::default() }, |needs, line| {
            let is_shell = line.words.first().is_some_and(|word| is_of_shell(word.text));
            Self {
                shell: needs.shell || line.place.is_some() || is_shell,
                program: needs.program || runs_program(&line.words),
                bash: needs.bash || line.words.iter().any(|word| has_choice(word.text)),
            }
        })
    }
}

/// Whether a word stands for several, such as `can{0,1}`.
fn has_choice(word: &str) -> bool {
    word.split_once('{').is_some_and(|(before, rest)| {
        let inside = rest.split_once('}').map_or("", |(inside, _)| inside);
        !before.ends_with('$') && (inside.contains(',') || inside.contains(".."))
    })
}

/// Whether one of the words of a line names the program by its path, or behind a command that calls no functions.
fn runs_program(words: &[Word<'_>]) -> bool {
    let callers = [
        "sudo", "doas", "exec", "command", "env", "nice", "nohup", "timeout", "xargs", "chroot",
        "sh", "bash",
    ];
    let mut is_called = false;
    let mut before = "";
    words.iter().any(|word| {
        let is_run = is_called && !matches!(before, "-v" | "-V");
        is_called |= callers.contains(&word.text);
        before = word.text;
        pieces(word.text).any(|piece| is_program(piece) && (is_run || piece != "cangw"))
    })
}

/// Whether a line that begins so says something to a shell: an assignment, a loop, a condition, a function, or a
/// command about the shell itself or the modules of the kernel.
pub(super) fn is_of_shell(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let is_assignment = word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let words = [
        "for", "while", "until", "select", "do", "done", "if", "then", "elif", "else", "fi",
        "case", "esac", "function", "{", "}", "!", "time", "[", "[[", "test", "true", "false", ":",
        "set", "shift", "export", "readonly", "local", "declare", "typeset", "unset", "alias",
        "eval", "exec", "command", "env", "exit", "return", "break", "continue", "trap", "wait",
        "source", ".", "modprobe",
    ];
    is_assignment || words.contains(&word) || word.ends_with("()") || word.starts_with('$')
}

/// The lines of a script.
pub(super) fn lines(text: &str) -> impl Iterator<Item = ShellLine<'_>> {
    let mut reader = Reader { text, at: 0 };
    core::iter::from_fn(move || reader.line())
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// The length of a `\` at the end of a line, with that end.
fn joined(rest: &str) -> Option<usize> {
    ["\\\n", "\\\r\n"].into_iter().find(|end| rest.starts_with(end)).map(str::len)
}

/// Where a text in quotes that `rest` begins with has its last one.
fn closing(rest: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    let (at, _) = rest.char_indices().skip(1).find(|&(_, c)| {
        let is_end = c == quote && !is_escaped;
        is_escaped = quote == '"' && c == '\\' && !is_escaped;
        is_end
    })?;
    Some(at)
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn line(&mut self) -> Option<ShellLine<'a>> {
        let start = self.at;
        let mut line = ShellLine::default();
        // Which of the words says where the text behind this line ends that a command gets as its input.
        let mut delimiter = None;
        self.rest().chars().next()?;
        while let Some(c) = self.rest().chars().next().filter(|&c| c != '\n') {
            let rest = self.rest();
            if let Some(len) = joined(rest) {
                self.at += len;
            } else if c.is_whitespace() {
                self.at += c.len_utf8();
            } else if c == '#' {
                let comment = rest.split('\n').next().unwrap_or("");
                self.at += comment.len();
                line.comment = comment.get(1..).unwrap_or("");
            } else if OPERATORS.contains(&c) || c == '(' || c == ')' {
                let is_other = |c: char| !OPERATORS.contains(&c) && c != '(' && c != ')';
                let len = rest.find(is_other).unwrap_or(rest.len());
                if rest.get(..len).is_some_and(|it| it.ends_with("<<") && !it.ends_with("<<<")) {
                    delimiter = Some(line.words.len());
                }
                let span = self.at..self.at + len;
                line.place.get_or_insert(Place { span, why: Why::Operator });
                self.at += len;
            } else {
                self.word(&mut line);
            }
        }
        line.span = start..start + self.text.get(start..self.at).unwrap_or("").trim_end().len();
        self.at = self.text.len().min(self.at + 1);
        if let Some(word) = delimiter.and_then(|index| line.words.get(index)) {
            self.skip_input(word.text.trim_start_matches('-').trim_matches(['\'', '"', '\\']));
        }
        Some(line)
    }

    /// Leaves out the lines that are the input of a command, with the one that ends them.
    fn skip_input(&mut self, delimiter: &str) {
        for line in self.rest().split_inclusive('\n') {
            self.at += line.len();
            if line.trim_start_matches('\t').trim_end() == delimiter {
                return;
            }
        }
    }

    /// Takes a word, which begins here.
    fn word(&mut self, line: &mut ShellLine<'a>) {
        let start = self.at;
        let mut why = None;
        let mut quoted = Vec::new();
        while let Some(c) = self.rest().chars().next() {
            let rest = self.rest();
            let (len, found) = match c {
                '\\' => match joined(rest) {
                    Some(len) if rest.get(len..).is_none_or(is_end_of_word) => break,
                    Some(len) => (len, Some(Why::Unquoted)),
                    None => (rest.chars().take(2).map(char::len_utf8).sum(), Some(Why::Unquoted)),
                },
                '\'' | '"' => {
                    let (len, found) = quotes(rest, c);
                    quoted.push(self.at..self.at + len);
                    (len, found)
                }
                '(' | ')' => (1, Some(Why::Operator)),
                '$' | '`' | '*' | '?' | '[' | '{' => (1, Some(Why::Replaced)),
                '~' if self.at == start => (1, Some(Why::Replaced)),
                _ if is_end_of_word(rest) => break,
                _ => (c.len_utf8(), None),
            };
            self.at += len;
            why = why.or(found);
        }
        let is_whole = quoted.first() == Some(&(start..self.at));
        if !quoted.is_empty() && !is_whole {
            why = why.or(Some(Why::Unquoted));
        }
        let inner = usize::from(is_whole && why.is_none());
        let raw = self.text.get(start..self.at).unwrap_or("");
        let span = start + inner..self.at - inner;
        // Where the program is does not matter.
        if let Some(why) = why.filter(|_| !is_program(raw)) {
            let len = raw.lines().next().unwrap_or("").len();
            line.place.get_or_insert(Place { span: start..start + len, why });
        }
        line.words.push(Word { text: self.text.get(span.clone()).unwrap_or(""), span });
    }
}

fn is_end_of_word(rest: &str) -> bool {
    rest.chars().next().is_none_or(|c| c.is_whitespace() || OPERATORS.contains(&c))
}

/// The length of a text in quotes that `rest` begins with, and what a shell does with it beyond taking them away.
fn quotes(rest: &str, quote: char) -> (usize, Option<Why>) {
    let Some(end) = closing(rest, quote) else {
        let line = rest.split('\n').next().unwrap_or("");
        return (line.trim_end().len(), Some(Why::Unclosed));
    };
    let inside = rest.get(..end).unwrap_or("");
    let found = if quote == '"' && inside.contains(['$', '`']) {
        Some(Why::Replaced)
    } else if inside.contains('\n') || quote == '"' && inside.contains('\\') {
        Some(Why::Unquoted)
    } else {
        None
    };
    (end + 1, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line as its words with `|` between them, its comment behind `#`, and its place behind `@`.
    fn show(text: &str) -> Vec<String> {
        let shown = lines(text).map(|line| {
            let words: Vec<_> = line
                .words
                .iter()
                .map(|word| {
                    assert_eq!(text.get(word.span.clone()), Some(word.text));
                    word.text
                })
                .collect();
            let comment = match line.comment {
                "" => String::new(),
                comment => format!("#{comment}"),
            };
            let place = line.place.map_or(String::new(), |place| {
                format!("@{:?} {}", place.why, text.get(place.span).unwrap())
            });
            format!("{}{comment}{place}", words.join("|"))
        });
        shown.collect()
    }

    #[test]
    fn lines_are_split_as_a_shell_splits_them() {
        for (text, expected) in [
            ("", &[][..]),
            ("a b\n\n c", &["a|b", "", "c"]),
            ("a\r\nb # c\r\n", &["a", "b# c\r"]),
            ("a#b #c # d", &["a#b#c # d"]),
            ("a \\\n  b\nc", &["a|b", "c"]),
            ("a\\\n b\\\r\n c", &["a|b|c"]),
            ("a\\\nb c", &["a\\\nb|c@Unquoted a\\"]),
            ("a \\\n# b\nc", &["a# b", "c"]),
            ("# a \\\nb", &["# a \\", "b"]),
            ("a \\", &["a|\\@Unquoted \\"]),
            ("a \\ \nb", &["a|\\ @Unquoted \\ ", "b"]),
            ("'a b' \"c\" ''", &["a b|c|"]),
            ("a'b'", &["a'b'@Unquoted a'b'"]),
            ("'a''b'", &["'a''b'@Unquoted 'a''b'"]),
            ("'$a' '*' \"~\" '\\'", &["$a|*|~|\\"]),
            ("\"$a\"", &["\"$a\"@Replaced \"$a\""]),
            ("\"a\\\"b\" c", &["\"a\\\"b\"|c@Unquoted \"a\\\"b\""]),
            ("'a\nb' c\nd", &["'a\nb'|c@Unquoted 'a", "d"]),
            ("a 'b c\nd", &["a|'b c@Unclosed 'b c", "d"]),
            ("~a b~c", &["~a|b~c@Replaced ~a"]),
            ("a{0,1}", &["a{0,1}@Replaced a{0,1}"]),
            ("a;b", &["a|b@Operator ;"]),
            ("a&&b", &["a|b@Operator &&"]),
            ("a 2>/b", &["a|2|/b@Operator >"]),
            ("(a)", &["a)@Operator ("]),
            ("a() {", &["a()|{@Operator a()"]),
            ("$a/cangw b", &["$a/cangw|b"]),
            ("a <<-'E' b\nc 'd\n\tE\nf", &["a|-'E'|b@Operator <<", "f"]),
            ("a << E\nb", &["a|E@Operator <<"]),
            ("a <<< b\nc", &["a|b@Operator <<<", "c"]),
            ("a <<", &["a@Operator <<"]),
        ] {
            assert_eq!(show(text), expected, "{text}");
        }
    }

    #[test]
    fn a_function_does_not_take_the_place_of_every_call() {
        for (text, program) in [
            ("cangw -F", false),
            ("do cangw -F", false),
            ("command -v cangw", false),
            ("echo cang", false),
            ("sudo cangw -F", true),
            ("sudo -n cangw -F", true),
            ("exec cangw -F", true),
            ("/usr/bin/cangw -F", true),
            ("CANGW=/usr/bin/cangw", true),
            ("CANGW=cangw", false),
            ("sh -c 'cangw -F'", true),
        ] {
            assert_eq!(ScriptNeeds::of(text).program, program, "{text}");
        }
    }
}

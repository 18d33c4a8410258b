"""What the laws need to know of Rust: which text of a file is code, and which code is the product."""

import re

# Comments, strings, and characters, which are no lifetimes. Block comments are not nested in this repository.
QUIET = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"""|(?<!\w)[bc]?r(?P<fence>#*)".*?"(?P=fence)|"(?:\\.|[^"\\])*"|'(?:\\[^\n]{1,8}?|[^\\'\n])'""",
    re.DOTALL,
)
# The files of tests: in folders of this name, and beside what they test.
TESTS = re.compile(r"(^|/)(tests|testdata|suite)(/|$)|(^|/)(tests?|testing|laws)\.rs$")


def code(text):
    """The text without comments and without what is quoted: blanks instead, so that all else stays where it is."""
    return QUIET.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def end_of_braces(text, begin):
    """Where the block ends whose brace opens at `begin`."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    return len(text) - 1


def product(text):
    """The code without what is built for tests only: blanks instead."""
    text = code(text)
    for found in list(re.finditer(r"#\[cfg\((?:all\()?test[^\]]*\]", text)):
        brace, semicolon = (text.find(mark, found.end()) for mark in "{;")
        end = semicolon if 0 <= semicolon < brace or brace < 0 else end_of_braces(text, brace)
        text = text[: found.start()] + re.sub(r"[^\n]", " ", text[found.start() : end + 1]) + text[end + 1 :]
    return text

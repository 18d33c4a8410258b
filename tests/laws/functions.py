"""Looks for functions of the product that are too long to be read at once.

    python3 tests/laws/functions.py

A function has at most 80 lines, from the one with `fn` to the one with its last brace, whatever is on them. The product
is every Rust file but tests: those in folders `tests`, `testdata` and `suite`, those in files `tests.rs`, and what is
built for tests only.

Exit code 0 if all of this holds, 1 if not.
"""

import re
import subprocess
import sys
from pathlib import Path

from rust import TESTS, end_of_braces, product

ROOT = Path(__file__).resolve().parents[2]
MOST = 80


def functions(text):
    """The functions of a file that have a body: `(name, line, lines)` each."""
    text = product(text)
    for found in re.finditer(r"\bfn\s+(\w+)", text):
        # The body opens outside of all parentheses and brackets; without one, a semicolon stands there.
        depth = 0
        for mark in re.compile(r"[()\[\]{;]").finditer(text, found.end()):
            depth += (mark[0] in "([") - (mark[0] in ")]")
            if depth == 0 and mark[0] in "{;":
                break
        else:
            continue
        if mark[0] == "{":
            end = end_of_braces(text, mark.start())
            yield found[1], text.count("\n", 0, found.start()) + 1, text.count("\n", found.start(), end) + 1


def broken(files):
    """A sentence for each function that is too long: `files` is `{path: text}`."""
    for path, text in files.items():
        for name, line, lines in functions(text):
            if lines > MOST:
                yield f"{path}:{line}: `{name}` has {lines} lines; split it by what it does: {MOST} are allowed"


def main():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.rs"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = {path: (ROOT / path).read_text() for path in sorted(set(listed.split("\0")))
             if path and not TESTS.search(path) and (ROOT / path).exists()}
    wrong = list(broken(files))
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

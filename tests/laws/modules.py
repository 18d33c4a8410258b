"""Looks for circles: modules of one crate that use each other, directly or through others.

    python3 tests/laws/modules.py

The modules are the files and folders at the top of `src`; what is in a folder counts as one module. A module
uses another if it names it, with `crate::` or `super::`, outside of comments and of its own tests: those at the end
of a file, or in a file `tests.rs`.

Exit code 0 if no crate has a circle, 1 if one has.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The files that name all modules of a crate, and belong to none of them.
ROOTS = {"lib", "main", "build"}
# The file with the tests of the module that it stands beside.
TESTS = "tests"


def product(text):
    """The text without comments and without the tests at its end."""
    text = text.split("#[cfg(test)]\nmod tests {", 1)[0]
    return re.sub(r"//.*$", "", text, flags=re.MULTILINE)


def named(text, depth):
    """The modules at the top that a file names, which is so many modules deep."""
    at_the_top = r"(?:\bcrate::|(?<![\w:])" + "super::" * depth + r")"
    found = set(re.findall(at_the_top + r"(\w+)", text))
    for group in re.findall(at_the_top + r"\{([^;]*?)\};", text):
        found |= set(re.findall(r"(?:^|,)\s*(\w+)", group))
    return found


def uses(files):
    """Which modules each module uses, from `{path below src: text}`."""
    modules = {}
    for path, text in files.items():
        parts = list(Path(path).with_suffix("").parts)
        if parts[0] in ROOTS or parts[-1] == TESTS:
            continue
        if parts[-1] == "mod":
            parts.pop()
        modules.setdefault(parts[0], set()).update(named(product(text), len(parts)))
    return {module: (names & modules.keys()) - {module} for module, names in modules.items()}


def circles(modules):
    """Modules of which each leads to all others of its group, in groups."""
    def reached(start):
        known, left = set(), [start]
        while left:
            for module in modules[left.pop()] - known:
                known.add(module)
                left.append(module)
        return known

    behind = {module: reached(module) for module in modules}
    groups = {
        tuple(sorted(other for other in behind[module] if module in behind[other]))
        for module in modules
        if module in behind[module]
    }
    return sorted(groups)


def main():
    broken = False
    for source in sorted(ROOT.glob("crates/**/src")):
        files = {str(path.relative_to(source)): path.read_text() for path in source.rglob("*.rs")}
        for group in circles(uses(files)):
            broken = True
            print(f"{source.relative_to(ROOT)}: {', '.join(group)} use each other in a circle")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

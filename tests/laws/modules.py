"""Looks for circles: modules of one crate that use each other, directly or through others.

    python3 tests/laws/modules.py

Each file is a module, and everything below it belongs to it too. Those that stand side by side, because one file
declares them, must not use each other in a circle: neither the files at the top of `src` nor those in a folder.

A module uses the one whose file defines what it names, by a path or by an import, outside of comments and of tests. A
name that another file hands on with `pub use` leads to the file that defines it; to hand it on is no use by itself. A
file that declares others (`mod.rs`, `lib.rs`, or `x.rs` beside the folder `x`) is one with them, whether it only declares
them or also defines what they share: it may use them, and they may use it.

Exit code 0 if no crate has a circle, 1 if one has.
"""

import re
import sys
from pathlib import Path

from rust import TESTS, product

ROOT = Path(__file__).resolve().parents[2]
# The files that declare all others of a crate.
ROOTS = {"lib", "main"}
USE = re.compile(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")


def imported(tree, prefix=()):
    """What a tree of `use` imports: `(name here, path)` each."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        path, _, other = (part.strip() for part in head.partition(" as "))
        path = [*prefix, *path.split("::")]
        path = path[:-1] if path[-1] in ("self", "*") and len(path) > 1 else path
        yield other or path[-1], path
        return
    prefix = [*prefix, *(part for part in head.strip().split("::") if part)]
    # Trees stand between the commas that are in no inner braces.
    for part in re.findall(r"(?:[^,{}]|\{(?:[^{}]|\{[^{}]*\})*\})+", rest.rpartition("}")[0]):
        if part.strip():
            yield from imported(part, prefix)


def module_of(path):
    """The module of a file, by the names that lead to it; that of the root of the crate has none."""
    names = Path(path).with_suffix("").parts
    return names[:-1] if names[-1] == "mod" or len(names) == 1 and names[0] in ROOTS else names


def defined(imports, module, path, steps=20):
    """The module whose file defines what `path` leads to if it is named in `module`; `None` if it is another crate's."""
    if path[0] == "crate":
        module, path = (), path[1:]
    elif path[0] not in ("self", "super", *imports[module]) and (*module, path[0]) not in imports:
        return None
    for at, name in enumerate(path):
        if name == "super":
            module = module[:-1]
        elif (*module, name) in imports:
            module = (*module, name)
        elif name in imports[module] and steps:
            return defined(imports, module, imports[module][name] + path[at + 1 :], steps - 1)
        elif name != "self":
            break
    return module


def uses(files):
    """Which of those beside it each module uses, from `{path below src: text}`."""
    files = {module_of(path): product(text) for path, text in files.items() if not TESTS.search(path)}
    imports = {
        module: {name: path for _, tree in USE.findall(text) for name, path in imported(tree)}
        for module, text in files.items()
    }
    found = {"/".join(module): set() for module in files}
    for module, text in files.items():
        handed_on = {name for public, tree in USE.findall(text) if public for name, _ in imported(tree)}
        text = USE.sub("", text)
        named = [path.split("::") for path in re.findall(r"(?<![\w:])\w+(?:::\w+)+", text)]
        named += [path for name, path in imports[module].items()
                  if name not in handed_on or re.search(rf"\b{name}\b", text)]
        for path in named:
            other = defined(imports, module, path) or ()
            apart = [one != two for one, two in zip(module, other)]
            if any(apart):
                end = apart.index(True) + 1
                found["/".join(module[:end])].add("/".join(other[:end]))
    return found


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
    for source in sorted([*ROOT.glob("crates/**/src"), ROOT / "capi" / "src", ROOT / "python" / "src"]):
        files = {str(path.relative_to(source)): path.read_text() for path in source.rglob("*.rs")}
        for group in circles(uses(files)):
            broken = True
            print(f"{source.relative_to(ROOT)}: {', '.join(group)} use each other in a circle")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the Python that README.md, docs/python.md and docs/many-machines.md show, with the package `candor` that is installed.

    python tests/python/examples.py [--picture FILE]

* A block marked `python` with `>>>` is run by doctest: it must print what is shown. One without is run as it is.
* All blocks of a file share their names, and run in one scratch copy of the repository, in their order.
* Each of them has such blocks, which `mypy --strict` takes, and something is plotted.
* `--picture` runs the blocks of README.md only, and writes the last plot of them.

Exit code 0 if all is as shown, 1 if not.
"""

import doctest
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402 - needs no display once that was said

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = ("README.md", "docs/python.md", "docs/many-machines.md")


def blocks(text):
    """Line numbers and texts of the Python blocks of a Markdown text."""
    return [(text.count("\n", 0, found.start(1)) + 1, found[1]) for found in BLOCK.finditer(text)]


def run(name, text):
    """Runs the blocks of a document; returns how many failed."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    names = {"__name__": "__main__"}
    failed = 0
    for line, block in blocks(text):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, f"{name}:{line}", name, line - 1)
            failed += runner.run(test, clear_globs=False).failed
            names = test.globs
        else:
            exec(compile("\n" * (line - 1) + block, name, "exec"), names)
    return failed


def types(name, text):
    """Whether the types of the blocks of a document agree, as one module."""
    examples = [block if ">>>" not in block else "".join(it.source for it in doctest.DocTestParser().get_examples(block))
                for _, block in blocks(text)]
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, Path(name).stem.lower().replace("-", "_") + ".py")
        module.write_text("".join(examples))
        # The libraries of others come without types, or have their own rules.
        call = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", str(module)]
        checked = subprocess.run(call, capture_output=True, text=True)
    if checked.returncode != 0:
        print(f"{name}: {checked.stdout}{checked.stderr}")
    return checked.returncode == 0


def scratch(folder):
    """Copies what git knows of the repository into a folder."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "examples", "campaigns", "docs", "README.md"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout
    subprocess.run(["cp", "--parents", "-t", folder, *filter(None, names.decode().split("\0"))], cwd=ROOT, check=True)


def main(arguments):
    picture = Path(arguments[1]).resolve() if arguments[:1] == ["--picture"] else None
    failed = 0
    for name in DOCUMENTS[:1] if picture else DOCUMENTS:
        text = (ROOT / name).read_text()
        found = blocks(text)
        if not found:
            print(f"{name}: no block of Python")
            failed += 1
        with tempfile.TemporaryDirectory() as folder:
            scratch(folder)
            os.chdir(folder)
            failed += run(name, text)
            os.chdir(ROOT)
        failed += 0 if picture or types(name, text) else 1
        print(f"{name}: {len(found)} blocks of Python")
    if picture:
        figure = pyplot.gcf()
        figure.set_size_inches(9, 3.6)
        figure.savefig(picture, dpi=90)
    elif not pyplot.get_fignums():
        print("nothing was plotted")
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

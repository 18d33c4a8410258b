"""Compares what ARCHITECTURE.md says of the crates with what their manifests say.

    python3 tests/laws/laws.py

It reads the first text block below `## The crates`: one line for each crate, with every crate of Candor that
it depends on. What must hold:

- The lines are those of `cargo metadata`: no crate is missing, no dependency is missing, none is too many.
  What only tests need does not count.
- A crate depends only on crates in lines below its own.
- The crates that invariant 1 names as those without a clock do not depend on one that reads a clock, not
  even through another crate.

Exit code 0 if all of this holds, 1 if not.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The only crate that asks the system for the time; all others ask this one, or nobody.
CLOCK = "linux"


def drawn(text):
    """The crates of the block, in order: `{crate: dependencies}`."""
    section = text.split("\n## The crates\n", 1)[1]
    block = section.split("```text\n", 1)[1].split("```", 1)[0]
    crates = {}
    for line in block.splitlines():
        name, arrow, dependencies = line.partition("->")
        if not arrow:
            raise ValueError(f"ARCHITECTURE.md: this line draws no dependency: {line!r}")
        crates[name.strip()] = [] if dependencies.strip() == "nothing" else dependencies.split()
    return crates


def without_clock(text):
    """The crates that invariant 1 names."""
    sentence = re.search(r"These crates read no clock: ((?:`[a-z/]+`[, and]*)+)", " ".join(text.split()))
    if not sentence:
        raise ValueError("ARCHITECTURE.md: `These crates read no clock: ...` is missing in invariant 1")
    return re.findall(r"`([a-z/]+)`", sentence[1])


def built(metadata, root=ROOT):
    """The crates of the workspace as cargo has them, by their folder, without `crates`: `{folder: dependencies}`."""
    def place(package):
        path = Path(package["manifest_path"]).parent.relative_to(root)
        return str(path.relative_to("crates") if path.parts[0] == "crates" else path)

    folder = {package["name"]: place(package) for package in metadata["packages"]}
    return {
        folder[package["name"]]: {
            folder[it["name"]] for it in package["dependencies"] if it["kind"] != "dev" and it["name"] in folder
        }
        for package in metadata["packages"]
    }


def behind(crate, crates):
    """Everything that a crate depends on, through whichever others."""
    known, left = set(), [crate]
    while left:
        for dependency in crates.get(left.pop(), ()):
            if dependency not in known:
                known.add(dependency)
                left.append(dependency)
    return known


def broken(picture, crates, clockless):
    """A sentence for each law that does not hold."""
    order = list(picture)
    for name in sorted(set(picture) ^ set(crates)):
        where = "drawn, but does not exist" if name in picture else "not drawn"
        yield f"`{name}` is {where}"
    for name in order:
        if name in crates:
            for dependency in sorted(crates[name] - set(picture[name])):
                yield f"`{name}` depends on `{dependency}`, which is not drawn"
            for dependency in sorted(set(picture[name]) - crates[name]):
                yield f"`{name}` is drawn with `{dependency}`, which it does not depend on"
        for dependency in picture[name]:
            if dependency in order and order.index(dependency) <= order.index(name):
                yield f"`{name}` points up to `{dependency}`"
    for name in clockless:
        if name not in crates:
            yield f"invariant 1 names `{name}`, which does not exist"
        elif CLOCK in behind(name, crates) | {name}:
            yield f"invariant 1 names `{name}`, which depends on `{CLOCK}`"


def main():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    wrong = list(broken(drawn(text), built(metadata), without_clock(text)))
    for sentence in wrong:
        print(f"ARCHITECTURE.md: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

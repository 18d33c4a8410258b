"""Names the crates that have changed, and those that depend on them.

    python3 tests/quick/changed.py

Standard output has the folder of each, one a line; standard error says which and why.

What changed is what differs from the branch `main`, where this branch left it, and what is not committed. On
`main` itself that is what is not committed, or else the last commit. CANDOR_BASE names another commit.

A file below `crates` belongs to the crate that it is in. A file of examples, docs and the like belongs to the
crates whose code names it, or the folder that it is in. Cargo's own files belong to all crates. Other files, such as
tests/ and README.md, belong to none.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A crate whose build script builds another one.
BUILDS = {"candor-init": ["candor-guest"], "candor-vm": ["candor-count", "candor-timed-bus"]}
FOR_ALL = re.compile(r"Cargo\.(toml|lock)|\.cargo/.*|rust-toolchain.*")
READ_BY_TESTS = ("campaigns", "docs", "examples", "profiles", "schemas")


def git(*arguments):
    outcome = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return outcome.stdout.strip() if outcome.returncode == 0 else None


def names(*arguments):
    return {name for name in (git(*arguments) or "").split("\0") if name}


def changed_files():
    """The files that differ, and from what."""
    uncommitted = names("diff", "--name-only", "-z", "HEAD")
    uncommitted |= names("ls-files", "-z", "--others", "--exclude-standard")
    wanted = os.environ.get("CANDOR_BASE")
    base = git("merge-base", wanted or "main", "HEAD")
    if not base:
        if wanted:
            raise ValueError(f"CANDOR_BASE: there is no commit `{wanted}`")
        base = git("rev-parse", "HEAD")
    if base == git("rev-parse", "HEAD") and not uncommitted and not wanted:
        base = git("rev-parse", "HEAD~1") or base
    return uncommitted | names("diff", "--name-only", "-z", base, "HEAD"), base


def crates():
    """The crates of the workspace: `{name: (folder, dependencies, dependencies of tests)}`."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    of_workspace = {package["name"] for package in metadata["packages"]}
    found = {}
    for package in metadata["packages"]:
        needs, needs_to_test = set(BUILDS.get(package["name"], ())), set()
        for it in package["dependencies"]:
            if it["name"] in of_workspace:
                (needs_to_test if it["kind"] == "dev" else needs).add(it["name"])
        folder = str(Path(package["manifest_path"]).parent.relative_to(ROOT))
        found[package["name"]] = (folder, needs, needs_to_test)
    return found


def named(file):
    """What code says that reads this file: its path, or the folder that it is in or one around that."""
    folders = [str(folder) for folder in Path(file).parents[:-1]]
    return "|".join([f'["/]{re.escape(file)}"', *(f'["/]{re.escape(folder)}/?"' for folder in folders)])


def readers(file):
    """The files of crates that read this file of the repository."""
    return names("grep", "-lz", "-E", named(file), "--", "crates/*.rs")


def owners(file, crates, readers=readers):
    """The crates that a file belongs to."""
    if FOR_ALL.fullmatch(file):
        return set(crates)
    inside = [name for name, (folder, _, _) in crates.items() if file.startswith(f"{folder}/")]
    if inside:
        return {max(inside, key=lambda name: len(crates[name][0]))}
    if file.split("/")[0] not in READ_BY_TESTS:
        return set()
    return set().union(*(owners(reader, crates, readers) for reader in readers(file)))


def dependents(changed, crates):
    """The other crates whose tests these can break."""
    known = set(changed)
    while more := {name for name, (_, needs, _) in crates.items() if needs & known} - known:
        known |= more
    known |= {name for name, (_, _, needs_to_test) in crates.items() if needs_to_test & known}
    return known - set(changed)


def main():
    files, base = changed_files()
    all_crates = crates()
    changed = set().union(*(owners(file, all_crates) for file in files))
    others = dependents(changed, all_crates)
    print(f"| {len(files)} files differ from {base[:8]}", file=sys.stderr)
    print(f"| changed crates: {' '.join(sorted(changed)) or 'none'}", file=sys.stderr)
    print(f"| depend on them: {' '.join(sorted(others)) or 'none'}", file=sys.stderr)
    for name in sorted(changed | others):
        print(ROOT / all_crates[name][0])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(str(error))

"""Runs README's two commands as a newcomer would, in a clone of this repository, letter by letter.

    python3 tests/readme/clone.py CLONE CRATES

CLONE is the folder of the clone. If it is absent, it is cloned, and everything is compiled from nothing;
else it is brought up to date. Changes that are not committed yet are in it too. The commands are those of
the first console block below the heading `## Two commands` (see check.py):

1. The one that builds and runs the demo must write the report. Into the folder CRATES goes a record of
   how long each crate took to compile; from it, the time of the build and the longest chain of crates,
   each needed by the next one, are printed.
2. `./test`, with CANDOR_PARTS="format laws": it is this script's caller, which runs the other parts.

Exit code 0 if both end well, 1 if not.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from check import two_commands

ROOT = Path(__file__).resolve().parents[2]
REPORT = "candor-report/index.html"
PARTS = "format laws"
# What this repository's own test run sets, and a newcomer does not.
NOT_A_NEWCOMERS = ["CARGO_TARGET_DIR", "RUSTC_WORKSPACE_WRAPPER", "CANDOR_CACHE", "CANDOR_NESTED_BUILT",
                   "PYTHONDONTWRITEBYTECODE"]
# Cargo calls this instead of rustc. What the cargo of a build script compiles, which inherits NUM_JOBS, is part
# of that script's package: the one that carries the guest program, or the one with the libraries for QEMU.
RECORDER = """\
#!/bin/sh
name=${{CARGO_PKG_NAME:--}}
if [ -n "$NUM_JOBS" ]; then
    case "$*" in *"/plugins/"*) name=candor-vm ;; *) name=candor-init ;; esac
fi
begin=$(date +%s.%N)
"$@"
status=$?
echo "$name $begin $(date +%s.%N)" >> '{record}'
exit $status
"""


def git(*arguments, folder=ROOT, **options):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, **options).stdout


def prepare(clone):
    """Clones the repository or updates the clone; returns whether the clone is a new one."""
    is_new = not (clone / ".git").exists()
    if is_new:
        clone.parent.mkdir(parents=True, exist_ok=True)
        git("clone", "--quiet", str(ROOT), str(clone))
    else:
        git("fetch", "--quiet", str(ROOT), "HEAD", folder=clone)
        git("checkout", "--quiet", "--force", "--detach", "FETCH_HEAD", folder=clone)
        git("clean", "--quiet", "-d", "--force", folder=clone)
    if patch := git("diff", "--binary", "HEAD"):
        git("apply", "-", folder=clone, input=patch)
    for name in git("ls-files", "-z", "--others", "--exclude-standard").decode().split("\0"):
        if name:
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)
    return is_new


def run(text, clone, **variables):
    """Runs a command in the clone; returns how many seconds it took."""
    environment = {name: value for name, value in os.environ.items() if name not in NOT_A_NEWCOMERS}
    begin = time.monotonic()
    print(f"$ {text}", flush=True)
    subprocess.run(["bash", "-c", text], cwd=clone, env=environment | variables, check=True)
    return time.monotonic() - begin


def compilations(record):
    """When rustc ran for each package: `{name: [(begin, end), ...]}` in seconds."""
    packages = {}
    for line in record.read_text().splitlines():
        name, begin, end = line.split()
        packages.setdefault(name, []).append((float(begin), float(end)))
    return packages


def seconds_of(compilations):
    """How long a package was compiled; what ran at the same time counts once."""
    took, until = 0, 0
    for begin, end in sorted(compilations):
        took += max(end - max(begin, until), 0)
        until = max(until, end)
    return took


def longest_chain(packages, dependencies):
    """The packages, each needed by the next one, that take the longest together, with the seconds of each.

    A build takes this long, however many processors there are: time that a package waits for one does not count.
    """
    longest = {}

    def chain(name):
        if name not in longest:
            before = [chain(needed) for needed in dependencies.get(name, ()) if needed in packages]
            longest[name] = max(before, key=seconds, default=[]) + [(name, seconds_of(packages[name]))]
        return longest[name]

    def seconds(packages):
        return sum(took for _, took in packages)

    return max(map(chain, packages), key=seconds)


def dependencies_by_name(clone):
    """The names of the packages that each package needs to be built."""
    listed = subprocess.run(["cargo", "metadata", "--format-version=1", "--locked"], cwd=clone, check=True,
                            capture_output=True).stdout
    metadata = json.loads(listed)
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    found = {}
    for node in metadata["resolve"]["nodes"]:
        needed = [dep["pkg"] for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
        found.setdefault(names[node["id"]], set()).update(names[package] for package in needed)
    return found


def print_times(record, clone, seconds):
    packages = compilations(record)
    begin = min(begin for ran in packages.values() for begin, _ in ran)
    end = max(end for ran in packages.values() for _, end in ran)
    chain = longest_chain(packages, dependencies_by_name(clone))
    text = ", ".join(f"{name} {took:.0f} s" for name, took in chain if took >= 0.5)
    print(f"| from a new clone to the report: {seconds:.0f} s on {os.cpu_count()} processors, "
          f"of which {end - begin:.0f} s compiling {len(packages)} packages")
    print(f"| the longest chain of crates: {text}")


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 1
    clone, crates = (Path(name).resolve() for name in arguments)
    is_new = prepare(clone)
    demo, test = two_commands((clone / "README.md").read_text())

    crates.mkdir(parents=True, exist_ok=True)
    record, recorder = crates / "record", crates / "recorder"
    record.write_text("")
    recorder.write_text(RECORDER.format(record=record))
    recorder.chmod(0o755)
    (clone / REPORT).unlink(missing_ok=True)
    seconds = run(demo, clone, RUSTC_WRAPPER=str(recorder))
    if not (clone / REPORT).is_file():
        print(f"FAIL {demo}: it wrote no {REPORT}")
        return 1
    if is_new:
        print_times(record, clone, seconds)
    run(test, clone, CANDOR_PARTS=PARTS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Compares experiments of the simulation with what they were, to the last digit.

    python3 tests/tables/identity.py CANDOR                compared with identity.txt
    python3 tests/tables/identity.py CANDOR --write        identity.txt written
    python3 tests/tables/identity.py CANDOR --base OTHER   compared with another program, number by number

A line of identity.txt has the checksums of an experiment: of its lines per frame (CSV), and of all numbers of its result
by their keys. `claims` stands for the table of claims of a file. Checksums do not say what is different; --base does, with
a program of the commit that wrote identity.txt.

renamed.toml says under which key the numbers stood when identity.txt was written. So keys can move, and the
checksums stay.

Exit code 0 if everything is the same, 1 if not.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUMS = Path(__file__).with_name("identity.txt")
RENAMED = Path(__file__).with_name("renamed.toml")
# Files of experiments, with arguments.
FILES = {
    "campaigns/gateway-timing-sim.toml": ["--set", "per_frame=true"],
    "campaigns/tte-driver.toml": [],
    "campaigns/tte-load.toml": [],
    "campaigns/tte-paper.toml": [],
    "campaigns/tte-relay-delay.toml": [],
    "campaigns/tte-sync.toml": [],
    "examples/replay.toml": ["--set", "traffic.log=examples/recordings/drive.log"],
    "examples/sae.toml": [],
    "examples/small-car.toml": [],
}
# Files that have no claims.
WITHOUT_CLAIMS = ["examples/replay.toml", "examples/small-car.toml"]
# Differences that are shown.
MOST_SHOWN = 40


def numbers(value, key=""):
    """All numbers of a JSON value by their keys, such as `buses.0.frames`; `true` and `false` are numbers."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from numbers(inner, f"{key}.{index}")
    elif isinstance(value, (int, float)):
        yield key, value


def renaming(table):
    """What gives a key its former name: `table` has former names by names of today, where `*` is a place in a list.

    The longest name that a key begins with counts; a former name `""` is that of a number that was not there.
    """
    rules = []
    for today, former in sorted(table.items(), key=lambda it: -it[0].count(".")):
        pattern = r"\.".join(r"(\d+)" if part == "*" else re.escape(part) for part in today.split("."))
        rules.append((re.compile(rf"{pattern}(?=\.|$)"), former))

    def rename(key):
        for pattern, former in rules:
            if found := pattern.match(key):
                if not former:
                    return None
                places = iter(found.groups())
                return re.sub(r"\*", lambda _: next(places), former) + key[found.end() :]
        return key

    return rename


class Made:
    """What a program made of all files."""

    def __init__(self, program, rename):
        self.csv, self.numbers, self.claims = {}, {}, {}
        with tempfile.TemporaryDirectory() as folder:
            for file, arguments in FILES.items():
                self.make(program, file, arguments, Path(folder), rename)

    def make(self, program, file, arguments, folder, rename):
        out = folder / file.replace("/", "-")
        run(program, ["lab", "run", file, "--out", out, *arguments])
        for path in sorted((out / "results").glob("*.json")):
            name = f"{file}:{path.stem}"
            found = ((rename(key), value) for key, value in numbers(json.loads(path.read_text())))
            self.numbers[name] = {key: value for key, value in found if key}
            csv = path.with_suffix(".csv")
            self.csv[name] = csv.read_bytes() if csv.exists() else b""
        if file not in WITHOUT_CLAIMS:
            # A claim that does not hold is exit code 1, and a table all the same.
            claims = ["lab", "claims", file, "--markdown", "--out", f"{out}-claims"]
            self.claims[file] = run(program, claims, codes=(0, 1))

    def sums(self):
        """The lines of identity.txt."""
        lines = [f"{name} {checksum(self.csv[name])} {checksum_of(it)}" for name, it in self.numbers.items()]
        return lines + [f"{file}:claims {checksum(text)}" for file, text in self.claims.items()]


def run(program, arguments, codes=(0,)):
    """Standard output of the program, as bytes."""
    outcome = subprocess.run(
        [program, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if outcome.returncode not in codes:
        sys.exit(f"candor {' '.join(map(str, arguments))}: exit code {outcome.returncode}\n{outcome.stderr.decode()}")
    return outcome.stdout


def checksum(data):
    return hashlib.sha256(data).hexdigest()[:16]


def checksum_of(numbers):
    lines = (f"{key} {value!r}\n" for key, value in sorted(numbers.items()))
    return checksum("".join(lines).encode())


def differences(made, base):
    """What is not the same, a line each."""
    for name in sorted(made.numbers.keys() | base.numbers.keys()):
        ours, theirs = made.numbers.get(name), base.numbers.get(name)
        if ours is None or theirs is None:
            yield f"{name}: {'new' if theirs is None else 'gone'}"
            continue
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                yield f"{name}: {key}: {theirs.get(key)} -> {ours.get(key)}"
        pairs = zip(made.csv[name].splitlines(), base.csv[name].splitlines())
        different = next(((one, other) for one, other in pairs if one != other), None)
        if different:
            yield f"{name}: {different[1].decode()} -> {different[0].decode()}"
        elif made.csv[name] != base.csv[name]:
            yield f"{name}: another number of lines per frame"
    for file in made.claims:
        if made.claims[file] != base.claims[file]:
            yield f"{file}: another table of claims"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("candor")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--base", metavar="OTHER")
    arguments = parser.parse_args()
    made = Made(arguments.candor, renaming(tomllib.loads(RENAMED.read_text())["renamed"]))
    if arguments.base:
        found = list(differences(made, Made(arguments.base, lambda key: key)))
    elif arguments.write:
        SUMS.write_text("\n".join(made.sums()) + "\n")
        return 0
    else:
        lines, known = made.sums(), SUMS.read_text().splitlines()
        found = [f"now:    {line}" for line in lines if line not in known]
        found += [f"before: {line}" for line in known if line not in lines]
    for line in found[:MOST_SHOWN]:
        print(line)
    if len(found) > MOST_SHOWN:
        print(f"and {len(found) - MOST_SHOWN} more")
    print(f"{len(made.numbers)} experiments, {sum(map(len, made.numbers.values()))} numbers, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

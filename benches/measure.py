#!/usr/bin/env python3
"""Makes the tables of docs/performance.md that tell of one machine again, in one run.

    benches/measure.py [--rounds N] [NAME...]            prints them
    benches/measure.py --write [--rounds N] [NAME...]    writes them into docs/performance.md

All benches run in turn, N times (3), each with its peers; they are built with the profile dist. A number is the median of
the rounds; where a cell has one number, its least and greatest stand behind it. A table stands between two comments:

    <!-- bench NAME: COMMIT, MACHINE -->
    <!-- end of bench -->

Every table of that kind must be one of BENCHES, and the other way round. Let nothing else run: the load of the machine is
told before the build, which is a load itself, and before the run, and must be below half of its processors with --write.
A bench that fails costs its own table only, and the exit code is 2.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/performance.md"
# The benches, by the package that each is of.
BENCHES = {
    "speed": "candor-lab",
    "queues": "candor-queue",
    "log_read": "candor-recording",
    "signal_decode": "candor-signals",
    "signals_pace": "candor-signal-service",
    "gateway": "candor-gateway",
    "relay": "candor-gateway",
    "python_package": None,  # a program of Python, with the package of this repository
}
NUMBER = re.compile(r"\d+(?:\.\d+)?")
PLACE = re.compile(r"<!-- bench (\w+): [^>]*-->\n.*?<!-- end of bench -->", re.DOTALL)


class Failure(Exception):
    """What is wrong, for people."""


def cells(line):
    """The cells of a line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(text):
    """The lines of the first table of a text, as cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    if len(lines) < 3:
        raise Failure(f"this is no table:\n{text}")
    return [cells(line) for line in lines if not set(line) <= set("|-: ")]


def median(texts):
    """The median of a number that was written in several ways, with its digits."""
    digits = max(len(text.partition(".")[2]) for text in texts)
    return f"{statistics.median(map(float, texts)):.{digits}f}"


def merged(rounds):
    """A cell of all rounds: medians, and the range of a single number that differs."""
    numbers = [NUMBER.findall(cell) for cell in rounds]
    frames = {NUMBER.sub("#", cell) for cell in rounds}
    if len(set(rounds)) == 1:
        return rounds[0]
    if len(frames) != 1:
        raise Failure(f"the rounds differ in more than numbers: {', '.join(sorted(frames))}")
    columns = list(zip(*numbers))
    medians = iter([median(column) for column in columns])
    text = NUMBER.sub(lambda _: next(medians), rounds[0])
    if len(columns) == 1:
        least, most = min(columns[0], key=float), max(columns[0], key=float)
        text += f" ({least} to {most})"
    return text


def merge(rounds):
    """One table of several with the same rows; the first column names a row and is not measured."""
    tables = [table(text) for text in rounds]
    if len({tuple(row[0] for row in rows) for rows in tables}) != 1:
        raise Failure("the rounds have other rows")
    head, *rows = zip(*tables)
    lines = [head[0], ["---"] * len(head[0])]
    lines += [[row[0][0], *(merged(list(cell)) for cell in list(zip(*row))[1:])] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def build():
    """Compiles all benches at once, so that each has what the others have; their programs, by name."""
    command = ["cargo", "bench", "--quiet", "--profile", "dist", "--no-run", "--message-format=json"]
    compiled = {name: package for name, package in BENCHES.items() if package}
    for package in sorted(set(compiled.values())):
        command += ["-p", package]
    for name in compiled:
        command += ["--bench", name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failure("the benches do not compile")
    found = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["kind"] == ["bench"]:
            found[message["target"]["name"]] = [message["executable"]]
    return found


def python_environment():
    """The interpreter of an environment with the package, built as it is installed, and its peers."""
    folder = ROOT / "target/bench-python"
    python = folder / "bin/python"
    build = [folder / "bin/maturin", "build", "--profile", "dist", "--locked", "--quiet", "--manifest-path", "python/Cargo.toml", "--out", folder / "wheel"]
    install = [python, "-m", "pip", "install", "--quiet"]
    shutil.rmtree(folder / "wheel", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([*install, "-r", "tests/python/requirements.txt"], cwd=ROOT, check=True)
    subprocess.run(build, cwd=ROOT, check=True)
    subprocess.run([*install, "--no-index", "--no-deps", "--force-reinstall", *(folder / "wheel").glob("*.whl")], check=True)
    return python


def run(name, program):
    """What a bench prints."""
    done = subprocess.run([*program, "--bench"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{name}: {program[-1]} failed")
    return done.stdout


def measured(programs, count):
    """The tables of so many rounds of each bench, by name; and what failed: that bench runs no more, the others go on."""
    rounds, failures, made = {name: [] for name in programs}, {}, {}
    for number in range(count):
        for name, program in programs.items():
            if name in failures:
                continue
            print(f"round {number + 1} of {count}: {name}", file=sys.stderr)
            try:
                rounds[name].append(run(name, program))
            except (Failure, OSError) as failure:
                failures[name] = str(failure)
    for name in set(programs) - set(failures):
        try:
            made[name] = merge(rounds[name])
        except Failure as failure:
            failures[name] = f"{name}: {failure}"
    return {name: made[name] for name in programs if name in made}, failures


def said(command):
    """The first line that a program prints."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]


def machine():
    """What the figures depend on."""
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    parts = [said(["git", "describe", "--always", "--dirty"]), f"{os.cpu_count()} processors"]
    parts += [cpu[1].strip() if cpu else "unknown", f"Linux {os.uname().release}", said(["rustc", "--version"])]
    return ", ".join(parts)


def look_at_load(when, must_be_quiet):
    """Tells the load of the last minute, which a run that is written must not have."""
    load = os.getloadavg()[0]
    print(f"load before the {when}: {load:.2f}", file=sys.stderr)
    if must_be_quiet and load > os.cpu_count() / 2:
        raise Failure(f"the machine is busy before the {when}; wait until nothing else runs, and begin again (what is built stays)")


def rounds_of(text):
    """How often each bench runs: at least once."""
    if (rounds := int(text)) < 1:
        raise ValueError
    return rounds


def main():
    """Runs, and prints or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/performance.md")
    parser.add_argument("--rounds", type=rounds_of, metavar="N", default=3, help="how often each bench runs")
    parser.add_argument("name", nargs="*", help="only these benches")
    arguments = parser.parse_args()
    document = DOCUMENT.read_text()
    places = {match[1] for match in PLACE.finditer(document)}
    if places != set(BENCHES):
        raise Failure(f"{DOCUMENT.name} has tables of {sorted(places)}, and there are {sorted(BENCHES)}")
    names = arguments.name or list(BENCHES)
    if unknown := set(names) - set(BENCHES):
        raise Failure(f"there is no bench {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    look_at_load("build", arguments.write)
    programs = build() if any(BENCHES[name] for name in names) else {}
    if "python_package" in names:
        programs["python_package"] = [python_environment(), ROOT / "benches/python_package.py"]
    look_at_load("run", arguments.write)
    made, failures = measured({name: programs[name] for name in names}, arguments.rounds)
    here = machine()
    made = {name: f"<!-- bench {name}: {here} -->\n{text}<!-- end of bench -->" for name, text in made.items()}
    if arguments.write:
        DOCUMENT.write_text(PLACE.sub(lambda match: made.get(match[1], match[0]), document))
    else:
        print("\n\n".join(made.values()))
    if failures:
        kept = f"; the tables of {', '.join(made)} are {'written' if arguments.write else 'above'}" if made else ""
        raise Failure("\n".join(failures.values()) + kept)


if __name__ == "__main__":
    try:
        main()
    except (Failure, OSError, subprocess.CalledProcessError) as failure:
        print(failure, file=sys.stderr)
        sys.exit(2)

#!/usr/bin/env python3
"""Counts the instructions of the hot paths under callgrind, and compares them with the table beside this file.

    tests/instructions/count.py [--program FILE] [--write] [CASE...]

A case is one of benches/instructions.rs. Each runs in a process of its own: a first time to warm up, then counted. The
table has, for each case, instructions per operation and of which functions they are. Without --write, a case that differs
from its line by more than 2 % in either direction is an error, and so is one that the table lacks or has beside. With
--write, the lines of the cases are written anew: in the commit that means it.
"""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TABLE = HERE / "table.txt"
# By how much a count may differ from its line.
TOLERANCE = 0.02
# Functions of a case with a smaller part of its instructions than this stand together as "others".
PART = 0.02
HEAD = """\
# Instructions per operation of the hot paths (benches/instructions.rs), and of which functions they are.
# Written by `python3 tests/instructions/count.py --write`; compared by `python3 tests/instructions/count.py`.
"""


class Failure(Exception):
    """What is wrong, for people."""


def build():
    """Compiles the cases as users' programs are compiled; the program."""
    command = ["cargo", "build", "--quiet", "--release", "-p", "candor-cli", "-p", "candor-counted"]
    command += ["--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        raise Failure("benches/instructions.rs does not compile")
    found = re.findall(r'"executable":"([^"]*/instructions)"', built.stdout)
    return found[-1]


def compiler():
    """The version of the compiler."""
    said = subprocess.run(["rustc", "--version"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return said.stdout.strip()


def parse(text):
    """Of what callgrind writes (without compressed names): instructions by function."""
    counts, function, is_call = {}, None, False
    for line in text.splitlines():
        if line.startswith("fn="):
            function = line[3:]
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[0-9+*-]", line):
            # Behind `calls=` stands what the called function costs, which counts with its own lines.
            if not is_call and function is not None:
                counts[function] = counts.get(function, 0) + int(line.split()[1])
            is_call = False
    return counts


def plain(function):
    """A name without the hash that changes with each compiler, and without what callgrind adds."""
    function = re.sub(r"::h[0-9a-f]{16}\b", "", function)
    return re.sub(r"'\d+$", "", function)


def count(program, case, operations):
    """Instructions per operation of a case, by function."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        command = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no"]
        command += ["--compress-pos=no", "--collect-atstart=no", "--toggle-collect=instructions::measured*"]
        done = subprocess.run([*command, program, case], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{case}: callgrind failed: {done.stderr.strip()[-500:]}")
        counts = parse(out.read_text())
    by_name = {}
    for function, instructions in counts.items():
        name = plain(function)
        by_name[name] = by_name.get(name, 0) + instructions / operations
    if sum(by_name.values()) == 0:
        raise Failure(f"{case}: nothing was counted")
    return by_name


def summed(by_name):
    """The functions with a part of 2 % or more, the largest first; all others together."""
    total = sum(by_name.values())
    large = {name: part for name, part in by_name.items() if part >= PART * total and name != "others"}
    others = total - sum(large.values())
    ordered = sorted(large.items(), key=lambda item: (-item[1], item[0]))
    return dict([*ordered, ("others", others)])


def read_table(text):
    """Compiler, and functions by case."""
    made_by, cases, case = None, {}, None
    for line in text.splitlines():
        if line.startswith("# rustc "):
            made_by = line[2:]
        elif line and not line.startswith(("#", " ")):
            case = cases.setdefault(line.split()[0], {})
        elif line.startswith(" "):
            part, name = line.strip().split(" ", 1)
            case[name.strip()] = float(part)
    return made_by, cases


def written(made_by, cases):
    """The table as text."""
    lines = [HEAD + f"# {made_by}\n"]
    for case in sorted(cases):
        functions = cases[case]
        lines.append(f"{case} {sum(functions.values()):.2f}")
        lines += [f"    {part:10.2f} {name}" for name, part in functions.items()]
    return "\n".join(lines) + "\n"


def difference(case, old, new):
    """What to say of a case whose count is another one; nothing if it is the same."""
    before, after = sum(old.values()), sum(new.values())
    if abs(after - before) <= TOLERANCE * before:
        return None
    changes = {name: new.get(name, 0) - old.get(name, 0) for name in {*old, *new}}
    largest = sorted(changes.items(), key=lambda item: (-abs(item[1]), item[0]))[:6]
    said = [f"{case}: {before:.2f} -> {after:.2f} instructions ({(after / before - 1) * 100:+.1f} %)"]
    said += [f"    {change:+10.2f} {name}" for name, change in largest if abs(change) > TOLERANCE * before / 4]
    return "\n".join(said)


def measured(program, wanted):
    """Functions by case, of all cases or of those that are wanted."""
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout
    cases = {name: int(operations) for name, operations in map(str.split, listed.splitlines())}
    for name in wanted:
        if name not in cases:
            raise Failure(f"there is no case `{name}`; the cases are {', '.join(sorted(cases))}")
    chosen = {name: cases[name] for name in wanted} or cases
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        counts = {name: pool.submit(count, program, name, operations) for name, operations in chosen.items()}
        return {name: summed(of.result()) for name, of in counts.items()}, set(cases)


def main():
    """Counts, and compares or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the compiled cases; they are built if not given")
    parser.add_argument("--write", action="store_true", help="write the lines of the cases")
    parser.add_argument("case", nargs="*", help="only these")
    arguments = parser.parse_args()
    program = arguments.program or build()
    new, known = measured(program, arguments.case)
    version = compiler()
    made_by, old = read_table(TABLE.read_text()) if TABLE.exists() else (version, {})
    if arguments.write:
        kept = {name: functions for name, functions in old.items() if name in known and made_by == version}
        TABLE.write_text(written(version, {**kept, **new}))
        return 0
    beside = set() if arguments.case else set(old) - known
    said = [f"{name}: the table has no such line; write it with --write" for name in sorted(set(new) - set(old))]
    said += [f"{name}: there is no such case any more; write the table with --write" for name in sorted(beside)]
    said += filter(None, (difference(name, old[name], new[name]) for name in sorted(new) if name in old))
    if said:
        said.append("If that is meant: python3 tests/instructions/count.py --write, in the same commit")
        if made_by != version:
            said.append(f"The table is of {made_by}, and this is {version}: that alone may be the reason")
        raise Failure("\n".join(said))
    print(f"{len(new)} cases, each within {TOLERANCE:.0%} of its line")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)

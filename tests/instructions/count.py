#!/usr/bin/env python3
"""Counts the instructions of the hot paths under callgrind, and compares them with the table beside this file.

    tests/instructions/count.py [--program FILE] [--write] [CASE...]

A case is one of benches/instructions.rs. Each runs in a process of its own: a first time to warm up, then counted. The
table has, for each case, instructions per operation and of which functions they are. Without --write, a case that differs
from its line by more than 2 % in either direction is an error, and so is one that the table lacks or has beside. With
--write, the lines of the cases are written anew: in the commit that means it. Exit codes: 0 all is as the table says, 1 it
is not, 2 an error.
"""

import argparse
import concurrent.futures
import os
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
# The library of C has variants of memcpy, memcmp and others for each kind of processor. Counted are those that each has.
NO_VARIANTS = "glibc.cpu.hwcaps=" + ",".join(
    "-" + feature
    for feature in "AVX512F AVX512VL AVX2 AVX_Fast_Unaligned_Load ERMS FSRM Prefer_ERMS Prefer_FSRM SSSE3 SSE4_1 SSE4_2 BMI2 "
    "MOVBE RTM".split()
)
HEAD = """\
# Instructions per operation of the hot paths (benches/instructions.rs), and of which functions they are.
# Written by `python3 tests/instructions/count.py --write`; compared by `python3 tests/instructions/count.py`.
"""
REWRITE = "write all of it anew with --write"


class Failure(Exception):
    """What is wrong, for people."""


class Difference(Failure):
    """What is not as the table says."""


def build():
    """Compiles the cases as users' programs are compiled; the program."""
    command = ["cargo", "build", "--quiet", "--release", "-p", "candor-cli", "-p", "candor-counted"]
    command += ["--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        raise Failure("benches/instructions.rs does not compile")
    return re.findall(r'"executable":"([^"]*/instructions)"', built.stdout)[-1]


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
        environment = {**os.environ, "GLIBC_TUNABLES": NO_VARIANTS}
        try:
            done = subprocess.run([*command, program, case], capture_output=True, text=True, env=environment, check=False)
        except FileNotFoundError:
            raise Failure("there is no valgrind; install it, with such as `apt install valgrind`") from None
        if done.returncode != 0 or not out.exists():
            raise Failure(f"{case}: valgrind counted nothing: {done.stderr.strip()[-500:] or 'it does not say why'}")
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
    made_by, sums, cases = None, {}, {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("# rustc "):
            made_by = line[2:]
        elif (head := re.fullmatch(r"([^\s#]\S*) (\d+\.\d\d)", line)) and head[1] not in cases:
            functions = cases[head[1]] = {}
            sums[head[1]] = float(head[2])
        elif cases and (part := re.fullmatch(r" +(-?\d+\.\d\d) (\S.*)", line)) and part[2] not in functions:
            functions[part[2]] = float(part[1])
        elif line and not line.startswith("#"):
            raise Failure(f"{TABLE.name}:{number}: this is no line of the table: `{line}`; {REWRITE}")
    for case, functions in cases.items():
        # Each is rounded.
        if abs(sum(functions.values()) - sums[case]) > 0.01 * len(functions):
            raise Failure(f"{TABLE.name}: the functions of {case} do not make {sums[case]:.2f}; {REWRITE}")
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
    try:
        listed = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=False).stdout
    except OSError as error:
        raise Failure(f"{program} does not run: {error.strerror}; without --program, it is built") from None
    cases = {name: int(operations) for name, operations in re.findall(r"^(\S+) (\d+)$", listed, re.MULTILINE)}
    if not cases:
        raise Failure(f"{program} --list names no cases; it must be benches/instructions.rs, compiled")
    for name in wanted:
        if name not in cases:
            raise Failure(f"there is no case `{name}`; the cases are {', '.join(sorted(cases))}")
    chosen = {name: cases[name] for name in wanted} or cases
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        counts = {name: pool.submit(count, program, name, operations) for name, operations in chosen.items()}
        try:
            return {name: summed(of.result()) for name, of in counts.items()}, set(cases)
        finally:
            # What is left after an error or Ctrl-C is not begun.
            pool.shutdown(wait=False, cancel_futures=True)


def main():
    """Counts, and compares or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the compiled cases; they are built if not given")
    parser.add_argument("--write", action="store_true", help="write the lines of the cases")
    parser.add_argument("case", nargs="*", help="only these")
    arguments = parser.parse_args()
    version = compiler()
    is_anew = arguments.write and not arguments.case
    made_by, old = (version, {}) if is_anew or not TABLE.exists() else read_table(TABLE.read_text(errors="replace"))
    if arguments.write and made_by != version:
        raise Failure(f"the table is of {made_by}, and this is {version}; {REWRITE}")
    new, known = measured(arguments.program or build(), arguments.case)
    if arguments.write:
        kept = {name: functions for name, functions in old.items() if name in known}
        fresh = TABLE.with_suffix(".new")
        try:
            fresh.write_text(written(version, {**kept, **new}))
            fresh.replace(TABLE)
        finally:
            fresh.unlink(missing_ok=True)
        return
    beside = set() if arguments.case else set(old) - known
    said = [f"{name}: the table has no such line; write it with --write" for name in sorted(set(new) - set(old))]
    said += [f"{name}: there is no such case any more; write the table with --write" for name in sorted(beside)]
    said += filter(None, (difference(name, old[name], new[name]) for name in sorted(new) if name in old))
    if said:
        said.append("If that is meant: python3 tests/instructions/count.py --write, in the same commit")
        if made_by != version:
            said.append(f"The table is of {made_by}, and this is {version}: that alone may be the reason")
        said.append("Another version of the library of C, or a processor without AVX2, may be one, too")
        raise Difference("\n".join(said))
    # Without a buffer, so that a full disk is told here.
    os.write(1, f"{len(new)} cases, each within {TOLERANCE:.0%} of its line\n".encode())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        print(failure, file=sys.stderr)
        sys.exit(1 if isinstance(failure, Difference) else 2)

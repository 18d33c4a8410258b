"""Changes the code in small ways, one at a time, and looks whether a test fails: each change that no test
sees is a hole in the tests.

    python3 tests/mutants.py PACKAGE [--sample COUNT] [--seed SEED] [--shard K/N] [--jobs JOBS]
    python3 tests/mutants.py --summary

PACKAGE is a crate without `candor-`, such as `wire`. It needs cargo-mutants (`cargo install cargo-mutants`),
which makes the changes; the tests of the changed crate are what must see them. The tests beside the code
are quick to build, so they come first; what they do not see is made again for all tests of the crate.

--sample takes COUNT of the changes, drawn with --seed (default 1); without it, all are made. --shard 1/4
takes the first quarter of what is left, so that each part fits into a working day. What a shard found is kept
in target/mutants/PACKAGE.json; shards of one package add up there, and a change that is made again replaces
what was known of it. --summary prints all that is known as a table, and each change that no test has seen.

Exit code 0 if every change of this run was seen, 1 if not.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KNOWN = ROOT / "target/mutants"
# A change that makes a test run for ever is seen, too.
SEEN = {"CaughtMutant", "Timeout"}
OUTCOMES = ["CaughtMutant", "Timeout", "MissedMutant", "Unviable"]
# cargo-mutants runs the unchanged tests first, and gives a changed one this many times as long.
TIMEOUT_FACTOR = 4


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("package", nargs="?")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--summary", action="store_true")
    chosen = parser.parse_args()
    if chosen.summary == bool(chosen.package):
        parser.error("name one package, or --summary")
    return chosen


def all_mutants(package):
    """The names of all changes, in the order of the files."""
    command = ["cargo", "mutants", "--list", "--json", "--package", f"candor-{package}"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [mutant["name"] for mutant in json.loads(listed)]


def choose(names, sample, seed, shard):
    """The names that this run is about."""
    if sample is not None:
        drawn = set(random.Random(seed).sample(range(len(names)), min(sample, len(names))))
        names = [name for index, name in enumerate(names) if index in drawn]
    part, parts = (int(number) for number in shard.split("/"))
    if not 1 <= part <= parts:
        sys.exit(f"--shard {shard}: there is no such part; the first one of four is 1/4")
    return [name for index, name in enumerate(names) if index % parts == part - 1]


def make(package, names, jobs):
    """Makes the changes; returns the outcome of each."""
    made = make_for_tests(package, names, jobs, ["--lib"])
    if rest := [name for name, outcome in made.items() if outcome == "MissedMutant"]:
        made |= make_for_tests(package, rest, jobs, [])
    return made


def make_for_tests(package, names, jobs, tests):
    """Makes the changes, and runs the tests that `cargo test TESTS` runs; returns the outcome of each."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mutants.toml"
        patterns = [f"^{re.escape(name)}$".replace("\\ ", " ") for name in names]
        config.write_text(f"examine_re = {json.dumps(patterns)}\n")
        command = ["cargo", "mutants", "--config", str(config), "--package", f"candor-{package}",
                   "--output", folder, "--all-features", "--jobs", str(jobs), "--colors=never", "--no-shuffle",
                   "--timeout-multiplier", str(TIMEOUT_FACTOR), "--minimum-test-timeout", "10",
                   "--", *tests]
        status = subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode
        # 2: some were not seen; 3: some took too long.
        if status not in (0, 2, 3):
            sys.exit(f"cargo mutants ended with {status}")
        outcomes = json.loads((Path(folder) / "mutants.out/outcomes.json").read_text())["outcomes"]
    made = {it["scenario"]["Mutant"]["name"]: it["summary"] for it in outcomes if it["scenario"] != "Baseline"}
    if absent := set(names) - set(made):
        sys.exit(f"{len(absent)} changes were not made, among them {min(absent)}")
    return made


def known(package):
    file = KNOWN / f"{package}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def summarize():
    print("| crate | changes made | seen by a test | seen by the clock | not seen | do not compile |")
    print("|---|---|---|---|---|---|")
    missed = []
    for file in sorted(KNOWN.glob("*.json")):
        outcomes = known(file.stem)
        count = Counter(outcomes.values())
        print(f"| `{file.stem}` | {len(outcomes)} | " + " | ".join(str(count[it]) for it in OUTCOMES) + " |")
        missed += [name for name, outcome in outcomes.items() if outcome == "MissedMutant"]
    for name in missed:
        print(name)


def main():
    chosen = arguments()
    if chosen.summary:
        summarize()
        return 0
    every = all_mutants(chosen.package)
    names = choose(every, chosen.sample, chosen.seed, chosen.shard)
    print(f"{len(names)} of {len(every)} changes, seed {chosen.seed}, part {chosen.shard}", file=sys.stderr)
    made = make(chosen.package, names, chosen.jobs)
    KNOWN.mkdir(parents=True, exist_ok=True)
    # What is no longer a change of this code is forgotten.
    kept = {name: outcome for name, outcome in known(chosen.package).items() if name in set(every)}
    (KNOWN / f"{chosen.package}.json").write_text(json.dumps(kept | made, indent=1) + "\n")
    not_seen = [name for name, outcome in made.items() if outcome not in SEEN | {"Unviable"}]
    print("\n".join(not_seen))
    return 1 if not_seen else 0


if __name__ == "__main__":
    sys.exit(main())

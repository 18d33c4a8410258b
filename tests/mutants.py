"""Changes the code in small ways, one at a time, and looks whether a test fails: each change that no test
sees is a hole in the tests.

    python3 tests/mutants.py PACKAGE [--file GLOB] [--sample COUNT] [--seed SEED] [--shard K/N] [--rest]
                             [--jobs JOBS]
    python3 tests/mutants.py --summary

PACKAGE is a crate without `candor-`, such as `wire`. It needs cargo-mutants (`cargo install cargo-mutants`),
which makes the changes; the tests of the changed crate are what must see them. Tests that are quick, such as
those beside the code, come first, with few cases for each property; what they do not see is made again for all tests of the crate.

--file takes only changes of files whose path matches, such as '*/check/*.rs'. --sample takes COUNT of them, drawn
with --seed (default 1); without it, all are made. --shard 1/4 takes the first quarter of what is left, so that each part fits into a working day. What a shard found is kept
in target/mutants/PACKAGE.json, also after Ctrl-C; shards of one package add up there, and a change that is made
again replaces what was known of it. --rest makes only what is not known there, or was not seen. --summary
prints all that is known as a table, and each change that no test has seen.

tests/mutants.toml lists changes that no test can see, because the program does the same with them, and why.

Exit code 0 if every change of this run was seen or is explained there, 1 if not.
"""

import argparse
import fnmatch
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KNOWN = ROOT / "target/mutants"
EXPLAINED = ROOT / "tests/mutants.toml"
# A change that makes a test run for ever is seen, too.
SEEN = {"CaughtMutant", "Timeout"}
# Compiling is what takes long, so large crates are not optimised in the first round.
NOT_OPTIMISED = {"engine", "rules", "signals", "sim"}
# Whose tests must see the changes of a crate, if not only its own.
TESTED_BY = {"engine": ["engine", "rules"]}
# Without those that take a second if they are not optimised: these wait for the second round.
QUICK_TESTS_OF_RULES = ["--tests", "--", *(f"--skip={test}" for test in (
    "a_search_that_takes_too_long_is_given_up_and_reported",
    "a_successor_goes_on_where_the_earlier_engine_was",
    "an_image_decides_as_its_program_does",
    "the_number_of_interfaces_is_limited",
    "every_changed_byte_is_refused_or_gives_a_program",
    "many_single_identifiers_are_no_trouble",
    "no_prefix_of_an_image_is_one",
    "the_engine_does_what_the_rules_say",
    "the_program_matches_as_the_rules_do",
    "there_is_a_limit_to_what_tables_hold_together",
    "what_is_explained_is_what_a_fresh_engine_does",
))]
# The tests of the first round, if they are not those beside the code.
FIRST = {"engine": QUICK_TESTS_OF_RULES, "rules": QUICK_TESTS_OF_RULES}
# How many cases a property test draws in the first round.
FIRST_CASES = 16
# cargo-mutants runs the unchanged tests first, and gives a changed one this many times as long.
TIMEOUT_FACTOR = 4


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("package", nargs="?")
    parser.add_argument("--file", default="*")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--rest", action="store_true")
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


def make(package, names, jobs, keep):
    """Makes the changes; `keep` gets the outcomes."""
    opt_level = 0 if package in NOT_OPTIMISED else 1
    first = FIRST.get(package, ["--lib"])
    made = make_for_tests(package, names, jobs, opt_level, first, FIRST_CASES)
    is_explained = explained()
    rest = [name for name, outcome in made.items() if outcome == "MissedMutant" and not is_explained(name)]
    keep({name: outcome for name, outcome in made.items() if name not in rest})
    if rest and set(names) <= set(made):
        made |= make_for_tests(package, rest, jobs, 1, [])
        keep({name: made[name] for name in rest})
    if absent := set(names) - set(made):
        sys.exit(f"{len(absent)} changes were not made, among them {min(absent)}")
    return made


def make_for_tests(package, names, jobs, opt_level, tests, cases=None):
    """Makes the changes, and runs the tests that `cargo test TESTS` runs; returns the outcomes."""
    tested_by = TESTED_BY.get(package, [package])
    cargo_arguments = ["--all-features"]
    for name in tested_by:
        cargo_arguments += ["--config", f"profile.dev.package.candor-{name}.opt-level={opt_level}"]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mutants.toml"
        patterns = [f"^{re.escape(name)}$".replace("\\ ", " ") for name in names]
        config.write_text(f"examine_re = {json.dumps(patterns)}\n")
        command = ["cargo", "mutants", "--config", str(config), "--package", f"candor-{package}",
                   *(f"--test-package=candor-{name}" for name in tested_by),
                   "--output", folder, "--jobs", str(jobs), "--colors=never", "--no-shuffle",
                   "--timeout-multiplier", str(TIMEOUT_FACTOR), "--minimum-test-timeout", "10",
                   *(f"--cargo-arg={argument}" for argument in cargo_arguments), "--", *tests]
        # Ctrl-C ends cargo-mutants too; what it has found until then counts.
        previous = signal.signal(signal.SIGINT, lambda *_: None)
        environment = os.environ | ({"PROPTEST_CASES": str(cases)} if cases else {})
        status = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, env=environment).returncode
        signal.signal(signal.SIGINT, previous)
        outcomes = Path(folder) / "mutants.out/outcomes.json"
        # 2: some were not seen; 3: some took too long.
        if status not in (0, 2, 3):
            print(f"cargo mutants ended with {status}", file=sys.stderr)
            if not outcomes.exists():
                sys.exit(1)
        made = json.loads(outcomes.read_text())["outcomes"]
    made = {it["scenario"]["Mutant"]["name"]: it["summary"] for it in made if it["scenario"] != "Baseline"}
    # Two changes may have one name, and the pattern of one finds both.
    return {name: made[name] for name in names if name in made}


def known(package):
    file = KNOWN / f"{package}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def explained():
    """Tells whether a change is in the list of those that change nothing."""
    patterns = [re.compile(it["change"]) for it in tomllib.loads(EXPLAINED.read_text())["same"]]
    return lambda name: any(pattern.search(name) for pattern in patterns)


def summarize():
    print("| crate | changes made | seen by a test | seen by the clock | change nothing | not seen | do not compile |")
    print("|---|---|---|---|---|---|---|")
    not_seen = []
    is_explained = explained()
    for file in sorted(KNOWN.glob("*.json")):
        outcomes = known(file.stem)
        count = Counter(outcomes.values())
        missed = [name for name, outcome in outcomes.items() if outcome == "MissedMutant"]
        open_ones = [name for name in missed if not is_explained(name)]
        not_seen += open_ones
        cells = [len(outcomes), count["CaughtMutant"], count["Timeout"], len(missed) - len(open_ones),
                 len(open_ones), count["Unviable"]]
        print(f"| `{file.stem}` | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    for name in not_seen:
        print(name)


def main():
    chosen = arguments()
    if chosen.summary:
        summarize()
        return 0
    every = all_mutants(chosen.package)
    of_files = [name for name in every if fnmatch.fnmatch(name.split(":")[0], chosen.file)]
    if not of_files:
        sys.exit(f"--file {chosen.file}: no file with changes matches")
    names = choose(of_files, chosen.sample, chosen.seed, chosen.shard)
    if chosen.rest:
        outcomes, is_explained = known(chosen.package), explained()
        done = {name for name, it in outcomes.items() if it in SEEN | {"Unviable"} or is_explained(name)}
        names = [name for name in names if name not in done]

    def keep(made):
        KNOWN.mkdir(parents=True, exist_ok=True)
        # What is no longer a change of this code is forgotten.
        kept = {name: it for name, it in known(chosen.package).items() if name in set(every)}
        (KNOWN / f"{chosen.package}.json").write_text(json.dumps(kept | made, indent=1) + "\n")

    print(f"{len(names)} of {len(every)} changes, seed {chosen.seed}, part {chosen.shard}", file=sys.stderr)
    made = make(chosen.package, names, chosen.jobs, keep) if names else {}
    is_explained = explained()
    not_seen = [
        name
        for name, outcome in made.items()
        if outcome not in SEEN | {"Unviable"} and not is_explained(name)
    ]
    print("\n".join(not_seen))
    return 1 if not_seen else 0


if __name__ == "__main__":
    sys.exit(main())

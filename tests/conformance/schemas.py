"""Compares what candor prints and reads with its own JSON Schemas, by the validator jsonschema (PyPI).

    tests/.venv/bin/python tests/conformance/schemas.py path/to/candor

The schemas must be of draft 2020-12. Each line that `--json` prints must fit exactly one object of `candor help
json --schema`, and the files in examples and campaigns must fit `candor route schema` and `candor lab schema`.
These two schemas must take and refuse the same files of crates/cli/testdata/schema-cases.toml as the commands that
read such files. crates/cli/tests/json.rs and schemas.rs look at the same more closely, but not at regular
expressions; here another program than candor's tests reads the schemas. Exit code 0 if everything fits, 1 if not.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[2]
LOG = "examples/recordings/drive.log"
RULES = "examples/gateway/recording.rules.toml"
CASES = "crates/cli/testdata/schema-cases.toml"
# The commands that read the files of a group and change nothing.
READERS = {"lab": "list", "network": "show", "route": "check", "signals": "check"}
# Commands that need no machine and no network. `OUT` stands for an empty folder.
COMMANDS = [
    "frame 123#DEADBEEF 123##1AABB",
    "log info LOG --bitrate 500k",
    "log decode LOG --dbc examples/small-car.dbc",
    "bus list",
    "bus dump file:LOG?speed=max --dbc examples/small-car.dbc",
    "bus load file:LOG?speed=max@500k",
    "bus record file:LOG?speed=max --output OUT/recorded.log",
    "bus replay LOG file:OUT/replayed.log --speed max",
    "route check RULES --plan",
    "route explain examples/small-car.rules.toml powertrain 19E#0001A0B0C0D0E0F0",
    "network show examples/small-car.network.toml",
    "tte check examples/one-switch.tte.toml",
    "tte model examples/one-switch.tte.toml --sizes",
    "tte run campaigns/tte-paper.toml --only bytes-64 --set count=50 --out OUT/tte",
    "lab list campaigns/gateway-timing.toml",
    "lab list campaigns/gateway-timing.toml --coverage",
    "lab run examples/small-car.toml --only car --set count=100 --out OUT/run",
    "lab claims campaigns/gateway-timing-sim.toml --set count=50 --out OUT/claims",
    "doctor",
    "vm kernels",
]


def words(command, folder):
    """A command as arguments, with `--json`."""
    command = command.replace("LOG", LOG).replace("RULES", RULES).replace("OUT", folder)
    return [*command.split(), "--json"]


def printed(candor, arguments):
    """The lines of a command. Its answer may be no."""
    done = subprocess.run([candor, *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"candor {' '.join(arguments)}: {done.stderr}")
    return done.stdout.splitlines()


def wrong(schema, lines):
    """A sentence for each line that does not fit exactly one object."""
    validators = [Draft202012Validator(choice) for choice in schema["oneOf"]]
    for line in lines:
        value = json.loads(line)
        fitting = [validator.schema["title"] for validator in validators if validator.is_valid(value)]
        if len(fitting) != 1:
            yield f"{len(fitting)} objects fit {line}: {fitting}"


def schema_of(candor, arguments):
    """A schema that candor prints."""
    schema = json.loads("\n".join(printed(candor, arguments)))
    Draft202012Validator.check_schema(schema)
    return schema


def wrong_files(candor):
    """A sentence for each mistake in a file of examples and campaigns."""
    rules, networks, signals, scheduled, experiments = (
        Draft202012Validator(schema_of(candor, [group, "schema"]))
        for group in ("route", "network", "signals", "tte", "lab")
    )
    files = [path for folder in ("examples", "campaigns") for path in (ROOT / folder).rglob("*.toml")]
    if not files:
        yield "there are no files"
    for path in files:
        of_kind = {".rules.toml": rules, ".network.toml": networks, ".signals.toml": signals, ".tte.toml": scheduled}
        validator = next((it for end, it in of_kind.items() if path.name.endswith(end)), experiments)
        for error in validator.iter_errors(tomllib.loads(path.read_text())):
            yield f"{path.relative_to(ROOT)}: {error.json_path}: {error.message}"


def wrong_cases(candor, folder):
    """A sentence for each case on which a schema or a command is mistaken."""
    for group, cases in tomllib.loads((ROOT / CASES).read_text()).items():
        validator = Draft202012Validator(schema_of(candor, [group, "schema"]))
        for kind in ("right", "wrong"):
            for case in cases[kind]:
                path = Path(folder, "case.toml")
                path.write_text(cases["base"] + case)
                command = [candor, group, READERS[group], path]
                is_read = subprocess.run(command, capture_output=True, check=False).returncode == 0
                fits = validator.is_valid(tomllib.loads(path.read_text()))
                for who, accepts in (("the schema", fits), ("the command", is_read)):
                    if accepts != (kind == "right"):
                        yield f"{who} of {group} is mistaken about this {kind} case: {case}"


def main():
    candor = str(Path(sys.argv[1]).resolve())
    schema = schema_of(candor, ["help", "json", "--schema"])
    failures, count = list(wrong_files(candor)), 0
    with tempfile.TemporaryDirectory() as folder:
        failures += wrong_cases(candor, folder)
        for command in COMMANDS:
            lines = printed(candor, words(command, folder))
            if not lines and command != "vm kernels":
                failures.append(f"candor {command} printed nothing")
            failures += wrong(schema, lines)
            count += len(lines)
    for failure in failures[:20]:
        print(failure)
    print(f"{count} lines of {len(COMMANDS)} commands: {len(failures)} are wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Compares what `candor bus` writes with what its peers read.

    tests/.venv/bin/python tests/conformance/bus.py path/to/candor

* python-can (PyPI) reads what `candor bus dump -L` and `candor bus record` made of each candump log
  of ../shared/data; every message must be the one that it reads from the log itself.
* log2asc (Debian package `can-utils`), of whatever age, reads the same, and must tell the same times
  and frames.

Nothing here needs CAN. Exit code 0 if all agree, 1 if not. What is absent is skipped with a printed
line, unless the environment variable CI is `true`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CANDUMP_LOGS = [
    "ford-focus/lights.log",
    "toyota-auris/lights.log",
    "j1939/j1939.log",
    "savvycan/candump.log",
]
# Every kind of frame, which the recordings do not have.
KINDS = """\
(1436509052.249713) can0 123#DEADBEEF
(1436509052.249714) can0 12345678#1122334455667788
(1436509053.000000) can0 123#R
(1436509053.500000) can0 1F0##1AABBCCDD
(1436509054.999999) can0 7FF#
"""


def run(*arguments):
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def by_python_can(path):
    import can

    fields = "timestamp arbitration_id is_extended_id is_remote_frame is_fd bitrate_switch dlc data"
    with can.LogReader(path) as reader:
        return [tuple(getattr(message, field) for field in fields.split()) for message in reader]


def by_log2asc(path, interfaces):
    lines = run("log2asc", "-I", str(path), *interfaces).splitlines()
    # The first line tells when it was made.
    return [line for line in lines if not line.startswith("date ")]


def differences(candor, log, folder, has_log2asc):
    """What is not read as it was, in words."""
    interfaces = sorted({line.split()[1] for line in log.read_text().splitlines() if line})
    for interface in interfaces:
        one = folder / f"{log.stem}-{interface}.log"
        lines = (line for line in log.read_text().splitlines() if line.split()[1:2] == [interface])
        one.write_text("".join(f"{line}\n" for line in lines))
        port = f"{interface}=file:{one}?speed=max"
        dumped, recorded = folder / "dumped.log", folder / "recorded.log"
        dumped.write_text(run(candor, "bus", "dump", port, "-L"))
        run(candor, "bus", "record", port, "--output", str(recorded), "--force")
        for made in (dumped, recorded):
            if by_python_can(made) != by_python_can(one):
                yield f"{log.name}, {interface}: python-can reads {made.stem} differently"
            if has_log2asc and by_log2asc(made, [interface]) != by_log2asc(one, [interface]):
                yield f"{log.name}, {interface}: log2asc reads {made.stem} differently"
        recorded.unlink()


def main():
    candor = sys.argv[1]
    is_ci = os.environ.get("CI") == "true"
    has_log2asc = shutil.which("log2asc") is not None
    if not has_log2asc:
        print("log2asc is absent; install it with: sudo apt-get install can-utils")
        if is_ci:
            return 1
    found, compared = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = folder / "kinds.log"
        kinds.write_text(KINDS)
        for log in [kinds, *(DATA / log for log in CANDUMP_LOGS)]:
            if not log.exists():
                print(f"{log.name} is absent: skipped")
                if is_ci:
                    return 1
                continue
            found.extend(differences(candor, log, folder, has_log2asc))
            compared += 1
    for line in found:
        print(line)
    print(f"{compared} logs compared, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

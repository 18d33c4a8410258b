"""Compares how candor and cantools (PyPI) decode the same frames.

    tests/.venv/bin/python tests/conformance/signals.py path/to/candor

For each DBC file of ../shared/data and signals.dbc beside this script, both decode frames with
arbitrary data for every message, and recordings. They must agree on the message of each frame, on
the signals in it, and on raw values, physical values (within 1e-9 of the value) and names of
values. Exit code 0 if all agree, 1 if not. Without ../shared/data only signals.dbc is tried, and
a line says so; with CI=true that is a failure.
"""

import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cantools

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data"
RECORDINGS = [
    ("j1939/j1939.log", "j1939/css-j1939-demo.dbc"),
    ("savvycan/candump.log", "savvycan/ThinkCity.dbc"),
    ("savvycan/candump.log", "dbc/gm_global_a_powertrain.dbc"),
    ("ford-focus/accel.log", "dbc/ford_lincoln_base_pt.dbc"),
    ("toyota-auris/lights.log", "dbc/cadillac_ct6_object.dbc"),
]
FRAMES_PER_MESSAGE = 40
MAX_FRAMES_PER_RECORDING = 20_000
FD_LENGTHS = [*range(9), 12, 16, 20, 24, 32, 48, 64]
TOLERANCE = 1e-9
SEED = 1
# What is told of a frame that cantools does not decode.
UNDECODED = "undecoded"


def load(path):
    """Not strict: files with signals that overlap are read too."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("cp1252")
    # cantools passes over names of values without a semicolon at their end.
    text = re.sub(r'^(VAL_ .*")[ \t]*$', r"\1 ;", text, flags=re.MULTILINE)
    try:
        return cantools.database.load_string(text, strict=False)
    except cantools.database.UnsupportedDatabaseFormatError as error:
        # cantools refuses a file with names of values for a signal that is not there.
        unused = re.findall(r"VAL_ \d+ \w+", str(error))
        if not unused:
            raise
        lines = [line for line in text.splitlines() if not line.startswith(tuple(unused))]
        print(f"{path.name}: for cantools without {', '.join(unused)}")
        return cantools.database.load_string("\n".join(lines), strict=False)


def notation(can_id, is_extended, data, is_fd):
    return f"{can_id:0{8 if is_extended else 3}X}{'##0' if is_fd else '#'}{data.hex().upper()}"


def arbitrary_frames(database, rng):
    """(the peer's message, data, notation) for every message."""
    for message in database.messages:
        lengths = [length for length in FD_LENGTHS if length >= message.length]
        if not lengths:
            continue  # longer than a frame
        is_fd = lengths[0] > 8
        for number in range(FRAMES_PER_MESSAGE):
            data = [bytes(lengths[0]), b"\xff" * lengths[0]][number] if number < 2 else None
            if data is None:
                data = rng.randbytes(lengths[0])
            if number % 4 == 3:
                # Small numbers meet selectors and names of values.
                data = bytes(byte & rng.choice([0, 1, 3, 7, 0xFF]) for byte in data)
            if number % 8 == 7:
                data = data[: rng.choice([length for length in FD_LENGTHS if length <= len(data)])]
            can_id = message.frame_id
            if is_j1939(database, message):
                can_id = can_id & 0x03FFFF00 | rng.randrange(8) << 26 | rng.randrange(256)
            yield message, data, notation(can_id, message.is_extended_frame, data, is_fd)


def is_j1939(database, message):
    return message.is_extended_frame and message.protocol == "j1939"


def recorded_frames(database, path):
    """(the peer's message or None, data, notation) for different frames of a recording."""
    by_id = {(it.frame_id, it.is_extended_frame): it for it in database.messages}
    groups = {it.frame_id & 0x03FFFF00: it for it in database.messages if is_j1939(database, it)}
    seen = set()
    for line in path.read_text().splitlines():
        text = line.split()[2]
        can_id, data = text.split("#")
        if text in seen or data.startswith("R"):
            continue
        if len(seen) == MAX_FRAMES_PER_RECORDING:
            return
        seen.add(text)
        is_extended, can_id = len(can_id) == 8, int(can_id, 16)
        message = by_id.get((can_id, is_extended))
        if message is None and is_extended:
            message = groups.get(can_id & 0x03FFFF00)
        data = bytes.fromhex(data)
        yield message, data, notation(can_id, is_extended, data, False)


def by_candor(candor, dbc, frames):
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "frames.log")
        log.write_text("".join(f"(0000000001.000000) can0 {text}\n" for _, _, text in frames))
        arguments = [candor, "log", "decode", str(log), "--dbc", str(dbc), "--json"]
        ran = subprocess.run(arguments, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"candor ends with {ran.returncode}: {ran.stderr}")
    return [json.loads(line)["data"] for line in ran.stdout.splitlines()]


def decode(message, data, **options):
    return message.decode(data, allow_truncated=True, **options)


def same(ours, peers):
    if ours is None:  # JSON has neither infinity nor a value for no number
        return not math.isfinite(peers)
    return math.isclose(ours, peers, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def difference(ours, message, data):
    """What differs in a frame, if anything does."""
    if ours["message"] != (message.name if message else None):
        return f"message: candor {ours['message']}, cantools {message.name if message else None}"
    if message is None:
        return None
    try:
        raw = decode(message, data, decode_choices=False, scaling=False)
    except cantools.database.DecodeError:
        if message.is_multiplexed():
            return UNDECODED
        raise
    physical = decode(message, data, decode_choices=False)
    named = decode(message, data)
    signals = {it["name"]: it for it in ours["signals"]}
    if set(signals) != set(raw):
        return f"signals: candor {sorted(signals)}, cantools {sorted(raw)}"
    for name, signal in signals.items():
        is_float = message.get_signal_by_name(name).conversion.is_float
        if not is_float and signal["raw"] != raw[name]:
            return f"raw {name}: candor {signal['raw']}, cantools {raw[name]}"
        if not same(signal["value"], physical[name]):
            return f"{name}: candor {signal['physical']}, cantools {physical[name]}"
        choice = named[name] if isinstance(named[name], str) else getattr(named[name], "name", None)
        if not is_float and signal["text"] != choice:
            return f"name of {name}: candor {signal['value_name']}, cantools {choice}"
        if signal["unit"] != (message.get_signal_by_name(name).unit or ""):
            return f"unit of {name}: candor {signal['unit']}"
    return None


class Comparison:
    def __init__(self, candor):
        self.candor = candor
        self.disagreements = 0

    def agree(self, title, dbc, frames):
        frames = list(frames)
        ours = by_candor(self.candor, dbc, frames)
        signals = sum(len(frame["signals"]) for frame in ours)
        decoded = sum(frame["message"] is not None for frame in ours)
        found = [] if len(ours) == len(frames) else [f"candor decodes {len(ours)} frames"]
        if not signals:
            found.append("candor decodes no value")
        undecoded = 0
        for our, (message, data, text) in zip(ours, frames):
            differs = difference(our, message, data)
            if differs == UNDECODED:
                undecoded += 1
            elif differs:
                found.append(f"{text}: {differs}")
        self.disagreements += len(found)
        for what in found[:5]:
            print(f"DIFFERENT: {title}: {what}")
        print(
            f"{title}: {len(frames)} frames, {decoded} decoded, {signals} values, "
            f"{undecoded} not decoded by cantools, {len(found)} differ"
        )


def main():
    comparison = Comparison(str(Path(sys.argv[1]).resolve()))
    files = [HERE / "signals.dbc", *sorted(DATA.glob("*/*.dbc"))]
    print(f"seed {SEED}")
    for dbc in files:
        database = load(dbc)
        frames = arbitrary_frames(database, random.Random(SEED))
        comparison.agree(f"{dbc.name}, every message", dbc, frames)
    if DATA.exists():
        for recording, name in RECORDINGS:
            dbc = DATA / name
            frames = recorded_frames(load(dbc), DATA / recording)
            comparison.agree(f"{recording} with {dbc.name}", dbc, frames)
    else:
        print("skipped: ../shared/data is absent (it holds recordings and DBC files)")
    must_be_complete = os.environ.get("CI") == "true"
    is_complete = DATA.exists() or not must_be_complete
    return 0 if comparison.disagreements == 0 and is_complete else 1


if __name__ == "__main__":
    sys.exit(main())

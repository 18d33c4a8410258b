"""Calls everything that hands memory over between Python and Rust, for valgrind to look at:

    PYTHONMALLOC=malloc valgrind --leak-check=full --show-leak-kinds=definite python tests/python/under_valgrind.py

There must be no invalid read or write, and no stack with `_candor` but one: 80 bytes are lost once, in `create_type_object` of PyO3, for the table
of a class. "Uninitialised" values are those that the interpreter reads when it imports.
"""

import pathlib

import candor

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVE = ROOT / "examples/recordings/drive.log"
DATABASE = candor.Database(ROOT / "examples/small-car.dbc")


def look(frames):
    """What is right."""
    for table in [*candor.decode(DRIVE, DATABASE).values(), candor.values(frames, DATABASE), candor.frames(DRIVE)]:
        table.__arrow_c_stream__()
    assert sum(len(batch) for batch in candor.batches(DRIVE, DATABASE, rows=100)) > 100
    rules = candor.Rules.load(ROOT / "examples/gateway/recording.rules.toml")
    assert list(rules.apply(frames, map={"can0": "car"}))
    candor.bus_load(DRIVE, 500_000)


def stumble():
    """What is wrong."""
    for call in [
        lambda: candor.decode("no-such.log", DATABASE),
        lambda: candor.Frame("no frame"),
        lambda: DATABASE.encode_message("VehicleSpeed", {"Speed": 1e9}),
        lambda: candor.values([candor.Frame("7FF#00")], DATABASE),
    ]:
        try:
            call()
        except (OSError, ValueError, candor.Error):
            continue
        raise AssertionError("this is wrong, and was taken")


if __name__ == "__main__":
    some = list(candor.read(DRIVE))[:500]
    for _ in range(2):
        look(some)
        stumble()
    print("all was called")

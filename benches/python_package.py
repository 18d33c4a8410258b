"""How fast the Python package is, against python-can, cantools, processes and Ray in the same run.

    python benches/python_package.py --bench

Run by an interpreter that has the package and tests/python/requirements.txt; `benches/measure.py python_package` makes one. Without --bench, a
little of everything. The recording is candump text: the messages of a DBC file of the shared data in turn, with random data, as no recording
there has its DBC file. The two sides take turns; the best of ROUNDS of each counts. What the rows compare:

- values: `candor.decode` of all signals, into tables; then these tables as NumPy, pyarrow and Polars, without the time of decoding.
- frames: every frame of the recording, as an object of each side's reader, one after the other, or as columns.
- decode: from the file to a number for each signal of each known frame, without names of values. cantools decodes what python-can reads; "in
  memory" does not count its reading, but ours.
- two threads: two drives in two threads of one process, against two processes that were started before.
- a folder of drives into Parquet: by two workers of a local cluster of Ray that runs already, by two processes, and by one.
"""

import concurrent.futures
import functools
import gc
import itertools
import logging
import multiprocessing
import pathlib
import random
import shutil
import sys
import tempfile
import time

import can
import candor
import cantools
import numpy
import polars
import pyarrow
import ray
from candor import distributed

DBC = pathlib.Path(__file__).resolve().parents[1] / "../shared/data/dbc/ford_lincoln_base_pt.dbc"
SEED = 41
IS_BENCH = "--bench" in sys.argv
ROUNDS = 5 if IS_BENCH else 1
# Frames of the recording that the package reads, of the one that its peers read too, of each in a folder, and how many are in it.
LONG, SHORT, EACH, FOLDER = (1_500_000, 500_000, 1_000_000, 8) if IS_BENCH else (1_000, 1_000, 1_000, 2)


def drive(path, database, frames, seed=SEED):
    """Writes a recording."""
    source = random.Random(seed)
    messages = [(f"{message.frame_id:0{8 if message.is_extended_frame else 3}X}", message.length) for message in database.messages if message.length <= 8]
    with open(path, "w") as file:
        for number, (name, length) in zip(range(frames), itertools.cycle(messages)):
            file.write(f"({number // 4_000}.{number % 4_000 * 250:06}) can0 {name}#{source.randbytes(length).hex().upper()}\n")


def seconds(task):
    """The time that a task takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def best(*tasks):
    """The least time of each task; they take turns."""
    return [min(times) for times in zip(*([seconds(task) for task in tasks] for _ in range(ROUNDS)))]


def row(what, *cells):
    """A line of the table."""
    print(f"| {what} | {' | '.join(cells)} |", flush=True)


def values(tables):
    """How many values there are in tables of messages; the first columns are time and bus."""
    return sum(table.num_rows * (table.num_columns - 2) for table in map(pyarrow.table, tables.values()))


def to_numpy(tables):
    """Every column of numbers, without a copy where none is missing."""
    for table in map(pyarrow.table, tables.values()):
        for column in table.itercolumns():
            for chunk in column.chunks:
                numpy.asarray(chunk)


def python_can(path):
    """All frames, one after the other."""
    with can.LogReader(path) as reader:
        yield from reader


def count(frames):
    """How many they are; none is kept, as the collector of garbage would go through what is kept over and over, of both sides."""
    return sum(1 for _ in frames)


def cantools_decode(database, messages):
    """Decodes the frames that the database knows."""
    known = {message.frame_id for message in database.messages}
    for message in messages:
        if message.arbitration_id in known:
            database.decode_message(message.arbitration_id, message.data, decode_choices=False, allow_truncated=True)


def decode(path, dbc):
    """Decodes a recording; what it gives stays where it is."""
    candor.decode(path, dbc)


def compare(folder):
    """Prints the table."""
    long, short = folder / "long.log", folder / "short.log"
    database, other = candor.Database(DBC), cantools.database.load_file(DBC, strict=False)
    drive(long, other, LONG)
    drive(short, other, SHORT)
    print("| what | candor | peer | times the peer |\n|---|---|---|---|")

    tables = candor.decode(long, database)
    found = values(tables)
    whole, numpy_only, arrow, frame = best(
        lambda: to_numpy(candor.decode(long, database)),
        lambda: to_numpy(tables),
        lambda: [pyarrow.table(table) for table in tables.values()],
        lambda: [polars.DataFrame(table) for table in tables.values()],
    )
    row(f"{found / 1e6:.1f} M values from candump text into NumPy", f"{whole:.2f} s", "", "")
    for name, time_taken in (("NumPy", numpy_only), ("pyarrow", arrow), ("Polars", frame)):
        row(f"these tables as {name}", f"{time_taken * 1e3:.0f} ms", "", "")

    objects, columns, peer = best(lambda: count(candor.read(short)), lambda: candor.frames(short), lambda: count(python_can(short)))
    for name, ours in (("objects", objects), ("columns", columns)):
        row(f"frames as {name}, against python-can", f"{SHORT / ours / 1e6:.2f} M/s", f"{SHORT / peer / 1e6:.2f} M/s", f"{peer / ours:.1f}")

    messages = list(python_can(short))
    gc.freeze()
    ours, reading, in_memory = best(
        lambda: decode(short, database),
        lambda: cantools_decode(other, python_can(short)),
        lambda: cantools_decode(other, messages),
    )
    for name, theirs in (("with python-can", reading), ("of frames in memory", in_memory)):
        cells = (f"{SHORT / each / 1e6:.2f} M/s" for each in (ours, theirs))
        row(f"decode of a drive, against cantools {name}", *cells, f"{theirs / ours:.1f}")

    task = functools.partial(decode, long, database)
    with concurrent.futures.ThreadPoolExecutor(2) as threads, multiprocessing.get_context("spawn").Pool(2) as processes:
        processes.starmap(decode, [(short, DBC)] * 4)
        ours, theirs = best(
            lambda: [ended.result() for ended in [threads.submit(task) for _ in range(2)]],
            lambda: processes.starmap(decode, [(long, database)] * 2, chunksize=1),
        )
    row("two drives in two threads, against two processes", f"{ours:.2f} s", f"{theirs:.2f} s", f"{theirs / ours:.2f}")
    del tables, messages
    on_many(folder, other)


def on_many(folder, database):
    """A folder of drives, on processes and on Ray."""
    drives = folder / "drives"
    drives.mkdir()
    for number in range(FOLDER):
        drive(drives / f"{number}.log", database, EACH, SEED + number)
    # Not the cluster that may run on this machine already.
    ray.init(address="local", num_cpus=2, log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
    outs = (folder / f"out{number}" for number in itertools.count())
    written = []

    def run(**arguments):
        out = next(outs)
        manifest = distributed.decode(drives, DBC, out, **arguments)
        assert len(manifest["parts"]) == FOLDER, manifest
        written.append(size(out.rglob("*.parquet")))
        shutil.rmtree(out)

    try:
        run(on="ray")
        on_ray, two, one = best(lambda: run(on="ray"), lambda: run(workers=2), lambda: run(workers=1))
    finally:
        ray.shutdown()
    frames = FOLDER * EACH
    what = f"{frames / 1e6:.1f} M frames of {FOLDER} drives into Parquet"
    row(f"{what}: Ray, against two processes", f"{on_ray:.2f} s", f"{two:.2f} s", f"{two / on_ray:.2f}")
    row(f"{what}: two processes, against one", f"{two:.2f} s", f"{one:.2f} s", f"{one / two:.2f}")
    row("bytes of a frame in candump text, and in Parquet", f"{size(drives.iterdir()) / frames:.1f} and {written[0] / frames:.1f}", "", "")


def size(paths):
    """The bytes of files."""
    return sum(path.stat().st_size for path in paths)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as temporary:
        compare(pathlib.Path(temporary))

"""A folder of recordings as partitioned Parquet, and campaigns, on the processors of this machine or on a cluster of Ray.

    from candor import distributed
    manifest = distributed.decode("drives/", "car.dbc", "decoded/")
    polars.scan_parquet("decoded/message=EngineSpeed/*.parquet")

Needs pyarrow; with `on="ray"` also Ray: `pip install 'candor[ray]'`.

Each recording is a task. It writes a part: a file for each message, under a temporary name, and renames it. A part is named by the hash of the
recording, its path below the folder, the DBC file, the settings and this program, so a task that runs twice writes the same bytes under the same
name. The part is complete once its record is in `parts/`, and `manifest.json` names the parts that count, in the order of the recordings'
paths; what else is in the folder is left over from other runs, and swept. So the result does not depend on how many workers there were, which
of them died, or how often the call was stopped and made again.
"""

import contextlib
import fcntl
import fnmatch
import functools
import hashlib
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import candor
import candor._candor

__all__ = ["campaign", "decode"]

SCHEMA = "candor-parts 1"
# Rows of a row group of Parquet, at most, and of all tables in memory.
ROWS = 1_000_000
# A task whose worker ends so often is given up: it would end every worker.
ATTEMPTS = 3
PART = re.compile(r"[0-9a-f]{32}\.(?:parquet|json)")
TEMPORARY = ".candor-part-"


def decode(
    folder: str | os.PathLike[str],
    dbc: Any,
    out: str | os.PathLike[str],
    *,
    pattern: str = "*",
    signals: str | list[str] | None = None,
    bus: str | list[str] | None = None,
    skip_malformed: bool = False,
    workers: int | None = None,
    on: str = "processes",
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Decodes all recordings below a folder into `out`, a file of Parquet for each message and recording; returns the manifest.

    `pattern` is what the names of recordings are like, such as `*.blf`. Other arguments are those of `candor.decode`. `workers` is the number of
    processes (one for each processor); on Ray, the cluster decides. `on` is `processes` or `ray`.
    `progress` is called with the number of recordings that are done, of all, and the path of the latest; without, a line a second is written to
    standard error if that is a terminal.

    Parts of an earlier call that are complete are taken as they are. Files that are no recordings are listed in `passed_over` of the manifest.
    If recordings fail, the others are decoded first, the manifest lists them in `failed`, and `candor.Error` is raised.
    """
    _pyarrow()
    run = _runner(on, workers)
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    recordings = _recordings(folder, out, pattern)
    database = candor.Database(dbc)
    settings = {
        "task": "decode",
        "dbc": database.text.decode("latin-1"),
        "dbc_name": database.name,
        "signals": [signals] if isinstance(signals, str) else signals,
        "bus": [bus] if isinstance(bus, str) else bus,
        "skip_malformed": skip_malformed,
        "folder": str(folder.absolute()),
        "out": str(out.absolute()),
    }
    (out / "parts").mkdir(parents=True, exist_ok=True)
    with _locked(out):
        _sweep(out, lambda name: name.startswith(TEMPORARY))
        ended = []
        shown = progress or _Line()
        for done, outcome in enumerate(run(settings, recordings), 1):
            ended.append(outcome)
            shown(done, len(recordings), outcome["of"])
        manifest = _manifest(settings, ended)
        _write(out / "manifest.json", json.dumps(manifest, indent=1) + "\n")
        taken = {pathlib.Path(file["file"]).name for part in manifest["parts"] for file in part["messages"].values()}
        taken |= {f"{part['part']}.json" for part in manifest["parts"]}
        _sweep(out, lambda name: name.startswith(TEMPORARY) or PART.fullmatch(name) and name not in taken)
    if manifest["failed"]:
        first = manifest["failed"][0]
        raise candor.Error(
            f"{len(manifest['failed'])} of {len(recordings)} recordings could not be decoded, the others are in {out}; "
            f"the first: {first['recording']}: {first['error']}"
        )
    return manifest


def campaign(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    shards: int | None = None,
    workers: int | None = None,
    on: str = "processes",
    program: str = "candor",
    arguments: list[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> pathlib.Path:
    """Runs the experiments of a file in shards, merges their results into `out`, and writes the report there; returns its path.

    Each shard is `PROGRAM lab run FILE --shard N/M` with the `arguments`, for which the program `candor` must be installed wherever tasks run, and
    `out` be a folder that all of them see. `shards` is the number of parts (four for each worker). Shards of an earlier call with the same file,
    arguments and program are taken as they are. `candor.Error` is raised, with what the program said, if one fails.
    """
    run = _runner(on, workers)
    file, out = pathlib.Path(file).absolute(), pathlib.Path(out).absolute()
    text = file.read_bytes()
    count = shards or 4 * (workers or os.cpu_count() or 1)
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    of = json.dumps([SCHEMA, version, count, arguments or []]).encode() + text
    settings = {
        "task": "campaign",
        "command": [program, "lab", "run", str(file), *(arguments or [])],
        "out": str(out),
        "key": hashlib.blake2b(of, digest_size=16).hexdigest(),
    }
    (out / "shards").mkdir(parents=True, exist_ok=True)
    with _locked(out):
        shown = progress or _Line()
        names = [f"{number}/{count}" for number in range(1, count + 1)]
        ended = []
        for done, outcome in enumerate(run(settings, names), 1):
            ended.append(outcome)
            shown(done, count, f"shard {outcome['of']}")
        failed = [outcome for outcome in sorted(ended, key=lambda outcome: outcome["of"]) if "error" in outcome]
        if failed:
            raise candor.Error(f"{len(failed)} of {count} shards failed; the first: {failed[0]['of']}: {failed[0]['error']}")
        shutil.rmtree(out / "results", ignore_errors=True)
        for outcome in ended:
            if (results := out / outcome["shard"] / "results").is_dir():
                shutil.copytree(results, out / "results", dirs_exist_ok=True)
        merged = subprocess.run([program, "lab", "report", str(out)], capture_output=True, text=True)
        if merged.returncode:
            raise candor.Error(f"{program} lab report {out}: {merged.stderr.strip()}")
        shutil.rmtree(out / "shards")
    return out / "index.html"


@contextlib.contextmanager
def _locked(out: pathlib.Path) -> Iterator[None]:
    """While it is held, no other call writes into the folder."""
    with open(out / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise candor.Error(f"{out}: another call writes here; wait for its end, or give another folder") from None
        yield


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("candor.distributed writes Parquet with pyarrow: pip install pyarrow") from error
    return pyarrow


def _recordings(folder: pathlib.Path, out: pathlib.Path, pattern: str) -> list[str]:
    """The files below a folder, but those in `out`, by their paths below it, in order."""
    if not folder.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(folder))
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and pathlib.Path(place, name).resolve() != out.resolve()]
        paths = (pathlib.Path(place, name) for name in files if not name.startswith(".") and fnmatch.fnmatch(name, pattern))
        found += [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
    if not found:
        raise candor.Error(f"{folder}: no file in the folder is called like {pattern!r}; give the folder with the recordings")
    return sorted(found)


def _manifest(settings: dict[str, Any], ended: list[dict[str, Any]]) -> dict[str, Any]:
    """What a run made, in the order of the recordings."""
    ended = sorted(ended, key=lambda outcome: outcome["of"])
    manifest = {
        "schema": SCHEMA,
        "program": _program(),
        "dbc": hashlib.sha256(settings["dbc"].encode("latin-1")).hexdigest(),
        **{key: settings[key] for key in ("signals", "bus", "skip_malformed")},
    }
    for key, kind in (("parts", "part"), ("passed_over", "reason"), ("failed", "error")):
        found = (outcome for outcome in ended if kind in outcome)
        manifest[key] = [{"recording": outcome["of"]} | outcome for outcome in found]
        for entry in manifest[key]:
            del entry["of"]
    return manifest


def _sweep(out: pathlib.Path, is_left_over: Callable[[str], Any]) -> None:
    """Removes files of earlier calls: only in the folders that this module makes, and only of names that it gives."""
    for place in (out / "parts", *out.glob("message=*")):
        for path in place.iterdir():
            if is_left_over(path.name):
                path.unlink(missing_ok=True)


def _write(path: pathlib.Path, text: str) -> None:
    """Writes a file that is there only when it is complete."""
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}")
    try:
        temporary.write_text(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _Line:
    """Progress as a line on a terminal, once a second and at the end."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, done: int, count: int, recording: str) -> None:
        if sys.stderr.isatty() and (done == count or time.monotonic() - self.last >= 1):
            self.last = time.monotonic()
            print(f"[{done}/{count}] {recording}", file=sys.stderr)


# ---- A task --------------------------------------------------------------------------------------


def _program() -> str:
    """The hash of what decodes."""
    digest = hashlib.blake2b(digest_size=16)
    for path in (candor._candor.__file__, __file__):
        digest.update(pathlib.Path(path).read_bytes())
    return digest.hexdigest()


def _name(settings: dict[str, Any], recording: str, path: pathlib.Path) -> str:
    """The name of the part of a recording: the hash of all that it is made of."""
    digest = hashlib.blake2b(digest_size=16)
    of = [SCHEMA, _program(), recording, *(settings[key] for key in ("dbc", "signals", "bus", "skip_malformed"))]
    digest.update(json.dumps(of).encode())
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _task(settings: dict[str, Any], recording: str) -> dict[str, Any]:
    """Decodes a recording, unless its part is there; returns what the manifest says of it."""
    path = pathlib.Path(settings["folder"], recording)
    try:
        try:
            candor.read(path).close()
        except candor.RecordingError as error:
            return {"of": recording, "reason": str(error)}
        name = _name(settings, recording, path)
        record = pathlib.Path(settings["out"], "parts", f"{name}.json")
        try:
            outcome = json.loads(record.read_text())
            if all(pathlib.Path(settings["out"], file["file"]).is_file() for file in outcome["messages"].values()):
                return outcome
        except (OSError, ValueError, KeyError):
            pass  # not decoded yet
        outcome = {"of": recording, "part": name, **_decode(settings, path, name)}
        _write(record, json.dumps(outcome) + "\n")
        return outcome
    except (OSError, candor.Error, MemoryError) as error:
        return {"of": recording, "error": f"{type(error).__name__}: {error}"}


def _decode(settings: dict[str, Any], path: pathlib.Path, name: str) -> dict[str, Any]:
    """Writes the files of a part."""
    pyarrow = _pyarrow()
    out = pathlib.Path(settings["out"])
    writers: dict[str, tuple[pathlib.Path, Any]] = {}
    rows: dict[str, int] = {}
    database = candor.parse_dbc(settings["dbc_name"], settings["dbc"].encode("latin-1"))
    pieces = candor.batches(path, database, rows=ROWS, **{key: settings[key] for key in ("signals", "bus", "skip_malformed")})
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for piece in pieces:
                for message, table in piece.items():
                    table = pyarrow.table(table)
                    if message not in writers:
                        place = out / f"message={message}"
                        place.mkdir(exist_ok=True)
                        temporary = place / f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
                        writers[message] = (temporary, pyarrow.parquet.ParquetWriter(temporary, table.schema, compression="zstd"))
                    writers[message][1].write_table(table)
                    rows[message] = rows.get(message, 0) + len(table)
        messages = {}
        for message in sorted(writers):
            temporary, writer = writers[message]
            writer.close()
            file = f"message={message}/{name}.parquet"
            temporary.replace(out / file)
            messages[message] = {"file": file, "rows": rows[message]}
    finally:
        for temporary, writer in writers.values():
            writer.close()
            temporary.unlink(missing_ok=True)
    return {"messages": messages, "warnings": [str(warning.message) for warning in caught]}


def _shard(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """Runs a shard of a campaign, unless it is there."""
    shard = f"shards/{settings['key']}-{name.replace('/', '-')}"
    target = pathlib.Path(settings["out"], shard)
    if target.is_dir():
        return {"of": name, "shard": shard}
    temporary = target.with_name(f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}")
    try:
        command = [*settings["command"], "--shard", name, "--out", str(temporary)]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if ran.returncode > 1:
            return {"of": name, "error": ran.stderr.strip() or f"exit code {ran.returncode}"}
        temporary.mkdir(exist_ok=True)
        temporary.replace(target)
        return {"of": name, "shard": shard}
    except OSError as error:
        return {"of": name, "error": str(error)}
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# ---- Who runs tasks ------------------------------------------------------------------------------


def _runner(on: str, workers: int | None) -> Callable[[dict[str, Any], list[str]], Iterator[dict[str, Any]]]:
    """What runs tasks."""
    if on == "ray":
        return _on_ray
    if on == "processes":
        return functools.partial(_on_processes, workers=workers or os.cpu_count() or 1)
    raise ValueError(f"on={on!r}: there are 'processes' and 'ray'")


def _run(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """A task."""
    return {"decode": _task, "campaign": _shard}[settings["task"]](settings, name)


def _on_processes(settings: dict[str, Any], names: list[str], workers: int) -> Iterator[dict[str, Any]]:
    """Runs tasks in processes of this machine. A process that dies takes only its task with it, which is done again."""
    tasks: queue.SimpleQueue[tuple[str, int] | None] = queue.SimpleQueue()
    ended: queue.SimpleQueue[dict[str, Any] | BaseException] = queue.SimpleQueue()
    for name in names:
        tasks.put((name, 1))
    pool = [_Worker(settings, tasks, ended) for _ in range(max(1, min(workers, len(names))))]
    try:
        for _ in names:
            outcome = ended.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        for worker in pool:
            worker.stop()
        for _ in pool:
            tasks.put(None)
        for worker in pool:
            worker.thread.join()


class _Worker:
    """A process that runs tasks, and the thread that gives it them."""

    def __init__(self, settings: dict[str, Any], tasks: Any, ended: Any) -> None:
        self.settings, self.tasks, self.ended = settings, tasks, ended
        self.child: Any = None
        self.is_stopped = False
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while (task := self.tasks.get()) is not None and not self.is_stopped:
            name, attempt = task
            try:
                outcome = self.ask(name)
            except (OSError, ValueError) as error:
                if self.is_stopped:
                    break
                self.stop_child()
                if attempt < ATTEMPTS:
                    self.tasks.put((name, attempt + 1))
                    continue
                outcome = {"of": name, "error": f"its worker ended {ATTEMPTS} times ({error})"}
            except BaseException as error:
                self.ended.put(error)
                break
            self.ended.put(outcome)
        self.stop_child()

    def ask(self, name: str) -> dict[str, Any]:
        with self.lock:
            if self.is_stopped:
                raise ValueError("stopped")
            if self.child is None:
                # Ctrl-C is for the process that asks.
                self.child = subprocess.Popen(
                    [sys.executable, "-m", "candor.distributed"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
                )
                self.child.stdin.write(json.dumps(self.settings) + "\n")
        self.child.stdin.write(json.dumps(name) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise ValueError(f"with exit code {self.child.wait()}")
        return json.loads(line)

    def stop_child(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            # What it did not read cannot be written any more.
            with contextlib.suppress(OSError):
                self.child.stdin.close()
            self.child.stdout.close()
            self.child = None

    def stop(self) -> None:
        with self.lock:
            self.is_stopped = True
            if self.child is not None:
                self.child.kill()


def _on_ray(settings: dict[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
    """Runs tasks on a cluster of Ray, the one that the program is connected to, or a local one."""
    try:
        import ray  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ImportError("on='ray' needs Ray: pip install 'candor[ray]'") from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    # A worker that dies counts, an exception does not.
    task = ray.remote(max_retries=ATTEMPTS - 1)(_run)
    shared = ray.put(settings)
    running = {task.remote(shared, name): name for name in names}
    try:
        while running:
            done, _ = ray.wait(list(running))
            for one in done:
                name = running.pop(one)
                try:
                    yield ray.get(one)
                except ray.exceptions.RayError as error:
                    yield {"of": name, "error": f"its worker ended {ATTEMPTS} times ({type(error).__name__})"}
    finally:
        for one in running:
            ray.cancel(one, force=True)


def _serve() -> None:
    """Runs the tasks whose names are lines of standard input, the settings being the first."""
    settings = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        print(json.dumps(_run(settings, json.loads(line))), flush=True)


if __name__ == "__main__":
    _serve()

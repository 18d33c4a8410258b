"""A folder of recordings as partitioned Parquet, and campaigns, on the processors of this machine or on a cluster of Ray.

    from candor import distributed
    manifest = distributed.decode("drives/", "car.dbc", "decoded/")
    polars.scan_parquet("decoded/message=EngineSpeed/*.parquet")

Needs pyarrow; with `on="ray"` also Ray: `pip install 'candor[ray]'`.

Each recording is a task. It writes a part: a folder in `parts/` with a file for each message and a record, under a temporary name, and renames it
once it is complete. A part is named by the hash of the recording, its path below the folder, the DBC file, the settings and this program, so a task
that runs twice writes the same bytes under the same name. Only when all recordings are done, the files go to their places
(`message=NAME/PART.parquet`, `parts/PART.json`), then `manifest.json` names the parts that count, in the order of the recordings' paths, and then
what it does not name is swept. So a call that fails or is stopped leaves the result of the one before, and the result does not depend on how
many workers there were, which of them died, or how often the call was stopped and made again.
"""

import contextlib
import errno
import fcntl
import fnmatch
import functools
import hashlib
import json
import operator
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import candor
import candor._candor

__all__ = ["campaign", "decode"]

SCHEMA = "candor-parts 1"
# Rows of a row group of Parquet, at most, and of all tables in memory.
ROWS = 1_000_000
# A task whose worker ends so often is given up: it would end every worker.
ATTEMPTS = 3
PART = re.compile(r"[0-9a-f]{32}(?:\.(?:parquet|json))?")
TEMPORARY = ".candor-part-"
RECORD = "part.json"
# What a process runs: the module of this package, not of another one called so in the folder where the program is.
WORKER = """import sys
sys.path.insert(0, sys.argv[1])
import candor
del sys.path[0]
import candor.distributed
candor.distributed._serve()
"""


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

    Arguments are checked before anything is written. Parts of an earlier call that are complete are taken as they are. Files that are no recordings
    are listed in `passed_over` of the manifest. If recordings fail, the others are decoded first, the manifest lists them in `failed`, and
    `candor.Error` is raised. But if no recording can be decoded, or one fails that the result in `out` has, that result stays as it is.
    """
    _pyarrow()
    run = _runner(on, workers, progress)
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    signals, bus = _names("signals", signals), _names("bus", bus)
    database = candor.Database(dbc)
    recordings = _recordings(folder, out, pattern)
    # Nothing is opened before the first piece, but names that the database does not have are refused.
    candor.batches(folder / recordings[0], database, signals=signals, bus=bus, skip_malformed=skip_malformed)
    settings = {
        "task": "decode",
        "program": _program(),
        "dbc": database.text.decode("latin-1"),
        "dbc_name": database.name,
        "signals": signals,
        "bus": bus,
        "skip_malformed": skip_malformed,
        "folder": str(folder.absolute()),
        "out": str(out.absolute()),
    }
    _refuse_others(out)
    (out / "parts").mkdir(parents=True, exist_ok=True)
    with _locked(out), _swept(out):
        ended = []
        shown = progress or _Line()
        with contextlib.closing(run(settings, recordings)) as outcomes:
            for done, outcome in enumerate(outcomes, 1):
                ended.append(outcome)
                shown(done, len(recordings), outcome["of"])
        manifest = _manifest(settings, ended)
        failed = [f"{it['recording']}: {it['error']}" for it in manifest["failed"]]
        reason = f"{len(failed)} of {len(recordings)} recordings could not be decoded"
        if not failed:
            reason = f"no file in {folder} is a recording" if not manifest["parts"] else "a file that the result has a part of is no recording"
        first = (failed or [it["reason"] for it in manifest["passed_over"]] or [""])[0]
        if not manifest["parts"] or _loses(out, manifest):
            _sweep(out, lambda path: PART.fullmatch(path.name) and not path.suffix)
            raise candor.Error(f"{reason}, so {out} stays as it was; the first: {first}")
        with _uninterrupted():
            _commit(out, manifest)
    for part in manifest["parts"]:
        for text in part["warnings"]:
            warnings.warn(text, candor.RecordingWarning, stacklevel=2)
    if failed:
        raise candor.Error(f"{reason}, the others are in {out}; the first: {first}")
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
    run = _runner(on, workers, progress)
    arguments = _names("arguments", arguments or None) or []
    file, out = pathlib.Path(file).absolute(), pathlib.Path(out).absolute()
    text = file.read_bytes()
    count = _count("shards", shards, 4 * (workers or os.cpu_count() or 1))
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    of = json.dumps([SCHEMA, version, count, arguments]).encode() + text
    settings = {
        "task": "campaign",
        "program": _program(),
        "command": [program, "lab", "run", str(file), *arguments],
        "out": str(out),
        "key": hashlib.blake2b(of, digest_size=16).hexdigest(),
    }
    (out / "shards").mkdir(parents=True, exist_ok=True)
    with _locked(out), _swept(out):
        shown = progress or _Line()
        names = [f"{number}/{count}" for number in range(1, count + 1)]
        ended = []
        with contextlib.closing(run(settings, names)) as outcomes:
            for done, outcome in enumerate(outcomes, 1):
                ended.append(outcome)
                shown(done, count, f"shard {outcome['of']}")
        failed = [outcome for outcome in sorted(ended, key=lambda outcome: outcome["of"]) if "error" in outcome]
        if failed:
            raise candor.Error(f"{len(failed)} of {count} shards failed; the first: {failed[0]['of']}: {failed[0]['error']}")
        _merge(out, [out / outcome["shard"] / "results" for outcome in ended], program)
        shutil.rmtree(out / "shards")
    return out / "index.html"


def _merge(out: pathlib.Path, shards: list[pathlib.Path], program: str) -> None:
    """Puts the results of shards in place of those in `out`, which come back if no report can be made of the new ones."""
    results, new, old = out / "results", _temporary(out / "shards"), _temporary(out / "shards")
    new.mkdir()
    for shard in shards:
        if shard.is_dir():
            shutil.copytree(shard, new, dirs_exist_ok=True)
    if results.exists():
        results.rename(old)
    try:
        new.rename(results)
        merged = subprocess.run([program, "lab", "report", str(out)], capture_output=True, text=True)
        if merged.returncode:
            raise candor.Error(f"{program} lab report {out}: {merged.stderr.strip()}")
    except BaseException:
        if results.exists():
            results.rename(new)
        if old.exists():
            old.rename(results)
        raise


# ---- Arguments -----------------------------------------------------------------------------------


def _names(name: str, value: Any) -> list[str] | None:
    """Names, or one of them."""
    if value is None:
        return None
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    wrong = next((it for it in names if not isinstance(it, str)), None)
    if wrong is not None:
        raise TypeError(f"{name}={value!r}: expected a name or a list of names, not {type(wrong).__name__}")
    if not names:
        raise ValueError(f"{name}={value!r}: the list is empty; leave {name} out, or name one")
    return names


def _count(name: str, value: Any, otherwise: int) -> int:
    """A number of at least 1."""
    if value is None:
        return otherwise
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r}: expected a whole number, not {type(value).__name__}; leave {name} out, or give 1 or more")
    if (count := operator.index(value)) < 1:
        raise ValueError(f"{name}={value!r}: at least 1 is needed; leave {name} out, or give 1 or more")
    return count


@contextlib.contextmanager
def _locked(out: pathlib.Path) -> Iterator[None]:
    """While it is held, no other call writes into the folder."""
    with open(out / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise candor.Error(f"{out}: another call writes here; wait for its end, or give another folder") from None
        yield


@contextlib.contextmanager
def _swept(out: pathlib.Path) -> Iterator[None]:
    """Before and behind it no file has a temporary name, whatever happens to workers between."""
    sweep = functools.partial(_sweep, out, lambda path: path.name.startswith(TEMPORARY))
    sweep()
    try:
        yield
    finally:
        sweep()


@contextlib.contextmanager
def _at(path: pathlib.Path) -> Iterator[None]:
    """Puts the path into the error of a file that was opened, and what helps: Python and pyarrow do not."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        full = "free space on its disk"
        remedies = {errno.ENOSPC: full, errno.EDQUOT: full, errno.EFBIG: "raise the limit of file sizes (`ulimit -f`)"}
        remedy = remedies.get(error.errno, "check its permissions and the disk")
        raise OSError(error.errno, f"{os.strerror(error.errno)}; {remedy}", str(path)) from None


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("candor.distributed writes Parquet with pyarrow: pip install pyarrow") from error
    return pyarrow


def _recordings(folder: pathlib.Path, out: pathlib.Path, pattern: str) -> list[str]:
    """The files below a folder, but those in `out`, by their paths below it, in order."""
    if not isinstance(pattern, str):
        raise TypeError(f"pattern={pattern!r}: expected a name with `*` and `?`, not {type(pattern).__name__}")
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    inside = folder.resolve().parts[len(out.resolve().parts):] if folder.resolve().is_relative_to(out.resolve()) else None
    if inside is not None and (not inside or inside[0] == "parts" or inside[0].startswith("message=")):
        raise ValueError(f"{out}: the recordings are where the result would be; give another folder, such as {folder / 'decoded'}")
    def refuse(error: OSError) -> None:
        raise error

    found = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".") and pathlib.Path(place, name).resolve() != out.resolve()]
        paths = (pathlib.Path(place, name) for name in files if not name.startswith(".") and fnmatch.fnmatch(name, pattern))
        # A link to nothing is a recording that is missing.
        found += [path.relative_to(folder).as_posix() for path in paths if path.is_file() or path.is_symlink() and not path.exists()]
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


def _earlier(out: pathlib.Path) -> dict[str, Any]:
    """The manifest of the result that is there."""
    try:
        manifest = json.loads((out / "manifest.json").read_text())
        return manifest if manifest["schema"] == SCHEMA else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _refuse_others(out: pathlib.Path) -> None:
    """Refuses a folder with a manifest of somebody else."""
    path = out / "manifest.json"
    if path.is_file() and "schema" not in _earlier(out):
        raise FileExistsError(errno.EEXIST, "this is no manifest of candor.distributed; give another folder", str(path))


def _loses(out: pathlib.Path, manifest: dict[str, Any]) -> bool:
    """Whether a file that the result has a part of is there, but failed or is no recording any more."""
    had = {part["recording"] for part in _earlier(out).get("parts", [])}
    return any(it["recording"] in had for it in [*manifest["failed"], *manifest["passed_over"]])


@contextlib.contextmanager
def _uninterrupted() -> Generator[None, None, None]:
    """Lets Ctrl-C wait until what takes a moment is done: half of it would be neither the earlier result nor the new one."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _commit(out: pathlib.Path, manifest: dict[str, Any]) -> None:
    """Makes of complete parts the result. If something fails before the manifest is there, all is as it was."""
    moved = []
    taken = {out / "manifest.json"}
    try:
        with _written(out / "manifest.json", json.dumps(manifest, indent=1) + "\n"):
            for part in manifest["parts"]:
                staged, record = out / "parts" / part["part"], out / "parts" / f"{part['part']}.json"
                files = [(staged / f"{message}.parquet", out / file["file"]) for message, file in part["messages"].items()]
                for source, target in [*files, (staged / RECORD, record)]:
                    taken.add(target)
                    # What has this name has these bytes.
                    if not target.exists():
                        target.parent.mkdir(exist_ok=True)
                        source.rename(target)
                        moved.append((source, target))
    except BaseException:
        for source, target in moved:
            target.rename(source)
        raise
    _sweep(out, lambda path: PART.fullmatch(path.name) and path not in taken)


def _sweep(out: pathlib.Path, is_left_over: Callable[[pathlib.Path], Any]) -> None:
    """Removes what earlier calls left: only in the folders that this module makes, and only of names that it gives."""
    for place in (out / "parts", out / "shards", *out.glob("message=*")):
        for path in place.iterdir() if place.is_dir() else ():
            if is_left_over(path):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _temporary(place: pathlib.Path) -> pathlib.Path:
    return place / f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"


@contextlib.contextmanager
def _written(path: pathlib.Path, text: str) -> Iterator[None]:
    """Writes a file, which takes its place behind the block unless that fails."""
    temporary = _temporary(path.parent / "parts")
    try:
        with _at(path):
            temporary.write_text(text)
        yield
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
    of = [SCHEMA, settings["program"], recording, *(settings[key] for key in ("dbc", "signals", "bus", "skip_malformed"))]
    digest.update(json.dumps(of).encode())
    with _at(path), open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _task(settings: dict[str, Any], recording: str) -> dict[str, Any]:
    """Decodes a recording, unless its part is there; returns what the manifest says of it."""
    path = pathlib.Path(settings["folder"], recording)
    try:
        try:
            candor.read(path).close()
        except candor.UnknownFormatError as error:
            return {"of": recording, "reason": str(error)}
        out, name = pathlib.Path(settings["out"]), _name(settings, recording, path)
        return _made(out, name) or _decode(settings, recording, name)
    except (OSError, candor.Error, MemoryError) as error:
        return {"of": recording, "error": f"{type(error).__name__}: {error}"}


def _made(out: pathlib.Path, name: str) -> dict[str, Any] | None:
    """The record of a part that is complete, whether it is at its place or not."""
    staged = out / "parts" / name
    for record in (staged / RECORD, staged.with_name(f"{name}.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            outcome: dict[str, Any] = json.loads(record.read_text())
            files = outcome["messages"].items()
            if all((staged / f"{message}.parquet").is_file() or (out / file["file"]).is_file() for message, file in files):
                return outcome
    return None


def _decode(settings: dict[str, Any], recording: str, name: str) -> dict[str, Any]:
    """Makes a part."""
    out = pathlib.Path(settings["out"])
    staged, temporary = out / "parts" / name, _temporary(out / "parts")
    temporary.mkdir()
    try:
        outcome = {"of": recording, "part": name, **_tables(settings, recording, name, temporary)}
        with _at(staged / RECORD):
            (temporary / RECORD).write_text(json.dumps(outcome) + "\n")
        try:
            temporary.rename(staged)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            # Another task made it, or files of it were lost.
            if not _made(out, name):
                shutil.rmtree(staged)
                temporary.rename(staged)
        return outcome
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _tables(settings: dict[str, Any], recording: str, name: str, place: pathlib.Path) -> dict[str, Any]:
    """Writes the files of a part."""
    pyarrow = _pyarrow()
    out = pathlib.Path(settings["out"])
    rows: dict[str, int] = {}
    writers: dict[str, tuple[Any, Any]] = {}
    with contextlib.ExitStack() as opened, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The call has told what the file loses.
        database = candor.parse_dbc(settings["dbc_name"], settings["dbc"].encode("latin-1"), False)
        names = {key: settings[key] for key in ("signals", "bus", "skip_malformed")}
        for piece in candor.batches(pathlib.Path(settings["folder"], recording), database, rows=ROWS, **names):
            for message, table in piece.items():
                table = pyarrow.table(table)
                with _at(out / f"message={message}/{name}.parquet"):
                    if message not in writers:
                        file = open(place / f"{message}.parquet", "wb")
                        opened.callback(_close, file)
                        writers[message] = (file, pyarrow.parquet.ParquetWriter(file, table.schema, compression="zstd"))
                        opened.callback(_close, writers[message][1])
                    writers[message][1].write_table(table)
                rows[message] = rows.get(message, 0) + len(table)
        for message, (file, writer) in writers.items():
            with _at(out / f"message={message}/{name}.parquet"):
                writer.close()
                file.close()
    messages = {message: {"file": f"message={message}/{name}.parquet", "rows": rows[message]} for message in sorted(rows)}
    return {"messages": messages, "warnings": [str(warning.message) for warning in caught]}


def _close(file: Any) -> None:
    """Closes what may have failed already: that was told."""
    with contextlib.suppress(Exception):
        file.close()


def _shard(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """Runs a shard of a campaign, unless it is there."""
    shard = f"shards/{settings['key']}-{name.replace('/', '-')}"
    target = pathlib.Path(settings["out"], shard)
    if target.is_dir():
        return {"of": name, "shard": shard}
    temporary = _temporary(target.parent)
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


def _runner(on: str, workers: Any, progress: Any) -> Callable[[dict[str, Any], list[str]], Generator[dict[str, Any], None, None]]:
    """What runs tasks."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress={progress!r}: expected a function of the number done, of all, and the latest, not {type(progress).__name__}")
    workers = _count("workers", workers, os.cpu_count() or 1)
    if on == "ray":
        return _on_ray
    if on == "processes":
        return functools.partial(_on_processes, workers=workers)
    raise ValueError(f"on={on!r}: there are 'processes' and 'ray'")


def _run(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """A task."""
    if settings["program"] != _program():
        return {"of": name, "error": f"{candor.__file__} is another version than that of the call; install the same wherever tasks run"}
    return {"decode": _task, "campaign": _shard}[settings["task"]](settings, name)


def _on_processes(settings: dict[str, Any], names: list[str], workers: int) -> Generator[dict[str, Any], None, None]:
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
                    [sys.executable, "-P", "-c", WORKER, str(pathlib.Path(candor.__file__).parents[1])],
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


def _on_ray(settings: dict[str, Any], names: list[str]) -> Generator[dict[str, Any], None, None]:
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
        # What it wrote is swept when it has ended.
        if running:
            ray.wait(list(running), num_returns=len(running), timeout=10)


def _serve() -> None:
    """Runs the tasks whose names are lines of standard input, the settings being the first."""
    settings = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        print(json.dumps(_run(settings, json.loads(line))), flush=True)

"""Completes the type stubs that maturin generates, and compares them with those that are kept.

    python tests/python/stubs.py FOLDER [--write]

FOLDER is what `maturin generate-stubs --out FOLDER` wrote. What it cannot know are types that our own code takes apart, what is in
dictionaries, and the exceptions. `--write` keeps the completed stubs.

Exit code 0 if those that are kept are current, 1 if not.
"""

import difflib
import json
import re
import sys
from pathlib import Path

import candor
import candor._candor

KEPT = Path(__file__).resolve().parents[2] / "python/python/candor/_candor.pyi"
HEADER = '''"""Types of the package `candor`; completed from what maturin generates."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, final

from typing_extensions import CapsuleType

_Path: TypeAlias = str | PathLike[str]
_Value: TypeAlias = int | float | str

class _CantoolsDatabase(Protocol):
    def as_dbc_string(self) -> str: ...
'''
# Arguments and results by how they are generated, in the order in which they are replaced.
TYPES = [
    (r"paths: Incomplete", "paths: _Path | Iterable[_Path] | Iterable[Frame]"),
    (r"(dbc|source): Incomplete", r"\1: Database | _CantoolsDatabase | _Path"),
    (r"(signals|bus): Incomplete \| None", r"\1: str | Iterable[str] | None"),
    (r"name_or_id: Incomplete", "name_or_id: str | int"),
    (r"values: Mapping,", "values: Mapping[str, _Value],"),
    (r"str \| PathLike\[str\]", "_Path"),
    (r"SupportsIndex", "int"),
    (r"data: Incomplete", "data: bytes | bytearray | memoryview"),
    (r"direction: str \| None = None", 'direction: Literal["received", "transmitted"] | None = None'),
    (r"-> tuple\[tuple\[str\], dict\]:", "-> tuple[tuple[str], dict[str, Any]]:"),
    (r"frames: Any,", "frames: Iterable[Frame],"),
    (r"(def direction\(self, /\)) -> str \| None", r'\1 -> Literal["received", "transmitted"] | None'),
    (r"(def decode\(paths.*) -> dict:", r"\1 -> dict[str, Table]:"),
    (r"(def bus_load\(.*) -> dict:", r"\1 -> dict[str, dict[str, float | None]]:"),
    (r"(def decode(?:_message)?\(self.*) -> dict:", r"\1 -> dict[str, _Value]:"),
    (r"(class Batches:(?:.*\n)+?.*def __next__\(self, /\)) -> dict:", r"\1 -> dict[str, Table]:"),
    (r"-> list\[dict\]:", "-> list[dict[str, Any]]:"),
    (r"\*_exception\)", "*_exception: object)"),
    (r"\ndef __getattr__.*\n", ""),
]


def completed(text):
    """The whole stubs, of those that were generated."""
    text = re.sub(r"\A(?:(?:from|import) .*\n|\n)*", "", text)
    for generated, meant in TYPES:
        text, count = re.subn(generated, meant, text)
        if not count:
            sys.exit(f"nothing is generated like `{generated}` any more; correct TYPES")
    exceptions = []
    for name in candor.__all__:
        one = getattr(candor, name)
        if isinstance(one, type) and issubclass(one, BaseException):
            base = one.__base__.__name__
            exceptions.append((one.__mro__.index(Exception), f'class {name}({base}):\n    """{one.__doc__}"""\n'))
    exceptions.sort(key=lambda it: it[0])
    names = f"__all__ = {json.dumps(candor._candor.__all__)}\n"
    return "\n".join([HEADER, names, text.rstrip() + "\n", *(text for _, text in exceptions)])


def main(arguments):
    generated = next(Path(arguments[0]).rglob("_candor.pyi")).read_text()
    text = completed(generated)
    if "--write" in arguments:
        KEPT.write_text(text)
    kept = KEPT.read_text()
    if "Incomplete" in text:
        print(*(line for line in text.splitlines() if "Incomplete" in line), sep="\n")
        return 1
    if kept != text:
        sys.stdout.writelines(difflib.unified_diff(kept.splitlines(True), text.splitlines(True), "kept", "generated"))
        print("run: python tests/python/stubs.py FOLDER --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

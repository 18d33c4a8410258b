"""Collects the seeds of a fuzz target: the inputs that it begins with.

    python3 fuzz/seeds.py TARGET FOLDER

It writes the seeds of fuzz/seeds/TARGET into FOLDER, as bytes, and prints the folders that the target should
begin with, one a line. FOLDER is emptied first. fuzz/seeds/README.md says what may be in fuzz/seeds/TARGET.
A target without such a folder begins with nothing, and nothing is printed.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEEDS = ROOT / "fuzz" / "seeds"
# A text in quotes, two hexadecimal digits, or a comment up to the end of the line.
WORD = re.compile(r"'([^']*)'(?=\s|$)|([0-9A-Fa-f]{2})(?=\s|$)|#.*")


def bytes_of(text, name="seed"):
    """The bytes that a text says."""
    found = bytearray()
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        while line:
            word = WORD.match(line)
            if not word:
                raise ValueError(f"{name}:{number}: neither two hexadecimal digits nor 'text' nor # comment: {line}")
            if word[1] is not None:
                found += word[1].encode()
            elif word[2]:
                found.append(int(word[2], 16))
            line = line[word.end() :].lstrip()
    return bytes(found)


def collect(source, target, root=ROOT):
    """Writes the seeds of one folder into another; returns the folders to begin with."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    folders = []
    for path in sorted(source.iterdir()):
        if path.name == "folders":
            folders = path.read_text().split()
            if missing := [name for name in folders if not (root / name).is_dir()]:
                raise ValueError(f"{path}: there is no folder {', '.join(missing)}")
        elif path.name == "make":
            subprocess.run([path, target], cwd=root, check=True, stdout=sys.stderr)
        elif path.suffix == ".hex":
            (target / path.stem).write_bytes(bytes_of(path.read_text(), path))
        else:
            shutil.copyfile(path, target / path.name)
    return folders + ([str(target)] if any(target.iterdir()) else [])


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    source, target = SEEDS / arguments[0], Path(arguments[1]).resolve()
    if not source.is_dir():
        return 0
    try:
        for folder in collect(source, target):
            print(folder)
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

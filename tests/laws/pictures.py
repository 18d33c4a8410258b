"""Finds pictures of the documents that are too many, too large, or shown nowhere.

    python3 tests/laws/pictures.py

What must hold for `docs/images/*.png`, the only binary files of the repository:

- There are at most six, each of at most 150 kB, and each is a PNG.
- README.md or a document in `docs/` shows each, with a text for those who do not see it.

Exit code 0 if all of this holds, 1 if not.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "docs/images"
MOST = 6
LARGEST_BYTES = 150_000
# PNG specification, 5.2.
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def shown(documents):
    """The files that Markdown texts show with an alternative text: `documents` is `{file: text}`."""
    return {
        (Path(name).parent / target).as_posix()
        for name, text in documents.items()
        for target in re.findall(r"!\[[^\]]*\w[^\]]*\]\(([^)\s]+)\)", text)
    }


def broken(pictures, documents):
    """A sentence for each law that does not hold: `pictures` is `{file: bytes}`."""
    if len(pictures) > MOST:
        yield f"{FOLDER} has {len(pictures)} pictures; at most {MOST} are allowed"
    known = shown(documents)
    for name, data in pictures.items():
        if not data.startswith(SIGNATURE):
            yield f"{name} is no PNG"
        if len(data) > LARGEST_BYTES:
            yield f"{name} has {len(data):,} bytes; at most {LARGEST_BYTES:,} are allowed, so make it smaller"
        if name not in known:
            yield f"{name} is shown nowhere; show it in README.md or docs/ as ![what it shows]({name}), or remove it"


def main():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", f":(glob){FOLDER}/*.png"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    pictures = {name: (ROOT / name).read_bytes() for name in listed.split("\0") if name and (ROOT / name).exists()}
    documents = {path.relative_to(ROOT).as_posix(): path.read_text()
                 for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
    wrong = list(broken(pictures, documents))
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the commands that README.md and docs/*.md show, and compares what they print.

    python3 tests/readme/check.py FOLDER-OF-CANDOR [FILE...]

A command is a line that begins with `$ ` in a fenced block marked `console`:

    ```console
    $ candor frame 123#DEADBEEF
    frame         bits  ...
    ...
    $ candor route check examples/broken.rules.toml  # exit 2
    ```

* The lines that follow are what it prints, on standard output and standard error together. None:
  it may print anything. A line `...` stands for any number of lines.
* It must end with exit code 0, or with the one that a comment at its end names.
* A command that ends in `\\` goes on in the next line.
* `cargo run --release -- X` runs `candor X` of FOLDER-OF-CANDOR, which is first on the search path.
  `./test` is only checked to be there: it is what runs this. Other commands of cargo and commands
  that need root belong in a block marked `sh`, which is not run.
* All commands of a file run in one scratch copy of the repository, in their order.
* A command that reads ../shared is skipped with a printed line if that folder is absent, unless the
  environment variable CI is `true`: then it fails.

Exit code 0 if all is as shown, 1 if not.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
ANYTHING = "..."
CANDOR_BY_CARGO = re.compile(r"\bcargo run (?:--quiet |-q )?--release(?: --quiet| -q)? -- ")
NOT_RUN = re.compile(r"(?:^|[;&|])\s*(cargo|sudo|apt|apt-get|git|cd)\b")
EXIT_COMMENT = re.compile(r"\s#\s*exit (\d+)\s*$")


@dataclass
class Command:
    """A command as shown, with what it should print and how it should end."""

    place: str
    text: str
    exit_code: int
    expected: list[str] = field(default_factory=list)


def commands(name, text):
    """All commands in the `console` blocks of a Markdown text."""
    found = []
    fence = None
    is_console = False
    continued = False
    for number, line in enumerate(text.splitlines(), start=1):
        mark = re.match(r"\s*(`{3,}|~{3,})(.*)", line)
        if mark and fence is None:
            fence, is_console, continued = mark[1], mark[2].strip() == "console", False
            in_block = False
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = None
        elif fence is None or not is_console:
            continue
        elif continued:
            command = found[-1]
            command.text = command.text[:-1] + line.removeprefix("> ").strip()
            continued = command.text.endswith("\\")
        elif line.startswith("$ "):
            found.append(Command(f"{name}:{number}", line[2:].strip(), 0))
            in_block = True
            continued = found[-1].text.endswith("\\")
        elif in_block:
            found[-1].expected.append(line.rstrip())
        else:
            raise ValueError(f"{name}:{number}: a console block begins with a line `$ command`")
    if fence is not None:
        raise ValueError(f"{name}: a fenced block is not closed; add {fence}")
    for command in found:
        while command.expected and not command.expected[-1]:
            command.expected.pop()
        if comment := EXIT_COMMENT.search(command.text):
            command.exit_code = int(comment[1])
    return found


def missing(expected, printed):
    """The first expected lines that are not printed where they should be, or None.

    A line `...` stands for any number of lines. What stands between two of them may come at the
    first place where it fits; what follows the last one must be the end.
    """
    stretches = [[]]
    for line in expected:
        if line == ANYTHING:
            stretches.append([])
        else:
            stretches[-1].append(line)
    if len(stretches) == 1:
        return None if expected == printed else expected
    first, *middle, last = stretches
    if printed[: len(first)] != first:
        return first
    at = len(first)
    for stretch in middle:
        ends = range(at + len(stretch), len(printed) + 1)
        at = next((end for end in ends if printed[end - len(stretch) : end] == stretch), None)
        if at is None:
            return stretch
    is_end = len(printed) - at >= len(last) and printed[len(printed) - len(last) :] == last
    return None if is_end else last


def difference(expected, printed):
    lines = difflib.unified_diff(expected, printed, "shown", "printed", lineterm="", n=2)
    return "\n".join(f"    {line}" for line in lines)


def run(command, scratch, environment):
    """What is wrong with the command, or None."""
    text = CANDOR_BY_CARGO.sub("candor ", command.text)
    if text.split()[0] == "./test":
        return None if os.access(scratch / "test", os.X_OK) else "./test is no program"
    if word := NOT_RUN.search(text):
        return f"`{word[1]}` cannot be tested here; mark the block `sh` instead of `console`"
    try:
        outcome = subprocess.run(
            ["bash", "-c", text],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {TIMEOUT_S} s"
    printed = [line.rstrip() for line in outcome.stdout.decode(errors="replace").splitlines()]
    while printed and not printed[-1]:
        printed.pop()
    if outcome.returncode != command.exit_code:
        shown = "\n".join(f"    {line}" for line in printed[-20:])
        return f"exit code {outcome.returncode}, not {command.exit_code}\n{shown}"
    lost = missing(command.expected, printed) if command.expected else None
    if lost is not None:
        return f"it prints something else\n{difference(lost, printed)}"
    return None


def check(name, text, scratch, environment):
    """Runs the commands of one file; returns how many there are and how many failed."""
    try:
        found = commands(name, text)
    except ValueError as error:
        print(f"FAIL {error}")
        return 1, 1
    failed = 0
    for command in found:
        shared_is_absent = not (scratch.parent / "shared").exists()
        if "../shared" in command.text and shared_is_absent and environment.get("CI") != "true":
            print(f"skipped: {command.place}: ../shared/data is absent")
            continue
        trouble = run(command, scratch, environment)
        failed += trouble is not None
        print(f"{'FAIL' if trouble else 'ok  '} {command.place}: {command.text}")
        if trouble:
            print(f"    {trouble}")
    return len(found), failed


def copy_repository(target):
    """All files that belong to the repository, without what is built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    for name in listed.decode().split("\0"):
        source = ROOT / name
        if name and source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    programs = Path(arguments[0]).resolve()
    if not (programs / "candor").is_file():
        print(f"{programs} holds no candor; `cargo build --release` makes one", file=sys.stderr)
        return 2
    files = [Path(name) for name in arguments[1:]]
    files = files or [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
    total, failed = 0, 0
    for file in files:
        if not file.is_file():
            print(f"FAIL {file.name} does not exist")
            failed += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder) / "candor"
            scratch.mkdir()
            copy_repository(scratch)
            shared = ROOT.parent / "shared"
            if shared.exists():
                (Path(folder) / "shared").symlink_to(shared)
            of_file = check(file.name, file.read_text(), scratch, environment)
        if file == ROOT / "README.md" and of_file[0] == 0:
            print("FAIL README.md shows no command; mark its blocks `console`")
            failed += 1
        total += of_file[0]
        failed += of_file[1]
    print(f"{total} commands, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

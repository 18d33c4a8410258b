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
  it may print anything. A line `...` stands for any number of lines; it cannot stand alone, since
  then nothing would be compared.
* It must end with exit code 0, or with the one that a comment at its end names.
* A command that ends in `\\` goes on in the next line.
* A command that ends in ` &` runs beside those that follow, which begin when it has printed the first
  line that is shown. At the end of its block it gets SIGINT, as from Ctrl-C, and must end.
* FOLDER-OF-CANDOR is first on the search path. The two commands of README.md that build the program
  and test it are run by clone.py, letter by letter, and not here. Other commands of cargo and
  commands that need root belong in a block marked `sh`, which is not run.
* All commands of a file run in one scratch copy of the repository, in their order. Nothing else is
  beside it: what a reader does not have, no command may need.
* At the end there is nothing in the copy that git would show as changed or new.
* Each file shows at least one command, or a table that tests/tables/tables.py makes again, or Python that
  tests/python/examples.py runs.

Exit code 0 if all is as shown, 1 if not.
"""

import difflib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
# Documents whose commands are run in a clean Debian with the package, by tests/packages/install.py.
ELSEWHERE = {"install.md"}
# What runs a command.
SHELL = ["bash", "-c"]
ANYTHING = "..."
NOT_RUN = re.compile(r"(?:^|[;&|])\s*(cargo|sudo|apt|apt-get|git|cd|\./test)(?=\s|$)")
# Where README.md shows the two commands that clone.py runs.
TWO_COMMANDS = "## Two commands"
# What stands before a table that tests/tables/tables.py makes again.
TABLE = re.compile(r"^<!-- table [^:]+: ", re.MULTILINE)
PYTHON = re.compile(r"^>>> ", re.MULTILINE)
EXIT_COMMENT = re.compile(r"\s#\s*exit (\d+)\s*$")


@dataclass
class Command:
    """A command as shown, with what it should print and how it should end."""

    place: str
    text: str
    exit_code: int
    block: int = 0
    expected: list[str] = field(default_factory=list)


def commands(name, text):
    """All commands in the `console` blocks of a Markdown text."""
    found = []
    fence = None
    block = 0
    is_console = False
    continued = False
    for number, line in enumerate(text.splitlines(), start=1):
        mark = re.match(r"\s*(`{3,}|~{3,})(.*)", line)
        if mark and fence is None:
            fence, is_console, continued = mark[1], mark[2].strip() == "console", False
            in_block = False
            block += 1
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = None
        elif fence is None or not is_console:
            continue
        elif continued:
            command = found[-1]
            command.text = command.text[:-1] + line.removeprefix("> ").strip()
            continued = command.text.endswith("\\")
        elif line.startswith("$ "):
            found.append(Command(f"{name}:{number}", line[2:].strip(), 0, block))
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
        if command.expected == [ANYTHING]:
            raise ValueError(f"{command.place}: `{ANYTHING}` alone compares nothing; show some of the output")
        if comment := EXIT_COMMENT.search(command.text):
            command.exit_code = int(comment[1])
    return found


def two_commands(readme):
    """The commands of the first console block below `## Two commands`: the demo and `./test`."""
    _, _, below = readme.partition(f"\n{TWO_COMMANDS}\n")
    block = re.search(r"^```console\n.*?^```$", below, re.DOTALL | re.MULTILINE)
    found = [command.text for command in commands("README.md", block[0])] if block else []
    if len(found) != 2 or not found[0].startswith("cargo ") or not found[1].startswith("./test"):
        raise ValueError(f"README.md: below `{TWO_COMMANDS}` a console block should show the command of the "
                         f"demo and `./test`; found {found}")
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
    if word := NOT_RUN.search(command.text):
        return f"`{word[1]}` cannot be tested here; mark the block `sh` instead of `console`"
    with tempfile.TemporaryFile() as output:
        process = start(command.text, scratch, environment, output)
        return verdict(command, process, output)


def start(text, scratch, environment, output):
    """Starts a command, in a session of its own, so that what it starts can be ended with it."""
    return subprocess.Popen([*SHELL, text], cwd=scratch, env=environment, stdin=subprocess.DEVNULL,
                            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                            # Commands in the background of a script are started with this signal ignored.
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def lines(output):
    """What a command printed so far. Its position in the file is the command's, too, and stays where it is."""
    printed = os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0)
    return [line.rstrip() for line in printed.decode(errors="replace").splitlines()]


def verdict(command, process, output):
    """Waits for a command; what is wrong with how it ended and what it printed, or None."""
    try:
        exit_code = process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"it did not end within {TIMEOUT_S} s"
    printed = lines(output)
    while printed and not printed[-1]:
        printed.pop()
    if exit_code != command.exit_code:
        shown = "\n".join(f"    {line}" for line in printed[-20:])
        return f"exit code {exit_code}, not {command.exit_code}\n{shown}"
    lost = missing(command.expected, printed) if command.expected else None
    if lost is not None:
        return f"it prints something else\n{difference(lost, printed)}"
    return None


class Beside:
    """A command that runs beside others."""

    def __init__(self, command, scratch, environment):
        self.command = command
        self.output = tempfile.TemporaryFile()
        # Without a shell in between, so that the signal reaches the program and its exit code is seen.
        text = "exec " + command.text.removesuffix("&").strip()
        self.process = start(text, scratch, environment, self.output)

    def is_ready(self):
        """Waits for the first line that is shown; whether it came."""
        first = self.command.expected[:1]
        deadline = time.monotonic() + TIMEOUT_S
        while first and lines(self.output)[:1] != first:
            if self.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def end(self):
        """What is wrong with how it ended and what it printed, or None."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        trouble = verdict(self.command, self.process, self.output)
        self.output.close()
        return trouble


def check(name, text, scratch, environment):
    """Runs the commands of one file; returns how many there are and how many failed."""
    try:
        found = commands(name, text)
        elsewhere = two_commands(text) if name == "README.md" else []
        if not found and not (TABLE.search(text) or PYTHON.search(text)):
            raise ValueError(f"{name}: no command is shown; mark a block `console`")
    except ValueError as error:
        print(f"FAIL {error}")
        return 1, 1
    found = [command for command in found if command.text not in elsewhere]
    failed = 0

    def report(command, trouble):
        nonlocal failed
        failed += trouble is not None
        print(f"{'FAIL' if trouble else 'ok  '} {command.place}: {command.text}", flush=True)
        if trouble:
            print(f"    {trouble}")

    for _, block in itertools.groupby(found, lambda command: command.block):
        beside = []
        for command in block:
            if command.text.endswith(" &"):
                beside.append(Beside(command, scratch, environment))
                beside[-1].is_ready()
            else:
                report(command, run(command, scratch, environment))
        # The last one first: frames on the way are lost with the process that holds a simulated bus, which is the first.
        for other in reversed(beside):
            report(other.command, other.end())
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


def git(folder, *arguments):
    """Git without the settings of whoever runs this."""
    name = ["-c", "user.name=check", "-c", "user.email=check@example.org", "-c", "commit.gpgsign=false"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True, text=True,
                          env=environment)
    return done.stdout


def commit(folder):
    """Makes a repository of a folder, in which everything is committed."""
    git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "as it was")


def left_behind(folder):
    """What differs from the commit and is not ignored, as `git status` shows it."""
    return git(folder, "status", "--porcelain").splitlines()


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    programs = Path(arguments[0]).resolve()
    if not (programs / "candor").is_file():
        print(f"{programs} holds no candor; `cargo build --release` makes one", file=sys.stderr)
        return 2
    files = [Path(name) for name in arguments[1:]]
    documents = sorted(file for file in (ROOT / "docs").glob("**/*.md") if file.name not in ELSEWHERE)
    files = files or [ROOT / "README.md", *documents]
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
            commit(scratch)
            of_file = check(file.name, file.read_text(), scratch, environment)
            left = left_behind(scratch)
        total += of_file[0]
        failed += of_file[1]
        if left:
            failed += 1
            print(f"FAIL {file.name}: its commands leave these behind; let them write into a folder that .gitignore has,\n"
                  "    or remove them")
            print("\n".join(f"    {line}" for line in left))
    print(f"{total} commands, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

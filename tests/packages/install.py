"""Installs a package of Candor in a clean Debian and uses it there.

    python3 tests/packages/install.py PACKAGE [SUITE...]      default: bookworm

In each suite, in a system of its own that mmdebstrap makes: the package is installed over one with a lower version, the
commands of docs/install.md for packages and README's desk example run, systemd accepts the units, and after `apt-get purge`
there is nothing that was not there before. Needs root, or rights to make namespaces of users.

Exit code 0 if all of it holds, 1 if not.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "readme"))
import check  # noqa: E402

# What systemd's units need to be looked at, and no more.
PACKAGES = "systemd"
# Written by dpkg and apt about themselves, or at any time.
NOT_OURS = re.compile(r"^/(proc|sys|dev|run|tmp|root|var/(lib|log|cache)/(dpkg|apt|systemd)|var/log)(/|$)")


class Debian:
    """A clean system in a folder."""

    def __init__(self, suite, folder):
        self.suite = suite
        self.root = folder / suite
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", suite, self.root], check=True
        )
        # A process that holds the network of this system, which has no interface but the loopback. Simulated buses are sockets of it.
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        # With /proc, by which a process starts itself again.
        inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" bash -c "cd /root && $1"'
        network = f"--net=/proc/{self.holder.pid}/ns/net"
        self.shell = ["nsenter", network, "unshare", "--mount", "bash", "-c", inside, str(self.root)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.wait()

    def run(self, command):
        """What a command prints in this system."""
        done = subprocess.run([*self.shell, command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit(f"FAILED {command}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def copy(self, source, target):
        """Copies a file or a folder to the home folder of root."""
        target = self.root / "root" / target
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)

    def files(self):
        """Names of everything that a package could leave behind."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            inside = "/" + os.path.relpath(folder, self.root)
            found.update(os.path.join(inside, name) for name in (*folders, *files))
        return {name for name in found if not NOT_OURS.match(name.replace("/./", "/"))}


def lower(package, folder):
    """The same package with a lower version."""
    tree = folder / "lower"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub("^Version: .*$", "Version: 0.0.1-1", control.read_text(), flags=re.M))
    made = folder / "lower.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, made], check=True, stdout=subprocess.DEVNULL)
    return made


def section(document, heading):
    """A section of a document, from its heading to the next one of its level."""
    level = heading.split(" ")[0]
    found = re.search(rf"^{re.escape(heading)}$.*?(?=^{level} |\Z)", document.read_text(), re.M | re.S)
    if not found:
        raise SystemExit(f"FAILED {document}: there is no `{heading}`")
    return found[0]


def try_out(package, debian, folder):
    """Installs, uses and removes the package; how many commands failed."""
    before = debian.files()
    debian.copy(lower(package, folder), "lower.deb")
    debian.copy(package, package.name)
    debian.copy(ROOT / "examples", "examples")
    debian.run("dpkg -i lower.deb")
    debian.run(f"dpkg -i {package.name}")
    check.SHELL = debian.shell
    failed = 0
    for document, heading in [
        (ROOT / "docs" / "install.md", "## A Debian package"),
        (ROOT / "README.md", "## A gateway on your desk"),
    ]:
        text = section(document, heading)
        failed += check.check(f"{debian.suite}: {document.name}", text, folder, check_environment())[1]
    debian.run("systemd-analyze verify --man=no candor-route@car.service candor-signals@car.service")
    debian.run("dpkg --purge candor")
    left = sorted(debian.files() - before)
    if left:
        failed += 1
        print(f"FAILED {debian.suite}: after purge there are still\n    " + "\n    ".join(left))
    return failed


def check_environment():
    return {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    package, *suites = arguments
    failed = 0
    for suite in suites or ["bookworm"]:
        with tempfile.TemporaryDirectory() as folder:
            with Debian(suite, Path(folder)) as debian:
                failed += try_out(Path(package).resolve(), debian, Path(folder))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

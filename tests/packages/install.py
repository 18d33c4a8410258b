"""Installs what `packaging/build` makes in clean systems of Debian, and uses it there.

    python3 tests/packages/install.py FOLDER [--suite SUITE]... [SECTION]...

FOLDER has the artefacts; the suite is bookworm if none is given. A section is one of docs/install.md: package, laboratory, archive, python,
c, together; without any, all of these. Each runs in a system of its own that mmdebstrap makes, with the commands of the section and what
`check_*` below adds. Before, nothing of Candor is there; after a package is purged, nothing is left. Needs root, or rights to make
namespaces of users.

The section `source`, which is only run when it is named, builds all artefacts in a clean system from a clone of what is committed, by the
commands that docs/install.md shows: they are the same bytes as in FOLDER, if the suite is that of the system that built those. It takes half
an hour. Rust, crates that are here already, and certificates are those of this machine.

Exit code 0 if all of it holds, 1 if not.
"""

import argparse
import filecmp
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "readme"))
import check  # noqa: E402

# Written by dpkg and apt about themselves, or at any time.
NOT_OURS = re.compile(r"^/(proc|sys|dev|run|tmp|root|var/(lib|log|cache)/(dpkg|apt|systemd)|var/log|var/cache/ldconfig|etc/ld.so.cache)(/|$)")


class Debian:
    """A clean system in a folder, with some packages of Debian's own."""

    def __init__(self, suite, packages, folder):
        self.root = folder / "root"
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", suite, self.root], check=True
        )
        # A process that holds the network of this system, which has no interface but the loopback. Simulated buses are sockets of it.
        self.holder = subprocess.Popen(["unshare", "--net", "bash", "-c", "ip link set lo up; exec sleep infinity"])
        # With /proc, by which a process starts itself again.
        inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" bash -c "cd /root && $1"'
        network = f"--net=/proc/{self.holder.pid}/ns/net"
        self.shell = ["nsenter", network, "unshare", "--mount", "bash", "-c", inside, str(self.root)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.wait()

    def run(self, command, **options):
        """What a command prints in this system."""
        done = subprocess.run([*self.shell, command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        if done.returncode != 0:
            raise SystemExit(f"FAILED {command}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def copy(self, source):
        """Copies a file or a folder to the home folder of root."""
        target = self.root / "root" / source.name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)

    def files(self):
        """Names of everything that a package could leave behind."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            inside = "/" + os.path.relpath(folder, self.root)
            found.update(os.path.normpath(os.path.join(inside, name)) for name in (*folders, *files))
        return {name for name in found if not NOT_OURS.match(name)}

    def shown(self, document, heading, folder):
        """Runs the commands of a section of a document; how many failed."""
        check.SHELL = self.shell
        environment = {**os.environ, "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
        name = f"{document.name} {heading.strip('# ')}"
        return check.check(name, section(document, heading), folder, environment)[1]


class BuildingDebian(Debian):
    """A clean system with the Rust of this machine and its network, which builds a clone of this repository."""

    def __init__(self, suite, folder):
        packages = needed_to_build(ROOT / "docs" / "install.md")
        super().__init__(suite, [*packages, "ca-certificates"], folder)
        rust = shlex.quote(os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")))
        inside = f'mount -t proc proc "$0/proc" && mkdir -p "$0/srv/.rustup" && mount --bind {rust} "$0/srv/.rustup"'
        inside += ' && exec chroot "$0" bash -c "cd /srv/candor\\ sources && $1"'
        self.shell = ["unshare", "--mount", "bash", "-c", inside, str(self.root)]
        for file in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
            shutil.copy(Path("/") / file, self.root / file)
        cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
        for name in ("bin", "registry"):
            shutil.copytree(cargo / name, self.root / "srv" / ".cargo" / name, symlinks=True)
        subprocess.run(["git", "clone", "--quiet", ROOT, self.root / "srv" / "candor sources"], check=True)
        # Nothing that ./test or its user says about builds.
        passed_on = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO_", "RUST", "CANDOR_"))}
        self.environment = {**passed_on, "HOME": "/srv", "PATH": "/srv/.cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

    def run(self, command):
        return super().run(command, env=self.environment)


def needed_to_build(document):
    """The packages that a document says are needed to build."""
    found = re.search(r"^sudo apt-get install (.*?)(?: *#.*)?$", document.read_text(), re.M)
    if not found:
        raise SystemExit(f"FAILED {document}: no line `sudo apt-get install ...` says what building needs")
    return found[1].split()


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


def blocks(text):
    """The lines of blocks that are shown but not run by check.py."""
    return [line for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S) for line in block.splitlines()]


def expect(is_so, text):
    """One failure, told, if something is not so."""
    if not is_so:
        print(f"FAILED {text}")
    return not is_so


# ---- Sections: what is there before, and what must hold after ------------------------------------------


def before_package(debian, folder):
    debian.copy(ROOT / "examples")
    debian.copy(lower(next((debian.root / "root").glob("candor_*_amd64.deb")), folder))
    debian.run("dpkg -i lower.deb")


def after_package(debian, folder):
    failed = debian.shown(ROOT / "README.md", "## A gateway on your desk", folder)
    version = debian.run("candor --version").splitlines()
    failed += expect(version[1:] == ["features: arrow, dbus", "target: x86_64-unknown-linux-musl"], f"candor --version: {version}")
    return failed


def before_laboratory(debian, _folder):
    # Packages that are built as for tests have no laboratory beside them, and are larger.
    kilobytes = int(debian.run("dpkg-deb -f candor_*_amd64.deb Installed-Size"))
    if kilobytes * 1024 > 20_000_000:
        raise SystemExit(f"FAILED candor takes {kilobytes} KiB, and a vehicle's has at most 20 MB")
    debian.run("dpkg -i candor_*_amd64.deb && cp /usr/share/doc/candor/examples/desk.rules.toml /etc/candor/car.rules.toml")


def after_laboratory(debian, _folder):
    rules = debian.root / "etc/candor/car.rules.toml"
    debian.run("dpkg --purge candor")
    failed = expect(rules.exists(), "purging candor removed the rule files of candor-lab")
    debian.run("dpkg -i candor_*_amd64.deb && dpkg --purge candor-lab && candor --version")
    return failed + expect(rules.exists(), "purging candor-lab removed the rule files of candor")


def after_c(debian, _folder):
    needs = debian.run("objdump -T /usr/lib/x86_64-linux-gnu/libvca.so.0 | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1").strip()
    return expect(needs == "GLIBC_2.28", f"libvca.so.0 needs {needs}, and its package says 2.28")


# What Debian must have for each, and what it is called in docs/install.md.
SECTIONS = {
    "package": ("## A Debian package", ["systemd"], before_package, after_package),
    "laboratory": ("## The laboratory", ["systemd"], before_laboratory, after_laboratory),
    "archive": ("## An archive", ["systemd"], None, None),
    "python": ("## The Python package", ["python3-venv"], None, None),
    "c": ("## The C interface", ["gcc", "libc6-dev", "pkg-config"], None, after_c),
    "together": ("## From packages alone", ["python3-venv"], None, None),
}


def try_out(name, suite, artefacts, folder):
    """Everything about a section; how many failures there were."""
    heading, packages, before, after = SECTIONS[name]
    with Debian(suite, packages, folder) as debian:
        clean = debian.files()
        for artefact in artefacts.iterdir():
            if artefact.is_file():
                debian.copy(artefact)
        failed = 0
        if before:
            before(debian, folder)
        failed += debian.shown(ROOT / "docs" / "install.md", heading, folder)
        if after:
            failed += after(debian, folder)
        # Archives and wheels know no removal.
        if installed := debian.run("dpkg-query -W -f '${Package} ' 'candor*' 'libvca*' 2> /dev/null || true"):
            debian.run(f"dpkg --purge {installed}")
            left = sorted(debian.files() - clean)
            failed += expect(not left, f"{suite} {name}: after purge there are still " + " ".join(left))
    return failed


def from_source(suite, artefacts, folder):
    """Builds everything as docs/install.md says; how many failures there were."""
    document = ROOT / "docs" / "install.md"
    failed = 0
    with BuildingDebian(suite, folder) as debian:
        packaging = blocks(document.read_text().partition("\n## ")[0])
        for command in packaging:
            if not command.startswith("sudo "):
                debian.run(command)
        for artefact in sorted(artefacts.iterdir()):
            again = debian.root / "srv/candor sources/target/packages" / artefact.name
            is_same = again.exists() and filecmp.cmp(artefact, again, shallow=False)
            failed += expect(is_same, f"{artefact.name} is another one when it is built in a clean {suite}")
        failed += expect(any((debian.root / "srv/candor sources/DIR").iterdir()), "--out DIR: there is nothing in DIR")
        installing = blocks(section(document, "## From source"))
        for command in installing:
            debian.run(command)
            debian.run("candor route check examples/desk.rules.toml")
        failed += expect(packaging and len(installing) > 1, "docs/install.md shows no commands for building")
    return failed


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suite", action="append")
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    # Options may stand between sections.
    arguments = parser.parse_intermixed_args()
    if unknown := set(arguments.sections) - {*SECTIONS, "source"}:
        parser.error(f"no section is called {', '.join(unknown)}; there are {', '.join([*SECTIONS, 'source'])}")
    failed = 0
    for suite in arguments.suite or ["bookworm"]:
        for name in arguments.sections:
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                run = from_source if name == "source" else functools.partial(try_out, name)
                of_section = run(suite, arguments.folder.resolve(), Path(folder))
            print(f"{suite} {name}: {of_section} failed, {time.monotonic() - start:.0f} s", flush=True)
            failed += of_section
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

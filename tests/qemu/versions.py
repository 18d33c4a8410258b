"""Runs a command with each of several versions of QEMU, unpacked beside that of this machine.

    python3 tests/qemu/versions.py SUITE... -- COMMAND...

SUITE is one of Debian's: bookworm, bookworm-backports, trixie, sid. Its qemu-system-x86 and all packages that this
depends on are downloaded with a configuration of apt of their own (about 40 MB), and unpacked into target/qemu/SUITE,
once. Nothing is installed. COMMAND finds `qemu-system-x86_64` of that suite first on its search path.

    python3 tests/qemu/versions.py bookworm-backports trixie sid -- \\
        cargo test -p candor-vm --test outside -- --ignored --test-threads=1

It needs apt-get, dpkg and patchelf. Exit code 0 if the command ended with 0 for each suite, else 1.
"""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target/qemu"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# A suite of backports needs the one that it is for, too.
SUITES = {
    "bookworm": ["bookworm"],
    "bookworm-backports": ["bookworm", "bookworm-backports"],
    "trixie": ["trixie"],
    "sid": ["sid"],
}
CONFIGURATION = """\
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/sources";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
APT::Architecture "amd64";
APT::Default-Release "{suite}";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
"""
SOURCES = """\
Types: deb
URIs: {mirror}
Suites: {suites}
Components: main
Signed-By: {keyring}
"""
# Of the suite, with its own loader, libraries, modules and ROMs.
PROGRAM = """\
#!/bin/sh
export QEMU_MODULE_DIR={root}/{libraries}/qemu
exec {root}/usr/bin/qemu-system-x86_64 -L {root}/usr/share/seabios -L {root}/usr/share/qemu "$@"
"""


def mirror():
    """The mirror of this machine's apt."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], check=True, capture_output=True,
                            text=True).stdout.split()
    debian = [uri for uri in listed if uri.rstrip("/").endswith("/debian")]
    return debian[0] if debian else sys.exit("apt has no mirror of Debian; add one to /etc/apt/sources.list")


def download(suite, folder):
    """The packages of QEMU and of all that it needs."""
    for name in ("sources", "state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    # As if nothing were installed.
    (folder / "status").write_text("")
    text = SOURCES.format(mirror=mirror(), suites=" ".join(SUITES[suite]), keyring=KEYRING)
    (folder / "sources/debian.sources").write_text(text)
    configuration = folder / "apt.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, suite=suite))
    environment = os.environ | {"APT_CONFIG": str(configuration), "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--download-only", "qemu-system-x86"]):
        subprocess.run(["apt-get", "-qq", *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)
    return sorted((folder / "cache/archives").glob("*.deb"))


def unpack(suite):
    """The folder with the program of that suite."""
    folder = FOLDER / suite
    programs = folder / "bin"
    if programs.is_dir():
        return programs
    shutil.rmtree(folder, ignore_errors=True)
    root = folder / "root"
    root.mkdir(parents=True)
    for package in download(suite, folder):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    shutil.rmtree(folder / "cache")
    loader = next(path for path in (root / LIBRARIES / "ld-linux-x86-64.so.2",
                                    root / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2") if path.exists())
    search = ":".join(str(root / path) for path in (LIBRARIES, "lib/x86_64-linux-gnu"))
    subprocess.run(["patchelf", "--set-interpreter", loader, "--set-rpath", search, "--force-rpath",
                    root / "usr/bin/qemu-system-x86_64"], check=True)
    beside = folder / "bin.part"
    beside.mkdir()
    program = beside / "qemu-system-x86_64"
    program.write_text(PROGRAM.format(root=root, libraries=LIBRARIES))
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    beside.rename(programs)
    return programs


def main():
    if "--" not in sys.argv:
        sys.exit(__doc__)
    at = sys.argv.index("--")
    suites, command = sys.argv[1:at], sys.argv[at + 1:]
    unknown = [suite for suite in suites if suite not in SUITES]
    if unknown or not suites or not command:
        sys.exit(f"unknown suite: {', '.join(unknown) or 'none'}; known: {', '.join(SUITES)}; then -- COMMAND")
    failed = []
    for suite in suites:
        programs = unpack(suite)
        version = subprocess.run([programs / "qemu-system-x86_64", "--version"], check=True, capture_output=True,
                                 text=True).stdout.splitlines()[0]
        print(f"{suite}: {version}", flush=True)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        if subprocess.run(command, env=os.environ | {"PATH": path}).returncode != 0:
            failed.append(suite)
    if failed:
        sys.exit(f"failed with the QEMU of {', '.join(failed)}")


if __name__ == "__main__":
    main()

"""Installs, runs, upgrades and removes a package of Candor in a whole computer: a Debian that boots systemd, in QEMU.

    python3 tests/packages/vehicle.py PACKAGE.deb [--suite bookworm] [--frames 100000] [--wheel WHEEL]

The machine has the architecture of the package (amd64 or arm64), two processors that QEMU emulates, and no network but two
virtual CAN buses. In it, vehicle_guest.py runs as the last unit of the boot: it installs the package over one with a lower
version and uses it as docs/install.md and docs/running.md say, as a service with real-time priority; every frame that it sends
is to be accounted for. With --wheel, the Python package is tried there, too.

The packages of Debian are unpacked by mmdebstrap, and their scripts are not run: so a machine of another architecture can
be made. All of it is in memory, so it needs no disk. Needs root, mmdebstrap, cpio, and qemu-system-x86_64 or
qemu-system-aarch64.

Exit code 0 if every check holds and the machine says so at its end, 1 if not.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

from install import ROOT, lower

# A system with systemd, and what checks need; `?essential` is what every Debian has.
INCLUDE = ["?essential", "systemd-sysv,kmod,iproute2,python3"]
# As in every Debian since bookworm.
MERGED_USR = 'for name in bin sbin lib; do mkdir -p "$1/usr/$name" && ln -s "usr/$name" "$1/$name"; done'
MODULES = ["kernel/net/can", *(f"kernel/drivers/net/can/{name}" for name in ["dev", "vcan.ko", "vxcan.ko"])]
# Not needed here, and memory is all that the machine has.
UNNEEDED = [
    "boot",
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/i18n",
    "usr/lib/udev/hwdb.d",
    "usr/lib/*/gconv",
    "usr/lib/python3*/test",
    "var/cache/*",
    "var/lib/apt/lists",
]
MACHINES = {
    "amd64": (["qemu-system-x86_64", "-machine", "q35", "-cpu", "max"], "ttyS0"),
    "arm64": (["qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a53"], "ttyAMA0"),
}
UNIT = """
[Unit]
Description=Checks of the package
Requires=multi-user.target
After=multi-user.target

[Service]
Type=oneshot
WorkingDirectory=/root
Environment=NO_COLOR=1 LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 HOME=/root
ExecStartPre=/sbin/depmod
ExecStart=/usr/bin/python3 vehicle_guest.py
ExecStopPost=/bin/systemctl poweroff --force --force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
TimeoutStartSec=infinity
"""
# What the machine writes for us begins so.
MARK = "vehicle: "
# For all of it; checks in the machine have limits of their own.
LIMIT_S = 1500


def architecture_of(package):
    return subprocess.run(
        ["dpkg-deb", "--field", package, "Architecture"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def unpack(suite, architecture, root):
    """The files of a Debian, and its kernel."""
    includes = [f"--include={names}" for names in [*INCLUDE, f"linux-image-{architecture}"]]
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={architecture}", f"--setup-hook={MERGED_USR}"]
    subprocess.run([*command, *includes, suite, root], check=True, timeout=900)
    kernel = shutil.copy(next((root / "boot").glob("vmlinuz-*")), root.parent / "kernel")
    keep_modules(next((root / "usr/lib/modules").iterdir()))
    for pattern in UNNEEDED:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return kernel


def keep_modules(folder):
    """Removes all modules but those for CAN; depmod is run in the machine."""
    kept = folder.parent / "kept"
    for name in MODULES:
        source = folder / name
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, kept / name)
    shutil.rmtree(folder / "kernel")
    shutil.move(kept / "kernel", folder / "kernel")
    kept.rmdir()


def configure(root):
    """What scripts of Debian's packages would have made."""
    for name in ["passwd", "group"]:
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    (root / "etc/hostname").write_text("vehicle\n")
    # Without one, systemd takes this for the first boot, and enables whatever it finds.
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (root / "etc/fstab").write_text("")
    for folder in ["proc", "sys", "run", "root", "tmp", "var/log", "var/tmp"]:
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/systemd/system/multi-user.target.wants").mkdir(exist_ok=True)
    # The console is for the checks.
    for unit in ["getty@.service", "serial-getty@.service"]:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    (root / "etc/systemd/system/vehicle.service").write_text(UNIT)


def furnish(root, package, arguments, folder):
    """Puts the checks and what they need into the home folder of root."""
    home = root / "root"
    shutil.copy(package, home / "candor.deb")
    shutil.copy(lower(package, folder), home / "lower.deb")
    shutil.copy(Path(__file__).with_name("vehicle_guest.py"), home)
    shutil.copytree(ROOT / "examples" / "recordings", home / "recordings")
    settings = {"frames": arguments.frames, "wheel": bool(arguments.wheel)}
    (home / "settings.json").write_text(json.dumps(settings))
    if arguments.wheel:
        with zipfile.ZipFile(arguments.wheel) as wheel:
            wheel.extractall(root / "usr/lib/python3/dist-packages")


def archive(root, path):
    """All files as an archive that the kernel unpacks into memory."""
    with path.open("wb") as file:
        names = subprocess.Popen(["find", ".", "-print0"], cwd=root, stdout=subprocess.PIPE)
        subprocess.run(["cpio", "--quiet", "-0", "-o", "-H", "newc"], cwd=root, stdin=names.stdout, stdout=file, check=True)
        if names.wait() != 0:
            raise SystemExit("FAILED: find")


def boot(architecture, kernel, files):
    """Runs the machine until it ends; what it wrote to its console, and how it ended."""
    machine, console = MACHINES[architecture]
    # systemd is started as the first process. Its messages would come between the lines of the checks.
    options = f"console={console} rdinit=/lib/systemd/systemd systemd.unit=vehicle.service quiet loglevel=3"
    options += " systemd.show_status=false panic=-1"
    command = [*machine, "-accel", "tcg,thread=multi", "-smp", "2", "-m", "2048", "-nographic", "-no-reboot", "-nic", "none"]
    command += ["-kernel", str(kernel), "-initrd", str(files), "-append", options]
    lines = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
    ) as qemu:
        late = threading.Timer(LIMIT_S, qemu.kill)
        late.start()
        for line in qemu.stdout:
            line = line.rstrip()
            lines.append(line)
            if MARK in line:
                print(line[line.index(MARK) + len(MARK) :], flush=True)
            if f"{MARK}end: " in line:
                # It switches itself off now.
                late.cancel()
                late = threading.Timer(60, qemu.kill)
                late.start()
        code = qemu.wait()
        late.cancel()
    return lines, code


def failures(lines, code):
    """Why this is no success: an empty list if it is one."""
    ours = [line[line.index(MARK) + len(MARK) :] for line in lines if MARK in line]
    good = sum(line.startswith("ok ") for line in ours)
    found = [line for line in ours if line.startswith("FAILED ")]
    end = re.fullmatch(r"end: (\d+) checks, (\d+) failed", ours[-1]) if ours else None
    if code != 0:
        found.append(f"QEMU ended with {code}: the machine did not switch itself off in time")
    if not end:
        found.append("the machine did not come to the end of its checks")
    elif int(end[1]) != good or int(end[2]) != 0 or good == 0:
        found.append(f"{good} checks held, and the machine says: {end[0]}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--wheel", type=Path)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("vehicle.py: the files of a system belong to root; start this as root", file=sys.stderr)
        return 2
    package = arguments.package.resolve()
    architecture = architecture_of(package)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "root"
        kernel = unpack(arguments.suite, architecture, root)
        configure(root)
        furnish(root, package, arguments, folder)
        files = folder / "files.cpio"
        archive(root, files)
        made = time.monotonic()
        print(f"{arguments.suite} {architecture}: {files.stat().st_size / 1e6:.0f} MB of files, made in {made - began:.0f} s")
        lines, code = boot(architecture, kernel, files)
    found = failures(lines, code)
    if found:
        print("\nThe console:\n    " + "\n    ".join(lines))
        print("\n".join(line if line.startswith("FAILED") else f"FAILED {line}" for line in found))
    took = time.monotonic() - began
    print(
        f"{arguments.suite} {architecture}: {'FAILED' if found else 'ok'}, {took:.0f} s, of it {took - made + began:.0f} s in QEMU"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the unit tests of everything in the vehicle's program as code for arm64, by the user emulation of QEMU.

    python3 tests/packages/arm64.py

They are compiled as the program in the package is: for aarch64 and musl, without a C compiler. The emulation lacks some calls of Linux; a
test that fails because of one is counted by it, and any other failure is told. tests/packages/vehicle.py has the calls themselves, on
an arm64 kernel. Needs qemu-aarch64-static and the standard library of aarch64-unknown-linux-musl.

Exit code 0 if each test passed or failed for such a reason, 1 if not.
"""

import collections
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = "aarch64-unknown-linux-musl"
# Guests, their kernels, and interfaces to C and Python are not in that program.
NOT_IN_IT = ["candor-capi", "candor-count", "candor-guest", "candor-hardware", "candor-init", "candor-lab", "candor-protocol", "candor-python",
             "candor-qemu", "candor-sim", "candor-test-bed", "candor-timed-bus", "candor-vm", "candor-counted"]
# What the emulation of QEMU 7.2 does not pass on to the kernel, and how a test shows that it needs it: by its words, or by its name and what it saw.
LACKING = {
    "epoll_pwait2": "cannot wait for files: ENOSYS",
    "epoll_pwait2, in the hub of a simulated bus": "no hub was found, and none could be started|^sim::tests::frames_that_do_not_leave_are_a_trouble_until_they_do\n(?s:.*)lost: Count.1.",
    "SO_RXQ_OVFL, which counts what a socket dropped": "cannot count what is dropped by a socket: ENOPROTOOPT|^ingest::tests::a_port_that_makes_errors_is_opened_again\n(?s:.*)it is broken",
    "SO_TIMESTAMPNS": "cannot stamp what arrives for a socket: ENOPROTOOPT",
    "SO_MEMINFO, which it leaves empty": "^state::tests::drops_are_counted\n(?s:.*)dropped: 0 }",
    "SO_COOKIE": "cannot read the cookie of a socket: EINVAL",
    "SO_ATTACH_FILTER, which it reads before the kernel does": "^socket::tests::a_filter_keeps_what_its_program_says.*\n(?s:.*)Errno.14.",
    "SIOCETHTOOL": "cannot read the time stamping of lo: ENOSYS|^ethtool::tests::what_is_no_interface_is_reported\n(?s:.*)no-such-if",
    "IP_MULTICAST_IF with an interface": "cannot send multicast through the interface with the address .*: ENOPROTOOPT",
    "IP_ADD_MEMBERSHIP with an interface": "cannot join the group .*: ENODEV",
}
RESULT = re.compile(r"^test (\S+) (?:- .*)?\.\.\. (ok|FAILED|ignored)", re.M)
FAILURE = re.compile(r"^---- (\S+) stdout ----\n(.*?)(?=^---- |^failures:$)", re.M | re.S)


def reason(name, output):
    """What the emulation lacks, if that is why a test failed."""
    return next((lacking for lacking, words in LACKING.items() if re.search(words, f"{name}\n{output}")), None)


def main():
    linker = f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}"
    environment = {**os.environ, f"{linker}_LINKER": "rust-lld", f"{linker}_RUNNER": "qemu-aarch64-static", "RUST_BACKTRACE": "0"}
    excluded = [argument for name in NOT_IN_IT for argument in ("--exclude", name)]
    tests = ["cargo", "test", "--locked", "--workspace", *excluded, "--target", TARGET, "--lib", "--no-fail-fast"]
    subprocess.run([*tests, "--no-run"], cwd=ROOT, env=environment, check=True)
    done = subprocess.run(tests, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    outcomes = collections.Counter(outcome for _, outcome in RESULT.findall(done.stdout))
    failures = FAILURE.findall(done.stdout)
    by_reason = collections.Counter(reason(*failure) for failure in failures)
    for name, output in failures:
        if not reason(name, output):
            print(f"FAILED {name}\n{output}")
    for lacking, count in sorted((lacking, count) for lacking, count in by_reason.items() if lacking):
        print(f"{count} need what QEMU's user emulation lacks: {lacking}")
    # A program that ended without a result has no line of its own.
    finished = done.stdout.count("\ntest result: ")
    begun = len(re.findall(r"^running \d+ tests?$", done.stdout, re.M))
    unexplained = by_reason[None] + (begun - finished) + (outcomes["FAILED"] - len(failures))
    print(f"{outcomes['ok']} passed, {outcomes['FAILED']} failed, {unexplained} of them unexplained")
    return 1 if unexplained or outcomes["ok"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

"""Lets candor and python-can talk over a multicast group, in both directions.

    tests/.venv/bin/python tests/conformance/tunnels.py path/to/candor

python-can (PyPI, with msgpack) opens its `udp_multicast` bus, candor its port `multicast:`; what one
sends the other must receive: every kind of frame, with its time where candor is asked for it. The
groups are those of python-can, of IPv4 and IPv6.

All of it happens in a network namespace of its own, with a pair of virtual interfaces: nothing
leaves this machine. Exit code 0 if all agree, 1 if not. What is absent is skipped with a printed
line, unless the environment variable CI is `true`.
"""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path

GROUPS = {"IPv4": "239.74.163.2", "IPv6": "ff15:7079:7468:6f6e:6465:6d6f:6d63:6173"}
SETUP = """\
set -e
ip link set lo up
echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
ip link add here type veth peer name there
ip link set here up
ip link set there up
ip address add 10.74.163.1/24 dev here
ip address add fd74::1/64 dev here nodad
ip route add 224.0.0.0/4 dev here
ip -6 route delete multicast ff00::/8 dev there table local
"""
# The frame that tells that both ends are there.
KNOCK = "7FF#"
# Every kind, every length that has a meaning of its own.
FRAMES = [
    "123#DEADBEEF",
    "000#",
    "7FE#1122334455667788",
    "12345678#AA",
    "1FFFFFFF#",
    "123#R",
    "123#R8",
    "00000000#R4",
    "123##0",
    "123##1AABB",
    "00000123##2" + "00" * 12,
    "1FFFFFFF##3" + "5A" * 64,
]
# In nanoseconds; a float of seconds, as python-can writes it, holds it exactly.
TIME_NS = 1_700_000_000_250_000_000
TIME = 1_700_000_000.25
# Longer than anything here takes.
FOR_EVER = 60


def message(can, text):
    """The message of python-can for a frame in the notation of candump."""
    identifier, rest = text.split("#", 1)
    fields = {
        "timestamp": TIME,
        "arbitration_id": int(identifier, 16),
        "is_extended_id": len(identifier) == 8,
        "check": True,
    }
    if rest.startswith("#"):
        flags = int(rest[1], 16)
        fields |= {"is_fd": True, "bitrate_switch": bool(flags & 1)}
        fields |= {"error_state_indicator": bool(flags & 2), "data": bytes.fromhex(rest[2:])}
    elif rest.startswith("R"):
        fields |= {"is_remote_frame": True, "dlc": int(rest[1:] or "0")}
    else:
        fields["data"] = bytes.fromhex(rest)
    return can.Message(**fields)


def text(message):
    """The notation of candump for a message of python-can."""
    identifier = f"{message.arbitration_id:0{8 if message.is_extended_id else 3}X}"
    data = message.data.hex().upper()
    if message.is_remote_frame:
        return f"{identifier}#R{message.dlc or ''}"
    if message.is_fd:
        flags = message.bitrate_switch | message.error_state_indicator << 1
        return f"{identifier}##{flags}{data}"
    return f"{identifier}#{data}"


class Comparison:
    def __init__(self, can, candor):
        self.can = can
        self.candor = candor
        self.disagreements = 0

    def compare(self, title, sent, received):
        if sent == received:
            print(f"agreed: {title}: {len(sent)} frames")
            return
        self.disagreements += 1
        print(f"DIFFERENT: {title}")
        for index in range(max(len(sent), len(received))):
            pair = [frames[index] if index < len(frames) else "nothing" for frames in (sent, received)]
            if pair[0] != pair[1]:
                print(f"  frame {index}: sent {pair[0]}, received {pair[1]}")

    def from_python(self, version, group, port):
        """python-can sends, candor shows what comes."""
        dump = subprocess.Popen(
            [self.candor, "bus", "dump", "--json", "--errors", f"{port}?stamps=sender"],
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = queue.Queue()

        def read():
            for line in dump.stdout:
                lines.put(json.loads(line))
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        with self.can.Bus(interface="udp_multicast", channel=group) as bus:
            while True:
                bus.send(message(self.can, KNOCK))
                try:
                    assert lines.get(timeout=0.1) is not None, "candor has ended"
                    break
                except queue.Empty:
                    pass
            error = self.can.Message(timestamp=TIME, arbitration_id=4, is_error_frame=True, dlc=8,
                                     data=bytes(8), is_extended_id=False)
            for frame in FRAMES:
                bus.send(message(self.can, frame))
            bus.send(error)
        expected = [*FRAMES, "20000004#" + "00" * 8]
        received = []
        while len(received) < len(expected):
            line = lines.get(timeout=FOR_EVER)
            if line is None:
                break
            if line["type"] == "frame" and line["data"]["frame"] != KNOCK:
                received.append(line["data"])
        dump.terminate()
        dump.wait(FOR_EVER)
        title = f"python-can to candor by {version}"
        self.compare(title, expected, [frame["frame"] for frame in received])
        times = {frame["time_ns"] for frame in received}
        if times != {TIME_NS}:
            print(f"DIFFERENT: {title}: sent at {TIME_NS} ns, received {times}")
            self.disagreements += 1

    def from_candor(self, version, group, port):
        """candor sends, python-can receives."""
        with self.can.Bus(interface="udp_multicast", channel=group) as bus:
            sent = subprocess.run([self.candor, "bus", "send", port, *FRAMES], capture_output=True,
                                  text=True)
            received = []
            while len(received) < len(FRAMES) and (came := bus.recv(timeout=5)):
                received.append(text(came))
        if sent.returncode != 0:
            print(f"DIFFERENT: candor bus send: exit code {sent.returncode}: {sent.stderr}")
            self.disagreements += 1
        self.compare(f"candor to python-can by {version}", FRAMES, received)


def inside(candor):
    """What happens in the namespace."""
    import can

    subprocess.run(["sh", "-c", SETUP], check=True)
    comparison = Comparison(can, candor)
    for version, group in GROUPS.items():
        port = f"multicast:{group}" if version == "IPv4" else f"multicast:[{group}]"
        comparison.from_python(version, group, port)
        comparison.from_candor(version, group, port)
    return 1 if comparison.disagreements else 0


def obstacle():
    """What is absent, with the remedy."""
    try:
        import can  # noqa: F401
        import msgpack  # noqa: F401
    except ImportError as error:
        return f"{error.name} (tests/.venv/bin/pip install -r tests/requirements.txt)"
    for program, package in [("ip", "iproute2"), ("unshare", "util-linux")]:
        if not shutil.which(program):
            return f"{program} (apt-get install {package})"
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode != 0:
        return "the right to make a network namespace (run as root)"
    return None


UNSHARE = ["unshare", "--user", "--map-root-user", "--net"]


def main():
    if sys.argv[1] == "--inside":
        return inside(sys.argv[2])
    if what := obstacle():
        print(f"skipped: absent is {what}")
        return 1 if os.environ.get("CI") == "true" else 0
    candor = str(Path(sys.argv[1]).resolve())
    return subprocess.run([*UNSHARE, sys.executable, __file__, "--inside", candor]).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Lets candor and can-cannelloni talk over a cannelloni tunnel by TCP, in both directions.

    tests/.venv/bin/python tests/conformance/cannelloni.py path/to/candor

can-cannelloni (PyPI) is a client for python-can, written by others from the protocol. It carries
classical frames. What one sends the other must receive. All of it happens on the loopback interface of a
network namespace of its own. Exit code 0 if all agree, 1 if not.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path

import can
from can_cannelloni.bus import CannelloniBus

from tunnels import FOR_EVER, FRAMES, UNSHARE, message, text

PORT = "cannelloni:tcp://127.0.0.1:20000?role=server"
ADDRESS = ("127.0.0.1", 20000)
# It knows no CAN FD, and loses the length of remote frames.
CLASSICAL = [frame for frame in FRAMES if "##" not in frame and "#R" not in frame] + ["124#R", "12345678#R"]


def is_listening():
    """Whether a program listens on the port, as /proc/net/tcp shows it: address:port in hex, state 0A."""
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(socket[1].endswith(f":{ADDRESS[1]:04X}") and socket[3] == "0A" for socket in sockets)


def connect(candor):
    """A client of candor, as soon as candor listens."""
    while not is_listening():
        if candor.poll() is not None:
            raise RuntimeError(f"candor has ended: {candor.stderr.read()}")
    return CannelloniBus(host=ADDRESS[0], port=ADDRESS[1], reconnect=False)


def start(*arguments):
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def from_python(candor):
    """What candor shows of what the client sends."""
    dump = start(candor, "bus", "dump", "--json", "--count", str(len(CLASSICAL)), PORT)
    watchdog = threading.Timer(FOR_EVER, dump.kill)
    watchdog.start()
    bus = connect(dump)
    for frame in CLASSICAL:
        bus.send(message(can, frame))
    lines = [json.loads(line) for line in dump.stdout]
    watchdog.cancel()
    bus.shutdown()
    return [line["data"]["frame"] for line in lines if line["type"] == "frame"]


def from_candor(candor):
    """What the client receives of what candor sends."""
    send = start(candor, "bus", "send", PORT, *CLASSICAL)
    bus = connect(send)
    received = []
    while len(received) < len(CLASSICAL) and (came := bus.recv(timeout=FOR_EVER)):
        received.append(text(came))
    send.wait(FOR_EVER)
    bus.shutdown()
    return received


def inside(candor):
    """What happens in the namespace."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    failed = False
    for title, received in [
        ("can-cannelloni to candor", from_python(candor)),
        ("candor to can-cannelloni", from_candor(candor)),
    ]:
        agreed = received == CLASSICAL
        failed |= not agreed
        print(f"{'agreed' if agreed else 'DIFFERENT'}: {title}: sent {CLASSICAL}, received {received}")
    return 1 if failed else 0


def main():
    if sys.argv[1] == "--inside":
        return inside(sys.argv[2])
    candor = str(Path(sys.argv[1]).resolve())
    return subprocess.run([*UNSHARE, sys.executable, __file__, "--inside", candor]).returncode


if __name__ == "__main__":
    sys.exit(main())

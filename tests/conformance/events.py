"""Reads candor's signal service with the WebSocket, CBOR and MessagePack libraries of Python.

    tests/.venv/bin/python tests/conformance/events.py path/to/candor

A service plays a recording. For each binary sub-protocol, one by one and in batches, and for Server-Sent Events, every
event must have a name and a time before it, and must be what the service says in JSON about the same frame. Exit code
0 if all agree, 1 if not.
"""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import cbor2
import msgpack
from websockets.sync.client import connect, unix_connect

ROOT = Path(__file__).resolve().parents[2]
CODECS = {
    "candor.cbor": (cbor2.dumps, cbor2.loads),
    "candor.msgpack": (msgpack.packb, msgpack.unpackb),
}
# Events that are compared, of each way.
EVENTS = 2_000
WANTED = {"event": "*"}
# In seconds: longer than anything here takes.
FOR_EVER = 60


class Witness(threading.Thread):
    """Notes events as JSON says them, until it is stopped: by name and time in us, the value."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.found = url, {}
        self.is_ready, self.is_over = threading.Event(), threading.Event()
        self.start()
        assert self.is_ready.wait(FOR_EVER), "the service does not answer"

    def run(self):
        with connect(self.url, subprotocols=["x-afb-ws-json1"]) as client:
            client.send(json.dumps([2, "1", "low-can/subscribe", WANTED]))
            assert json.loads(client.recv(FOR_EVER))[0] == 3
            self.is_ready.set()
            while not self.is_over.is_set():
                _, name, content = json.loads(client.recv(FOR_EVER))
                assert name != "candor/missed", "this machine is too slow"
                data = content["data"]
                self.found[data["name"], data["timestamp"]] = (data["value"], data.get("text"))

    def stop(self, last):
        """Stops when it has seen everything up to this time."""
        while self.is_alive() and max((time for _, time in list(self.found)), default=0) <= last:
            self.join(0.05)
        self.is_over.set()
        self.join()
        return self.found


class Reader:
    """What a client knows that has read all messages so far."""

    def __init__(self):
        self.names, self.base, self.found, self.ordinals, self.batches = {}, None, {}, {}, 0

    def take(self, message):
        kind, *items = message
        if kind == 5:
            topic, time, ordinal, value = items[:4]
            expected = self.ordinals.get(topic, ordinal)
            assert ordinal == expected, f"topic {topic}: event {ordinal}, not {expected}"
            self.ordinals[topic] = (ordinal + 1) % 256
            text = items[4] if len(items) > 4 else None
            self.found[self.names[topic], self.base + time] = (value, text)
        elif kind == 6:
            self.batches += 1
            for item in items:
                self.take(item)
        elif kind == 7:
            self.names[items[0]] = items[1]
        elif kind == 9:
            self.base = items[0]
        else:
            raise AssertionError(f"unexpected {message}")


def by_binary(path, protocol, is_batched):
    encode, decode = CODECS[protocol]
    reader = Reader()
    with unix_connect(path, uri="ws://localhost/api", subprotocols=[protocol]) as client:
        assert client.subprotocol == protocol
        client.send(encode([2, 1, "subscribe", WANTED | {"batch": is_batched}]))
        reply = decode(client.recv())
        assert reply[:2] == [3, 1], reply
        reader.names = dict(reply[2]["names"])
        while len(reader.found) < EVENTS:
            reader.take(decode(client.recv()))
        client.send(encode([2, "two", "write", None]))
        while (reply := decode(client.recv()))[0] not in (3, 4):
            pass
        assert reply[:2] == [4, "two"] and "no verb" in reply[2], reply
    assert (reader.batches > 0) == is_batched
    return reader.found


def by_stream(port):
    found = {}
    with socket.create_connection(("127.0.0.1", port)) as client:
        request = f"GET /events?name={WANTED['event']} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        client.sendall(request.encode())
        for line in client.makefile():
            if line.startswith("data: "):
                data = json.loads(line.removeprefix("data: "))
                found[data["name"], data["timestamp"]] = (data["value"], data.get("text"))
            if len(found) >= EVENTS:
                return found
    raise AssertionError("the stream has ended")


def agrees(name, url, way):
    """Whether all events that come in a way are those that JSON says."""
    witness = Witness(url)
    found = way()
    expected = witness.stop(max(time for _, time in found))
    wrong = {key: value for key, value in found.items() if expected.get(key) != value}
    for key, value in list(wrong.items())[:5]:
        print(f"FAIL {name}: {key} is {value}, as JSON {expected.get(key)}")
    print(f"{name}: {len(found)} events, {len(wrong)} differ")
    return not wrong


def main(candor):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/signals.sock"
        recording = ROOT / "examples" / "recordings" / "drive.log"
        command = [candor, "signals", "serve", "--port", f"car=file:{recording}?loop=true"]
        command += ["--dbc", ROOT / "examples" / "small-car.dbc", "--listen", "127.0.0.1:0"]
        command += ["--listen", f"unix:{path}"]
        service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            words = service.stderr.readline().split()
            url = next(word.rstrip(",") for word in words if word.startswith("ws://"))
            port = int(url.removesuffix("/api").rsplit(":", 1)[1])
            ways = {"stream": lambda: by_stream(port)}
            for protocol in CODECS:
                for is_batched in (False, True):
                    name = f"{protocol}{', batched' if is_batched else ''}"
                    ways[name] = lambda protocol=protocol, is_batched=is_batched: by_binary(path, protocol, is_batched)
            results = [agrees(name, url, way) for name, way in ways.items()]
        finally:
            service.send_signal(signal.SIGINT)
            service.communicate()
    return 0 if all(results) else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

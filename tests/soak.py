"""A day of a gateway's life in a few minutes: rules change, peers vanish, a disk fills, and at the end every
frame is accounted for.

    python3 tests/soak.py path/to/candor [--minutes 24] [--seed 1] [--rate 2000]

A gateway receives numbered frames from a cannelloni tunnel over UDP and passes each of them to three
destinations: another UDP tunnel, a TCP tunnel, and a recording on a disk with little room. Meanwhile, drawn with
--seed, an hour (a 24th of the time) brings some of these: other rules, rules with a mistake, the TCP peer closing
its connection, reading nothing for a while, or coming back; the disk full, the disk with room again; a client of
the control socket that says nothing, and a burst of malformed datagrams.

At the end these must hold, by what the gateway says of itself and by what the tester has sent and received:

* every frame that was sent was received, or is counted as dropped by the kernel (overflow);
* each received frame has exactly three copies, each handled, refused or lost, and none waits any more;
* the UDP peer has received exactly what was transmitted to it, each frame once and in order;
* the TCP peer has received no more than was handled, and each frame that was handled is acknowledged or counts as
  lost, but for one cut in two where a connection ends;
* the recording has exactly the frames that were handled and not lost, in order;
* memory, threads and file descriptors are what they were after the first hour.

It needs root (or user namespaces) for a network and a disk of its own: nothing leaves this machine. Exit code 0 if
all of it holds, 1 if not.
"""

import argparse
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HOURS = 24
PER_DATAGRAM = 10
# Ports in a network namespace of its own.
SOURCE, GATEWAY_IN, GATEWAY_OUT, SINK, TCP = 20001, 20002, 20003, 20004, 20005
DISK_KB = 4096
HELLO = b"CANNELLONIv1"
# Of a frame with eight bytes of data.
FRAME_BYTES = 13
# Longer than anything here takes.
FOR_EVER_S = 60
BUSES = f"""\
max_hops = 3
[bus]
a    = "cannelloni:udp://127.0.0.1:{SOURCE}?listen={GATEWAY_IN}&buffer=8000000"
udp  = "cannelloni:udp://127.0.0.1:{SINK}?listen={GATEWAY_OUT}"
tcp  = "cannelloni:tcp://127.0.0.1:{TCP}"
disk = "file:DISK/day.log?replace=true"
"""
# Each frame goes to all three, whatever the rules.
TABLES = [
    '[[rule]]\nname = "all"\nfrom = "a"\nto = ["udp", "tcp", "disk"]\ndeadline = "500ms"\n',
    '[[rule]]\nname = "low"\nfrom = "a"\nto = ["udp", "tcp", "disk"]\nmatch = ["0x000-0x3FF"]\ndeadline = "500ms"\n'
    '[[rule]]\nname = "high"\nfrom = "a"\nto = ["udp", "tcp", "disk"]\nmatch = ["0x400-0x7FF"]\ndeadline = "500ms"\n',
    '[[rule]]\nname = "one"\nfrom = "a"\nto = "udp"\ndeadline = "500ms"\n'
    '[[rule]]\nname = "paced"\nfrom = "a"\nto = "tcp"\nrate = "500/s"\ndeadline = "500ms"\n'
    '[[rule]]\nname = "changed"\nfrom = "a"\nto = "disk"\non_change = true\ndeadline = "500ms"\n',
]
MISTAKE = '[[rule]]\nname = "none"\nfrom = "a"\nto = "nowhere"\n'


class Source:
    """Sends numbered frames at a rate, until it is stopped."""

    def __init__(self, rate):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", SOURCE))
        self.sent = 0
        self.malformed = 0
        self.ends = threading.Event()
        self.interval = PER_DATAGRAM / rate
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def frame(self, number):
        return struct.pack(">IB", number * 7919 % 0x800, 8) + struct.pack(">Q", number)

    def run(self):
        sequence, next_time = 0, time.monotonic()
        while not self.ends.wait(max(0.0, next_time - time.monotonic())):
            frames = b"".join(self.frame(self.sent + it) for it in range(PER_DATAGRAM))
            with self.lock:
                self.socket.sendto(struct.pack(">BBBH", 2, 0, sequence, PER_DATAGRAM) + frames, ("127.0.0.1", GATEWAY_IN))
            sequence = (sequence + 1) % 256
            self.sent += PER_DATAGRAM
            next_time += self.interval

    def rubbish(self, drawn):
        """Datagrams of no format."""
        for _ in range(20):
            with self.lock:
                self.socket.sendto(b"\xff" + drawn.randbytes(drawn.randrange(40)), ("127.0.0.1", GATEWAY_IN))
            self.malformed += 1

    def stop(self):
        self.ends.set()
        self.thread.join()


def frames_of(body):
    """The numbers in the frames of a cannelloni message, and what is left of it."""
    numbers = []
    while len(body) >= 5:
        length = body[4]
        if len(body) < 5 + length:
            break
        if length == 8:
            numbers.append(struct.unpack(">Q", body[5:13])[0])
        body = body[5 + length:]
    return numbers, body


class Sink:
    """Receives the frames of the UDP tunnel."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        self.socket.bind(("127.0.0.1", SINK))
        self.socket.settimeout(0.2)
        self.numbers = []
        self.ends = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            try:
                self.numbers += frames_of(self.socket.recv(65536)[5:])[0]
            except TimeoutError:
                if self.ends:
                    return

    def stop(self):
        self.ends = True
        self.thread.join()


class Peer:
    """The other end of the TCP tunnel: accepts, greets, and reads while it is allowed to."""

    def __init__(self):
        self.received = 0
        # Frames that the kernel has acknowledged, read or not.
        self.acknowledged = 0
        self.connections = 0
        self.reads = True
        self.hangs_up = False
        self.ends = False
        self.listener = socket.create_server(("127.0.0.1", TCP))
        self.listener.settimeout(0.1)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ends:
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                continue
            with connection:
                self.connections += 1
                self.serve(connection)
                self.acknowledged += (acknowledged_bytes(connection) - len(HELLO)) // FRAME_BYTES

    def serve(self, connection):
        connection.sendall(HELLO)
        rest, greeted = b"", False
        while not (self.hangs_up or self.ends and not self.is_readable(connection)):
            if not self.reads or not self.is_readable(connection):
                time.sleep(0.01)
                continue
            try:
                data = connection.recv(65536)
            except ConnectionError:
                return
            if not data:
                return
            rest += data
            if not greeted and len(rest) >= len(HELLO):
                rest, greeted = rest[len(HELLO):], True
            if greeted:
                numbers, rest = frames_of(rest)
                self.received += len(numbers)
        self.hangs_up = False

    @staticmethod
    def is_readable(connection):
        return bool(select.select([connection], [], [], 0)[0])

    def stop(self):
        self.reads, self.ends = True, True
        self.thread.join()


def acknowledged_bytes(connection):
    """`tcpi_bytes_received` of linux/tcp.h."""
    return struct.unpack_from("Q", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 128)[0]


class Gateway:
    def __init__(self, candor, folder):
        self.candor, self.rules = candor, folder / "day.rules.toml"
        self.control = folder / "control.sock"
        self.disk = folder / "disk"
        self.write(TABLES[0])
        self.process = subprocess.Popen([candor, "route", "run", self.rules, "--control", self.control],
                                        stdout=subprocess.DEVNULL, stderr=(folder / "gateway.log").open("w"))
        until("the gateway runs", lambda: self.ask("stats", "--json").returncode == 0)

    def write(self, table):
        self.rules.write_text(BUSES.replace("DISK", str(self.disk)) + table)

    def ask(self, command, *options):
        return subprocess.run([self.candor, "route", command, *options, "--control", self.control],
                              capture_output=True, text=True)

    def load(self, table):
        self.write(table)
        return self.ask("load").returncode

    def stats(self):
        lines = [json.loads(line) for line in self.ask("stats", "--json").stdout.splitlines()]
        ports = {line["data"]["bus"]: line["data"] for line in lines if line["type"] == "port"}
        return ports, [line["data"] for line in lines if line["type"] == "rule"]

    def resources(self):
        """Resident memory in KB, threads and descriptors."""
        folder = Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        return int(status["VmRSS"].split()[0]), int(status["Threads"]), len(list((folder / "fd").iterdir()))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(FOR_EVER_S)


def until(what, is_so, limit_s=FOR_EVER_S):
    end = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"FAIL after {limit_s} s it is not so: {what}")
        time.sleep(0.05)


class Day:
    """What happens in it."""

    def __init__(self, gateway, source, peer, seed):
        self.gateway, self.source, self.peer = gateway, source, peer
        self.drawn = random.Random(seed)
        self.filler = gateway.disk / "filler"
        self.silent = []
        self.failures = []
        self.counts = {}

    def other_rules(self):
        if self.gateway.load(self.drawn.choice(TABLES)) != 0:
            self.failures.append("rules without a mistake were refused")

    def rules_with_a_mistake(self):
        if self.gateway.load(MISTAKE) != 1:
            self.failures.append("rules with a mistake were taken")

    def peer_hangs_up(self):
        self.peer.hangs_up = True

    def peer_reads_nothing(self):
        self.peer.reads = False

    def peer_reads_again(self):
        self.peer.reads = True

    def disk_is_full(self):
        try:
            with self.filler.open("ab", buffering=0) as filler:
                while filler.write(bytes(4096)):
                    pass
        except OSError:
            pass  # it is full

    def disk_has_room(self):
        self.filler.unlink(missing_ok=True)

    def silent_client(self):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.gateway.control))
        self.silent = [*self.silent[-3:], client]

    def malformed_datagrams(self):
        self.source.rubbish(self.drawn)

    def hour(self, seconds):
        events = [self.other_rules, self.other_rules, self.rules_with_a_mistake, self.peer_hangs_up,
                  self.peer_reads_nothing, self.peer_reads_again, self.disk_is_full, self.disk_has_room,
                  self.silent_client, self.malformed_datagrams]
        chosen = self.drawn.choices(events, k=4)
        for event in chosen:
            self.counts[event.__name__] = self.counts.get(event.__name__, 0) + 1
            event()
            time.sleep(seconds / len(chosen))

    def evening(self):
        """Everything works again, as in the morning."""
        for client in self.silent:
            client.close()
        self.silent = []
        self.disk_has_room()
        self.peer.hangs_up, self.peer.reads = False, True
        self.gateway.load(TABLES[0])


def balance(gateway, source, sink, peer, day):
    """What must hold in the end, as pairs of a sentence and whether it does."""
    source.stop()

    def is_settled():
        ports, rules = gateway.stats()
        arrived = ports["a"]["received"] + PER_DATAGRAM * ports["a"]["overflow_datagrams"] == source.sent
        return arrived and all(rule["pending"] == 0 for rule in rules)

    until("everything has arrived, and nothing waits", is_settled)
    resources = gateway.resources()
    ports, rules = gateway.stats()
    status = gateway.stop()
    peer.stop()
    sink.stop()
    handled = {to: sum(rule["handled"] for rule in rules if rule["to"] == to) for to in ("udp", "tcp", "disk")}
    stopped = {to: sum(sum(rule["stopped"].values()) for rule in rules if rule["to"] == to) for to in handled}
    log = (gateway.disk / "day.log").read_text().splitlines()
    recorded = [int(line.split("#")[1].split()[0], 16) for line in log]
    print(f"sent {source.sent}, overflow {PER_DATAGRAM * ports['a']['overflow_datagrams']}; "
          f"handled {handled}, stopped {stopped}; TCP peer received {peer.received} and acknowledged {peer.acknowledged} in {peer.connections} "
          f"connections, lost {ports['tcp']['lost']}; recorded {len(recorded)}, lost {ports['disk']['lost']}; "
          f"events {day.counts}; memory, threads, descriptors {resources}")
    received = ports["a"]["received"]
    yield "the gateway ends with 0", status == 0
    yield "no frame is unmatched", ports["a"]["unmatched"] == 0
    yield "every malformed datagram is counted", ports["a"]["malformed_datagrams"] == source.malformed
    for to in handled:
        yield f"each frame has a copy for {to}", handled[to] + stopped[to] == received
    yield "the UDP peer received what was transmitted", len(sink.numbers) == handled["udp"]
    yield "the UDP peer received each frame once, in order", is_rising(sink.numbers)
    yield "the TCP peer received no more than was handled", peer.received <= handled["tcp"]
    # A frame may be cut in two where a connection ends; one that was acknowledged at that moment may be lost, too.
    accounted = peer.acknowledged + ports["tcp"]["lost"] + peer.connections
    yield "what the TCP peer did not acknowledge is lost", peer.acknowledged <= handled["tcp"] <= accounted
    yield "the recording has what was handled", len(recorded) == handled["disk"] - ports["disk"]["lost"]
    yield "the recording is in order", is_rising(recorded)
    yield "something was passed on in each way", all(handled.values())


def is_rising(numbers):
    return all(before < after for before, after in zip(numbers, numbers[1:]))


def has_grown(before, after):
    """Whether memory, threads or descriptors are more than in the first hour: more than 10 % and 1 MB of it."""
    return after[0] > before[0] * 1.1 + 1024 or after[1] > before[1] or after[2] > before[2]


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "disk").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={arguments.disk_kb}k", "none", folder / "disk"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        peer, sink = Peer(), Sink()
        gateway = Gateway(arguments.candor, folder)
        source = Source(arguments.rate)
        day = Day(gateway, source, peer, arguments.seed)
        print(f"seed {arguments.seed}, {arguments.minutes} minutes", flush=True)
        morning = None
        try:
            for hour in range(HOURS):
                day.hour(60 * arguments.minutes / HOURS)
                if morning is None:
                    day.evening()
                    time.sleep(1)
                    morning = gateway.resources()
            day.evening()
            time.sleep(1)
            evening = gateway.resources()
            checks = list(balance(gateway, source, sink, peer, day))
        finally:
            gateway.process.kill()
            source.stop()
            peer.stop()
            sink.stop()
            subprocess.run(["umount", "--lazy", folder / "disk"], check=False)
        checks.append((f"memory, threads, descriptors: {morning} at first, {evening} at last", not has_grown(morning, evening)))
        checks += [(failure, False) for failure in day.failures]
        for text, holds in checks:
            print("ok  " if holds else "FAIL", text)
        return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("candor", type=lambda name: Path(name).resolve())
    parser.add_argument("--minutes", type=float, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    # Room for what a day records, and a bit.
    chosen.disk_kb = DISK_KB + int(chosen.rate * chosen.minutes * 60 * 60 / 1000)
    if not chosen.inside:
        rights = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", "--mount", "--net", *rights, sys.executable, __file__, *sys.argv[1:], "--inside"]
        os.execvp(command[0], command)
    sys.exit(main(chosen))

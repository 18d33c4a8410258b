"""Compares how candor and its peers read the same recordings.

    tests/.venv/bin/python tests/conformance/logs.py path/to/candor

* python-can (PyPI) reads each candump log of ../shared/data; every record must be the one candor
  reads.
* tshark (Debian package `tshark`) reads the pcap and pcapng files that candor writes; every record
  must be the one that candor read before.
* tshark reads the datagrams of can2udp that candor writes into a capture of Ethernet.
* candor reads pcap and pcapng files that editcap (same package) wrote.
* A capture of CAN and Ethernet together, made by mergecap (same package): the frames are the same after candor
  has written it again, and candor's statistics of streams are those that follow from tshark's fields.

The common form of a record is its line in a candump log as candor writes it. Exit code 0 if all
agree, 1 if not. What is absent is skipped with a printed line, unless the environment variable CI
is `true`.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CANDUMP_LOGS = [
    "ford-focus/lights.log",
    "ford-focus/accel.log",
    "toyota-auris/lights.log",
    "j1939/j1939.log",
    "savvycan/candump.log",
]
# Every kind of frame that tshark shows completely, on two buses, in both directions.
KINDS = """\
(0000000001.000000) can0 123#DEADBEEF
(0000000001.000000500) body 12345678#R4 T
(0000000002.000000) can0 123##3AABB R
(0000000002.000000001) can0 1FFFFFFF##1112233445566778899AABBCC
(0000000003.000001) can0 7FF#1122334455667788
(0000000004.000001) can0 001##0
(0000000004.000002) body 00000000#
(4294967296.000000) can0 000#R
"""
TSHARK_FIELDS = [
    "frame.time_epoch",
    "frame.interface_name",
    "frame.packet_flags_direction",
    "can.id",
    "can.flags.xtd",
    "can.flags.rtr",
    "can.len",
    "canfd.flags.brs",
    "canfd.flags.esi",
    "data.data",
]


ETHERNET_FIELDS = [
    "frame.time_epoch",
    "frame.interface_name",
    "frame.cap_len",
    "frame.len",
    "eth.dst",
    "vlan.id",
    "eth.type",
    "vlan.etype",
    "eth.len",
    "vlan.len",
]


def ethernet_pcap():
    """A capture of 400 Ethernet frames: several destinations, with and without a tag, with types and with lengths,
    some of which the recorder has cut."""
    out = [struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    for number in range(400):
        destination = bytes([3, 4, 5, 6, 0, number % 7])
        tag = struct.pack(">HH", 0x8100, 0xE000 | number % 3) if number % 3 else b""
        # A length is one of 802.3; 0x88b5 is for experiments, 0x88d7 is time-triggered Ethernet.
        ether_type = [0x88D7, 46, 0x88B5][number % 5 % 3]
        payload = bytes(46 + number * 37 % 1454)
        frame = destination + bytes([2, 0, 0, 0, 0, 1]) + tag + struct.pack(">H", ether_type) + payload
        captured = frame[: 60 if number % 11 == 0 else len(frame)]
        seconds, nanos = divmod(10**18 + number * 1_250_000 + number % 4 * 777, 10**9)
        out.append(struct.pack("<IIII", seconds, nanos, len(captured), len(frame)) + captured)
    return b"".join(out)


def run(*arguments):
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def line(time_ns, interface, extended, can_id, rest, direction=""):
    """A line as candor writes it."""
    seconds, nanos = divmod(time_ns, 10**9)
    decimals = f"{nanos // 1000:06}" if nanos % 1000 == 0 else f"{nanos:09}"
    digits = 8 if extended else 3
    return f"({seconds:010}.{decimals}) {interface} {can_id:0{digits}X}#{rest}{direction}"


def by_python_can(path):
    import can

    with can.CanutilsLogReader(path) as messages:
        for message in messages:
            rest = message.data.hex().upper()
            if message.is_remote_frame:
                rest = f"R{message.dlc or ''}"
            # Its time is a binary fraction, exact to less than a microsecond.
            time_ns = round(message.timestamp * 10**6) * 1000
            yield line(
                time_ns, message.channel, message.is_extended_id, message.arbitration_id, rest
            )


def by_tshark(path, default_interface):
    fields = [argument for field in TSHARK_FIELDS for argument in ("-e", field)]
    text = run("tshark", "-r", path, "-T", "fields", "-E", "separator=|", *fields)
    for row in text.splitlines():
        time, interface, direction, can_id, extended, remote, length, brs, esi, data = row.split("|")
        seconds, nanos = time.split(".")
        time_ns = int(seconds) * 10**9 + int(nanos.ljust(9, "0"))
        data = data.replace(":", "").upper()
        if brs:
            data = f"#{int(brs) | int(esi) << 1}{data}"
        elif remote == "1":
            data = f"R{length if length != '0' else ''}"
        way = ["", " R", " T"][int(direction or "0", 0) & 3]
        yield line(
            time_ns, interface or default_interface, extended == "1", int(can_id, 0), data, way
        )


def by_can2udp(path):
    """The frames in the datagrams of a capture, if tshark finds the check sums of IPv4 right."""
    names = ["frame.time_epoch", "ip.checksum.status", "udp.dstport", "data.data"]
    fields = [argument for field in names for argument in ("-e", field)]
    options = ["-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "separator=|", *fields]
    for row in run("tshark", "-r", path, *options).splitlines():
        time, status, port, data = row.split("|")
        if (status, port) != ("1", "4858"):
            yield row
            continue
        seconds, nanos = time.split(".")
        version, flags, interface, can_id, length, fd_flags = struct.unpack("<BBHIBB", bytes.fromhex(data)[:10])
        rest = data[24 : 24 + 2 * length].upper()
        if version == 2:
            rest = f"#{fd_flags & 3}{rest}"
        elif can_id & 0x40000000:
            rest = f"R{length or ''}"
        name = f"udp{port}.{interface}"
        yield line(int(seconds) * 10**9 + int(nanos), name, can_id >> 31, can_id & 0x1FFFFFFF, rest)


def ethernet_rows(path):
    fields = [argument for field in ETHERNET_FIELDS for argument in ("-e", field)]
    # The first of several values: the outer header.
    text = run("tshark", "-r", path, "-Y", "eth", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f", *fields)
    return text.splitlines()


def streams_by_tshark(rows):
    """What `candor log info --json` says about each stream, from the fields of its frames."""
    times, lengths = defaultdict(list), defaultdict(list)
    for row in rows:
        time, interface, _, length, destination, vlan, ether_type, tagged_type, *_ = row.split("|")
        seconds, nanos = time.split(".")
        kind = tagged_type if vlan else ether_type
        kind = int(kind, 0) if kind else None
        key = (interface, destination, int(vlan) if vlan else None, f"0x{kind:04x}" if kind else None)
        times[key].append(int(seconds) * 10**9 + int(nanos.ljust(9, "0")))
        lengths[key].append(int(length))
    for key, at in times.items():
        gaps = [later - earlier for earlier, later in zip(at, at[1:])]
        yield (*key, len(at), min(lengths[key]), max(lengths[key]), min(gaps), max(gaps))


class Comparison:
    def __init__(self, candor):
        self.candor = candor
        self.disagreements = 0
        self.skips = 0

    def convert(self, source, target, *options):
        run(self.candor, "log", "convert", source, target, "--force", *options)
        return target

    def lines(self, path):
        return run(self.candor, "log", "convert", path, "-", "--to", "candump").splitlines()

    def agree(self, title, ours, peers):
        peers = list(peers)
        for number, (our, peer) in enumerate(zip(ours, peers), start=1):
            if our != peer:
                print(f"DIFFERENT: {title}: record {number}: candor `{our}`, peer `{peer}`")
                self.disagreements += 1
                return
        if len(ours) != len(peers) or not ours:
            print(f"DIFFERENT: {title}: candor {len(ours)} records, peer {len(peers)}")
            self.disagreements += 1
            return
        print(f"agreed: {title}: {len(ours)} records")

    def skip(self, what, remedy):
        print(f"skipped: {what} is absent ({remedy})")
        self.skips += 1

    def with_python_can(self):
        for name in CANDUMP_LOGS:
            path = str(DATA / name)
            self.agree(f"python-can reads {name}", self.lines(path), by_python_can(path))

    def with_tshark(self, folder, has_data):
        kinds = f"{folder}/kinds.log"
        Path(kinds).write_text(KINDS)
        written = self.convert(kinds, f"{folder}/kinds.pcapng")
        self.agree("tshark reads kinds.pcapng", KINDS.splitlines(), by_tshark(written, None))
        # What pcap cannot hold: names, directions, times after 2106.
        lines = [record.replace("body", "can0") for record in KINDS.splitlines()[:-1]]
        Path(kinds).write_text("".join(f"{record}\n" for record in lines))
        written = self.convert(kinds, f"{folder}/kinds.pcap")
        lines = [record.removesuffix(" R").removesuffix(" T") for record in lines]
        self.agree("tshark reads kinds.pcap", lines, by_tshark(written, "can0"))
        written = f"{folder}/can2udp.pcap"
        run(self.candor, "log", "convert", kinds, written, "--to", "can2udp")
        numbered = [record.replace("can0", "udp4858.0") for record in lines]
        self.agree("tshark reads can2udp.pcap", numbered, by_can2udp(written))
        self.agree("candor reads can2udp.pcap", numbered, self.lines(written))
        if not has_data:
            return
        for name in ["ford-focus/lights.log", "j1939/j1939.log"]:
            lines = self.lines(str(DATA / name))
            for ending in ["pcap", "pcapng"]:
                written = self.convert(str(DATA / name), f"{folder}/log.{ending}")
                title = f"tshark reads {name} as {ending}"
                self.agree(title, lines, by_tshark(written, "can0"))
        n2k = str(DATA / "n2k/can0-1.pcap")
        lines = self.lines(n2k)
        self.agree("tshark reads n2k/can0-1.pcap", lines, by_tshark(n2k, "can0"))
        for file_format in ["pcap", "nsecpcap", "pcapng"]:
            written = f"{folder}/{file_format}"
            run("editcap", "-F", file_format, n2k, written)
            self.agree(f"editcap writes {file_format}", self.lines(written), lines)


    def with_ethernet(self, folder):
        Path(f"{folder}/kinds.log").write_text(KINDS)
        self.convert(f"{folder}/kinds.log", f"{folder}/can.pcapng")
        Path(f"{folder}/ethernet.pcap").write_bytes(ethernet_pcap())
        merged, written = f"{folder}/merged.pcapng", f"{folder}/written.pcapng"
        captures = [f"{folder}/ethernet.pcap", self.convert(f"{folder}/ethernet.pcap", f"{folder}/ethernet.pcapng")]
        packets = [run("tshark", "-r", path, "-x") for path in captures]
        self.agree("tshark reads the bytes of Ethernet frames", *(packet.splitlines() for packet in packets))
        run("mergecap", "-w", merged, f"{folder}/can.pcapng", captures[1])
        self.convert(merged, written)
        rows = ethernet_rows(merged)
        self.agree("tshark reads Ethernet beside CAN", ethernet_rows(written), rows)
        self.agree("CAN frames beside Ethernet", self.lines(merged), KINDS.splitlines())
        objects = map(json.loads, run(self.candor, "log", "info", merged, "--json").splitlines())
        names = "interface destination vlan ether_type frames len_min len_max period_ns_min period_ns_max".split()
        streams = [tuple(it["data"][name] for name in names) for it in objects if it["type"] == "stream"]
        self.agree("streams by tshark", sorted(map(str, streams)), sorted(map(str, streams_by_tshark(rows))))


def main():
    comparison = Comparison(str(Path(sys.argv[1]).resolve()))
    has_data = DATA.exists()
    if not has_data:
        comparison.skip("../shared/data", "it holds the recordings")
    try:
        import can  # noqa: F401

        if has_data:
            comparison.with_python_can()
    except ImportError:
        comparison.skip("python-can", "tests/.venv/bin/pip install python-can")
    if all(map(shutil.which, ["tshark", "editcap", "mergecap"])):
        with tempfile.TemporaryDirectory() as folder:
            comparison.with_tshark(folder, has_data)
            comparison.with_ethernet(folder)
    else:
        comparison.skip("tshark", "apt-get install tshark")
    must_be_complete = os.environ.get("CI") == "true"
    return 1 if comparison.disagreements or must_be_complete and comparison.skips else 0


if __name__ == "__main__":
    sys.exit(main())

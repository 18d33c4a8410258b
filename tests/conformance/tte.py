"""Lets tshark read a capture of `candor tte capture`, and compares it with instants calculated by hand.

    tests/.venv/bin/python tests/conformance/tte.py path/to/candor

Wireshark's dissector of TTEthernet has to know every frame of critical traffic by the marker and mask of the network file,
and to find the fields of protocol control frames. In a network namespace, interfaces that stamp nothing are refused. Exit code 0
if all agree, 1 if not.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

CYCLES = 20
CYCLE_NS = 3_000_000
NETWORK = """\
cycle = "3ms"
precision = "2us"
frames = { type = "length", marker = 0xabadbabe }
end_system = { a = {}, b = {} }
switch.s = { processing = "2us" }
link.left = { between = ["a", "s"], delay = "100ns" }
link.right = { between = ["b", "s"], delay = "200ns" }
[synchronisation]
period = "3ms"
masters = ["a", "b"]
compression_master = "s"
[flow.tt]
class = "tt"
id = 0x0fee
from = "a"
to = "b"
size = 256
send = "2ms"
relay_delay = "100us"
[flow.rc]
class = "rc"
id = 2
from = "b"
to = "a"
size = 100
gap = "1ms"
"""
# Those that `candor tte capture` prints.
PREFERENCES = ["tte.ct_marker_value:0xabadbabe", "tte.ct_mask_value:0xffffffff"]
FIELDS = [
    "frame.time_epoch",
    "frame.interface_name",
    "frame.len",
    "tte.cf",
    "tte.ctid",
    "tte_pcf.ic",
    "tte_pcf.mn",
    "tte_pcf.type",
    "tte_pcf.tc",
    "_ws.col.Info",
]
# A byte at 100 Mbit/s, and the preamble.
BYTE_NS = 80
PREAMBLE_NS = 8 * BYTE_NS


def nanoseconds(text):
    seconds, fraction = text.split(".")
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0"))


def read(capture):
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields"]
    command += [part for it in PREFERENCES for part in ("-o", it)]
    command += [part for it in FIELDS for part in ("-e", it)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    frames = [dict(zip(FIELDS, row, strict=True)) for row in rows]
    for frame in frames:
        frame["ns"] = nanoseconds(frame["frame.time_epoch"])
    return frames


def check(what, found, wanted):
    if found != wanted:
        print(f"{what}: found {found}, wanted {wanted}")
        sys.exit(1)


def refuses(candor):
    """A bridge receives with stamps and transmits without; a pair of interfaces does both."""
    script = """
        set -e
        ip link add bridge type bridge
        ip link set bridge up
        ip link add here type veth peer name there
        ip link set here up
        ip link set there up
        for interface in bridge here; do
            timeout 20 "$0" tte generate n.tte.toml --node a --interface $interface --free-running --count 2 || echo "exit $?"
        done
        timeout 20 "$0" tte analyze n.tte.toml --interface bridge --wait 10ms || echo "exit $?"
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "n.tte.toml").write_text(NETWORK)
        command = ["unshare", "--net", "sh", "-c", script, candor]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)
    said = done.stderr.splitlines()
    remedy = "use an interface for which `ethtool -T` lists software-transmit and software-receive"
    refusals = [line for line in said if line.endswith(remedy)]
    wanted = "candor: bridge: its driver does not stamp what it transmits, so nothing can be measured; "
    check("refusals", refusals, [wanted + remedy])
    # The analyzer needs no stamps of what is transmitted, and hears nothing.
    check("exit codes", done.stdout.splitlines()[0], "exit 2")
    check("a pair of interfaces", any(line.startswith("here: 2 frames sent") for line in said), True)


def main():
    candor = Path(sys.argv[1]).resolve()
    refuses(candor)
    with tempfile.TemporaryDirectory() as folder:
        network, capture = Path(folder, "n.tte.toml"), Path(folder, "n.pcapng")
        network.write_text(NETWORK)
        command = [candor, "tte", "capture", network, capture, "--cycles", str(CYCLES)]
        subprocess.run(command, check=True, timeout=60, stderr=subprocess.DEVNULL)
        frames = read(capture)
    check("constant fields", {frame["tte.cf"] for frame in frames}, {"0xabadbabe"})
    at = lambda interface: [frame for frame in frames if frame["frame.interface_name"] == interface]

    # Time-triggered: so long behind the protocol control frame of the same cycle, whose preamble begins with it. From the
    # second cycle on; in the first one the clocks, which begin a little apart, are brought together.
    begins = [it["ns"] - PREAMBLE_NS for it in at("left/a") if it["tte.ctid"] == "0xffff"][1:]
    check("cycles", {later - earlier for earlier, later in zip(begins, begins[1:])}, {CYCLE_NS})
    for interface, behind_ns in (("left/a", 2_000_000), ("right/s", 2_000_000 + 100_000 + 100)):
        scheduled = [frame for frame in at(interface) if frame["tte.ctid"] == "0x0fee"]
        wanted = [it + behind_ns for it in begins[:CYCLES]]
        check(f"instants on {interface}", [it["ns"] for it in scheduled], wanted)
        for frame in scheduled:
            check("length", frame["frame.len"], "252")
            check("kind", frame["_ws.col.Info"], "TTEthernet Frame")

    # Rate-constrained: never closer than the gap.
    constrained = [frame["ns"] for frame in at("right/b") if frame["tte.ctid"] == "0x0002"]
    gaps = [later - earlier for earlier, later in zip(constrained, constrained[1:])]
    check("gap", (len(constrained) > 2 * CYCLES, min(gaps) >= 1_000_000), (True, True))

    # Protocol control frames: kind IN, a bit for each master, and the delay on the way in units of 2^-16 ns.
    for interface, member, delay_ns in (("left/a", 1, 100), ("right/b", 2, 200)):
        control = [frame for frame in at(interface) if frame["tte.ctid"] == "0xffff"]
        check("kind", {int(it["tte_pcf.type"], 0) for it in control}, {2})
        check("member", {int(it["tte_pcf.mn"], 0) for it in control}, {member})
        numbers = [int(it["tte_pcf.ic"], 0) for it in control]
        check("integration cycles", numbers, list(range(len(numbers))))
        check("cycles", len(numbers) >= CYCLES, True)
        delays = {int(it["tte_pcf.tc"], 0) / 2**16 for it in control}
        least = PREAMBLE_NS + 64 * BYTE_NS + delay_ns
        check("transparent clock", min(delays) >= least and max(delays) < least + 20_000, True)
    compressed = [frame for frame in at("left/s") if frame["tte.ctid"] == "0xffff"]
    check("compressed members", {int(it["tte_pcf.mn"], 0) for it in compressed}, {3})
    print(f"tshark knows all {len(frames)} frames")


if __name__ == "__main__":
    main()

"""Sends every recording of ../shared/data through the gateway of examples/replay.toml.

    python3 tests/replay.py path/to/candor

No frame may get lost in silence: every recorded frame is sent, and each is received, not routed,
refused or lost, with a cause. The frames of a recording are counted here, not by candor.
Exit code 0 if that holds, 1 if not, 77 if the recordings are absent.
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
RECORDINGS = [
    "ford-focus/lights.log",
    "ford-focus/accel.log",
    "toyota-auris/lights.log",
    "j1939/j1939.log",
    "savvycan/candump.log",
    "n2k/can0-1.pcap",
]


def frames_in(path):
    content = path.read_bytes()
    if path.suffix == ".log":
        return sum(line.lstrip().startswith(b"(") for line in content.splitlines())
    # Little-endian pcap: a header of 24 bytes, then records of 16 bytes and so many more.
    count, at = 0, 24
    while at < len(content):
        count, at = count + 1, at + 16 + struct.unpack_from("<I", content, at + 8)[0]
    return count


def replay(candor, recording, folder):
    """What is wrong, or None."""
    command = [candor, "lab", "run", ROOT / "examples/replay.toml", "--out", folder]
    command += ["--set", f"traffic.log={DATA / recording}"]
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode != 0:
        return f"exit code {outcome.returncode}: {outcome.stderr.strip()}"
    result = json.loads((Path(folder) / "results/replay.json").read_text())
    counts = result["counts"]
    stopped = sum(cause["frames"] for cause in result["stopped"])
    frames = frames_in(DATA / recording)
    print(f"{recording}: {frames} frames, {counts}, {stopped} stopped by cause")
    if counts["sent"] != frames:
        return f"{counts['sent']} frames sent of {frames}"
    endings = ["received", "not_routed", "refused", "lost"]
    if counts["sent"] != sum(counts[ending] for ending in endings):
        return "the frames sent are not those received, not routed, refused and lost"
    if counts["sent"] != counts["received"] + stopped:
        return f"{counts['received']} frames received and {stopped} stopped by cause"
    return None


def main():
    if not DATA.exists():
        print("skipped: ../shared/data is absent")
        return 77
    candor = Path(sys.argv[1]).resolve()
    failed = 0
    for recording in RECORDINGS:
        with tempfile.TemporaryDirectory() as folder:
            if trouble := replay(candor, recording, folder):
                print(f"FAIL {recording}: {trouble}")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

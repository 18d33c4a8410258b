"""Compares how candor and python-can (PyPI) read and write BLF, ASC and TRC, and read MF4.

    tests/.venv/bin/python tests/conformance/recordings.py path/to/candor

* python-can writes random frames of every kind, on two buses and in both directions; candor must read what python-can
  reads of the same file.
* candor writes what it read, and each candump log of ../shared/data, in all of them; python-can must read the same.

Left out are faults of python-can 4.6: its reader of ASC takes CAN FD frames of no bytes for remote frames; that of TRC counts
channels from 1, has no error frames, and takes the length code of CAN FD frames for their length; its writer of TRC leaves both
kinds out. Times are compared to the microsecond: python-can's are binary fractions. Exit code 0 if all agree, 1 if not. What is absent is skipped with a printed line, unless the environment
variable CI is `true`.
"""

import logging
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LOGS = [
    "ford-focus/lights.log",
    "toyota-auris/lights.log",
    "j1939/j1939.log",
    "savvycan/candump.log",
]
MF4 = "j1939/truck.mf4"
SEED = 20261127
FRAMES = 5_000
FORMATS = ["blf", "asc", "trc", "blf.gz", "asc.zst"]
FD_LENGTHS = [0, 1, 5, 8, 12, 16, 20, 24, 32, 48, 64]


def messages():
    """Random frames of every kind."""
    import can

    chance = random.Random(SEED)
    time = 1_700_000_000.0
    for _ in range(FRAMES):
        time += chance.choice([0.0001, 0.001, 0.01]) * chance.random()
        extended = chance.random() < 0.5
        common = {
            "timestamp": time,
            "channel": chance.randrange(2),
            "arbitration_id": chance.getrandbits(29 if extended else 11),
            "is_extended_id": extended,
            "is_rx": chance.random() < 0.8,
        }
        kind = chance.random()
        if kind < 0.05:
            yield can.Message(timestamp=time, channel=common["channel"], is_error_frame=True)
        elif kind < 0.15:
            yield can.Message(**common, is_remote_frame=True, dlc=chance.randrange(9))
        elif kind < 0.5:
            data = chance.randbytes(chance.choice(FD_LENGTHS))
            brs, esi = chance.random() < 0.5, chance.random() < 0.2
            yield can.Message(
                **common, is_fd=True, bitrate_switch=brs, error_state_indicator=esi, data=data, dlc=len(data)
            )
        else:
            yield can.Message(**common, data=chance.randbytes(chance.randrange(9)))


def write(path, **options):
    """python-can writes the random frames."""
    import can

    with can.Logger(path, **options) as logger:
        for message in messages():
            logger(message)
    return path


def by_python_can(path):
    """Its frames, as python-can reads them, each as a line."""
    import can

    options = {"relative_timestamp": False} if path.endswith(".asc") else {}
    with can.LogReader(path, **options) as reader:
        for it in reader:
            # Of MF4 python-can keeps the number: its own writer counts from 0, a recorder from 1. candor tells the two apart.
            first = 1 if path.endswith((".trc", MF4)) else 0
            channel = it.channel if isinstance(it.channel, str) else f"can{it.channel - first}"
            micros = round(it.timestamp * 1e6)
            if it.is_error_frame:
                yield micros, (channel, "error frame")
                continue
            # CAN FD has no remote frames.
            is_remote = it.is_remote_frame and not it.is_fd
            data = it.dlc if is_remote else bytes(it.data).hex()
            flags = (it.is_extended_id, is_remote, it.is_fd, it.bitrate_switch, it.error_state_indicator, it.is_rx)
            yield micros, (channel, it.arbitration_id, flags, data)


def kept(frames, ending):
    """Those that python-can reads from a file with this ending."""
    if ending != "trc":
        return frames
    return [(us, frame) for us, frame in frames if frame[1] != "error frame" and not frame[2][2]]


def in_order(frames):
    """Whether no frame is earlier than the one before."""
    times = [us for us, _ in frames]
    return times == sorted(times)


def by_content(frames):
    """MF4 has a group for each kind of frame, and no order among those of nearly one time."""
    return sorted(frames, key=lambda frame: (str(frame[1]), frame[0]))


def difference(ours, peers, tolerance_us=1):
    """Where two lists of frames differ first; `None` if they do not."""
    if len(ours) != len(peers) or not ours:
        return f"{len(ours)} frames against {len(peers)}"
    for number, ((our_us, our), (peer_us, peer)) in enumerate(zip(ours, peers), start=1):
        if our != peer or abs(our_us - peer_us) > tolerance_us:
            return f"frame {number}: {our_us} {our} against {peer_us} {peer}"
    return None


class Comparison:
    def __init__(self, candor, folder):
        self.candor, self.folder = candor, folder
        self.disagreements = 0

    def convert(self, source, ending):
        """Converts and reads it; python-can's candump reader drops channels of error frames, so never to candump."""
        target = f"{self.folder}/{Path(source).stem}-{Path(source).suffix[1:]}.{ending}"
        command = [self.candor, "log", "convert", source, target, "--force"]
        subprocess.run(command, check=True, capture_output=True)
        plain, _, compression = target.rpartition(".")
        if decompress := {"gz": ["gzip", "-df"], "zst": ["zstd", "-dqf", "--rm"]}.get(compression):
            subprocess.run([*decompress, target], check=True)
            return plain
        return target

    def read(self, source, ending):
        """The frames that are left of it, as python-can reads them."""
        return kept(list(by_python_can(self.convert(source, ending))), ending)

    def agree(self, title, ours, peers):
        found = difference(list(ours), list(peers))
        print(f"DIFFERENT: {title}: {found}" if found else f"agreed: {title}")
        self.disagreements += bool(found)

    def random_frames(self):
        stored = write(f"{self.folder}/stored.blf", compression_level=0)
        compressed = write(f"{self.folder}/compressed.blf", compression_level=6)
        small = write(f"{self.folder}/small.blf", max_container_size=777)
        logs = [write(f"{self.folder}/frames.{ending}") for ending in ["asc", "trc"]]
        mf4 = [write(f"{self.folder}/mf4-{level}.mf4", compression_level=level) for level in [0, 2]]
        for source in [stored, compressed, small, *logs, *mf4]:
            expected = list(by_python_can(source))
            for ending in FORMATS:
                title = f"{Path(source).name} of python-can as {ending} of candor"
                frames = self.read(source, ending), kept(expected, ending)
                self.agree(title, *(map(by_content, frames) if source in mf4 else frames))
                if not in_order(frames[0]):
                    print(f"DIFFERENT: {title}: a frame is earlier than the one before")
                    self.disagreements += 1

        for file in mf4:
            # Interfaces are compared: both formats have numbers.
            found = subprocess.run([self.candor, "log", "diff", stored, file], capture_output=True, text=True)
            same = None if found.returncode == 0 else found.stdout + found.stderr
            print(f"DIFFERENT: {Path(file).name} and stored.blf: {same}" if same else f"agreed: {Path(file).name} is stored.blf")
            self.disagreements += bool(same)

    def logs(self):
        for name in LOGS:
            source = str(DATA / name)
            # A candump log says nothing of directions; python-can calls such frames received.
            expected = list(by_python_can(source))
            # Both formats number interfaces.
            expected = [(us, (frame[0].replace("vcan", "can"), *frame[1:])) for us, frame in expected]
            # Formats that count from the start hold nothing before it.
            expected = [it for it in expected if it[0] >= expected[0][0]]
            for ending in FORMATS:
                self.agree(f"{name} as {ending}", self.read(source, ending), kept(expected, ending))
        frames = self.read(str(DATA / MF4), "blf"), by_python_can(str(DATA / MF4))
        self.agree(f"{MF4} as blf", *map(by_content, frames))


def main():
    must_be_complete = os.environ.get("CI") == "true"
    try:
        import can  # noqa: F401
    except ImportError:
        print("skipped: python-can is absent (tests/.venv/bin/pip install python-can)")
        return 1 if must_be_complete else 0
    # Of each frame that its writer of TRC leaves out.
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(str(Path(sys.argv[1]).resolve()), folder)
        comparison.random_frames()
        if DATA.exists():
            comparison.logs()
        else:
            print("skipped: ../shared/data is absent (it holds the recordings)")
    return 1 if comparison.disagreements or must_be_complete and not DATA.exists() else 0


if __name__ == "__main__":
    sys.exit(main())

"""Prints how many frames per second cantools decodes with the DBC file FILE.

    signal_decode.py FILE FRAME...

A frame is its identifier in decimal, a blank and its data in hex. The peer of
benches/signal_decode.rs, which runs this.
"""

import sys
import time

import cantools

SECONDS = 1.0


def main():
    database = cantools.database.load_file(sys.argv[1], strict=False, encoding="utf-8")
    frames = []
    for frame in sys.argv[2:]:
        can_id, data = frame.split(" ")
        frames.append((int(can_id), bytes.fromhex(data)))
    count = 0
    start = time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for can_id, data in frames:
            database.decode_message(can_id, data, decode_choices=False)
        count += len(frames)
    print(count / (time.perf_counter() - start))


main()

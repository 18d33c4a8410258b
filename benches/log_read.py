"""Prints how many frames per second python-can's LogReader reads of the recording FILE; the best of ROUNDS counts.

The peer of benches/log_read.rs, which runs this: log_read.py FILE ROUNDS
"""

import logging
import sys
import time

import can


def frames_per_second(path):
    start = time.perf_counter()
    with can.LogReader(path) as reader:
        count = sum(1 for _ in reader)
    return count / (time.perf_counter() - start)


logging.disable(logging.WARNING)
print(max(frames_per_second(sys.argv[1]) for _ in range(int(sys.argv[2]))))

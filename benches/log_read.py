"""Prints how many lines per second python-can's LogReader reads of the candump log FILE.

The peer of benches/log_read.rs, which runs this.
"""

import sys
import time

import can

ROUNDS = 5


def lines_per_second(path):
    start = time.perf_counter()
    with can.LogReader(path) as reader:
        count = sum(1 for _ in reader)
    return count / (time.perf_counter() - start)


print(max(lines_per_second(sys.argv[1]) for _ in range(ROUNDS)))

"""Makes drive.log: six seconds of the powertrain bus of examples/small-car.dbc.

    python3 examples/recordings/make.py > examples/recordings/drive.log

The car starts, accelerates through two gears, brakes and turns. Each message comes with its cycle time,
a little late at random, as controllers send them; the seed is fixed, so the bytes are always the same.
"""

import math
import random
import sys

START_S = 1_750_000_000
DURATION_MS = 6_000
BITRATE = 500_000
SEED = 2026


def at(ms, points):
    """The value at `ms` on the line through `points`, which are (ms, value)."""
    for (t0, v0), (t1, v1) in zip(points, points[1:]):
        if ms <= t1:
            return v0 + (v1 - v0) * max(0, ms - t0) / (t1 - t0)
    return points[-1][1]


SPEED_KMH = [(0, 0), (400, 0), (2_600, 38), (2_900, 38), (4_400, 62), (4_700, 62), (6_000, 21)]
ENGINE_RPM = [(0, 820), (400, 860), (2_600, 4_150), (2_900, 2_300), (4_400, 3_700), (6_000, 1_250)]
THROTTLE_PERCENT = [(0, 0), (400, 2), (700, 61), (2_500, 58), (2_600, 0), (2_900, 48), (4_300, 44),
                    (4_400, 0), (6_000, 0)]
BRAKE_BAR = [(0, 12), (300, 0), (4_600, 0), (4_900, 31), (5_800, 36), (6_000, 24)]
STEERING_DEG = [(0, 0), (2_900, 0), (3_500, -24), (4_300, 3), (4_900, 0), (6_000, 71)]


def put(data, start, length, value):
    """Writes an unsigned little-endian signal into `data`, as a DBC file counts its bits."""
    word = int.from_bytes(data, "little")
    mask = (1 << length) - 1
    word = word & ~(mask << start) | (round(value) & mask) << start
    data[:] = word.to_bytes(len(data), "little")


def message(length, *signals):
    data = bytearray(length)
    for start, bits, value in signals:
        put(data, start, bits, value)
    return data


def torque(ms):
    return 3.1 * at(ms, THROTTLE_PERCENT) - 24


def wheels(ms):
    speed, turn = at(ms, SPEED_KMH), at(ms, STEERING_DEG) / 900
    return [speed * (1 + turn), speed * (1 - turn), speed * (1 + turn / 2), speed * (1 - turn / 2)]


def gear(ms):
    return 0 if ms < 350 else 1 if ms < 2_700 else 2


# Identifier, cycle time in ms, and the data at a time, by message of the DBC file.
MESSAGES = [
    (0x0A8, 10, lambda t, n: message(
        8, (16, 16, (torque(t) + 4096) / 0.5), (32, 16, (torque(t + 30) + 4096) / 0.5))),
    (0x0BA, 10, lambda t, n: message(6, (16, 16, at(t - 20, ENGINE_RPM) / 0.25))),
    (0x0C0, 10, lambda t, n: message(
        8, (16, 16, at(t, ENGINE_RPM) / 0.25), (32, 8, at(t, THROTTLE_PERCENT) / 0.4),
        (56, 4, n % 16))),
    (0x0C4, 10, lambda t, n: message(
        7, (16, 16, (at(t, STEERING_DEG) + 780) / 0.1),
        (32, 16, (100 * (at(t, STEERING_DEG) - at(t - 10, STEERING_DEG)) + 1000) / 0.1))),
    (0x0CE, 10, lambda t, n: message(
        8, *((16 + 12 * i, 12, speed / 0.1) for i, speed in enumerate(wheels(t))))),
    (0x19E, 20, lambda t, n: message(
        8, (16, 16, at(t, BRAKE_BAR) / 0.1), (32, 1, at(t, BRAKE_BAR) > 1))),
    (0x1A0, 20, lambda t, n: message(5, (16, 4, gear(t)), (20, 4, 4))),
    (0x1B6, 20, lambda t, n: message(5, (16, 16, at(t, SPEED_KMH) / 0.01), (32, 1, 1))),
    (0x1D0, 100, lambda t, n: message(
        8, (16, 8, 71 + t / 3_000 + 40), (24, 8, 64 + t / 2_500 + 40), (32, 8, 23 + 40))),
    (0x2B2, 100, lambda t, n: message(4, (16, 8, 60 - at(t, SPEED_KMH) / 2))),
    (0x2F0, 100, lambda t, n: message(
        6, (16, 1, 1), (17, 1, 0), (24, 16, (0.8 + at(t, THROTTLE_PERCENT) / 4) / 0.05))),
    (0x3B4, 200, lambda t, n: message(
        8, (16, 12, (14.1 + 0.2 * math.sin(t / 700)) / 0.01), (32, 16, (6 + 1000) / 0.1),
        (48, 8, 87 / 0.5))),
    (0x7E8, 500, lambda t, n: message(8, (16, 8, 0x7F))),
]


def frames(draw):
    """All frames as (instant in us, identifier, data), as they are offered to the bus."""
    for identifier, cycle_ms, data in MESSAGES:
        offset_us = draw.randrange(cycle_ms * 1_000)
        for number in range(DURATION_MS // cycle_ms):
            ms = number * cycle_ms
            late_us = int(abs(draw.gauss(0, 60)))
            yield ms * 1_000 + offset_us + late_us, identifier, data(ms, number)


def main():
    end_us = 0
    for us, identifier, data in sorted(frames(random.Random(SEED))):
        # A frame waits for those before it; about as long as frames of this length are.
        duration_us = (55 + 9 * len(data)) * 1_000_000 // BITRATE
        end_us = max(us, end_us) + duration_us
        second, micro = divmod(end_us, 1_000_000)
        stamp = f"({START_S + second}.{micro:06})"
        sys.stdout.write(f"{stamp} can0 {identifier:03X}#{data.hex().upper()}\n")


if __name__ == "__main__":
    main()

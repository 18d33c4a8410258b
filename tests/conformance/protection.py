"""Compares how candor and an independent implementation protect messages end to end (AUTOSAR E2E).

    tests/.venv/bin/python tests/conformance/protection.py

crates/rules/testdata/e2e.txt lists messages before and after; the tests of candor-rules see to it that
candor protects them so. Here autosar-e2e (PyPI, MIT licence) has to make the same of them, and to accept
them. Exit code 0 if all agree, 1 if not.
"""

import sys
from pathlib import Path

from e2e import p01, p02

LIST = Path(__file__).resolve().parents[2] / "crates" / "rules" / "testdata" / "e2e.txt"
MODES = {
    "both": p01.E2E_P01_DATAID_BOTH,
    "alternating": p01.E2E_P01_DATAID_ALT,
    "low": p01.E2E_P01_DATAID_LOW,
    "nibble": p01.E2E_P01_DATAID_NIBBLE,
}


def protected(profile, inclusion, data_id, offset, counter, before):
    """What the peer makes of a message, and whether it accepts that."""
    data = bytearray.fromhex(before)
    # The peer takes the counter out of the data, and may write it there itself.
    data[offset + 1] = data[offset + 1] & 0xF0 | counter
    if profile == "1":
        number = int(data_id, 16)
        mode = {"data_id_mode": MODES[inclusion], "offset": offset}
        p01.e2e_p01_protect(data, number, increment_counter=False, **mode)
        return data, p01.e2e_p01_check(data, number, **mode)
    ids = bytes.fromhex(data_id)
    p02.e2e_p02_protect(data, ids, increment_counter=False)
    return data, p02.e2e_p02_check(data, ids)


def main():
    compared = differences = 0
    for line in LIST.read_text().splitlines():
        if line.startswith("#"):
            continue
        profile, inclusion, data_id, offset, counter, before, after = line.split()
        peer, accepts = protected(profile, inclusion, data_id, int(offset), int(counter), before)
        compared += 1
        if peer.hex().upper() != after or not accepts:
            differences += 1
            print(f"{line}\n  autosar-e2e: {peer.hex().upper()}, accepted: {accepts}")
    print(f"{compared} protected messages compared with autosar-e2e, {differences} differ")
    return 1 if differences or compared < 100 else 0


if __name__ == "__main__":
    sys.exit(main())

"""Reads program images with a reader written from docs/program-image.md alone, and compares which rules
take which frames with what `candor route explain` says.

    python3 tests/conformance/image.py path/to/candor

Exit code 0 if all agree, 1 if not.
"""

import json
import random
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EFF, RTR, ERR = 1 << 31, 1 << 30, 1 << 29
SECTIONS = {
    1: ("buses", 24), 2: ("strings", 1), 3: ("rules", 24), 4: ("jobs", 24), 5: ("exclusions", 12),
    6: ("matchers", 64), 7: ("standard", 4), 8: ("lists", 8), 9: ("matches", 8), 10: ("clusters", 24),
    11: ("candidates", 16), 12: ("groups", 16), 13: ("slots", 8), 14: ("inverted", 20), 15: ("errors", 20),
    16: ("edits", 324), 17: ("extensions", 136), 18: ("patterns", 132), 19: ("lengths", 2),
    20: ("actions", 136), 21: ("remaps", 8), 22: ("crc_tables", 256),
}
CLASSICAL, FD = 1, 2
NONE = 0xFFFFFFFF
# How many random frames of each kind, in addition to those near the filters.
RANDOM_FRAMES = 12


class Image:
    """The sections of an image, and what can be looked up there."""

    def __init__(self, image):
        magic, version, crc, length, count, self.max_hops = struct.unpack_from("<8sIIQIB", image)
        if (magic, version, length) != (b"CANDORPG", 2, len(image)) or zlib.crc32(image[16:]) != crc:
            raise ValueError("no program image of version 2")
        self.sections = {}
        for entry in range(count):
            kind, size, offset, records, zero = struct.unpack_from("<IIQII", image, 32 + 24 * entry)
            name, known_size = SECTIONS[kind]
            if size != known_size or offset % 8 or zero or offset + size * records > length:
                raise ValueError(f"section {name} is not as it should be")
            self.sections[name] = (size, image[offset:offset + size * records])

    def record(self, section, number, fields):
        size, data = self.sections[section]
        return struct.unpack_from("<" + fields, data, size * number)

    def count(self, section):
        size, data = self.sections[section]
        return len(data) // size

    def name(self, first, count):
        return self.sections["strings"][1][first:first + count].decode()

    def bus(self, name):
        for bus in range(self.count("buses")):
            if self.name(*self.record("buses", bus, "II")) == name:
                return bus
        raise KeyError(name)

    def rule_name(self, rule):
        first_job, jobs = self.record("rules", rule, "IH")
        return self.name(*self.record("jobs", first_job, "II")) if jobs else None

    def takes(self, section, number, word):
        """Whether a filter takes an identifier word."""
        wanted, mask, inverted = self.record(section, number, "III")
        if mask & ERR:
            return bool(word & ERR and word & mask & 0x1FFFFFFF)
        return not word & ERR and ((word & mask) == wanted) != bool(inverted)

    def slot(self, section, slots, mask, shift, word):
        """The value of a hash table for a word, 0 if there is none."""
        key, (first, _) = word & mask, slots
        fields = "IxxxxQ" if section == "candidates" else "II"
        for multiplier in (0x9E3779B9, 0x85EBCA6B):
            found, value = self.record(section, first + ((key * multiplier & 0xFFFFFFFF) >> shift), fields)
            if found == key:
                return value
        return 0

    def list(self, bus, short):
        """The matches of a short reference, as (list, rule, position)."""
        lists, _, matches, _ = self.record("matchers", bus, "IIII")
        if short & 1 << 31:
            start, count = short & ~(1 << 31), 1
        else:
            start, count = self.record("lists", lists + short, "II")
        return [self.match("matches", matches + number, "II") for number in range(start, start + count)]

    def match(self, section, number, fields):
        *_, rule, place = self.record(section, number, fields)
        return place >> 29, rule, place & (1 << 29) - 1

    def matches(self, bus, word):
        """The rules whose filters match, as (list, rule), in the order of firing."""
        if not word & (EFF | ERR):
            short, = self.record("standard", 4096 * bus + (word & 0x7FF | (word & RTR) >> 19), "I")
            return [found[:2] for found in self.list(bus, short)]
        extents = self.record("matchers", bus, "10I")
        walked = ("errors", *extents[8:10]) if word & ERR else ("inverted", *extents[6:8])
        section, first, count = walked
        found = [
            self.match(section, number, "12xII")
            for number in range(first, first + count)
            if self.takes(section, number, word)
        ]
        if not word & ERR:
            for cluster in range(extents[4], extents[4] + extents[5]):
                mask, shift, slot, slots, group, groups = self.record("clusters", cluster, "6I")
                selected = self.slot("candidates", (slot, slots), mask, shift, word)
                for bit in range(groups):
                    if selected >> bit & 1:
                        mask, shift, slot, slots = self.record("groups", group + bit, "4I")
                        found += self.list(bus, self.slot("slots", (slot, slots), mask, shift, word))
        kept = {}
        for kernel_list, rule, _ in sorted(found):
            first, count = self.record("rules", rule, "16xII")
            if not any(self.takes("exclusions", number, word) for number in range(first, first + count)):
                kept.setdefault(rule, kernel_list)
        return [(kernel_list, rule) for rule, kernel_list in kept.items()]

    def rule_takes(self, rule, data, length, is_fd):
        """Whether a rule takes frames like this one, whatever its identifier is."""
        flags, _, extension = self.record("rules", rule, "7xBII")
        if not flags & (FD if is_fd else CLASSICAL):
            return False
        if extension == NONE:
            return True
        pattern, wanted, unwanted, first, count = self.record("extensions", extension, "108x5I")

        def fits(number):
            least, value, mask = self.record("patterns", number, "B3x64s64s")
            compared = zip(data[:least], value, mask)
            return len(data) >= least and all(byte & bits == given for byte, given, bits in compared)

        ranges = [self.record("lengths", number, "BB") for number in range(first, first + count)]
        return (
            (not ranges or any(least <= length <= most for least, most in ranges))
            and (not wanted or any(fits(pattern + number) for number in range(wanted)))
            and not any(fits(pattern + wanted + number) for number in range(unwanted))
        )


def words(image, draw):
    """Identifier words near those of the filters, and others."""
    found = set()
    for section in ("slots", "inverted", "errors", "exclusions"):
        for number in range(image.count(section)):
            found.add(image.record(section, number, "I")[0])
    for number in range(image.count("standard")):
        if image.record("standard", number, "I")[0]:
            found.add(number & 0x7FF | (number & 0x800) << 19)
    # Words with flags come last.
    found = sorted(found)
    found = draw.sample(found, min(len(found), 60)) + found[-120:]
    near = [word ^ 1 << draw.choice((0, 1, 4, 8, 30)) for word in draw.sample(found, min(len(found), 60))]
    for _ in range(RANDOM_FRAMES):
        near += [draw.randrange(0x800), draw.randrange(1 << 29) | EFF, draw.randrange(1 << 29) | ERR]
    # A standard identifier has 11 bits, an error report no other flag.
    for word in found + near:
        if word & ERR:
            yield word & 0x1FFFFFFF | ERR
        else:
            yield word if word & EFF else word & (RTR | 0x7FF)


def notation(word, data, is_fd):
    """A frame as candump writes it, its data and its length."""
    shown = f"{word & 0x3FFFFFFF:08X}" if word & (EFF | ERR) else f"{word & 0x7FF:03X}"
    if word & RTR:
        return f"{shown}#R{len(data)}", b"", len(data)
    if is_fd:
        return f"{shown}##1{data.hex().upper()}", data, len(data)
    return f"{shown}#{data.hex().upper()}", data, len(data)


def explained(candor, rules, bus, frame):
    """The rules that take a frame in its first pass, as (list, rule), by what candor says."""
    command = [candor, "route", "explain", "--json", rules, bus, frame]
    output = subprocess.run(command, capture_output=True, text=True)
    if output.returncode > 1:
        raise RuntimeError(output.stderr)
    objects = [json.loads(line) for line in output.stdout.splitlines()]
    rules = [it["data"] for it in objects if it["type"] == "rule" and it["data"]["pass"] == 1]
    return {(rule["list"], rule["rule"]) for rule in rules if rule["taken"]}


def pattern(draw):
    """A pattern of a rule file. Identifiers are few, so that rules meet."""
    standard, extended = draw.randrange(0x40) << 4, draw.randrange(0x80) << 8 | 0x18000000
    kind = draw.randrange(9)
    if kind < 4:
        return draw.choice(("", "", "any ", "remote ")) + (f"0x{extended:X}x" if kind else f"0x{standard:X}")
    mask = draw.choice((0x1FFFFF00, 0x1FFF8F00, 0x0000FF00, 0x1F00F000, 0x1FFFFFFF))
    return (
        f"0x{extended & mask:X}x/0x{mask:X}",
        f"0x{extended:X}x-0x{extended + draw.randrange(1, 0x300):X}x",
        f"0x{standard & 0x7C0:X}/0x7C0",
        f"{standard:X}~{draw.choice((0x7FF, 0x700)):X}",
        f"{draw.randrange(1 << 8):X}:{draw.choice((0xC00000FF, 0x8000000F, 0xF)):X}",
    )[kind - 4]


def made_rules(draw, count):
    """A rule file with many rules."""
    lines = ['[bus]', 'a = "can0"', 'b = "can1"', 'c = "can2"']
    for _ in range(count):
        source, target = draw.sample("abc", 2)
        patterns = [pattern(draw) for _ in range(draw.randrange(1, 4))]
        if draw.random() < 0.3:
            patterns.append("!" + pattern(draw))
        if draw.random() < 0.1:
            patterns.append("error")
        frames = draw.choice(("classical", "classical", "fd", "any"))
        lines += ["[[rule]]", f'from = "{source}"', f'to = "{target}"', f"match = {json.dumps(patterns)}",
                  f'frames = "{frames}"']
    return "\n".join(lines) + "\n"


def compare(candor, rules, folder, draw):
    """Compares one rule file; returns how many frames were compared, how many rules took them, and what
    differs."""
    path = Path(folder) / f"{rules.name}.image"
    compiled = subprocess.run([candor, "route", "compile", rules, "-o", path], capture_output=True, text=True)
    if compiled.returncode:
        return 0, 0, [f"{rules}: {compiled.stderr}"]
    image = Image(path.read_bytes())
    lists = ["error", "all", "masked", "inverted", "extended", "standard"]
    buses = [image.name(*image.record("buses", bus, "II")) for bus in range(image.count("buses"))]
    compared = taken = 0
    differences = []
    for word in words(image, draw):
        taking = [name for name in buses if image.matches(image.bus(name), word)]
        name = draw.choice(taking if taking and draw.random() < 0.8 else buses)
        is_fd = not word & (RTR | ERR) and draw.random() < 0.3
        length = 8 if word & ERR else draw.choice((0, 1, 4, 8, 12, 64) if is_fd else (0, 1, 3, 8))
        data = bytes(draw.choice((0, 1, 0x11, 0xFF, draw.randrange(256))) for _ in range(length))
        frame, data, length = notation(word, data, is_fd)
        mine = {
            (lists[kernel_list], image.rule_name(rule))
            for kernel_list, rule in image.matches(image.bus(name), word)
            if image.rule_takes(rule, data, length, is_fd)
        }
        candors = explained(candor, rules, name, frame)
        compared += 1
        taken += len(mine)
        if mine != candors:
            differences.append(f"{rules.name}: {frame} on {name}: {mine} by the image, {candors} by candor")
    return compared, taken, differences


def main():
    candor = sys.argv[1]
    folders = [ROOT / "examples", ROOT / "examples/gateway"]
    files = [path for folder in folders for path in sorted(folder.glob("*.rules.toml"))]
    files += [ROOT / "crates/rules/testdata" / name for name in ("everything.toml", "extension.toml")]
    draw = random.Random(1)
    compared = taken = 0
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        for rules in (5, 30, 150):
            files.append(Path(folder) / f"{rules}.rules.toml")
            files[-1].write_text(made_rules(draw, rules))
        for path in files:
            frames, rules, different = compare(candor, path, folder, draw)
            compared, taken, differences = compared + frames, taken + rules, differences + different
    for difference in differences:
        print(difference)
    print(f"{len(files)} images: {compared} frames compared, {taken} times a rule took one, "
          f"{len(differences)} differ")
    return 1 if differences or compared < 300 or taken < 300 else 0


if __name__ == "__main__":
    sys.exit(main())

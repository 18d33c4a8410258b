"""The laws of the crates can be broken.

    python3 -m unittest discover tests/laws
"""

import unittest
from pathlib import Path

import laws

PICTURE = {"cli": ["engine", "linux"], "engine": ["time"], "linux": ["time"], "time": []}


def metadata(crates):
    """What cargo says of these crates."""
    return {
        "packages": [
            {
                "name": f"candor-{name}",
                "manifest_path": f"/x/crates/{name}/Cargo.toml",
                "dependencies": [{"name": f"candor-{it}", "kind": kind} for it, kind in dependencies],
            }
            for name, dependencies in crates.items()
        ]
    }


def broken(picture=PICTURE, clockless=("engine", "time"), **changes):
    crates = {name: [(it, None) for it in dependencies] for name, dependencies in PICTURE.items()}
    found = laws.built(metadata(crates | changes), Path("/x"))
    return list(laws.broken(picture, found, clockless))


class Laws(unittest.TestCase):
    def test_what_is_drawn_is_what_is_built(self):
        self.assertEqual(broken(), [])
        # What only tests need does not count.
        self.assertEqual(broken(time=[("engine", "dev")]), [])

    def test_each_difference_is_reported(self):
        for changes, sentence in [
            ({"engine": [("time", None), ("linux", "build")]}, "`engine` depends on `linux`, which is not drawn"),
            ({"linux": []}, "`linux` is drawn with `time`, which it does not depend on"),
            ({"new": []}, "`new` is not drawn"),
            ({"picture": PICTURE | {"old": []}}, "`old` is drawn, but does not exist"),
            (
                {"picture": {"time": ["linux"], "linux": [], "engine": ["time"], "cli": ["engine", "linux"]},
                 "time": [("linux", None)], "linux": []},
                "`engine` points up to `time`",
            ),
            ({"clockless": ["cli"]}, "invariant 1 names `cli`, which depends on `linux`"),
            ({"clockless": ["linux"]}, "invariant 1 names `linux`, which depends on `linux`"),
            ({"clockless": ["no"]}, "invariant 1 names `no`, which does not exist"),
        ]:
            self.assertIn(sentence, broken(**changes))

    def test_a_clock_is_seen_through_another_crate(self):
        picture = {"cli": ["engine", "linux"], "engine": ["help", "time"], "help": ["linux"]}
        picture |= {"linux": ["time"], "time": []}
        changes = {"engine": [("help", None), ("time", None)], "help": [("linux", None)]}
        self.assertEqual(
            broken(picture=picture, **changes), ["invariant 1 names `engine`, which depends on `linux`"]
        )

    def test_the_document_is_read(self):
        text = (
            "# A\n```text\nx\n```\n## The crates\n\n```text\n cli  -> time\n time -> nothing\n```\n"
            "1. These crates read no clock: `time`,\n   `vm/guest` and `sim`. More.\n"
        )
        self.assertEqual(laws.drawn(text), {"cli": ["time"], "time": []})
        self.assertEqual(laws.without_clock(text), ["time", "vm/guest", "sim"])
        for wrong in [text.replace("-> nothing", ""), text.replace("no clock", "a clock")]:
            with self.assertRaises(ValueError):
                laws.drawn(wrong)
                laws.without_clock(wrong)


if __name__ == "__main__":
    unittest.main()

"""That seeds are the bytes that their files say, and that a mistake in one is found."""

import tempfile
import unittest
from pathlib import Path

import seeds


class Seeds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.source = self.root / "source"
        self.source.mkdir()

    def collect(self):
        return seeds.collect(self.source, self.root / "target", self.root)

    def test_digits_texts_and_comments(self):
        self.assertEqual(seeds.bytes_of("# What it is.\n00 fF 'a #b' 0A # the end\n\n'' 7F\n"), b"\0\xffa #b\n\x7f")

    def test_what_is_neither_is_named(self):
        for text, place in [("00\n0", ":2:"), ("000", ":1:"), ("0x00", ":1:"), ("'open", ":1:"), ("'a'00", ":1:")]:
            with self.assertRaisesRegex(ValueError, place):
                seeds.bytes_of(text)

    def test_files_and_folders(self):
        (self.source / "one.hex").write_text("01 02")
        (self.source / "plain.txt").write_text("as it is")
        self.assertEqual(self.collect(), [str(self.root / "target")])
        self.assertEqual((self.root / "target" / "one").read_bytes(), b"\1\2")
        self.assertEqual((self.root / "target" / "plain.txt").read_text(), "as it is")

    def test_folders_of_the_repository(self):
        (self.root / "examples").mkdir()
        (self.source / "folders").write_text("examples\n")
        self.assertEqual(self.collect(), ["examples"])
        (self.source / "folders").write_text("examples\nelsewhere\n")
        with self.assertRaisesRegex(ValueError, "elsewhere"):
            self.collect()

    def test_seeds_can_be_made(self):
        make = self.source / "make"
        make.write_text('#!/bin/sh\nprintf made > "$1/it"\n')
        make.chmod(0o755)
        self.assertEqual(self.collect(), [str(self.root / "target")])
        self.assertEqual((self.root / "target" / "it").read_text(), "made")


if __name__ == "__main__":
    unittest.main()

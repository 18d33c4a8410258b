"""Expressions of licences, and what packages say about their contents."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
import licences  # noqa: E402

ALLOWED = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"]


class Expressions(unittest.TestCase):
    def test_choices_and_what_holds_together(self):
        for expression, is_allowed in [
            ("MIT", True),
            ("GPL-3.0-only", False),
            ("MIT OR GPL-3.0-only", True),
            ("MIT AND GPL-3.0-only", False),
            ("MIT/GPL-3.0", True),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
            ("(MIT OR Apache-2.0) AND GPL-2.0-only", False),
            # AND binds closer than OR.
            ("GPL-2.0-only OR MIT AND GPL-3.0-only", False),
            ("GPL-2.0-only AND GPL-3.0-only OR MIT", True),
            ("Apache-2.0 WITH LLVM-exception", True),
            ("MIT WITH LLVM-exception", False),
            # These are no expressions.
            ("", False),
            ("MIT Apache-2.0", False),
            ("(MIT", False),
            ("MIT)", False),
            ("MIT AND", False),
        ]:
            with self.subTest(expression):
                self.assertEqual(licences.allows(expression, ALLOWED), is_allowed)


class Check(unittest.TestCase):
    def test_a_licence_that_is_not_allowed_is_named_with_its_crate(self):
        with unittest.mock.patch.dict(licences.RULES, {"allowed": ["MIT", "Apache-2.0"]}):
            wrong = list(licences.check_crates(".", ["x86_64-unknown-linux-musl"]))
        self.assertTrue(any("zlib-rs" in line and "`Zlib`" in line for line in wrong), wrong)
        self.assertFalse(any("serde" in line for line in wrong), wrong)


class Bill(unittest.TestCase):
    def bill(self, folder):
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        program = [sys.executable, ROOT / "packaging" / "licences.py"]
        arguments = ["bill", "libvca0", "x86_64-unknown-linux-gnu", folder, "--", "-p", "candor-capi"]
        subprocess.run([*program, *arguments], check=True, env=environment)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}

    def test_what_is_linked_is_named_with_its_texts_and_always_the_same(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            first = self.bill(one)
            self.assertEqual(first, self.bill(other))
        parts = json.loads(first["libvca0.cdx.json"])
        names = [part["name"] for part in parts["components"]]
        self.assertEqual(parts["metadata"]["timestamp"], "2023-11-14T22:13:20Z")
        self.assertIn("libc", names)
        self.assertIn("rust-std", names)
        # It is in no program that is linked with glibc, in no library, and a macro is in nothing.
        for absent in ("musl", "plotly.js", "syn", "candor-wire"):
            self.assertNotIn(absent, names)
        notices = first["THIRD-PARTY-NOTICES"].decode()
        for part in parts["components"]:
            self.assertIn(f"\n{part['name']} {part['version']}\n", notices)


if __name__ == "__main__":
    unittest.main()

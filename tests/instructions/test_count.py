"""What is read of callgrind, and what is said of a difference."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import count


class Counting(unittest.TestCase):
    """From callgrind's file to what is said."""

    def test_calls_count_with_what_is_called(self):
        """A line behind `calls=` has the cost of the called function."""
        text = "fl=a.rs\nfn=one::h0123456789abcdef\n10 5\ncalls=2 3\n11 900\n+1 7\n\nfn=two\n* 4\nfn=one::h0123456789abcdef\n12 1\n"
        counts = count.parse(text)
        self.assertEqual(counts, {"one::h0123456789abcdef": 13, "two": 4})

    def test_names_have_no_hash(self):
        """Those of the compiler and of recursion are left out."""
        for name, plain in [("a::b::h0123456789abcdef", "a::b"), ("a::b'2", "a::b"), ("memcpy", "memcpy")]:
            self.assertEqual(count.plain(name), plain)

    def test_small_functions_stand_together(self):
        """Less than 2 % of all is among the others."""
        self.assertEqual(count.summed({"a": 98.5, "b": 1.0, "c": 0.5}), {"a": 98.5, "others": 1.5})

    def test_a_table_is_read_as_it_was_written(self):
        """With the compiler and all cases."""
        cases = {"b/c": {"f<a, b>": 2.5, "others": 0.25}, "a": {"others": 1.0}}
        self.assertEqual(count.read_table(count.written("rustc 1", cases)), ("rustc 1", cases))

    def test_a_table_that_is_none_is_refused(self):
        """By the number of the line, or the case."""
        for text, place in [
            ("a 1.00\n<<<<<<< HEAD\n", "table.txt:2: "),
            ("a 1.00\n1.00 others\n", "table.txt:2: "),
            ("a 1.00\n      1.00\n", "table.txt:2: "),
            ("a inf\n       inf others\n", "table.txt:1: "),
            ("a 1.00\n      1.00 f\n      0.00 f\n", "table.txt:3: "),
            ("a 1.00\n      1.00 f\na 1.00\n      1.00 f\n", "table.txt:3: "),
            ("      1.00 f\n", "table.txt:1: "),
            ("\ufffd\n", "table.txt:1: "),
            ("a 1.00\n", "table.txt: the functions of a "),
            ("a 9.00\n      1.00 f\n", "table.txt: the functions of a "),
        ]:
            with self.assertRaises(count.Failure, msg=text) as raised:
                count.read_table(text)
            self.assertIn(place, str(raised.exception))
            self.assertNotIsInstance(raised.exception, count.Difference)

    def run_script(self, *arguments, path=None):
        """Exit code, and what stands in stderr."""
        environment = {**os.environ, "PATH": path or os.environ["PATH"]}
        command = [sys.executable, count.__file__, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        return done.returncode, done.stderr

    def test_what_is_missing_is_told_in_one_line(self):
        """A program that lists nothing, one that is not there, no valgrind, one that does nothing; never a traceback."""
        with tempfile.TemporaryDirectory() as folder:
            tools = pathlib.Path(folder) / "tools"
            tools.mkdir()
            program = pathlib.Path(folder) / "program"
            for file, line in [(program, "a/b 1"), (tools / "rustc", "rustc 0")]:
                file.write_text(f"#!/bin/sh\necho {line}\n")
                file.chmod(0o755)
            lists_nothing = (shutil.which("true"), "names no cases")
            without = [(str(program), "no valgrind"), (f"{folder}/nothing", "does not run"), lists_nothing]
            for compiled, reason in without:
                code, said = self.run_script("--write", "--program", compiled, path=str(tools))
                self.assertEqual((code, said.count("\n"), reason in said), (2, 1, True), said)
            (tools / "valgrind").symlink_to(shutil.which("true"))
            code, said = self.run_script("--write", "--program", str(program), path=str(tools))
            self.assertEqual((code, said.count("\n"), "counted nothing" in said), (2, 1, True), said)
            # Nor do the cases of another compiler go.
            code, said = self.run_script("--write", "--program", str(program), "a/b", path=str(tools))
            self.assertEqual((code, said.count("\n"), "the table is of rustc" in said), (2, 1, True), said)

    def test_two_percent_in_either_direction(self):
        """A case may differ by so much, and the functions that changed most are named."""
        old = {"f": 60.0, "others": 40.0}
        for changed, is_told in [(60.0, False), (62.0, False), (62.1, True), (58.0, False), (57.9, True)]:
            said = count.difference("a", old, {**old, "f": changed})
            self.assertEqual(said is not None, is_told, changed)
        said = count.difference("a", old, {"g": 63.0, "others": 40.0})
        self.assertEqual(
            said.splitlines(),
            ["a: 100.00 -> 103.00 instructions (+3.0 %)", "        +63.00 g", "        -60.00 f"],
        )

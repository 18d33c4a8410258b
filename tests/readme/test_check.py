"""The checker of shown commands sees what is wrong.

    python3 -m unittest discover tests/readme
"""

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path

import check
import clone

CANDOR = """\
#!/bin/sh
echo "candor $*"
echo talk >&2
test "$1" != fail || exit 2
"""


class Extraction(unittest.TestCase):
    def test_commands_have_their_place_text_output_and_exit_code(self):
        text = (
            "# Title\n"
            "```console\n$ candor a\none\n\ntwo\n\n$ candor b \\\n>   --c   # exit 1\n```\n"
            "```sh\n$ sudo modprobe vcan\n```\n"
            "~~~console\n$ candor c\n```\n~~~\n"
        )
        found = check.commands("a.md", text)
        self.assertEqual([c.place for c in found], ["a.md:3", "a.md:8", "a.md:15"])
        self.assertEqual([c.text for c in found], ["candor a", "candor b --c   # exit 1", "candor c"])
        self.assertEqual([c.expected for c in found], [["one", "", "two"], [], ["```"]])
        self.assertEqual([c.exit_code for c in found], [0, 1, 0])

    def test_the_separator_of_a_frame_is_no_comment(self):
        found = check.commands("a.md", "```console\n$ candor frame 123#exit 1\n```\n")
        self.assertEqual(found[0].exit_code, 0)

    def test_a_block_that_is_not_understood_is_refused(self):
        for text in [
            "```console\noutput first\n```\n",
            "```console\n$ candor a\n",
            "```console\n$ candor a\n...\n```\n",
        ]:
            with self.assertRaises(ValueError):
                check.commands("a.md", text)


class Matching(unittest.TestCase):
    def test_a_wildcard_stands_for_any_number_of_lines(self):
        printed = list("abcabd")
        for expected in ["abcabd", "...", "a...", "...d", "a...d", "...c...", "...ab...abd"]:
            self.assertIsNone(check.missing(self.lines(expected), printed), expected)
        for expected in ["", "abc", "b...", "...c", "...x...", "...d...d", "abcabd...d", "...abd...c..."]:
            self.assertIsNotNone(check.missing(self.lines(expected), printed), expected)

    def test_the_same_line_does_not_count_twice(self):
        self.assertEqual(check.missing(["a", "...", "a"], ["a"]), ["a"])
        self.assertIsNone(check.missing(["a", "...", "a"], ["a", "a"]))

    def test_the_lines_that_are_missing_are_named(self):
        self.assertEqual(check.missing(self.lines("a...xy...d"), list("abcd")), ["x", "y"])

    @staticmethod
    def lines(text):
        """One letter per line."""
        return ["..." if letter == "*" else letter for letter in text.replace("...", "*")]


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scratch = Path(folder.name) / "clone"
        programs = Path(folder.name) / "bin"
        for made in [self.scratch, programs]:
            made.mkdir()
        candor = programs / "candor"
        candor.write_text(CANDOR)
        candor.chmod(0o755)
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}"}

    def failures(self, block):
        self.report = io.StringIO()
        with contextlib.redirect_stdout(self.report):
            text = f"```console\n{block}```\n"
            return check.check("a.md", text, self.scratch, self.environment)

    def test_what_is_as_shown_passes(self):
        for block in [
            "$ candor a\n",
            "$ candor a\ncandor a\ntalk\n",
            "$ candor a\n...\ntalk\n",
            "$ candor fail  # exit 2\n",
            "$ candor git cargo\n",
        ]:
            self.assertEqual(self.failures(block), (1, 0), block)

    def test_what_is_not_as_shown_fails(self):
        for block, reason in [
            ("$ candor a\ncandor b\ntalk\n", "it prints something else"),
            ("$ candor a\ncandor a\n", "it prints something else"),
            ("$ candor a\ncandor a\ntalk\nmore\n", "it prints something else"),
            ("$ candor fail\n", "exit code 2, not 0"),
            ("$ candor a  # exit 1\n", "exit code 0, not 1"),
            ("$ candour a\n", "exit code 127, not 0"),
            ("$ sudo candor a\n", "`sudo` cannot be tested here"),
            ("$ cargo bench\n", "`cargo` cannot be tested here"),
            ("$ candor a && cd b\n", "`cd` cannot be tested here"),
            ("$ cargo run --release -- a\n", "`cargo` cannot be tested here"),
            ("$ ./test\n", "`./test` cannot be tested here"),
            ("candor a\n", "begins with a line `$ command`"),
        ]:
            self.assertEqual(self.failures(block), (1, 1), block)
            self.assertIn(reason, self.report.getvalue())

    def test_a_command_beside_others_is_interrupted_at_the_end_of_its_block(self):
        program = [
            "import signal",
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])",
            "print(1)",
            'open("ready", "w")',
            "signal.sigwait([signal.SIGINT])",
            "print(2)",
        ]
        blocked = f"python3 -uc '{'; '.join(program)}'"
        self.assertEqual(self.failures(f"$ {blocked} &\n1\n2\n$ until test -e ready; do :; done\n"), (2, 0))
        self.assertEqual(self.failures(f"$ {blocked} &\n1\n3\n$ candor a\n"), (2, 1))
        self.assertEqual(self.failures("$ sleep 60 &\n$ candor a\n"), (2, 1), "the signal kills it")
        self.assertEqual(self.failures("$ false &\n1\n$ candor a\n"), (2, 1))

    def test_what_a_command_prints_is_whole_although_it_is_read_meanwhile(self):
        with tempfile.TemporaryFile() as output:
            text = "for line in $(seq 2000); do echo $line; done"
            process = check.start(text, self.scratch, self.environment, output)
            while process.poll() is None:
                check.lines(output)
            self.assertEqual(check.lines(output), [str(line) for line in range(1, 2001)])

    def test_commands_share_their_folder(self):
        self.assertEqual(self.failures("$ candor a > file\n$ cat file\ncandor a\n"), (2, 0))
        self.assertEqual(self.failures("$ cat file another\n"), (1, 1))

    def test_a_file_without_a_command_fails(self):
        with contextlib.redirect_stdout(io.StringIO()) as report:
            self.assertEqual(check.check("a.md", "# Title\n", self.scratch, self.environment), (1, 1))
        self.assertIn("a.md: no command is shown", report.getvalue())
        table = "<!-- table claims: any -->\n| a |\n<!-- end of table -->\n"
        self.assertEqual(check.check("a.md", table, self.scratch, self.environment), (0, 0))


class Leaving(unittest.TestCase):
    def test_what_is_left_behind_is_named_unless_it_is_ignored(self):
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            (scratch / ".gitignore").write_text("/*-report\n")
            (scratch / "kept").write_text("1\n")
            check.commit(scratch)
            self.assertEqual(check.left_behind(scratch), [])
            (scratch / "own-report").mkdir()
            (scratch / "own-report" / "index.html").write_text("")
            self.assertEqual(check.left_behind(scratch), [])
            (scratch / "kept").write_text("2\n")
            (scratch / "new").write_text("")
            self.assertEqual(check.left_behind(scratch), [" M kept", "?? new"])


class TwoCommands(unittest.TestCase):
    def test_they_stand_below_their_heading(self):
        block = "```console\n$ cargo run -- demo  # a comment\n$ ./test\n```\n"
        text = f"# Title\n```console\n$ candor a\n```\n\n## Two commands\n\nText.\n\n{block}"
        self.assertEqual(check.two_commands(text), ["cargo run -- demo  # a comment", "./test"])

    def test_what_is_not_two_commands_is_refused(self):
        for block in ["", "```console\n$ ./test\n```\n", "```console\n$ ./test\n$ cargo run\n```\n"]:
            with self.assertRaises(ValueError):
                check.two_commands(f"\n## Two commands\n{block}")


class Chain(unittest.TestCase):
    def test_the_longest_chain_is_the_one_that_computes_longest(self):
        # `d` waited for a processor: it could have begun at 6. Two compilers ran for it at the same time.
        packages = {"a": [(0.0, 4.0)], "b": [(0.0, 1.0)], "c": [(4.0, 5.0), (9.0, 10.0)], "e": [(0.0, 8.0)]}
        packages["d"] = [(60.0, 62.0), (61.0, 62.5)]
        needs = {"d": {"c", "b"}, "c": {"a", "b", "not compiled"}}
        self.assertEqual(clone.longest_chain(packages, needs), [("a", 4.0), ("c", 2.0), ("d", 2.5)])
        packages["e"] = [(0.0, 9.0)]
        self.assertEqual(clone.longest_chain(packages, needs), [("e", 9.0)])


if __name__ == "__main__":
    unittest.main()

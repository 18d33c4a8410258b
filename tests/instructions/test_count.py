"""What is read of callgrind, and what is said of a difference."""

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

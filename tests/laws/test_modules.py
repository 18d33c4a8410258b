"""Circles are seen, however they are written.

    python3 -m unittest discover tests/laws
"""

import unittest

from modules import circles, uses


def found(**files):
    return circles(uses({f"{name.replace('__', '/')}.rs": text for name, text in files.items()}))


class Modules(unittest.TestCase):
    def test_a_line_is_no_circle(self):
        self.assertEqual(found(a="use crate::b::B;", b="use crate::c;", c="", lib="mod a; use crate::a::A;"), [])

    def test_a_circle_is_seen(self):
        for b in [
            "use crate::c::C;",
            "fn b() { crate::c::c() }",
            "use super::c;",
            "use crate::{d, c};",
            "use crate::{\n    c::C,\n    d,\n};",
        ]:
            files = {"a": "use crate::b;", "b": b, "c": "use crate::a;", "d": ""}
            self.assertEqual(found(**files), [("a", "b", "c")], b)

    def test_a_folder_is_one_module(self):
        self.assertEqual(found(a="mod part;", a__part="use super::helper; use super::super::b;", b=""), [])
        self.assertEqual(found(a="mod part;", a__part="use super::super::b;", b="use crate::a;"), [("a", "b")])
        self.assertEqual(found(a__mod="use super::b;", b="use crate::a;"), [("a", "b")])

    def test_comments_and_tests_do_not_count(self):
        tests = "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"
        self.assertEqual(found(a="use crate::b;", b=f"/// [`A`](crate::a)\nfn b() {{}}\n{tests}"), [])
        self.assertEqual(found(a="use crate::b;", b="#[cfg(test)]\nmod tests;", b__tests="use crate::a;"), [])


if __name__ == "__main__":
    unittest.main()

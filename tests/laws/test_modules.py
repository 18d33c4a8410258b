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
            "use crate::{d::{D, E}, c::{self, C as X}};",
            "use self::super::c;",
            "use crate::d::again;",
            "fn b() { super::Again::c() }",
        ]:
            files = {"a": "use crate::b;", "b": b, "c": "use crate::a;", "d": "pub use super::c::again;"}
            files |= {"lib": "pub use c::Again;"}
            self.assertEqual(found(**files), [("a", "b", "c")], b)

    def test_a_folder_is_one_module(self):
        self.assertEqual(found(a="mod part;", a__part="use super::helper; use super::super::b;", b=""), [])
        self.assertEqual(found(a="mod part;", a__part="use super::super::b;", b="use crate::a;"), [("a", "b")])
        self.assertEqual(found(a__mod="use super::b;", b="use crate::a;"), [("a", "b")])

    def test_a_circle_in_a_folder_is_seen(self):
        for one in ["use super::two;", "use crate::a::two::Two;", "use super::Two;", "use super::two::deep;"]:
            files = {"a__mod": "pub use self::two::Two;", "a__one": one, "a__two": "use super::one;", "a__two__deep": ""}
            self.assertEqual(found(**files), [("a/one", "a/two")], one)
        self.assertEqual(found(a="", a__one="use super::two;", a__two="use std::one; fn two() { one::two() }"), [])

    def test_a_file_and_those_that_it_declares_are_one(self):
        self.assertEqual(found(a="use self::one; pub struct A;", a__one="use super::A;", lib="use crate::a::A;"), [])
        self.assertEqual(found(a="pub use b::B;", b="use crate::a::A;"), [])
        # Whoever hands a name on and uses it, too, uses it.
        self.assertEqual(found(a="pub use super::b::B; fn a(b: B) {}", b="use crate::a::A;"), [("a", "b")])

    def test_comments_and_tests_do_not_count(self):
        tests = "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"
        self.assertEqual(found(a="use crate::b;", b=f"/// [`A`](crate::a)\nfn b() {{}}\n{tests}"), [])
        self.assertEqual(found(a="use crate::b;", b="#[cfg(test)]\nmod tests;", b__tests="use crate::a;"), [])
        self.assertEqual(found(a="use crate::b;", b='/* crate::a */ const B: &str = "crate::a::A";'), [])
        self.assertEqual(found(a="use crate::b;", b=tests + "use crate::a;"), [("a", "b")])


if __name__ == "__main__":
    unittest.main()

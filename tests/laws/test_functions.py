"""The law of functions can be broken.

    python3 -m unittest discover tests/laws
"""

import unittest

from functions import MOST, broken, functions


def function(lines, before=""):
    return f"{before}fn long(\n    it: [u8; 3],\n) -> u8 {{\n" + "    next();\n" * (lines - 4) + "}\n"


class Functions(unittest.TestCase):
    def test_the_limit_is_allowed_and_nothing_above(self):
        files = {"src/a.rs": function(MOST) + "trait A { fn declared(&self) -> [u8; 2]; }\n" + function(MOST + 1)}
        self.assertEqual(list(broken(files)),
                         ["src/a.rs:82: `long` has 81 lines; split it by what it does: 80 are allowed"])

    def test_lines_are_those_from_the_name_to_the_last_brace(self):
        for text in [
            "#[must_use]\npub const fn a() {\n    x();\n}\n",
            "fn a() {\n    let _ = (\"}\", '}', b'{'); // }\n}\n",
            "fn a<'a>(it: &'a str) {\n    r#\"\" } \"#;\n}\nfn",
            "fn a(it: fn(u8) -> u8) {\n    /* } */\n}\n",
        ]:
            self.assertEqual([(name, lines) for name, _, lines in functions(text)], [("a", 3)], text)

    def test_tests_do_not_count(self):
        for before in ["#[cfg(test)]\n", "#[cfg(all(test, unix))]\nmod tests {\n    use super::*;\n"]:
            end = "}\n" if "mod" in before else ""
            text = function(MOST + 1, before) + end
            self.assertEqual(list(broken({"a.rs": text})), [])
            self.assertEqual(len(list(broken({"a.rs": text + function(MOST + 1)}))), 1)


if __name__ == "__main__":
    unittest.main()

"""The law of functions can be broken.

    python3 -m unittest discover tests/laws
"""

import unittest

from functions import MOST, broken, functions


def function(lines, before="", name="long"):
    return f"{before}fn {name}(\n    it: [u8; 3],\n) -> u8 {{\n" + "    next();\n" * (lines - 4) + "}\n"


class Functions(unittest.TestCase):
    def test_the_limit_is_allowed_and_nothing_above(self):
        files = {"src/a.rs": function(MOST) + "trait A { fn declared(&self) -> [u8; 2]; }\n" + function(MOST + 1)}
        self.assertEqual(list(broken(files, set())),
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
            self.assertEqual(list(broken({"a.rs": text}, set())), [])
            self.assertEqual(len(list(broken({"a.rs": text + function(MOST + 1)}, set()))), 1)

    def test_an_exception_is_for_one_function_and_must_be_needed(self):
        files = {"a.rs": function(MOST + 1) + function(MOST + 1, name="other"), "b.rs": function(MOST)}
        (sentence,) = broken(files, {("a.rs", "long")})
        self.assertIn("`other` has 81 lines", sentence)
        wrong = list(broken(files, {("a.rs", "long"), ("a.rs", "other"), ("b.rs", "long"), ("c.rs", "gone")}))
        self.assertEqual([it.split(";")[0] for it in wrong],
                         ["b.rs: `long` is no exception any more", "c.rs: `gone` is no exception any more"])


if __name__ == "__main__":
    unittest.main()

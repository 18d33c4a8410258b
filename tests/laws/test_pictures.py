"""The laws of the pictures can be broken.

    python3 -m unittest discover tests/laws
"""

import unittest

import pictures

ONE = "docs/images/a.png"


def png(size):
    return pictures.SIGNATURE.ljust(size, b"x")


class Pictures(unittest.TestCase):
    def test_the_limits_are_allowed_and_nothing_above(self):
        def broken(count, size):
            named = {f"docs/images/{number}.png": png(size) for number in range(count)}
            return list(pictures.broken(named, {"README.md": "".join(f"![a]({name})" for name in named)}))

        self.assertEqual(broken(6, 150_000), [])
        self.assertEqual(broken(7, 100), ["docs/images has 7 pictures; at most 6 are allowed"])
        (sentence,) = broken(1, 150_001)
        self.assertIn("docs/images/0.png has 150,001 bytes", sentence)

    def test_each_is_shown_with_a_text(self):
        for file, text, is_shown in [
            ("README.md", f"![A plot]({ONE})", True),
            ("docs/a.md", "| ![A plot](images/a.png) |", True),
            ("README.md", f"[A plot]({ONE})", False),
            ("README.md", f"![]({ONE})", False),
            ("README.md", f"`{ONE}`", False),
            ("docs/a.md", f"![A plot]({ONE})", False),
        ]:
            wrong = list(pictures.broken({ONE: png(100)}, {file: text}))
            self.assertEqual(wrong == [], is_shown, (file, text, wrong))

    def test_only_png(self):
        self.assertEqual(list(pictures.broken({ONE: b"\x7fELF"}, {"README.md": f"![a]({ONE})"})), [f"{ONE} is no PNG"])


if __name__ == "__main__":
    unittest.main()

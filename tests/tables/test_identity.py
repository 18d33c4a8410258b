"""That numbers keep their checksums when their keys move, and lose them when they change."""

import unittest

from identity import checksum_of, numbers, renaming

RESULT = {"seed": 1, "title": "2", "buses": [{"load": 0.5, "up": True}, {"load": 3}], "metrics": {"a": {"p50": -7}}}


def known(result, table):
    rename = renaming(table)
    found = ((rename(key), value) for key, value in numbers(result))
    return {key: value for key, value in found if key}


class Identity(unittest.TestCase):
    def test_numbers_are_found_by_their_keys(self):
        expected = {"seed": 1, "buses.0.load": 0.5, "buses.0.up": True, "buses.1.load": 3, "metrics.a.p50": -7}
        self.assertEqual(dict(numbers(RESULT)), expected)

    def test_keys_that_move_leave_the_checksum_as_it_was(self):
        moved = {
            "core": {"seed": 1},
            "sections": {"buses": [{"busy": 0.5, "up": True, "new": 9}, {"busy": 3, "new": 8}]},
            "metrics": {"a": {"p50": -7}},
        }
        table = {
            "core": "",
            "core.seed": "seed",
            "sections.buses.*.busy": "buses.*.load",
            "sections.buses.*.new": "",
            "sections.buses": "buses",
        }
        self.assertEqual(known(moved, table), known(RESULT, {}))
        self.assertEqual(checksum_of(known(moved, table)), checksum_of(known(RESULT, {})))

    def test_a_name_is_no_beginning_of_another_one(self):
        self.assertEqual(renaming({"seed": "x"})("seeds.0"), "seeds.0")

    def test_another_digit_is_seen(self):
        other = {**RESULT, "metrics": {"a": {"p50": -8}}}
        self.assertNotEqual(checksum_of(known(other, {})), checksum_of(known(RESULT, {})))
        whole = {**RESULT, "metrics": {"a": {"p50": -7.0}}}
        self.assertNotEqual(checksum_of(known(whole, {})), checksum_of(known(RESULT, {})))


if __name__ == "__main__":
    unittest.main()

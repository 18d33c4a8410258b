"""How the tables of several rounds become one."""

import unittest

import measure

HEAD = "| what 1 | rate | each |\n|---|---|---|\n"


class Merging(unittest.TestCase):
    """Numbers are medians; all else must be the same."""

    def test_a_number_is_the_median_with_its_range(self):
        """Where a cell has several, the medians alone; the first column is no figure."""
        rounds = [f"noise\n{HEAD}| x 1 | {rate} M/s | {each} |\nnoise" for rate, each in [("24.8", "5.6 / 5"), ("9.15", "5.8 / 7"), ("25.1", "5.0 / 6")]]
        self.assertEqual(
            measure.merge(rounds),
            "| what 1 | rate | each |\n| --- | --- | --- |\n| x 1 | 24.80 M/s (9.15 to 25.1) | 5.6 / 6 |\n",
        )

    def test_what_is_the_same_stays(self):
        """Also numbers."""
        self.assertEqual(measure.merged(["4.60", "4.60"]), "4.60")

    def test_other_words_are_no_rounds_of_one_table(self):
        """Nor other rows, nor what is no table."""
        for rounds in [["1 M/s", "900 k/s"], ["-", "1"]]:
            with self.assertRaises(measure.Failure):
                measure.merged(rounds)
        for rounds in [[HEAD + "| a | 1 | 1 |", HEAD + "| b | 1 | 1 |"], ["nothing"] * 2]:
            with self.assertRaises(measure.Failure):
                measure.merge(rounds)

    def test_no_rounds_are_refused(self):
        """Before anything is built."""
        self.assertEqual(measure.rounds_of("1"), 1)
        for text in ["0", "-1", "x"]:
            with self.assertRaises(ValueError):
                measure.rounds_of(text)


class Failing(unittest.TestCase):
    def test_a_bench_that_fails_costs_its_own_table_only(self):
        good = ["sh", "-c", "printf '| a | b |\\n|---|---|\\n| x | 1 |\\n'"]
        programs = {"good": good, "bad": ["false"], "gone": ["/no/such"], "talks": ["echo", "nothing"], "last": good}
        made, failures = measure.measured(programs, 2)
        self.assertEqual(list(made), ["good", "last"])
        self.assertEqual(made["good"], "| a | b |\n| --- | --- |\n| x | 1 |\n")
        self.assertEqual(sorted(failures), ["bad", "gone", "talks"])

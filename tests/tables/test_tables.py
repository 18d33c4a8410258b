"""That a published table which is not what is made fails, each way in which it can be."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

import tables

DOCUMENT = """Words.

<!-- table claims: Linux 6.12; QEMU 7.2 -->
| id | claim | 6.1 | 6.12 | note |
| --- | --- | --- | --- | --- |
| G1 | best | 1.00 | 2.00 no | of people |
| G2 | worst | 3.00 | 4.00 | |

| id | claims | yes |
| --- | --- | --- |
| G1 | 2 | 1 |
<!-- end of table -->
More words.
"""
PART = """| id | claim | 6.12 | note |
| --- | --- | --- | --- |
| G1 | best | 2.00 no | other words |
| G2 | worst | 4.00 | |

| id | claims | yes |
| --- | --- | --- |
| G1 | 1 | 0 |
"""
MACHINES = ["Linux 6.12", "QEMU 7.2"]


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        self.document = root / "claims.md"
        self.document.write_text(DOCUMENT)
        patch = mock.patch.object(tables, "ROOT", root)
        patch.start()
        self.addCleanup(patch.stop)
        self.table = tables.Table("claims.md", None, [], 2, 2)

    def compare(self, text, is_whole=False, machines=MACHINES, is_exact=False):
        return tables.compare("claims", self.table, tables.Made(text, machines), is_whole, is_exact)

    def test_a_part_is_held_against_its_cells(self):
        self.assertEqual(self.compare(PART), (2, []))
        _, wrong = self.compare(PART.replace("4.00", "4.01"))
        self.assertEqual(wrong, ["G2 / worst, 6.12: published 4.00, made 4.01"])
        _, wrong = self.compare(PART.replace("2.00 no", "2.00"))
        self.assertEqual(len(wrong), 1)
        _, wrong = self.compare(PART.replace("best", "renamed"))
        self.assertIn("published nothing", wrong[0])

    def test_a_whole_table_has_every_published_cell(self):
        whole = DOCUMENT.split("-->\n")[1].split("<!--")[0]
        self.assertEqual(self.compare(whole, True)[1], [])
        _, wrong = self.compare(whole.replace("| G1 | 2 | 1 |", "| G1 | 2 | 2 |"), True)
        self.assertEqual(wrong, ["counts / G1, yes: published 1, made 2"])
        _, wrong = self.compare(whole.replace("| G2 | worst | 3.00 | 4.00 | |\n", ""), True)
        self.assertEqual(len(wrong), 2)

    def test_a_part_that_makes_nothing_is_broken(self):
        with self.assertRaises(tables.Broken):
            self.compare("\n".join(PART.splitlines()[:2]))

    def test_another_machine_is_not_compared(self):
        with self.assertRaises(tables.OtherMachine):
            self.compare(PART, machines=["Linux 6.13", "QEMU 7.2"])

    def test_a_table_without_marks_is_broken(self):
        with self.assertRaises(tables.Broken):
            tables.marked(DOCUMENT, "others")

    def test_writing_replaces_the_table_and_its_machines_alone(self):
        tables.write("claims", self.table, tables.Made(PART, ["Linux 6.13"]))
        text = self.document.read_text()
        self.assertTrue(text.startswith("Words.\n\n<!-- table claims: Linux 6.13 -->\n| id |"))
        self.assertTrue(text.endswith("<!-- end of table -->\nMore words.\n"))
        self.assertIn(PART, text)

    def test_what_was_kept_does_not_show(self):
        plain = ["experiment  p50", "----------  ---", "kernel       15"]
        kept = ["experiment  p50", "----------  ---  ------", "kernel       15  cached"]
        self.assertEqual(tables.without_cached(kept), plain)
        self.assertEqual(tables.without_cached(plain), plain)

    def test_text_tables_have_cells_too(self):
        text = "```text\nexperiment  p50      max\n----------  -------  ---\nkernel      15.0 us  -\n```\n"
        self.assertEqual(
            tables.cells_of(text, 1), {(("kernel",), "p50"): "15.0 us", (("kernel",), "max"): "-"}
        )

    def test_the_fates_of_frames_are_sums_that_balance(self):
        counts = {"sent": 50, "received": 50, "not_routed": 0, "refused": 0, "lost": 0}

        def result(name, gateway, load, **other):
            axes = {"gateway.kind": gateway, "traffic.kind": "flood", "load.kind": load, "vm.kernel": "6.1"}
            return {"experiment": name, "axes": axes, "counts": {**counts, **other}}

        results = [
            result("cell-b", "user", "cpu", received=47, refused=1, lost=2),
            result("cell-a", "kernel", "none"),
            result("cell-c", "user", "none"),
        ]
        made = tables.table_of_fates({one["experiment"]: one for one in results})
        self.assertEqual(
            made.splitlines()[2:],
            ["| kernel | flood | 50 |  |", "| user | flood | 50 | 47 + 1 refused + 2 lost |"],
        )
        with self.assertRaises(tables.Broken):
            tables.fate(result("cell-d", "user", "none", lost=1))

    def test_durations_and_spans_differ_by_a_tenth_at_most(self):
        for published, made, is_like in [
            ("7.00..9.00 us", "8.20 us", True),
            ("7.00..9.00 us", "8.20..9.90 us", False),
            ("900 us..1.10 ms", "1.00 ms", True),
            ("900 us to 1.10 ms", "900 us..1.10 ms", True),
            ("4.0..4.2 %", "4.0..4.1 %", False),
            ("-", "-", True),
        ]:
            self.assertEqual(tables.like(published, made), is_like, (published, made))

    def test_the_next_kernel_of_a_series_is_held_against_counts_and_medians(self):
        text = """| experiment | sent | p50 | can-gw, p50 | p99 |
| --- | --- | --- | --- | --- |
| user | 1,000 | 16.5 us | 7.00 us to 9.00 us | 20 us |
"""
        self.document.write_text(
            f"<!-- table claims: Linux 6.12.117+deb13-rt-amd64; QEMU 7.2 -->\n{text}<!-- end of table -->\n"
        )
        self.table.least_cells, self.table.key_columns = 4, 1
        near = ["Linux 6.12.118+deb13-rt-amd64", "QEMU 7.2"]
        for old, new, wrong in [
            ("20 us", "44 us", 0),
            ("16.5 us", "17.9 us", 0),
            ("16.5 us", "18.3 us", 1),
            ("7.00 us to 9.00 us", "8.20 us", 0),
            ("7.00 us to 9.00 us", "8.20 us to 9.90 us", 1),
            ("1,000", "999", 1),
            ("16.5 us", "16.5", 1),
        ]:
            count, found = self.compare(text.replace(old, new), machines=near)
            self.assertEqual((count, len(found)), (3, wrong), (old, new, found))
        for machine in ["Linux 6.12.118+deb13-amd64", "Linux 6.13.1+deb13-rt-amd64", "QEMU 10.0"]:
            with self.assertRaises(tables.OtherMachine):
                self.compare(text, machines=[machine])
        with self.assertRaises(tables.OtherMachine):
            self.compare(text.replace("p50", "other").replace("sent", "late"), machines=near)
        # Exactly only with the very machine.
        with self.assertRaises(tables.OtherMachine):
            self.compare(text, machines=near, is_exact=True)

    def publish(self, machines):
        """A table of an experiment with counts and latencies; its text and the function that compares it."""
        text = """```text
experiment   sent  lost      p50      p99      max
----------  -----  ----  -------  -------  -------
kernel      1,000     0  10.0 us  20.0 us  40.0 us
```
"""
        self.document.write_text(
            f"<!-- table claims: {'; '.join(machines)} -->\n{text}<!-- end of table -->\n"
        )
        self.table.least_cells, self.table.key_columns = 5, 1

        def wrong(old, new, **how):
            return len(self.compare(text.replace(old, new), machines=machines, **how)[1])

        return text, wrong

    def test_another_guest_program_is_held_against_counts_and_medians(self):
        text, wrong = self.publish(MACHINES)
        self.assertEqual(self.compare(text), (3, []))
        self.assertEqual(self.compare(text, is_exact=True), (5, []))
        for is_whole in (False, True):
            for old, new, by_default in [
                ("1,000     0", "1,000     1", 1),
                ("1,000", "1,001", 1),
                ("10.0 us", "11.1 us", 1),
                ("10.0 us", "8.90 us", 1),
                ("10.0 us", "10.9 us", 0),
                ("10.0 us", "9.10 us", 0),
                ("20.0 us", "90.0 us", 0),
                ("40.0 us", "90.0 us", 0),
            ]:
                self.assertEqual(wrong(old, new, is_whole=is_whole), by_default, (old, new))
                self.assertEqual(wrong(old, new, is_whole=is_whole, is_exact=True), 1, (old, new))

    def test_counts_and_medians_must_be_there(self):
        text, _ = self.publish(MACHINES)
        for is_whole in (False, True):
            _, wrong = self.compare(text.replace("p50", "p51"), is_whole)
            self.assertEqual(wrong, ["kernel, p50: published, not made"])
        _, wrong = self.compare(text.replace("kernel", "others"))
        self.assertEqual(len(wrong), 3)

    def test_tables_of_the_simulation_are_always_exact(self):
        _, wrong = self.publish(["any"])
        self.assertEqual(wrong("10.0 us", "10.1 us"), 1)
        self.assertEqual(wrong("40.0 us", "40.1 us"), 1)
        self.assertEqual(wrong("40.0 us", "40.0 us"), 0)

    def test_durations_look_as_candor_shows_them(self):
        for ns, shown in [(999, "999 ns"), (16_502, "16.5 us"), (526_000, "526 us"), (1.5e6, "1.50 ms")]:
            self.assertEqual(tables.duration(ns), shown)


if __name__ == "__main__":
    unittest.main()

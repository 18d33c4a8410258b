"""That the crates that a change belongs to are found, and those that it can break."""

import re
import unittest

import changed

CRATES = {
    "wire": ("crates/wire", set(), set()),
    "vm": ("crates/vm", {"init"}, {"bench"}),
    "guest": ("crates/vm/guest", {"wire"}, set()),
    "init": ("crates/vm/init", {"guest"}, set()),
    "bench": ("crates/bench", set(), set()),
    "lab": ("crates/lab", {"vm"}, set()),
}


class Changed(unittest.TestCase):
    def owners(self, file):
        return changed.owners(file, CRATES, lambda file: {"crates/lab/src/a.rs"} if "examples" in file else set())

    def test_a_file_belongs_to_the_innermost_crate(self):
        self.assertEqual(self.owners("crates/vm/guest/src/main.rs"), {"guest"})
        self.assertEqual(self.owners("crates/vm/src/plugin.rs"), {"vm"})
        self.assertEqual(self.owners("crates/wireless/src/lib.rs"), set())

    def test_files_elsewhere_belong_to_their_readers(self):
        self.assertEqual(self.owners("examples/a.toml"), {"lab"})
        self.assertEqual(self.owners("docs/rules.md"), set())
        self.assertEqual(self.owners("README.md"), set())
        self.assertEqual(self.owners("Cargo.lock"), set(CRATES))
        self.assertEqual(self.owners("crates/wire/Cargo.toml"), {"wire"})

    def test_readers_name_a_file_or_its_folder(self):
        for code, is_reader in [
            ('"../../examples/a/b.toml"', True),
            ('join("examples/a")', True),
            ('join("examples/")', True),
            ('["examples", "campaigns"]', True),
            ('"../../examples/a/c.toml"', False),
            ('// see `examples/a/b.toml`', False),
            ('"../../examples/a/b.toml.old"', False),
        ]:
            self.assertEqual(bool(re.search(changed.named("examples/a/b.toml"), code)), is_reader, code)

    def test_what_depends_on_them_is_found_through_others(self):
        self.assertEqual(changed.dependents({"wire"}, CRATES), {"guest", "init", "vm", "lab"})
        # What only the tests of a crate need does not reach further.
        self.assertEqual(changed.dependents({"bench"}, CRATES), {"vm"})
        self.assertEqual(changed.dependents({"lab"}, CRATES), set())

    def test_real_crates_are_known(self):
        crates = changed.crates()
        self.assertIn("candor-guest", changed.dependents({"candor-engine"}, crates))
        self.assertIn("candor-cli", changed.dependents({"candor-guest"}, crates))
        self.assertIn("candor-cli", changed.owners("examples/small-car.toml", crates))


if __name__ == "__main__":
    unittest.main()

//! Which experiment of one side belongs to which of the other: the one with the same settings, but for
//! what was changed between the sides.

use std::collections::{BTreeMap, BTreeSet};

use candor_vm::BusTime;

use crate::result::{Machine, settings};

/// Settings that do not change what an experiment measures.
const WITHOUT_EFFECT: [&str; 3] = ["title", "per_frame", "seeds"];

/// An experiment's settings, and facts of its machine.
pub(super) struct Item {
    settings: BTreeMap<String, String>,
    facts: BTreeMap<String, String>,
    /// The name in the file of experiments.
    name: Option<String>,
    /// Whether buses took time: latencies of both kinds are never compared.
    bus: Option<BusTime>,
}

/// A setting or fact that one side has in common and the other side has otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Such as `vm.kernel`.
    pub setting: String,
    /// Its value before; empty if it was not set.
    pub before: String,
    /// Its value after.
    pub after: String,
}

pub(super) struct ExperimentPairing {
    pub(super) changed: Vec<Changed>,
    pub(super) pairs: Vec<(usize, usize)>,
    pub(super) only_before: Vec<usize>,
    pub(super) only_after: Vec<usize>,
}

impl Item {
    pub(super) fn new(config: &str, machine: Option<&Machine>, candor: &str) -> Self {
        let mut settings = settings(config);
        settings.retain(|key, _| !WITHOUT_EFFECT.contains(&key.as_str()));
        let name = settings.remove("name");
        let short = |sha256: &str| sha256.chars().take(12).collect::<String>();
        let mut facts = BTreeMap::from([("candor".to_owned(), candor.to_owned())]);
        if let Some(machine) = machine {
            facts.insert("kernel".into(), machine.release.clone());
            facts.insert("kernel sha256".into(), short(&machine.kernel_sha256));
        }
        Self { settings, facts, name, bus: machine.map(|machine| machine.bus) }
    }
}

/// Whether a setting of `config` has that value, written as a user would.
pub(super) fn has(config: &str, setting: &str, value: &str) -> bool {
    let found = settings(config);
    let found = found.get(setting).map(String::as_str);
    found.is_some_and(|found| found == value || found == candor_config::quoted(value))
}

/// Pairs the experiments of two sides.
pub(super) fn pair(before: &[Item], after: &[Item]) -> ExperimentPairing {
    let mut changed = changes(before, after, |item| &item.settings);
    let keys: BTreeSet<_> = changed.iter().map(|changed| changed.setting.clone()).collect();
    changed.extend(changes(before, after, |item| &item.facts));
    let mut pairing = ExperimentPairing {
        changed,
        pairs: Vec::new(),
        only_before: (0..before.len()).collect(),
        only_after: (0..after.len()).collect(),
    };
    // By name first, so that experiments with equal settings keep their partner.
    for with_name in [true, false] {
        let key = |item: &Item| {
            let mut settings = item.settings.clone();
            settings.retain(|key, _| !keys.contains(key));
            (item.name.clone().filter(|_| with_name), settings, item.bus)
        };
        let mut partners: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for &index in pairing.only_after.iter().rev() {
            partners.entry(key(&after[index])).or_default().push(index);
        }
        let mut partner_of = |index: usize| partners.get_mut(&key(&before[index]))?.pop();
        let found: Vec<_> =
            pairing.only_before.iter().map(|&index| (index, partner_of(index))).collect();
        pairing.pairs.extend(found.iter().filter_map(|&(old, new)| Some((old, new?))));
        pairing.only_before =
            found.iter().filter(|(_, new)| new.is_none()).map(|&(old, _)| old).collect();
        pairing.only_after.retain(|new| !pairing.pairs.iter().any(|(_, paired)| paired == new));
    }
    pairing.pairs.sort_unstable();
    pairing
}

/// What each side has in common and the other has otherwise.
fn changes(
    before: &[Item],
    after: &[Item],
    of: fn(&Item) -> &BTreeMap<String, String>,
) -> Vec<Changed> {
    let keys: BTreeSet<&String> = before.iter().chain(after).flat_map(|i| of(i).keys()).collect();
    let common = |items: &[Item], key: &String| -> Option<String> {
        let mut values = items.iter().map(|item| of(item).get(key).cloned().unwrap_or_default());
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)
    };
    let changed = |key: &String| {
        let (before, after) = (common(before, key)?, common(after, key)?);
        (before != after).then(|| Changed { setting: key.clone(), before, after })
    };
    keys.into_iter().filter_map(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(configs: &[&str]) -> Vec<Item> {
        configs.iter().map(|config| Item::new(config, None, "0.1.0")).collect()
    }

    #[test]
    fn experiments_with_equal_settings_belong_together() {
        let a = "name = 'a'\ncount = 1\nvm.kernel = '6.1'\ntraffic.kind = 'flood'\n";
        let b = "name = 'b'\ncount = 1\nvm.kernel = '6.1'\ntraffic.kind = 'half'\n";
        let new = |text: &str| text.replace("6.1", "6.12");
        let (a2, b2) = (new(a), new(b));
        let renamed = b2.replace("'b'", "'c'");
        let longer = b2.replace("count = 1", "count = 2");
        for (before, after, pairs, only_before, only_after) in [
            (vec![a, b], vec![&*b2, &*a2], vec![(0, 1), (1, 0)], 0, 0),
            (vec![a, b], vec![&a2, &renamed], vec![(0, 0), (1, 1)], 0, 0),
            (vec![a, b], vec![&a2, &longer], vec![(0, 0)], 1, 1),
            (vec![a, b], vec![&a2], vec![(0, 0)], 1, 0),
            // Equal settings under two names: each keeps its own.
            (vec![b, &*renamed], vec![&*renamed, b], vec![(0, 1), (1, 0)], 0, 0),
        ] {
            let pairing = pair(&items(&before), &items(&after));
            assert_eq!(pairing.pairs, pairs, "{before:?} {after:?}");
            assert_eq!(pairing.only_before.len(), only_before);
            assert_eq!(pairing.only_after.len(), only_after);
        }
    }

    #[test]
    fn what_one_side_has_in_common_is_what_was_changed() {
        let before = items(&["count = 1\nvm.kernel = '6.1'", "count = 2\nvm.kernel = '6.1'"]);
        let after = items(&["count = 1\nvm.kernel = 'x'", "count = 3\nvm.kernel = 'x'"]);
        let changed = pair(&before, &after).changed;
        let kernel = Changed {
            setting: "vm.kernel".into(),
            before: "\"6.1\"".into(),
            after: "\"x\"".into(),
        };
        assert_eq!(changed, [kernel]);
        assert_eq!(pair(&before, &before).changed, []);
    }

    #[test]
    fn a_value_is_written_as_on_the_command_line() {
        let config = "count = 5\nvm.kernel = '6.1'\n";
        for (setting, value, has_it) in [
            ("vm.kernel", "6.1", true),
            ("vm.kernel", "\"6.1\"", true),
            ("vm.kernel", "6.12", false),
            ("count", "5", true),
            ("mips", "5", false),
        ] {
            assert_eq!(has(config, setting, value), has_it, "{setting}={value}");
        }
    }
}

//! [`Retired`]: what rules counted that are not in use any more, within a bound.
//!
//! A rule that is taken out keeps its counters under its own name, so that a change of rules loses no
//! count. But a file whose rules get new names with every change would make the list grow for ever. So
//! the [`MOST`] that were taken out last are kept one by one; what those before them counted is added
//! up under one name, [`TOGETHER`], so that all sums stay right. A rule of such a name that comes back
//! begins at zero.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::RuleKey;

/// How many rules that are not in use keep counters of their own, each destination counted apart.
pub(crate) const MOST: usize = 256;
/// The name under which those before them are added up.
pub(crate) const TOGETHER: &str = "(retired rules)";

/// Sums by rule, of which those that are not in use are bounded.
#[derive(Debug)]
pub(crate) struct Retired<T> {
    /// With the number of the last time it was added to.
    sums: BTreeMap<RuleKey, (T, u64)>,
    number: u64,
}

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Self { sums: BTreeMap::new(), number: 0 }
    }
}

impl<T: Default + AddAssign> Retired<T> {
    /// Begins another time.
    pub(crate) fn begin(&mut self) {
        self.number += 1;
    }

    /// The sum of a rule, to be added to.
    pub(crate) fn entry(&mut self, key: RuleKey) -> &mut T {
        let number = self.number;
        let entry = self.sums.entry(key).or_default();
        entry.1 = number;
        &mut entry.0
    }

    /// Adds up the oldest of those that are not in use, as long as there are too many.
    pub(crate) fn prune(&mut self, is_in_use: impl Fn(&RuleKey) -> bool) {
        let is_old = |key: &RuleKey| key.0 != TOGETHER && !is_in_use(key);
        let old = self.sums.iter().filter(|(key, _)| is_old(key));
        let mut old: Vec<(u64, RuleKey)> =
            old.map(|(key, (_, number))| (*number, key.clone())).collect();
        let Some(surplus) = old.len().checked_sub(MOST).filter(|surplus| *surplus > 0) else {
            return;
        };
        old.sort();
        let mut together = T::default();
        for (_, key) in old.into_iter().take(surplus) {
            if let Some((sum, _)) = self.sums.remove(&key) {
                together += sum;
            }
        }
        *self.entry((TOGETHER.into(), String::new(), String::new())) += together;
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RuleKey, &T)> {
        self.sums.iter().map(|(key, (sum, _))| (key, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(rule: &str) -> RuleKey {
        (rule.into(), "a".into(), "b".into())
    }

    #[test]
    fn the_oldest_are_added_up_and_nothing_is_lost() {
        let mut retired = Retired::<u64>::default();
        for number in 0..10_000_u64 {
            retired.begin();
            *retired.entry(key(&format!("rule {number}"))) += number;
            *retired.entry(key("always")) += 1;
            retired.prune(|key| key.0 == "always");
            assert!(retired.iter().count() <= MOST + 2, "{number}");
        }
        let of = |name: &str| retired.iter().find(|(key, _)| key.0 == name).map(|(_, sum)| *sum);
        assert_eq!(of("always"), Some(10_000), "what is in use is never old");
        assert_eq!(of("rule 9999"), Some(9_999));
        let first_kept = 10_000 - MOST as u64;
        assert_eq!(of(&format!("rule {first_kept}")), Some(first_kept));
        assert_eq!(of(&format!("rule {}", first_kept - 1)), None);
        assert_eq!(of(TOGETHER), Some((0..first_kept).sum()));
        let all: u64 = retired.iter().map(|(_, sum)| sum).sum();
        assert_eq!(all, (0..10_000).sum::<u64>() + 10_000);
    }
}

//! Loops: frames that come back to the gateway and meet the same rule again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use candor_diagnostics::counted;

use super::checker::{BUDGET, Checker, Place, gates_meet};
use super::words::show_frames;
use crate::region::{Budget, Cube, rewritten};
use candor_engine::{BusIndex, Rule};

impl Checker<'_> {
    /// Follows what each rule takes until it meets a rule again.
    pub(super) fn loops(&self) {
        let mut from: BTreeMap<BusIndex, Vec<usize>> = BTreeMap::new();
        for (index, rule) in self.table.rules.iter().enumerate() {
            from.entry(rule.from).or_default().push(index);
        }
        let mut search = LoopSearch {
            checker: self,
            from: &from,
            budget: Budget(BUDGET),
            reported: BTreeSet::new(),
        };
        for (&origin, rules) in &from {
            for &rule in rules {
                let taken = self.regions.get(rule).map_or(&[][..], |region| &region.taken);
                for &cube in taken {
                    search.follow(origin, &mut Vec::new(), rule, cube);
                }
            }
        }
        self.tell_exhausted(&search.budget, "loops");
    }
}

/// Follows frames that come back to the gateway.
struct LoopSearch<'a> {
    checker: &'a Checker<'a>,
    from: &'a BTreeMap<BusIndex, Vec<usize>>,
    budget: Budget,
    /// The first rules of the loops already reported; one loop each is enough.
    reported: BTreeSet<usize>,
}

/// A longer chain of rules is not followed; the hop limit ends it long before.
const LONGEST_CHAIN: usize = 16;

impl LoopSearch<'_> {
    /// Frames of `cube`, which first came in on `origin` and went through the rules of `path`, now
    /// meet `rule`.
    fn follow(&mut self, origin: BusIndex, path: &mut Vec<usize>, rule: usize, cube: Cube) {
        let checker = self.checker;
        let (Some(current), Some(region)) =
            (checker.table.rules.get(rule), checker.regions.get(rule))
        else {
            return;
        };
        if !self.budget.take(region.taken.len() + region.holes.len() + 1) {
            return;
        }
        let Some(taken) = region.part_in(cube, &mut self.budget) else { return };
        if let Some(start) = path.iter().position(|&earlier| earlier == rule) {
            self.tell(path.get(start..).unwrap_or(&[]), taken);
            return;
        }
        if path.len() == LONGEST_CHAIN {
            return;
        }
        path.push(rule);
        let out = rewritten(current, taken, &mut self.budget).unwrap_or_default();
        for &to in &current.to {
            let is_blocked = to == origin && !current.allow_return;
            if is_blocked || !self.comes_back(current, to) {
                continue;
            }
            for &next in self.from.get(&to).map_or(&[][..], Vec::as_slice) {
                let gate = |rule: usize| checker.table.rules.get(rule).map(|rule| rule.gate);
                let fits = |earlier: &usize| match (gate(*earlier), gate(next)) {
                    (Some(a), Some(b)) => gates_meet(a, b),
                    _ => false,
                };
                if path.iter().all(fits) {
                    for &cube in &out {
                        self.follow(origin, path, next, cube);
                    }
                }
            }
        }
        path.pop();
    }

    /// Whether the gateway sees a frame again that `rule` sends to `to`.
    fn comes_back(&self, rule: &Rule, to: BusIndex) -> bool {
        let bus = self.checker.table.buses.get(usize::from(to.0));
        rule.echo || bus.is_some_and(|bus| bus.is_virtual)
    }

    fn tell(&mut self, circle: &[usize], cube: Cube) {
        let checker = self.checker;
        let (at, start) =
            circle.iter().copied().enumerate().min_by_key(|&(_, rule)| rule).unwrap_or((0, 0));
        if !self.reported.insert(start) {
            return;
        }
        let rules = circle.iter().cycle().skip(at).take(circle.len() + 1);
        let names: Vec<_> = rules.map(|&rule| format!("{:?}", checker.rule_name(rule))).collect();
        let max_hops = checker.table.effective_max_hops();
        let passes = counted(max_hops, "pass");
        let message = format!(
            "{} runs in a loop, {}, until max_hops stops it after {passes}",
            show_frames(cube),
            names.join(" -> "),
        );
        let hint = "a frame that is sent with echo or to a virtual bus comes back to the gateway; \
                    exclude it from one of the rules";
        checker.warn(Place::Rule(start, "to"), message, hint);
    }
}

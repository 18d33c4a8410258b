//! Rules that send the same frame to the same bus twice.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, RTR_FLAG};

use super::checker::{BUDGET, Checker, Place, gates_meet};
use super::words::{show_exclusion, show_frames};
use crate::region::{Budget, Cube, Region, rewritten, subtract};
use candor_engine::Rule;
use candor_engine::extension::Conversion;
use candor_engine::extension::payload::Payload;

impl Checker<'_> {
    /// Rules that send the same frame to the same bus twice.
    pub(super) fn overlaps(&self) {
        let mut budget = Budget(BUDGET);
        let mut seen = Seen::default();
        for (later, rule) in self.table.rules.iter().enumerate() {
            if budget.0 == 0 {
                break;
            }
            let Some(region) = self.regions.get(later) else { continue };
            let candidates = seen.candidates(later, region);
            seen.add(later, region);
            let found = candidates.into_iter().find_map(|earlier| {
                if !budget.take(1) {
                    return None;
                }
                let other = self.table.rules.get(earlier)?;
                let shared = rule.to.iter().find(|to| other.to.contains(to))?;
                let is_close = rule.from == other.from
                    && gates_meet(rule.gate, other.gate)
                    && !may_part(rule, other);
                let twice = is_close.then(|| self.same_frame(earlier, later, &mut budget))??;
                Some((earlier, *shared, twice))
            });
            if let Some((earlier, to, frame)) = found {
                let message = format!(
                    "{} goes to `{}` twice: by this rule and by {:?}",
                    show_frames(frame),
                    self.bus_name(to),
                    self.rule_name(earlier),
                );
                let hint = format!(
                    "every matching rule fires, not only the first; exclude the frame from one of \
                     them with {}, or remove one rule",
                    show_exclusion(frame)
                );
                self.warn(Place::Rule(later, "match"), message, hint);
            }
        }
        self.tell_exhausted(&budget, "overlapping rules");
    }

    /// A frame that both rules take and send on with the same identifier.
    fn same_frame(&self, a: usize, b: usize, budget: &mut Budget) -> Option<Cube> {
        let (rule_a, rule_b) = (self.table.rules.get(a)?, self.table.rules.get(b)?);
        let (region_a, region_b) = (self.regions.get(a)?, self.regions.get(b)?);
        let holes: Vec<_> = region_a.holes.iter().chain(&region_b.holes).copied().collect();
        for one in &region_a.taken {
            if !budget.take(region_b.taken.len()) {
                return None;
            }
            for met in region_b.taken.iter().filter_map(|other| one.meet(*other)) {
                let left = subtract([met].into(), &holes, budget)?;
                for cube in left {
                    let out_a = rewritten(rule_a, cube, budget)?;
                    let out_b = rewritten(rule_b, cube, budget)?;
                    if !budget.take(out_a.len() * out_b.len()) {
                        return None;
                    }
                    if out_a.iter().any(|a| out_b.iter().any(|b| a.meet(*b).is_some())) {
                        return Some(cube);
                    }
                }
            }
        }
        None
    }
}

/// The rules seen so far, by what they take.
#[derive(Default)]
struct Seen {
    /// Those that take a single identifier, by it.
    single: BTreeMap<u32, Vec<usize>>,
    /// Those that take many.
    wide: Vec<usize>,
}

impl Seen {
    /// The single identifiers that a rule takes, and whether it takes many besides.
    fn parts(region: &Region) -> (BTreeSet<u32>, bool) {
        let single = |cube: &Cube| cube.known & (EFF_FLAG | EFF_MASK) == EFF_FLAG | EFF_MASK;
        let words = region.taken.iter().filter(|cube| single(cube));
        let words = words.map(|cube| cube.value & !RTR_FLAG).collect();
        (words, !region.taken.iter().all(single))
    }

    /// The rules before `later` that may take a frame of `region`, in their order.
    fn candidates(&self, later: usize, region: &Region) -> Vec<usize> {
        let (words, is_wide) = Self::parts(region);
        if is_wide {
            return (0..later).collect();
        }
        let sharing = words.iter().filter_map(|word| self.single.get(word)).flatten();
        let all: BTreeSet<usize> = sharing.chain(&self.wide).copied().collect();
        all.into_iter().collect()
    }

    fn add(&mut self, rule: usize, region: &Region) {
        let (words, is_wide) = Self::parts(region);
        for word in words {
            self.single.entry(word).or_default().push(rule);
        }
        if is_wide {
            self.wide.push(rule);
        }
    }
}

/// Whether the rules may take different frames of the same identifier, or make different frames of
/// one in a way that identifiers do not tell.
fn may_part(a: &Rule, b: &Rule) -> bool {
    let is_choosy = |rule: &Rule| rule.extension.payload != Payload::default();
    let changes_kind = |rule: &Rule| rule.extension.convert.map(Conversion::is_fd);
    is_choosy(a) || is_choosy(b) || changes_kind(a) != changes_kind(b)
}

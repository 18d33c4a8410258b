//! The explanation as JSON.

use candor_engine::Bus;
use candor_rules::explain::{self, Explained, Pass, Taken};

use super::words::reason;
use super::{Met, Named, Scene, steps, taken};
use crate::json::lines;

impl Scene<'_> {
    pub(super) fn json(&self) -> Result<String, String> {
        let first = self.explanation.passes.first();
        let verdict = first.and_then(|Pass { bus, frame, .. }| {
            Some((self.bus(*bus)?, frame, self.fate(), self.named(*bus, frame)))
        });
        let rules = (1..).zip(&self.explanation.passes).flat_map(|(number, pass)| {
            pass.rules.iter().filter_map(move |explained| self.met(number, pass, explained))
        });
        Ok(lines(verdict)? + &lines(rules)?)
    }

    fn met<'s>(
        &'s self,
        number: usize,
        pass: &'s Pass,
        explained: &'s Explained,
    ) -> Option<Met<'s>> {
        let rule = self.rule(explained)?;
        let taken = taken(explained);
        let copies = taken.map_or(&[][..], |taken| &taken.copies).iter();
        Some(Met {
            number,
            bus: self.bus(pass.bus)?,
            pass,
            rule,
            taken,
            reason: reason(rule, &explained.verdict),
            steps: taken.map_or_else(Vec::new, |taken| steps(&pass.frame, taken)),
            copies: copies.filter_map(|copy| self.copy(copy, taken?)).collect(),
        })
    }

    fn copy<'s>(
        &'s self,
        copy: &'s explain::Copy,
        taken: &'s Taken,
    ) -> Option<(&'s Bus, &'s explain::Copy, Named<'s>)> {
        let result = taken.result.as_ref().ok();
        let named = result.map_or_else(Named::default, |result| self.named(copy.to, result));
        Some((self.bus(copy.to)?, copy, named))
    }
}

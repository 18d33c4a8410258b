//! The explanation as JSON.

use candor_engine::BusIndex;
use candor_rules::explain::{self, Explained, Pass, Taken};
use candor_wire::can::Frame;

use super::words::reason;
use super::{Scene, steps, taken};
use crate::json::explain_rule::{Copy, ExplainRule};
use crate::json::explain_verdict::ExplainVerdict;
use crate::json::lines;
use crate::json::signal::Signal;

impl Scene<'_> {
    pub(super) fn json(&self) -> Result<String, String> {
        let rules = (1..).zip(&self.explanation.passes).flat_map(|(number, pass)| {
            pass.rules.iter().filter_map(move |explained| self.object(number, pass, explained))
        });
        Ok(format!("{}{}", lines(self.verdict())?, lines(rules)?))
    }

    fn verdict(&self) -> Option<ExplainVerdict<'_>> {
        let Pass { bus, frame, .. } = self.explanation.passes.first()?;
        let fate = self.fate();
        let (message, signals) = self.signals(*bus, frame);
        Some(ExplainVerdict {
            bus: &self.bus(*bus)?.name,
            frame: frame.to_string(),
            verdict: fate.word,
            text: fate.text,
            message,
            signals,
        })
    }

    fn object(&self, number: usize, pass: &Pass, explained: &Explained) -> Option<ExplainRule<'_>> {
        let rule = self.rule(explained)?;
        let taken = taken(explained);
        let copies = taken.map_or(&[][..], |taken| &taken.copies).iter();
        Some(ExplainRule {
            pass: number,
            bus: &self.bus(pass.bus)?.name,
            frame: pass.frame.to_string(),
            rule: &rule.name,
            line: rule.position.0,
            column: rule.position.1,
            taken: taken.is_some(),
            reason: reason(rule, &explained.verdict),
            list: taken.map(|taken| taken.list.into()),
            steps: taken.map_or_else(Vec::new, |taken| steps(&pass.frame, taken)),
            result: taken.and_then(|taken| Some(taken.result.ok()?.to_string())),
            copies: copies.filter_map(|copy| self.copy(copy, taken?)).collect(),
        })
    }

    fn copy(&self, copy: &explain::Copy, taken: &Taken) -> Option<Copy<'_>> {
        let bus = self.bus(copy.to)?;
        let (message, signals) =
            taken.result.map_or((None, Vec::new()), |result| self.signals(copy.to, &result));
        Some(Copy {
            bus: &bus.name,
            interface: &bus.port,
            refused: copy.refused.map(|cause| cause.name()),
            hops_left: copy.hops_left,
            next_pass: copy.pass.map(|pass| pass + 1),
            message,
            signals,
        })
    }

    fn signals(&self, bus: BusIndex, frame: &Frame) -> (Option<String>, Vec<Signal<String>>) {
        let Some((message, values)) = self.decode(bus, frame) else { return (None, Vec::new()) };
        (Some(message.to_owned()), values.iter().map(Signal::new).collect())
    }
}

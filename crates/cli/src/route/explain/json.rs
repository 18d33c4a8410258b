//! The explanation as JSON.

use candor_route::BusIndex;
use candor_route::explain::{Copy, Explained, Pass, Taken};
use candor_wire::Frame;
use serde::Serialize;

use super::words::{StepLine, list_name, reason};
use super::{Scene, steps, taken};
use crate::route::json_lines;

impl Scene<'_> {
    pub(super) fn json(&self) -> Result<String, String> {
        let rules = (1..).zip(&self.explanation.passes).flat_map(|(number, pass)| {
            let line = move |explained| Some(Line::Rule(self.line(number, pass, explained)?));
            pass.rules.iter().filter_map(line)
        });
        json_lines(self.verdict().map(Line::Verdict).into_iter().chain(rules))
    }

    fn verdict(&self) -> Option<VerdictLine<'_>> {
        let Pass { bus, frame, .. } = self.explanation.passes.first()?;
        let fate = self.fate();
        let (message, signals) = self.signals(*bus, frame);
        Some(VerdictLine {
            bus: &self.bus(*bus)?.name,
            frame: frame.to_string(),
            verdict: fate.word,
            text: fate.text,
            message,
            signals,
        })
    }

    fn line(&self, number: usize, pass: &Pass, explained: &Explained) -> Option<RuleLine<'_>> {
        let rule = self.rule(explained)?;
        let taken = taken(explained);
        let copies = taken.map_or(&[][..], |taken| &taken.copies).iter();
        Some(RuleLine {
            pass: number,
            bus: &self.bus(pass.bus)?.name,
            frame: pass.frame.to_string(),
            rule: &rule.name,
            line: rule.position.0,
            column: rule.position.1,
            taken: taken.is_some(),
            reason: reason(rule, &explained.verdict),
            list: taken.map(|taken| list_name(taken.list)),
            steps: taken.map_or_else(Vec::new, |taken| steps(&pass.frame, taken)),
            result: taken.and_then(|taken| Some(taken.result.ok()?.to_string())),
            copies: copies.filter_map(|copy| self.copy(copy, taken?)).collect(),
        })
    }

    fn copy(&self, copy: &Copy, taken: &Taken) -> Option<CopyLine<'_>> {
        let bus = self.bus(copy.to)?;
        let (message, signals) =
            taken.result.map_or((None, Vec::new()), |result| self.signals(copy.to, &result));
        Some(CopyLine {
            bus: &bus.name,
            interface: &bus.port,
            refused: copy.refused.map(|cause| cause.name()),
            hops_left: copy.hops_left,
            next_pass: copy.pass.map(|pass| pass + 1),
            message,
            signals,
        })
    }

    fn signals(&self, bus: BusIndex, frame: &Frame) -> (Option<String>, Vec<SignalLine>) {
        let Some((message, values)) = self.decode(bus, frame) else { return (None, Vec::new()) };
        let line = |decoded: &candor_signals::Decoded<'_>| SignalLine {
            name: decoded.signal.name.clone(),
            value: decoded.physical,
            unit: decoded.signal.unit.clone(),
            text: decoded.value_name().map(str::to_owned),
        };
        (Some(message.to_owned()), values.iter().map(line).collect())
    }
}

#[derive(Serialize)]
#[serde(tag = "type", content = "data", rename_all = "lowercase")]
enum Line<'a> {
    Verdict(VerdictLine<'a>),
    Rule(RuleLine<'a>),
}

#[derive(Serialize)]
struct VerdictLine<'a> {
    bus: &'a str,
    frame: String,
    verdict: &'static str,
    text: String,
    message: Option<String>,
    signals: Vec<SignalLine>,
}

#[derive(Serialize)]
struct RuleLine<'a> {
    pass: usize,
    bus: &'a str,
    frame: String,
    rule: &'a str,
    line: u32,
    column: u32,
    taken: bool,
    reason: String,
    list: Option<&'static str>,
    steps: Vec<StepLine>,
    result: Option<String>,
    copies: Vec<CopyLine<'a>>,
}

#[derive(Serialize)]
struct CopyLine<'a> {
    bus: &'a str,
    interface: &'a str,
    refused: Option<&'static str>,
    hops_left: u8,
    next_pass: Option<usize>,
    message: Option<String>,
    signals: Vec<SignalLine>,
}

#[derive(Serialize)]
struct SignalLine {
    name: String,
    value: f64,
    unit: String,
    text: Option<String>,
}

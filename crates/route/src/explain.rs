//! [`explain`]: what the rules do with one frame, and why, as plain data.

use alloc::vec::Vec;

use candor_wire::Frame;
use candor_wire::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG};

use crate::beyond::action;
use crate::cause::Cause;
use crate::edit::{Step, TooLong};
use crate::table::List;
use crate::{BusIndex, Filter, Rule, Table};

/// What becomes of a frame that came in fresh on a bus.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Every rule of the bus, in the order in which the kernel meets them: by receive list, within
    /// a list as written.
    pub rules: Vec<Explained>,
}

/// What one rule does with the frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The index of the rule in its table.
    pub rule: usize,
    /// Whether it takes the frame, and what then happens.
    pub verdict: Verdict,
}

/// Whether a rule takes a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// No: the rule is for the other kind, classical or CAN FD.
    OtherKind,
    /// No: none of its filters matches; each with the first reason why.
    NoFilter(Vec<(Filter, Mismatch)>),
    /// No: this filter matches, but that exclusion does too.
    Excluded(Filter, Filter),
    /// No: a filter matches, but the rule takes other data or lengths.
    OtherPayload(Filter),
    /// Yes.
    Taken(Taken),
}

/// Why a filter does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The frame is an error report, or the filter asks for one.
    ErrorReport,
    /// The filter wants the other length of identifier.
    IdLength,
    /// The filter wants a remote frame and this is none, or the other way round.
    Remote,
    /// These bits of the identifier differ.
    Bits(u32),
    /// The filter is inverted, and what it excludes matches.
    Inverted,
}

/// How a frame goes through a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The filter that matched.
    pub filter: Filter,
    /// The kernel's receive list it is in.
    pub list: List,
    /// Each step of the edit.
    pub steps: Vec<Step>,
    /// The frame after the edit.
    pub result: Result<Frame, Cause>,
    /// Where copies go.
    pub copies: Vec<Copy>,
}

/// A copy and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The destination.
    pub to: BusIndex,
    /// Why it does not go there.
    pub refused: Option<Cause>,
    /// How often the gateway passes the copy on again, should it come back.
    pub hops_left: u8,
}

/// Explains what the rules of `table` do with `frame`, fresh from `bus`.
#[must_use]
pub fn explain(table: &Table, bus: BusIndex, frame: &Frame) -> Explanation {
    let of_bus = table.rules.iter().enumerate().filter(|(_, rule)| rule.from == bus);
    let mut rules: Vec<(List, Explained)> = of_bus
        .map(|(index, rule)| {
            let verdict = verdict(table, rule, frame);
            let list = match &verdict {
                Verdict::Taken(taken) => taken.list,
                _ => filters(rule).iter().map(|filter| filter.list()).min().unwrap_or(List::All),
            };
            (list, Explained { rule: index, verdict })
        })
        .collect();
    rules.sort_by_key(|&(list, _)| list);
    Explanation { rules: rules.into_iter().map(|(_, explained)| explained).collect() }
}

const ANY: [Filter; 1] = [Filter::ANY];

/// The filters of a rule, the unwritten one included.
fn filters(rule: &Rule) -> &[Filter] {
    if rule.filters.is_empty() { &ANY } else { &rule.filters }
}

fn verdict(table: &Table, rule: &Rule, frame: &Frame) -> Verdict {
    if !rule.gate.takes(frame) {
        return Verdict::OtherKind;
    }
    let can_id = frame.can_id();
    let matching = filters(rule).iter().filter(|filter| filter.matches(can_id));
    let Some(&filter) = matching.min_by_key(|filter| filter.list()) else {
        let reason = |&filter: &Filter| Some((filter, mismatch(filter, can_id)?));
        return Verdict::NoFilter(filters(rule).iter().filter_map(reason).collect());
    };
    if let Some(&except) = rule.except.iter().find(|except| except.matches(can_id)) {
        return Verdict::Excluded(filter, except);
    }
    if !rule.beyond.payload.takes(frame) {
        return Verdict::OtherPayload(filter);
    }
    let mut steps = Vec::new();
    let result = result(rule, frame, &mut steps);
    let copies = rule.to.iter().map(|&to| copy(table, rule, to, result)).collect();
    Verdict::Taken(Taken { filter, list: filter.list(), steps, result, copies })
}

/// What the rule makes of the first frame that it takes.
fn result(rule: &Rule, frame: &Frame, steps: &mut Vec<Step>) -> Result<Frame, Cause> {
    let actions = &rule.beyond.actions;
    let rewritten = match actions.is_empty() {
        true => {
            rule.edit.apply_traced(frame, |step| steps.push(step)).map_err(|TooLong| Cause::TooLong)
        }
        false => action::run(actions, frame, 0, |step| steps.push(step)),
    }?;
    let Some(conversion) = rule.beyond.convert else { return Ok(rewritten) };
    let converted = conversion.apply(&rewritten).map_err(|_| Cause::Unconvertible)?;
    if converted.is_fd() != rewritten.is_fd() {
        steps.push(Step::Converted(converted.is_fd()));
    }
    Ok(converted)
}

/// The copy for one destination. A fresh frame has not been passed on yet, so the hop limit does
/// not refuse it; it only bounds what may follow.
fn copy(table: &Table, rule: &Rule, to: BusIndex, result: Result<Frame, Cause>) -> Copy {
    let max_hops = table.effective_max_hops();
    let refused =
        if to == rule.from && !rule.allow_return { Some(Cause::Returning) } else { result.err() };
    let hops_left = rule.limit_hops.unwrap_or(max_hops).min(max_hops).saturating_sub(1);
    Copy { to, refused, hops_left }
}

/// The first reason why `filter` does not match; `None` if it does.
#[must_use]
pub fn mismatch(filter: Filter, can_id: u32) -> Option<Mismatch> {
    if filter.matches(can_id) {
        return None;
    }
    if (filter.mask | can_id) & ERR_FLAG != 0 {
        return Some(Mismatch::ErrorReport);
    }
    let Filter { can_id: wanted, mask, inverted } = filter.normalized();
    let differing = (can_id ^ wanted) & mask;
    Some(if inverted {
        Mismatch::Inverted
    } else if differing & EFF_FLAG != 0 {
        Mismatch::IdLength
    } else if differing & RTR_FLAG != 0 {
        Mismatch::Remote
    } else {
        Mismatch::Bits(differing & EFF_MASK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Outcome;
    use crate::edit::{Edit, Operands, Operator};
    use crate::engine::{Engine, Forward, Passage};
    use crate::{Bus, Gate};
    use alloc::vec;
    use candor_time::Nanos;

    const A: BusIndex = BusIndex(0);
    const B: BusIndex = BusIndex(1);

    fn table() -> Table {
        let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
        let masked = Filter { can_id: 0x120, mask: 0xC000_07F0, inverted: false };
        let edit = Edit {
            set: Operands { can_id: Some(0x321), ..Operands::default() },
            ..Edit::default()
        };
        Table {
            buses: vec![bus("a"), bus("b")],
            rules: vec![
                Rule { filters: vec![Filter::standard(0x123)], edit, ..Rule::new("single", A, B) },
                Rule { filters: vec![masked], limit_hops: Some(2), ..Rule::new("masked", A, B) },
                Rule { gate: Gate::Fd, ..Rule::new("fd", A, B) },
                Rule { except: vec![Filter::standard(0x123)], ..Rule::new("except", A, B) },
                Rule { to: vec![A, B], ..Rule::new("all", A, B) },
                Rule::new("other bus", B, A),
            ],
            max_hops: 3,
            refuses_others: false,
        }
    }

    #[test]
    fn rules_are_explained_in_the_order_in_which_they_fire() {
        let explanation = explain(&table(), A, &"123#11".parse().unwrap());
        let order: Vec<_> = explanation.rules.iter().map(|explained| explained.rule).collect();
        assert_eq!(order, [2, 3, 4, 1, 0]);
        let [fd, except, all, masked, single] = &explanation.rules[..] else { panic!() };
        assert_eq!(fd.verdict, Verdict::OtherKind);
        assert_eq!(except.verdict, Verdict::Excluded(Filter::ANY, Filter::standard(0x123)));
        let Verdict::Taken(all) = &all.verdict else { panic!() };
        assert_eq!(
            all.copies,
            [
                Copy { to: A, refused: Some(Cause::Returning), hops_left: 2 },
                Copy { to: B, refused: None, hops_left: 2 }
            ]
        );
        let Verdict::Taken(masked) = &masked.verdict else { panic!() };
        assert_eq!((masked.list, masked.copies[0].hops_left), (List::Masked, 1));
        let Verdict::Taken(single) = &single.verdict else { panic!() };
        assert_eq!(single.steps, [Step::Id(Operator::Set, 0x123, 0x321)]);
        assert_eq!(single.result, Ok("321#11".parse().unwrap()));
    }

    #[test]
    fn what_is_explained_is_what_the_engine_does() {
        let mut engine = Engine::new(&table());
        for text in ["123#11", "124#", "123#R", "00000123#", "123##011", "20000004#00"] {
            let frame = text.parse().unwrap();
            let mut told = Vec::new();
            for explained in explain(&table(), A, &frame).rules {
                let Verdict::Taken(taken) = explained.verdict else { continue };
                let out = taken.result.unwrap();
                let sent = taken.copies.iter().filter(|copy| copy.refused.is_none());
                told.extend(sent.map(|copy| (copy.to, out, 3 - copy.hops_left)));
            }
            let mut done = Vec::new();
            engine.handle(Nanos::ZERO, A, &frame, Passage::received_on(A), &mut |copy: Forward<
                '_,
            >| {
                done.push((copy.to, *copy.frame, copy.passage.hops));
                Outcome::Handled
            });
            assert_eq!(told, done, "{text}");
        }
    }

    #[test]
    fn a_filter_tells_why_it_does_not_match() {
        let inverted = Filter { inverted: true, ..Filter::standard(0x123) };
        for (filter, can_id, reason) in [
            (Filter::standard(0x123), 0x123, None),
            (Filter::standard(0x123), 0x121, Some(Mismatch::Bits(2))),
            (Filter::standard(0x123), 0x8000_0123, Some(Mismatch::IdLength)),
            (Filter::standard(0x123), 0x4000_0123, Some(Mismatch::Remote)),
            (Filter::ANY, 0x2000_0004, Some(Mismatch::ErrorReport)),
            (inverted, 0x123, Some(Mismatch::Inverted)),
        ] {
            assert_eq!(mismatch(filter, can_id), reason, "{filter:x?} {can_id:x}");
        }
    }
}

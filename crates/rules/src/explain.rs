//! [`explain`]: what the rules do with one frame, and why, as plain data.

use alloc::vec::Vec;

use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG};

use candor_causes::Cause;
use candor_engine::Passage;
use candor_engine::edit::{Step, TooLong};
use candor_engine::extension::action;
use candor_engine::table::List;
use candor_engine::{BusIndex, Filter, Rule, Table};

/// What becomes of a frame that came in fresh on a bus.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The frame as it came in, then its copies that come back to the gateway, in the order in which
    /// they are sent.
    pub passes: Vec<Pass>,
    /// Whether there are more than [`MOST_PASSES`], which are left out.
    pub is_cut: bool,
}

/// How many passes are explained at most: rules that copy and send back may make very many.
pub const MOST_PASSES: usize = 256;

/// A frame that meets the rules of a bus.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// The bus.
    pub bus: BusIndex,
    pub frame: Frame,
    /// Where it first came in, and how often it was passed on.
    pub passage: Passage,
    /// Every rule of the bus, as written.
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
    /// Whether it comes back, being sent with echo: the index of its pass.
    pub pass: Option<usize>,
}

/// Explains what the rules of `table` do with `frame`, fresh from `bus`, and with each copy that
/// comes back to the gateway.
#[must_use]
pub fn explain(table: &Table, bus: BusIndex, frame: &Frame) -> Explanation {
    let mut passes = Vec::from([pass(table, bus, *frame, Passage::received_on(bus))]);
    let (mut at, mut is_cut) = (0, false);
    while let (next, Some(current)) = (passes.len(), passes.get_mut(at)) {
        at += 1;
        let mut back = Vec::new();
        let origin = current.passage.origin;
        for explained in &mut current.rules {
            let rule = table.rules.get(explained.rule).filter(|rule| rule.echo);
            let (Some(_), Verdict::Taken(taken)) = (rule, &mut explained.verdict) else { continue };
            let Ok(frame) = taken.result else { continue };
            for copy in taken.copies.iter_mut().filter(|copy| copy.refused.is_none()) {
                if next + back.len() == MOST_PASSES {
                    is_cut = true;
                    break;
                }
                copy.pass = Some(next + back.len());
                let hops = table.effective_max_hops().saturating_sub(copy.hops_left);
                back.push((copy.to, frame, Passage { origin, hops }));
            }
        }
        let back = back.into_iter().map(|(bus, frame, passage)| pass(table, bus, frame, passage));
        passes.extend(back);
    }
    Explanation { passes, is_cut }
}

fn pass(table: &Table, bus: BusIndex, frame: Frame, passage: Passage) -> Pass {
    let of_bus = table.rules.iter().enumerate().filter(|(_, rule)| rule.from == bus);
    let explained =
        |(index, rule)| Explained { rule: index, verdict: verdict(table, rule, &frame, passage) };
    Pass { bus, frame, passage, rules: of_bus.map(explained).collect() }
}

const ANY: [Filter; 1] = [Filter::ANY];

/// The filters of a rule, the unwritten one included.
fn filters(rule: &Rule) -> &[Filter] {
    if rule.filters.is_empty() { &ANY } else { &rule.filters }
}

fn verdict(table: &Table, rule: &Rule, frame: &Frame, passage: Passage) -> Verdict {
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
    if !rule.extension.payload.takes(frame) {
        return Verdict::OtherPayload(filter);
    }
    let mut steps = Vec::new();
    let result = result(rule, frame, &mut steps);
    let copies = rule.to.iter().map(|&to| copy(table, rule, to, result, passage)).collect();
    Verdict::Taken(Taken { filter, list: filter.list(), steps, result, copies })
}

/// What the rule makes of the first frame that it takes.
fn result(rule: &Rule, frame: &Frame, steps: &mut Vec<Step>) -> Result<Frame, Cause> {
    let actions = &rule.extension.actions;
    let rewritten = match actions.is_empty() {
        true => {
            rule.edit.apply_traced(frame, |step| steps.push(step)).map_err(|TooLong| Cause::TooLong)
        }
        false => action::run(actions, frame, 0, |step| steps.push(step)),
    }?;
    let Some(conversion) = rule.extension.convert else { return Ok(rewritten) };
    let converted = conversion.apply(&rewritten).map_err(|_| Cause::Unconvertible)?;
    if converted.is_fd() != rewritten.is_fd() {
        steps.push(Step::Converted(converted.is_fd()));
    }
    Ok(converted)
}

/// The copy for one destination. The hop limit of a rule counts from the first pass, as in the
/// engine.
fn copy(
    table: &Table,
    rule: &Rule,
    to: BusIndex,
    result: Result<Frame, Cause>,
    passage: Passage,
) -> Copy {
    let max_hops = table.effective_max_hops();
    let refused = if passage.hops >= max_hops {
        Some(Cause::HopLimit)
    } else if to == passage.origin && !rule.allow_return {
        Some(Cause::Returning)
    } else {
        result.err()
    };
    let hops = match (passage.hops, rule.limit_hops) {
        (0, Some(limit)) => (max_hops + 1).saturating_sub(limit),
        (hops, _) => hops + 1,
    };
    Copy { to, refused, hops_left: max_hops.saturating_sub(hops), pass: None }
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
    use alloc::vec;
    use candor_engine::counters::Outcome;
    use candor_engine::edit::{Edit, Operands, Operator};
    use candor_engine::{Bus, Gate};
    use candor_engine::{Engine, Forward, Hops};
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
    fn a_conversion_is_a_step_where_it_changes_the_kind() {
        use candor_engine::extension::{Conversion, Extension};
        let extension = Extension { convert: Some(Conversion::Fd), ..Extension::default() };
        let table = Table {
            rules: vec![Rule { extension, gate: Gate::Any, ..Rule::new("fd", A, B) }],
            ..table()
        };
        for (frame, steps) in [("123#11", &[Step::Converted(true)][..]), ("123##011", &[])] {
            let explanation = explain(&table, A, &frame.parse().unwrap());
            let Verdict::Taken(taken) = &explanation.passes[0].rules[0].verdict else { panic!() };
            assert_eq!(taken.steps, steps, "{frame}");
            assert_eq!(taken.result, Ok("123##011".parse().unwrap()));
        }
    }

    #[test]
    fn rules_are_explained_as_they_are_written() {
        let explanation = explain(&table(), A, &"123#11".parse().unwrap());
        let [pass] = &explanation.passes[..] else { panic!() };
        let order: Vec<_> = pass.rules.iter().map(|explained| explained.rule).collect();
        assert_eq!(order, [0, 1, 2, 3, 4]);
        let [single, masked, fd, except, all] = &pass.rules[..] else { panic!() };
        assert_eq!(fd.verdict, Verdict::OtherKind);
        assert_eq!(except.verdict, Verdict::Excluded(Filter::ANY, Filter::standard(0x123)));
        let Verdict::Taken(all) = &all.verdict else { panic!() };
        assert_eq!(
            all.copies,
            [
                Copy { to: A, refused: Some(Cause::Returning), hops_left: 2, pass: None },
                Copy { to: B, refused: None, hops_left: 2, pass: None }
            ]
        );
        let Verdict::Taken(masked) = &masked.verdict else { panic!() };
        assert_eq!((masked.list, masked.copies[0].hops_left), (List::Masked, 1));
        let Verdict::Taken(single) = &single.verdict else { panic!() };
        assert_eq!(single.steps, [Step::Id(Operator::Set, 0x123, 0x321)]);
        assert_eq!(single.result, Ok("321#11".parse().unwrap()));
    }

    #[test]
    fn error_reports_match_by_their_classes_only() {
        let filter = |mask| Filter { can_id: 0, mask, inverted: false };
        for (filter, can_id, reason) in [
            (filter(0x2000_0004), 0x2000_0004, None),
            (filter(0x2000_0008), 0x2000_0004, Some(Mismatch::ErrorReport)),
            (filter(0x2000_0008), 0x008, Some(Mismatch::ErrorReport)),
            (Filter::standard(4), 0x2000_0004, Some(Mismatch::ErrorReport)),
        ] {
            assert_eq!(mismatch(filter, can_id), reason, "{filter:?} {can_id:x}");
        }
    }

    /// What the engine sends for a frame and for each copy that comes back: where, what, hops.
    fn sent_by_engine(table: &Table, frame: Frame) -> Vec<(BusIndex, Frame, u8)> {
        let mut engine = Engine::new(table);
        let mut sent = Vec::new();
        let hops = &mut Hops::default();
        engine.follow(Nanos::ZERO, A, &frame, hops, &mut |copy: Forward<'_>| {
            sent.push((copy.to, *copy.frame, copy.passage.hops));
            Outcome::Handled
        });
        sent.sort_by_key(|&(to, frame, hops)| (hops, to, frame.can_id()));
        sent
    }

    fn explained(table: &Table, frame: Frame) -> Vec<(BusIndex, Frame, u8)> {
        let mut sent = Vec::new();
        for pass in explain(table, A, &frame).passes {
            for explained in pass.rules {
                let Verdict::Taken(taken) = explained.verdict else { continue };
                let copies = taken.copies.iter().filter(|copy| copy.refused.is_none());
                let hops = |copy: &Copy| table.effective_max_hops() - copy.hops_left;
                sent.extend(copies.map(|copy| (copy.to, taken.result.unwrap(), hops(copy))));
            }
        }
        sent.sort_by_key(|&(to, frame, hops)| (hops, to, frame.can_id()));
        sent
    }

    #[test]
    fn what_is_explained_is_what_the_engine_does() {
        for text in ["123#11", "124#", "123#R", "00000123#", "123##011", "20000004#00"] {
            let frame = text.parse().unwrap();
            assert_eq!(explained(&table(), frame), sent_by_engine(&table(), frame), "{text}");
        }
    }

    /// Frames go from a over two virtual buses to b, and get another identifier at each.
    fn chain(max_hops: u8) -> Table {
        let bus = |name: &str, is_virtual| Bus { name: name.into(), port: name.into(), is_virtual };
        let rule = |from: u16, to: u16, id: u32, echo| {
            let set = Operands { can_id: Some(id), ..Operands::default() };
            let edit = Edit { set, ..Edit::default() };
            let name = alloc::format!("{from} to {to}");
            Rule { edit, echo, ..Rule::new(name, BusIndex(from), BusIndex(to)) }
        };
        Table {
            buses: vec![bus("a", false), bus("b", false), bus("v", true), bus("w", true)],
            rules: vec![rule(2, 3, 0x102, true), rule(0, 2, 0x101, true), rule(3, 1, 0x103, false)],
            max_hops,
            refuses_others: false,
        }
    }

    #[test]
    fn chains_are_followed_to_their_end() {
        let frame = "100#11".parse().unwrap();
        let explanation = explain(&chain(3), A, &frame);
        let frames: Vec<_> =
            explanation.passes.iter().map(|pass| (pass.bus.0, pass.frame.can_id())).collect();
        assert_eq!(frames, [(0, 0x100), (2, 0x101), (3, 0x102)]);
        let Verdict::Taken(last) = &explanation.passes[2].rules[0].verdict else { panic!() };
        assert_eq!((last.copies[0].to, last.copies[0].refused), (B, None));
        for max_hops in 1..=4 {
            let table = chain(max_hops);
            assert_eq!(explained(&table, frame), sent_by_engine(&table, frame), "{max_hops} hops");
        }
        // One hop too few.
        let explanation = explain(&chain(2), A, &frame);
        let Verdict::Taken(last) = &explanation.passes[2].rules[0].verdict else { panic!() };
        assert_eq!(last.copies[0].refused, Some(Cause::HopLimit));
    }

    #[test]
    fn an_explanation_has_an_end() {
        let echoing = |name: &str| Rule {
            to: vec![B, B, B, B],
            echo: true,
            allow_return: true,
            ..Rule::new(name, B, B)
        };
        let table = Table { rules: vec![echoing("x"), echoing("y")], max_hops: 6, ..chain(6) };
        let explanation = explain(&table, B, &"123#".parse().unwrap());
        assert_eq!((explanation.passes.len(), explanation.is_cut), (MOST_PASSES, true));
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

    #[test]
    fn copies_name_the_pass_in_which_they_come_back() {
        let rules = vec![Rule { to: vec![B, B], echo: true, ..Rule::new("twice", A, B) }];
        let explanation = explain(&Table { rules, ..table() }, A, &"123#".parse().unwrap());
        let Verdict::Taken(taken) = &explanation.passes[0].rules[0].verdict else { panic!() };
        let passes: Vec<_> = taken.copies.iter().map(|copy| copy.pass).collect();
        assert_eq!((explanation.passes.len(), passes), (3, vec![Some(1), Some(2)]));
    }
}

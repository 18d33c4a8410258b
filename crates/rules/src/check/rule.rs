//! One rule by itself: where its copies go, what it takes, what it changes.

use alloc::format;
use alloc::string::ToString;

use candor_diagnostics::counted;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, SFF_MASK};

use super::checker::{Checker, Place};
use super::words::show_word;
use crate::pattern;
use crate::region::{Budget, Cube, edited};
use candor_engine::edit::{Operator, Range};
use candor_engine::extension::Action;
use candor_engine::extension::payload::Payload;
use candor_engine::table::List;
use candor_engine::{Filter, Gate, Rule};

/// One rule under examination.
pub(super) struct Subject<'a> {
    pub(super) index: usize,
    pub(super) rule: &'a Rule,
    pub(super) checker: &'a Checker<'a>,
}

impl Subject<'_> {
    fn at(&self, key: &'static str) -> Place {
        Place::Rule(self.index, key)
    }

    /// Where copies go and how often.
    pub(super) fn ways(&self) {
        let Self { rule, checker, .. } = self;
        if rule.to.contains(&rule.from) && !rule.allow_return {
            let message = format!(
                "`{}` is source and destination, but a frame is not sent back to the bus that it \
                 came from",
                checker.bus_name(rule.from)
            );
            let hint = "name another destination; or use `allow_return = true` to send frames \
                        back to the bus that they came from";
            checker.error(self.at("to"), message, hint);
        }
        for (at, &to) in rule.to.iter().enumerate() {
            let name = checker.bus_name(to);
            if rule.to.iter().take(at).any(|&earlier| earlier == to) {
                let message = format!("`{name}` is listed twice and gets each frame twice");
                checker.warn(self.at("to"), message, "list each bus only once");
            }
            let bus = checker.table.buses.get(usize::from(to.0));
            if bus.is_some_and(|bus| bus.is_virtual) && !rule.echo {
                let message =
                    format!("virtual bus `{name}` discards frames that are sent without echo");
                checker.warn(self.at("to"), message, "add `echo = true`");
            }
        }
        let max_hops = checker.table.effective_max_hops();
        if let Some(hops) = rule.limit_hops.filter(|&hops| hops == 0 || hops > max_hops) {
            let message = format!("limit_hops is {hops}, but max_hops is {max_hops}");
            let hint =
                format!("raise max_hops to {hops}; on Linux: modprobe can-gw max_hops={hops}");
            checker.error(self.at("limit_hops"), message, hint);
        }
    }

    pub(super) fn matching(&self) {
        let Self { rule, checker, index } = self;
        let takes_all = rule.filters.is_empty() && rule.except.is_empty();
        if checker.table.refuses_others && takes_all && rule.extension.payload == Payload::default()
        {
            let message = "this rule allows every frame of its bus".to_string();
            let hint = "with default = \"refuse\", rules list what is allowed: add `match` to say \
                        which frames";
            checker.warn(self.at("match"), message, hint);
        }
        let takes_errors = rule.gate != Gate::Fd
            && rule
                .filters
                .iter()
                .any(|filter| filter.list() == List::Error && filter.mask & EFF_MASK != 0);
        let mut budget = Budget(100_000);
        let is_empty =
            checker.regions.get(*index).is_some_and(|region| region.is_empty(&mut budget));
        if is_empty && !takes_errors {
            let hint = if !rule.except.is_empty() {
                "the exclusions cover everything that the other patterns take"
            } else if rule.gate == Gate::Fd {
                "CAN FD has no remote frames and no error reports"
            } else {
                "an error report needs at least one class bit in its mask"
            };
            checker.warn(self.at("match"), "this rule can never match".to_string(), hint);
        }
    }

    /// Filters that ask for a standard identifier of more than 11 bits, which no pattern in words
    /// does.
    pub(super) fn cut_filters(&self) {
        let Self { rule, checker, .. } = self;
        let is_cut = |filter: &&Filter| {
            filter.mask & ERR_FLAG == 0
                && filter.mask & EFF_FLAG != 0
                && filter.can_id & EFF_FLAG == 0
                && filter.can_id & filter.mask & EFF_MASK & !SFF_MASK != 0
        };
        if let Some(filter) = rule.filters.iter().chain(&rule.except).find(is_cut) {
            let shown = pattern::show_raw(*filter);
            let cut = pattern::show(filter.normalized());
            let message = format!("`{shown}` lacks the flag of extended identifiers and is {cut}");
            let extended = Filter { can_id: filter.can_id | EFF_FLAG, ..*filter };
            let hint = format!("for an extended identifier, write {}", pattern::show_raw(extended));
            checker.warn(self.at("match"), message, hint);
        }
    }

    pub(super) fn operations(&self) {
        let Self { rule, checker, .. } = self;
        self.steps();
        let set = &rule.edit.set;
        for operator in [Operator::And, Operator::Or, Operator::Xor] {
            let operands = rule.edit.operands(operator);
            for (field, is_replaced) in [
                ("id", operands.can_id.is_some() && set.can_id.is_some()),
                ("length", operands.len.is_some() && set.len.is_some()),
                ("flags", operands.flags.is_some() && set.flags.is_some()),
                ("data", operands.data.is_some() && set.data.is_some()),
            ] {
                if is_replaced {
                    let name = operator.name();
                    let message = format!("`{name}` on {field} has no effect, `set` replaces it");
                    let hint = "the operations always run in the order and, or, xor, set";
                    checker.warn(self.at(name), message, hint);
                }
            }
        }
        let longest = if rule.gate == Gate::Fd { 64 } else { 15 };
        if let Some(len) = set.len.filter(|&len| len > longest) {
            let message = format!("length {len} is more than {longest}, so every frame is deleted");
            let hint = "classical frames have up to 8 bytes (raw DLC 9 to 15), CAN FD frames up \
                        to 64";
            checker.warn(self.at("set"), message, hint);
        }
        self.lost_flag();
    }

    /// Steps that count frames or protect them, of rules for more than one identifier.
    fn steps(&self) {
        let Self { rule, checker, .. } = self;
        let protects = |action: &&Action| matches!(action, Action::E2e(_));
        let Some(protects) = rule.extension.actions.iter().position(|action| protects(&action))
        else {
            return;
        };
        let after = rule.extension.actions.get(protects + 1..).unwrap_or_default();
        let writes = |action: &&Action| {
            !matches!(action, Action::Remap(_) | Action::E2e(_))
                && !matches!(action, Action::Operate(_, it) if it.data.is_none() && it.len.is_none())
        };
        if let Some(action) = after.iter().find(writes) {
            let message = format!("`{}` after `e2e` makes the checksum wrong", action.key());
            let hint = "make `e2e` the last step";
            checker.warn(self.at("edit"), message, hint);
        }
    }

    /// AND with a plain identifier also clears the flag that makes an identifier extended.
    fn lost_flag(&self) {
        let Self { rule, checker, index } = self;
        let Some(operand) = rule.edit.and.can_id.filter(|operand| operand & EFF_FLAG == 0) else {
            return;
        };
        let extended = Cube { value: EFF_FLAG, known: EFF_FLAG };
        let region = checker.regions.get(*index);
        let Some(taken) = region.and_then(|region| region.part_in(extended, &mut Budget(100_000)))
        else {
            return;
        };
        let after = edited(&rule.edit, taken);
        if after.known & EFF_FLAG == 0
            || after.value & EFF_FLAG != 0
            || rule.edit.set.can_id.is_some()
        {
            return;
        }
        let message = format!(
            "`and` also clears the flag of extended identifiers, so {} becomes {}",
            show_word(taken.example()),
            show_word(after.example()),
        );
        let hint = format!(
            "write \"0x{:X}x\" to keep them extended, or match standard identifiers only",
            operand & EFF_MASK
        );
        checker.warn(self.at("and"), message, hint);
    }

    pub(super) fn checksums(&self) {
        let Self { rule, checker, .. } = self;
        let ranges: [(&str, Option<Range>); 2] = [
            ("crc8", rule.edit.crc8.as_ref().map(|crc8| crc8.range)),
            ("xor_checksum", rule.edit.xor_checksum.as_ref().map(|sum| sum.range)),
        ];
        for (key, range) in ranges {
            let Some(range) = range else { continue };
            if !rule.edit.modifies() {
                let message = format!("`{key}` has no effect in a rule without an operation");
                checker.error(
                    self.at(key),
                    message,
                    "add an operation; `or = { id = \"0x0\" }` changes nothing",
                );
            }
            let Some(len) = rule.edit.set.len else { continue };
            let is_before = |index: i8| index < 0 && i16::from(index) + i16::from(len.min(64)) < 0;
            if [range.from, range.to, range.result].into_iter().any(is_before) {
                let message = format!(
                    "`{key}` is never computed: with {}, one of its indices is before the first \
                     byte",
                    counted(len, "byte")
                );
                checker.warn(self.at(key), message, "count from the start: 0 is the first byte");
            }
        }
    }
}
